"""The GPU model: the parameters of a chip, frozen and checked."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from fractions import Fraction

from gpusim_des.errors import ModelError
from gpusim_des.gpu.change import changed_fields
from gpusim_des.gpu.check import check
from gpusim_des.gpu.parameters import Parameters


@dataclass(frozen=True)
class GPU(Parameters):
    """One GPU. Build it with `gpusim_des.gpu.load_gpu`; change it with `replace` and `slice`.

    Whatever the way, a GPU that breaks a rule of `gpusim_des.gpu.check` is refused with a `ModelError`. Two GPUs are
    equal when all numbers are; where the numbers come from (`sources`) does not matter.

    Examples
    --------
    >>> from gpusim_des.gpu import load_gpu
    >>> gpu = load_gpu("h100-sxm")
    >>> gpu.sms, gpu.sm_period_fs, gpu.pipe("fp64").interval_cycles
    (132, 505051, 2)
    """

    def __post_init__(self) -> None:
        check(self)

    def slice(self, *, sms: int) -> GPU:
        """Return the same GPU with `sms` of its SMs and their share of everything outside the SMs.

        DRAM channels are rounded and at least one; bandwidth, L2 and memory keep their proportion. The dispatch
        interval grows in proportion: with fewer SMs behind one block scheduler, every SM is still fed at the same
        rate. The title says that it is a slice.

        Raises
        ------
        ModelError
            If `sms` is not between 1 and the SMs of this GPU.

        Examples
        --------
        >>> from gpusim_des.gpu import load_gpu
        >>> part = load_gpu("h100-sxm").slice(sms=33)
        >>> part.title, part.dram_channels, part.l2_bytes * 4
        ('NVIDIA H100 SXM5 80 GB (33 of 132 SMs)', 40, 52428800)
        """
        if not isinstance(sms, int) or isinstance(sms, bool) or not 1 <= sms <= self.sms:
            raise ModelError(
                f"slice(sms={sms!r}) of {self.name!r}: must be a whole number from 1 to its {self.sms} SMs"
            )
        if sms == self.sms:
            return self
        share = Fraction(sms, self.sms)
        return dataclasses.replace(
            self,
            title=f"{self.title} ({sms} of {self.sms} SMs)",
            sms=sms,
            dram_channels=max(1, round(self.dram_channels * share)),
            dram_bandwidth_bytes_per_s=round(self.dram_bandwidth_bytes_per_s * share),
            l2_bytes=round(self.l2_bytes * share),
            memory_bytes=round(self.memory_bytes * share),
            dispatch_interval_fs=round(self.dispatch_interval_fs / share),
        )

    def replace(self, **changes: object) -> GPU:
        """Return the same GPU with some parameters changed, checked again.

        A parameter is named by its field or by its key in the file, with or without the table; a value is final, in
        the unit of the field, or a text with a unit. A pipe's parameters are named like ``fp32_lanes``,
        ``fp32_scope`` and ``fp32_latency_cycles``.

        Raises
        ------
        ModelError
            For an unknown parameter (with the nearest known one), a wrong value or a contradiction.

        Examples
        --------
        >>> from gpusim_des.gpu import load_gpu
        >>> gpu = load_gpu("tiny").replace(dram_bandwidth="128 GB/s", fp32_latency_cycles=8)
        >>> gpu.dram_bandwidth_bytes_per_s, gpu.pipe("fp32").latency_cycles
        (128000000000, 8)
        """
        return dataclasses.replace(self, **changed_fields(self, changes))

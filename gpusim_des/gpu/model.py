"""The GPU model: the parameters of a chip, frozen and checked."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from gpusim_des.errors import ModelError
from gpusim_des.gpu.change import changed_fields
from gpusim_des.gpu.check import check
from gpusim_des.gpu.parameters import Parameters

LONGEST_REMARK = 3
"""Changed parameters that a title names; the rest is counted."""


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

        DRAM channels are rounded and at least one; bandwidth, L2 and memory keep their proportion. Where channels so
        become faster or slower, they serve more or less in a batch, for as long as before. The dispatch interval
        grows in proportion: with fewer SMs behind one block scheduler, every SM is still fed at the same rate. The
        title says that it is a slice, and of what; a slice of a slice is one of the whole GPU.

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
        >>> part.slice(sms=4).title
        'NVIDIA H100 SXM5 80 GB (4 of 132 SMs)'
        """
        if not isinstance(sms, int) or isinstance(sms, bool) or not 1 <= sms <= self.sms:
            raise ModelError(
                f"slice(sms={sms!r}) of {self.name!r}: must be a whole number from 1 to its {self.sms} SMs"
            )
        if sms == self.sms:
            return self
        share = Fraction(sms, self.sms)
        channels = max(1, round(self.dram_channels * share))
        faster = share * self.dram_channels / channels
        # Who changed the number of SMs after slicing made another whole.
        whole = self.slice_of[1] if self.slice_of and "sms" not in self.changed else self.sms
        return dataclasses.replace(
            self,
            **_remarks(self, (sms, whole), self.changed),
            sms=sms,
            dram_channels=channels,
            dram_read_batch_bytes=round(self.dram_read_batch_bytes * faster),
            dram_write_batch_bytes=round(self.dram_write_batch_bytes * faster),
            dram_bandwidth_bytes_per_s=round(self.dram_bandwidth_bytes_per_s * share),
            l2_bytes=round(self.l2_bytes * share),
            l2_bandwidth_bytes_per_s=round(self.l2_bandwidth_bytes_per_s * share),
            memory_bytes=round(self.memory_bytes * share),
            dispatch_interval_fs=round(self.dispatch_interval_fs / share),
        )

    def replace(self, **changes: object) -> GPU:
        """Return the same GPU with some parameters changed, checked again; the title says which.

        A parameter is named by its field or by its key in the file, with or without the table; a value is final, in
        the unit of the field, or a text with a unit. A pipe's parameters are named like ``fp32_lanes``,
        ``fp32_scope`` and ``fp32_latency_cycles``. A number of cycles may be given as a time: it becomes the nearest
        whole number of SM cycles, a half rounds up. A title that is given is the title, without remarks.

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
        >>> gpu.title
        'tiny (two SMs, round numbers) (changed: dram_bandwidth_bytes_per_s, fp32_latency_cycles)'
        >>> load_gpu("h100-sxm").replace(dram_latency="400 ns").dram_latency_cycles
        792
        """
        fields, names = changed_fields(self, changes)
        if "title" in fields:
            remarks: dict[str, Any] = {"product": "", "slice_of": None, "changed": ()}
        else:
            remarks = _remarks(self, self.slice_of, tuple(dict.fromkeys((*self.changed, *names))))
        return dataclasses.replace(self, **{**remarks, **fields})


def _remarks(gpu: GPU, slice_of: tuple[int, int] | None, changed: tuple[str, ...]) -> dict[str, Any]:
    """Fields that say what `gpu` is now, and its new title."""
    product = gpu.product or gpu.title
    part = f" ({slice_of[0]} of {slice_of[1]} SMs)" if slice_of else ""
    more = f" and {len(changed) - LONGEST_REMARK} more" if len(changed) > LONGEST_REMARK else ""
    named = f" (changed: {', '.join(changed[:LONGEST_REMARK])}{more})" if changed else ""
    return {"title": product + part + named, "product": product, "slice_of": slice_of, "changed": changed}

"""Roofline: the least time of a kernel, by what each part of the chip has to do for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpusim_des.analytic.arguments import require_amount
from gpusim_des.analytic.latency import Traffic
from gpusim_des.gpu import PIPE_FRACTION, GPULike, load_gpu


@dataclass(frozen=True)
class Roofline:
    """Least time by each part of the chip: no kernel can be faster than the part that is busy longest."""

    ceilings: Mapping[str, float]
    """Part → seconds: ``issue slots``, the pipes (``fp32 pipe``, …), ``load/store units``, ``L2`` and ``DRAM``; parts
    without work are missing."""

    @property
    def seconds(self) -> float:
        """The least time of all: what the busiest part needs."""
        return max(self.ceilings.values(), default=0.0)

    @property
    def limiter(self) -> str:
        """The busiest part; ``none`` where there is no work."""
        return max(self.ceilings, key=lambda part: self.ceilings[part], default="none")


def roofline(
    gpu: GPULike,
    *,
    instructions: Mapping[str, int],
    load_store_cycles: float = 0,
    l2_bytes: float = 0,
    dram_bytes: float = 0,
    kind: Traffic = "read",
) -> Roofline:
    """Least time of a kernel, for every part of the chip as if it were the only limit.

    Parameters
    ----------
    gpu
        A model, or the name or path of one.
    instructions
        Warp instructions by class, as ``launch.counters.instruction_mix`` has them. All of them have to be issued, and
        those of a pipe's class occupy it. What tensor instructions take depends on their shape and is not counted.
    load_store_cycles
        Cycles in the SMs' load/store units: wavefronts of shared memory and of the L1 cache.
    l2_bytes
        Bytes between the SMs and the L2.
    dram_bytes
        Bytes that DRAM moves.
    kind
        Traffic of the DRAM: ``"read"``, ``"write"`` or ``"mixed"``.

    Raises
    ------
    ValueError
        If a number is negative or not finite.
    ModelError
        If there is no such GPU.

    References
    ----------
    Williams, S., Waterman, A. and Patterson, D. (2009). Roofline: An Insightful Visual Performance Model for Multicore
    Architectures. Communications of the ACM 52 (4).

    Examples
    --------
    On ``tiny``, with 4 warp schedulers and 2 load/store units at 1 GHz, 4,000 multiply-adds with two accesses to shared
    memory each are limited by the latter:

    >>> limits = roofline("tiny", instructions={"fp32": 4000, "shared_load": 8000}, load_store_cycles=8000)
    >>> limits.ceilings
    {'issue slots': 3e-06, 'fp32 pipe': 1e-06, 'load/store units': 4e-06}
    >>> limits.seconds, limits.limiter
    (4e-06, 'load/store units')
    """
    model = load_gpu(gpu)
    require_amount(**instructions, load_store_cycles=load_store_cycles, l2_bytes=l2_bytes, dram_bytes=dram_bytes)
    schedulers = model.sms * model.sub_partitions
    ceilings = {"issue slots": sum(instructions.values()) / (schedulers * model.sm_clock_hz)}
    for pipe in model.pipes:
        cycles = instructions.get(pipe.name, 0) * pipe.sustained_interval / PIPE_FRACTION
        ceilings[f"{pipe.name} pipe"] = cycles / ((model.sms if pipe.shared_by_sm else schedulers) * model.sm_clock_hz)
    ceilings["load/store units"] = load_store_cycles / (model.sms * model.sm_clock_hz)
    ceilings["L2"] = l2_bytes / model.l2_bandwidth_bytes_per_s
    ceilings["DRAM"] = float(dram_bytes / (model.dram_bandwidth_bytes_per_s * model.efficiency(kind)))
    return Roofline({part: seconds for part, seconds in ceilings.items() if seconds})

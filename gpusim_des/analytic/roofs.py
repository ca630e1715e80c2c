"""The roofline as a chart: how many operations per second a chip can do for each byte that a kernel moves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from gpusim_des.analytic.arguments import Curve, curve, require_positive
from gpusim_des.analytic.latency import Traffic
from gpusim_des.gpu import PIPE_FRACTION, GPULike, load_gpu
from gpusim_des.gpu.schema import TENSOR_TYPES, suggest
from gpusim_des.grid import WARP_SIZE

BANK_BYTES = 4
ARITHMETIC = ("fp32", "fp64", "fp16", "int", "sfu", "conversion")
OPERATIONS_PER_LANE = {"fp16": 4}
"""A multiply-add is two; a lane of the fp16 pipe takes a pair of halves. Pipes without an entry: two."""
ONE_EACH = ("sfu", "conversion")
"""A special function and a conversion are one operation."""


class CountedTraffic(Protocol):
    """What an intensity needs of a kernel's counters; ``launch.counters`` has it."""

    @property
    def instruction_mix(self) -> Mapping[str, int]:
        """Warp instructions by class."""

    @property
    def sector_bytes(self) -> int:
        """Bytes in all sectors."""


@dataclass(frozen=True)
class Roofs:
    """Peaks of a chip: operations per second of every pipe, bytes per second of every level of memory."""

    compute: Mapping[str, float]
    """Pipe → operations per second, a multiply-add counting as two; ``tensor fp16`` and so on where there are any."""
    memory: Mapping[str, float]
    """``shared`` and ``L1``, ``L2``, ``DRAM`` → bytes per second."""

    def ridge(self, compute: str = "fp32", memory: str = "DRAM") -> float:
        """Intensity in operations per byte at which the two roofs meet: below it memory limits, above it the pipe."""
        return _entry(self.compute, compute, "pipe") / _entry(self.memory, memory, "level of memory")

    def attainable(self, intensity: Curve, compute: str = "fp32", memory: str = "DRAM") -> Any:
        """Operations per second that a kernel of an intensity, or of an array of them, can reach.

        ``min(peak, intensity × bandwidth)``.
        """
        peak = _entry(self.compute, compute, "pipe")
        return _attainable(intensity, peak, _entry(self.memory, memory, "level of memory"))


def roofs(gpu: GPULike, kind: Traffic = "read") -> Roofs:
    """Peaks of a GPU, for a roofline chart.

    Parameters
    ----------
    gpu
        A model, or the name or path of one.
    kind
        Traffic of the DRAM: ``"read"``, ``"write"`` or ``"mixed"``; its measured share of the peak is taken.

    Raises
    ------
    ValueError
        If the traffic is unknown.
    ModelError
        If there is no such GPU.

    References
    ----------
    Williams, S., Waterman, A. and Patterson, D. (2009). Roofline: An Insightful Visual Performance Model for Multicore
    Architectures. Communications of the ACM 52 (4).
    Ilic, A., Pratas, F. and Sousa, L. (2014). Cache-aware Roofline Model. IEEE Computer Architecture Letters 13 (1).

    Examples
    --------
    ``tiny``: 2 SMs × 2 sub-partitions × 32 lanes × 2 operations at 1 GHz, and 64 GB/s:

    >>> chart = roofs("tiny")
    >>> chart.compute["fp32"], chart.memory["DRAM"], chart.ridge("fp32", "DRAM")
    (256000000000.0, 64000000000.0, 4.0)
    >>> chart.attainable([1, 4, 100])
    array([6.40e+10, 2.56e+11, 2.56e+11])
    """
    model = load_gpu(gpu)
    partitions = model.sms * model.sub_partitions
    compute = {}
    for pipe in model.pipes:
        if pipe.name in ARITHMETIC:
            units = model.sms if pipe.shared_by_sm else partitions
            per_cycle = units * WARP_SIZE * PIPE_FRACTION / pipe.sustained_interval
            compute[pipe.name] = _per_lane(pipe.name) * per_cycle * model.sm_clock_hz
    for factor in TENSOR_TYPES:
        if rate := model.tensor_rate(factor):
            compute[f"tensor {factor}"] = float(2 * rate * partitions * model.sm_clock_hz)
    wavefronts_per_s = model.sms * model.sm_clock_hz  # one of the load/store unit per cycle, shared memory or L1 (M1)
    memory = {
        "shared": float(wavefronts_per_s * model.shared_banks * BANK_BYTES),
        "L1": float(wavefronts_per_s * model.shared_banks * BANK_BYTES),
        "L2": float(model.l2_bandwidth_bytes_per_s),
        "DRAM": float(model.dram_bandwidth_bytes_per_s * model.efficiency(kind)),
    }
    return Roofs(compute, memory)


def counted_operations(counters: CountedTraffic, compute: str = "fp32") -> int:
    """Operations of a counted kernel on one pipe, counted as `roofs` counts its peak.

    Every warp instruction of the class is 32 lanes of a multiply-add. A kernel whose instructions are additions or
    whose lanes idle does less; on the chart it stands where its use of the pipe puts it.

    Raises
    ------
    ValueError
        If the class has no operations that a chart could show.
    """
    if compute not in ARITHMETIC:
        raise ValueError(f"there is no pipe {compute!r}: {suggest(str(compute), ARITHMETIC)}")
    return _per_lane(compute) * WARP_SIZE * counters.instruction_mix.get(compute, 0)


def intensity(
    counters: CountedTraffic, compute: str = "fp32", *, operations: float | None = None, nbytes: float | None = None
) -> float:
    """Operations per byte of a counted kernel, ``launch.counters``.

    Parameters
    ----------
    counters
        Of a launch.
    compute
        Pipe whose operations count.
    operations
        The algorithm's own number, for example ``2 n³``; without it `counted_operations`.
    nbytes
        Bytes at the level of memory in question; without it all sectors, which is the traffic of the L1, and of DRAM
        without caches. With caches DRAM moves ``32 × counters.distinct_sectors`` at least, and what was simulated is
        ``kernel.dram_bytes``.

    Raises
    ------
    ValueError
        If the kernel moves no bytes, which leaves it without an intensity, or a number is not positive.

    Examples
    --------
    >>> class Counters:
    ...     instruction_mix = {"fp32": 10}
    ...     sector_bytes = 1280
    >>> intensity(Counters()), intensity(Counters(), operations=320)
    (0.5, 0.25)
    """
    moved = counters.sector_bytes if nbytes is None else nbytes
    if moved == 0:
        raise ValueError("the kernel moves no bytes of global memory, so it has no intensity: pass nbytes=")
    require_positive(nbytes=moved)
    if operations is not None:
        require_positive(operations=operations)
    return (counted_operations(counters, compute) if operations is None else operations) / moved


def _per_lane(pipe: str) -> int:
    return 1 if pipe in ONE_EACH else OPERATIONS_PER_LANE.get(pipe, 2)


@curve
def _attainable(intensity: Curve, peak: float, bandwidth: float) -> float:
    require_positive(intensity=intensity)
    return float(min(peak, intensity * bandwidth))


def _entry(entries: Mapping[str, float], name: str, what: str) -> float:
    if name not in entries:
        raise ValueError(f"there is no {what} {name!r} on this GPU: {suggest(str(name), entries)}")
    return entries[name]

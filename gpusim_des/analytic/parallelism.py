"""Little's law for arithmetic: independent instructions under way hide the latency of each, from any warp."""

from __future__ import annotations

import math

from gpusim_des.analytic.arguments import Curve, curve, require_positive, whole
from gpusim_des.gpu import PIPE_FRACTION, GPULike, Pipe, load_gpu
from gpusim_des.gpu.schema import suggest


@curve
def arithmetic_throughput(gpu: GPULike, warps_per_sm: Curve, ilp: Curve = 1, op: str = "fp32") -> float:
    """Warp instructions per cycle and SM of warps that do nothing but dependent arithmetic.

    Each warp has `ilp` instructions under way and gets a result `latency` cycles later:
    ``min(pipe's rate, warps × ilp / latency)``.

    Parameters
    ----------
    gpu
        A model, or the name or path of one.
    warps_per_sm
        Resident warps per SM, spread evenly over its sub-partitions.
    ilp
        Chains of dependent instructions in each warp, which do not depend on each other.
    op
        Class of the instructions: ``"fp32"``, ``"int"``, ``"fp64"``, ``"fp16"``, ``"conversion"`` or ``"sfu"``.

    Raises
    ------
    ValueError
        If a number is not positive, `ilp` is not whole, or there is no such pipe.
    ModelError
        If there is no such GPU.

    References
    ----------
    Volkov, V. (2010). Better Performance at Lower Occupancy. GPU Technology Conference.
    Volkov, V. (2016). Understanding Latency Hiding on GPUs. PhD thesis, UC Berkeley.

    Examples
    --------
    On ``tiny``, an SM with two sub-partitions takes two FP32 instructions a cycle, each for four cycles:

    >>> arithmetic_throughput("tiny", [1, 4, 8, 16])
    array([0.25, 1.  , 2.  , 2.  ])
    >>> arithmetic_throughput("tiny", 4, ilp=2)
    2.0
    """
    require_positive(warps_per_sm=warps_per_sm)
    rate, latency = _rate_and_latency(gpu, op)
    return float(min(rate, warps_per_sm * whole("ilp", ilp) / latency))


def arithmetic_interval(gpu: GPULike, op: str = "fp32") -> float:
    """Cycles from one warp instruction of a scheduler to the next: in its pipe, at least the one in which it is issued.

    Parameters and errors are those of `arithmetic_throughput`; of a pipe that a whole SM shares, as if it were the
    scheduler's own.

    Examples
    --------
    A scheduler of ``tiny`` has 32 lanes for FP32, and 16 for FP64:

    >>> arithmetic_interval("tiny"), arithmetic_interval("tiny", "fp64")
    (1.0, 2.0)
    """
    return max(1.0, _pipe(load_gpu(gpu).pipes, op).sustained_interval / PIPE_FRACTION)


@curve
def arithmetic_warps_needed(gpu: GPULike, ilp: Curve = 1, op: str = "fp32") -> int:
    """Warps per SM that keep an arithmetic pipe busy, a whole number in every sub-partition.

    ``latency × rate / ilp``, rounded up. Parameters, errors and references are those of `arithmetic_throughput`.

    Examples
    --------
    Every doubling of instruction-level parallelism saves half of the warps, until each sub-partition has one:

    >>> arithmetic_warps_needed("tiny", ilp=[1, 2, 4, 8])
    array([8, 4, 2, 2])
    """
    model = load_gpu(gpu)
    rate, latency = _rate_and_latency(model, op)
    needed = rate * latency / whole("ilp", ilp)
    pipe = _pipe(model.pipes, op)
    # Warps of all sub-partitions feed a unit of the SM, so that only their sum counts.
    return math.ceil(needed) if pipe.shared_by_sm else model.sub_partitions * math.ceil(needed / model.sub_partitions)


def _rate_and_latency(gpu: GPULike, op: str) -> tuple[float, int]:
    """Warp instructions per cycle and SM, and cycles until a dependent instruction can issue."""
    model = load_gpu(gpu)
    pipe = _pipe(model.pipes, op)
    units = 1 if pipe.shared_by_sm else model.sub_partitions
    # A scheduler issues at most one instruction per cycle, whatever the pipe would take (I3).
    interval = max(pipe.sustained_interval, PIPE_FRACTION) if not pipe.shared_by_sm else pipe.sustained_interval
    return units * PIPE_FRACTION / interval, max(pipe.latency_cycles, 1)


def _pipe(pipes: tuple[Pipe, ...], op: str) -> Pipe:
    arithmetic = {pipe.name: pipe for pipe in pipes if pipe.name != "branch"}
    if op not in arithmetic:
        raise ValueError(f"there is no arithmetic pipe {op!r}: {suggest(str(op), arithmetic)}")
    return arithmetic[op]

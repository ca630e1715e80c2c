"""The door to the timing model: checks what is asked for, chooses an engine and runs it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np

from gpusim_des.errors import TraceError
from gpusim_des.gpu import GPU
from gpusim_des.timeline import Timeline
from gpusim_des.timing.probe import Detail
from gpusim_des.timing.simpy_engine import Progress, SimpyEngine
from gpusim_des.trace import KernelTrace, OpClass

Caches = Literal["off"]
Engine = Literal["auto", "simpy"]

NOT_PLAYED = (
    OpClass.GLOBAL_ATOMIC,
    OpClass.SHARED_ATOMIC,
    OpClass.FENCE,
    OpClass.TENSOR,
    OpClass.ASYNC_COPY,
    OpClass.ASYNC_COMMIT,
    OpClass.ASYNC_WAIT,
    OpClass.BULK_COPY,
    OpClass.BULK_WAIT,
)
"""Operation classes that the executor counts and no rule of the timing model covers yet."""


def simulate(
    gpu: GPU,
    traces: Sequence[KernelTrace],
    *,
    engine: Engine = "auto",
    caches: Caches = "off",
    detail: Detail = "sm",
    progress: Progress | None = None,
) -> Timeline:
    """Play the traces of some kernels on a GPU, one kernel after another.

    Parameters
    ----------
    engine
        ``"simpy"``, the readable engine; ``"auto"`` chooses it, being the only one so far.
    caches
        ``"off"``: every sector travels to HBM (M9), the idealisation in which the textbook's formulas are exact.
    detail
        ``"kernel"`` records totals, ``"sm"`` spans of blocks as well, ``"warp"`` all states and instructions as well.
    progress
        Called with the kernel's name, the blocks retired and the blocks in all.

    Raises
    ------
    ValueError
        For an unknown engine, cache mode or level of detail.
    TraceError
        If a kernel uses atomics or fences, which are counted but not timed yet.
    LaunchError, DeadlockError
        See `SimpyEngine.run`.

    Examples
    --------
    >>> from gpusim_des.gpu import load_gpu
    >>> from gpusim_des.trace import Instruction, OpClass, WarpTrace
    >>> chain = WarpTrace.of([Instruction(OpClass.FP32), Instruction(OpClass.FP32, deps=(0,))])
    >>> simulate(load_gpu("tiny"), [KernelTrace.of_blocks("chain", [[chain]])]).kernels[0].cycles
    8
    """
    asked: tuple[tuple[str, str, tuple[str, ...]], ...] = (
        ("engine", engine, get_args(Engine)),
        ("caches", caches, get_args(Caches)),
        ("detail", detail, get_args(Detail)),
    )
    for what, value, possible in asked:
        if value not in possible:
            remedy = "; the cache hierarchy is not modelled yet" if what == "caches" and value == "on" else ""
            raise ValueError(f"{what} = {value!r}: possible are {', '.join(map(repr, possible))}{remedy}")
    for trace in traces:
        _refuse_unplayable(trace)
    return SimpyEngine(gpu, detail, progress).run(traces)


def _refuse_unplayable(trace: KernelTrace) -> None:
    """Raise `TraceError` for a kernel with instructions that the timing model has no rule for yet (W2, M7)."""
    used = {int(op) for stream in trace.streams for op in np.unique(stream.ops)}
    missing = [op.label for op in NOT_PLAYED if int(op) in used]
    if missing:
        raise TraceError(
            f"kernel {trace.name!r} uses {' and '.join(missing)} instructions, which the timing model cannot play yet; "
            "its results and counters are right, only its time is unknown: simulate the other kernels alone"
        )

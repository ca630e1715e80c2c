"""Why a warp waited, followed backwards from wait to wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gpusim_des.timeline.records import StateSpan, WarpHistory
from gpusim_des.timeline.states import WarpState

if TYPE_CHECKING:
    from gpusim_des.timeline.timeline import Timeline


class WaitStep(NamedTuple):
    """One wait on the way back, and what ended it."""

    warp: int
    """Number of the warp in its block."""
    span: StateSpan
    line: int
    """Source line of the instruction that ended the wait, 0 if unknown or none did."""

    def __str__(self) -> str:
        span = self.span
        cycles = span.end_cycle - span.start_cycle
        text = (
            f"warp {self.warp}: {span.state.suffix} from cycle {span.start_cycle:,} to {span.end_cycle:,} ({cycles:,})"
        )
        if span.cause is None:
            return f"{text}, ended by the end of the simulation"
        text += f", ended by {span.cause.what.replace('_', ' ')}"
        if span.cause.instruction is not None:
            text += f" (instruction {span.cause.instruction} of warp {span.cause.warp}"
            text += f", line {self.line})" if self.line else ")"
        return text


def why(
    timeline: Timeline, warp: int, cycle: int, *, block: int = 0, kernel: int = 0, steps: int = 20
) -> list[WaitStep]:
    """Follow a wait backwards: what ended it, what that had waited for before, and so on.

    Parameters
    ----------
    timeline
        Recorded with ``detail="warp"``.
    warp, block, kernel
        Number of the warp in its block, of the block in its grid, and of the kernel in the simulation.
    cycle
        An SM cycle in which the warp waited; if it was selected then, the wait before that is taken.
    steps
        How many waits to follow at most.

    Raises
    ------
    ValueError
        If that warp was not recorded, or not resident in that cycle.

    Examples
    --------
    >>> from gpusim_des.gpu import load_gpu
    >>> from gpusim_des.timing.simulate import simulate
    >>> from gpusim_des.trace import Instruction, KernelTrace, OpClass, WarpTrace
    >>> body = [Instruction(OpClass.GLOBAL_LOAD), Instruction(OpClass.FP32, (0,)), Instruction(OpClass.BARRIER, (1,))]
    >>> slow, fast = WarpTrace.of(body, [[0]]), WarpTrace.of([Instruction(OpClass.BARRIER), Instruction(OpClass.INT)])
    >>> run = simulate(load_gpu("tiny"), [KernelTrace.of_blocks("k", [[slow, fast]])], detail="warp")
    >>> for step in why(run, warp=1, cycle=100):
    ...     print(step)
    warp 1: barrier from cycle 1 to 214 (213), ended by barrier (instruction 2 of warp 0)
    warp 0: wait from cycle 201 to 204 (3), ended by fp32 (instruction 1 of warp 0)
    warp 0: long_scoreboard from cycle 1 to 200 (199), ended by global load (instruction 0 of warp 0)
    """
    if not 0 <= kernel < len(timeline.kernels):
        raise ValueError(f"kernel {kernel} is not there: the simulation has kernels 0 to {len(timeline.kernels) - 1}")
    timing = timeline.kernels[kernel]
    for what, number, count in (("block", block, timing.blocks), ("warp", warp, timing.warps_per_block)):
        if not 0 <= number < count:
            raise ValueError(f"{what} {number} is not there: kernel {timing.name} has {what}s 0 to {count - 1}")
    warps = {h.warp: h for h in timeline.warps if h.kernel == kernel and h.block == block}
    if warp not in warps:
        raise ValueError(
            f"warp {warp} of block {block} of kernel {kernel} was not recorded: simulate with detail='warp' and its SM "
            "among those that are watched"
        )
    history = warps[warp]
    if not history.start_cycle <= cycle < history.end_cycle:
        raise ValueError(
            f"cycle {cycle} is outside the residency of warp {warp}: it is resident from cycle "
            f"{history.start_cycle} to {history.end_cycle - 1}"
        )
    chain: list[WaitStep] = []
    span = _last_wait(history, cycle + 1)
    while span is not None and len(chain) < steps:
        cause = span.cause
        line = 0
        before = None
        if cause is not None and cause.instruction is not None and cause.warp in warps:
            ender = warps[cause.warp]
            event = next((e for e in ender.issues if e.index == cause.instruction), None)
            if event is not None:
                line = event.line
                before = ender, event.cycle
        chain.append(WaitStep(history.warp, span, line))
        if before is None:
            break
        history = before[0]
        span = _last_wait(history, before[1])
    return chain


def _last_wait(history: WarpHistory, before: int) -> StateSpan | None:
    """Latest wait that began before a cycle: what kept the warp back from what it did then."""
    waits = (s for s in reversed(history.states) if s.start_cycle < before and s.state is not WarpState.SELECTED)
    return next(waits, None)

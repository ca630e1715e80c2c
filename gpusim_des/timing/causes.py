"""What ended a wait, found out afterwards: only for warps that are recorded."""

from __future__ import annotations

from gpusim_des.timeline import Cause, WarpState
from gpusim_des.timing.program import UNIT_NAMES
from gpusim_des.timing.warp import Warp
from gpusim_des.trace import MEMORY_OPS, OpClass

_OPERAND_STATES = (WarpState.LONG_SCOREBOARD, WarpState.SHORT_SCOREBOARD, WarpState.WAIT)


def cause_of(warp: Warp, state: WarpState, until: int) -> Cause | None:
    """What ended the wait in `state` of a warp at cycle `until`; call before the warp moves on."""
    if state is WarpState.NO_INSTRUCTION:
        return Cause("block_start")
    if state is WarpState.BARRIER:
        return warp.block.opened_by
    if state is WarpState.BRANCH_RESOLVING:
        return Cause("branch", warp.number, warp.next - 1)
    if state in _OPERAND_STATES and not warp.finished:
        return _operand(warp, state, until)
    return _outstanding(warp, state, until)


def _operand(warp: Warp, state: WarpState, until: int) -> Cause | None:
    program = warp.program
    for producer in program.deps[warp.next]:
        if warp.complete[producer] == until and program.waiting[producer] is state:
            return Cause(program.ops[producer].label, warp.number, producer)
    if program.ops[warp.next] is OpClass.BULK_WAIT:
        ended_by = warp.block.phase_ended_by.get(program.operands[warp.next])
        return None if ended_by is None else Cause(OpClass.BULK_COPY.label, *ended_by)
    return None


def _outstanding(warp: Warp, state: WarpState, until: int) -> Cause | None:
    """For waits at the end of a warp or at a fence: the instruction that was complete last."""
    memory = state in (WarpState.DRAIN, WarpState.MEMBAR)
    for index in range(warp.next - 1, -1, -1):
        op = warp.program.ops[index]
        if warp.complete[index] == until and (op in MEMORY_OPS) is memory:
            return Cause(op.label, warp.number, index)
    return Cause("acknowledgement") if state is WarpState.MEMBAR else None


def turned_away_by(unit: int) -> Cause:
    """What kept a ready warp back from issuing: the unit that it needs was occupied."""
    return Cause(UNIT_NAMES[unit])


OTHERS_WERE_CHOSEN = Cause("scheduler")
"""What kept an eligible warp back: its scheduler issued others."""

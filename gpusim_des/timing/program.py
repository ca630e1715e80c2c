"""A stream made ready for the engine: what every instruction needs, looked up once per stream instead of per warp."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from gpusim_des.gpu import GPU
from gpusim_des.timeline import WarpState
from gpusim_des.trace import GLOBAL_OPS, MEMORY_OPS, SHARED_OPS, OpClass, Stream

PIPE_CLASSES = (
    OpClass.INT,
    OpClass.FP32,
    OpClass.FP64,
    OpClass.FP16,
    OpClass.CONVERSION,
    OpClass.SFU,
    OpClass.BRANCH,
)
"""Classes that occupy an arithmetic pipe, in the order of the engine's pipes."""

MEMORY_UNIT = len(PIPE_CLASSES)
"""Number of the load/store queue among a sub-partition's units."""

NO_UNIT = MEMORY_UNIT + 1
"""Number of the unit that is always free: barriers and exits need no pipe."""


def _unit(op: OpClass) -> int:
    if op in MEMORY_OPS:
        return MEMORY_UNIT
    if op is OpClass.VOTE:  # votes run on the integer pipe (recalled, unchecked)
        return PIPE_CLASSES.index(OpClass.INT)
    return PIPE_CLASSES.index(op) if op in PIPE_CLASSES else NO_UNIT


def _waiting_state(op: OpClass) -> WarpState:
    """State of a warp that waits for a result of class `op` (I7)."""
    if op in GLOBAL_OPS:
        return WarpState.LONG_SCOREBOARD
    if op in SHARED_OPS or op is OpClass.SFU:
        return WarpState.SHORT_SCOREBOARD
    return WarpState.WAIT


def _turned_away_state(op: OpClass) -> WarpState:
    """State of a warp whose unit is occupied when its operands are ready (I7)."""
    if op in GLOBAL_OPS:
        return WarpState.LG_THROTTLE
    return WarpState.MIO_THROTTLE if op in SHARED_OPS else WarpState.MATH_PIPE_THROTTLE


_UNIT = {op: _unit(op) for op in OpClass}
_WAITING = {op: _waiting_state(op) for op in OpClass}
_TURNED_AWAY = {op: _turned_away_state(op) for op in OpClass}


def latencies(gpu: GPU) -> dict[OpClass, int]:
    """Cycles from issue to result, for the classes in which that is a constant of the GPU.

    Memory instructions are not among them: shared memory and shuffles add their wait in the load/store unit, global
    loads everything on the way to memory and back. A branch, a barrier and an exit deliver no result.
    """
    fixed: dict[OpClass, int] = {
        op: gpu.pipe(op.label).latency_cycles for op in PIPE_CLASSES if op is not OpClass.BRANCH
    }
    return {**fixed, OpClass.VOTE: fixed[OpClass.INT], OpClass.BRANCH: 1, OpClass.BARRIER: 1, OpClass.EXIT: 1}


@dataclass(frozen=True, slots=True)
class Program:
    """The instructions of a stream as parallel lists, one entry per instruction."""

    ops: list[OpClass]
    units: list[int]
    """Number of the unit that takes the instruction."""
    latencies: list[int]
    """Cycles to the result; 0 where the memory system decides."""
    deps: list[tuple[int, ...]]
    waiting: list[WarpState]
    """State of a warp that waits for this instruction's result."""
    turned_away: list[WarpState]
    """State of a warp that finds this instruction's unit occupied."""
    lines: list[int]

    @classmethod
    def of(cls, stream: Stream, latency: dict[OpClass, int]) -> Program:
        """Look everything up."""
        ops = [OpClass(op) for op in stream.ops.tolist()]
        starts, deps = stream.dep_start.tolist(), stream.deps.tolist()
        return cls(
            ops,
            [_UNIT[op] for op in ops],
            [latency.get(op, 0) for op in ops],
            [tuple(deps[a:b]) for a, b in pairwise(starts)],
            [_WAITING[op] for op in ops],
            [_TURNED_AWAY[op] for op in ops],
            stream.lines.tolist(),
        )

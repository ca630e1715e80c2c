"""A stream made ready for the engine: what every instruction needs, looked up once per stream instead of per warp."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from gpusim_des.errors import TraceError
from gpusim_des.gpu import GPU, PIPE_FRACTION
from gpusim_des.line_site import NO_SITE, LineSite
from gpusim_des.timeline import WarpState
from gpusim_des.trace import GLOBAL_OPS, MEMORY_OPS, SECTOR_BYTES, SHARED_OPS, Mma, OpClass, Stream

PIPE_CLASSES = (
    OpClass.INT,
    OpClass.FP32,
    OpClass.FP64,
    OpClass.FP16,
    OpClass.CONVERSION,
    OpClass.SFU,
    OpClass.BRANCH,
    OpClass.TENSOR,
)
"""Classes that occupy an arithmetic pipe, in the order of the engine's pipes."""

MEMORY_UNIT = len(PIPE_CLASSES)
"""Number of the load/store queue among a sub-partition's units."""

NO_UNIT = MEMORY_UNIT + 1
"""Number of the unit that is always free: barriers, fences, waits and exits need no pipe."""

UNIT_NAMES = (*(op.label for op in PIPE_CLASSES), "load_store_queue", "none")
"""Names of a sub-partition's units, in the order of their numbers."""


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


class Timing:
    """Latencies and intervals of the instructions on one GPU.

    ``latency`` is the number of cycles from issue to result, where that is a constant of the GPU. Memory instructions
    are not among them: shared memory and shuffles add their wait in the load/store unit, global loads everything on
    the way to memory and back. A branch, a barrier, a fence, a commit and a wait deliver no result.
    """

    def __init__(self, gpu: GPU) -> None:
        self.gpu = gpu
        pipes = {op: gpu.pipe(op.label) for op in PIPE_CLASSES if op is not OpClass.TENSOR}
        self.latency: dict[OpClass, int] = {op: pipe.latency_cycles for op, pipe in pipes.items()}
        self.latency[OpClass.VOTE] = self.latency[OpClass.INT]
        for op in OpClass:
            if op not in MEMORY_OPS and (op is OpClass.BRANCH or op not in self.latency):
                self.latency[op] = 1
        self.interval: dict[OpClass, int] = {op: pipe.sustained_interval for op, pipe in pipes.items()}
        self.interval[OpClass.VOTE] = self.interval[OpClass.INT]
        self.shared_by_sm = [op is not OpClass.TENSOR and pipes[op].shared_by_sm for op in PIPE_CLASSES]

    def tensor(self, operand: int) -> tuple[int, int]:
        """Interval in parts of a cycle and latency in cycles of a tensor instruction.

        Raises `TraceError` if the GPU has no tensor cores for its type.
        """
        mma = Mma.decode(operand)
        rate = self.gpu.tensor_rate(mma.type)
        if not rate:
            raise TraceError(
                f"mma of type {mma.type}: {self.gpu.title} (compute capability {self.gpu.compute_capability}) has "
                "no tensor cores for it; choose another type or another GPU"
            )
        interval = max(PIPE_FRACTION, -(-PIPE_FRACTION * mma.multiply_adds // rate))
        return interval, max(self.gpu.tensor_latency_cycles, -(-interval // PIPE_FRACTION))


@dataclass(frozen=True, slots=True)
class Program:
    """The instructions of a stream as parallel lists, one entry per instruction."""

    ops: list[OpClass]
    units: list[int]
    """Number of the unit that takes the instruction."""
    latencies: list[int]
    """Cycles to the result; 0 where the memory system decides."""
    intervals: list[int]
    """Parts of a cycle for which it occupies its pipe; 0 where it takes none."""
    deps: list[tuple[int, ...]]
    waiting: list[WarpState]
    """State of a warp that waits for this instruction's result."""
    turned_away: list[WarpState]
    """State of a warp that finds this instruction's unit occupied."""
    lines: list[int]
    sites: list[LineSite]
    """The same lines with their files."""
    lanes: list[int]
    operands: list[int]
    unread: frozenset[int]
    """Atomics whose result no instruction reads: they behave like stores (M7)."""
    bulk_copies: Counter[int]
    """How many bulk copies it starts, by their barrier's phase."""
    ideal_sectors: tuple[int, int]
    """Sectors that its loads, and its stores, would touch if their lanes were neighbours."""
    accounts: list[list[int]]
    """Warp-cycles by state, of the line of the instruction that a warp waits to issue; at the end, of the last one's.

    Instructions of one line share one list, which is the kernel's.
    """

    @classmethod
    def of(
        cls, stream: Stream, sites: list[LineSite], timing: Timing, account: Callable[[LineSite], list[int]]
    ) -> Program:
        """Look everything up; raises `TraceError` for an instruction that the GPU does not have.

        `sites` are the source lines of its instructions, and `account` tells where the warp-cycles of one are counted.
        """
        ops = [OpClass(op) for op in stream.ops.tolist()]
        starts, deps = stream.dep_start.tolist(), stream.deps.tolist()
        operands = stream.operands.tolist()
        latencies = [timing.latency.get(op, 0) for op in ops]
        intervals = [timing.interval.get(op, 0) for op in ops]
        for index, op in enumerate(ops):
            if op is OpClass.TENSOR:
                intervals[index], latencies[index] = timing.tensor(operands[index])
        read = set(deps)
        atomics = (OpClass.GLOBAL_ATOMIC, OpClass.SHARED_ATOMIC)
        return cls(
            ops,
            [_UNIT[op] for op in ops],
            latencies,
            intervals,
            [tuple(deps[a:b]) for a, b in pairwise(starts)],
            [_WAITING[op] for op in ops],
            [_TURNED_AWAY[op] for op in ops],
            stream.lines.tolist(),
            sites,
            stream.lanes.tolist(),
            operands,
            frozenset(index for index, op in enumerate(ops) if op in atomics and index not in read),
            Counter(operands[index] for index, op in enumerate(ops) if op is OpClass.BULK_COPY),
            (_ideal(stream, _LOADS), _ideal(stream, (OpClass.GLOBAL_STORE,))),
            [account(site) for site in (*sites, sites[-1] if sites else NO_SITE)],
        )


_LOADS = (OpClass.GLOBAL_LOAD, OpClass.ASYNC_COPY)


def _ideal(stream: Stream, classes: tuple[OpClass, ...]) -> int:
    """Sectors that hold the bytes of the accesses of some classes, each access by itself."""
    own = np.isin(stream.ops, classes)
    nbytes = stream.lanes[own].astype(np.int64) * stream.operands[own]
    return int((-(-nbytes // SECTOR_BYTES)).sum())

"""What one warp did: instructions with their dependencies (W1), and the shape of its memory accesses (W3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpusim_des.errors import TraceError
from gpusim_des.grid import WARP_SIZE
from gpusim_des.trace.check import check_stream
from gpusim_des.trace.operation import GLOBAL_OPS, MEMORY_OPS, OpClass

LINES = 2**31
"""More than any number of a source line."""


IN_PART = 2
"""Passes of a sector of which a store writes a part (M5)."""


@dataclass(frozen=True)
class Instruction:
    """One warp instruction, for traces written by hand.

    ``quarter_cycles`` is the time in the load/store unit (M1); 0 means the least, one cycle, for a memory operation.
    ``line`` stands in file number ``file`` of `KernelTrace.files`. ``operand`` says more about some classes, see
    `OpClass`. ``passes`` has one entry per sector of a global atomic: the operations on its busiest address (M7); or of
    a global store: 1 where it is written whole, 2 where in part (M5). Not given, it is 1.
    """

    op: OpClass
    deps: tuple[int, ...] = ()
    lanes: int = WARP_SIZE
    quarter_cycles: int = 0
    line: int = 0
    operand: int = 0
    passes: tuple[int, ...] = ()
    file: int = 0


@dataclass(frozen=True, eq=False)
class Stream:
    """The instructions of a warp in program order, shared by all warps that did the same (W3).

    Arrays of length n, one entry per instruction, except ``deps``: instruction i reads the results of
    ``deps[dep_start[i]:dep_start[i + 1]]``, numbers of earlier instructions. ``operands`` says more about some classes,
    see `OpClass`; it is 0 for the others. ``files`` is empty where all lines stand in the trace's first file; elsewhere
    it has the number of each line's file among `KernelTrace.files`.
    """

    ops: NDArray[np.uint8]
    lanes: NDArray[np.uint8]
    lines: NDArray[np.int32]
    dep_start: NDArray[np.int32]
    deps: NDArray[np.int32]
    operands: NDArray[np.int32]
    files: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))

    def __len__(self) -> int:
        return len(self.ops)

    @property
    def places(self) -> NDArray[np.int64]:
        """File and line of every instruction as one number, of which lines are the part below `LINES`."""
        lines = self.lines.astype(np.int64)
        return lines + LINES * self.files.astype(np.int64) if len(self.files) else lines

    def count(self, classes: Iterable[OpClass]) -> int:
        """Instructions of these classes."""
        return int(np.isin(self.ops, [int(op) for op in classes]).sum())

    def depends_on(self, index: int) -> tuple[int, ...]:
        """Numbers of the instructions whose results instruction `index` reads."""
        return tuple(self.deps[self.dep_start[index] : self.dep_start[index + 1]].tolist())

    @classmethod
    def of(cls, instructions: Iterable[Instruction]) -> Stream:
        """Build a checked stream from instructions written by hand.

        Raises
        ------
        TraceError
            If a dependency does not point backwards or a count is out of range.

        Examples
        --------
        >>> s = Stream.of([Instruction(OpClass.FP32), Instruction(OpClass.FP32, deps=(0,))])
        >>> len(s), s.depends_on(1)
        (2, (0,))
        """
        items = list(instructions)
        wide = cls(
            ops=_whole("op", [i.op for i in items]),
            lanes=_whole("lanes", [i.lanes for i in items]),
            lines=_whole("line", [i.line for i in items]),
            dep_start=np.cumsum([0, *(len(i.deps) for i in items)], dtype=np.int32),
            deps=_whole("deps", [d for i in items for d in i.deps]),
            operands=_whole("operand", [i.operand for i in items]),
            files=_whole("file", [i.file for i in items] if any(i.file for i in items) else []),
        )
        wide.check()
        return cls(
            wide.ops.astype(np.uint8),
            wide.lanes.astype(np.uint8),
            wide.lines.astype(np.int32),
            wide.dep_start,
            wide.deps.astype(np.int32),
            wide.operands.astype(np.int32),
            wide.files.astype(np.int32),
        )

    def check(self) -> None:
        """Refuse a stream that no engine may play; raises `TraceError` naming the instruction."""
        check_stream(self)


@dataclass(frozen=True, eq=False)
class Footprint:
    """The shape of a warp's memory accesses, shared by all warps whose accesses look the same (W3).

    ``quarter_cycles`` has one entry per memory instruction, shared or global: its time in the load/store unit (M1).
    Global access k touches the sectors ``offsets[starts[k]:starts[k + 1]]`` plus the warp's base sector of that
    access, in ascending order. ``passes`` is empty, or has one entry per offset: the operations of an atomic access on
    the busiest address of the sector (M7), 2 where a store writes a part of it (M5), 1 otherwise.
    """

    quarter_cycles: NDArray[np.int32]
    starts: NDArray[np.int32]
    offsets: NDArray[np.int64]
    passes: NDArray[np.uint8]

    @property
    def sector_passes(self) -> NDArray[np.uint8]:
        """Passes of every offset, spelled out."""
        return self.passes if len(self.passes) else np.ones(len(self.offsets), np.uint8)


@dataclass(frozen=True, eq=False)
class WarpTrace:
    """One warp: a shared stream, a shared footprint and its own base sector for every global access."""

    stream: Stream
    footprint: Footprint
    bases: NDArray[np.int64]

    def sectors(self, access: int) -> NDArray[np.int64]:
        """Sector numbers (address / 32) of the warp's global access number `access`, ascending."""
        start, end = self.footprint.starts[access], self.footprint.starts[access + 1]
        offsets: NDArray[np.int64] = self.footprint.offsets[start:end]
        return offsets + int(self.bases[access])

    @classmethod
    def of(cls, instructions: Iterable[Instruction], sectors: Sequence[Sequence[int]] = ()) -> WarpTrace:
        """Build a warp by hand: its instructions and, for each global access in order, the sector numbers.

        Examples
        --------
        >>> warp = WarpTrace.of([Instruction(OpClass.GLOBAL_LOAD)], [[8, 9, 10, 11]])
        >>> warp.sectors(0).tolist(), warp.footprint.quarter_cycles.tolist()
        ([8, 9, 10, 11], [4])
        """
        items = list(instructions)
        stream = Stream.of(items)
        ordered = [sorted(set(access)) for access in sectors]
        if stream.count(GLOBAL_OPS) != len(ordered):
            raise TraceError(
                f"{len(ordered)} sector lists for {stream.count(GLOBAL_OPS)} global accesses: give one list for each"
            )
        if any(not access or access[0] < 0 for access in ordered):
            raise TraceError(f"global accesses {sectors!r}: each touches at least one sector, none below 0")
        bases = _whole("sectors", [access[0] for access in ordered])
        footprint = Footprint(
            _whole("quarter_cycles", [max(i.quarter_cycles, 4) for i in items if i.op in MEMORY_OPS], np.int32),
            np.cumsum([0, *(len(access) for access in ordered)], dtype=np.int32),
            _whole("sectors", [s - access[0] for access in ordered for s in access]),
            _passes_of([i for i in items if i.op in GLOBAL_OPS], ordered),
        )
        return cls(stream, footprint, bases)


def _whole(what: str, values: Sequence[int], kind: Any = np.int64) -> NDArray[Any]:
    """Make an array of whole numbers; raises `TraceError` for others, which NumPy would cut off."""
    wrong = next((v for v in values if not isinstance(v, int | np.integer)), None)
    if wrong is not None:
        raise TraceError(f"{what} = {wrong!r}: must be a whole number")
    limits = np.iinfo(kind)
    beyond = next((v for v in values if not limits.min <= v <= limits.max), None)
    if beyond is not None:
        raise TraceError(f"{what} = {beyond}: must lie between {limits.min} and {limits.max}")
    return np.array(values, kind)


def _passes_of(items: Sequence[Instruction], sectors: Sequence[Sequence[int]]) -> NDArray[np.uint8]:
    """Passes of the sectors of accesses that were written by hand; empty if no access says anything."""
    if not any(item.passes for item in items):
        return np.zeros(0, np.uint8)
    passes: list[int] = []
    for item, touched in zip(items, sectors, strict=True):
        most = IN_PART if item.op is OpClass.GLOBAL_STORE else WARP_SIZE
        if item.passes and (len(item.passes) != len(touched) or not all(1 <= p <= most for p in item.passes)):
            raise TraceError(f"passes {item.passes} for {len(touched)} sectors: one for each, between 1 and {most}")
        passes += item.passes or (1,) * len(touched)
    return _whole("passes", passes, np.uint8)

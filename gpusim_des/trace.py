"""Contract 1, the trace: what every warp did, in program order, with dependencies and sector addresses (W1-W5).

The functional executor writes a `KernelTrace`, the timing model plays it. Warps that did the same share one
`Stream`; warps whose memory accesses have the same shape share one `Footprint` and differ only in their base sectors
(W3). Chunks of blocks live in memory up to a limit and in a temporary file beyond it (W4).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpusim_des.errors import TraceError
from gpusim_des.grid import WARP_SIZE, LaunchConfig
from gpusim_des.spill import ArrayStore

SECTOR_BYTES = 32
"""Bytes in a sector, the unit in which memory is moved (Nsight Compute, "Memory tables")."""

LINE_BYTES = 128
"""Bytes in a cache line: four sectors."""


class OpClass(IntEnum):
    """Operation class of a warp instruction (W2); interval, latency and pipe stand in the GPU model."""

    INT = 0
    FP32 = 1
    FP64 = 2
    FP16 = 3
    CONVERSION = 4
    SFU = 5
    BRANCH = 6
    SHARED_LOAD = 7
    SHARED_STORE = 8
    SHUFFLE = 9
    GLOBAL_LOAD = 10
    GLOBAL_STORE = 11
    BARRIER = 12
    EXIT = 13
    VOTE = 14
    FENCE = 15
    GLOBAL_ATOMIC = 16
    SHARED_ATOMIC = 17

    @property
    def label(self) -> str:
        """Name in tables and files, for example ``global_load``."""
        return self.name.lower()


SHARED_OPS = frozenset({OpClass.SHARED_LOAD, OpClass.SHARED_STORE, OpClass.SHARED_ATOMIC, OpClass.SHUFFLE})
"""Classes that pass through the load/store unit without leaving the SM."""

GLOBAL_OPS = frozenset({OpClass.GLOBAL_LOAD, OpClass.GLOBAL_STORE, OpClass.GLOBAL_ATOMIC})
"""Classes that send sectors to memory."""

MEMORY_OPS = SHARED_OPS | GLOBAL_OPS
"""Classes that occupy the load/store unit."""


@dataclass(frozen=True)
class Instruction:
    """One warp instruction, for traces written by hand.

    ``quarter_cycles`` is the time in the load/store unit (M1); 0 means the least, one cycle, for a memory operation.
    """

    op: OpClass
    deps: tuple[int, ...] = ()
    lanes: int = WARP_SIZE
    quarter_cycles: int = 0
    line: int = 0


@dataclass(frozen=True, eq=False)
class Stream:
    """The instructions of a warp in program order, shared by all warps that did the same (W3).

    Arrays of length n, one entry per instruction, except ``deps``: instruction i reads the results of
    ``deps[dep_start[i]:dep_start[i + 1]]``, numbers of earlier instructions.
    """

    ops: NDArray[np.uint8]
    lanes: NDArray[np.uint8]
    lines: NDArray[np.int32]
    dep_start: NDArray[np.int32]
    deps: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.ops)

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
        for number, item in enumerate(items):
            if not 1 <= item.lanes <= WARP_SIZE:
                raise TraceError(f"instruction {number} has {item.lanes} active lanes: must lie between 1 and 32")
        stream = cls(
            ops=np.array([i.op for i in items], np.uint8),
            lanes=np.array([i.lanes for i in items], np.uint8),
            lines=np.array([i.line for i in items], np.int32),
            dep_start=np.cumsum([0, *(len(i.deps) for i in items)], dtype=np.int32),
            deps=np.array([d for i in items for d in i.deps], np.int32),
        )
        stream.check()
        return stream

    def check(self) -> None:
        """Refuse a stream that no engine may play; raises `TraceError` naming the instruction."""
        reader = np.repeat(np.arange(len(self)), np.diff(self.dep_start))
        forward = np.flatnonzero((self.deps < 0) | (self.deps >= reader))
        if forward.size:
            k = forward[0]
            raise TraceError(
                f"instruction {reader[k]} depends on instruction {self.deps[k]}: "
                "an operand comes from an earlier instruction of the same warp"
            )
        bad = np.flatnonzero((self.lanes < 1) | (self.lanes > WARP_SIZE))
        if bad.size:
            raise TraceError(f"instruction {bad[0]} has {self.lanes[bad[0]]} active lanes: must lie between 1 and 32")


@dataclass(frozen=True, eq=False)
class Footprint:
    """The shape of a warp's memory accesses, shared by all warps whose accesses look the same (W3).

    ``quarter_cycles`` has one entry per memory instruction, shared or global: its time in the load/store unit (M1).
    Global access k touches the sectors ``offsets[starts[k]:starts[k + 1]]`` plus the warp's base sector of that
    access, in ascending order.
    """

    quarter_cycles: NDArray[np.int32]
    starts: NDArray[np.int32]
    offsets: NDArray[np.int64]


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
        footprint = Footprint(
            np.array([max(i.quarter_cycles, 4) for i in items if i.op in MEMORY_OPS], np.int32),
            np.cumsum([0, *(len(access) for access in ordered)], dtype=np.int32),
            np.array([s - access[0] for access in ordered for s in access], np.int64),
        )
        return cls(stream, footprint, np.array([access[0] for access in ordered], np.int64))


@dataclass(frozen=True, eq=False)
class TraceChunk:
    """Some blocks of a launch: which stream and footprint every warp has, and its base sectors.

    Shapes: ``streams`` and ``footprints`` are (blocks, warps); the footprints of the chunk lie one after another in
    ``quarter_cycles``, ``starts`` and ``offsets``, footprint f between entries f and f + 1 of ``quarter_start``,
    ``starts_start`` and ``offset_start``; warp w of block row b has the bases between entries ``b * warps + w`` and the
    next of ``base_start``.
    """

    streams: NDArray[np.int32]
    footprints: NDArray[np.int32]
    quarter_start: NDArray[np.int64]
    quarter_cycles: NDArray[np.int32]
    starts_start: NDArray[np.int64]
    starts: NDArray[np.int32]
    offset_start: NDArray[np.int64]
    offsets: NDArray[np.int64]
    base_start: NDArray[np.int64]
    bases: NDArray[np.int64]

    def arrays(self) -> tuple[NDArray[Any], ...]:
        """The arrays in the order of the fields."""
        return tuple(getattr(self, name) for name in self.__dataclass_fields__)

    @classmethod
    def of(
        cls,
        streams: NDArray[np.int32],
        footprints: NDArray[np.int32],
        table: Sequence[Footprint],
        base_start: NDArray[np.int64],
        bases: NDArray[np.int64],
    ) -> TraceChunk:
        """Lay the footprints of a chunk one after another."""

        def starts(sizes: Iterable[int]) -> NDArray[np.int64]:
            return np.cumsum([0, *sizes], dtype=np.int64)

        return cls(
            streams,
            footprints,
            starts(len(f.quarter_cycles) for f in table),
            np.concatenate([f.quarter_cycles for f in table]),
            starts(len(f.starts) for f in table),
            np.concatenate([f.starts for f in table]),
            starts(len(f.offsets) for f in table),
            np.concatenate([f.offsets for f in table]),
            base_start,
            bases,
        )

    def footprint(self, number: int) -> Footprint:
        """Footprint `number` of this chunk."""
        q, s, o = self.quarter_start, self.starts_start, self.offset_start
        return Footprint(
            self.quarter_cycles[q[number] : q[number + 1]],
            self.starts[s[number] : s[number + 1]],
            self.offsets[o[number] : o[number + 1]],
        )


class KernelTrace:
    """What all warps of one launch did; blocks are read back one at a time with `block`.

    Parameters
    ----------
    name
        Name of the kernel.
    config
        Grid and block.
    registers
        Registers per thread (W5).
    shared_bytes
        Static plus dynamic shared memory per block.
    assumptions
        Sentences for the report, for example that the register count was assumed.
    memory_limit_bytes
        Per-warp data beyond this is spilled to a temporary file.
    """

    def __init__(
        self,
        name: str,
        config: LaunchConfig,
        *,
        registers: int = 32,
        shared_bytes: int = 0,
        assumptions: tuple[str, ...] = (),
        memory_limit_bytes: int = 256 * 2**20,
    ) -> None:
        self.name = name
        self.config = config
        self.registers = registers
        self.shared_bytes = shared_bytes
        self.assumptions = assumptions
        self.streams: list[Stream] = []
        self._stream_numbers: dict[bytes, int] = {}
        self._store = ArrayStore(memory_limit_bytes)
        self._chunk_of = np.full(config.blocks, -1, np.int32)
        self._row_of = np.zeros(config.blocks, np.int32)
        self._open: tuple[int, TraceChunk, dict[int, Footprint]] | None = None

    @property
    def spilled_bytes(self) -> int:
        """Bytes of the trace that live in a temporary file."""
        return self._store.spilled_bytes

    def intern_stream(self, key: bytes, stream: Stream) -> int:
        """Number of the stream with this content, `stream` itself if it is new; equal `key` means equal content."""
        number = self._stream_numbers.setdefault(key, len(self.streams))
        if number == len(self.streams):
            self.streams.append(stream)
        return number

    def add_chunk(self, blocks: NDArray[np.int64], chunk: TraceChunk) -> None:
        """Record the blocks with these linear numbers, row by row."""
        self._chunk_of[blocks] = self._store.put(*chunk.arrays())
        self._row_of[blocks] = np.arange(len(blocks), dtype=np.int32)

    def block(self, block: int) -> list[WarpTrace]:
        """Warps of block number `block`, in order."""
        number = int(self._chunk_of[block]) if 0 <= block < self.config.blocks else -1
        if number < 0:
            raise TraceError(f"block {block} of kernel {self.name!r} was never recorded")
        if self._open is None or self._open[0] != number:
            self._open = (number, TraceChunk(*self._store.get(number)), {})
        _, chunk, footprints = self._open
        row = int(self._row_of[block])
        warps = []
        for w, (s, f) in enumerate(zip(chunk.streams[row].tolist(), chunk.footprints[row].tolist(), strict=True)):
            if f not in footprints:
                footprints[f] = chunk.footprint(f)
            first = row * chunk.streams.shape[1] + w
            bases = chunk.bases[chunk.base_start[first] : chunk.base_start[first + 1]]
            warps.append(WarpTrace(self.streams[s], footprints[f], bases))
        return warps

    def __iter__(self) -> Iterator[list[WarpTrace]]:
        return (self.block(b) for b in range(self.config.blocks))

    @property
    def warp_instructions(self) -> int:
        """Warp instructions in the whole grid."""
        lengths = np.array([len(s) for s in self.streams], np.int64)
        return sum(int(lengths[self._store.get(n)[0]].sum()) for n in range(len(self._store)))

    @classmethod
    def of_blocks(cls, name: str, blocks: Sequence[Sequence[WarpTrace]], **launch: Any) -> KernelTrace:
        """Build a trace by hand from the warps of every block; all blocks have equally many warps.

        Examples
        --------
        >>> warp = WarpTrace.of([Instruction(OpClass.FP32)])
        >>> KernelTrace.of_blocks("k", [[warp, warp]] * 3).warp_instructions
        6
        """
        widths = {len(warps) for warps in blocks}
        if len(widths) != 1 or 0 in widths:
            raise TraceError(f"blocks with {sorted(widths)} warps: all blocks of a grid have equally many, at least 1")
        trace = cls(name, LaunchConfig.of(len(blocks), widths.pop() * WARP_SIZE), **launch)
        for stream in {id(w.stream): w.stream for warps in blocks for w in warps}.values():
            stream.check()
        for number, warps in enumerate(blocks):
            streams = [trace.intern_stream(str(id(w.stream)).encode(), w.stream) for w in warps]
            chunk = TraceChunk.of(
                np.array([streams], np.int32),
                np.arange(len(warps), dtype=np.int32)[None, :],
                [w.footprint for w in warps],
                np.cumsum([0, *(len(w.bases) for w in warps)], dtype=np.int64),
                np.concatenate([w.bases for w in warps]),
            )
            trace.add_chunk(np.array([number]), chunk)
        return trace

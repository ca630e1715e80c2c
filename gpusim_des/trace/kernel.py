"""What all warps of a launch did, in chunks of blocks, deduplicated and spilled to a file past a limit (W3, W4)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpusim_des.errors import TraceError
from gpusim_des.grid import WARP_SIZE, Dim3, LaunchConfig
from gpusim_des.line_site import NO_SITE, LineSite
from gpusim_des.spill import ArrayStore
from gpusim_des.trace.check import Amounts, StreamSizes, check_chunk
from gpusim_des.trace.sample import Sample
from gpusim_des.trace.warp import LINES, Footprint, Stream, WarpTrace


@dataclass(frozen=True, eq=False)
class TraceChunk:
    """Some blocks of a launch: which stream and footprint every warp has, and its base sectors.

    Shapes: ``streams`` and ``footprints`` are (blocks, warps); the footprints of the chunk lie one after another in
    ``quarter_cycles``, ``starts``, ``offsets`` and ``passes``, footprint f between entries f and f + 1 of
    ``quarter_start``, ``starts_start``, ``offset_start`` and ``passes_start``; warp w of block row b has the bases
    between entries ``b * warps + w`` and the next of ``base_start``.
    """

    streams: NDArray[np.int32]
    footprints: NDArray[np.int32]
    quarter_start: NDArray[np.int64]
    quarter_cycles: NDArray[np.int32]
    starts_start: NDArray[np.int64]
    starts: NDArray[np.int32]
    offset_start: NDArray[np.int64]
    offsets: NDArray[np.int64]
    passes_start: NDArray[np.int64]
    passes: NDArray[np.uint8]
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
            starts(len(f.passes) for f in table),
            np.concatenate([f.passes for f in table]),
            base_start,
            bases,
        )

    def footprint(self, number: int) -> Footprint:
        """Footprint `number` of this chunk."""
        q, s, o, p = self.quarter_start, self.starts_start, self.offset_start, self.passes_start
        return Footprint(
            self.quarter_cycles[q[number] : q[number + 1]],
            self.starts[s[number] : s[number + 1]],
            self.offsets[o[number] : o[number + 1]],
            self.passes[p[number] : p[number + 1]],
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
        self.sample: Sample | None = None
        """Which blocks were executed and are to be played; ``None``: all of them."""
        self.streams: list[Stream] = []
        self.files: list[str] = []
        """Source files of the instructions by number; one without a name where it is not known."""
        self._warp_instructions = 0
        self._stream_numbers: dict[bytes, int] = {}
        self._store = ArrayStore(memory_limit_bytes)
        self._chunk_of = np.full(config.blocks, -1, np.int32)
        self._row_of = np.zeros(config.blocks, np.int32)
        self._open: tuple[int, TraceChunk, dict[int, Footprint]] | None = None

    @property
    def held_bytes(self) -> int:
        """Bytes of the trace that are in memory, its streams aside."""
        return self._store.held_bytes

    @property
    def spilled_bytes(self) -> int:
        """Bytes of the trace that live in a temporary file."""
        return self._store.spilled_bytes

    def sites(self, stream: Stream) -> list[LineSite]:
        """File and line of every instruction of a stream."""
        places, numbers = np.unique(stream.places, return_inverse=True)
        known = self._sites_at(places)
        return [known[number] for number in numbers.tolist()]

    @property
    def all_sites(self) -> list[LineSite]:
        """Source lines of its instructions, ascending; `NO_SITE` is always among them."""
        places = np.unique(np.concatenate([np.zeros(1, np.int64), *(np.unique(s.places) for s in self.streams)]))
        return sorted({NO_SITE, *self._sites_at(places)})

    def _sites_at(self, places: NDArray[np.int64]) -> list[LineSite]:
        files, lines = np.divmod(places, LINES)
        names = self.files or [""]
        return [
            LineSite(names[file], line) if line else NO_SITE
            for file, line in zip(files.tolist(), lines.tolist(), strict=True)
        ]

    def intern_file(self, name: str) -> int:
        """Number of a source file."""
        if name not in self.files:
            self.files.append(name)
        return self.files.index(name)

    @property
    def warp_instructions(self) -> int:
        """Warp instructions of all blocks that were recorded."""
        return self._warp_instructions

    def intern_stream(self, key: bytes, stream: Stream) -> int:
        """Number of the stream with this content, `stream` itself if it is new; equal `key` means equal content."""
        number = self._stream_numbers.setdefault(key, len(self.streams))
        if number == len(self.streams):
            self.streams.append(stream)
        return number

    def add_chunk(self, blocks: NDArray[np.int64], chunk: TraceChunk) -> None:
        """Record the blocks with these linear numbers, row by row.

        Raises
        ------
        TraceError
            For blocks outside the grid, and streams that the trace does not have.
        """
        inside = (blocks >= 0) & (blocks < self.config.blocks)
        if len(blocks) != len(chunk.streams) or not inside.all():
            raise TraceError(
                f"{len(blocks)} blocks for {len(chunk.streams)} rows of kernel {self.name!r}: give each row the number "
                f"of a block between 0 and {self.config.blocks - 1}"
            )
        numbers, warps = np.unique(chunk.streams, return_counts=True)
        unknown = [int(number) for number in numbers if not 0 <= number < len(self.streams)]
        if unknown:
            raise TraceError(
                f"stream {unknown[0]} of kernel {self.name!r}: it has {len(self.streams)}; call intern_stream() before"
            )
        self._chunk_of[blocks] = self._store.put(*chunk.arrays())
        self._row_of[blocks] = np.arange(len(blocks), dtype=np.int32)
        for number, count in zip(numbers.tolist(), warps.tolist(), strict=True):
            self._warp_instructions += len(self.streams[number]) * count

    def index_of(self, block: int) -> Dim3:
        """Place of a block in the grid, for messages."""
        return self.config.grid.at(block)

    def block(self, block: int) -> list[WarpTrace]:
        """Warps of block number `block`, in order."""
        chunk, footprints = self._chunk(block)
        row = int(self._row_of[block])
        warps = []
        for w, (s, f) in enumerate(zip(chunk.streams[row].tolist(), chunk.footprints[row].tolist(), strict=True)):
            if f not in footprints:
                footprints[f] = chunk.footprint(f)
            first = row * chunk.streams.shape[1] + w
            bases = chunk.bases[chunk.base_start[first] : chunk.base_start[first + 1]]
            warps.append(WarpTrace(self.streams[s], footprints[f], bases))
        return warps

    def rows(self, first: int, count: int) -> tuple[TraceChunk, NDArray[np.int32]]:
        """Chunk of block number `first`, and the rows there of that block and the next ones, `count` at most.

        It ends before the first block that lies in another chunk.
        """
        chunk, _ = self._chunk(first)
        numbers = self._chunk_of[first : first + count]
        together = int(np.argmin(np.append(numbers == numbers[0], False)))
        return chunk, self._row_of[first : first + together]

    def by_chunk(self, blocks: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], TraceChunk, NDArray[np.int32]]]:
        """Look some blocks up chunk by chunk: their positions in `blocks`, the chunk, and their rows there."""
        chunks = self._chunk_of[blocks]
        for number in np.unique(chunks):
            here = np.flatnonzero(chunks == number)
            chunk, _ = self._chunk(int(blocks[here[0]]))
            yield here, chunk, self._row_of[blocks[here]]

    def _chunk(self, block: int) -> tuple[TraceChunk, dict[int, Footprint]]:
        """Open the chunk of a block; returns it with the footprints that were looked at."""
        number = int(self._chunk_of[block]) if 0 <= block < self.config.blocks else -1
        if number < 0:
            raise TraceError(f"block {block} of kernel {self.name!r} was never recorded")
        if self._open is None or self._open[0] != number:
            self._open = (number, TraceChunk(*self._store.get(number)), {})
        return self._open[1:]

    def check(self) -> Amounts:
        """Refuse a trace that no engine may play, and say how much it holds.

        Engines call it before they play: streams, footprints and chunks may have been made by hand, and arrays changed.

        Raises
        ------
        TraceError
            Naming kernel, block or instruction, the value and the rule.
        LaunchError
            If grid or block is larger than CUDA allows.
        """
        LaunchConfig.of(tuple(self.config.grid), tuple(self.config.block))
        for number, stream in enumerate(self.streams):
            with self._naming(f"stream {number}"):
                stream.check()
                self._check_files(stream)
        sizes, warps = StreamSizes.of(self.streams), self.config.warps_per_block
        amounts = Amounts(0, 0, 0, 0, 0)
        for number in range(len(self._store)):
            chunk = TraceChunk(*self._store.get(number))

            def place(row: int, warp: int, chunk_number: int = number) -> str:
                blocks = np.flatnonzero((self._chunk_of == chunk_number) & (self._row_of == row))
                return f"block {blocks[0] if len(blocks) else 'of no number'}, warp {warp}"

            with self._naming(f"chunk {number}"):
                amounts += check_chunk(chunk, sizes, warps, place)
        needed = np.arange(self.config.blocks) if self.sample is None else self.sample.played
        self._chunk(int(needed[np.argmin(self._chunk_of[needed])]))
        return amounts

    def _check_files(self, stream: Stream) -> None:
        count = max(1, len(self.files))
        for index in np.flatnonzero(stream.files >= count)[:1]:
            raise TraceError(
                f"instruction {index} stands in file {stream.files[index]}: the trace has {count}; call intern_file() "
                "before"
            )

    @contextmanager
    def _naming(self, part: str) -> Iterator[None]:
        """Say in a complaint which kernel it is about."""
        try:
            yield
        except TraceError as error:
            raise TraceError(f"kernel {self.name!r}, {part}: {error}") from None

    def __iter__(self) -> Iterator[list[WarpTrace]]:
        return (self.block(b) for b in range(self.config.blocks))

    @classmethod
    def of_blocks(cls, name: str, blocks: Sequence[Sequence[WarpTrace]], **launch: Any) -> KernelTrace:
        """Build a trace by hand from the warps of every block; all blocks have equally many warps.

        Examples
        --------
        >>> from gpusim_des.trace import Instruction, OpClass
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

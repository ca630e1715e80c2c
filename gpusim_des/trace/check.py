"""What a trace must be before an engine may play it (W1 to W3); engines trust it and look no further.

A stream is looked at once, a chunk of blocks once, whole arrays at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpusim_des.errors import TraceError
from gpusim_des.grid import WARP_SIZE
from gpusim_des.trace.mma import MMA_TYPES
from gpusim_des.trace.operation import GLOBAL_OPS, MEMORY_OPS, OpClass

if TYPE_CHECKING:
    from gpusim_des.trace.kernel import TraceChunk
    from gpusim_des.trace.warp import Stream

Array = NDArray[np.int64]

LARGEST = (1 << 31) - 1
"""Largest number of an instruction, source line, operand or time in the load/store unit."""

LEAST_QUARTERS = 4
"""A memory instruction takes the load/store unit for a cycle at least (M1)."""

MOST_SECTORS = (1 << 16) - 1
"""Sectors of one access: an event's place in the order has 16 bits for the packet (T2)."""

END_OF_MEMORY = 1 << 56
"""Sector numbers lie below: addresses below 2^61."""


BYTES = ("ops", "lanes", "passes")
"""Arrays that may hold unsigned bytes."""


class Amounts(NamedTuple):
    """How much a trace holds, over all warps of its grid."""

    warps: int
    instructions: int
    quarter_cycles: int
    """In the load/store units."""
    sectors: int
    passes: int
    """Operations of atomic accesses, one for every other sector."""

    def __add__(self, other: Amounts) -> Amounts:  # type: ignore[override]  # not the sum of tuples
        return Amounts(*(a + b for a, b in zip(self, other, strict=True)))


class StreamSizes(NamedTuple):
    """Numbers of instructions of streams, one entry per stream."""

    instructions: Array
    memory: Array
    accesses: Array

    @classmethod
    def of(cls, streams: Sequence[Stream]) -> StreamSizes:
        """Count the instructions of some streams, those that use the load/store unit, and those that send sectors."""
        rows = [(len(s), s.count(MEMORY_OPS), s.count(GLOBAL_OPS)) for s in streams]
        return cls(*np.array(rows, np.int64).reshape(-1, 3).T)


def _numbers(what: str, array: NDArray[Any], length: int | None = None, dimensions: int = 1) -> Array:
    """Return an array of whole numbers: signed ones, because NumPy turns sums with unsigned ones into fractions.

    Only what nobody adds up may be bytes.
    """
    whole = isinstance(array, np.ndarray) and (array.dtype.kind == "i" or (what in BYTES and array.dtype == np.uint8))
    if not whole or array.ndim != dimensions:
        shown = f"{array.dtype} of shape {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
        raise TraceError(
            f"{what}: must be an array of whole numbers with a sign{' or bytes' * (what in BYTES)}, with {dimensions} "
            f"dimension(s), not {shown}"
        )
    if length is not None and len(array) != length:
        raise TraceError(f"{what} has {len(array)} entries: must have {length}")
    return array.astype(np.int64, copy=False)


def _first(bad: NDArray[np.bool_]) -> int:
    """Index of the first entry that is true; -1 if there is none."""
    return int(bad.argmax()) if bad.any() else -1


def _within(what: str, array: Array, low: int, high: int, why: str = "") -> None:
    k = _first((array < low) | (array > high))
    if k >= 0:
        raise TraceError(f"{what} {k} is {array[k]}: must lie between {low} and {high}{why and '; ' + why}")


def _stretches(what: str, edges: NDArray[Any], count: int, values: str, length: int) -> Array:
    """Check the edges of `count` stretches that lie one after another in an array of this length."""
    found = _numbers(what, edges, max(1, count + 1))
    if found[0] != 0 or found[-1] != length or (found[1:] < found[:-1]).any():
        raise TraceError(
            f"{what} begins with {found[0]} and ends with {found[-1]}: must rise from 0 to {length}, the length of "
            f"{values}"
        )
    return found


def check_stream(stream: Stream) -> None:
    """Refuse a stream that no engine may play; raises `TraceError` naming the instruction."""
    ops = _numbers("ops", stream.ops)
    n = len(ops)
    if n > LARGEST:
        raise TraceError(f"a stream of {n} instructions: must have at most {LARGEST}; split the kernel")
    lanes, lines = _numbers("lanes", stream.lanes, n), _numbers("lines", stream.lines, n)
    operands = _numbers("operands", stream.operands, n)
    deps = _numbers("deps", stream.deps)
    edges = _stretches("dep_start", stream.dep_start, n, "deps", len(deps))
    reader = np.repeat(np.arange(n), np.diff(edges))
    k = _first((deps < 0) | (deps >= reader))
    if k >= 0:
        raise TraceError(
            f"instruction {reader[k]} depends on instruction {deps[k]}: "
            "an operand comes from an earlier instruction of the same warp"
        )
    k = _first((lanes < 1) | (lanes > WARP_SIZE))
    if k >= 0:
        raise TraceError(f"instruction {k} has {lanes[k]} active lanes: must lie between 1 and {WARP_SIZE}")
    k = _first((ops < 0) | (ops >= len(OpClass)))
    if k >= 0:
        raise TraceError(
            f"instruction {k} has the operation class {ops[k]}: OpClass has the classes 0 to {len(OpClass) - 1}"
        )
    _within("source line of instruction", lines, 0, LARGEST, "0 if it is not known")
    _within("operand of instruction", operands, 0, LARGEST)
    files = _numbers("files", stream.files, n if np.size(stream.files) else 0)
    _within("file of instruction", files, 0, LARGEST, "its number among the files of the trace")
    tensor = np.flatnonzero(ops == OpClass.TENSOR)
    shapes = operands[tensor]
    empty = ((shapes & 255) == 0) | ((shapes >> 8 & 255) == 0) | ((shapes >> 16 & 255) == 0)
    k = _first(empty | (shapes >> 24 >= len(MMA_TYPES)))
    if k >= 0:
        raise TraceError(f"instruction {tensor[k]} has the operand {shapes[k]}: a tensor instruction has Mma.encode()")


def check_chunk(chunk: TraceChunk, sizes: StreamSizes, warps: int, place: Callable[[int, int], str]) -> Amounts:
    """Refuse blocks that no engine may play, and say how much they hold.

    Parameters
    ----------
    sizes
        Of the streams of the trace.
    warps
        Warps of a block.
    place
        Names a warp for messages, given the row of its block and its number.

    Raises
    ------
    TraceError
        If arrays contradict each other, the streams, or the rules of `Footprint`.
    """
    table, users = (_numbers(what, getattr(chunk, what), dimensions=2) for what in ("streams", "footprints"))
    rows = len(table)
    if table.shape[1] != warps or users.shape != table.shape:
        raise TraceError(
            f"streams of shape {table.shape} and footprints of shape {users.shape}: both must have one row per block "
            f"and one column for each of its {warps} warps"
        )
    shapes = _check_shapes(chunk)
    streams, of_warp = table.ravel(), users.ravel()
    _within("stream of warp", streams, 0, len(sizes.memory) - 1, "number of a stream of the trace")
    _within("footprint of warp", of_warp, 0, len(shapes.accesses) - 1, "number of a footprint of the chunk")
    bases = _numbers("bases", chunk.bases)
    counts = np.diff(_stretches("base_start", chunk.base_start, rows * warps, "bases", len(bases)))
    _within("base sector", bases, 0, END_OF_MEMORY - 1, "sector numbers are addresses / 32")
    for found, asked, what in (
        (shapes.memory[of_warp], sizes.memory[streams], "times in the load/store unit for {} memory instructions"),
        (shapes.accesses[of_warp], sizes.accesses[streams], "sector lists for {} global accesses"),
        (counts, sizes.accesses[streams], "base sectors for {} global accesses"),
    ):
        wrong = found != asked
        if wrong.any():
            k = _first(wrong)
            where = place(k // warps, k % warps)
            raise TraceError(f"{where} has {found[k]} {what.format(asked[k])}: give one for each")
    # Floating point does not overflow.
    often = np.bincount(of_warp, minlength=len(shapes.accesses)).astype(float)
    amounts = [int(often @ each) for each in (shapes.quarter_cycles, shapes.sectors, shapes.passes)]
    return Amounts(rows * warps, int(sizes.instructions[streams].sum()), *amounts)


class Shapes(NamedTuple):
    """What the footprints of a chunk hold, one entry per footprint."""

    memory: Array
    accesses: Array
    quarter_cycles: Array
    sectors: Array
    passes: Array


def _check_shapes(chunk: TraceChunk) -> Shapes:
    count = len(_numbers("quarter_start", chunk.quarter_start)) - 1
    quarters = _numbers("quarter_cycles", chunk.quarter_cycles)
    quarter_start = _stretches("quarter_start", chunk.quarter_start, count, "quarter_cycles", len(quarters))
    _within("quarter_cycles: entry", quarters, LEAST_QUARTERS, LARGEST, "four quarter-cycles are a cycle (M1)")
    offsets = _numbers("offsets", chunk.offsets)
    offset_start = _stretches("offset_start", chunk.offset_start, count, "offsets", len(offsets))
    sectors = np.diff(offset_start)
    accesses = _check_accesses(chunk, count, offsets, offset_start)
    passes = _numbers("passes", chunk.passes)
    passes_start = _stretches("passes_start", chunk.passes_start, count, "passes", len(passes))
    said = np.diff(passes_start)
    k = _first((said != 0) & (said != sectors))
    if k >= 0:
        raise TraceError(f"footprint {k} has {said[k]} passes for {sectors[k]} sectors: give none, or one for each")
    _within("passes: entry", passes, 1, WARP_SIZE, "each lane of a warp operates once (M7)")

    def sums(values: Array, edges: Array) -> Array:
        running = np.concatenate([np.zeros(1, np.int64), np.cumsum(values)])
        found: Array = running[edges[1:]] - running[edges[:-1]]
        return found

    operations = np.where(said > 0, sums(passes, passes_start), sectors)
    return Shapes(np.diff(quarter_start), accesses, sums(quarters, quarter_start), sectors, operations)


def _check_accesses(chunk: TraceChunk, count: int, offsets: Array, offset_start: Array) -> Array:
    """Check where the accesses of every footprint begin among its sectors; returns how many accesses each has."""
    starts = _numbers("starts", chunk.starts)
    edges = _stretches("starts_start", chunk.starts_start, count, "starts", len(starts))
    lengths = np.diff(edges)
    k = _first(lengths < 1)
    if k >= 0:
        raise TraceError(f"footprint {k} has no starts: without any access it has the one entry 0")
    first, last = edges[:-1], edges[1:] - 1
    k = _first((starts[first] != 0) | (starts[last] != np.diff(offset_start)))
    if k >= 0:
        raise TraceError(
            f"footprint {k} has starts from {starts[first[k]]} to {starts[last[k]]}: must rise from 0 to the number of "
            f"its offsets, {np.diff(offset_start)[k]}"
        )
    sizes = np.delete(np.diff(starts), last[:-1]) if count else np.zeros(0, np.int64)
    _within("access: number of sectors of access", sizes, 1, MOST_SECTORS, "split a larger copy")
    _within("offsets: entry", offsets, 0, END_OF_MEMORY - 1, "it counts from the warp's base sector")
    if len(offsets):
        rises = offsets[1:] > offsets[:-1]
        begins = np.cumsum(sizes)[:-1]
        rises[begins - 1] = True
        k = _first(~rises)
        if k >= 0:
            raise TraceError(
                f"offsets: entry {k + 1} is {offsets[k + 1]} behind {offsets[k]}: the sectors of an access must rise; "
                "sort them and name each once"
            )
    return lengths - 1

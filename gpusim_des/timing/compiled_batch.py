"""Some blocks of a trace at once, as `compiled_tape` takes them: no Python object per warp (W3, W4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from gpusim_des.errors import TraceError
from gpusim_des.gpu import GPU
from gpusim_des.timing.address_hash import access_pieces
from gpusim_des.trace import KernelTrace

Array = NDArray[np.int64]


class ReadyStream(NamedTuple):
    """A stream as the compiled engine knows it."""

    place: int
    slots: int
    """Words of its scoreboard."""
    phases: int
    """Phases of barriers that its bulk copies count for."""
    length: int
    memory: int
    """Its instructions that pass through the load/store unit."""
    bulk: Array
    """For every global access whether it is a bulk copy."""


class Batch(NamedTuple):
    """Some blocks, laid out one behind another."""

    words: Array
    blocks: int
    slots: int
    """Words of the largest scoreboard."""
    phases: int
    """Phases of the stream with most of them."""
    longest: int
    """Instructions of the longest stream."""
    widest: int
    """Lines of the largest access."""


def read_batch(trace: KernelTrace, first: int, count: int, gpu: GPU, ready: Callable[[int], ReadyStream]) -> Batch:
    """Read blocks from number `first` on, `count` at most; `ready` knows the trace's streams by number."""
    chunk, rows = trace.rows(first, count)
    numbers, of_warp = np.unique(chunk.streams[rows].ravel(), return_inverse=True)
    streams = [ready(int(number)) for number in numbers]
    f = chunk.footprints[rows].ravel()
    warps = chunk.streams.shape[1]
    row = (rows[:, None].astype(np.int64) * warps + np.arange(warps)).ravel()
    quarters = _gather(chunk.quarter_cycles, chunk.quarter_start[f], np.diff(chunk.quarter_start)[f])
    accesses = np.diff(chunk.base_start)[row]
    fits = np.diff(chunk.quarter_start)[f] == np.array([s.memory for s in streams])[of_warp]
    fits &= accesses == np.array([len(s.bulk) for s in streams])[of_warp]
    if warps != trace.config.warps_per_block or not fits.all():
        raise TraceError(f"block {first} of kernel {trace.name!r} or one after it: footprints do not fit the streams")
    heads = np.stack([np.array([s.place for s in streams])[of_warp], np.diff(chunk.quarter_start)[f], accesses], axis=1)
    kinds, pieces = np.zeros((0, 2), np.int64), np.zeros((0, 6), np.int64)
    if accesses.any():
        sizes = _gather(np.diff(chunk.starts), chunk.starts_start[f], np.diff(chunk.starts_start)[f] - 1)
        sectors = np.diff(chunk.offset_start)[f]
        if len(sizes) != accesses.sum() or sizes.min() < 1:
            raise TraceError(f"block {first} of kernel {trace.name!r} or one after it: an access without sectors")
        offsets = _gather(chunk.offsets, chunk.offset_start[f], sectors)
        passes = np.ones(len(offsets), np.int64)
        said = np.diff(chunk.passes_start)[f] > 0
        if said.any():
            # Where a footprint says nothing, every sector takes one pass.
            passes[np.repeat(said, sectors)] = _gather(chunk.passes, chunk.passes_start[f][said], sectors[said])
        bases = _gather(chunk.bases, chunk.base_start[row], accesses)
        found, channels, begins = access_pieces(sizes, bases, offsets, passes, gpu)
        bulk_start = np.cumsum([0, *(len(s.bulk) for s in streams)])
        bulk = _gather(np.concatenate([s.bulk for s in streams]), bulk_start[:-1][of_warp], accesses)
        kinds = np.stack([np.diff(np.append(begins, len(channels))), bulk], axis=1)
        columns = (found.lines, found.masks, channels, found.sectors, found.granules, found.passes)
        pieces = np.stack(columns, axis=1)
    counts = np.array([len(rows), warps, len(quarters), len(kinds)], np.int64)
    return Batch(
        np.concatenate([counts, heads.ravel(), quarters, kinds.ravel(), pieces.ravel()]),
        len(rows),
        max(s.slots for s in streams),
        max(s.phases for s in streams),
        max(s.length for s in streams),
        int(kinds[:, 0].max(initial=0)),
    )


def _gather(values: NDArray[np.signedinteger | np.unsignedinteger], starts: Array, lengths: Array) -> Array:
    """Join stretches of an array.

    >>> _gather(np.arange(10, 20), np.array([7, 0]), np.array([2, 3])).tolist()
    [17, 18, 10, 11, 12]
    """
    ends = np.cumsum(lengths)
    places = np.arange(ends[-1]) + np.repeat(starts - ends + lengths, lengths)
    return cast("Array", values[places].astype(np.int64))

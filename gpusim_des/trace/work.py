"""How much work blocks are: what is known of a block without playing it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpusim_des.trace.kernel import KernelTrace
from gpusim_des.trace.operation import GLOBAL_OPS, OpClass

MEASURES = ("instructions", "longest warp", "sectors", "load/store cycles")
"""Columns of `work`."""

_STORING = [OpClass.GLOBAL_STORE, OpClass.GLOBAL_ATOMIC]


def work(trace: KernelTrace, blocks: NDArray[np.int64]) -> NDArray[np.float64]:
    """Measures of the work of some recorded blocks, a row for each block.

    Warp instructions of all its warps, of the longest one, sectors of its global accesses, and cycles in the load/store
    unit.

    Examples
    --------
    >>> from gpusim_des.trace import Instruction, WarpTrace
    >>> load, add = Instruction(OpClass.GLOBAL_LOAD), Instruction(OpClass.FP32, deps=(0,))
    >>> warps = [WarpTrace.of([load, add], [[8, 9]]), WarpTrace.of([load], [[4]])]
    >>> work(KernelTrace.of_blocks("k", [warps]), np.array([0])).tolist()
    [[3.0, 2.0, 3.0, 2.0]]
    """
    lengths = np.array([len(stream) for stream in trace.streams], np.int64)
    result = np.zeros((len(blocks), len(MEASURES)))
    for here, chunk, rows in trace.by_chunk(blocks):
        of_warps = lengths[chunk.streams[rows]]
        footprints = chunk.footprints[rows]
        sectors = np.diff(chunk.offset_start)[footprints]
        before = np.concatenate([[0], np.cumsum(chunk.quarter_cycles, dtype=np.int64)])
        quarters = np.diff(before[chunk.quarter_start])[footprints]
        columns = of_warps.sum(axis=1), of_warps.max(axis=1), sectors.sum(axis=1), quarters.sum(axis=1) / 4
        result[here] = np.stack(columns, axis=1)
    return result


def moved_sectors(trace: KernelTrace, blocks: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sectors that some recorded blocks load and store, a row for each block; atomics count as stores.

    Examples
    --------
    >>> from gpusim_des.trace import Instruction, WarpTrace
    >>> load, store = Instruction(OpClass.GLOBAL_LOAD), Instruction(OpClass.GLOBAL_STORE, deps=(0,))
    >>> warps = [WarpTrace.of([load, store], [[8, 9], [7]]), WarpTrace.of([load], [[4]])]
    >>> moved_sectors(KernelTrace.of_blocks("k", [warps]), np.array([0])).tolist()
    [[3, 1]]
    """
    stores = [np.isin(s.ops[np.isin(s.ops, list(GLOBAL_OPS))], _STORING) for s in trace.streams]
    result = np.zeros((len(blocks), 2), np.int64)
    for here, chunk, rows in trace.by_chunk(blocks):
        streams, footprints = chunk.streams[rows].astype(np.int64), chunk.footprints[rows].astype(np.int64)
        kinds, of_warp = np.unique(streams * len(chunk.offset_start) + footprints, return_inverse=True)
        counts = np.zeros((len(kinds), 2), np.int64)
        for number, kind in enumerate(kinds.tolist()):
            stream, footprint = divmod(kind, len(chunk.offset_start))
            sizes = np.diff(chunk.footprint(footprint).starts)
            stored = int(sizes[stores[stream]].sum())
            counts[number] = int(sizes.sum()) - stored, stored
        result[here] = counts[of_warp.reshape(streams.shape)].sum(axis=1)
    return result


def instruction_counts(trace: KernelTrace, blocks: NDArray[np.int64]) -> NDArray[np.int64]:
    """Warp instructions of some recorded blocks by operation class, all blocks together.

    Examples
    --------
    >>> from gpusim_des.trace import Instruction, WarpTrace
    >>> warp = WarpTrace.of([Instruction(OpClass.FP32), Instruction(OpClass.FP32), Instruction(OpClass.EXIT)])
    >>> counts = instruction_counts(KernelTrace.of_blocks("k", [[warp]] * 5), np.array([1, 4]))
    >>> int(counts[OpClass.FP32]), int(counts.sum())
    (4, 6)
    """
    used = np.zeros(len(trace.streams), np.int64)
    for _, chunk, rows in trace.by_chunk(blocks):
        used += np.bincount(chunk.streams[rows].reshape(-1), minlength=len(used))
    counts = np.zeros(len(OpClass), np.int64)
    for number in np.flatnonzero(used):
        counts += used[number] * np.bincount(trace.streams[number].ops, minlength=len(counts))
    return counts


def active_lanes(trace: KernelTrace, blocks: NDArray[np.int64]) -> int:
    """Active lanes of all warp instructions of some recorded blocks.

    >>> from gpusim_des.trace import Instruction, WarpTrace
    >>> warp = WarpTrace.of([Instruction(OpClass.FP32, lanes=5), Instruction(OpClass.EXIT)])
    >>> active_lanes(KernelTrace.of_blocks("k", [[warp]] * 3), np.array([0, 2]))
    74
    """
    lanes = np.array([int(stream.lanes.sum(dtype=np.int64)) for stream in trace.streams], np.int64)
    return sum(int(lanes[chunk.streams[rows]].sum()) for _, chunk, rows in trace.by_chunk(blocks))

"""From the events of a chunk to the streams of its warps: what the machine did becomes contract 1."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from gpusim_des.functional.event import Event
from gpusim_des.functional.machine import Machine
from gpusim_des.trace import GLOBAL_OPS, MEMORY_OPS, Footprint, KernelTrace, Stream, TraceChunk

_Number = TypeVar("_Number", np.int64, np.uint8)


def record(machine: Machine, trace: KernelTrace) -> None:
    """Add the blocks of a finished machine to the trace."""
    warps = machine.warps
    shape = (machine.shape[0], machine.config.warps_per_block)
    streams = _streams(machine.events, warps, trace)
    footprints, table, base_start, bases = _footprints(machine.events, warps)
    chunk = TraceChunk.of(streams.reshape(shape), footprints.reshape(shape), table, base_start, bases)
    trace.add_chunk(machine.blocks, chunk)


def _groups(*parts: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Distinct rows of matrices side by side: number of the first row of each group, and the group of every row."""
    differing = [part for part in parts if (part != part[:1]).any()]
    if not differing:
        return np.zeros(1, np.int64), np.zeros(len(parts[0]), np.int32)
    data = np.concatenate([np.ascontiguousarray(part).view(np.uint8) for part in differing], axis=1)
    keys = data.view(np.dtype((np.void, data.shape[1] * data.itemsize))).reshape(-1)
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    return first, group.astype(np.int32).reshape(-1)


def _streams(events: list[Event], warps: int, trace: KernelTrace) -> NDArray[np.int32]:
    """Stream number of every warp."""
    lanes = np.array([e.lanes for e in events], np.uint8).reshape(len(events), warps).T
    columns = [(number, column) for number, e in enumerate(events) for column in e.columns]
    origins = np.ascontiguousarray(np.array([c for _, c in columns], np.int32).reshape(len(columns), warps).T)
    told = [np.broadcast_to(np.asarray(e.operand, np.int32), (warps,)) for e in events]
    operands = np.ascontiguousarray(np.array(told, np.int32).reshape(len(events), warps).T)
    first, group = _groups(lanes, origins, operands)
    ops = np.array([e.op for e in events], np.uint8)
    lines = np.array([e.line for e in events], np.int32)
    files = _files(events, trace)
    readers = [n for n, e in enumerate(events) for _ in e.producers] + [number for number, _ in columns]
    shared = [p for e in events for p in e.producers]
    reader = np.array(readers, np.int64)
    numbers = []
    for row in first.tolist():
        producer = np.array([*shared, *origins[row].tolist()], np.int64)
        numbers.append(_stream_of(lanes[row], ops, lines, files, operands[row], reader, producer, trace))
    result: NDArray[np.int32] = np.array(numbers, np.int32)[group]
    return result


def _files(events: list[Event], trace: KernelTrace) -> NDArray[np.int32]:
    """Number of the source file of every event; empty if all stand in the trace's first one, or in none."""
    names = dict.fromkeys(e.site.filename for e in events if e.line)
    numbers = {name: trace.intern_file(name) for name in names}
    if not any(numbers.values()):
        return np.zeros(0, np.int32)
    return np.array([numbers[e.site.filename] if e.line else 0 for e in events], np.int32)


def _stream_of(
    lanes: NDArray[np.uint8],
    ops: NDArray[np.uint8],
    lines: NDArray[np.int32],
    files: NDArray[np.int32],
    operands: NDArray[np.int32],
    reader: NDArray[np.int64],
    producer: NDArray[np.int64],
    trace: KernelTrace,
) -> int:
    """Number of the stream of a warp with these active lanes: only what it executed, dependencies included."""
    active = lanes > 0
    position = np.cumsum(active) - 1
    kept = active[reader] & active[producer] & (producer >= 0)
    pairs = np.unique(np.stack([position[reader[kept]], position[producer[kept]]]), axis=1)
    counts = np.bincount(pairs[0], minlength=int(active.sum()))
    own_files = files[active] if len(files) else files
    stream = Stream(
        ops[active],
        lanes[active],
        lines[active],
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int32),
        pairs[1].astype(np.int32),
        operands[active],
        own_files if own_files.any() else files[:0],
    )
    digest = blake2b(digest_size=16)
    for array in (stream.ops, stream.lanes, stream.lines, stream.dep_start, stream.deps, stream.operands, stream.files):
        digest.update(array.tobytes())
    return trace.intern_stream(digest.digest(), stream)


def _footprints(
    events: list[Event], warps: int
) -> tuple[NDArray[np.int32], list[Footprint], NDArray[np.int64], NDArray[np.int64]]:
    """Footprint number of every warp, the footprints, and the base sectors warp after warp."""
    memory = [e for e in events if e.op in MEMORY_OPS]
    quarters = np.array([e.quarter_cycles for e in memory], np.int32).reshape(len(memory), warps).T
    accesses = [e for e in memory if e.op in GLOBAL_OPS and e.sectors is not None]
    touched = [e.sectors for e in accesses if e.sectors is not None]
    counts = np.array([s.counts for s in touched], np.int64).reshape(len(touched), warps)
    sectors = _warp_major(counts, np.concatenate([s.numbers for s in touched]) if touched else np.zeros(0, np.int64))
    passes = np.zeros(0, np.uint8)
    if any(e.passes is not None for e in accesses):
        each = [
            np.ones(len(s.numbers), np.uint8) if e.passes is None else e.passes
            for e, s in zip(accesses, touched, strict=True)
        ]
        passes = _warp_major(counts, np.concatenate(each))
    counts = counts.T
    flat = counts.reshape(-1)
    start = np.concatenate([[0], np.cumsum(flat)])
    used = flat > 0
    bases = sectors[start[:-1][used]]
    offsets = sectors - np.repeat(bases, flat[used])
    base_start = np.concatenate([[0], np.cumsum((counts > 0).sum(axis=1))]).astype(np.int64)
    per_warp = counts.sum(axis=1)
    if len(set(per_warp.tolist())) == 1:
        first, group = _groups(quarters, counts, offsets.reshape(warps, -1), passes.reshape(warps, -1))
    else:
        first, group = np.arange(warps), np.arange(warps, dtype=np.int32)
    warp_start = np.concatenate([[0], np.cumsum(per_warp)])
    table = []
    for row in first.tolist():
        sizes = counts[row][counts[row] > 0]
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
        own = slice(warp_start[row], warp_start[row + 1])
        table.append(Footprint(quarters[row][quarters[row] > 0], starts, offsets[own], passes[own]))
    return group, table, base_start, bases


def _warp_major(counts: NDArray[np.int64], sectors: NDArray[_Number]) -> NDArray[_Number]:
    """Reorder numbers of sectors from access after access (counts: accesses × warps) to warp after warp."""
    by_access = counts.reshape(-1)
    begins = (np.cumsum(by_access) - by_access).reshape(counts.shape).T.reshape(-1)
    sizes = counts.T.reshape(-1)
    ends = np.cumsum(sizes)
    return sectors[np.repeat(begins - (ends - sizes), sizes) + np.arange(len(sectors))]

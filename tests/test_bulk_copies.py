"""Bulk copies (`cp.async.bulk`) and shared barriers: phases, who sees what when, counters, trace."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpusim_des as gs
from gpusim_des.functional import executor
from gpusim_des.trace import OpClass
from tests.test_async_copies import described
from tests.test_thread_equality import assert_equal_traces
from tests.test_thread_kernel import BOTH, results

TILE = 64


@gs.kernel
def row_sums(t: Any, a: Any, out: Any, tiles: Any) -> Any:
    """Each block sums the tiles of its row; thread 40 copies the next tile while all add up the present one."""
    S = t.shared("S", (2, TILE), np.float32)
    full = [t.shared_barrier("even"), t.shared_barrier("odd")]
    i, row = t.threadIdx.x, t.blockIdx.x
    if i == 40:
        t.memcpy_async_bulk(S, (0, 0), a, (row, 0), TILE, full[0])
    total = 0.0
    for k in range(tiles):
        if i == 40 and k + 1 < tiles:
            t.memcpy_async_bulk(S, ((k + 1) % 2, 0), a, (row, (k + 1) * TILE), TILE, full[(k + 1) % 2])
        t.barrier_wait(full[k % 2])
        total += S[k % 2, (i + 1) % TILE]
        yield t.syncthreads()
    out[row, i] = total


@gs.block_kernel
def row_sums_of_blocks(blk: gs.Block, a: Any, out: Any, tiles: int) -> None:
    S = blk.shared((2, TILE), np.float32)

    def copy(k: int) -> None:
        if k < tiles:
            bar = blk.shared_barrier(f"full{k % 2}")
            blk.memcpy_async_bulk(S, (k % 2, 0), a, (blk.bx, k * TILE), TILE, bar, mask=blk.tid == 40)

    copy(0)
    total: Any = 0.0
    for k in range(tiles):
        copy(k + 1)
        blk.barrier_wait(blk.shared_barrier(f"full{k % 2}"))
        total = total + blk.sload(S, (k % 2, (blk.tid + 1) % TILE))
        blk.sync()
    blk.store(out, (blk.bx, blk.tid), total)


@pytest.mark.parametrize("at_once", [1, 2, 100])
@pytest.mark.parametrize(("kernel", "vectorize"), [(row_sums, True), (row_sums, False), (row_sums_of_blocks, None)])
def test_sums_over_tiles_with_two_buffers(
    kernel: Any, vectorize: Any, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor, "CHUNK_THREADS", TILE * at_once)
    tiles = 5
    a = np.random.default_rng(2).integers(-99, 99, (3, tiles * TILE)).astype(np.float32)
    dev = gs.Device("tiny")
    array, out = dev.to_device(a), dev.malloc((3, TILE))
    launch = dev.launch(kernel, 3, TILE, array, out, tiles, vectorize=vectorize)
    assert np.array_equal(dev.to_host(out), np.roll(a.reshape(3, tiles, TILE).sum(axis=1), -1, axis=1))
    c = launch.counters
    assert (c.instruction_mix["bulk_copy"], c.instruction_mix["bulk_wait"]) == (3 * tiles, 3 * 2 * tiles)
    assert (c.global_load_requests, c.global_load_sectors) == (3 * tiles, 3 * tiles * 8)
    assert (c.global_load_bytes_requested, c.thread_loads) == (3 * tiles * 256, 3 * tiles * 64)
    # A tile is two rows of 128 bytes; the loads are one wavefront for each of two warps, the second wraps around.
    assert c.shared_requests == c.shared_ideal_wavefronts == 3 * tiles * (2 + 2)
    assert c.shared_bytes_per_block == 2 * TILE * 4 + 2 * 8
    # Phases 0 to 2 of barrier 0 and 0 to 1 of barrier 1, in turn.
    for block in launch.trace:
        for warp, copies in zip(block, (0, tiles), strict=True):
            assert operands(warp, OpClass.BULK_WAIT) == [0, 65536, 1, 65537, 2]
            assert operands(warp, OpClass.BULK_COPY) == [0, 65536, 1, 65537, 2][:copies]
    base = array.address // 32
    second = launch.trace.block(2)[1]
    starts = [base + (2 * tiles + k) * 8 for k in range(tiles)]
    assert [second.sectors(k).tolist() for k in range(tiles)] == [list(range(s, s + 8)) for s in starts]


def operands(warp: Any, op: OpClass) -> list[int]:
    return [int(operand) for operand, o in zip(warp.stream.operands, warp.stream.ops, strict=True) if o == op]


# What a wait makes visible ------------------------------------------------------------------------------------------


@gs.kernel
def early_reader(t: Any, a: Any, out: Any) -> Any:
    i = t.threadIdx.x
    S = t.shared("S", 4, np.float32)
    bar = t.shared_barrier()
    if i == 0:
        t.memcpy_async_bulk(S, 0, a, 4, 4, bar)
        a[4] = -1.0
    out[0, i] = S[i % 4]
    t.barrier_wait(bar)
    out[1, i] = S[i % 4]


@gs.block_kernel
def early_reader_in_blocks(blk: gs.Block, a: Any, out: Any) -> None:
    S = blk.shared(4)
    bar = blk.shared_barrier("bar")
    blk.memcpy_async_bulk(S, 0, a, 4, 4, bar, mask=blk.tid == 0)
    blk.store(a, 4, -1.0, mask=blk.tid == 0)
    blk.store(out, (0, blk.tid), blk.sload(S, blk.tid % 4))
    blk.barrier_wait(bar)
    blk.store(out, (1, blk.tid), blk.sload(S, blk.tid % 4))


@pytest.mark.parametrize(
    ("kernel", "vectorize"), [(early_reader, True), (early_reader, False), (early_reader_in_blocks, None)]
)
def test_shared_memory_changes_at_the_wait(kernel: Any, vectorize: Any) -> None:
    """It gets what global memory held when the copy was started."""
    dev = gs.Device("tiny")
    a, out = dev.to_device(np.arange(8, dtype=np.float32)), dev.malloc((2, 32))
    dev.launch(kernel, 1, 32, a, out, vectorize=vectorize)
    before, after = dev.to_host(out)
    assert np.isnan(before).all()
    assert after.tolist() == [4, 5, 6, 7] * 8


@gs.kernel
def two_copies(t: Any, a: Any, out: Any) -> Any:
    """Two threads of two warps fill the halves of an array, in one phase; the second is started later."""
    i = t.linear
    S = t.shared("S", 8, np.int64)
    bar = t.shared_barrier()
    for k in range(2):
        if i == 63 * k:
            t.memcpy_async_bulk(S, 4 * k, a, 2 * (k + t.blockIdx.x), 4, bar)
    t.barrier_wait(bar)
    out[t.blockIdx.x, i] = S[i % 8]


@BOTH
def test_a_wait_is_for_all_copies_of_its_phase(vectorize: bool) -> None:
    a = np.arange(12, dtype=np.int64)
    _, out = results(two_copies, 3, 64, a, np.zeros((3, 64), np.int64), vectorize=vectorize)
    halves = [[2 * b + x for x in (0, 1, 2, 3, 2, 3, 4, 5)] for b in range(3)]
    assert out == [row * 8 for row in halves]


@gs.kernel
def lengths(t: Any, a: Any, out: Any, n: Any) -> Any:
    """The last block has a shorter tile: the count differs from block to block."""
    i, first = t.threadIdx.x, t.blockIdx.x * 32
    S = t.shared("S", 32, np.float32)
    bar = t.shared_barrier()
    S[i] = -1.0
    yield t.syncthreads()
    if i == 0:
        t.memcpy_async_bulk(S, 0, a, first, min(n - first, 32), bar)
    t.barrier_wait(bar)
    out[first + i] = S[i]


@gs.block_kernel
def lengths_of_blocks(blk: gs.Block, a: Any, out: Any, n: int) -> None:
    first = blk.bx * 32
    S = blk.shared(32)
    bar = blk.shared_barrier("bar")
    blk.sstore(S, blk.tid, -1.0)
    blk.sync()
    blk.memcpy_async_bulk(S, 0, a, first, np.minimum(n - first, 32), bar, mask=blk.tid == 0)
    blk.barrier_wait(bar)
    blk.store(out, first + blk.tid, blk.sload(S, blk.tid))


@pytest.mark.parametrize(("kernel", "vectorize"), [(lengths, True), (lengths, False), (lengths_of_blocks, None)])
def test_a_count_that_differs_from_block_to_block(kernel: Any, vectorize: Any) -> None:
    dev = gs.Device("tiny")
    a, out = dev.to_device(np.arange(76, dtype=np.float32)), dev.malloc(96)
    counters = dev.launch(kernel, 3, 32, a, out, 76, vectorize=vectorize).counters
    assert dev.to_host(out).tolist() == [*range(76), *[-1] * 20]
    assert (counters.global_load_sectors, counters.thread_loads) == (4 + 4 + 2, 76)


# Phases -------------------------------------------------------------------------------------------------------------


@gs.kernel
def lanes_in_different_phases(t: Any, a: Any, out: Any) -> Any:
    """Odd lanes wait once more than even ones, so at the last wait one warp is in two phases."""
    i = t.threadIdx.x
    S = t.shared("S", (3, 4), np.int32)
    bar = t.shared_barrier()
    if i == 1:
        t.memcpy_async_bulk(S, (0, 0), a, 0, 4, bar)
    if i % 2 == 1:
        t.barrier_wait(bar)
    if i == 3:
        t.memcpy_async_bulk(S, (1, 0), a, 4, 4, bar)
    t.barrier_wait(bar)
    out[i] = S[i % 2, i % 4]


@BOTH
def test_lanes_in_different_phases_take_turns(vectorize: bool) -> None:
    dev = gs.Device("tiny")
    a, out = dev.to_device(np.arange(8, dtype=np.int32)), dev.malloc(32, np.int32)
    launch = dev.launch(lanes_in_different_phases, 1, 32, a, out, vectorize=vectorize)
    assert dev.to_host(out).tolist() == [0, 5, 2, 7] * 8
    (warp,) = launch.trace.block(0)
    kept = [(line[:2], int(operand)) for line, operand in zip(described(warp), warp.stream.operands, strict=True)]
    assert [x for x in kept if x[0][0].startswith("bulk")] == [
        (("bulk_copy", 1), 0),
        (("bulk_wait", 16), 0),
        (("bulk_copy", 1), 1),
        (("bulk_wait", 16), 0),  # the even lanes
        (("bulk_wait", 16), 1),  # the odd ones
    ]


@gs.kernel
def numbered(t: Any, a: Any) -> Any:
    """Barriers have numbers in the order of declaration in each block; threads of block 1 skip the first one."""
    S = t.shared("S", (3, 4), np.int32)
    if t.blockIdx.x == 0:
        first = t.shared_barrier("first")
        if t.threadIdx.x == 0:
            t.memcpy_async_bulk(S, 0, a, 0, 4, first)
        t.barrier_wait(first)
    if t.threadIdx.x >= 32:
        second = t.shared_barrier("second")
        if t.threadIdx.x == 32:
            t.memcpy_async_bulk(S, 4, a, 4, 4, second)
        t.barrier_wait(second)
    else:
        third = t.shared_barrier("third")
        if t.threadIdx.x == 31:
            t.memcpy_async_bulk(S, 8, a, 0, 4, third)
        t.barrier_wait(third)


@BOTH
def test_numbers_of_barriers(vectorize: bool) -> None:
    dev = gs.Device("tiny")
    trace = dev.launch(numbered, 2, 64, dev.malloc(8, np.int32), vectorize=vectorize).trace
    waits = [[operands(warp, OpClass.BULK_WAIT) for warp in block] for block in trace]
    assert waits == [[[0, 2 << 16], [0, 1 << 16]], [[1 << 16], [0]]]


@gs.kernel
def barrier_in_a_loop(t: Any, a: Any, out: Any) -> Any:
    S = t.shared("S", 4, np.int32)
    for k in range(3):
        bar = t.shared_barrier()
        if t.threadIdx.x == 0:
            t.memcpy_async_bulk(S, 0, a, 4 * k, 4, bar)
        t.barrier_wait(bar)
        out[k, t.threadIdx.x] = S[t.threadIdx.x % 4]
        yield t.syncthreads()


@BOTH
def test_a_declaration_in_a_loop_means_one_barrier(vectorize: bool) -> None:
    _, out = results(
        barrier_in_a_loop, 2, 32, np.arange(12, dtype=np.int32), np.zeros((3, 32), np.int32), vectorize=vectorize
    )
    assert out == [[4 * k + j for j in range(4)] * 8 for k in range(3)]


@gs.kernel
def wait_before_copy(t: Any, a: Any) -> Any:
    S = t.shared("S", 4, np.int32)
    bar = t.shared_barrier("ready")
    if t.threadIdx.x >= 32:
        t.barrier_wait(bar)
    else:
        if t.threadIdx.x == 0:
            t.memcpy_async_bulk(S, 0, a, 0, 4, bar)
        t.barrier_wait(bar)


@BOTH
def test_a_wait_that_comes_before_every_copy(vectorize: bool) -> None:
    """Both ways execute the branches in one order, so both see the wait first."""
    dev = gs.Device("tiny")
    message = r"block \(0, 0, 0\) waits forever for phase 0 of barrier 'ready' in line \d+ .*start one above every wait"
    with pytest.raises(gs.DeadlockError, match=message):
        dev.launch(wait_before_copy, 1, 64, dev.malloc(4, np.int32), vectorize=vectorize)


# The trace ----------------------------------------------------------------------------------------------------------


@gs.kernel
def traced(t: Any, a: Any, n: Any) -> Any:
    S = t.shared("S", 96, np.float32)
    bar = t.shared_barrier("bar")
    if t.threadIdx.x == 33:
        t.memcpy_async_bulk(S, 4 * t.lane, a, 4 * t.lane, 4 * t.lane + n, bar)
    t.barrier_wait(bar)


@gs.block_kernel
def traced_in_blocks(blk: gs.Block, a: Any, n: int) -> None:
    S = blk.shared(96, np.float32, "S")
    bar = blk.shared_barrier("bar")
    with blk.branch(blk.tid == 33):
        blk.memcpy_async_bulk(S, 4 * blk.lane, a, 4 * blk.lane, 4 * blk.lane + n, bar)
    blk.barrier_wait(bar)


@pytest.mark.parametrize(("kernel", "vectorize"), [(traced, True), (traced, False), (traced_in_blocks, None)])
def test_trace_of_a_bulk_copy(kernel: Any, vectorize: Any) -> None:
    """Elements 4 to 43: 160 bytes from the middle of a sector, six sectors in all."""
    dev = gs.Device("tiny")
    a = dev.malloc(96)
    launch = dev.launch(kernel, 1, 64, a, 36, vectorize=vectorize)
    first, second = launch.trace.block(0)
    assert [line for line in described(first) if line[0].startswith("bulk")] == [("bulk_wait", 32, ())]
    bulk = [k for k, line in enumerate(described(second)) if line[0] == "bulk_copy"]
    assert len(bulk) == 1
    _, lanes, deps = described(second)[bulk[0]]
    assert lanes == 1
    # 4 * lane for the destination, the address of the source, the count: a multiply-add.
    assert [described(second)[k][:2] for k in deps] == [("int", 1)] * 3
    assert described(second)[bulk[0] + 1] == ("bulk_wait", 32, ())
    base = a.address // 32
    assert second.sectors(0).tolist() == list(range(base, base + 6))
    assert second.footprint.quarter_cycles.tolist() == [4]
    c = launch.counters
    assert (c.global_load_requests, c.global_load_sectors, c.global_load_bytes_requested) == (1, 6, 160)
    assert (c.shared_requests, c.shared_accesses, c.shared_wavefronts, c.bank_conflicts) == (2, 2, 2, 0)
    assert (c.by_array()["a"].sectors, c.by_array()["S"].nbytes, c.distinct_sectors) == (6, 160, 6)


@pytest.mark.parametrize("count", ["auto", "declared", "lines"])
@pytest.mark.parametrize("at_once", [1, 100])
@pytest.mark.parametrize("kernel", [row_sums, lengths, two_copies], ids=lambda k: k.name)
def test_both_ways_are_equal(kernel: Any, count: Any, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "CHUNK_THREADS", 64 * at_once)
    launches, outs = [], []
    for vectorize in (True, False):
        dev = gs.Device("tiny")
        dtype = np.int64 if kernel is two_copies else np.float32
        shape = (3, 192) if kernel is row_sums else 76
        a = dev.to_device(np.arange(np.prod(shape)).reshape(shape).astype(dtype))
        out = dev.malloc(96 if kernel is lengths else (3, 64), dtype)
        more = {row_sums: (3,), lengths: (76,), two_copies: ()}[kernel]
        threads = 32 if kernel is lengths else 64
        launches.append(dev.launch(kernel, 3, threads, a, out, *more, vectorize=vectorize, count=count))
        outs.append(dev.to_host(out))
    assert np.array_equal(outs[0], outs[1])
    assert launches[0].counters == launches[1].counters
    assert_equal_traces(*launches)

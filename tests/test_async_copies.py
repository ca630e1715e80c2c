"""Asynchronous copies of single threads (`cp.async`): groups, what a forgotten wait reads, counters, trace."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpusim_des as gs
from gpusim_des.functional import executor
from gpusim_des.trace import OpClass
from tests.test_thread_equality import assert_equal_traces
from tests.test_thread_kernel import BOTH, results

Array = np.ndarray[Any, Any]
TILE = 8


# A tiled matrix product with two buffers --------------------------------------------------------------------------


@gs.kernel
def matmul(t: Any, A: Any, B: Any, C: Any, n: Any) -> Any:
    a = t.shared("a", (2, TILE, TILE), np.float32)
    b = t.shared("b", (2, TILE, TILE), np.float32)
    x, y = t.threadIdx.x, t.threadIdx.y
    row, column = t.blockIdx.y * TILE + y, t.blockIdx.x * TILE + x
    tiles = n // TILE
    t.pipeline_memcpy_async(a, (0, y, x), A, (row, x))
    t.pipeline_memcpy_async(b, (0, y, x), B, (y, column))
    t.pipeline_commit()
    total = 0.0
    for k in range(tiles):
        if k + 1 < tiles:
            t.pipeline_memcpy_async(a, ((k + 1) % 2, y, x), A, (row, (k + 1) * TILE + x))
            t.pipeline_memcpy_async(b, ((k + 1) % 2, y, x), B, ((k + 1) * TILE + y, column))
        t.pipeline_commit()
        t.pipeline_wait_prior(1)
        yield t.syncthreads()
        for j in range(TILE):
            total += a[k % 2, y, j] * b[k % 2, j, x]
        yield t.syncthreads()
    C[row, column] = total


@gs.block_kernel
def matmul_of_blocks(blk: gs.Block, A: Any, B: Any, C: Any, n: int) -> None:
    a = blk.shared((2, TILE, TILE), np.float32, "a")
    b = blk.shared((2, TILE, TILE), np.float32, "b")
    x, y = blk.tx, blk.ty
    row, column = blk.by * TILE + y, blk.bx * TILE + x

    def copy(k: int) -> None:
        if k < n // TILE:
            blk.pipeline_memcpy_async(a, (k % 2, y, x), A, (row, k * TILE + x))
            blk.pipeline_memcpy_async(b, (k % 2, y, x), B, (k * TILE + y, column))
        blk.pipeline_commit()

    copy(0)
    total: Any = 0.0
    for k in range(n // TILE):
        copy(k + 1)
        blk.pipeline_wait_prior(1)
        blk.sync()
        for j in range(TILE):
            total = blk.sload(a, (k % 2, y, j)) * blk.sload(b, (k % 2, j, x)) + total
        blk.sync()
    blk.store(C, (row, column), total)


@pytest.mark.parametrize("at_once", [1, 3, 100])
@pytest.mark.parametrize(
    ("kernel", "vectorize"),
    [(matmul, True), (matmul, False), (matmul_of_blocks, None)],
    ids=["masked", "each", "block"],
)
def test_tiled_matmul_with_two_buffers(
    kernel: Any, vectorize: Any, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor, "CHUNK_THREADS", TILE * TILE * at_once)
    steps = 2  # tiles in a row and in a column
    n = steps * TILE
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-9, 9, (n, n)).astype(np.float32) for _ in range(2))
    dev = gs.Device("tiny")
    c = dev.malloc((n, n), np.float32)
    launch = dev.launch(
        kernel, (steps, steps), (TILE, TILE), dev.to_device(a), dev.to_device(b), c, n, vectorize=vectorize
    )
    assert np.array_equal(dev.to_host(c), a @ b)
    counters, warps = launch.counters, steps**2 * 2
    assert counters.instruction_mix["async_copy"] == counters.global_load_requests == warps * 2 * steps
    assert counters.thread_loads == steps**2 * 64 * 2 * steps
    assert counters.instruction_mix["async_commit"] == warps * (steps + 1)
    assert counters.instruction_mix["async_wait"] == warps * steps
    # Each warp writes two shared arrays in each step, and reads 2 × 8 elements in each.
    assert counters.shared_requests == warps * steps * (2 + 2 * TILE)


# What a wait completes ----------------------------------------------------------------------------------------------


@gs.kernel
def groups(t: Any, a: Any, out: Any, prior: Any) -> Any:
    """Thread i commits i % 4 groups of one copy each, and starts one more that it does not commit."""
    i = t.threadIdx.x
    S = t.shared("S", (4, 64), np.int32)
    for k in range(4):
        S[k, i] = -1
    for k in range(i % 4):
        t.pipeline_memcpy_async(S, (k, i), a, 64 * k + i)
        t.pipeline_commit()
    if i % 4 < 3:
        t.pipeline_memcpy_async(S, (3, i), a, i)
    t.pipeline_wait_prior(prior)
    for k in range(4):
        out[k, i] = S[k, i]


@BOTH
@pytest.mark.parametrize("prior", [0, 1, 2, 3, 9])
def test_a_wait_completes_all_but_the_newest_committed_groups(prior: int, vectorize: bool) -> None:
    a = np.arange(256, dtype=np.int32)
    _, out = results(groups, 1, 64, a, np.zeros((4, 64), np.int32), prior, vectorize=vectorize)
    assert out == [[64 * k + i if k < i % 4 - prior else -1 for i in range(64)] for k in range(4)]


@gs.kernel
def forgotten(t: Any, a: Any, out: Any, wait: Any) -> Any:
    i = t.threadIdx.x
    S = t.shared("S", 32, np.float32)
    t.pipeline_memcpy_async(S, i, a, i)
    t.pipeline_commit()
    a[i] = -1.0
    if wait:
        t.pipeline_wait_prior(0)
    yield t.syncthreads()
    out[i] = S[31 - i]


@gs.block_kernel
def forgotten_in_blocks(blk: gs.Block, a: Any, out: Any, wait: bool) -> None:
    S = blk.shared(32)
    blk.pipeline_memcpy_async(S, blk.tid, a, blk.tid)
    blk.pipeline_commit()
    blk.store(a, blk.tid, -1.0)
    if wait:
        blk.pipeline_wait_prior(0)
    blk.sync()
    blk.store(out, blk.tid, blk.sload(S, 31 - blk.tid))


@pytest.mark.parametrize(("kernel", "vectorize"), [(forgotten, True), (forgotten, False), (forgotten_in_blocks, None)])
def test_without_a_wait_shared_memory_is_what_it_was(kernel: Any, vectorize: Any) -> None:
    """The values are those of the moment of the copy, for all threads, but only after the wait; before it is poison."""
    a = np.arange(32, dtype=np.float32)
    assert results(kernel, 1, 32, a, a, True, vectorize=vectorize)[1] == list(range(31, -1, -1))
    assert np.isnan(results(kernel, 1, 32, a, a, False, vectorize=vectorize)[1]).all()


@gs.block_kernel
def taken_apart(blk: gs.Block, a: Any, out: Any) -> None:
    S = blk.shared(32)
    blk.pipeline_memcpy_async(S, blk.tid, a, 32 * blk.bx + blk.tid)
    blk.pipeline_commit()
    if blk.bx % 2 == 0:
        blk.pipeline_wait_prior(0)
    blk.store(out, 32 * blk.bx + blk.tid, blk.sload(S, blk.tid))


def test_blocks_that_run_again_have_no_copies_left_over() -> None:
    a = np.arange(128, dtype=np.float32)
    dev = gs.Device("tiny")
    array = dev.malloc(128)
    dev.launch(taken_apart, 4, 32, dev.to_device(a), array)
    out = dev.to_host(array).reshape(4, 32)
    assert np.array_equal(out[::2], a.reshape(4, 32)[::2])
    assert np.isnan(out[1::2]).all()


# The trace ----------------------------------------------------------------------------------------------------------


@gs.kernel
def traced(t: Any, a: Any) -> Any:
    i = t.threadIdx.x
    S = t.shared("S", 128, np.float32)
    t.pipeline_memcpy_async(S, i, a, i)
    t.pipeline_commit()
    if i < 48:
        t.pipeline_memcpy_async(S, 0, a, 8 * i)
    t.pipeline_commit()
    if i % 2 == 0:
        t.pipeline_wait_prior(1)
    t.pipeline_wait_prior(0)
    t.pipeline_wait_prior(0)


@gs.block_kernel
def traced_in_blocks(blk: gs.Block, a: Any) -> None:
    i = blk.tid
    S = blk.shared(128)
    blk.pipeline_memcpy_async(S, i, a, i)
    blk.pipeline_commit()
    with blk.branch(i < 48):
        blk.pipeline_memcpy_async(S, 0, a, 8 * i)
    blk.pipeline_commit()
    with blk.branch(i % 2 == 0):
        blk.pipeline_wait_prior(1)
    blk.pipeline_wait_prior(0)
    blk.pipeline_wait_prior(0)


@pytest.mark.parametrize(("kernel", "vectorize"), [(traced, True), (traced, False), (traced_in_blocks, None)])
def test_trace_of_copies_and_waits(kernel: Any, vectorize: Any) -> None:
    dev = gs.Device("tiny")
    a = dev.malloc(512, np.float32)
    launch = dev.launch(kernel, 1, 96, a, vectorize=vectorize)
    first, second, third = launch.trace.block(0)
    everything = [
        ("int", 32, ()),  # 0  address of a[i]
        ("async_copy", 32, (0,)),  # 1
        ("async_commit", 32, ()),  # 2
        ("int", 32, ()),  # 3  i < 48
        ("branch", 32, (3,)),
        ("int", 32, ()),  # 5  8 * i
        ("int", 32, (5,)),  # 6  address
        ("async_copy", 32, (6,)),  # 7
        ("async_commit", 32, ()),
        ("int", 32, ()),  # 9  i % 2
        ("int", 32, (9,)),
        ("branch", 32, (10,)),
        ("async_wait", 16, (1,)),  # 12  the even threads' first copy
        ("async_wait", 32, (1, 7)),  # 13  the odd threads' first one, everybody's second
        ("async_wait", 32, ()),  # 14  nothing is left
        ("exit", 32, ()),
    ]
    assert described(first) == everything
    half = [(op, 16 if k in {5, 6, 7} else lanes, deps) for k, (op, lanes, deps) in enumerate(everything)]
    assert described(second) == half
    # The third warp started one copy only.
    assert [line for line in described(third) if line[0] == "async_wait"] == [
        ("async_wait", 16, (1,)),
        ("async_wait", 32, (1,)),
        ("async_wait", 32, ()),
    ]
    base = a.address // 32
    assert [first.sectors(k).tolist() for k in range(2)] == [list(range(base, base + 4)), list(range(base, base + 32))]
    assert third.sectors(0).tolist() == list(range(base + 8, base + 12))
    # One line and one pass; eight lines, but 8 passes: every eighth float lies in one of four banks.
    assert first.footprint.quarter_cycles.tolist() == [4, 32]
    assert {int(o) for o in first.stream.operands} == {0, 4}  # bytes of a lane


def described(warp: Any) -> list[tuple[str, int, tuple[int, ...]]]:
    stream = warp.stream
    return [(OpClass(op).label, int(stream.lanes[k]), stream.depends_on(k)) for k, op in enumerate(stream.ops)]


@gs.kernel
def conflicts(t: Any, a: Any) -> Any:
    S = t.shared("S", 1024, np.float32)
    t.pipeline_memcpy_async(S, 32 * t.threadIdx.x, a, t.threadIdx.x)


@BOTH
def test_a_copy_counts_as_a_load_and_a_store(vectorize: bool) -> None:
    """The write to shared memory needs 32 passes, which the load/store unit takes for the whole copy."""
    dev = gs.Device("tiny")
    launch = dev.launch(conflicts, 1, 32, dev.malloc(32), vectorize=vectorize)
    c = launch.counters
    assert (c.global_load_requests, c.global_load_sectors, c.global_load_bytes_requested) == (1, 4, 128)
    assert (c.shared_requests, c.shared_accesses, c.shared_wavefronts, c.shared_ideal_wavefronts) == (1, 32, 32, 1)
    assert launch.trace.block(0)[0].footprint.quarter_cycles.tolist() == [128]
    by_array = c.by_array()
    assert (by_array["a"].sectors, by_array["S"].wavefronts, by_array["S"].nbytes) == (4, 32, 128)


@gs.kernel
def divergent(t: Any, a: Any, out: Any, n: Any) -> Any:
    i = t.threadIdx.x
    me = t.blockIdx.x * t.blockDim.x + i
    S = t.shared("S", (3, 64), np.complex128)
    for k in range(3):
        S[k, i] = 1j
    for k in range(me % 4):
        if (i + k) % 3 == 0:
            t.pipeline_memcpy_async(S, (k % 3, i), a, (7 * me + k) % n)
            continue
        t.pipeline_commit()
        if i % 5 == 1:
            t.pipeline_wait_prior(k)
    t.pipeline_wait_prior(me % 2)
    out[me] = S[0, i] + S[1, i] + S[2, i]


@pytest.mark.parametrize("count", ["auto", "declared", "lines"])
@pytest.mark.parametrize("at_once", [1, 100])
def test_both_ways_are_equal_where_threads_diverge(count: Any, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "CHUNK_THREADS", 40 * at_once)
    launches, outs = [], []
    for vectorize in (True, False):
        dev = gs.Device("tiny")
        a, out = dev.to_device(np.arange(90) * (1 + 2j)), dev.malloc(120, np.complex128)
        launches.append(dev.launch(divergent, 3, 40, a, out, 90, vectorize=vectorize, count=count))
        outs.append(dev.to_host(out))
    assert np.array_equal(outs[0], outs[1])
    assert launches[0].counters == launches[1].counters
    assert_equal_traces(*launches)

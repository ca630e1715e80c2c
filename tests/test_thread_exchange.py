"""Thread-style kernels whose threads meet: warp operations, atomics, shared memory, barriers, and their grids."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpusim_des as gs
from gpusim_des.trace import OpClass
from tests.test_thread_kernel import BOTH, floats, ints, results


@gs.kernel
def shuffles(t: Any, out: Any, distance: Any) -> Any:
    i = t.linear
    out[0, i] = t.shfl(10 * i, distance)
    out[1, i] = t.shfl_up(10 * i, distance)
    out[2, i] = t.shfl_down(10 * i, distance)
    out[3, i] = t.shfl_xor(10 * i, distance)


def shuffled(threads: int, distance: int) -> list[list[int]]:
    """Lane by lane: the own value where the other lane does not exist."""
    rows: list[list[int]] = [[], [], [], []]
    for i in range(threads):
        warp, lane = i - i % 32, i % 32
        sources = (distance % 32, lane - distance, lane + distance, lane ^ distance)
        for row, source in zip(rows, sources, strict=True):
            there = 0 <= source < 32 and warp + source < threads
            row.append(10 * (warp + source if there else i))
    return rows


@BOTH
@pytest.mark.parametrize("threads", [32, 40])
@pytest.mark.parametrize("distance", [0, 1, 5, 16, 31, 32, 33])
def test_shuffles_with_edges(threads: int, distance: int, vectorize: bool) -> None:
    out = np.zeros((4, threads), np.int32)
    assert results(shuffles, 1, threads, out, distance, vectorize=vectorize) == [shuffled(threads, distance)]


@gs.kernel
def inactive_lanes(t: Any, out: Any) -> Any:
    i = t.lane
    if i % 2 == 0:
        out[0, i] = t.shfl(i, 3)
        out[1, i] = t.shfl_xor(i, 2)
        out[2, i] = t.ballot(i < 6)
        out[3, i] = t.activemask()
        out[4, i] = t.all(i % 2 == 0)
        out[5, i] = t.any(i == 31)
        t.syncwarp()
    else:
        out[3, i] = t.activemask()
        out[4, i] = t.all(i < 31)
        out[5, i] = t.any(i == 31)


@BOTH
def test_lanes_that_are_not_active_neither_give_nor_vote(vectorize: bool) -> None:
    """Lane 3 is not in the branch: who asks it gets the own value back."""
    (rows,) = results(inactive_lanes, 1, 32, np.zeros((6, 32), np.uint32), vectorize=vectorize)
    even = range(0, 32, 2)
    assert [rows[0][i] for i in even] == list(even)
    assert [rows[1][i] for i in even] == [i ^ 2 for i in even]
    assert {rows[2][i] for i in even} == {0b010101}
    assert {rows[3][i] for i in even} == {0x55555555}
    assert {rows[3][i + 1] for i in even} == {0xAAAAAAAA}
    assert [{rows[4][i + k] for i in even} for k in (0, 1)] == [{1}, {0}]
    assert [{rows[5][i + k] for i in even} for k in (0, 1)] == [{0}, {1}]


@gs.kernel
def warp_sum(t: Any, a: Any, out: Any) -> Any:
    i = t.linear
    x = a[i]
    for step in (16, 8, 4, 2, 1):
        x += t.shfl_down(x, step)
    if t.lane == 0:
        out[t.warp] = x


@BOTH
def test_sum_of_a_warp(vectorize: bool) -> None:
    a = np.arange(96, dtype=np.float32)
    sums = [float(a[k : k + 32].sum()) for k in (0, 32, 64)]
    assert results(warp_sum, 1, 96, a, floats(3), vectorize=vectorize)[1] == sums


@gs.kernel
def old_value(t: Any, x: Any) -> Any:
    x[1] = x.atomic_add(0, 1)


@gs.kernel
def all_atomics(t: Any, x: Any, old: Any) -> Any:
    old[0] = x.atomic_add(0, 5)
    old[1] = x.atomic_max(1, 9)
    old[2] = x.atomic_min(2, 9)
    old[3] = x.atomic_exch(3, 9)
    old[4] = x.atomic_cas(4, 50, 9)
    old[5] = x.atomic_cas(5, 51, 9)


@gs.kernel
def tickets(t: Any, counter: Any, taken: Any) -> Any:
    S = t.shared("S", 1, np.int32)
    if t.linear == 0:
        S[0] = 100
    yield t.syncthreads()
    mine = counter.atomic_add(0, 1)
    taken[mine] = S.atomic_add(0, 2)
    yield t.syncthreads()
    if t.linear == 0:
        counter[1 + t.blockIdx.x] = S[0]


@BOTH
def test_atomics_return_the_old_value(vectorize: bool) -> None:
    assert results(old_value, 1, 1, np.array([10, 0], np.int32), vectorize=vectorize) == [[11, 10]]
    x = np.array([10, 20, 30, 40, 50, 60], np.int32)
    after, old = results(all_atomics, 1, 1, x, ints(6), vectorize=vectorize)
    assert old == [10, 20, 30, 40, 50, 60]
    assert after == [15, 20, 9, 9, 9, 60]


@BOTH
def test_every_thread_gets_its_own_ticket(vectorize: bool) -> None:
    counter, taken = results(tickets, 2, 40, ints(3), ints(80), vectorize=vectorize)
    assert counter == [80, 180, 180]
    assert sorted(taken) == sorted([*range(100, 180, 2)] * 2)


@gs.kernel
def shared_ranks(t: Any, out: Any) -> Any:
    i = t.linear
    A = t.shared("A", 64, np.int32)
    B = t.shared("B", (8, 8), np.float32)
    C = t.shared(name="C", shape=(4, 4, 4), dtype=np.int8)
    A[i] = i
    B[i // 8, i % 8] = i + 0.5
    C[i // 16, i // 4 % 4, i % 4] = i
    yield t.syncthreads()
    j = 63 - i
    out[i] = A[j] + B[j % 8, j // 8] + C[j % 4, j // 4 % 4, j // 16]


@BOTH
def test_shared_arrays_of_several_dimensions(vectorize: bool) -> None:
    def expected(j: int) -> float:
        transposed = (j % 4) * 16 + (j // 4 % 4) * 4 + j // 16
        return j + (j % 8) * 8 + j // 8 + 0.5 + transposed

    assert results(shared_ranks, 2, 64, floats(64), vectorize=vectorize) == [[expected(63 - i) for i in range(64)]]
    dev = gs.Device("tiny")
    counters = dev.launch(shared_ranks, 2, 64, dev.to_device(floats(64)), vectorize=vectorize).counters
    assert counters.shared_bytes_per_block == 64 * 4 + 64 * 4 + 64
    assert (counters.barriers, counters.shared_requests) == (2, 2 * 2 * 6)


@gs.kernel
def numbers(t: Any, out: Any) -> Any:
    where = (t.blockIdx.z * t.gridDim.y + t.blockIdx.y) * t.gridDim.x + t.blockIdx.x
    threads = t.blockDim.x * t.blockDim.y * t.blockDim.z
    mine = (t.threadIdx.z * t.blockDim.y + t.threadIdx.y) * t.blockDim.x + t.threadIdx.x
    out[where * threads + mine] = 1000000 * where + 10000 * t.linear + 100 * t.warp + t.lane


@BOTH
@pytest.mark.parametrize(("grid", "block"), [(3, 40), ((2, 3), (8, 5)), ((2, 3, 2), (3, 4, 5)), (1, (1, 1, 33))])
def test_grids_and_blocks_of_all_dimensions(grid: Any, block: Any, vectorize: bool) -> None:
    blocks, threads = int(np.prod(grid)), int(np.prod(block))
    expected = [1000000 * b + 10000 * i + 100 * (i // 32) + i % 32 for b in range(blocks) for i in range(threads)]
    assert results(numbers, grid, block, ints(blocks * threads), vectorize=vectorize) == [expected]


@gs.kernel
def partial_barrier(t: Any, out: Any) -> Any:
    if t.threadIdx.x < 40:
        yield t.syncthreads()
    out[t.threadIdx.x] = 1


@BOTH
def test_a_barrier_that_some_threads_miss(vectorize: bool) -> None:
    dev = gs.Device("tiny")
    with pytest.raises(gs.DeadlockError, match=r"waits forever at the barrier in line \d+ .*: 24 of 64 threads never"):
        dev.launch(partial_barrier, 1, 64, dev.to_device(ints(64)), vectorize=vectorize)


@gs.kernel
def forgotten_yield(t: Any, out: Any) -> Any:
    t.syncthreads()


@gs.kernel
def strange_yield(t: Any, out: Any) -> Any:
    yield 3


@BOTH
def test_only_barriers_are_yielded(vectorize: bool) -> None:
    dev = gs.Device("tiny")
    with pytest.raises(gs.KernelError, match=r"write `yield t.syncthreads\(\)`"):
        dev.launch(forgotten_yield, 1, 32, dev.to_device(ints(1)), vectorize=vectorize)
    with pytest.raises(gs.KernelError, match=r"yield of 3 in line \d+"):
        dev.launch(strange_yield, 1, 32, dev.to_device(ints(1)), vectorize=vectorize)


# The stream ---------------------------------------------------------------------------------------------------------


@gs.kernel
def merging(t: Any, a: Any, b: Any, out: Any) -> Any:
    i = t.threadIdx.x
    if i < 16:  # noqa: SIM108
        x = a[i]
    else:
        x = b[i]
    out[i] = x + 1.0


@BOTH
def test_a_value_merged_from_two_branches_depends_on_both(vectorize: bool) -> None:
    dev = gs.Device("tiny")
    arrays = [dev.to_device(floats(64)) for _ in range(3)]
    trace = dev.launch(merging, 1, 64, *arrays, vectorize=vectorize).trace
    first, second = (warp.stream for warp in trace.block(0))
    both = [
        ("int", 32, ()),  # 0  i < 16
        ("branch", 32, (0,)),  # 1
        ("int", 16, ()),  # 2  address of a[i]
        ("global_load", 16, (2,)),  # 3
        ("int", 16, ()),  # 4  address of b[i]
        ("global_load", 16, (4,)),  # 5
        ("fp32", 32, (3, 5)),  # 6  x + 1.0 waits for both loads
        ("int", 32, ()),  # 7  address of out[i]
        ("global_store", 32, (6, 7)),  # 8
        ("exit", 32, ()),
    ]
    assert described(first) == both
    # The second warp takes one side only: it neither loads a nor waits for that.
    assert described(second) == [
        ("int", 32, ()),
        ("branch", 32, (0,)),
        ("int", 32, ()),
        ("global_load", 32, (2,)),
        ("fp32", 32, (3,)),
        ("int", 32, ()),
        ("global_store", 32, (4, 5)),
        ("exit", 32, ()),
    ]


@gs.kernel
def loop_carried(t: Any, a: Any, out: Any) -> Any:
    x = a[t.threadIdx.x]
    for _ in range(2):
        x = x * x + 1.0
    out[t.threadIdx.x] = x


@BOTH
def test_dependencies_through_a_loop(vectorize: bool) -> None:
    """Constant bounds: the loop is unrolled, and each multiply-add waits for the one before."""
    dev = gs.Device("tiny")
    trace = dev.launch(loop_carried, 1, 32, dev.to_device(floats(32)), dev.to_device(floats(32)), vectorize=vectorize)
    (warp,) = trace.trace.block(0)
    assert described(warp.stream) == [
        ("int", 32, ()),
        ("global_load", 32, (0,)),
        ("fp32", 32, (1,)),
        ("fp32", 32, (2,)),
        ("int", 32, ()),
        ("global_store", 32, (3, 4)),
        ("exit", 32, ()),
    ]
    assert [warp.sectors(k).tolist()[0] * 32 % 256 for k in range(2)] == [0, 0]
    assert [len(warp.sectors(k)) for k in range(2)] == [4, 4]


@gs.kernel
def entangled(t: Any, a: Any, out: Any) -> Any:
    i = t.threadIdx.x
    x, y = a[i], a[i + 1]
    for _ in range(16):
        if i % 2 == 0:
            x = x + y
        else:
            y = y + x
    out[i] = x + y


@BOTH
def test_dependencies_where_operators_are_not_counted(vectorize: bool) -> None:
    """Values remember the loads behind them, each once however often it went in: the store waits for two loads."""
    dev = gs.Device("tiny")
    arrays = dev.to_device(floats(33)), dev.to_device(floats(32))
    (warp,) = dev.launch(entangled, 1, 32, *arrays, count="lines", vectorize=vectorize).trace.block(0)
    waits = {label: deps for label, _, deps in described(warp.stream) if label == "global_store"}
    loads = [k for k, (label, _, _) in enumerate(described(warp.stream)) if label == "global_load"]
    assert waits == {"global_store": tuple(loads)}
    assert len(loads) == 2


def described(stream: Any) -> list[tuple[str, int, tuple[int, ...]]]:
    labels = [OpClass(op).label for op in stream.ops]
    return [(label, int(stream.lanes[k]), stream.depends_on(k)) for k, label in enumerate(labels)]

"""Races in global memory: within blocks and between them, what is in order, and what a launch remembers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpusim_des as gs
from gpusim_des.functional import executor

WAYS = pytest.mark.parametrize("vectorize", [True, False], ids=["vectorized", "interpreted"])


def launched(kernel: Any, grid: int, block: int, *more: Any, **options: Any) -> gs.Launch:
    dev = gs.Device("tiny")
    a, c = (dev.to_device(np.zeros(grid * block + 1, np.int32), name) for name in "ac")
    return dev.launch(kernel, grid, block, a, c, *more, races="global", **options)


def found(launch: gs.Launch) -> set[tuple[str, str, bool]]:
    """Kind, scope and equality of the races."""
    return {(race.kind, race.scope, race.equal_values) for race in launch.races}


@gs.kernel
def neighbour(t: Any, a: Any, c: Any) -> Any:
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    a[i] = i
    yield t.syncthreads()
    c[i] = a[i + 1]


@WAYS
def test_a_block_barrier_does_not_order_blocks(vectorize: bool) -> None:
    """The last thread of each block but the last one reads the first element of the next block."""
    launch = launched(neighbour, 4, 64, vectorize=vectorize)
    assert launch.counters.races == 3
    (race,) = launch.races
    assert (race.scope, race.memory, race.array, race.element) == ("grid", "global", "a", (64,))
    assert {race.first.block, race.second.block} == {gs.Dim3(0, 0, 0), gs.Dim3(1, 0, 0)}
    assert race.remedy.startswith("a block barrier does not order blocks, which run in any order")
    assert "in block (0, 0, 0), thread (0, 0, 0)" in str(race) or "in block (1, 0, 0), thread (63, 0, 0)" in str(race)


@WAYS
def test_one_block_is_in_order(vectorize: bool) -> None:
    assert launched(neighbour, 1, 64, vectorize=vectorize).races == ()


def test_global_memory_is_looked_at_on_demand_only() -> None:
    dev = gs.Device("tiny")
    a, c = (dev.to_device(np.zeros(257, np.int32)) for _ in "ac")
    assert dev.launch(neighbour, 4, 64, a, c).races == ()


@gs.kernel
def shared_cell(t: Any, a: Any, c: Any, how: Any) -> Any:
    if how == "add":
        a[0] = a[0] + 1
    elif how == "atomic":
        a.atomic_add(0, 1)
    elif how == "flag":
        a[0] = 1
    elif how == "atomic and read":
        a.atomic_add(0, 1)
        c[t.blockIdx.x * t.blockDim.x + t.threadIdx.x] = a[0]


@WAYS
@pytest.mark.parametrize(
    ("how", "at_once", "in_turn"),
    [
        (
            "add",
            [("read-write", "grid", 128)],
            [("write-read", "grid", 64), ("write-write", "grid", 64), ("read-write", "block", 64)],
        ),
        ("atomic", [], []),
        ("flag", *[[("write-write", "grid", 64), ("write-write", "block", 32), ("write-write", "warp", 31)]] * 2),
        (
            "atomic and read",
            [("atomic-read", "grid", 128)],
            [("read-atomic", "grid", 64), ("atomic-read", "grid", 64), ("atomic-read", "block", 64)],
        ),
    ],
)
def test_a_shared_counter(how: str, at_once: list[Any], in_turn: list[Any], vectorize: bool) -> None:
    """A plain add loses updates (case C34's mistake); all that write the same value is told as such.

    Vectorized, both blocks read, and then each of the 128 threads writes what others have read. In turn the first block
    races with itself: 64 writes. The second one's 64 threads then read what that has written, and overwrite it.
    """
    launch = launched(shared_cell, 2, 64, how, vectorize=vectorize)
    told = sorted((race.kind, race.scope, race.count) for race in launch.races)
    assert told == sorted(at_once if vectorize else in_turn)
    assert all(race.equal_values == (how == "flag") for race in launch.races)


@gs.kernel
def ticket(t: Any, a: Any, c: Any, fence: Any) -> Any:
    """Blocks leave a value each; the last one adds them, after CUDA's sample threadFenceReduction."""
    last = t.shared("last", 1, np.int32)
    if t.threadIdx.x == 0:
        a[t.blockIdx.x] = t.blockIdx.x + 1
        if fence:
            t.threadfence()
        last[0] = c.atomic_add(0, 1)
    yield t.syncthreads()
    if last[0] == t.gridDim.x - 1 and t.threadIdx.x < t.gridDim.x:
        c[1 + t.threadIdx.x] = a[t.threadIdx.x]


@WAYS
def test_the_last_block_may_read_what_others_released(vectorize: bool) -> None:
    assert launched(ticket, 4, 64, True, vectorize=vectorize).races == ()
    launch = launched(ticket, 4, 64, False, vectorize=vectorize)
    assert found(launch) == {("write-read", "grid", False)}
    assert launch.counters.races == 3


@gs.cuda.jit
def ticket_of_numba(a: Any, c: Any, fence: Any) -> None:
    """The same, with fences of two scopes."""
    last = gs.cuda.shared.array(1, np.int32)
    if gs.cuda.threadIdx.x == 0:
        a[gs.cuda.blockIdx.x] = gs.cuda.blockIdx.x + 1
        if fence == "block":
            gs.cuda.threadfence_block()
        else:
            gs.cuda.threadfence_system()
        last[0] = gs.cuda.atomic.add(c, 0, 1)
    gs.cuda.syncthreads()
    if last[0] == gs.cuda.gridDim.x - 1 and gs.cuda.threadIdx.x < gs.cuda.gridDim.x:
        c[1 + gs.cuda.threadIdx.x] = a[gs.cuda.threadIdx.x]


@WAYS
@pytest.mark.parametrize(("fence", "races"), [("block", 3), ("system", 0)])
def test_a_fence_of_a_block_releases_nothing_to_others(fence: str, races: int, vectorize: bool) -> None:
    assert launched(ticket_of_numba, 4, 64, fence, vectorize=vectorize).counters.races == races


@gs.cuda.jit
def flag_of_numba(a: Any, c: Any) -> None:
    """Within a block a fence of its scope is enough."""
    if gs.cuda.threadIdx.x == 0:
        a[5] = 1
        gs.cuda.threadfence_block()
        gs.cuda.atomic.exch(c, 0, 1)
    if gs.cuda.threadIdx.x == 32 and gs.cuda.atomic.add(c, 0, 0) == 1:
        c[1] = a[5]


def test_a_fence_of_a_block_releases_to_its_threads() -> None:
    assert launched(flag_of_numba, 1, 64).races == ()


@gs.kernel
def locked(t: Any, a: Any, c: Any, fences: Any) -> Any:
    while a.atomic_cas(0, 0, 1) != 0:
        pass
    if fences:
        t.threadfence()
    c[0] += 1
    if fences:
        t.threadfence()
    a.atomic_exch(0, 0)


@pytest.mark.filterwarnings("ignore::gpusim_des.InterpretedWarning")
def test_a_lock_orders_with_fences() -> None:
    """Every thread of two blocks adds under a lock."""
    assert launched(locked, 2, 8, True).races == ()
    assert launched(locked, 2, 8, False).races != ()


@gs.block_kernel
def own_and_part(blk: Any, a: Any, c: Any) -> None:
    blk.store(a, blk.tid, blk.tid)
    blk.store(c, blk.tid, blk.tid)


def test_parts_of_one_array_are_one_array() -> None:
    dev = gs.Device("tiny")
    whole = dev.to_device(np.zeros(64, np.int32), "whole")
    apart = dev.launch(own_and_part, 1, 32, whole.part(0, 32), whole.part(32, 32), races="global")
    assert apart.races == ()
    launch = dev.launch(own_and_part, 1, 32, whole.part(0, 32), whole.part(16, 32), races="global")
    (race,) = launch.races
    assert (race.kind, race.element, race.count) == ("write-write", (0,), 16)


def test_blocks_of_different_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """What earlier blocks did is remembered when they are no longer in flight."""
    monkeypatch.setattr(executor, "CHUNK_THREADS", 64)
    assert launched(neighbour, 4, 64).counters.races == 3


def test_blocks_that_were_too_many_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four blocks of two warps may execute 20 instructions each, fewer than the kernel has; so they run one by one."""
    monkeypatch.setattr(executor, "CHUNK_INSTRUCTIONS", 4 * 2 * 5)
    assert launched(neighbour, 4, 64).counters.races == 3


@gs.block_kernel
def disagree(blk: Any, a: Any, c: Any) -> None:
    """Blocks take different ways, so that they run again in groups, after stores that were taken back."""
    i = blk.bx * blk.bdx + blk.tid
    blk.store(a, i, i)
    if blk.bx % 2 == 0:
        blk.store(c, i, blk.load(a, i))


def test_what_is_taken_back_is_forgotten() -> None:
    assert launched(disagree, 4, 64).races == ()


@gs.block_kernel
def tile_by_fragments(blk: Any, a: Any, b: Any, c: Any, meet: Any) -> None:
    """Each of two warps writes half of a tile and loads all of it as a fragment."""
    tile = blk.shared((16, 16), np.float16, "tile")
    for k in range(4):
        blk.sstore(tile, (blk.tid // 16 + 4 * k, blk.tid % 16), 1)
    if meet:
        blk.sync()
    fragment = blk.load_fragment(tile, 0, 0, (16, 16))
    total = blk.mma(fragment, fragment, blk.fill_fragment((16, 16), 0.0))
    blk.store_fragment(c, 16 * blk.warp, 0, total)


def test_fragments() -> None:
    """Lanes of fragments touch several elements each; lanes of one warp are in order there."""
    dev = gs.Device("h100-sxm")
    a = dev.to_device(np.ones((16, 16), np.float16))
    c = dev.to_device(np.zeros((32, 16), np.float32))
    launch = dev.launch(tile_by_fragments, 1, 64, a, a, c, False, races="global")
    assert {(race.kind, race.scope) for race in launch.races} == {("write-read", "block")}
    assert launch.counters.races == 16 * 16  # each warp reads the half of the other
    assert dev.launch(tile_by_fragments, 1, 64, a, a, c, True, races="global").races == ()


def test_a_graph_warns_when_it_runs() -> None:
    dev = gs.Device("tiny")
    a, c = (dev.to_device(np.zeros(257, np.int32), name) for name in "ac")
    stream = dev.stream()
    with dev.capture(stream) as graph:
        captured = dev.launch(neighbour, 4, 64, a, c, races="global", stream=stream)
    assert captured.races == ()
    with pytest.warns(gs.RaceWarning, match="a block barrier does not order blocks"):
        graph.launch(stream)

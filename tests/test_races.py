"""Races in shared memory: every kind with a kernel that has it and a near-miss that has not, in all ways of running."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpusim_des as gs

WAYS = pytest.mark.parametrize("vectorize", [True, False], ids=["vectorized", "interpreted"])


def line_of(kernel: Any, offset: int) -> int:
    """Number of a line of a kernel, counted from its decorator."""
    return int(kernel.function.__code__.co_firstlineno) + offset


def launched(kernel: Any, grid: int, block: int, *more: Any, **options: Any) -> gs.Launch:
    """Launch a kernel on an input of ones and an output of zeros."""
    dev = gs.Device("tiny")
    n = grid * block
    a, c = dev.to_device(np.arange(n, dtype=np.int32), "a"), dev.to_device(np.zeros(n, np.int32), "c")
    return dev.launch(kernel, grid, block, a, c, *more, **options)


def found(launch: gs.Launch) -> list[tuple[str, str, bool, int]]:
    """Kind, scope, equality and number of the races."""
    counters = launch.counters
    assert counters.races == sum(race.count for race in launch.races if not race.equal_values)
    assert counters.equal_value_races == sum(race.count for race in launch.races if race.equal_values)
    return [(race.kind, race.scope, race.equal_values, race.count) for race in launch.races]


# Missing barriers -----------------------------------------------------------------------------------------------------


@gs.kernel
def reverse(t: Any, a: Any, c: Any, meet: Any) -> Any:
    tile = t.shared("tile", 64, np.int32)
    i = t.threadIdx.x
    tile[i] = a[t.blockIdx.x * 64 + i]
    if meet:
        yield t.syncthreads()
    c[t.blockIdx.x * 64 + i] = tile[63 - i]


@WAYS
def test_write_then_read(vectorize: bool) -> None:
    """All 64 threads of 3 blocks read what a thread of the other warp has written."""
    launch = launched(reverse, 3, 64, False, vectorize=vectorize)
    assert found(launch) == [("write-read", "block", False, 192)]
    (race,) = launch.races
    write, read = line_of(reverse, 4), line_of(reverse, 7)
    assert (race.kernel, race.array, race.memory, race.element) == ("reverse", "tile", "shared", (63,))
    assert (race.first.kind, race.first.thread, race.first.line) == ("write", gs.Dim3(63, 0, 0), write)
    assert (race.second.kind, race.second.thread, race.second.line) == ("read", gs.Dim3(0, 0, 0), read)
    assert race.remedy == f"put yield t.syncthreads() between line {write} and line {read}"
    text = (
        f"race on shared array tile[63] in block (0, 0, 0): thread (63, 0, 0) writes it in line {write}, thread "
        f"(0, 0, 0) reads it in line {read}, and nothing orders them (192 times); put yield t.syncthreads() between "
        f"line {write} and line {read}"
    )
    assert str(race).splitlines() == [
        text,
        f"  line {write}: tile[i] = a[t.blockIdx.x * 64 + i]",
        f"  line {read}: c[t.blockIdx.x * 64 + i] = tile[63 - i]",
    ]


@WAYS
def test_a_barrier_between_write_and_read(vectorize: bool) -> None:
    assert found(launched(reverse, 3, 64, True, vectorize=vectorize)) == []


@gs.block_kernel
def reverse_in_blocks(blk: Any, a: Any, c: Any, meet: Any) -> None:
    tile = blk.shared((8, 8), np.int32, "tile")
    i = blk.tid
    blk.sstore(tile, (i // 8, i % 8), blk.load(a, blk.bx * 64 + i))
    if meet:
        blk.sync()
    blk.store(c, blk.bx * 64 + i, blk.sload(tile, 63 - i))


def test_block_style() -> None:
    launch = launched(reverse_in_blocks, 3, 64, False)
    assert found(launch) == [("write-read", "block", False, 192)]
    assert launch.races[0].element == (7, 7)
    lines = line_of(reverse_in_blocks, 4), line_of(reverse_in_blocks, 7)
    assert launch.races[0].remedy == "put blk.sync() between line {} and line {}".format(*lines)
    assert found(launched(reverse_in_blocks, 3, 64, True)) == []


@gs.kernel
def rotate(t: Any, a: Any, c: Any, meet: Any) -> Any:
    tile = t.shared("tile", 64, np.int32)
    i = t.threadIdx.x
    tile[i] = a[i]
    yield t.syncthreads()
    v = tile[(i + 1) % 64]
    if meet:
        yield t.syncthreads()
    tile[i] = v


@WAYS
def test_read_then_write(vectorize: bool) -> None:
    """Threads 0 and 32 overwrite what threads 63 and 31 read, of the other warp; the others are neighbours in one."""
    launch = launched(rotate, 1, 64, False, vectorize=vectorize)
    assert found(launch) == [("read-write", "block", False, 2), ("read-write", "warp", False, 62)]
    assert found(launched(rotate, 1, 64, True, vectorize=vectorize)) == []


@gs.kernel
def in_a_loop(t: Any, a: Any, c: Any, meet: Any) -> Any:
    tile = t.shared("tile", 64, np.int32)
    i = t.threadIdx.x
    for k in range(3):
        tile[i] = a[i] + k
        yield t.syncthreads()
        c[i] = tile[63 - i]
        if meet:
            yield t.syncthreads()


@WAYS
def test_the_next_iteration_overwrites(vectorize: bool) -> None:
    launch = launched(in_a_loop, 1, 64, False, vectorize=vectorize)
    assert found(launch) == [("read-write", "block", False, 128)]
    write, read = line_of(in_a_loop, 5), line_of(in_a_loop, 7)
    assert launch.races[0].remedy == (f"put yield t.syncthreads() behind line {read}, before line {write} comes again")
    assert found(launched(in_a_loop, 1, 64, True, vectorize=vectorize)) == []


# Several threads, one element -----------------------------------------------------------------------------------------


@gs.kernel
def all_write(t: Any, a: Any, c: Any, kind: Any) -> Any:
    cell = t.shared("cell", 1, np.int32)
    if kind == "number":
        cell[0] = t.threadIdx.x
    elif kind == "same":
        cell[0] = 7
    elif kind == "one":
        if t.threadIdx.x == 0:
            cell[0] = 7
    else:
        cell.atomic_exch(0, t.threadIdx.x)
    yield t.syncthreads()
    c[t.threadIdx.x] = cell[0]


@WAYS
@pytest.mark.parametrize(
    ("kind", "races"),
    [
        ("number", [("write-write", "block", False, 32), ("write-write", "warp", False, 31)]),
        ("same", [("write-write", "block", True, 32), ("write-write", "warp", True, 31)]),
        ("one", []),
        ("atomic", []),
    ],
)
def test_one_statement_writes_one_element(kind: str, races: list[Any], vectorize: bool) -> None:
    """Of 64 threads one comes last, thread 63: the other 31 of its warp and the 32 of warp 0 race with it."""
    launch = launched(all_write, 1, 64, kind, vectorize=vectorize)
    assert found(launch) == races
    assert launch.mistakes == tuple(race for race in launch.races if kind == "number")
    if races:
        assert launch.races[0].remedy.startswith("let one thread write it")


def test_equal_values_are_told_but_not_warned_of(recwarn: pytest.WarningsRecorder) -> None:
    launch = launched(all_write, 1, 64, "same")
    assert not recwarn.list
    assert ", both the same value, and nothing orders them" in str(launch.races[0])


BLOCK = 9


def turns(*writes: tuple[int, int]) -> int:
    """Threads with the values that they write in one number, three digits for each."""
    return sum((10 * thread + value) * 1000**k for k, (thread, value) in enumerate(writes))


@gs.kernel
def in_turn(t: Any, a: Any, c: Any, writes: Any, where: Any) -> Any:
    """Threads write to one element in turn; `BLOCK` is a value that differs between blocks."""
    cell = t.shared("cell", 1, np.int32)
    for k in range(4):
        value = writes // 1000**k % 10
        if value > 0 and t.threadIdx.x == writes // 1000**k % 1000 // 10:
            if where == "global":
                a[0] = value
            else:
                cell[0] = t.blockIdx.x if value == BLOCK else value


OTHERS, SAME = ("write-write", "block", False), ("write-write", "block", True)
IN_WARP = ("write-write", "warp", True)


@WAYS
@pytest.mark.parametrize("where", ["shared", "global"])
@pytest.mark.parametrize(
    ("writes", "races"),
    [
        (turns((0, 5), (32, 7), (33, 7)), [(*OTHERS, 2)]),
        (turns((0, 7), (32, 7), (33, 7)), [(*SAME, 2)]),
        (turns((0, 7), (32, 7), (32, 7)), [(*SAME, 2)]),
        (turns((0, 5), (0, 7), (32, 7)), [(*SAME, 1)]),
        (turns((0, 7), (32, 5), (33, 7), (34, 7)), [(*OTHERS, 3)]),
        (turns((0, 7), (32, 5), (32, 7)), [(*OTHERS, 2)]),
        (turns((32, 5), (0, 7), (1, 7)), [(*OTHERS, 2)]),
        (turns((0, 5), (32, 7), (0, 5)), [(*OTHERS, 2)]),
        (turns((0, 7), (1, 7)), [(*IN_WARP, 1)]),
    ],
)
def test_values_are_equal_if_none_came_between(writes: int, races: list[Any], where: str, vectorize: bool) -> None:
    """A store races with one by the other warp if there is any, whose value all in between must have left."""
    assert found(launched(in_turn, 1, 64, writes, where, races="global", vectorize=vectorize)) == races


@WAYS
def test_values_are_equal_in_some_blocks(vectorize: bool) -> None:
    """Thread 0 writes the block's number and two others 1: the same in block 1 alone."""
    launch = launched(in_turn, 2, 64, turns((0, BLOCK), (32, 1), (33, 1)), "shared", vectorize=vectorize)
    assert found(launch) == [(*OTHERS, 2), (*SAME, 2)]


@gs.kernel
def set_if_unset(t: Any, a: Any, c: Any, atomic: Any) -> Any:
    cell = t.shared("cell", 1, np.int32)
    if t.threadIdx.x == 1:
        cell[0] = 7
    yield t.syncthreads()
    if t.threadIdx.x == 0:
        c[0] = cell.atomic_add(0, 0) if atomic else cell[0]
        cell[0] = 7
    if t.threadIdx.x == 32:
        cell[0] = 7


@WAYS
@pytest.mark.parametrize(("atomic", "kind"), [(False, "read-write"), (True, "atomic-write")])
def test_equal_values_hide_no_other_race(atomic: bool, kind: str, vectorize: bool) -> None:
    """Thread 32 writes what thread 0 has written, which has looked at what was there before."""
    assert found(launched(set_if_unset, 1, 64, atomic, vectorize=vectorize)) == [(kind, "block", False, 1)]


@gs.block_kernel
def after_the_same(blk: Any, a: Any, c: Any) -> None:
    """Threads 0 and 32 write 1 and 2 at once, which thread 40 has written, or not."""
    s = blk.shared(4, np.int32, "s")
    blk.sstore(s, 0, 1, mask=blk.tid == 40)
    blk.sstore(s, 0, np.where(blk.tid == 0, 1, 2), mask=blk.tid % 32 == 0)


def test_equal_values_hide_no_others() -> None:
    """Thread 32 is of the warp of thread 40."""
    assert found(launched(after_the_same, 1, 64)) == [
        ("write-write", "block", False, 1),
        ("write-write", "warp", False, 1),
    ]


@WAYS
def test_values_are_equal_only_with_those_that_are_left(vectorize: bool) -> None:
    """An update by an atomic operation lies between two stores of the same value."""
    launch = launched(updated_between, 1, 64, vectorize=vectorize)
    assert found(launch) == [("write-atomic", "block", False, 1), ("write-write", "block", False, 1)]


@gs.kernel
def updated_between(t: Any, a: Any, c: Any) -> Any:
    cell = t.shared("cell", 1, np.int32)
    if t.threadIdx.x == 0:
        cell[0] = 7
    if t.threadIdx.x == 32:
        cell.atomic_add(0, 0)
        cell[0] = 7


@gs.kernel
def mixed(t: Any, a: Any, c: Any, atomic: Any) -> Any:
    total = t.shared("total", 1, np.int32)
    if t.threadIdx.x == 0:
        total[0] = 0
    yield t.syncthreads()
    if t.threadIdx.x < 32:
        total.atomic_add(0, 1)
    elif t.threadIdx.x == 32:
        if atomic:
            c[0] = total.atomic_add(0, 0)
        else:
            c[0] = total[0]


@WAYS
def test_atomics_race_with_plain_accesses_only(vectorize: bool) -> None:
    launch = launched(mixed, 1, 64, False, vectorize=vectorize)
    assert found(launch) == [("atomic-read", "block", False, 1)]
    assert launch.races[0].remedy.endswith("or use atomic operations for both")
    assert found(launched(mixed, 1, 64, True, vectorize=vectorize)) == []


@gs.block_kernel
def two_statements(blk: Any, a: Any, c: Any) -> None:
    s = blk.shared(32, np.int32, "s")
    blk.sstore(s, blk.lane, blk.tid, mask=blk.warp == 0)
    blk.sstore(s, blk.lane, blk.tid, mask=blk.warp == 1)


@gs.block_kernel
def last_reader(blk: Any, a: Any, c: Any) -> None:
    """Both warps read an element, then a thread of warp 1, which read it last, writes it."""
    s = blk.shared(64, np.int32, "s")
    blk.sstore(s, blk.tid, 0)
    blk.sync()
    blk.sload(s, 5)
    blk.sstore(s, 5, 1, mask=blk.tid == 40)


@gs.block_kernel
def own_overwrite(blk: Any, a: Any, c: Any) -> None:
    """Thread 40 overwrites what thread 0 wrote, and reads it: that races with thread 0 still."""
    s = blk.shared(64, np.int32, "s")
    blk.sstore(s, 5, 1, mask=blk.tid == 0)
    blk.sstore(s, 5, 2, mask=blk.tid == 40)
    blk.sload(s, 5, mask=blk.tid == 40)


@pytest.mark.parametrize(
    ("kernel", "races"),
    [
        (two_statements, [("write-write", "block", False, 32)]),
        (last_reader, [("read-write", "block", False, 1)]),
        (own_overwrite, [("write-write", "block", False, 1), ("write-read", "block", False, 1)]),
    ],
)
def test_no_access_hides_another(kernel: Any, races: list[Any]) -> None:
    """Cases in which a detector is blind that remembers one access per element."""
    assert found(launched(kernel, 1, 64)) == races


@gs.kernel
def strided(t: Any, a: Any, c: Any, stride: Any) -> Any:
    s = t.shared("s", 1024, np.int32)
    for k in range(32):
        s[t.lane + 32 * k] = 0
    t.syncwarp()
    where = t.lane * stride
    value = s[where] + 1
    s[where] = value


@WAYS
@pytest.mark.parametrize(("stride", "races"), [(1, 0), (32, 0), (0, 32)])
def test_lanes_that_meet_in_one_element(stride: int, races: int, vectorize: bool) -> None:
    """Case C16: with stride 0 there is no bank conflict but a race: all 32 lanes store where others have read."""
    launch = launched(strided, 1, 32, stride, vectorize=vectorize)
    assert launch.counters.races + launch.counters.equal_value_races == races
    assert {race.scope for race in launch.races} == ({"warp"} if races else set())

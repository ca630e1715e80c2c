"""The reference's race counts: reproduced where both count the same, the right value and the reason where they do not.

Thread style: the reference runs threads one after the other between barriers, and counts an access that conflicts with
the last one of another thread. Here threads go in lockstep, as the results of both executors do.

Block style: the reference counts a statement once per block, whichever warps race, and looks for shared memory only at
reads and overwritten reads of other warps, for global memory only within one store. Here every access counts that
races with an earlier one, and the scopes are told apart: ``block`` is what the reference looks for, ``warp`` what not.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpusim_des as gs
from tests import test_golden_block, test_golden_thread

PUBLISHED_THREAD = {
    "reduce_nosync.n1024b256": 988,
    "reverse_nosync.n64b32": 64,
    "reverse_nosync.n128b64": 128,
    "reverse_nosync.n256b128": 256,
    "ww_shared.b64": 126,
    "war_shared.b64": 64,
    "neighbour_global.g2b32": 64,
    "neighbour_global.g1b64": 64,
    "same_cell_global.g2b32": 63,
    "shared_stride.f4s1_wrap8": 112,
}
"""Race counts that are not 0."""

DIFFERENT_THREAD = {
    # Lockstep: in the steps of 64, 32, …, 1 threads each thread reads what another wrote in the step before, 127 reads
    # in a block. One thread after the other, threads read before those above them write: of threads 1 to 127 every
    # store conflicts with a read, 127 + 63 + 31 + … + 1 = 247 in a block.
    "reduce_nosync.n1024b256": 4 * 127,
    # 64 threads write to 8 elements: of each 8 writers 7 do not come last, 56. In lockstep all 64 then read what others
    # have written too; one after the other, the first 8 threads find nobody's store.
    "shared_stride.f4s1_wrap8": 56 + 64,
}

GLOBAL = {"neighbour_global.g2b32", "neighbour_global.g1b64", "same_cell_global.g2b32"}
"""Runs in which the reference looks at global memory."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("golden_races")


def total(launch: gs.Launch) -> int:
    return launch.counters.races + launch.counters.equal_value_races


@pytest.mark.parametrize("run", test_golden_thread.RUNS, ids=lambda run: run["id"])
def test_thread_style(run: dict[str, Any], folder: Path) -> None:
    where = "global" if run["id"] in GLOBAL else "shared"
    launch, _ = test_golden_thread.run_published(run, folder, vectorize=True, races=where)
    published = PUBLISHED_THREAD.get(run["id"], 0)
    assert total(launch) == DIFFERENT_THREAD.get(run["id"], published)
    if run["id"] in PUBLISHED_THREAD:
        interpreted, _ = test_golden_thread.run_published(run, folder, vectorize=False, races=where)
        assert total(interpreted) == total(launch)


def by_scope(launch: gs.Launch) -> dict[str, int]:
    """Number of races by scope, those of equal values as well."""
    counts: dict[str, int] = {}
    for race in launch.races:
        counts[race.scope] = counts.get(race.scope, 0) + race.count
    return counts


BLOCK: dict[str, tuple[int, dict[str, int]]] = {
    # Steps of 64 and 32 threads read across warps; 2 statements in each of 4 blocks. 16 + 8 + … + 1 read within warp 0.
    "reduce_nosync.n1024b256": (8, {"block": 4 * 96, "warp": 4 * 31}),
    # One warp: never reported by the reference.
    "reverse_nosync.n64b32": (0, {"warp": 64}),
    "reverse_nosync.n128b64": (2, {"block": 128}),
    "reverse_nosync.n256b128": (2, {"block": 256}),
    # Write-write in shared memory is not looked for by the reference.
    "ww_shared.b64": (0, {"block": 2 * 32, "warp": 2 * 31}),
    "war_shared.b64": (1, {"block": 2, "warp": 62}),
    # Of 8 writers of an element, 4 in each warp, the last is in warp 1: 32 + 24 do not come last. All 64 read it.
    "shared_stride.f4s1_wrap8": (1, {"block": 32 + 64, "warp": 24}),
    "same_cell_global.g2b32": (2, {"grid": 32, "warp": 31}),
    # Reads after writes are not looked for in global memory by the reference; across the blocks 2 threads read.
    "neighbour_global.g2b32": (0, {"grid": 2, "warp": 62}),
    "neighbour_global.g1b64": (0, {"block": 2, "warp": 62}),
}
"""Run: statements and blocks with a race as published, and the accesses that race, by scope."""


@pytest.mark.parametrize("run", test_golden_block.RUNS, ids=lambda run: run["id"])
def test_block_style(run: dict[str, Any]) -> None:
    where = "global" if run["id"] in GLOBAL else "shared"
    launch, _ = test_golden_block.run_published(run, races=where)
    published, expected = BLOCK.get(run["id"], (0, {}))
    assert by_scope(launch) == expected
    across = sum(count for scope, count in expected.items() if scope != "warp")
    if published:
        assert across > 0


# Single cases ---------------------------------------------------------------------------------------------------------


@gs.kernel
def one_word(t: Any, a: Any) -> Any:
    s = t.shared("S", 1, np.float32)
    s[0] = t.threadIdx.x


@gs.kernel
def in_warp(t: Any, a: Any) -> Any:
    s = t.shared("S", 32, np.float32)
    s[t.threadIdx.x] = 1.0
    a[t.threadIdx.x] = s[(t.threadIdx.x + 1) % 32]


@gs.kernel
def shared_atomic(t: Any, a: Any) -> Any:
    s = t.shared("S", 1, np.float32)
    s.atomic_add(0, 1.0)


@gs.kernel
def global_barrier(t: Any, a: Any) -> Any:
    i = t.threadIdx.x
    a[i] = 1.0
    yield t.syncthreads()
    x = a[(i + 1) % 64]
    if x < 0:
        a[i] = x


@pytest.mark.parametrize(
    ("kernel", "grid", "block", "races"),
    [
        (one_word, 1, 32, 31),
        (in_warp, 1, 32, 32),
        (shared_atomic, 1, 32, 0),
        (global_barrier, 1, 64, 0),
        # Both blocks write every element, 64 accesses race; the 64 reads behind the barrier of the second block race
        # with the stores of the first, those of the first as well, for they are compared with whoever wrote last or
        # before: in lockstep 64 stores and 128 reads. The reference, block after block: 64 stores, 64 reads.
        (global_barrier, 2, 64, 64 + 128),
    ],
)
@pytest.mark.parametrize("vectorize", [True, False], ids=["vectorized", "interpreted"])
def test_single_cases_of_thread_style(kernel: Any, grid: int, block: int, races: int, vectorize: bool) -> None:
    dev = gs.Device("tiny")
    a = dev.to_device(np.zeros(64, np.float32))
    launch = dev.launch(kernel, grid, block, a, races="global", vectorize=vectorize)
    if kernel is global_barrier and grid == 2 and not vectorize:
        races = 64 + 64  # as published: the interpreter runs block after block
    assert total(launch) == races


@gs.block_kernel
def write_write(blk: Any, a: Any, both: Any) -> None:
    s = blk.shared(64, np.float32, "S")
    if both:
        blk.sstore(s, blk.lane, blk.tid, mask=blk.warp == 0)
        blk.sstore(s, blk.lane, blk.tid, mask=blk.warp == 1)
    else:
        blk.sstore(s, 0, blk.tid)


@gs.block_kernel
def read_after_write(blk: Any, a: Any, sync: Any) -> None:
    s = blk.shared(64, np.float32, "S")
    blk.sstore(s, blk.tid, blk.tid)
    if sync:
        blk.sync()
    blk.sload(s, 63 - blk.tid)


@gs.block_kernel
def write_after_read(blk: Any, a: Any) -> None:
    s = blk.shared(64, np.float32, "S")
    blk.sload(s, 63 - blk.tid)
    blk.sstore(s, blk.tid, blk.tid)


@gs.block_kernel
def overwritten_read(blk: Any, a: Any, writer: Any) -> None:
    s = blk.shared(64, np.float32, "S")
    blk.sload(s, 5)
    blk.sstore(s, 5, 1.0, mask=blk.tid == writer)


@gs.block_kernel
def same_value(blk: Any, a: Any) -> None:
    blk.store(a, 0, 1.0)


@gs.block_kernel
def two_stores(blk: Any, a: Any) -> None:
    blk.store(a, blk.lane, 1.0, mask=blk.warp == 0)
    blk.store(a, blk.lane, 2.0, mask=blk.warp == 1)


@gs.block_kernel
def by_every_block(blk: Any, a: Any) -> None:
    blk.store(a, blk.tid, blk.bx)


@gs.block_kernel
def read_other(blk: Any, a: Any) -> None:
    blk.store(a, blk.tid, 1.0)
    blk.load(a, 63 - blk.tid)


@pytest.mark.parametrize(
    ("kernel", "grid", "block", "more", "expected"),
    [
        (write_write, 1, 64, (True,), {"block": 32}),  # ww_two_statements: a blind spot of the reference
        (write_write, 1, 64, (False,), {"block": 32, "warp": 31}),  # ww_one_statement: another one
        (read_after_write, 1, 64, (False,), {"block": 64}),  # raw: published as 1 statement
        (read_after_write, 1, 64, (True,), {}),  # sync
        (write_after_read, 1, 64, (), {"block": 64}),  # war: published as 1 statement
        (overwritten_read, 1, 64, (40,), {"block": 1}),  # war_last_reader: a blind spot
        (overwritten_read, 1, 64, (8,), {"block": 1}),  # war_other_reader
        (same_value, 1, 32, (), {"warp": 31}),  # global_dup: published as 1 statement
        (two_stores, 1, 64, (), {"block": 32}),  # global_two_statements: a blind spot
        (by_every_block, 2, 32, (), {"grid": 32}),  # global_cross_block: a blind spot
        (read_other, 1, 64, (), {"block": 64}),  # global_raw: a blind spot
    ],
    ids=lambda value: value.name if isinstance(value, gs.BlockKernel) else None,
)
def test_single_cases_of_block_style(
    kernel: Any, grid: int, block: int, more: tuple[Any, ...], expected: dict[str, int]
) -> None:
    dev = gs.Device("tiny")
    launch = dev.launch(kernel, grid, block, dev.to_device(np.zeros(64, np.float32)), *more, races="global")
    assert by_scope(launch) == expected

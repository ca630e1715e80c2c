"""Hand-checkable counters for kernels in block style, and where this executor differs from them on purpose.

The reference lists for every kernel its statements, for every run its counters and checksums. Its race counts are left
out. Deliberate differences:

- An element that straddles a sector border touches both sectors; the reference model counts the first byte only
  (``sector.record12``).
- There are no views of device arrays (``sector.view``): the same accesses are written as an index with an offset.
- Blocks run at once, not one after another. In the racy ``neighbour_global`` the last thread of a block therefore reads
  what the next block wrote; the result that the reference has for one order of blocks is one of two possible ones.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpusim_des as gs

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parent / "data" / "golden_block.json").read_text())
RUNS: list[dict[str, Any]] = GOLDEN["runs"]
MICRO: dict[str, dict[str, Any]] = {case["id"]: case for case in GOLDEN["micro"]}

COLUMNS: dict[str, Callable[[gs.Counters], float]] = {
    "blocks": lambda c: c.blocks,
    "threads": lambda c: c.threads,
    "warp_instr": lambda c: c.warp_instructions,
    "active_lane_slots": lambda c: c.active_lanes,
    "gld_instr": lambda c: c.global_load_requests,
    "gst_instr": lambda c: c.global_store_requests,
    "gld_sectors": lambda c: c.global_load_sectors,
    "gst_sectors": lambda c: c.global_store_sectors,
    "g_bytes_requested": lambda c: c.global_bytes_requested,
    "smem_instr": lambda c: c.shared_requests,
    "smem_wavefronts": lambda c: c.shared_wavefronts,
    "barriers": lambda c: c.barriers,
    "branches": lambda c: c.branches,
    "divergent": lambda c: c.divergent_branches,
    "max_smem_per_block": lambda c: c.shared_bytes_per_block,
    "dram_bytes": lambda c: c.sector_bytes,
    "coalescing_efficiency": lambda c: c.coalescing_efficiency,
    "simt_efficiency": lambda c: c.simt_efficiency,
    "bank_conflict_factor": lambda c: c.bank_conflict_factor,
}

METHODS = ["load", "store", "sload", "sstore", "sync", "branch", "compute", "shfl_down", "shared"]
NAMES = ["tx", "ty", "tz", "bx", "by", "bz", "bdx", "bdy", "bdz", "gdx", "gdy", "gdz", "tid", "lane", "warp"]
TYPES = {
    "f2": np.float16,
    "f4": np.float32,
    "f8": np.float64,
    "i1": np.int8,
    "i4": np.int32,
    "i8": np.int64,
    "b1": np.bool_,
    "c16": np.complex128,
}
RULES: dict[str, Callable[[int], int]] = {
    "k": lambda k: k,
    "k%7": lambda k: k % 7,
    "k%5": lambda k: k % 5,
    "0": lambda _: 0,
    "1": lambda _: 1,
    "7": lambda _: 7,
}


def published_kernel(name: str, arguments: list[str]) -> gs.BlockKernel:
    """Wrap the statements of the reference in a function that binds the names they use."""
    bindings = [f"{word} = blk.{word}" for word in METHODS + NAMES if word not in arguments]
    body = "\n".join(f"    {line}" for line in [*bindings, *GOLDEN["kernels"][name]])
    namespace: dict[str, Any] = {"np": np, "f4": np.float32}
    exec(f"def {name}({', '.join(['blk', *arguments])}):\n{body}\n", namespace)
    return gs.block_kernel(namespace[name])


def shape(size: int | list[int]) -> int | tuple[int, ...]:
    return tuple(size) if isinstance(size, list) else size


def run_published(run: dict[str, Any], races: Any = "shared") -> tuple[gs.Launch, dict[str, np.ndarray[Any, Any]]]:
    dev = gs.Device("h100-sxm")
    host: dict[str, np.ndarray[Any, Any]] = {
        name: np.array([RULES[rule](k) for k in range(length)]).astype(TYPES[code])
        for name, (code, length, rule) in run["arrays"].items()
    }
    arrays = {name: dev.to_device(values) for name, values in host.items()}
    scalars = {name: TYPES[value] if name == "dt" else value for name, value in run["scalars"].items()}
    kernel = published_kernel(run["kernel"], [*arrays, *scalars])
    arguments = (*arrays.values(), *scalars.values())
    launch = dev.launch(kernel, shape(run["grid"]), shape(run["block"]), *arguments, count="declared", races=races)
    return launch, {name: dev.to_host(array) for name, array in arrays.items()}


def checksums(values: np.ndarray[Any, Any]) -> dict[str, float | None]:
    plain = [float(complex(v).real) for v in values]
    known = [(k, v) for k, v in enumerate(plain) if not math.isnan(v)]
    return {
        "sum": sum(v for _, v in known),
        "wsum": sum(v * (k % 13 + 1) for k, v in known),
        "first": None if math.isnan(plain[0]) else plain[0],
        "last": None if math.isnan(plain[-1]) else plain[-1],
        "nan": len(plain) - len(known),
    }


def test_the_reference_is_complete() -> None:
    assert len(RUNS) == 102
    assert {run["kernel"] for run in RUNS} == set(GOLDEN["kernels"])
    assert set(COLUMNS) == {*GOLDEN["counters"], *GOLDEN["derived"]}


RACY = {"neighbour_global.g2b32"}
"""Runs whose result depends on the order of the blocks."""


def test_a_race_between_blocks_ends_as_if_all_blocks_ran_at_once() -> None:
    (run,) = (run for run in RUNS if run["id"] in RACY)
    _, results = run_published(run)
    assert results["A"].tolist() == list(range(64))
    assert results["C"].tolist() == [(i + 1) % 64 for i in range(64)]
    one_by_one = [0 if i == 31 else (i + 1) % 64 for i in range(64)]  # thread 31 reads before block 1 writes
    assert checksums(np.array(one_by_one)) == run["result"]["C"]


@pytest.mark.parametrize("run", RUNS, ids=[run["id"] for run in RUNS])
def test_run(run: dict[str, Any]) -> None:
    launch, results = run_published(run)
    expected = dict(zip(GOLDEN["counters"], run["counters"], strict=True))
    assert {name: COLUMNS[name](launch.counters) for name in expected} == expected
    derived = dict(zip(GOLDEN["derived"], run["derived"], strict=True))
    assert {name: COLUMNS[name](launch.counters) for name in derived} == pytest.approx(derived, rel=1e-12)
    if run["id"] not in RACY:
        assert {name: checksums(values) for name, values in results.items()} == run["result"]


# Single operations ----------------------------------------------------------------------------------------------------


def counted(kernel: gs.BlockKernel, block: int, *args: Any) -> gs.Counters:
    dev = gs.Device("h100-sxm")
    arrays = [dev.to_device(a) if isinstance(a, np.ndarray) else a for a in args]
    return dev.launch(kernel, 1, block, *arrays, count="declared").counters


def check_micro(case: str, counters: gs.Counters, **different: int) -> None:
    expected = {name: value for name, value in MICRO[case].items() if name in COLUMNS} | different
    assert len(expected) == 8
    assert {name: COLUMNS[name](counters) for name in expected} == expected


def test_every_single_operation_of_the_reference_has_a_test() -> None:
    tested = {"sector.view", "sector.offset1", "sector.record12", "masked_off", "compute5", "branch_odd"}
    tested |= {"branch_warp", "branch_masked", "sync48", "shfl1_b40", "shfl16_b40", "shfl32"}
    assert {case.removeprefix("B.") for case in MICRO} == tested


@gs.block_kernel
def load_at(blk: gs.Block, a: gs.DeviceArray, offset: int) -> None:
    blk.load(a, blk.tid + offset)


def test_offset_by_one_element() -> None:
    check_micro("B.sector.offset1", counted(load_at, 32, np.zeros(64, np.float32), 1))


def test_a_view_is_an_offset_and_counts_as_one() -> None:
    """The reference takes the first element of a view for aligned and counts 4 sectors."""
    check_micro("B.sector.view", counted(load_at, 32, np.zeros(33, np.float32), 1), gld_sectors=5)


@gs.block_kernel
def load_third_record(blk: gs.Block, a: gs.DeviceArray) -> None:
    blk.load(a, 2, mask=blk.tid == 0)


def test_a_straddling_record_touches_two_sectors() -> None:
    """The reference counts the sector of the first byte only."""
    records = np.zeros(4, [("x", "f4"), ("y", "f4"), ("z", "f4")])
    check_micro("B.sector.record12", counted(load_third_record, 32, records), gld_sectors=2)


@gs.block_kernel
def load_for_nobody(blk: gs.Block, a: gs.DeviceArray) -> None:
    blk.load(a, blk.tid, mask=blk.tid < 0)


def test_a_load_for_nobody_counts_nothing() -> None:
    check_micro("B.masked_off", counted(load_for_nobody, 64, np.zeros(64, np.float32)))


@gs.block_kernel
def compute_five(blk: gs.Block) -> None:
    blk.compute(5)


def test_declared_instructions() -> None:
    check_micro("B.compute5", counted(compute_five, 48))


@gs.block_kernel
def branch_odd(blk: gs.Block) -> None:
    blk.branch(blk.tid % 2 == 1)


@gs.block_kernel
def branch_warp(blk: gs.Block) -> None:
    blk.branch(blk.warp == 0)


@gs.block_kernel
def branch_masked(blk: gs.Block) -> None:
    blk.branch(blk.tid % 2 == 1, mask=blk.tid < 8)


@pytest.mark.parametrize(
    ("case", "kernel"),
    [("B.branch_odd", branch_odd), ("B.branch_warp", branch_warp), ("B.branch_masked", branch_masked)],
)
def test_branches(case: str, kernel: gs.BlockKernel) -> None:
    check_micro(case, counted(kernel, 64))


@gs.block_kernel
def one_barrier(blk: gs.Block) -> None:
    blk.sync()


def test_barrier_of_a_block_with_half_a_warp() -> None:
    check_micro("B.sync48", counted(one_barrier, 48))


@gs.block_kernel
def shuffle(blk: gs.Block, out: gs.DeviceArray, delta: int) -> None:
    blk.store(out, blk.tid, blk.shfl_down(blk.tid, delta))


@pytest.mark.parametrize(("case", "block", "delta"), [("shfl1_b40", 40, 1), ("shfl16_b40", 40, 16), ("shfl32", 32, 32)])
def test_shuffles(case: str, block: int, delta: int) -> None:
    dev = gs.Device("h100-sxm")
    out = dev.malloc(block, np.int32)
    dev.launch(shuffle, 1, block, out, delta)
    assert dev.to_host(out).tolist() == MICRO[f"B.{case}"]["values"]

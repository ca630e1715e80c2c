"""Counters per array and per place in the source, ideal wavefronts, distinct sectors, idle lanes."""

import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpusim_des as gs
from gpusim_des.functional.accounting import DistinctSectors


@gs.kernel
def copies(t: Any, a: Any, out: Any, n: Any) -> None:
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    if i < n:
        out[i] = a[i] + a[32 * i % n]
        out[i] += 1


@gs.block_kernel
def copies_of_blocks(blk: gs.Block, a: gs.DeviceArray, out: gs.DeviceArray, n: int) -> None:
    i = blk.bx * blk.bdx + blk.tx
    m = i < n
    blk.store(out, i, blk.load(a, i, mask=m) + blk.load(a, 32 * i % n, mask=m), mask=m)
    blk.store(out, i, blk.load(out, i, mask=m) + 1, mask=m)


def run(kernel: Any, **options: Any) -> gs.Launch:
    dev = gs.Device("tiny")
    a, out = dev.to_device(np.arange(1024, dtype=np.float32)), dev.malloc(1024, np.float32)
    launch = dev.launch(kernel, 8, 128, a, out, 1024, **options)
    x = np.arange(1024)
    assert np.array_equal(dev.to_host(out), x + 32 * x % 1024 + 1)
    return launch


KNOWS_COLUMNS = pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 knows lines of running code only")


@pytest.mark.parametrize("kernel", [copies, pytest.param(copies_of_blocks, marks=KNOWS_COLUMNS)])
def test_every_place_has_its_own_counts(kernel: Any) -> None:
    """32 warps: consecutive elements are 4 sectors a request, every 32nd element is a sector of its own."""
    counters = run(kernel).counters

    found = [
        (site.array, site.operation, counts.requests, counts.sectors, counts.threads, counts.nbytes)
        for site, counts in counters.accesses.items()
    ]
    assert sorted(found) == sorted(
        [
            ("a", "load", 32, 128, 1024, 4096),
            ("a", "load", 32, 1024, 1024, 4096),
            ("out", "load", 32, 128, 1024, 4096),
            ("out", "store", 32, 128, 1024, 4096),
            ("out", "store", 32, 128, 1024, 4096),
        ]
    )
    assert {site.memory for site in counters.accesses} == {"global"}
    by_array = counters.by_array()
    assert (by_array["a"].requests, by_array["a"].sectors) == (64, 1152)
    assert (by_array["out"].requests, by_array["out"].sectors) == (96, 384)
    assert counters.distinct_sectors == 2 * 1024 * 4 // 32


@KNOWS_COLUMNS
def test_two_accesses_on_one_line_are_two_places() -> None:
    sites = [s for s in run(copies_of_blocks).counters.accesses if s.array == "a"]
    assert len({s.line for s in sites}) == 1
    assert len({s.column for s in sites}) == 2


def test_places_add_up_to_the_totals() -> None:
    c = run(copies).counters
    places = c.accesses
    assert sum(p.sectors for s, p in places.items() if s.operation == "load") == c.global_load_sectors
    assert sum(p.requests for s, p in places.items() if s.operation == "store") == c.global_store_requests
    assert "a" in c.access_table()
    assert len(c.access_table().splitlines()) == 1 + len(places)


@pytest.mark.parametrize(
    ("dtype", "stride", "wavefronts", "ideal"),
    [
        (np.float32, 1, 1, 1),
        (np.float32, 2, 2, 1),
        (np.float32, 32, 32, 1),
        (np.float64, 1, 2, 2),  # half a warp at a time: no conflict
        (np.float64, 2, 4, 2),
        (np.complex128, 1, 4, 4),
    ],
)
def test_ideal_wavefronts_know_the_width(dtype: Any, stride: int, wavefronts: int, ideal: int) -> None:
    def kernel(blk: gs.Block) -> None:
        tile = blk.shared(32 * stride, dtype)
        blk.sstore(tile, blk.tid * stride, 1)

    c = gs.Device("h100-sxm").launch(gs.block_kernel(kernel), 1, 32).counters

    assert (c.shared_wavefronts, c.shared_ideal_wavefronts) == (wavefronts, ideal)
    assert c.bank_conflicts == wavefronts - ideal


def test_half_a_warp_of_wide_elements_needs_one_pass() -> None:
    def kernel(blk: gs.Block) -> None:
        tile = blk.shared(32, np.float64)
        blk.sstore(tile, blk.tid, 1, mask=blk.tid < 16)

    c = gs.Device("tiny").launch(gs.block_kernel(kernel), 1, 32).counters
    assert (c.shared_wavefronts, c.shared_ideal_wavefronts) == (1, 1)


def test_idle_lanes() -> None:
    def kernel(blk: gs.Block) -> None:
        blk.sync()

    launch = gs.Device("tiny").launch(gs.block_kernel(kernel), 3, 40)
    assert launch.counters.idle_lanes == 3 * 24


@given(st.lists(st.integers(0, 2**22), max_size=60), st.integers(1, 7))
def test_distinct_sectors_equal_a_set(numbers: list[int], pieces: int) -> None:
    seen = DistinctSectors()
    for k in range(pieces):
        seen.add(np.array(numbers[k::pieces], np.int64))
    assert seen.count == len(set(numbers))

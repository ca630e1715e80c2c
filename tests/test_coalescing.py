"""Sectors, lines and wavefronts against a lane-by-lane count in plain Python, and cases worked out by hand."""

from __future__ import annotations

from collections import Counter
from math import gcd
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpusim_des as gs
from gpusim_des.functional.coalescing import (
    load_store_quarter_cycles,
    register_quarter_cycles,
    sector_passes,
    sectors,
    wavefronts,
    write_passes,
)

SIZES = [1, 2, 4, 8, 12, 16]
HALVES = {1: 1, 2: 1, 4: 1, 8: 2, 12: 4, 16: 4}
"""In how many parts the banks serve a warp, by element size."""

Rows = list[list[int]]
Masks = list[list[bool]]


def touched(addresses: list[int], size: int, mask: list[bool], unit: int) -> list[int]:
    """Numbers of the units of `unit` bytes that hold a byte of an active lane."""
    return sorted({(a + byte) // unit for a, on in zip(addresses, mask, strict=True) if on for byte in range(size)})


def passes(addresses: list[int], size: int, mask: list[bool]) -> int:
    total = 0
    lanes = 32 // HALVES[size]
    for start in range(0, 32, lanes):
        banks: dict[int, set[int]] = {}
        for word in touched(addresses[start : start + lanes], size, mask[start : start + lanes], 4):
            banks.setdefault(word % 32, set()).add(word)
        total += max((len(words) for words in banks.values()), default=0)
    return total


@st.composite
def requests(draw: st.DrawFn) -> tuple[Rows, int, Masks | None]:
    """Some warps' addresses: lines with a stride, one address, or anything; aligned or not."""
    size = draw(st.sampled_from(SIZES))
    aligned = draw(st.booleans())
    warps = draw(st.integers(1, 3))
    rows = []
    for _ in range(warps):
        kind = draw(st.sampled_from(["stride", "one", "any", "few"]))
        base = draw(st.integers(0, 4096))
        if kind == "stride":
            stride = draw(st.integers(-40, 40)) if draw(st.booleans()) else 1
            row = [base + 40 * 32 + stride * lane for lane in range(32)]
        elif kind == "one":
            row = [base] * 32
        else:
            row = draw(st.lists(st.integers(0, 3 if kind == "few" else 2000), min_size=32, max_size=32))
        shift = 0 if aligned else draw(st.integers(0, 31))
        rows.append([k * size + shift for k in row])
    if draw(st.booleans()):
        return rows, size, None
    lane_mask = st.lists(st.booleans(), min_size=32, max_size=32) | st.integers(0, 32).map(
        lambda n: [lane < n for lane in range(32)]
    )
    return rows, size, draw(st.lists(lane_mask, min_size=warps, max_size=warps))


@settings(max_examples=400, deadline=None)
@given(requests())
def test_equals_a_count_lane_by_lane(request: tuple[Rows, int, Masks | None]) -> None:
    rows, size, masks = request
    on = masks or [[True] * 32 for _ in rows]
    addresses = np.array(rows, np.int64)
    active = None if masks is None else np.array(masks)
    expected = [touched(row, size, mask, 32) for row, mask in zip(rows, on, strict=True)]
    lines = [len(touched(row, size, mask, 128)) for row, mask in zip(rows, on, strict=True)]
    found = sectors(addresses, size, active)
    assert found.counts.tolist() == [len(numbers) for numbers in expected]
    assert found.numbers.tolist() == [n for numbers in expected for n in numbers]
    assert wavefronts(addresses, size, active).tolist() == [passes(r, size, m) for r, m in zip(rows, on, strict=True)]
    assert found.lines.tolist() == lines
    assert addresses.tolist() == rows, "the addresses of the caller stay as they were"


LANES = np.arange(32, dtype=np.int64)


def one(values: Any) -> np.ndarray[Any, Any]:
    return np.asarray(values, np.int64).reshape(1, 32)


@pytest.mark.parametrize("stride", [*range(34), 64, 96])
def test_shared_word_stride(stride: int) -> None:
    expected = gcd(stride, 32) if stride else 1  # one word: a broadcast
    assert wavefronts(one(4 * stride * LANES), 4, None).tolist() == [expected]


@pytest.mark.parametrize(("size", "expected"), [(1, 1), (2, 1), (4, 1), (8, 2), (16, 4)])
def test_consecutive_elements_of_any_size_have_no_conflict(size: int, expected: int) -> None:
    assert wavefronts(one(size * LANES), size, None).tolist() == [expected]
    assert wavefronts(one(size * LANES), size, np.ones((1, 32), bool)).tolist() == [expected]


def test_doubles_in_a_column_of_32_conflict_in_each_half_warp() -> None:
    assert wavefronts(one(8 * 32 * LANES), 8, None).tolist() == [16 + 16]
    first_half = one(np.arange(32) < 16).astype(bool)
    assert wavefronts(one(8 * 32 * LANES), 8, first_half).tolist() == [16]


@pytest.mark.parametrize(("size", "offset", "expected"), [(4, 0, 4), (4, 1, 5), (4, 7, 5), (4, 8, 4), (8, 1, 9)])
def test_offset_of_a_row(size: int, offset: int, expected: int) -> None:
    found = sectors(one(size * (LANES + offset)), size, None)
    assert found.counts.tolist() == [expected]


@pytest.mark.parametrize(
    ("stride", "expected", "lines"), [(1, 4, 1), (2, 8, 2), (4, 16, 4), (8, 32, 8), (16, 32, 16), (32, 32, 32)]
)
def test_stride_of_floats(stride: int, expected: int, lines: int) -> None:
    found = sectors(one(4 * stride * LANES), 4, None)
    assert (found.counts.tolist(), found.lines.tolist()) == ([expected], [lines])


def test_one_field_of_records_of_three_floats_fetches_the_whole_records() -> None:
    """32 × 12 bytes are 384 bytes, 12 sectors, though a field needs only 4."""
    assert sectors(one(12 * LANES), 4, None).counts.tolist() == [12]
    assert sectors(one(12 * LANES), 12, None).counts.tolist() == [12]


def test_a_straddling_record_touches_two_sectors_and_two_lines() -> None:
    only_first = one(LANES == 0).astype(bool)
    found = sectors(one(120 + 0 * LANES), 12, only_first)
    assert (found.counts.tolist(), found.numbers.tolist(), found.lines.tolist()) == ([2], [3, 4], [2])


@pytest.mark.parametrize(("width", "expected"), [(500, 4.5), (512, 4.0), (641, 4.875)])
def test_rows_of_an_image(width: int, expected: float) -> None:
    """A warp keeps to 4 sectors if a row starts on one: all of 512, every second of 500, every eighth of 641."""
    rows, columns = np.arange(64)[:, None], np.arange(0, width - 31, 32)[None, :]
    first = (rows * width + columns).reshape(-1, 1)
    found = sectors((4 * (first + LANES)).astype(np.int64), 4, None)
    assert found.counts.mean() == expected


@gs.block_kernel
def read_image(blk: gs.Block, image: gs.DeviceArray, out: gs.DeviceArray) -> None:
    blk.store(out, (blk.ty, blk.tx), blk.load(image, (blk.by * blk.bdy + blk.ty, blk.bx * blk.bdx + blk.tx)))


@pytest.mark.parametrize(("width", "expected"), [(500, 4.5), (512, 4.0), (641, 4.875)])
def test_rows_of_an_image_in_a_kernel(width: int, expected: float) -> None:
    dev = gs.Device("h100-sxm")
    image, out = dev.malloc((64, width)), dev.malloc((8, 32))
    counters = dev.launch(read_image, (width // 32, 8), (32, 8), image, out).counters
    assert counters.global_load_requests == 64 * (width // 32)
    assert counters.load_sectors_per_request == expected


def test_no_active_lane_is_no_work() -> None:
    nobody = np.zeros((2, 32), bool)
    addresses = np.zeros((2, 32), np.int64)
    for size in SIZES:
        found = sectors(addresses, size, nobody)
        assert (found.counts.tolist(), found.numbers.tolist(), found.lines.tolist()) == ([0, 0], [], [0, 0])
        assert wavefronts(addresses, size, nobody).tolist() == [0, 0]


@pytest.mark.parametrize(
    ("passes", "lines", "expected"), [(1, 1, 4), (1, 2, 5), (2, 2, 8), (1, 33, 36), (32, 32, 128), (0, 0, 0)]
)
def test_time_in_the_load_store_unit(passes: int, lines: int, expected: int) -> None:
    """Banks or tags, whichever takes longer: max(passes, (lines + 3) / 4) cycles, in quarters."""
    found = load_store_quarter_cycles(np.array([passes], np.int32), np.array([lines], np.int32))
    assert found.tolist() == [expected]


@settings(max_examples=60)
@given(
    st.lists(st.integers(0, 400), min_size=32, max_size=32),
    st.integers(0, 2**32 - 1),
    st.sampled_from([1, 2, 4, 8, 16]),
)
def test_a_line_a_cycle_to_registers_is_never_the_limit(items: list[int], active: int, size: int) -> None:
    """Banks give no more than 128 bytes in a pass, so that an L1 of that width adds nothing to M1."""
    addresses = np.array([items], np.int64) * size
    on = np.array([[bool(active >> lane & 1) for lane in range(32)]])
    lanes = on.sum(axis=1, dtype=np.uint8)
    most = 4 * wavefronts(addresses, size, on)
    assert (register_quarter_cycles(lanes, size, 128) <= most).all()
    assert register_quarter_cycles(lanes, size, 64).tolist() == [-(-int(lanes[0]) * size // 16)]


@settings(max_examples=60)
@given(st.lists(st.integers(0, 40), min_size=32, max_size=32), st.integers(0, 2**32 - 1), st.sampled_from([4, 8]))
def test_passes_of_every_sector_of_an_atomic(words: list[int], active: int, size: int) -> None:
    """Against counting lane by lane: in each sector the address with most lanes."""
    addresses = np.array([words, words[::-1]], np.int64) * size
    on = np.array([[bool(active >> lane & 1) for lane in range(32)], [lane % 2 == 0 for lane in range(32)]])
    touched = sectors(addresses, size, on)
    expected = []
    for row, lanes in zip(addresses.tolist(), on.tolist(), strict=True):
        lanes_of = Counter(a for a, is_on in zip(row, lanes, strict=True) if is_on)
        in_sector: dict[int, int] = {}
        for address, count in lanes_of.items():
            in_sector[address // 32] = max(count, in_sector.get(address // 32, 0))
        expected += [in_sector[sector] for sector in sorted(in_sector)]
    assert sector_passes(addresses, on, touched).tolist() == expected


@settings(max_examples=80)
@given(
    st.lists(st.integers(0, 40), min_size=32, max_size=32), st.integers(0, 2**32 - 1), st.sampled_from([1, 2, 4, 8, 16])
)
def test_sectors_that_a_store_writes_whole(items: list[int], active: int, size: int) -> None:
    """M5: against the set of bytes that each warp writes."""
    addresses = np.array([items, list(range(32)), list(range(7, 39))], np.int64) * size
    on = np.array([[bool(active >> lane & 1) for lane in range(32)], [True] * 32, [lane != 3 for lane in range(32)]])
    expected = []
    for row, lanes in zip(addresses.tolist(), on.tolist(), strict=True):
        written = {a + byte for a, is_on in zip(row, lanes, strict=True) if is_on for byte in range(size)}
        touched = sorted({byte // 32 for byte in written})
        expected += [1 if written >= set(range(32 * sector, 32 * sector + 32)) else 2 for sector in touched]
    found = write_passes(addresses, size, on, sectors(addresses, size, on))
    assert (expected if found is None else found.tolist()) == expected
    assert (found is None) == (2 not in expected)


def test_whole_sectors_of_neighbours_need_no_look() -> None:
    """M5: neighbours from a border on, and one that is not; a lane that leaves a hole makes a part of one sector."""
    lanes = np.arange(32, dtype=np.int64)[None, :]
    for size, offset, expected in ((4, 0, None), (4, 4, [2, 1, 1, 1, 2]), (1, 0, None), (1, 1, [2, 2])):
        touched = sectors(lanes * size + offset, size, None)
        found = write_passes(lanes * size + offset, size, None, touched)
        assert (None if found is None else found.tolist()) == expected
    hole = lanes != 9
    holed = write_passes(lanes * 4, 4, hole, sectors(lanes * 4, 4, hole))
    assert holed is not None
    assert holed.tolist() == [1, 2, 1, 1]


def test_passes_of_elements_that_lie_across_sectors() -> None:
    """Two lanes on 8 bytes at address 28: both operations begin in sector 0, sector 1 has nothing of its own."""
    addresses = np.full((1, 32), 28, np.int64)
    on = np.arange(32)[None, :] < 2
    assert sector_passes(addresses, on, sectors(addresses, 8, on)).tolist() == [2, 1]

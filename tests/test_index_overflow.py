"""Indices that 32 bits cannot hold: reported with the exact number, whether the access lands in the array or not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpusim_des as gs
from gpusim_des.functional import overflow
from tests.test_races import line_of

WAYS = pytest.mark.parametrize("vectorize", [True, False], ids=["vectorized", "interpreted"])
pytestmark = pytest.mark.filterwarnings("ignore::gpusim_des.IndexOverflowWarning")

ROWS = [239_673] * 31 + [239_674]


def launched(kernel: Any, argument: Any, **options: Any) -> gs.Launch:
    """Launch one warp on an array of 64 elements."""
    dev = gs.Device("tiny")
    first = dev.to_device(np.array(argument, np.int32), "rows") if isinstance(argument, list) else argument
    a, out = dev.to_device(np.ones(64, np.float32), "a"), dev.malloc(32, name="out")
    return dev.launch(kernel, 1, 32, first, a, out, **options)


@gs.kernel
def gather(t: Any, rows: Any, a: Any, out: Any) -> Any:
    i = t.threadIdx.x
    where = rows[i] * 8960 + 8959
    out[i] = a[where % 64]


@WAYS
def test_row_239674_of_a_gather(vectorize: bool) -> None:
    """Case C61: row 239,673 ends at 2,147,479,039, which fits; the next one at 2,147,487,999, which does not."""
    with pytest.warns(gs.IndexOverflowWarning, match="gives 2,147,487,999 in thread"):
        launch = launched(gather, ROWS, vectorize=vectorize)
    (report,) = launch.index_overflows
    assert (report.array, report.exact, report.count) == ("a", 239_674 * 8960 + 8959, 1)
    assert (report.thread, report.block) == (gs.Dim3(31, 0, 0), gs.Dim3(0, 0, 0))
    assert (report.line, report.access.line) == (line_of(gather, 3), line_of(gather, 4))
    assert launch.mistakes == (report,)
    assert "more than 2,147,483,647, so an int32 wraps; compute the index in 64 bits" in str(report)
    assert launched(gather, [239_673] * 32, vectorize=vectorize).mistakes == ()


@gs.kernel
def gather_wide(t: Any, rows: Any, a: Any, out: Any) -> Any:
    i = t.threadIdx.x
    out[i] = a[(np.int64(rows[i]) * 8960 + 8959) % 64]


@gs.kernel
def gather_unsigned(t: Any, rows: Any, a: Any, out: Any) -> Any:
    i = t.threadIdx.x
    out[i] = a[(np.uint32(rows[i]) * 8960 * 8960) % 64]


@gs.kernel
def hashed(t: Any, rows: Any, a: Any, out: Any) -> Any:
    """A number that wraps on purpose and is no index."""
    i = t.threadIdx.x
    out[i] = a[i] + rows[i] * 1_103_515_245 + 12_345


@WAYS
@pytest.mark.parametrize("kernel", [gather_wide, gather_unsigned, hashed])
def test_near_misses(kernel: Any, vectorize: bool) -> None:
    assert launched(kernel, [239_674] * 32, vectorize=vectorize).mistakes == ()


@gs.kernel
def powers(t: Any, first: Any, a: Any, out: Any) -> Any:
    i = t.threadIdx.x
    row = np.int32(first + i)
    out[i] = a[row**2 & 63]
    if i > 29:
        out[i] = a[row**3 & 63]
    if i > 30:
        out[i] = a[row**5 & 63]


@WAYS
def test_powers(vectorize: bool) -> None:
    """46,341² = 2,147,488,281 is the first square beyond 32 bits: thread 11's, and 20 more follow."""
    square, cube, fifth = launched(powers, np.int32(46_330), vectorize=vectorize).index_overflows
    assert (square.exact, square.thread, square.count) == (46_341**2, gs.Dim3(11, 0, 0), 21)
    assert (cube.exact, cube.thread, cube.count) == (46_360**3, gs.Dim3(30, 0, 0), 2)
    assert "gives 9,223,372,036,854,775,807 or more in thread (31, 0, 0)" in str(fifth)  # 46,361⁵ has 24 digits
    assert launched(powers, np.int32(-31), vectorize=vectorize).mistakes == ()


@gs.block_kernel
def squares_in_blocks(blk: Any, first: Any, a: Any, out: Any) -> None:
    blk.store(out, blk.tid, blk.load(a, (blk.tid + first) ** 2 & 63))


def test_powers_in_block_style() -> None:
    (report,) = launched(squares_in_blocks, np.int32(46_310)).index_overflows
    assert (report.exact, report.thread, report.count) == (46_341**2, gs.Dim3(31, 0, 0), 1)
    assert launched(squares_in_blocks, np.int32(46_309)).mistakes == ()


@gs.kernel
def generated(t: Any, first: Any, a: Any, out: Any) -> Any:
    i = (first + t.blockIdx.x) * 96 + t.lane * 3
    out[t.threadIdx.x] = a[i & 63]


@WAYS
def test_a_generated_index_beyond_two_to_the_31(vectorize: bool) -> None:
    """Case C62: block 22,369,621 is the last one; its lanes from 11 on are beyond, up to 2,147,483,709."""
    launch = launched(generated, np.int32(22_369_621), vectorize=vectorize)
    (report,) = launch.index_overflows
    assert (report.exact, report.thread, report.count) == (22_369_621 * 96 + 33, gs.Dim3(11, 0, 0), 21)
    assert launched(generated, np.int32(22_369_620), vectorize=vectorize).mistakes == ()


@gs.kernel
def beyond(t: Any, rows: Any, a: Any, out: Any) -> Any:
    i = t.threadIdx.x
    if rows[i] == 239_674:
        out[i] = a[rows[i] * 8960 + 8959]


@WAYS
def test_an_error_of_bounds_tells_why(vectorize: bool) -> None:
    """2,147,487,999 - 2^32 = -2,147,479,297."""
    message = r"index -2,147,479,297 is outside 0…63 .*; index of array 'a' overflows: .* gives 2,147,487,999"
    with pytest.raises(gs.BoundsError, match=message):
        launched(beyond, ROWS, vectorize=vectorize)


@gs.kernel
def from_constant(t: Any, n: Any, a: Any, out: Any) -> Any:
    out[t.threadIdx.x] = a[n * 8960 % 64]


@WAYS
def test_plain_numbers_are_exact_and_declared_ones_are_not(vectorize: bool) -> None:
    """The rule of promotion: a Python number takes the type of what it meets, `np.int32` declares 32 bits."""
    assert launched(from_constant, 300_000, vectorize=vectorize).mistakes == ()
    (report,) = launched(from_constant, np.int32(300_000), vectorize=vectorize).index_overflows
    assert report.exact == 300_000 * 8960


@gs.kernel
def in_some_threads(t: Any, rows: Any, a: Any, out: Any) -> Any:
    i = t.threadIdx.x
    where = 3
    if i % 2 == 0:
        where = rows[i] * 8960 + 8959
    other = where if i < 16 else 5
    out[i] = a[other & 63]


@WAYS
def test_a_variable_is_marked_in_threads_where_it_wrapped(vectorize: bool) -> None:
    """Threads 0, 2, … 14 use what wrapped, 16 and more choose another value, odd ones never had it."""
    (report,) = launched(in_some_threads, [239_674] * 32, vectorize=vectorize).index_overflows
    assert report.count == 8


@gs.block_kernel
def gather_blocks(blk: Any, rows: Any, a: Any, out: Any) -> None:
    where = blk.load(rows, blk.tid) * 8960 + 8959
    blk.store(out, blk.tid, blk.load(a, where % 64))


@gs.block_kernel
def gather_blocks_beyond(blk: Any, rows: Any, a: Any, out: Any) -> None:
    where = blk.load(rows, blk.tid) * 8960 + 8959
    blk.store(out, blk.tid, blk.load(a, where, mask=blk.tid == 31), mask=blk.tid == 31)


@gs.block_kernel
def chosen_blocks(blk: Any, rows: Any, a: Any, out: Any) -> None:
    where = blk.load(rows, blk.tid) * 8960 + 8959
    blk.store(out, blk.tid, blk.load(a, np.where(blk.tid < 4, where % 64, 0)))


def test_block_style() -> None:
    (report,) = launched(gather_blocks, ROWS).index_overflows
    assert (report.exact, report.thread, report.count) == (2_147_487_999, gs.Dim3(31, 0, 0), 1)
    assert report.line == line_of(gather_blocks, 2)
    assert launched(gather_blocks, [239_673] * 32).mistakes == ()
    with pytest.raises(gs.BoundsError, match=r"outside 0…63 .*; index of array 'a' overflows: .* 2,147,487,999"):
        launched(gather_blocks_beyond, ROWS)
    (report,) = launched(chosen_blocks, [239_674] * 32).index_overflows
    assert report.count == 4


INT32 = st.integers(-(2**31), 2**31 - 1) | st.integers(-70_000, 70_000)


@settings(deadline=None, derandomize=True)
@given(
    name=st.sampled_from(sorted(overflow.CHECKED)),
    a=st.lists(INT32, min_size=1, max_size=4),
    b=st.lists(INT32, min_size=1, max_size=4),
    shift=st.integers(0, 31),
)
def test_intervals_contain_every_result(name: str, a: list[int], b: list[int], shift: int) -> None:
    """No overflow is missed because an interval is too narrow, and exact results are Python's."""
    b = [shift] if name == "left_shift" else [n % 40 - 4 for n in b] if name == "power" else b
    low, high = overflow.interval(name, (min(a), max(a)), (min(b), max(b)))
    compute: dict[str, Callable[[int, int], int]] = {
        "add": lambda x, y: x + y,
        "subtract": lambda x, y: x - y,
        "multiply": lambda x, y: x * y,
        "left_shift": lambda x, y: x << y,
        "power": lambda x, y: x**y if y >= 0 else 0,
    }
    for x in a:
        for y in b:
            exact = compute[name](x, y)
            assert low <= exact <= high or not (overflow.fits((exact, exact)) or overflow.fits((low, high)))
            known = max(-overflow.FURTHEST, min(overflow.FURTHEST, exact))
            assert int(overflow.exactly(name, np.int32(x), np.int32(y))) == known


@gs.kernel
def of_two_factors(t: Any, rows: Any, a: Any, out: Any) -> Any:
    """In even threads the first factor has wrapped, in odd ones the second."""
    i = t.threadIdx.x
    left, right = 1, 1
    if i % 2 == 0:
        left = rows[i] * 8960 + 8959
    else:
        right = rows[i] * 8961 + 8959
    out[i] = a[(left ^ right) & 63]


@WAYS
def test_threads_remember_each_their_own(vectorize: bool) -> None:
    reports = launched(of_two_factors, [239_674] * 32, vectorize=vectorize).index_overflows
    first, second = line_of(of_two_factors, 6), line_of(of_two_factors, 8)
    assert [(report.line, report.count) for report in reports] == [(first, 16), (second, 16)]

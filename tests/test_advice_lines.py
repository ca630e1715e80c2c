"""Advice on lines of a kernel: each check has a kernel that it finds, and a near miss that it leaves alone."""

from __future__ import annotations

from math import gcd
from typing import Any

import numpy as np
import pytest

import gpusim_des as gs
from tests import advised_kernels as k
from tests.advised_kernels import advice_of, number_of

N = 256


@pytest.fixture
def dev() -> gs.Device:
    return gs.Device("h100-sxm")


def floats(dev: gs.Device, name: str, n: int = N * N) -> Any:
    return dev.to_device(np.zeros(n, np.float32), name)


def integers(dev: gs.Device, values: Any, name: str) -> Any:
    return dev.to_device(np.asarray(values, np.int32), name)


def test_lanes_that_walk_down_a_column(dev: gs.Device) -> None:
    """The sentence of the fourth of ten mistakes, with a pitch of 4,096 floats."""
    n = 4096
    a, out = floats(dev, "a", n * 32), floats(dev, "out", n * 8)
    first = dev.launch(k.by_column, (1, 1), (32, 8), a, out, n).advice()
    line = number_of(k.by_column, "out[y * n + x]")
    found = next(advice for advice in first if advice.check == "uncoalesced")
    assert str(found).startswith(
        f"Load of a at line {line}: 32 sectors per request (ideal 4); neighbouring lanes are 16,384 bytes apart; "
        "swap the roles of x and y, or stage through shared memory (about "
    )
    assert (found.figure, found.ideal, found.line, found.kernel) == (32, 4, line, "by_column")
    assert found.code == "out[y * n + x] = a[x * n + y]"
    whole = dev.launch(k.by_row, (N // 32, N // 8), (32, 8), floats(dev, "a"), floats(dev, "out"), N)
    assert advice_of(whole) == []


def test_records_are_kept_field_by_field(dev: gs.Device) -> None:
    a, out = floats(dev, "a", 4 * N * N), floats(dev, "out")
    (found,) = dev.launch(k.records, N, N, a, out).advice()
    assert found.finding.endswith("16 sectors per request (ideal 4); neighbouring lanes are 16 bytes apart")
    assert "array for each field" in found.remedy


def test_an_offset_of_one_is_no_scattered_access(dev: gs.Device) -> None:
    launch = dev.launch(k.shifted, N - 1, N, floats(dev, "a"), floats(dev, "out"))
    assert launch.counters.load_sectors_per_request == 5
    assert advice_of(launch) == []


def test_irregular_lanes(dev: gs.Device) -> None:
    shuffled = integers(dev, np.random.default_rng(1).permutation(N * N), "index")
    ordered = integers(dev, np.arange(N * N), "index")
    a, out = floats(dev, "a"), floats(dev, "out")
    (found,) = dev.launch(k.gather, N, N, a, shuffled, out).advice()
    assert found.finding.startswith("Load of a at line")
    assert "irregular" in found.finding
    assert advice_of(dev.launch(k.gather, N, N, a, ordered, out)) == []


def test_a_tile_without_a_pad(dev: gs.Device) -> None:
    """C17, and the sentence of the fifth of ten mistakes."""
    n = 2 * N
    a, out = floats(dev, "a", n * n), floats(dev, "out", n * n)
    unpadded, padded = (dev.launch(k.through_tile, (n // 32, n // 32), (32, 8), a, out, n, pitch) for pitch in (32, 33))
    line = number_of(k.through_tile, "tile[x, y + k]")
    assert str(unpadded.advice()[0]).startswith(
        f"Store to tile at line {line}: 32 passes (ideal 1), lane stride 32 words; pad the row to 33 (about "
    )
    assert advice_of(padded) == []


@pytest.mark.parametrize("stride", [0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 31, 32, 33, 40, 48, 63, 64])
def test_strides_of_words(dev: gs.Device, stride: int) -> None:
    """C16 and C19: gcd(stride, 32) passes; one address is a broadcast."""
    launch = dev.launch(k.word_stride, 1, 32, floats(dev, "out"), stride, np.float32)
    passes = gcd(stride, 32) if stride else 1
    found = [advice for advice in launch.advice() if advice.check == "bank_conflicts"]
    assert all((advice.figure, advice.ideal) == (passes, 1) for advice in found)
    assert len(found) == (3 if passes > 1 else 0)  # the stores before, in and the load behind the loop
    loop = number_of(k.word_stride, "s[i] += 1")
    accesses = [counts for site, counts in launch.counters.accesses.items() if site.line == loop]
    assert sum(counts.wavefronts - counts.requests for counts in accesses) == 2 * 10 * (passes - 1)


def test_wide_elements_have_an_ideal_of_their_own(dev: gs.Device) -> None:
    out = floats(dev, "out")
    narrow = dev.launch(k.word_stride, 1, 32, out, 1, np.float64)
    wide = dev.launch(k.word_stride, 1, 32, out, 16, np.float64)
    assert narrow.counters.shared_wavefronts == 2 * narrow.counters.shared_requests
    assert "bank_conflicts" not in advice_of(narrow)
    found = next(advice for advice in wide.advice() if advice.check == "bank_conflicts")
    assert (found.figure, found.ideal) == (32, 2)
    assert "(ideal 2 for 8 bytes per lane), lane stride 32 words" in found.finding


def test_branches_of_neighbours_and_of_warps(dev: gs.Device) -> None:
    """C23: kernels 1 and 3 lose half of the lanes on the assignments, kernel 2 none."""
    out = floats(dev, "out")
    (found,) = dev.launch(k.odd_and_even, N, N, out).advice()
    line = number_of(k.odd_and_even, "if i % 2")
    assert (found.check, found.figure, found.ideal, found.line) == ("divergence", 16, 32, line)
    assert f"Branch at line {line}: the lanes of 2,048 of 2,048 warps part here; 16 lanes" in found.finding
    assert advice_of(dev.launch(k.warp_by_warp, N, N, out)) == []
    both = dev.launch(k.two_ifs, N, N, out).advice()
    assert [advice.check for advice in both] == ["divergence", "divergence"]
    assert [advice.figure for advice in both] == [16, 16]


def test_masks_of_block_style(dev: gs.Device) -> None:
    """Every fourth lane works under a mask, of which no branch is counted; every fourth warp is whole."""

    @gs.block_kernel
    def masked(blk: Any, a: Any, by_lane: bool) -> None:
        i = blk.bx * blk.bdx + blk.tx
        mask = (blk.tx if by_lane else blk.warp) % 4 == 0
        for _ in range(8):
            blk.store(a, i, blk.load(a, i, mask=mask) + 1, mask=mask)

    a = floats(dev, "a")
    found = next(a for a in dev.launch(masked, N, 256, a, True).advice() if a.check == "divergence")
    assert found.finding.startswith(f"Mask at line {found.line}: ")
    assert found.code == "blk.store(a, i, blk.load(a, i, mask=mask) + 1, mask=mask)"
    assert advice_of(dev.launch(masked, N, 256, a, False)) == []


def test_a_guard_at_the_end_of_the_data_is_no_divergence(dev: gs.Device) -> None:
    a, b, c = (floats(dev, name) for name in "abc")
    launch = dev.launch(k.vector_add, 133, 256, a, b, c, 133 * 256 - 100)
    assert launch.counters.divergent_branches == 1
    assert advice_of(launch) == []


def test_hot_atomics(dev: gs.Device) -> None:
    """C35 and the sentence of the ninth of ten mistakes: 97 % of the operations meet at one address."""
    rng = np.random.default_rng(2)
    spread = rng.integers(0, 256, N * N)
    same = integers(dev, np.where(np.arange(N * N) % 100 < 97, 7, spread), "keys")
    bins = integers(dev, np.zeros(256), "bins")
    for kernel, array in ((k.histogram, "bins"), (k.shared_histogram, "own")):
        found = dev.launch(kernel, N, 256, same, bins).advice()[0]
        line = number_of(kernel, f"{array}.atomic_add(keys")
        assert str(found).startswith(
            f"Atomic on {array} at line {line}: 97 % of atomics go to 1 address, 31 serial passes per warp (ideal 1); "
            "use per-block copies or aggregate per warp (about "
        )
    assert "hot_atomics" not in advice_of(dev.launch(k.histogram, N, 256, integers(dev, spread, "keys"), bins))
    assert advice_of(dev.launch(k.shared_histogram, N, 256, integers(dev, spread, "keys"), bins)) == []


def test_atomics_of_several_lines_share_the_time_of_their_address(dev: gs.Device) -> None:
    keys, bins = integers(dev, np.full(N * N, 7), "keys"), integers(dev, np.zeros(256), "bins")
    hot = [a for a in dev.launch(k.histogram_of_pairs, N // 2, 256, keys, bins).advice() if a.check == "hot_atomics"]
    assert [advice.figure for advice in hot] == [32, 32]
    assert hot[0].share == hot[1].share < 0.5
    assert sum(advice.share for advice in hot) > 0.8


def test_a_counter_for_all_and_one_for_a_warp(dev: gs.Device) -> None:
    """C34: 16 updates of a warp become 1."""
    keys, count = integers(dev, np.arange(N * N), "keys"), integers(dev, [0], "count")
    found = dev.launch(k.count_even, N, 256, keys, count).advice()[0]
    assert (found.check, found.figure, found.ideal) == ("hot_atomics", 16, 1)
    assert "100 % of atomics go to 1 address, 16 serial passes per warp" in found.finding
    aggregated = dev.launch(k.count_even_by_warp, N, 256, keys, count)
    assert dev.to_host(count).tolist() == [N * N]  # half of the elements, twice
    assert "hot_atomics" not in advice_of(aggregated)


def test_double_precision_by_accident(dev: gs.Device) -> None:
    a, out = floats(dev, "a"), floats(dev, "out")
    (found,) = dev.launch(k.doubled_by_accident, N, 256, a, out).advice()
    assert (found.check, found.line) == ("accidental_double", number_of(k.doubled_by_accident, "np.float64"))
    assert found.figure == N * 256 / 32  # a multiplication per warp
    assert "float64 by accident" in found.finding
    assert advice_of(dev.launch(k.scaled_by_number, N, 256, a, out)) == []


def test_double_precision_where_it_is_slow() -> None:
    def launched(gpu: str) -> list[gs.Advice]:
        dev = gs.Device(gpu)
        a, out = (dev.to_device(np.zeros(N * N), name) for name in ("a", "out"))
        return dev.launch(k.scaled, N, 256, a, out, np.float64(0.5)).advice()

    (found,) = (advice for advice in launched("rtx-4090") if advice.check == "slow_double")
    assert (found.figure, found.ideal) == (64, 1)  # CUDA C++ Programming Guide, throughput of 8.9: 128 and 2
    assert "does 64 float32 operations in the time of one float64 operation" in found.finding
    assert launched("h100-sxm") == []


def test_loops_that_count(dev: gs.Device) -> None:
    a, out = floats(dev, "a"), floats(dev, "out")
    found = dev.launch(k.counted_loop, N, 256, a, out, 16).advice()[0]
    assert (found.check, found.line) == ("loop_bookkeeping", number_of(k.counted_loop, "while"))
    assert advice_of(dev.launch(k.constant_loop, N, 256, a, out)) == []  # unrolled

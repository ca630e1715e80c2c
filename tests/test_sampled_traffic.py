"""Sectors and bytes of sampled kernels (S2, S3): exact where blocks are alike, elsewhere true within their bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpusim_des as gs
from gpusim_des.timing.extrapolation import Extrapolation, Played
from gpusim_des.timing.traffic import MOVED, Traffic, traffic
from gpusim_des.trace import MEASURES, Run, Sample
from tests.sampled_kernels import fp32_chains, irregular_cases, regular_cases, vector_add, wave_of

ONE_SM = gs.load_gpu("h100-sxm").slice(sms=1)
SMALL_L2 = gs.load_gpu("t4").slice(sms=2)
NAMES = ("l1_sectors", "l1_hit_sectors", "l2_sectors", "l2_hit_sectors", "stored_sectors")
BYTES = ("dram_read_bytes", "dram_write_bytes", "dram_bytes")


def both(launch: Any, gpu: gs.GPU, sample: Any, caches: Any) -> tuple[gs.KernelTiming, gs.KernelTiming]:
    results = []
    for size in (sample, None):
        dev = gs.Device(gpu)
        launch(dev, size)
        results.append(dev.simulate(engine="compiled", caches=caches, detail="kernel").kernels[0])
    return results[0], results[1]


# By hand --------------------------------------------------------------------------------------------------------------


def by_hand(*fresh: float) -> tuple[Any, Any]:
    """Twenty waves of four blocks, each of which loads 10 sectors and stores 5; two waves in each run are measured."""
    runs = (Run(0, 4, 12, 12), Run(32, 36, 44, 44), Run(68, 72, 76, 80))
    numbers = np.concatenate([np.arange(run.first, run.end) for run in runs])
    others = np.array([20, 25, 50, 60])
    starts = np.repeat(np.arange(len(numbers) // 4) * 100, 4)
    sample = Sample(80, 4, runs, others, others, True, fresh or (1.0, 1.0, 1.0))
    work = [np.ones((len(some), len(MEASURES))) for some in (numbers, others)]
    estimate = Extrapolation(Played(sample, starts, starts + 100, *work))
    moved = [np.tile([10, 5], (len(some), 1)) for some in (numbers, others)]
    return estimate, moved


def judged(stretches: list[dict[str, int]], played: dict[str, int], *fresh: float) -> Traffic:
    estimate, moved = by_hand(*fresh)
    of_played, of_others = moved
    return traffic(estimate, stretches, played, of_played, of_others, ONE_SM, caches=True, warm=False, atomics=False)


def counted(blocks: int, reads_per_block: int) -> dict[str, int]:
    each = dict(zip(MOVED, (10, 2, 5, 10, 5, 8, 0, reads_per_block, 0), strict=True))
    return {name: blocks * count for name, count in each.items()}


def test_even_blocks_are_counted_exactly() -> None:
    result = judged([counted(8, 8), counted(8, 8), counted(4, 8)], counted(36, 8))
    assert result.added == counted(80 - 36, 8)
    assert result.bounds["l1_sectors"] == result.bounds["stored_sectors"] == 0
    # One count more or less in each stretch: the gaps have 20 and 24 blocks, the stretches around them 16 and 12.
    assert result.bounds["l2_sectors"] == np.ceil(20 / 16 + 24 / 12)


def test_a_rate_that_changes_is_bounded_by_the_change() -> None:
    """Blocks read 8 granules, then 6: 7 in the first gap, which may be off by 1; the second by what is usual."""
    result = judged([counted(8, 8), counted(8, 6), counted(4, 6)], counted(36, 7))
    assert result.added["read_granules"] == 20 * 7 + 24 * 6
    usual = ((1 / 15) ** 2 / 2) ** 0.5
    assert result.bounds["read_granules"] == np.ceil(20 * 15 * (1 / 15) + 24 * 15 * usual + 20 / 16 + 24 / 12)


def test_data_that_is_shared_more_and_more_may_all_be_in_a_cache() -> None:
    result = judged([counted(8, 8), counted(8, 8), counted(4, 8)], counted(36, 8), 1.0, 0.9, 0.5)
    assert result.bounds["read_granules"] >= (80 - 36) * 8


def test_what_is_written_once_is_written_back_but_for_what_the_l2_holds() -> None:
    """Vector add on a GPU with a small L2, in samples that do not fill it."""
    blocks = 100 * wave_of(SMALL_L2, 256, 24)
    kernel, whole = both(vector_add(blocks), SMALL_L2, 9, "on")
    assert kernel.dram_write_bytes == pytest.approx(whole.dram_write_bytes, rel=0.02)
    least = 4 * 256 * blocks - SMALL_L2.l2_bytes
    assert least <= whole.dram_write_bytes <= 4 * 256 * blocks
    assert kernel.relative_error_of("dram_bytes") < 0.2


@pytest.mark.parametrize("before", ["copies", "a kernel"])
def test_what_lay_in_the_l2_before_is_written_back_too(before: str) -> None:
    """Dirty sectors of whatever ran before leave the L2 while the kernel runs: its bound knows of them."""
    chip = SMALL_L2.replace(l2_bytes=1 << 18)
    blocks = 60 * wave_of(chip, 256, 24)
    counts = []
    for size in (9, None):
        dev = gs.Device(chip)
        if before == "copies":
            dev.to_device(np.zeros(1 << 18, np.float32))
        else:
            fp32_chains(256, 1)(dev, None)
        vector_add(blocks)(dev, size)
        counts.append(dev.simulate(engine="compiled", detail="kernel").kernels[-1])
    kernel, whole = counts
    assert kernel.sampled is not None
    for name, bound in kernel.sampled.count_bounds.items():
        assert abs(getattr(kernel, name) - getattr(whole, name)) <= bound + 1, name


# Against whole runs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("caches", ["on", "off"])
@pytest.mark.parametrize("sample", [9, "auto"])
def test_counts_of_all_kernels_lie_within_their_bounds(sample: Any, caches: Any) -> None:
    """A bound with a confidence of 95 % may fail now and then, so all counts of all kernels count together."""
    missed, count = [], 0
    for name, launch in (regular_cases(ONE_SM) | irregular_cases(ONE_SM)).items():
        kernel, whole = both(launch, ONE_SM, sample, caches)
        assert kernel.sampled is not None
        for figure, bound in kernel.sampled.count_bounds.items():
            if figure in NAMES + BYTES:
                count += 1
                off = abs(getattr(kernel, figure) - getattr(whole, figure))
                if off > bound + 1:
                    missed.append((name, figure, off, bound))
        if caches == "off" and name in {"vector add", "strided copy", "reduction", "fp32 chains"}:
            assert [getattr(kernel, n) for n in BYTES] == [getattr(whole, n) for n in BYTES]
    assert count > 40
    assert len(missed) <= 0.05 * count, missed


def test_bounds_are_asked_for_by_name() -> None:
    kernel, whole = both(vector_add(200, 64), gs.load_gpu("tiny"), 9, "on")
    assert whole.relative_error_of("anything") == 0
    assert kernel.relative_error_of("l1_sectors") == 0
    with pytest.raises(KeyError, match=r"'cycles' has no bound in this sampled kernel; there are dram_bytes, "):
        kernel.relative_error_of("cycles")

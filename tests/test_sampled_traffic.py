"""Sectors and bytes of sampled kernels (S2, S3): exact where blocks are alike, elsewhere true within their bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpusim_des as gs
from gpusim_des.timing.extrapolation import Extrapolation, Played
from gpusim_des.timing.traffic import MOVED, Traffic, traffic
from gpusim_des.trace import MEASURES, Run, Sample
from tests.sampled_kernels import irregular_cases, regular_cases, vector_add, wave_of

ONE_SM = gs.load_gpu("h100-sxm").slice(sms=1)
SMALL_L2 = gs.load_gpu("t4").slice(sms=2)
NAMES = ("l1_sectors", "l1_hit_sectors", "l2_sectors", "l2_hit_sectors", "stored_sectors")
BYTES = ("dram_read_bytes", "dram_write_bytes", "dram_bytes")


def play(launch: Any, gpu: gs.GPU, sample: Any, caches: Any) -> gs.KernelTiming:
    dev = gs.Device(gpu)
    launch(dev, sample)
    return dev.simulate(engine="compiled", caches=caches, detail="kernel").kernels[0]


def both(launch: Any, gpu: gs.GPU, sample: Any, caches: Any) -> tuple[gs.KernelTiming, gs.KernelTiming]:
    return play(launch, gpu, sample, caches), play(launch, gpu, None, caches)


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


@gs.kernel
def add_two(t: Any, a: Any, b: Any, c: Any) -> None:
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    c[i] = a[i] + b[i]


@gs.kernel
def look(t: Any, a: Any, b: Any, c: Any) -> None:
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    if a[i] < 0:
        c[i] = b[i]


@pytest.mark.parametrize("blocks", [400, 800, 1200])
@pytest.mark.parametrize("before", ["its inputs", "its output", "something else", "the kernel before"])
@pytest.mark.parametrize("kernel", [add_two, look], ids=lambda kernel: str(kernel.name))
def test_what_lay_in_the_l2_before_is_in_the_bounds(before: str, blocks: int, kernel: Any) -> None:
    """Copies and kernels leave data in the L2, dirty or not: blocks that are left out find it, or drive it out."""
    timings = []
    for size in (9, None):
        dev = gs.Device("tiny")
        n = 64 * blocks
        a, b, c = (dev.to_device(np.ones(n, np.float32)) for _ in range(3))
        if before == "its inputs":
            c = dev.malloc(n)
        elif before == "something else":
            dev.forget_launches()
            dev.to_device(np.ones(dev.gpu.l2_bytes // 5, np.float32))
        elif before == "the kernel before":
            dev.launch(add_two, blocks, 64, b, b, a, registers=32)
        dev.launch(kernel, blocks, 64, a, b, c, registers=32, sample=size)
        timings.append(dev.simulate(engine="compiled", detail="kernel").kernels[-1])
    sampled, whole = timings
    assert sampled.sampled is not None
    assert abs(sampled.seconds - whole.seconds) <= sampled.relative_error * sampled.seconds
    for name, bound in sampled.sampled.count_bounds.items():
        assert abs(getattr(sampled, name) - getattr(whole, name)) <= bound + 1, name


@pytest.mark.parametrize("blocks", [1000, 2400])
def test_channels_are_busy_with_what_is_moved(blocks: int) -> None:
    """Write-backs that the sample did not live to see take the channels time as well."""
    sampled, whole = both(vector_add(blocks, 64), gs.load_gpu("tiny"), 9, "on")
    for kernel in (sampled, whole):
        moved = kernel.dram_utilization * kernel.dram_peak_bytes_per_s
        # What waits at the ends of a measured stretch was counted before it is done: a percent of these.
        assert moved == pytest.approx(kernel.dram_bytes_per_second, rel=0.02)
    assert sampled.dram_utilization == pytest.approx(whole.dram_utilization, rel=0.15)


# Against whole runs ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("caches", ["on", "off"])
def test_counts_of_all_kernels_lie_within_their_bounds(caches: Any) -> None:
    """A bound with a confidence of 95 % may fail now and then: of each count for one kernel in twelve at most."""
    held: dict[tuple[str, Any], list[bool]] = {}
    for name, launch in (regular_cases(ONE_SM) | irregular_cases(ONE_SM)).items():
        whole = play(launch, ONE_SM, None, caches)
        for sample in (9, "auto"):
            kernel = play(launch, ONE_SM, sample, caches)
            assert kernel.sampled is not None
            for figure, bound in kernel.sampled.count_bounds.items():
                if figure in NAMES + BYTES:
                    off = abs(getattr(kernel, figure) - getattr(whole, figure))
                    held.setdefault((figure, sample), []).append(off <= bound + 1)
            if caches == "off" and name in {"vector add", "strided copy", "reduction", "fp32 chains"}:
                assert [getattr(kernel, n) for n in BYTES] == [getattr(whole, n) for n in BYTES]
    assert sum(map(len, held.values())) > 80
    assert {figure: oks for figure, oks in held.items() if oks.count(False) > 1} == {}
    assert sum(oks.count(False) for oks in held.values()) <= 0.05 * sum(map(len, held.values()))


def test_bounds_are_asked_for_by_name() -> None:
    kernel, whole = both(vector_add(200, 64), gs.load_gpu("tiny"), 9, "on")
    assert whole.relative_error_of("anything") == 0
    assert kernel.relative_error_of("l1_sectors") == 0
    with pytest.raises(KeyError, match=r"'cycles' has no bound in this sampled kernel; there are dram_bytes, "):
        kernel.relative_error_of("cycles")

"""Causes that experiments name, tried: with the cause gone, the difference is gone."""

from __future__ import annotations

import numpy as np
import pytest

import gpusim_des as gs
from gpusim_des.textbook import histogram, latency_hiding, roofline, transpose
from gpusim_des.textbook.chips import LOAD_STORE, limited_by
from gpusim_des.textbook.roofline_kernels import cases


def tile_longer(chip: gs.GPU) -> float:
    """What a transpose through a conflicting tile takes longer for four times the elements, against the formula."""
    name, found = "tile of 32 columns", []
    for n in (128, 256):
        launch, timing = transpose.run(chip, name, n, "off")
        found.append((transpose.parts(chip, name, n, launch).seconds, timing.seconds))
    (formula, simulated), (more_formula, more) = found
    return (more - simulated) / (more_formula - formula) - 1


def test_warps_that_take_turns_leave_the_load_store_unit_idle() -> None:
    """All compute their addresses at once; where the scheduler is greedy, some do while others load."""
    greedy = limited_by(gs.load_gpu("tiny"), LOAD_STORE)
    assert abs(tile_longer(greedy)) < 0.001
    assert tile_longer(greedy.replace(scheduler_policy="lrr")) > 0.02


def test_warps_that_take_turns_wait_for_no_barrier() -> None:
    """A histogram in shared memory has two; without arithmetic the same barriers cost nothing."""
    turns = limited_by(gs.load_gpu("tiny"), LOAD_STORE).replace(scheduler_policy="lrr", channel_hash="linear")
    kernel = gs.experiment.load("histogram").in_shared

    def idle(count: gs.functional.machine.Counting) -> float:
        values = histogram.distributions(1 << 15)["256 bins"]
        dev = gs.Device(turns)
        a, bins = dev.to_device(values), dev.to_device(np.zeros(histogram.BINS, np.int32))
        blocks = len(values) // (histogram.THREADS * histogram.VALUES)
        dev.launch(kernel, blocks, histogram.THREADS, a, bins, registers=32, count=count)
        timing = dev.simulate(detail="kernel").kernels[0]
        assert timing.stalls["barrier"] < 0.05 * timing.resident_warp_cycles
        return 1 - timing.load_store_utilization

    assert idle("auto") > 0.04
    assert idle("declared") < 0.02


@pytest.mark.parametrize(("channels", "least", "most"), [(3, 0.02, 0.07), (1, 0, 0.005)])
def test_a_channel_that_has_more_to_do_than_others(channels: int, least: float, most: float) -> None:
    """A product of small matrices on three channels, and on one of the same bandwidth."""
    chip = limited_by(gs.load_gpu("h200-sxm").slice(sms=2), "DRAM").replace(dram_channels=channels)
    found = []
    for times in (1, 2):
        (case,) = (c for c in cases(1 << 12, 64, times) if c.name == "matmul, naive")
        launch, timing = roofline.run(chip, case)
        found.append((roofline.parts(chip, launch, timing.dram_bytes, case.kind).seconds, timing.seconds))
    (formula, simulated), (more_formula, more) = found
    assert least <= (more - simulated) / (more_formula - formula) - 1 < most


def test_reads_and_writes_apart_are_faster_than_mixed() -> None:
    """On a T4 at full occupancy that is most of what Little's law misses with the run's two ends."""
    chip = gs.load_gpu("t4").slice(sms=2)
    calm = latency_hiding.without_turning(chip)
    (blocks,) = latency_hiding.occupancies(chip, [1])
    as_is, same = (latency_hiding.measure(gpu, blocks)[0] for gpu in (chip, calm))
    limit = latency_hiding.dram_limit_gbs(chip)
    assert as_is.while_busy_gbs > 1.01 * limit
    assert same.while_busy_gbs == pytest.approx(limit, rel=0.001)
    assert as_is.gbs / as_is.with_ends_gbs > 1.015
    assert 1 < same.gbs / same.with_ends_gbs < 1.01


@pytest.mark.parametrize("gpu", ["l40", "c1060", "tiny"])
@pytest.mark.parametrize("part", ["DRAM", LOAD_STORE, "issue slots", histogram.SLICES])
def test_limits_on_slices_of_any_gpu(gpu: str, part: str) -> None:
    """A slice of an L40 has a channel whose granule takes longer than the latency where nothing waits."""
    whole = gs.load_gpu(gpu)
    chip = whole.slice(sms=min(2, whole.sms))
    alone = limited_by(chip, part)
    assert alone.sms == (chip.sms if part in ("DRAM", histogram.SLICES) else 1)
    assert alone.dram_latency_cycles <= 0.2 * chip.dram_latency_cycles
    assert (alone.dram_bandwidth_bytes_per_s < chip.dram_bandwidth_bytes_per_s) == (part == "DRAM")

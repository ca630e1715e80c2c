"""Advice on the shape of a launch, on shares of the time, and on Harris's reductions."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpusim_des as gs
from gpusim_des.advice.cost import Cost
from gpusim_des.launched import Launch
from gpusim_des.textbook import reduction
from tests import advised_kernels as k
from tests.advised_kernels import advice_of
from tests.benchmarks.kernels import TILE, matmul_tiled, multiply


def added(blocks: int, threads: int, gpu: gs.GPU | str = "h100-sxm", **options: Any) -> gs.Launch:
    dev = gs.Device(gpu)
    n = blocks * threads
    a, b, c = (dev.to_device(np.zeros(n, np.float32), name) for name in "abc")
    return dev.launch(k.vector_add, blocks, threads, a, b, c, n, **options)


def test_a_block_that_is_no_multiple_of_a_warp() -> None:
    (found,) = added(4224, 40).advice()
    assert found.finding == "Block of 40 threads: the last of its 2 warps has 24 idle lanes, 38 % of all"
    assert found.remedy == "make the block size a multiple of 32, for example 64"
    assert (found.figure, found.ideal) == (24, 0)
    assert advice_of(added(4224, 64)) == []


def test_tiny_blocks_name_the_limiter() -> None:
    """H100: 32 blocks and 64 warps per SM."""
    (found,) = added(2 * 132 * 32, 32).advice()
    assert found.finding == (
        "Block of 32 threads: an SM holds at most 32 blocks, so 32 of its 64 warp slots are used (occupancy 50 %, "
        "limiter: blocks)"
    )
    assert found.remedy == "use at least 64 threads per block"
    assert advice_of(added(2 * 132 * 32, 64)) == []
    assert advice_of(added(132 * 32, 32)) == []  # all of them fit at once


def test_fewer_blocks_than_sms() -> None:
    (found,) = added(131, 256).advice()
    assert found.finding == "Grid of 131 blocks: 1 of 132 SMs have nothing to do"
    assert found.share == pytest.approx(1 / 132)
    assert advice_of(added(132, 256)) == []


def test_a_last_wave_of_one_block() -> None:
    """H100: 256 threads with 32 registers, 8 blocks on each of 132 SMs."""
    (found,) = added(132 * 8 + 1, 256).advice()
    assert found.finding == (
        "Grid of 1,057 blocks: 1 wave of 1,056 (8 per SM, limiter: warps+registers), and a last wave of only 1 block"
    )
    assert found.share == pytest.approx(1 - 1057 / (2 * 1056))
    assert advice_of(added(132 * 8, 256)) == []
    assert advice_of(added(2 * 132 * 8 - 1, 256)) == []
    few = gs.load_gpu("h100-sxm").slice(sms=2)  # waves of 16
    (found,) = added(10 * 16 + 1, 256, few).advice()
    assert found.finding.startswith("Grid of 161 blocks: 10 waves of 16 ")
    assert found.share == pytest.approx(1 - 161 / 176)
    assert advice_of(added(10 * 16 + 2, 256, few)) == []  # an eighth of a wave is more than nearly nothing
    assert advice_of(added(100 * 16 + 1, 256, few)) == []  # 0.9 %
    registers = added(132 * 4 + 1, 256, registers=64).advice()[0]  # the limiter after rounding
    assert "1 wave of 528 (4 per SM, limiter: registers)" in registers.finding


FAULTS = {
    "1 interleaved, divergent": "divergence",
    "2 interleaved, strided": "bank_conflicts",
    "3 sequential": "idle_threads",
    "4 first add during load": "lone_warp",
    "5 last warp unrolled": "loop_bookkeeping",
    "6 completely unrolled": "little_work",
}
"""What the next version mends (Harris, "Optimizing Parallel Reduction in CUDA", 2007)."""


@cache
def reduced(gpu: str, name: str, n: int = 1 << 19) -> list[gs.Advice]:
    chip = gs.load_gpu(gpu).slice(sms=2)
    kernel, per_thread = reduction.VARIANTS[name]
    threads = reduction.THREADS
    wave = chip.sms * gs.analytic.occupancy(chip, threads=threads, registers=32, shared_bytes=1152).blocks_per_sm
    blocks = n // (per_thread * threads) if per_thread else wave
    while not per_thread and n % (4 * blocks * threads):
        blocks -= 1
    dev = gs.Device(chip)
    a, sums = dev.to_device(np.ones(n, np.float32), "a"), dev.malloc(blocks, np.float32)
    arguments = (a, sums) if per_thread else (a, sums, n)
    return dev.launch(kernel, blocks, threads, *arguments, registers=32).advice()


@pytest.mark.parametrize("gpu", ["h100-sxm", "t4", "rtx-4090"])
@pytest.mark.parametrize("name", FAULTS)
def test_the_first_line_names_what_the_next_reduction_mends(gpu: str, name: str) -> None:
    assert reduced(gpu, name)[0].check == FAULTS[name]


@pytest.mark.parametrize("name", [name for name, check in FAULTS.items() if check != "divergence"])
def test_the_next_reduction_is_the_near_miss(name: str) -> None:
    """Divergence stays in all of them, where few threads are left."""
    following = list(reduction.VARIANTS)[list(FAULTS).index(name) + 1]
    assert FAULTS[name] not in [advice.check for advice in reduced("h100-sxm", following)]


@pytest.mark.slow
@pytest.mark.parametrize("gpu", ["k20c", "v100-sxm2", "b200"])
def test_so_it_does_on_other_gpus(gpu: str) -> None:
    for name, fault in FAULTS.items():
        assert reduced(gpu, name)[0].check == fault


def test_the_last_reduction_has_nothing_left_to_mend() -> None:
    assert all(a.share < 0.05 for a in reduced("h100-sxm", "7 many values per thread"))


def test_findings_of_the_reductions_have_their_figures() -> None:
    """Blocks of 8 warps: 4 only load (3); of 9 barriers, 6 have one warp at work before them (4)."""
    idle = reduced("h100-sxm", "3 sequential")[0]
    assert (idle.figure, idle.ideal) == (0.5, 0)
    lone = reduced("h100-sxm", "4 first add during load")[0]
    assert lone.figure == 6 / 9
    little = reduced("h100-sxm", "6 completely unrolled")[0]
    assert little.figure == 2


def test_a_tiled_product_repeats_nothing_that_few_blocks_could_do() -> None:
    """It has barriers and loads far more than it stores, but each thread has a result of its own."""
    launch = multiply(gs.Device(gs.load_gpu("h100-sxm").slice(sms=1)), 128, matmul_tiled, TILE)()
    assert launch.counters.thread_loads > 8 * launch.counters.thread_stores
    assert launch.counters.barriers > launch.config.blocks > 8
    assert "little_work" not in advice_of(launch)


@settings(deadline=None, max_examples=25)
@given(blocks=st.integers(1, 300), threads=st.integers(1, 130), column=st.booleans())
def test_shares_are_shares_and_worst_comes_first(blocks: int, threads: int, column: bool) -> None:
    dev = gs.Device(gs.load_gpu("h100-sxm").slice(sms=4))
    n = blocks * threads
    a, b = dev.to_device(np.zeros(4 * n + 1, np.float32), "a"), dev.malloc(n, np.float32)
    launch = dev.launch(k.records if column else k.shifted, blocks, threads, a, b)
    advice = launch.advice()
    assert all(0 <= found.share <= 1 and found.finding and found.remedy for found in advice)
    assert all(one.share >= other.share for one, other in pairwise(advice))
    assert all("\n" not in str(found) for found in advice)


def test_parts_of_the_time_by_hand() -> None:
    """Tiny: 2 SMs of 2 schedulers, 1 GHz; 4 blocks of 64 threads add 256 elements.

    A warp adds with an index, a compare, a branch, three addresses, two loads, an addition, a store and an exit.
    """
    launch = added(4, 64, "tiny")
    gpu, c = gs.load_gpu("tiny"), launch.counters
    cost = Cost.of(c, gpu, 4, 100)
    assert cost.sms == 2
    assert cost.compute == max(
        c.warp_instructions / gpu.sub_partitions / 2,
        c.instruction_mix["int"] * gpu.pipe("int").interval_cycles / gpu.sub_partitions / 2,
    )
    assert cost.load_store == 8 * 3 / 2  # a wavefront for each of 3 accesses of 8 warps
    sectors = 3 * 256 * 4 // 32
    assert cost.l2 == pytest.approx(sectors * 32 / (gpu.l2_bandwidth_bytes_per_s / gpu.sm_clock_hz))
    assert cost.blocks == 4 / 100 * (gpu.block_start_cycles + gpu.block_end_cycles)
    assert cost.total == cost.compute + cost.load_store + max(cost.l2, cost.dram) + cost.blocks


def test_a_captured_launch_has_no_advice_and_one_without_a_gpu_refuses() -> None:
    dev = gs.Device("tiny")
    a, stream = dev.to_device(np.zeros(64, np.float32), "a"), dev.stream()
    with dev.capture(stream):
        launch = dev.launch(k.scaled, 1, 64, a, a, 2, stream=stream)
    assert launch.advice() == []
    done = added(1, 64, "tiny")
    with pytest.raises(ValueError, match="launch of 'vector_add' without a GPU"):
        Launch(done.name, done.config, done.counters, done.trace).advice()

"""Textbook formulas, computed here by hand, against the timing model in the regimes where they must hold (M9)."""

from __future__ import annotations

import math

import numpy as np
import pytest

import gpusim_des as gs
from gpusim_des.timeline import KernelTiming

H100 = gs.load_gpu("h100-sxm")
NONE_FS = 1
"""A dispatch interval that limits nothing."""


@gs.block_kernel
def vector_add(blk: gs.Block, a: gs.DeviceArray, b: gs.DeviceArray, c: gs.DeviceArray, n: int) -> None:
    i = blk.bx * blk.bdx + blk.tx
    m = i < n
    blk.store(c, i, blk.load(a, i, mask=m) + blk.load(b, i, mask=m), mask=m)


@gs.block_kernel
def arithmetic(blk: gs.Block, n: int, op: str) -> None:
    blk.compute(n, op=op)


@gs.block_kernel
def read_two(blk: gs.Block, a: gs.DeviceArray, half: int) -> None:
    i = blk.bx * blk.bdx + blk.tx
    blk.load(a, i)
    blk.load(a, i + half)


# Memory-bound -------------------------------------------------------------------------------------------------------


def vector_add_against_formula(gpu: gs.GPU, blocks: int) -> float:
    """Simulated time of a vector add over bytes / bandwidth + one latency."""
    n = 256 * blocks
    dev = gs.Device(gpu)
    a, b, c = (dev.malloc(n, np.float32) for _ in range(3))
    dev.launch(vector_add, blocks, 256, a, b, c, n, registers=16)
    kernel = dev.simulate(engine="compiled", detail="kernel", caches="off").kernels[0]
    assert kernel.dram_bytes == 3 * 4 * n
    assert kernel.theoretical_occupancy == 1.0
    share = gpu.sms / 132
    # BabelStream copy reaches 2900 GB/s on the whole chip. The latency is a block's: start, load, end.
    seconds = 3 * 4 * n / (2900e9 * share) + (220 + 695 + 220) / 1.98e9
    return kernel.seconds / seconds


def test_memory_bound_vector_add_on_a_slice() -> None:
    """M6 and M9: an eighth of the chip and of the 2²² elements; the tolerance is that of the whole."""
    assert vector_add_against_formula(H100.slice(sms=16), 2**14 // 8) == pytest.approx(1, rel=0.03)


@pytest.mark.slow
def test_memory_bound_vector_add() -> None:
    """M6 and M9: 2²² elements at full occupancy take bytes / (bandwidth × mixed efficiency) + latency within 3 %."""
    assert vector_add_against_formula(H100, 2**14) == pytest.approx(1, rel=0.03)


# Issue-bound --------------------------------------------------------------------------------------------------------


def run_arithmetic(gpu: gs.GPU, op: str, length: int, warps_per_scheduler: int) -> KernelTiming:
    """One block per SM, every warp a chain of `length` dependent instructions."""
    dev = gs.Device(gpu)
    dev.launch(arithmetic, gpu.sms, 32 * gpu.sub_partitions * warps_per_scheduler, length, op, count="declared")
    return dev.simulate(detail="kernel", caches="off").kernels[0]


@pytest.mark.parametrize(
    ("name", "op", "interval", "enough", "units"),
    # Intervals: NVIDIA's arithmetic throughput table gives results per cycle and SM, which has four sub-partitions.
    # Enough warps per scheduler: latency over interval, rounded up. Units: how many of them an SM has.
    [
        ("h100-sxm", "fp32", 1, 4, 4),
        ("h100-sxm", "int", 2, 2, 4),
        ("h100-sxm", "fp64", 2, 3, 4),
        ("a100-sxm-80gb", "fp32", 2, 2, 4),
        ("a100-sxm-80gb", "int", 2, 2, 4),
        ("a100-sxm-80gb", "fp64", 4, 2, 4),
        ("t4", "fp32", 2, 2, 4),
        ("t4", "int", 2, 2, 4),
        ("t4", "fp64", 16, 1, 1),
    ],
)
def test_issue_bound_arithmetic(name: str, op: str, interval: int, enough: int, units: int) -> None:
    """I3 and I5: instructions × interval / units, plus the start and end of a block, within 1 %.

    The warps are a multiple of what hides the latency: greedy-then-oldest lets the oldest run to their ends first, and
    a remainder of fewer warps would be left alone with the latency.
    """
    gpu = gs.load_gpu(name).slice(sms=2)
    warps, busy_cycles = 2 * enough, 6000
    length = busy_cycles // (interval * warps * 4 // units)
    kernel = run_arithmetic(gpu, op, length, warps)
    assert kernel.warp_instructions == 2 * 4 * warps * length
    second_block = gpu.dispatch_interval_fs / gpu.sm_period_fs
    fixed = second_block + gpu.block_start_cycles + gpu.block_end_cycles
    assert kernel.cycles - fixed == pytest.approx(kernel.warp_instructions * interval / (2 * units), rel=0.01)


def test_too_few_warps_leave_the_latency_visible() -> None:
    """I4: one warp per scheduler issues every fourth cycle, so the law above can fail."""
    # The launch arrives on an edge of the clock: otherwise the cycle that it arrives in counts, too.
    gpu = H100.slice(sms=1).replace(block_start=0, block_end=0, launch_call=0, launch_latency=0)
    assert run_arithmetic(gpu, "fp32", 1000, 1).cycles == 4000
    assert run_arithmetic(gpu, "fp32", 1000, 2).cycles == 4001


# Latency-bound ------------------------------------------------------------------------------------------------------


def read_bandwidth(gpu: gs.GPU, warps: int, rounds: int) -> float:
    """Bytes per second of one-warp blocks with two independent, coalesced loads, `warps` of them on every SM.

    Dynamic shared memory limits the warps. Only loads are counted, no address arithmetic. In blocks of several warps a
    warp that is through would keep its slot until the unluckiest one is; that is not in the formula.
    """
    shared = (228 * 1024 // warps - 1024) // 128 * 128
    blocks = rounds * warps * gpu.sms
    dev = gs.Device(gpu.replace(max_blocks_per_sm=64))
    a = dev.malloc(2 * 32 * blocks, np.float32)
    dev.launch(read_two, blocks, 32, a, 32 * blocks, registers=16, dynamic_shared=shared, count="declared")
    kernel = dev.simulate(engine="compiled", detail="kernel", caches="off").kernels[0]
    assert kernel.blocks_per_sm == warps
    assert kernel.dram_bytes == 256 * blocks
    return kernel.dram_bytes_per_second


def little(warps: int, gpu: gs.GPU) -> float:
    """Little's law: bytes in flight over latency, at most the bandwidth.

    A warp has two loads of 32 × 4 bytes under way: 256 bytes. The 695 cycles are those of a lone sector; a coalesced
    access has four, and the other three take a burst on their channel and half a cycle in the port each.
    """
    burst_s = 32 / (3180e9 / 160)
    latency_s = 695 / 1.98e9 + 3 * (burst_s + 0.5 / 1.98e9)
    return min(3180e9 * gpu.sms / 132, gpu.sms * warps * 256 / latency_s)


@pytest.mark.parametrize(("warps", "rounds"), [(4, 80), (8, 80), (16, 80), (24, 80), (48, 20), (64, 20)])
def test_bandwidth_grows_with_active_warps(warps: int, rounds: int) -> None:
    """M6 and M9: Little's law within 5 % away from the knee, which lies at 34 warps per SM.

    Eighty rounds, because all warps begin together: their first requests queue, and it takes a while until they spread.
    What remains is the queueing at the channels, which the formula leaves out: 17 cycles with 24 warps.
    """
    gpu = H100.slice(sms=11).replace(block_start=0, block_end=0, dispatch_interval_fs=NONE_FS)
    assert read_bandwidth(gpu, warps, rounds) == pytest.approx(little(warps, gpu), rel=0.05)


def test_the_start_and_end_of_blocks_cost_bandwidth() -> None:
    """G3: with 220 cycles before and after 706 of latency, a warp slot asks only 706 / 1146 as often."""
    gpu = H100.slice(sms=11).replace(dispatch_interval_fs=NONE_FS)
    share = read_bandwidth(gpu, 16, 20) / little(16, gpu)
    assert math.isclose(share, 706 / (220 + 706 + 220), rel_tol=0.05)

"""The occupancy that the simulation reaches at steady state is that of the calculator, on random launches."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import pytest

from gpusim_des import analytic
from gpusim_des.errors import LaunchError
from gpusim_des.gpu import GPU, list_gpus, load_gpu
from gpusim_des.timeline import Timeline
from gpusim_des.timing.choice import Engine
from gpusim_des.timing.simulate import simulate
from gpusim_des.trace import KernelTrace
from tests.programs import chain, warp

ROUNDS = 3
"""Blocks for each place: the last of them are the tail."""


def random_launch(rng: random.Random) -> tuple[GPU, int, int, int]:
    """One SM, or two, of any model; the limits take turns in being the limiter."""
    gpu = load_gpu(rng.choice(list_gpus()))
    # Filled at once, so that the ramp is short beside the life of a block.
    gpu = gpu.slice(sms=rng.choice((1, 2))).replace(dispatch_interval_fs=1)
    threads = rng.choice((rng.randint(1, gpu.max_threads_per_block), 32 * rng.randint(1, 8)))
    registers = rng.choice((rng.randint(1, gpu.max_registers_per_thread), rng.randint(16, 40)))
    most = gpu.shared_bytes_per_block_optin
    shared = rng.choice((0, 0, rng.randint(0, most), rng.randint(0, most // 8)))
    return gpu, threads, registers, shared


def steady_warps(timeline: Timeline, warps_per_block: int, sms: int) -> list[int]:
    """Resident warps of each SM for the longest part of the time between the first and the last dispatch on it."""
    found = []
    for sm in range(sms):
        blocks = [b for b in timeline.blocks if b.sm == sm]
        last = max(b.start_fs for b in blocks)
        times = sorted({t for b in blocks for t in (b.start_fs, b.end_fs) if t <= last})
        held: Counter[int] = Counter()
        for start, end in pairwise(times):
            held[sum(b.start_fs <= start < b.end_fs for b in blocks)] += end - start
        found.append(held.most_common(1)[0][0] * warps_per_block)
    return found


def assert_reached(gpu: GPU, threads: int, registers: int, shared: int, length: int, engine: Engine) -> str:
    """Simulate and compare; returns what limits the launch."""
    try:
        expected = analytic.occupancy(gpu, threads, registers, shared)
    except LaunchError:
        return "impossible"
    warps = -(-threads // 32)
    program = warp(*chain(length))
    blocks = max(1, expected.blocks_per_sm) * gpu.sms * ROUNDS
    launch = KernelTrace.of_blocks("k", [[program] * warps] * blocks, registers=registers, shared_bytes=shared)
    if expected.blocks_per_sm == 0:
        with pytest.raises(LaunchError, match="never starts"):
            simulate(gpu, [launch], engine=engine)
        return "fits nowhere"
    timeline = simulate(gpu, [launch], engine=engine)
    about = f"{gpu.name}: {threads} threads, {registers} registers, {shared} B"
    assert steady_warps(timeline, warps, gpu.sms) == [expected.active_warps] * gpu.sms, about
    assert timeline.kernels[0].theoretical_occupancy == expected.occupancy, about
    return expected.limiter


def limiters(seed: int, count: int, length: int, engine: Engine) -> Counter[str]:
    rng = random.Random(seed)
    return Counter(
        name for _ in range(count) for name in assert_reached(*random_launch(rng), length, engine).split("+")
    )


def test_fifteen_random_launches() -> None:
    met = limiters(7, 15, 100, "simpy")
    assert {"warps", "registers", "shared_mem", "blocks"} <= set(met)


@pytest.mark.slow
def test_five_hundred_random_launches() -> None:
    met = limiters(11, 500, 500, "compiled")
    assert min(met[name] for name in ("warps", "registers", "shared_mem", "blocks", "fits nowhere")) >= 10, met

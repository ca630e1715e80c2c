"""Formulas against the simulator wherever their assumptions hold, with caches off."""

from __future__ import annotations

import random
from itertools import accumulate

import numpy as np
import pytest

import gpusim_des as gs
from gpusim_des import analytic
from gpusim_des.timing.server import FifoServer
from gpusim_des.timing.simpy_engine import SimpyEngine
from gpusim_des.trace import OpClass
from tests.programs import TINY, Part, fp32, load, op, run, trace


@pytest.mark.parametrize("pinned", [True, False])
def test_copies_take_latency_and_bytes_over_bandwidth(*, pinned: bool) -> None:
    sizes = [4, 1000, 10_000, 100_000]
    dev = gs.Device("tiny")
    for size in sizes:
        host = dev.pinned(size, np.uint8) if pinned else np.zeros(size, np.uint8)
        dev.memcpy(dev.malloc(size, np.uint8), host)
    simulated = [copy.seconds for copy in dev.simulate(caches="off").copies]
    formula = analytic.link("tiny", "h2d", pinned=pinned).seconds(sizes)
    assert gs.compare(formula, simulated, labels=sizes, tolerance=1e-12).verdict == "pass"


@pytest.mark.parametrize("ilp", [1, 2, 4])
def test_arithmetic_by_warps_and_instruction_level_parallelism(ilp: int) -> None:
    """Volkov: throughput rises with warps × ILP until the pipes are full."""
    length, warps = 400, [2, 4, 8, 16]
    program = [fp32(*([k - ilp] if k >= ilp else [])) for k in range(length)]
    simulated = [w * length / run(TINY, [program] * w).kernels[0].cycles for w in warps]
    table = gs.compare(analytic.arithmetic_throughput(TINY, warps, ilp), simulated, labels=warps)
    assert table.verdict == "pass", table
    # The formula spreads warps evenly: one warp alone cannot use the other sub-partition.
    alone = length / run(TINY, [program]).kernels[0].cycles
    assert alone == pytest.approx(min(1, ilp / 4), rel=0.02)


def test_one_row_more_makes_a_second_wave() -> None:
    """C44: on 108 SMs, 256 × 128 tiles: 98 for n = 1792, 120 for 1793; time doubles for 0.1 % more work."""
    chip = gs.load_gpu("a100-sxm-80gb")

    @gs.block_kernel
    def tile(blk: gs.Block) -> None:
        blk.compute(2000)

    formula, simulated = [], []
    for n in (1792, 1793):
        dev = gs.Device(chip)
        cut = analytic.matmul_quantization(n, n, tile_m=256, tile_n=128, sms=chip.sms)
        dev.launch(tile, cut.tiles, 256, dynamic_shared=chip.shared_bytes_per_block_optin)
        formula.append(cut.waves.count)
        simulated.append(dev.simulate(detail="kernel", caches="off").kernels[0].seconds)
    assert formula == [1, 2]
    assert gs.compare(2, simulated[1] / simulated[0]).verdict == "pass"


@gs.block_kernel
def add(blk: gs.Block, a: gs.DeviceArray, b: gs.DeviceArray, c: gs.DeviceArray) -> None:
    i = blk.bx * blk.bdx + blk.tx
    blk.store(c, i, blk.load(a, i) + blk.load(b, i))


@gs.block_kernel
def arithmetic(blk: gs.Block, length: int) -> None:
    blk.compute(length)


def estimated(gpu: gs.GPU, bound: str) -> gs.Comparison:
    """An estimate beside a kernel of 32 waves that is bound by memory or by issue."""
    dev, blocks = gs.Device(gpu), 128
    if bound == "memory":
        launched = dev.launch(add, blocks, 256, *(dev.malloc(256 * blocks, np.float32) for _ in range(3)))
    else:
        launched = dev.launch(arithmetic, blocks // 4, 256, 1000)
    simulated = dev.simulate(detail="kernel", caches="off").kernels[0].seconds
    found = analytic.estimate(gpu, launched.counters, launch_s=0)
    assert found.bound == bound
    return gs.compare(found.seconds, simulated)


def test_estimates_hold_where_a_kernel_is_bound_by_one_thing() -> None:
    """Memory: 16 GB/s × 200 ns over two SMs are 7 warps of two loads each, and an SM holds 16."""
    slow = TINY.replace(dram_bandwidth="16 GB/s")
    assert analytic.warps_needed(slow, 256, 200e-9) == 7
    assert estimated(slow, "memory").verdict == "pass"
    assert estimated(TINY, "issue").verdict == "pass"


def test_estimates_know_nothing_of_latency() -> None:
    """At 64 GB/s it would take 25 warps: too few bytes are in flight, and the kernel takes longer than estimated."""
    assert analytic.warps_needed(TINY, 256, 200e-9) == 25 > TINY.max_warps_per_sm
    table = estimated(TINY, "memory")
    assert table.worst_difference > 0.3
    assert table.verdict == "unexplained"


@pytest.mark.parametrize("utilisation", [0.3, 0.6, 0.8])
def test_random_arrivals_at_a_server_wait_as_md1_says(utilisation: float) -> None:
    draw, service = random.Random(1), 1_000_000
    gaps = (draw.expovariate(utilisation / service) for _ in range(200_000))
    server = FifoServer()
    for arrival in accumulate(gaps):
        server.serve(round(arrival), service)
    waited = server.waited / server.served
    assert gs.compare(analytic.md1_wait(utilisation, service), waited, tolerance=0.03).verdict == "pass"


def test_random_loads_wait_in_a_dram_channel_as_md1_says() -> None:
    """One channel at 640 ns a sector, 32 warps that load at random times and never wait for what they load.

    Warps that did wait could never queue more than 32 requests: then the formula's endless crowd is no picture of them.
    """
    slow, fine = 1000, 50
    gpu = TINY.replace(
        dram_channels=1,
        dram_bandwidth="50 MB/s",
        fp32_latency_cycles=slow,
        int_latency_cycles=fine,
        dram_latency="1000 cycles",
    )
    draw, service_ns, warps, loads, utilisation = random.Random(7), 640, 32, 80, 0.5
    programs = []
    for _ in range(warps):
        program: list[Part] = []
        previous: list[int] = []
        for number in range(loads):
            cycles = draw.expovariate(utilisation / (warps * service_ns))
            parts = [OpClass.FP32] * int(cycles // slow) + [OpClass.INT] * int(cycles % slow // fine)
            for kind in parts:
                program.append(op(kind, *previous))
                previous = [len(program) - 1]
            program.append(load([number], *previous))
        programs.append(program)
    engine = SimpyEngine(gpu, "kernel")
    engine.run([trace(programs[:16], programs[16:])])
    channel = engine.memory.slices[0].channel
    assert channel.served == warps * loads
    waited_ns = channel.waited / channel.served / 1e6
    # Of 2,560 random arrivals the mean itself is uncertain by some percent, and warps do not end at the same time.
    assert gs.compare(analytic.md1_wait(utilisation, service_ns), waited_ns, tolerance=0.1).verdict == "pass"

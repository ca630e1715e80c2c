"""Arithmetic: instructions a cycle by warps and independent chains, and the roofline."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gpusim_des.device import Device
from gpusim_des.functional.block_kernel import Block, block_kernel
from gpusim_des.functional.memory import DeviceArray
from gpusim_des.gpu import GPU
from gpusim_des.silicon.steady import cycles_per_step, kernel_of, part, seconds_per_step, streaming_part, whole
from gpusim_des.timeline import KernelTiming

PER_TURN = 48
"""Instructions under test between two ends of the loop; the published loops are not known to the instruction.

48 deals out evenly to 1, 2, 3, 4, 6 and 8 chains; the loop itself is an addition, a comparison and a branch.
"""


@block_kernel
def chains(blk: Block, out: DeviceArray, op: str, ilp: int, turns: int) -> None:
    """A loop of `PER_TURN` instructions, dealt out to `ilp` chains in each of which one waits for the one before."""
    values: list[Any] = [blk.tx.astype(np.float32) for _ in range(ilp)]
    counter = blk.tx
    for _ in range(turns):
        for k in range(PER_TURN):
            values[k % ilp] = blk.compute(1, op=op, value=values[k % ilp])
        counter = counter + 1
        blk.branch(counter < 1 << 20)
    blk.store(out, blk.tx, values[0])


def _cycles(gpu: GPU, op: str, warps: int, ilp: int) -> float:
    """Cycles that an SM takes for each warp instruction, in the steady state."""

    def run(turns: int) -> KernelTiming:
        dev = Device(part(gpu, 1))
        dev.launch(chains, 1, 32 * warps, dev.malloc(32 * warps), op, ilp, turns, registers=32)
        return kernel_of(dev)

    return cycles_per_step(run, 2) / (PER_TURN * warps)


def cycles_per_instruction(gpu: GPU, inputs: Mapping[str, Any]) -> float:
    """Cycles per warp instruction of one SM with ``warps`` warps and ``ilp`` chains in each thread."""
    return _cycles(gpu, inputs["op"], inputs["warps"], inputs["ilp"])


MOST_WARPS = 16
"""Warps up to which a sweep goes: four for each scheduler, as many as the latency of an arithmetic instruction."""


def peak_results_per_cycle(gpu: GPU, inputs: Mapping[str, Any]) -> float:
    """Results a cycle of one SM at its best, with ``ilp`` chains in each thread."""
    return max(32 / _cycles(gpu, inputs["op"], warps, inputs["ilp"]) for warps in (8, 12, MOST_WARPS))


def warps_for_90_percent(gpu: GPU, inputs: Mapping[str, Any]) -> float:
    """Fewest warps on an SM that come to 90 % of the most results a cycle."""
    rates = {warps: 32 / _cycles(gpu, inputs["op"], warps, inputs["ilp"]) for warps in range(1, MOST_WARPS + 1)}
    peak = max(rates.values())
    return min(warps for warps, rate in rates.items() if rate >= 0.9 * peak)


# Roofline -----------------------------------------------------------------------------------------------------------

THREADS, PER_SM, UNDER_WAY = 256, 8, 4


@block_kernel
def intense(blk: Block, a: DeviceArray, out: DeviceArray, multiply_adds: int, turns: int) -> None:
    """Reads floats, four under way for each thread, and does `multiply_adds` and an addition with each of them."""
    threads = blk.gdx * blk.bdx
    j = blk.bx * blk.bdx + blk.tx
    total: Any = 0.0
    for turn in range(turns):
        values = [blk.load(a, j + (turn * UNDER_WAY + k) * threads) for k in range(UNDER_WAY)]
        for value in values:
            done = blk.compute(multiply_adds, value=value) if multiply_adds else value
            total = total + done
        blk.branch(j < threads)
    blk.store(out, j, total, mask=total == 123.0)


def bandwidth_at_intensity(gpu: GPU, inputs: Mapping[str, Any]) -> float:
    """GB/s of a kernel that does ``flop_per_byte`` operations for each byte it reads.

    Eight blocks of 256 threads on an SM. A float has four bytes, and a multiply-add is two operations.
    """
    small = streaming_part(gpu, 2)
    multiply_adds = int((4 * inputs["flop_per_byte"] - 1) // 2)
    blocks = PER_SM * small.sms

    def run(turns: int) -> KernelTiming:
        dev = Device(small)
        a = dev.to_device(np.zeros(blocks * THREADS * UNDER_WAY * turns, np.float32))
        out = dev.malloc(blocks * THREADS)
        dev.forget_launches()
        dev.launch(intense, blocks, THREADS, a, out, multiply_adds, turns, registers=32, count="auto")
        return kernel_of(dev)

    return blocks * THREADS * UNDER_WAY * 4 / seconds_per_step(run, 2) * whole(gpu, small) / 1e9


REPRODUCTIONS: dict[str, Callable[[GPU, Mapping[str, Any]], float]] = {
    "cycles_per_instruction": cycles_per_instruction,
    "peak_results_per_cycle": peak_results_per_cycle,
    "warps_for_90_percent": warps_for_90_percent,
    "bandwidth_at_intensity": bandwidth_at_intensity,
}

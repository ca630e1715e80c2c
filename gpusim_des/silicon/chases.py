"""Pointer chases: one thread, or one of each warp, that follows a ring of cache lines in random order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpusim_des.device import Device
from gpusim_des.functional.block_kernel import Block, block_kernel
from gpusim_des.functional.memory import DeviceArray
from gpusim_des.gpu import GPU
from gpusim_des.silicon.steady import cycles_per_step, kernel_of, part, seconds_per_step
from gpusim_des.timeline import KernelTiming
from gpusim_des.trace import LINE_BYTES

WORDS = LINE_BYTES // 4

FEW_LINES = 2600
"""Lines of the ring that is walked where the ring of the chip is larger.

More than any L1 holds. A slice has all capacities outside the SM in proportion, so the ring keeps its place among them.
"""

COLD_HOPS = 1500
"""Hops through a ring that fits in no cache, where a second round finds no more than the first."""


@block_kernel
def chase(blk: Block, ring: DeviceArray, ends: DeviceArray, hops: int, stride: int) -> None:
    """Follow the ring; the threads begin `stride` hops apart, in ``ends``, and leave there where they are."""
    first = blk.lane == 0
    at = blk.load(ends, blk.tx // 32 * stride, mask=first)
    for _ in range(hops):
        at = blk.load(ring, at, mask=first)
    blk.store(ends, blk.tx // 32 * stride, at, mask=first)


def ring_of(lines: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Words of a ring through `lines` lines in random order, and the lines in that order, as word numbers."""
    order = np.random.default_rng(7).permutation(lines).astype(np.int32) * WORDS
    words = np.zeros(lines * WORDS, np.int32)
    words[order] = np.roll(order, -1)
    return words, order


def walked(gpu: GPU, lines: int, hops: int, *, threads: int = 1) -> KernelTiming:
    """Time a walk; the threads are those of one block, one chase for each warp, spread over the ring."""
    dev = Device(gpu)
    words, order = ring_of(lines)
    warps = -(-threads // 32)
    starts = order[:: max(1, lines // warps)][:warps].copy()
    ring, ends = dev.to_device(words), dev.to_device(starts)
    dev.forget_launches()
    dev.launch(chase, 1, threads, ring, ends, hops, 1, registers=32, count="declared")
    return kernel_of(dev)


def cycles_per_hop(gpu: GPU, inputs: Mapping[str, Any]) -> float:
    """Cycles of a hop through a ring of ``kib`` KiB, in the second round."""
    kib: float = inputs["kib"]
    lines = max(1, round(kib * 1024 / LINE_BYTES))
    sms = max(1, min(gpu.sms, ceil(FEW_LINES / lines * gpu.sms)))
    small = part(gpu, sms)
    scaled = max(1, round(lines * small.sms / gpu.sms))
    if scaled * LINE_BYTES > 2 * small.l2_bytes + small.l1_bytes:
        return cycles_per_step(lambda hops: walked(small, scaled, hops), COLD_HOPS)
    rounds = max(1, ceil(64 / scaled))  # of a ring of a few lines, enough to see what one costs
    return cycles_per_step(lambda turns: walked(small, scaled, turns * scaled), rounds) / scaled


def ns_per_hop_of_many(gpu: GPU, inputs: Mapping[str, Any]) -> float:
    """Nanoseconds of a hop when ``warps`` warps of one SM each follow a ring that fits in no cache."""
    small = part(gpu, 1)
    lines = 8 * small.l2_bytes // LINE_BYTES
    return 1e9 * seconds_per_step(lambda hops: walked(small, lines, hops, threads=32 * inputs["warps"]), 128)


REPRODUCTIONS: dict[str, Callable[[GPU, Mapping[str, Any]], float]] = {
    "cycles_per_hop": cycles_per_hop,
    "ns_per_hop_of_many": ns_per_hop_of_many,
}

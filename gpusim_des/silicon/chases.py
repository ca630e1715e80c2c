"""Pointer chases: one thread, or one of each warp, that follows a ring of cache lines in random order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
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

INSTRUCTIONS_PER_HOP = {"addresses": 0, "indices": 2}
"""Integer instructions by which what was loaded becomes the next address, by what the ring holds.

A 32-bit index takes two that wait for each other: the low half of the address, then the high half with its carry. Of
4 cycles each they are what a ring of indices (markdewing/AI_kernels latency) takes longer than one of addresses
(RRZE-HPC/gpu-benches gpu-latency) in the L1: 36.0 to 27.9 cycles on a V100, 39.6 to 32 on a GH200. On an A100 it is
38.9 to 33.0, and 39.9 on an RTX 4090 to 36.0 on an L40: there the arithmetic takes 6 and 4 cycles.

Behind the L1 measurements do not agree on it: a V100 takes 221 to 212 cycles in the L2, at another clock, an A100 210
to 206, and 551 to 552 in DRAM, a GH200 280 to 280, and 680 to 680. So models read from a ring of indices have the
arithmetic taken out of their L1's latency only, and the chase is 8 cycles too long behind it, 3 % in the L2.
"""

INSTRUCTIONS_PER_TURN = 4
"""Integer instructions before the branch at the end of a turn: a 64-bit counter is two additions, two comparisons.

They begin with what was loaded last. For 8 hops of a turn that is 3 cycles a hop: te42kyfo/gpu-benches cuda-latency
measured 29.9 on a V100 and 36 on an A100 where the newer program, of 32 hops a turn, measured 27.9 and 33. Of those 32
it is less than a cycle a hop, which the latencies of the models hold.
"""

SAME_PLATEAU = 0.02
"""Difference of two neighbouring points that are on one plateau."""


@block_kernel
def chase(
    blk: Block, ring: DeviceArray, ends: DeviceArray, hops: int, stride: int, per_hop: int = 0, unroll: int = 0
) -> None:
    """Follow the ring; the threads begin `stride` hops apart, in ``ends``, and leave there where they are.

    `per_hop` integer instructions make an address of what was loaded; a turn of the loop ends after `unroll` hops.
    """
    first = blk.lane == 0
    at: Any = blk.load(ends, blk.tx // 32 * stride, mask=first)
    for hop in range(1, hops + 1):
        if per_hop:
            at = blk.compute(per_hop, mask=first, op="int", value=at)
        at = blk.load(ring, at, mask=first)
        if unroll and hop % unroll == 0:
            counter: Any = blk.compute(INSTRUCTIONS_PER_TURN, mask=first, op="int", value=at)
            blk.branch(counter >= 0, mask=first)
    blk.store(ends, blk.tx // 32 * stride, at, mask=first)


def ring_of(lines: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Words of a ring through `lines` lines in random order, and the lines in that order, as word numbers."""
    order = np.random.default_rng(7).permutation(lines).astype(np.int32) * WORDS
    words = np.zeros(lines * WORDS, np.int32)
    words[order] = np.roll(order, -1)
    return words, order


def walked(gpu: GPU, lines: int, hops: int, *, threads: int = 1, per_hop: int = 0, unroll: int = 0) -> KernelTiming:
    """Time a walk; the threads are those of one block, one chase for each warp, spread over the ring."""
    dev = Device(gpu)
    words, order = ring_of(lines)
    warps = -(-threads // 32)
    starts = order[:: max(1, lines // warps)][:warps].copy()
    ring, ends = dev.to_device(words), dev.to_device(starts)
    dev.forget_launches()
    dev.launch(chase, 1, threads, ring, ends, hops, 1, per_hop, unroll, registers=32, count="declared")
    return kernel_of(dev)


def cycles_per_hop(gpu: GPU, inputs: Mapping[str, Any]) -> float:
    """Cycles of a hop through a ring of ``kib`` KiB, in the second round.

    The ring holds addresses, unless ``ring`` is ``"indices"``. Where there is an ``unroll``, a turn of the loop ends
    after so many hops.
    """
    kib: float = inputs["kib"]
    per_hop = INSTRUCTIONS_PER_HOP[inputs.get("ring", "addresses")]
    unroll: int = inputs.get("unroll", 0)
    whole = unroll or 1  # a round has whole turns
    lines = max(1, round(kib * 1024 / LINE_BYTES))
    sms = max(1, min(gpu.sms, ceil(FEW_LINES / lines * gpu.sms)))
    small = part(gpu, sms)
    scaled = ceil(max(1, round(lines * small.sms / gpu.sms)) / whole) * whole

    def hopped(hops: int) -> KernelTiming:
        return walked(small, scaled, hops, per_hop=per_hop, unroll=unroll)

    if scaled * LINE_BYTES > 2 * small.l2_bytes + small.l1_bytes:
        return cycles_per_step(hopped, ceil(COLD_HOPS / whole) * whole)
    rounds = max(1, ceil(64 / scaled))  # of a ring of a few lines, enough to see what one costs
    return cycles_per_step(lambda turns: hopped(turns * scaled), rounds) / scaled


def plateaus(cycles: Sequence[float]) -> list[range]:
    """Find the plateaus of a latency curve; returns the positions of the points of each.

    Parameters
    ----------
    cycles
        Measured latencies, in order of the footprint, in any unit.

    Returns
    -------
        Positions of neighbouring points that differ by `SAME_PLATEAU` at most, two of them at least. A point that
        differs more from both of its neighbours is on the way from one plateau to the next: some hops of a round hit
        in a cache and others do not, and how many depends on what the cache replaces.

    Examples
    --------
    The A100 of gpu-latency, shortened: L1, near and far half of the L2, DRAM, and the ways between them.

    >>> plateaus([33.0, 33.5, 68.6, 174.6, 205.1, 205.6, 405.5, 412.4, 514.4, 546.8, 520.5, 551.1, 552.3])
    [range(0, 2), range(4, 6), range(6, 8), range(11, 13)]
    """
    steps = [n for n, (a, b) in enumerate(pairwise(cycles), start=1) if abs(b - a) > SAME_PLATEAU * min(a, b)]
    runs = [range(begin, end) for begin, end in pairwise([0, *steps, len(cycles)])]
    return [run for run in runs if len(run) > 1]


def ns_per_hop_of_many(gpu: GPU, inputs: Mapping[str, Any]) -> float:
    """Nanoseconds of a hop when ``warps`` warps of one SM each follow a ring that fits in no cache."""
    small = part(gpu, 1)
    lines = 8 * small.l2_bytes // LINE_BYTES
    return 1e9 * seconds_per_step(lambda hops: walked(small, lines, hops, threads=32 * inputs["warps"]), 128)


REPRODUCTIONS: dict[str, Callable[[GPU, Mapping[str, Any]], float]] = {
    "cycles_per_hop": cycles_per_hop,
    "ns_per_hop_of_many": ns_per_hop_of_many,
}

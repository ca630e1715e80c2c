"""Seven kernels that add up an array (Harris 2007), counted, simulated, and beside what their busiest part takes."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpusim_des.analytic import Roofline, occupancy, roofline, waves
from gpusim_des.check_result import check_result
from gpusim_des.device import Device
from gpusim_des.explanations import alone_s, reading_s, waits
from gpusim_des.functional.thread_kernel import kernel
from gpusim_des.gpu import GPU
from gpusim_des.launched import Launch
from gpusim_des.textbook.chips import limited_by
from gpusim_des.textbook.counted import load_store_cycles
from gpusim_des.timeline import KernelTiming
from gpusim_des.trace import OpClass

THREADS, REGISTERS = 256, 32
TREE = (128, 64)
"""Steps of a block before the last warp."""
LAST = (32, 16, 8, 4, 2, 1)
"""Steps of the last warp."""

Steps = Generator[Any, Any, None]


def halves(t: Any, s: Any, least: int) -> Steps:
    """Add the second half to the first one, then the second quarter to the first one, down to `least` threads."""
    step = t.blockDim.x // 2
    while step > least:
        if t.threadIdx.x < step:
            s[t.threadIdx.x] += s[t.threadIdx.x + step]
        yield t.syncthreads()
        step //= 2


def constant_halves(t: Any, s: Any) -> Steps:
    """The same, with steps that are constants."""
    for step in TREE:
        if t.threadIdx.x < step:
            s[t.threadIdx.x] += s[t.threadIdx.x + step]
        yield t.syncthreads()


def by_last_warp(t: Any, s: Any) -> None:
    """A warp needs no barrier of the block, nor a branch for idle lanes; since Volta it needs ones of its own."""
    if t.threadIdx.x < 32:
        for last in LAST:
            both = s[t.threadIdx.x] + s[t.threadIdx.x + last]
            t.syncwarp()  # every lane has read before one of them writes
            s[t.threadIdx.x] = both
            t.syncwarp()


def store_sum(t: Any, s: Any, out: Any) -> None:
    """One thread writes the block's sum."""
    if t.threadIdx.x == 0:
        out[t.blockIdx.x] = s[0]


@kernel
def interleaved(t: Any, a: Any, out: Any) -> Any:
    """1: every second thread adds its neighbour, then every fourth, and so on."""
    s = t.shared("s", (THREADS,), np.float32)
    tid = t.threadIdx.x
    s[tid] = a[t.blockIdx.x * THREADS + tid]
    yield t.syncthreads()
    step = 1
    while step < t.blockDim.x:
        if tid % (2 * step) == 0:
            s[tid] += s[tid + step]
        yield t.syncthreads()
        step *= 2
    store_sum(t, s, out)


@kernel
def strided(t: Any, a: Any, out: Any) -> Any:
    """2: the same sums, by the first threads."""
    s = t.shared("s", (THREADS,), np.float32)
    tid = t.threadIdx.x
    s[tid] = a[t.blockIdx.x * THREADS + tid]
    yield t.syncthreads()
    step = 1
    while step < t.blockDim.x:
        i = 2 * step * tid
        if i < t.blockDim.x:
            s[i] += s[i + step]
        yield t.syncthreads()
        step *= 2
    store_sum(t, s, out)


@kernel
def sequential(t: Any, a: Any, out: Any) -> Any:
    """3: the first half adds the second half, then the first quarter the second."""
    s = t.shared("s", (THREADS,), np.float32)
    s[t.threadIdx.x] = a[t.blockIdx.x * THREADS + t.threadIdx.x]
    yield t.syncthreads()
    yield from halves(t, s, 0)
    store_sum(t, s, out)


@kernel
def first_add(t: Any, a: Any, out: Any) -> Any:
    """4: two values per thread, added while they are loaded."""
    s = t.shared("s", (THREADS,), np.float32)
    i = t.blockIdx.x * 2 * THREADS + t.threadIdx.x
    s[t.threadIdx.x] = a[i] + a[i + THREADS]
    yield t.syncthreads()
    yield from halves(t, s, 0)
    store_sum(t, s, out)


@kernel
def last_warp(t: Any, a: Any, out: Any) -> Any:
    """5: the last warp adds without barriers of the block."""
    s = t.shared("s", (THREADS + 32,), np.float32)
    i = t.blockIdx.x * 2 * THREADS + t.threadIdx.x
    s[t.threadIdx.x] = a[i] + a[i + THREADS]
    yield t.syncthreads()
    yield from halves(t, s, 32)
    by_last_warp(t, s)
    store_sum(t, s, out)


@kernel
def unrolled(t: Any, a: Any, out: Any) -> Any:
    """6: all steps are constants, as in a template."""
    s = t.shared("s", (THREADS + 32,), np.float32)
    i = t.blockIdx.x * 2 * THREADS + t.threadIdx.x
    s[t.threadIdx.x] = a[i] + a[i + THREADS]
    yield t.syncthreads()
    yield from constant_halves(t, s)
    by_last_warp(t, s)
    store_sum(t, s, out)


@kernel
def many_each(t: Any, a: Any, out: Any, n: int) -> Any:
    """7: each thread adds values of the whole array, a grid apart, four loads at a time."""
    s = t.shared("s", (THREADS + 32,), np.float32)
    i, grid = t.blockIdx.x * THREADS + t.threadIdx.x, t.gridDim.x * THREADS
    total = np.float32(0)
    while i < n:
        v0, v1, v2, v3 = a[i], a[i + grid], a[i + 2 * grid], a[i + 3 * grid]
        i += 4 * grid
        total += v0 + v1 + v2 + v3
    s[t.threadIdx.x] = total
    yield t.syncthreads()
    yield from constant_halves(t, s)
    by_last_warp(t, s)
    store_sum(t, s, out)


VARIANTS = {
    "1 interleaved, divergent": (interleaved, 1),
    "2 interleaved, strided": (strided, 1),
    "3 sequential": (sequential, 1),
    "4 first add during load": (first_add, 2),
    "5 last warp unrolled": (last_warp, 2),
    "6 completely unrolled": (unrolled, 2),
    "7 many values per thread": (many_each, 0),
}
"""Kernel, and values that each thread loads; 0: as many as there are for the blocks that fit at once."""


@dataclass(frozen=True)
class ReductionPoint:
    """What one kernel did."""

    label: str
    barriers: float
    """Of a block, counted."""
    passes: float
    """In shared memory, of a block, counted."""
    formula_barriers: int
    formula_passes: int
    kernel: KernelTiming
    dram_s: float
    """Latency + 4 n / bandwidth."""
    least_s: float
    """What the busiest part takes."""
    limiter: str
    nbytes: int
    alone_formula_s: float
    """What the busiest part takes longer for twice the values where it is the only limit."""
    alone_s: float
    """What that takes longer, simulated."""
    latency_s: float
    """What the blocks take one after the other in their slots, each as long as one that is alone."""

    @property
    def gbs(self) -> float:
        """Effective bandwidth, GB/s."""
        return self.nbytes / self.kernel.seconds / 1e9

    @property
    def why(self) -> str:
        """What limits the kernel: its busiest part, and the two longest waits."""
        return f"busiest: {self.limiter}, {self.least_s / self.kernel.seconds:.0%} of the time; {waits(self.kernel)}"


def tree(number: int) -> tuple[int, int]:
    """Barriers and passes of a block of variant `number`.

    >>> tree(1), tree(2), tree(3), tree(7)
    ((9, 150), (9, 150), (9, 45), (3, 45))
    """
    steps = [1 << k for k in range(THREADS.bit_length() - 1)]
    passes = 0
    for step in steps:
        active = THREADS // (2 * step)
        if number == 1:  # active threads lie 2 · step apart, those of a warp in different banks
            passes += min(THREADS // 32, active)
        elif number == 2:  # 32 / gcd(2 · step, 32) lanes find a bank each
            lanes, banks = min(32, active), 32 // math.gcd(2 * step, 32)
            passes += -(-active // 32) * -(-lanes // banks)
        else:
            passes += -(-active // 32)
    # Two loads and a store of each step; before, each warp stores its values; at the end one thread loads the sum.
    return 1 + (len(steps) if number < 5 else len(TREE)), 3 * passes + THREADS // 32 + 1


def run(chip: GPU, name: str, n: int) -> tuple[Launch, KernelTiming]:
    """Run one kernel, check its sums and simulate it."""
    variant, per_thread = VARIANTS[name]
    values = np.random.default_rng(0).random(n, dtype=np.float32)
    fit = occupancy(chip, threads=THREADS, registers=REGISTERS, shared_bytes=4 * (THREADS + 32))
    blocks = n // (per_thread * THREADS) if per_thread else chip.sms * fit.blocks_per_sm
    if not per_thread:  # four loads of each round exist
        while n % (4 * blocks * THREADS):
            blocks -= 1
    dev = Device(chip)
    a, sums = dev.to_device(values), dev.malloc(blocks, np.float32)
    dev.forget_launches()
    arguments = (a, sums) if per_thread else (a, sums, n)
    launch = dev.launch(variant, blocks, THREADS, *arguments, registers=REGISTERS)
    check_result(dev.to_host(sums).sum(dtype=np.float64), values.sum(dtype=np.float64), name, rtol=1e-5)
    return launch, dev.simulate(caches="off", detail="kernel").kernels[0]


def measure(chip: GPU, name: str, n: int) -> ReductionPoint:
    """Count, simulate as it is and where nothing else limits, and ask the formulas."""
    (variant, per_thread), (launch, timing) = VARIANTS[name], run(chip, name, n)
    limits, blocks, counters = busiest(chip, launch, n), launch.config.blocks, launch.counters
    each = np.zeros(n // blocks, np.float32), np.zeros(1, np.float32), *(() if per_thread else (n // blocks,))
    latency_s = alone_s(chip, variant, THREADS, *each, registers=REGISTERS)
    chip_alone = limited_by(chip, limits.limiter)
    shorter, longer = (run(chip_alone, name, size) for size in (n // 2, n))
    return ReductionPoint(
        name,
        counters.barriers / blocks,
        counters.shared_wavefronts / blocks,
        *tree(int(name[0])),
        timing,
        reading_s(chip, 4 * n),
        limits.seconds,
        limits.limiter,
        4 * n,
        busiest(chip_alone, longer[0], n).seconds - busiest(chip_alone, shorter[0], n // 2).seconds,
        longer[1].seconds - shorter[1].seconds,
        waves(blocks, timing.blocks_per_sm, chip.sms).count * latency_s,
    )


def busiest(chip: GPU, launch: Launch, n: int) -> Roofline:
    """What each part takes for `n` values; reads and a sum for each block."""
    counters, blocks = launch.counters, launch.config.blocks
    # Every first warp of a block works longest, and all of them are on the first scheduler of their SM.
    first = [warp.stream for warp in launch.trace.block(0)[:: chip.sub_partitions]]
    most = {op.label: blocks * chip.sub_partitions * sum(s.count([op]) for s in first) for op in OpClass}
    return roofline(
        chip,
        instructions=most,
        load_store_cycles=load_store_cycles(chip, counters),
        dram_bytes=4 * n + blocks * chip.dram_granule_bytes,
        kind="read",
    )

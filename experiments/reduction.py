"""Reduction: seven ways to add up an array, each mending what limits the one before (Harris 2007).

A sum of n floats has to read 4 n bytes, and that is the least time: latency + 4 n / bandwidth. The first kernel is far
from it. (1) Threads with tid % 2s = 0 add: warps diverge, and the remainder costs. (2) The first threads add, with a
stride: no divergence, but 2s words apart they meet in the banks. (3) Halves are added: no conflicts. (4) Each thread
adds two values while it loads: half of the threads, which only loaded, vanish. (5) The last warp needs no barriers.
(6) The block's size is a constant: no loop is left. (7) Each thread adds many values first, in as few blocks as fit at
once: the tree is a small part of the work, and loads that do not wait for each other keep DRAM busy.

Only (7) is limited by DRAM, as the formula assumes. The table says what limits the others: the busiest part, which is
that of the scheduler with the first warp of each block, for that warp works longest; and waiting. Where nothing waits
and no other part is in the way, on a chip made for that, the busiest part is all that twice the values take. Passes in
shared memory and barriers follow from the tree: log2(threads) steps of two loads and a store for each active warp, in
(2) times its conflicts. As many passes are saved from (1) to (2) by fewer warps as conflicts cost.

    gpusim-des experiment reduction --gpu h100-sxm --out out
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import gpusim_des as gs
from gpusim_des.trace import OpClass

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GPU = "h100-sxm"
SMS = 2
N, QUICK_N = 1 << 20, 1 << 18
THREADS, REGISTERS = 256, 32
QUEUES = 0.3  # of the time: blocks among others take longer than alone, and part of a wave waits for the rest
TREE = (128, 64)
"""Steps of a block before the last warp."""
LAST = (32, 16, 8, 4, 2, 1)
"""Steps of the last warp."""


@gs.kernel
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
    if tid == 0:
        out[t.blockIdx.x] = s[0]


@gs.kernel
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
    if tid == 0:
        out[t.blockIdx.x] = s[0]


@gs.kernel
def sequential(t: Any, a: Any, out: Any) -> Any:
    """3: the first half adds the second half, then the first quarter the second."""
    s = t.shared("s", (THREADS,), np.float32)
    tid = t.threadIdx.x
    s[tid] = a[t.blockIdx.x * THREADS + tid]
    yield t.syncthreads()
    step = t.blockDim.x // 2
    while step > 0:
        if tid < step:
            s[tid] += s[tid + step]
        yield t.syncthreads()
        step //= 2
    if tid == 0:
        out[t.blockIdx.x] = s[0]


@gs.kernel
def first_add(t: Any, a: Any, out: Any) -> Any:
    """4: two values per thread, added while they are loaded."""
    s = t.shared("s", (THREADS,), np.float32)
    tid = t.threadIdx.x
    i = t.blockIdx.x * 2 * THREADS + tid
    s[tid] = a[i] + a[i + THREADS]
    yield t.syncthreads()
    step = t.blockDim.x // 2
    while step > 0:
        if tid < step:
            s[tid] += s[tid + step]
        yield t.syncthreads()
        step //= 2
    if tid == 0:
        out[t.blockIdx.x] = s[0]


@gs.kernel
def last_warp(t: Any, a: Any, out: Any) -> Any:
    """5: a warp needs no barrier of the block, nor a branch for idle lanes; since Volta it needs ones of its own."""
    s = t.shared("s", (THREADS + 32,), np.float32)
    tid = t.threadIdx.x
    i = t.blockIdx.x * 2 * THREADS + tid
    s[tid] = a[i] + a[i + THREADS]
    yield t.syncthreads()
    step = t.blockDim.x // 2
    while step > 32:
        if tid < step:
            s[tid] += s[tid + step]
        yield t.syncthreads()
        step //= 2
    if tid < 32:
        for last in LAST:
            both = s[tid] + s[tid + last]
            t.syncwarp()  # every lane has read before one of them writes
            s[tid] = both
            t.syncwarp()
    if tid == 0:
        out[t.blockIdx.x] = s[0]


@gs.kernel
def unrolled(t: Any, a: Any, out: Any) -> Any:
    """6: all steps are constants, as in a template."""
    s = t.shared("s", (THREADS + 32,), np.float32)
    tid = t.threadIdx.x
    i = t.blockIdx.x * 2 * THREADS + tid
    s[tid] = a[i] + a[i + THREADS]
    yield t.syncthreads()
    for step in TREE:
        if tid < step:
            s[tid] += s[tid + step]
        yield t.syncthreads()
    if tid < 32:
        for last in LAST:
            both = s[tid] + s[tid + last]
            t.syncwarp()  # every lane has read before one of them writes
            s[tid] = both
            t.syncwarp()
    if tid == 0:
        out[t.blockIdx.x] = s[0]


@gs.kernel
def many_each(t: Any, a: Any, out: Any, n: int) -> Any:
    """7: each thread adds values of the whole array, a grid apart, four loads at a time."""
    s = t.shared("s", (THREADS + 32,), np.float32)
    tid = t.threadIdx.x
    i, grid = t.blockIdx.x * THREADS + tid, t.gridDim.x * THREADS
    total = np.float32(0)
    while i < n:
        v0, v1, v2, v3 = a[i], a[i + grid], a[i + 2 * grid], a[i + 3 * grid]
        i += 4 * grid
        total += v0 + v1 + v2 + v3
    s[tid] = total
    yield t.syncthreads()
    for step in TREE:
        if tid < step:
            s[tid] += s[tid + step]
        yield t.syncthreads()
    if tid < 32:
        for last in LAST:
            both = s[tid] + s[tid + last]
            t.syncwarp()  # every lane has read before one of them writes
            s[tid] = both
            t.syncwarp()
    if tid == 0:
        out[t.blockIdx.x] = s[0]


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

    name: str
    barriers: float
    """Of a block, counted."""
    passes: float
    """In shared memory, of a block, counted."""
    formula_barriers: int
    formula_passes: int
    kernel: gs.KernelTiming
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


def run(chip: gs.GPU, name: str, n: int) -> tuple[gs.Launch, gs.KernelTiming]:
    """Run one kernel, check its sums and simulate it."""
    kernel, per_thread = VARIANTS[name]
    values = np.random.default_rng(0).random(n, dtype=np.float32)
    fit = gs.analytic.occupancy(chip, threads=THREADS, registers=REGISTERS, shared_bytes=4 * (THREADS + 32))
    blocks = n // (per_thread * THREADS) if per_thread else chip.sms * fit.blocks_per_sm
    if not per_thread:  # four loads of each round exist
        while n % (4 * blocks * THREADS):
            blocks -= 1
    dev = gs.Device(chip)
    a, sums = dev.to_device(values), dev.malloc(blocks, np.float32)
    dev.forget_launches()
    arguments = (a, sums) if per_thread else (a, sums, n)
    launch = dev.launch(kernel, blocks, THREADS, *arguments, registers=REGISTERS)
    if not np.isclose(dev.to_host(sums).sum(dtype=np.float64), values.sum(dtype=np.float64), rtol=1e-5):
        raise AssertionError(f"{name}: the sum differs from NumPy's: this is a bug of the simulator")
    return launch, dev.simulate(caches="off", detail="kernel").kernels[0]


def alone_s(chip: gs.GPU, name: str, n: int) -> float:
    """Seconds of a block that is alone and adds up `n` values."""
    arguments = (np.zeros(n, np.float32), np.zeros(1, np.float32))
    kernel, per_thread = VARIANTS[name]
    return gs.experiment.alone_s(chip, kernel, THREADS, *arguments, *(() if per_thread else (n,)), registers=REGISTERS)


def measure(chip: gs.GPU, name: str, n: int) -> ReductionPoint:
    """Count, simulate as it is and where nothing else limits, and ask the formulas."""
    launch, kernel = run(chip, name, n)
    limits, blocks = busiest(chip, launch, n), launch.config.blocks
    counters, chip_alone = launch.counters, gs.experiment.limited_by(chip, limits.limiter)
    shorter, longer = (run(chip_alone, name, size) for size in (n // 2, n))
    dram_s = 4 * n / gs.analytic.roofs(chip).memory["DRAM"]
    once = gs.experiment.ends_s(chip)
    return ReductionPoint(
        name,
        counters.barriers / blocks,
        counters.shared_wavefronts / blocks,
        *tree(int(name[0])),
        kernel,
        once + dram_s,
        limits.seconds,
        limits.limiter,
        4 * n,
        busiest(chip_alone, longer[0], n).seconds - busiest(chip_alone, shorter[0], n // 2).seconds,
        longer[1].seconds - shorter[1].seconds,
        gs.analytic.waves(blocks, kernel.blocks_per_sm, chip.sms).count * alone_s(chip, name, n // blocks),
    )


def busiest(chip: gs.GPU, launch: gs.Launch, n: int) -> gs.analytic.Roofline:
    """What each part takes for `n` values; reads and a sum for each block."""
    counters, blocks = launch.counters, launch.config.blocks
    # Every first warp of a block works longest, and all of them are on the first scheduler of their SM.
    first = [warp.stream for warp in launch.trace.block(0)[:: chip.sub_partitions]]
    most = {op.label: blocks * chip.sub_partitions * sum(s.count([op]) for s in first) for op in OpClass}
    return gs.analytic.roofline(
        chip,
        instructions=most,
        load_store_cycles=sum(counts.wavefronts for counts in counters.accesses.values()),
        dram_bytes=4 * n + blocks * chip.dram_granule_bytes,
        kind="read",
    )


def explanation(p: ReductionPoint) -> str:
    """What limits a kernel: its busiest part, and the two longest waits."""
    busy = p.least_s / p.kernel.seconds
    return f"busiest: {p.limiter}, {busy:.0%} of the time; {gs.experiment.waits(p.kernel)}"


def compared(points: Sequence[ReductionPoint]) -> gs.Comparison:
    """Barriers and passes, which are equal, and time."""
    labels, us = [p.name for p in points], [p.kernel.seconds * 1e6 for p in points]
    why = {p.name: explanation(p) for p in points}
    return (
        gs.compare(
            *([p.formula_barriers for p in points], [p.barriers for p in points]),
            name="1 + steps with barriers",
            quantity="barriers of a block",
            labels=labels,
            tolerance=0,
        )
        + gs.compare(
            *([p.formula_passes for p in points], [p.passes for p in points]),
            name="3 × warps and conflicts of the steps",
            quantity="passes of a block in shared memory",
            labels=labels,
            tolerance=0,
        )
        + gs.compare(
            *([p.dram_s * 1e6 for p in points], us),
            name="latency + 4 n / bandwidth",
            quantity="time (µs)",
            labels=labels,
            explain=why,
            explained_up_to={
                p.name: gs.experiment.reach(p.dram_s, max(p.least_s, p.latency_s), QUEUES) for p in points
            },
            assumes="DRAM is the limit and always busy",
        )
        + gs.compare(
            *([p.alone_formula_s * 1e6 for p in points], [p.alone_s * 1e6 for p in points]),
            name="busiest part, where nothing else limits",
            quantity="what twice the values take longer (µs)",
            labels=labels,
            assumes="next to no latencies, and other parts far from busy",
        )
    )


def draw(chip: gs.GPU, points: Sequence[ReductionPoint]) -> Axes:
    first = points[0].kernel.seconds
    return gs.views.bars(
        [p.name for p in points],
        [p.gbs for p in points],
        [p.nbytes / p.dram_s / 1e9 for p in points],
        xlabel="effective bandwidth, 4 n / time (GB/s)",
        title=f"Reduction of {points[0].nbytes // 4:,} floats on {chip.title}",
        notes=[f"{p.gbs:.3g}   {first / p.kernel.seconds:.1f} times as fast as (1)" for p in points],
        formula_label="formula: DRAM",
    )


def main(gpu: str = GPU, out: Path | None = None, *, quick: bool = False) -> tuple[list[ReductionPoint], gs.Comparison]:
    whole = gs.load_gpu(gpu)
    chip = whole.slice(sms=min(SMS, whole.sms))
    n = QUICK_N if quick else N
    points = [measure(chip, name, n) for name in VARIANTS]
    print(f"{n:,} floats on {chip.title}")
    table = compared(points)
    print(table)
    if out is not None:
        gs.views.save(draw(chip, points), out / "reduction.png")
        print(f"written: {out / 'reduction.png'}")
    return points, table


if __name__ == "__main__":
    gs.experiment.script(main)

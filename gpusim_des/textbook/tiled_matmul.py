"""Matrix products from naive to double-buffered tiles: kernels, what they load, and their roofline."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from typing import Any, NamedTuple

import numpy as np

from gpusim_des.analytic import Roofline, matmul_loads, roofline, waves
from gpusim_des.check_result import check_result
from gpusim_des.device import Device
from gpusim_des.explanations import alone_s, waits
from gpusim_des.functional.thread_kernel import ThreadKernel, kernel
from gpusim_des.gpu import GPU
from gpusim_des.textbook.counted import load_store_cycles
from gpusim_des.timeline import KernelTiming
from gpusim_des.timing.choice import Engine
from gpusim_des.timing.simulate import Caches
from gpusim_des.trace import SECTOR_BYTES

REGISTERS = 32
"""Per thread: what lets an SM of most GPUs hold its 2,048 threads."""


@kernel
def naive(t: Any, a: Any, b: Any, c: Any, n: int) -> None:
    """No tiles. The threads of a warp compute neighbours of one row, so that they load a line of B and share A."""
    row = t.blockIdx.y * t.blockDim.y + t.threadIdx.y
    column = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    acc = np.float32(0)
    for k in range(n):
        acc += a[row * n + k] * b[k * n + column]
    c[row * n + column] = acc


@kernel
def unrolled(t: Any, a: Any, b: Any, c: Any, n: int) -> None:
    """The same as compilers make it: four steps at once, all of their loads before the first multiply-add."""
    row = t.blockIdx.y * t.blockDim.y + t.threadIdx.y
    column = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    acc = np.float32(0)
    i, j = row * n, column
    for _ in range(n // 4):
        a0, a1, a2, a3 = a[i], a[i + 1], a[i + 2], a[i + 3]
        b0, b1, b2, b3 = b[j], b[j + n], b[j + 2 * n], b[j + 3 * n]
        acc += a0 * b0
        acc += a1 * b1
        acc += a2 * b2
        acc += a3 * b3
        i, j = i + 4, j + 4 * n
    c[row * n + column] = acc


def tiled(tile: int, padding: int = 0) -> ThreadKernel:
    """A tile of each factor in shared memory; barriers before they are read and before they are overwritten."""
    width = tile + padding

    @kernel
    def matmul(t: Any, a: Any, b: Any, c: Any, n: int) -> Any:
        tile_a, tile_b = t.shared("tile_a", (tile, width), np.float32), t.shared("tile_b", (tile, width), np.float32)
        x, y = t.threadIdx.x, t.threadIdx.y
        row, column = t.blockIdx.y * tile + y, t.blockIdx.x * tile + x
        acc = np.float32(0)
        for first in range(0, n, tile):
            tile_a[y, x] = a[row * n + first + x]
            tile_b[y, x] = b[(first + y) * n + column]
            yield t.syncthreads()
            for k in range(tile):
                acc += tile_a[y, k] * tile_b[k, x]
            yield t.syncthreads()
        c[row * n + column] = acc

    return matmul


def transposed(tile: int, padding: int = 0) -> ThreadKernel:
    """B's tile is stored by columns: neighbouring threads read elements `tile` + `padding` words apart."""
    width = tile + padding

    @kernel
    def matmul(t: Any, a: Any, b: Any, c: Any, n: int) -> Any:
        tile_a, tile_b = t.shared("tile_a", (tile, tile), np.float32), t.shared("tile_b", (tile, width), np.float32)
        x, y = t.threadIdx.x, t.threadIdx.y
        row, column = t.blockIdx.y * tile + y, t.blockIdx.x * tile + x
        acc = np.float32(0)
        for first in range(0, n, tile):
            tile_a[y, x] = a[row * n + first + x]
            tile_b[x, y] = b[(first + y) * n + column]
            yield t.syncthreads()
            for k in range(tile):
                acc += tile_a[y, k] * tile_b[x, k]
            yield t.syncthreads()
        c[row * n + column] = acc

    return matmul


def double_buffered(tile: int) -> ThreadKernel:
    """Two tiles of each factor, one barrier: the next tiles are on their way while the threads compute with these."""

    @kernel
    def matmul(t: Any, a: Any, b: Any, c: Any, n: int) -> Any:
        tile_a = t.shared("tile_a", (2 * tile, tile), np.float32)
        tile_b = t.shared("tile_b", (2 * tile, tile), np.float32)
        x, y = t.threadIdx.x, t.threadIdx.y
        row, column = t.blockIdx.y * tile + y, t.blockIdx.x * tile + x
        next_a, next_b = a[row * n + x], b[y * n + column]
        acc = np.float32(0)
        for first in range(0, n, tile):
            half = first % (2 * tile)
            mine = half + y
            tile_a[mine, x] = next_a
            tile_b[mine, x] = next_b
            yield t.syncthreads()
            if first + tile < n:
                next_a, next_b = a[row * n + first + tile + x], b[(first + tile + y) * n + column]
            for k in range(tile):
                acc += tile_a[mine, k] * tile_b[half + k, x]
        c[row * n + column] = acc

    return matmul


class Variant(NamedTuple):
    """One way to write the kernel."""

    name: str
    kernel: ThreadKernel
    block: tuple[int, int]
    """Columns and rows that a block of threads computes."""
    tile: int = 1
    """Threads that each loaded element serves."""


VARIANTS = (
    Variant("naive", naive, (32, 8)),
    Variant("naive, unrolled by 4", unrolled, (32, 8)),
    *(Variant(f"T = {tile}", tiled(tile), (tile, tile), tile) for tile in (8, 16, 32)),
    Variant("T = 32, padded", tiled(32, padding=1), (32, 32), 32),
    Variant("T = 32, double-buffered", double_buffered(32), (32, 32), 32),
    Variant("T = 32, B transposed", transposed(32), (32, 32), 32),
    Variant("T = 32, B transposed, padded", transposed(32, padding=1), (32, 32), 32),
)

PIPE_WAITS = frozenset({"math_pipe_throttle", "not_selected"})
OWN_WAITS = {
    "load/store units": frozenset({"short_scoreboard", "mio_throttle", "lg_throttle", "not_selected"}),
    "L2": frozenset({"long_scoreboard", "lg_throttle"}),
    "DRAM": frozenset({"long_scoreboard", "lg_throttle"}),
}
"""Stalls that come from the queue in front of a part; `PIPE_WAITS` for arithmetic pipes and issue slots."""


@dataclass(frozen=True)
class MatmulPoint:
    """What one variant did."""

    name: str
    tile: int
    loads: int
    """Elements that its threads loaded from global memory."""
    formula_loads: int
    sectors: int
    """Sectors that these loads touched."""
    wavefronts_per_request: float
    """Passes of an access to shared memory, mean; 0 without any."""
    kernel: KernelTiming
    roofline: Roofline
    latency_s: float
    """What the blocks take one after the other in their slots, each as long as one that is alone."""
    flops: int

    @property
    def formula_sectors(self) -> int:
        """Sectors of the formula's elements, eight in each."""
        return self.formula_loads * 4 // SECTOR_BYTES

    @property
    def label(self) -> str:
        """Name of the row."""
        return self.name

    @property
    def ratio(self) -> float:
        """Simulated time over the roofline's, at least 1."""
        return self.kernel.seconds / self.roofline.seconds

    @property
    def own_waits(self) -> frozenset[str]:
        """Stalls of warps that wait for the busiest part itself, and so do not keep it from working."""
        return OWN_WAITS.get(self.roofline.limiter, PIPE_WAITS)

    @property
    def gflops(self) -> float:
        """Floating point operations per nanosecond."""
        return self.flops / self.kernel.seconds / 1e9

    @property
    def why(self) -> str:
        """Why the time is not the roofline's: the two longest waits during which the busiest part may stand still."""
        busy = f"{self.roofline.limiter} busy {1 / self.ratio:.0%} of the time"
        return f"{busy}; {waits(self.kernel, self.own_waits)}"


def measure(which: Variant | int, chip: GPU, n: int, caches: Caches, engine: Engine) -> MatmulPoint:
    """Run one variant, or the one with this number, simulate it, and check its result."""
    variant = VARIANTS[which] if isinstance(which, int) else which
    print(f"running {variant.name} …", file=sys.stderr, flush=True)
    dev = Device(chip)
    left, right = (np.random.default_rng(seed).random((n, n), dtype=np.float32) for seed in (0, 1))
    a, b, c = dev.to_device(left.ravel()), dev.to_device(right.ravel()), dev.malloc(n * n)
    dev.forget_launches()  # the kernel alone: the copies before would leave the matrices in the L2
    columns, rows = variant.block
    grid = n // columns, n // rows
    launch = dev.launch(variant.kernel, grid, variant.block, a, b, c, n, registers=REGISTERS)
    timing = dev.simulate(engine=engine, caches=caches, detail="kernel").kernels[0]
    check_result(dev.to_host(c).reshape(n, n), left @ right, variant.name, rtol=1e-4)
    counters = launch.counters
    arguments = left.ravel(), right.ravel(), np.zeros(n * n, np.float32), n
    how: dict[str, Any] = {"caches": caches, "registers": REGISTERS}
    cold_s, warm_s = (
        alone_s(chip, variant.kernel, variant.block, *arguments, warm=warm, **how) for warm in (False, True)
    )
    count = waves(launch.config.blocks, timing.blocks_per_sm, chip.sms).count
    # With caches, DRAM has to deliver both factors once; without, every sector.
    beyond_l1 = timing.stored_sectors + timing.l2_sectors if timing.l2_sectors is not None else 0
    limits = roofline(
        chip,
        instructions=counters.instruction_mix,
        load_store_cycles=load_store_cycles(chip, counters),
        l2_bytes=SECTOR_BYTES * beyond_l1,
        dram_bytes=2 * 4 * n * n if caches == "on" else counters.sector_bytes,
    )
    return MatmulPoint(
        variant.name,
        variant.tile,
        counters.thread_loads,
        matmul_loads(n, variant.tile),
        counters.global_load_sectors,
        counters.bank_conflict_factor if counters.shared_requests else 0.0,
        timing,
        limits,
        cold_s + (count - 1) * warm_s,  # the first wave finds nothing in the L2
        2 * n**3,
    )


def measure_all(
    variants: Sequence[Variant], chip: GPU, n: int, caches: Caches, engine: Engine, jobs: int
) -> list[MatmulPoint]:
    """Run the variants, in `jobs` processes at a time."""
    if jobs == 1:
        return [measure(variant, chip, n, caches, engine) for variant in variants]
    # Kernels do not travel between processes, their numbers do. Neighbours are alike: the two that need most memory,
    # the naive ones, had better not run at the same time.
    numbers = sorted((VARIANTS.index(variant) for variant in variants), key=lambda number: (number % jobs, number))
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        points = pool.map(partial(measure, chip=chip, n=n, caches=caches, engine=engine), numbers)
        by_number = dict(zip(numbers, points, strict=True))
        return [by_number[number] for number in sorted(numbers)]


def fitting(chip: GPU, n: int) -> list[Variant]:
    """Variants whose blocks the GPU can hold; says which it cannot."""
    if n < 32 or n % 32:
        raise ValueError(f"n = {n}: must be a multiple of 32, so that tiles of all sizes fill the matrices")
    most = chip.max_threads_per_block
    for name, (columns, rows) in ((v.name, v.block) for v in VARIANTS):
        if columns * rows > most:
            print(f"left out: {name}, with {columns * rows:,} threads per block where the GPU allows {most:,}")
    return [v for v in VARIANTS if v.block[0] * v.block[1] <= most]

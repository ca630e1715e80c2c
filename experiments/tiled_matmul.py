"""Tiled matrix multiplication: fewer loads from global memory, and what limits the kernel then.

Every element of C = A·B needs a row of A and a column of B: 2n³ loads. Blocks that first copy T × T tiles of both into
shared memory load each element n / T times, 2n³ / T loads in all. The roofline takes the largest of what the
instructions, the load/store units, the L2 and DRAM need at least. Without caches, as on paper, that is DRAM for the
naive kernel; with them the L1 catches most of what it loads again, and four steps at once, as compilers unroll such a
loop, hide most of the latency. Tiles move the limit to the load/store units, for every multiply-add takes two values
from shared memory. What remains above the roofline is waiting: at barriers, and for global memory, which two tiles hide
with loads one step ahead.

Banks only matter if the threads of a warp read a column: with B's tile stored transposed all 32 lanes meet one bank,
and a column of padding spreads them again. Tiles that are read by rows have no conflicts, and padding gains nothing.

    python experiments/tiled_matmul.py --gpu h100-sxm --out out            # n = 1024: some minutes, 8 GB of memory
    python experiments/tiled_matmul.py --quick                             # n = 256 on a slice: seconds
    python experiments/tiled_matmul.py --caches off                        # as on paper: time falls with T
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import gpusim_des as gs
from gpusim_des.timing.choice import Engine
from gpusim_des.timing.simulate import Caches
from gpusim_des.trace import SECTOR_BYTES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GPU = "h100-sxm"
N = 1024
QUICK_N, QUICK_SMS = 256, 8
REGISTERS = 32
"""Per thread: what lets an SM of most GPUs hold its 2,048 threads."""


@gs.kernel
def naive(t: Any, a: Any, b: Any, c: Any, n: int) -> None:
    """No tiles. The threads of a warp compute neighbours of one row, so that they load a line of B and share A."""
    row = t.blockIdx.y * t.blockDim.y + t.threadIdx.y
    column = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    acc = np.float32(0)
    for k in range(n):
        acc += a[row * n + k] * b[k * n + column]
    c[row * n + column] = acc


@gs.kernel
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


def tiled(tile: int, padding: int = 0) -> gs.ThreadKernel:
    """A tile of each factor in shared memory; barriers before they are read and before they are overwritten."""
    width = tile + padding

    @gs.kernel
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


def transposed(tile: int, padding: int = 0) -> gs.ThreadKernel:
    """B's tile is stored by columns: neighbouring threads read elements `tile` + `padding` words apart."""
    width = tile + padding

    @gs.kernel
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


def double_buffered(tile: int) -> gs.ThreadKernel:
    """Two tiles of each factor, one barrier: the next tiles are on their way while the threads compute with these."""

    @gs.kernel
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
    kernel: gs.ThreadKernel
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
    kernel: gs.KernelTiming
    roofline: gs.analytic.Roofline
    latency_s: float
    """What the blocks take one after the other in their slots, each as long as one that is alone."""
    flops: int

    @property
    def formula_sectors(self) -> int:
        """Sectors of the formula's elements, eight in each."""
        return self.formula_loads * 4 // SECTOR_BYTES

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


def measure(which: Variant | int, chip: gs.GPU, n: int, caches: Caches, engine: Engine) -> MatmulPoint:
    """Run one variant, or the one with this number, simulate it, and check its result."""
    variant = VARIANTS[which] if isinstance(which, int) else which
    print(f"running {variant.name} …", file=sys.stderr, flush=True)
    dev = gs.Device(chip)
    left, right = (np.random.default_rng(seed).random((n, n), dtype=np.float32) for seed in (0, 1))
    a, b, c = dev.to_device(left.ravel()), dev.to_device(right.ravel()), dev.malloc(n * n)
    dev.forget_launches()  # the kernel alone: the copies before would leave the matrices in the L2
    columns, rows = variant.block
    grid = n // columns, n // rows
    launch = dev.launch(variant.kernel, grid, variant.block, a, b, c, n, registers=REGISTERS)
    kernel = dev.simulate(engine=engine, caches=caches, detail="kernel").kernels[0]
    if not np.allclose(dev.to_host(c).reshape(n, n), left @ right, rtol=1e-4):
        raise AssertionError(f"{variant.name}: results differ from NumPy's: this is a bug of the simulator")
    counters = launch.counters
    arguments = left.ravel(), right.ravel(), np.zeros(n * n, np.float32), n
    how: dict[str, Any] = {"caches": caches, "registers": REGISTERS}
    cold_s, warm_s = (
        gs.experiment.alone_s(chip, variant.kernel, variant.block, *arguments, warm=warm, **how)
        for warm in (False, True)
    )
    waves = gs.analytic.waves(launch.config.blocks, kernel.blocks_per_sm, chip.sms).count
    # With caches, DRAM has to deliver both factors once; without, every sector.
    beyond_l1 = kernel.stored_sectors + kernel.l2_sectors if kernel.l2_sectors is not None else 0
    roofline = gs.analytic.roofline(
        chip,
        instructions=counters.instruction_mix,
        load_store_cycles=sum(counts.wavefronts for counts in counters.accesses.values()),
        l2_bytes=SECTOR_BYTES * beyond_l1,
        dram_bytes=2 * 4 * n * n if caches == "on" else counters.sector_bytes,
    )
    return MatmulPoint(
        variant.name,
        variant.tile,
        counters.thread_loads,
        gs.analytic.matmul_loads(n, variant.tile),
        counters.global_load_sectors,
        counters.bank_conflict_factor if counters.shared_requests else 0.0,
        kernel,
        roofline,
        cold_s + (waves - 1) * warm_s,  # the first wave finds nothing in the L2
        2 * n**3,
    )


def measure_all(
    variants: Sequence[Variant], chip: gs.GPU, n: int, caches: Caches, engine: Engine, jobs: int
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


def fitting(chip: gs.GPU, n: int) -> list[Variant]:
    """Variants whose blocks the GPU can hold; says which it cannot."""
    if n < 32 or n % 32:
        raise ValueError(f"n = {n}: must be a multiple of 32, so that tiles of all sizes fill the matrices")
    most = chip.max_threads_per_block
    for name, (columns, rows) in ((v.name, v.block) for v in VARIANTS):
        if columns * rows > most:
            print(f"left out: {name}, with {columns * rows:,} threads per block where the GPU allows {most:,}")
    return [v for v in VARIANTS if v.block[0] * v.block[1] <= most]


def print_table(points: Sequence[MatmulPoint]) -> None:
    """What the comparison does not say."""
    print(f"{'variant':<29}{'L1 hits':>8}{'passes':>8}{'GFLOP/s':>9}  {'limit':<18}main stall")
    for p in points:
        hits = "-" if p.kernel.l1_hit_rate is None else f"{p.kernel.l1_hit_rate:.0%}"
        passes = f"{p.wavefronts_per_request:.2f}" if p.wavefronts_per_request else "-"
        print(f"{p.name:<29}{hits:>8}{passes:>8}{p.gflops:9,.0f}  {p.roofline.limiter:<18}{p.kernel.main_stall}")


def compared(points: Sequence[MatmulPoint]) -> gs.Comparison:
    """Loads, which are equal, sectors, and time, which the roofline is a lower bound of."""
    labels = [p.name for p in points]
    return (
        gs.compare(
            *([p.formula_loads for p in points], [p.loads for p in points]),
            name="2n³ / T",
            quantity="elements loaded from global memory",
            labels=labels,
            tolerance=0,
        )
        + gs.compare(
            *([p.formula_sectors for p in points], [p.sectors for p in points]),
            name="2n³ / T / 8",
            quantity="sectors",
            labels=labels,
            tolerance=0,
            explain={p.name: "the lanes of a warp load the same element of A" for p in points if p.tile == 1},
            explained_up_to=(4 + 1) / 8 - 1,  # a row of B takes four sectors as in the formula, the element of A one
            assumes="eight elements of a sector are loaded by one warp",
        )
        + gs.compare(
            *([p.roofline.seconds * 1e6 for p in points], [p.kernel.seconds * 1e6 for p in points]),
            name="roofline",
            quantity="time (µs)",
            labels=labels,
            explain={p.name: explanation(p) for p in points},
            explained_up_to={
                # At most, nothing overlaps: all latencies, and the busiest part's work after them.
                p.name: gs.experiment.reach(p.roofline.seconds, p.roofline.seconds + p.latency_s)
                for p in points
            },
            assumes="the busiest part never waits",
        )
    )


def explanation(p: MatmulPoint) -> str:
    """Why the time is not the roofline's: the two longest waits during which the busiest part may stand still."""
    return f"{p.roofline.limiter} busy {1 / p.ratio:.0%} of the time; {gs.experiment.waits(p.kernel, p.own_waits)}"


def draw(points: Sequence[MatmulPoint], title: str) -> Axes:
    loads = gs.views.Panel(
        "elements loaded from global memory (millions)",
        [p.loads / 1e6 for p in points],
        [p.formula_loads / 1e6 for p in points],
        simulated_label="counted",
        formula_label="2n³ / T",
    )
    time = gs.views.Panel(
        "time (µs)",
        [p.kernel.seconds * 1e6 for p in points],
        [p.roofline.seconds * 1e6 for p in points],
        formula_label="roofline",
        notes=[f"{p.gflops:,.0f} GFLOP/s, {p.roofline.limiter}" for p in points],
        notes_title="speed, and what limits it",
    )
    return gs.views.comparison([p.name for p in points], [loads, time], title=title)


def main(
    gpu: str = GPU,
    out: Path | None = None,
    n: int | None = None,
    *,
    quick: bool = False,
    sms: int | None = None,
    caches: Caches = "on",
    engine: Engine = "auto",
    jobs: int = 1,
) -> tuple[list[MatmulPoint], gs.Comparison]:
    chip = gs.load_gpu(gpu)
    if n is None:
        n = QUICK_N if quick else N
    if sms is None and quick:
        sms = QUICK_SMS
    if sms is not None:
        chip = chip.slice(sms=min(sms, chip.sms))
    points = measure_all(fitting(chip, n), chip, n, caches, engine, jobs)
    title = f"{n:,} × {n:,} matrices on {chip.title}" + (", without caches" if caches == "off" else "")
    print(title)
    print_table(points)
    table = compared(points)
    print(f"\n{table}")
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        gs.views.save(draw(points, f"Matrix multiplication: {title}"), out / "tiled_matmul.png")
        print(f"written: {out / 'tiled_matmul.png'}")
    return points, table


if __name__ == "__main__":
    gs.experiment.script(
        main,
        n=f"rows and columns of the matrices (default: {N}, with --quick {QUICK_N})",
        caches="off: as on paper",
        jobs="variants at a time",
    )

"""Roofline: ten kernels on one chart, each under the roof of the DRAM or of its pipe.

A kernel that does I operations for each byte that it moves can do min(peak of the pipe, I × bandwidth) of them per
second. Left of the ridge memory limits it, right of it arithmetic (Williams, Waterman and Patterson 2009). Intensity is
counted from the kernel's instructions and sectors, which can be done by hand, too; an addition takes as much of the
pipe as a multiply-add, and counts as two.

The roof is a bound, and it takes for granted that nothing else is in the way. Most kernels are below it: mixed reads
and writes get less of the DRAM than reads; loads, addresses, loops and barriers take issue slots and load/store cycles.
A roofline with a ceiling for every part of the chip is closer. What is left is waiting, most of it for global memory:
for the first load, for tiles behind a barrier, and, in the longest polynomial, because the greedy scheduler lets the
youngest warps fall behind, so that nobody hides the loads of the next ones. On a chip with next to no latencies and a
scheduler that takes turns, where other parts are far from busy, twice the work takes longer by what the roofline says.

    gpusim-des experiment roofline --gpu h100-sxm --out out
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import gpusim_des as gs
from gpusim_des.analytic.latency import Traffic

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GPU = "h100-sxm"
SMS = 2  # of the slice: every SM has its share of the DRAM
THREADS = 256
N, QUICK_N = 1 << 17, 1 << 15  # threads of the kernels on vectors
MATRIX, QUICK_MATRIX = 128, 64  # rows and columns of the products
STRIDE = 8  # elements: a sector for each
LOADS = 16  # of a thread that sums up
TILE = 16
QUEUES = 0.5  # of the time: blocks among others take longer than alone


@gs.kernel
def vector_add(t: Any, a: Any, b: Any, c: Any) -> None:
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    c[i] = a[i] + b[i]


@gs.kernel
def strided_saxpy(t: Any, a: Any, b: Any, c: Any) -> None:
    i = (t.blockIdx.x * t.blockDim.x + t.threadIdx.x) * STRIDE
    c[i] = np.float32(2) * a[i] + b[i]


@gs.kernel
def stencil(t: Any, a: Any, c: Any) -> None:
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    left, middle, right = a[i], a[i + 1], a[i + 2]
    c[i] = np.float32(0.25) * left + np.float32(0.5) * middle + np.float32(0.25) * right


@gs.kernel
def sums(t: Any, a: Any, c: Any) -> None:
    """Every thread adds up elements a grid apart; only a negative sum would be written."""
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    x = [np.float32(0)] * LOADS
    for k in range(LOADS):
        x[k] = a[i + k * t.gridDim.x * t.blockDim.x]
    for k in range(1, LOADS):
        x[0] += x[k]
    if x[0] < 0:
        c[i] = x[0]


def polynomial(degree: int, dtype: Any = np.float32) -> gs.ThreadKernel:
    """Horner's rule, a chain of multiply-adds, in every thread."""
    half, one = dtype(0.5), dtype(1)

    @gs.kernel
    def horner(t: Any, a: Any, c: Any) -> None:
        i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
        x = a[i]
        y = half
        for _ in range(degree):
            y = y * x + one
        c[i] = y

    return horner


@gs.kernel
def naive_matmul(t: Any, a: Any, b: Any, c: Any, n: int) -> None:
    row, column = t.blockIdx.y * t.blockDim.y + t.threadIdx.y, t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    acc = np.float32(0)
    for k in range(n):
        acc += a[row * n + k] * b[k * n + column]
    c[row * n + column] = acc


@gs.kernel
def tiled_matmul(t: Any, a: Any, b: Any, c: Any, n: int) -> Any:
    tile_a, tile_b = t.shared("tile_a", (TILE, TILE), np.float32), t.shared("tile_b", (TILE, TILE), np.float32)
    x, y = t.threadIdx.x, t.threadIdx.y
    row, column = t.blockIdx.y * TILE + y, t.blockIdx.x * TILE + x
    acc = np.float32(0)
    for first in range(0, n, TILE):
        tile_a[y, x] = a[row * n + first + x]
        tile_b[y, x] = b[(first + y) * n + column]
        yield t.syncthreads()
        for k in range(TILE):
            acc += tile_a[y, k] * tile_b[k, x]
        yield t.syncthreads()
    c[row * n + column] = acc


@dataclass(frozen=True)
class Case:
    """A kernel with its arguments, its result by NumPy, and its intensity by hand."""

    name: str
    kernel: gs.ThreadKernel
    grid: Any
    block: Any
    inputs: tuple[Any, ...]
    expected: Any
    intensity: float
    """Operations per byte, of a warp."""
    compute: str = "fp32"
    kind: Traffic = "mixed"
    scalars: tuple[int, ...] = ()


def cases(n: int, m: int, times: int = 1) -> list[Case]:
    """Ten kernels: `n` threads on vectors, and products with m × m matrices; `times` as many elements and rows."""
    n, rows = times * n, times * m
    rng = np.random.default_rng(0)

    def fresh(size: int, dtype: Any = np.float32) -> Any:
        return rng.random(size).astype(dtype)

    a, b, wide = fresh(n), fresh(n), (fresh(n * STRIDE), fresh(n * STRIDE))
    many, edges, doubles = fresh(n), fresh(n + 2), fresh(n // 4, np.float64)
    left, right = fresh(rows * m).reshape(rows, m), fresh(m * m).reshape(m, m)
    product = (left @ right).ravel()
    strided = np.zeros(n * STRIDE, np.float32)
    strided[::STRIDE] = 2 * wide[0][::STRIDE] + wide[1][::STRIDE]
    blocks = n // THREADS
    found = [
        Case("vector add", vector_add, blocks, THREADS, (a, b), a + b, 64 / (3 * 128)),
        Case("SAXPY, stride 8", strided_saxpy, blocks, THREADS, wide, strided, 64 / (3 * 32 * 32)),
        # Neighbours to the right begin in the middle of a sector: five of them instead of four.
        Case(
            "stencil, 3 points",
            stencil,
            blocks,
            THREADS,
            (edges,),
            0.25 * edges[:-2] + 0.5 * edges[1:-1] + 0.25 * edges[2:],
            3 * 64 / ((4 + 5 + 5 + 4) * 32),
        ),
        Case(
            "sums",
            sums,
            blocks // LOADS,
            THREADS,
            (many,),
            np.zeros(n // LOADS, np.float32),
            (LOADS - 1) * 64 / (LOADS * 128),
            kind="read",
        ),
    ]
    for degree, x, compute in ((8, a, "fp32"), (32, a, "fp32"), (256, a[: n // 4], "fp32"), (128, doubles, "fp64")):
        name = f"polynomial, degree {degree}" + f", {compute}" * (compute == "fp64")
        work = polynomial(degree, x.dtype.type), len(x) // THREADS, THREADS, (x,), horner_by_numpy(x, degree)
        found.append(Case(name, *work, degree * 64 / (2 * 32 * x.itemsize), compute))
    grid = (m // 32, rows // 8), (32, 8)
    # A step of a warp: one element of A, 32 of B.
    found.append(
        Case(
            "matmul, naive",
            naive_matmul,
            *grid,
            (left.ravel(), right.ravel()),
            product,
            m * 64 / (m * 5 * 32 + 128),
            kind="read",
            scalars=(m,),
        )
    )
    grid = (m // TILE, rows // TILE), (TILE, TILE)
    # A warp is two rows of a tile: four sectors of each factor for TILE steps.
    found.append(
        Case(
            f"matmul, tiles of {TILE}",
            tiled_matmul,
            *grid,
            (left.ravel(), right.ravel()),
            product,
            m * 64 / (m // TILE * 8 * 32 + 128),
            scalars=(m,),
        )
    )
    return found


def horner_by_numpy(x: Any, degree: int) -> Any:
    """The polynomial's value."""
    y = np.full_like(x, 0.5)
    for _ in range(degree):
        y = y * x + 1
    return y


@dataclass(frozen=True)
class RooflineRun:
    """One kernel, counted and simulated."""

    case: Case
    intensity: float
    operations: int
    kernel: gs.KernelTiming
    alone_formula_s: float
    """What the busiest part takes longer for twice the work where it is the only limit."""
    alone_s: float
    """What that takes longer, simulated."""
    channel_s: float
    """What the busiest DRAM channel is busy longer, where DRAM is the limit."""
    parts: gs.analytic.Roofline
    reading_s: float
    """What the busiest part would take if DRAM were as fast for reads and writes mixed as for reads."""
    latency_s: float
    """What the blocks take one after the other in their slots, each as long as one that is alone."""

    def reach(self, per_second: float) -> float:
        """How far the explanation of another speed than `per_second` goes."""
        slowest, fastest = (
            self.operations / (1 + QUEUES) / max(self.parts.seconds, self.latency_s),
            self.operations / self.reading_s,
        )
        return gs.experiment.reach(per_second, fastest if self.per_second > per_second else slowest)

    @property
    def per_second(self) -> float:
        """Operations per second."""
        return self.operations / self.kernel.seconds


def run(chip: gs.GPU, case: Case) -> tuple[gs.Launch, gs.KernelTiming]:
    """Run one kernel, check its result, and simulate it."""
    dev = gs.Device(chip)
    inputs = [dev.to_device(x) for x in case.inputs]
    out = dev.to_device(np.zeros(case.expected.size, case.expected.dtype))
    dev.forget_launches()
    launch = dev.launch(case.kernel, case.grid, case.block, *inputs, out, *case.scalars, registers=32)
    if not np.allclose(dev.to_host(out), case.expected, rtol=1e-4):
        raise AssertionError(f"{case.name}: results differ from NumPy's: this is a bug of the simulator")
    return launch, dev.simulate(caches="off", detail="kernel").kernels[0]


def parts(chip: gs.GPU, launch: gs.Launch, dram_bytes: int, kind: Traffic) -> gs.analytic.Roofline:
    """What each part takes; `dram_bytes` are whole granules, of 64 bytes on some chips."""
    return gs.analytic.roofline(
        chip,
        instructions=launch.counters.instruction_mix,
        load_store_cycles=sum(counts.wavefronts for counts in launch.counters.accesses.values()),
        dram_bytes=dram_bytes,
        kind=kind,
    )


def measure(chip: gs.GPU, case: Case, twice: Case) -> RooflineRun:
    """Count, simulate as it is and where nothing else limits, there with twice the work, too; and ask the formulas."""
    launch, kernel = run(chip, case)
    busiest = parts(chip, launch, kernel.dram_bytes, case.kind)
    alone, found = gs.experiment.limited_by(chip, busiest.limiter), []
    for some in (case, twice):
        once, timing = run(alone, some)
        formula_s = parts(alone, once, timing.dram_bytes, case.kind).seconds
        found.append((formula_s, timing.seconds, timing.busiest_channel * timing.seconds))
    formula_more, more, channel_more = (b - a for a, b in zip(*found, strict=True))
    lone_s = gs.experiment.alone_s(
        chip, case.kernel, case.block, *case.inputs, np.zeros_like(case.expected), *case.scalars, registers=32
    )
    return RooflineRun(
        case,
        gs.analytic.intensity(launch.counters, case.compute),
        gs.analytic.counted_operations(launch.counters, case.compute),
        kernel,
        formula_more,
        more,
        channel_more if busiest.limiter == "DRAM" else 0.0,
        busiest,
        parts(chip, launch, kernel.dram_bytes, "read").seconds,
        gs.analytic.waves(kernel.blocks, kernel.blocks_per_sm, chip.sms).count * lone_s,
    )


CANNOT_HELP = ("math_pipe_throttle", "not_selected")
"""Stalls that come from the queue in front of a pipe or of the issue slots."""


def explanation(r: RooflineRun) -> str:
    """Why a kernel is slower than its busiest part, or in one case faster."""
    k = r.kernel
    if k.seconds < r.parts.seconds:
        while_busy = k.dram_bytes_per_second / (k.dram_peak_bytes_per_s * k.dram_utilization)
        return f"reads and writes come in long rows: while it is busy, the DRAM reaches {while_busy:.0%} of its peak"
    return (
        f"{r.parts.limiter} busy {r.parts.seconds / k.seconds:.0%} of the time; {gs.experiment.waits(k, CANNOT_HELP)}"
    )


def below_the_roof(r: RooflineRun, chip: gs.GPU) -> str:
    """Why a kernel is below the roof of the chart."""
    part = r.parts.limiter
    if part == "DRAM" and r.case.kind == "mixed":
        share = float(chip.efficiency("mixed") / chip.efficiency("read"))
        if share < 1:
            return f"mixed with writes, reads get {share:.0%} of the DRAM; {explanation(r)}"
    elif part not in ("DRAM", f"{r.case.compute} pipe"):
        return f"more to do than for DRAM and {r.case.compute} pipe; {explanation(r)}"
    return explanation(r)


def compared(runs: Sequence[RooflineRun], chip: gs.GPU) -> gs.Comparison:
    """Intensities, and operations per second by the chart and by all parts."""
    labels, reached = [r.case.name for r in runs], [r.per_second / 1e9 for r in runs]
    roofs = gs.analytic.roofs(chip)
    uneven = [r for r in runs if r.channel_s > r.alone_formula_s]
    return (
        gs.compare(
            *([r.case.intensity for r in runs], [r.intensity for r in runs]),
            name="intensity by hand",
            quantity="operations per byte",
            labels=labels,
            tolerance=0,
        )
        + gs.compare(
            [roofs.attainable(r.intensity, r.case.compute) / 1e9 for r in runs],
            reached,
            name="roofline",
            quantity="operations (GFLOP/s)",
            labels=labels,
            explain={r.case.name: below_the_roof(r, chip) for r in runs},
            explained_up_to={r.case.name: r.reach(roofs.attainable(r.intensity, r.case.compute)) for r in runs},
            assumes="nothing but reading from DRAM and arithmetic",
        )
        + gs.compare(
            [r.operations / r.parts.seconds / 1e9 for r in runs],
            reached,
            name="busiest of all parts",
            quantity="operations (GFLOP/s)",
            labels=labels,
            explain={r.case.name: explanation(r) for r in runs},
            explained_up_to={r.case.name: r.reach(r.operations / r.parts.seconds) for r in runs},
            assumes="the busiest part never waits",
        )
        + gs.compare(
            *([r.alone_formula_s * 1e6 for r in runs], [r.alone_s * 1e6 for r in runs]),
            name="busiest part, where nothing else limits",
            quantity="what twice the work takes longer (µs)",
            labels=labels,
            explain=dict.fromkeys((r.case.name for r in uneven), "one DRAM channel has more to do than the others"),
            explained_up_to={r.case.name: gs.experiment.reach(r.alone_formula_s, r.channel_s, 0.03) for r in uneven},
            assumes="next to no latencies, and other parts far from busy",
        )
    )


def main(gpu: str = GPU, out: Path | None = None, *, quick: bool = False) -> tuple[list[RooflineRun], gs.Comparison]:
    whole = gs.load_gpu(gpu)
    chip = whole.slice(sms=min(SMS, whole.sms))
    known = gs.analytic.roofs(chip).compute
    size = (QUICK_N, QUICK_MATRIX) if quick else (N, MATRIX)
    wanted, twice = cases(*size), cases(*size, times=2)
    for case in wanted:
        if case.compute not in known:
            print(f"left out: {case.name}: {chip.title} has no {case.compute} pipe")
    runs = [measure(chip, *pair) for pair in zip(wanted, twice, strict=True) if pair[0].compute in known]
    table = compared(runs, chip)
    print(f"{chip.title}\n{table}")
    if out is not None:
        gs.views.save(draw(runs, chip), out / "roofline.png")
        print(f"written: {out / 'roofline.png'}")
    return runs, table


def draw(runs: Sequence[RooflineRun], chip: gs.GPU) -> Axes:
    """The chart."""
    points = [gs.views.RooflinePoint(r.case.name, r.intensity, r.per_second, r.case.compute) for r in runs]
    pipes = tuple(dict.fromkeys(point.compute for point in points))
    return gs.views.roofline(gs.analytic.roofs(chip), points, compute=pipes, title=f"Roofline of {chip.title}")


if __name__ == "__main__":
    gs.experiment.script(main)

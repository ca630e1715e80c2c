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
The kernels are in ``gpusim_des/textbook/tiled_matmul.py``.

    python experiments/tiled_matmul.py --gpu h100-sxm --out out            # n = 1024: some minutes, 8 GB of memory
    python experiments/tiled_matmul.py --quick                             # n = 256 on a slice: seconds
    python experiments/tiled_matmul.py --caches off                        # as on paper: time falls with T
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import gpusim_des as gs
from gpusim_des.textbook.tiled_matmul import MatmulPoint, fitting, measure_all
from gpusim_des.timing.choice import Engine
from gpusim_des.timing.simulate import Caches

GPU = "h100-sxm"
N = 1024
QUICK_N, QUICK_SMS = 256, 8
ONE_ELEMENT = "the lanes of a warp load the same element of A"


def print_table(points: Sequence[MatmulPoint]) -> None:
    """What the comparison does not say."""
    print(f"{'variant':<29}{'L1 hits':>8}{'passes':>8}{'GFLOP/s':>9}  {'limit':<18}main stall")
    for p in points:
        hits = "-" if p.kernel.l1_hit_rate is None else f"{p.kernel.l1_hit_rate:.0%}"
        passes = f"{p.wavefronts_per_request:.2f}" if p.wavefronts_per_request else "-"
        print(f"{p.name:<29}{hits:>8}{passes:>8}{p.gflops:9,.0f}  {p.roofline.limiter:<18}{p.kernel.main_stall}")


def compared(points: Sequence[MatmulPoint]) -> gs.Comparison:
    """Loads, which are equal, sectors, and time, which the roofline is a lower bound of."""
    return (
        gs.experiment.compare_points(
            points,
            lambda p: p.formula_loads,
            lambda p: p.loads,
            name="2n³ / T",
            quantity="elements loaded from global memory",
            tolerance=0,
        )
        + gs.experiment.compare_points(
            points,
            lambda p: p.formula_sectors,
            lambda p: p.sectors,
            name="2n³ / T / 8",
            quantity="sectors",
            tolerance=0,
            # A row of B takes four sectors as in the formula, the element of A one.
            because=lambda p: (ONE_ELEMENT, (4 + 1) / 8 - 1) if p.tile == 1 else None,
            assumes="eight elements of a sector are loaded by one warp",
        )
        + gs.experiment.compare_points(
            points,
            lambda p: p.roofline.seconds * 1e6,
            lambda p: p.kernel.seconds * 1e6,
            name="roofline",
            quantity="time (µs)",
            # At most, nothing overlaps: all latencies, and the busiest part's work after them.
            because=lambda p: (p.why, gs.experiment.reach(p.roofline.seconds, p.roofline.seconds + p.latency_s)),
            assumes="the busiest part never waits",
        )
    )


def draw(points: Sequence[MatmulPoint], title: str, path: Path) -> None:
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
    gs.experiment.save(gs.views.comparison([p.name for p in points], [loads, time], title=title), path)


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
    n = (QUICK_N if quick else N) if n is None else n
    sms = QUICK_SMS if quick and sms is None else sms
    if sms is not None:
        chip = chip.slice(sms=min(sms, chip.sms))
    points = measure_all(fitting(chip, n), chip, n, caches, engine, jobs)
    title = f"{n:,} × {n:,} matrices on {chip.title}" + (", without caches" if caches == "off" else "")
    print(title)
    print_table(points)
    table = compared(points)
    print(f"\n{table}")
    if out is not None:
        draw(points, f"Matrix multiplication: {title}", out / "tiled_matmul.png")
    return points, table


if __name__ == "__main__":
    gs.experiment.script(
        main,
        n=f"rows and columns of the matrices (default: {N}, with --quick {QUICK_N})",
        caches="off: as on paper",
        jobs="variants at a time",
    )

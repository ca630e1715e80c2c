"""Reduction: seven ways to add up an array, each mending what limits the one before (Harris 2007).

A sum of n floats has to read 4 n bytes, and that is the least time: latency + 4 n / bandwidth. The first kernel is far
from it. (1) Threads with tid % 2s = 0 add: warps diverge, and the remainder costs. (2) The first threads add, with a
stride: no divergence, but 2s words apart they meet in the banks. (3) Halves are added: no conflicts. (4) Each thread
adds two values while it loads: half of the threads, which only loaded, vanish. (5) The last warp needs no barriers. (6)
The block's size is a constant: no loop is left. (7) Each thread adds many values first, in as few blocks as fit at
once: the tree is a small part of the work, and loads that do not wait for each other keep DRAM busy. The kernels are in
``gpusim_des/textbook/reduction.py``.

Only (7) is limited by DRAM, as the formula assumes. The table says what limits the others: the busiest part, which is
that of the scheduler with the first warp of each block, for that warp works longest; and waiting. Where nothing waits
and no other part is in the way, on a chip made for that, the busiest part is all that twice the values take. Passes in
shared memory and barriers follow from the tree: log2(threads) steps of two loads and a store for each active warp, in
(2) times its conflicts. As many passes are saved from (1) to (2) by fewer warps as conflicts cost.

    gpusim-des experiment reduction --gpu h100-sxm --out out
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import gpusim_des as gs
from gpusim_des.textbook.reduction import VARIANTS, ReductionPoint, measure

GPU = "h100-sxm"
SMS = 2
N, QUICK_N = 1 << 20, 1 << 18
QUEUES = 0.3  # of the time: blocks among others take longer than alone, and part of a wave waits for the rest


def compared(points: Sequence[ReductionPoint]) -> gs.Comparison:
    """Barriers and passes, which are equal, and time."""
    return (
        gs.experiment.compare_points(
            points,
            lambda p: p.formula_barriers,
            lambda p: p.barriers,
            name="1 + steps with barriers",
            quantity="barriers of a block",
            tolerance=0,
        )
        + gs.experiment.compare_points(
            points,
            lambda p: p.formula_passes,
            lambda p: p.passes,
            name="3 × warps and conflicts of the steps",
            quantity="passes of a block in shared memory",
            tolerance=0,
        )
        + gs.experiment.compare_points(
            points,
            lambda p: p.dram_s * 1e6,
            lambda p: p.kernel.seconds * 1e6,
            name="latency + 4 n / bandwidth",
            quantity="time (µs)",
            because=lambda p: (p.why, gs.experiment.reach(p.dram_s, max(p.least_s, p.latency_s), QUEUES)),
            assumes="DRAM is the limit and always busy",
        )
        + gs.experiment.compare_points(
            points,
            lambda p: p.alone_formula_s * 1e6,
            lambda p: p.alone_s * 1e6,
            name="busiest part, where nothing else limits",
            quantity="what twice the values take longer (µs)",
            assumes="next to no latencies, and other parts far from busy",
        )
    )


def draw(chip: gs.GPU, points: Sequence[ReductionPoint], path: Path) -> None:
    first = points[0].kernel.seconds
    ax = gs.views.bars(
        [p.label for p in points],
        [p.gbs for p in points],
        [p.nbytes / p.dram_s / 1e9 for p in points],
        xlabel="effective bandwidth, 4 n / time (GB/s)",
        title=f"Reduction of {points[0].nbytes // 4:,} floats on {chip.title}",
        notes=[f"{p.gbs:.3g}   {first / p.kernel.seconds:.1f} times as fast as (1)" for p in points],
        formula_label="formula: DRAM",
    )
    gs.experiment.save(ax, path)


def main(gpu: str = GPU, out: Path | None = None, *, quick: bool = False) -> tuple[list[ReductionPoint], gs.Comparison]:
    whole = gs.load_gpu(gpu)
    chip = whole.slice(sms=min(SMS, whole.sms))
    n = QUICK_N if quick else N
    points = [measure(chip, name, n) for name in VARIANTS]
    print(f"{n:,} floats on {chip.title}")
    table = compared(points)
    print(table)
    if out is not None:
        draw(chip, points, out / "reduction.png")
    return points, table


if __name__ == "__main__":
    gs.experiment.script(main)

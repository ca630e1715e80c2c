"""ILP and TLP: a latency is hidden by other warps, or by independent instructions of the same warp.

A multiply-add that needs the result of the one before waits for it, four cycles on most GPUs. Meanwhile the scheduler
issues from other warps (thread-level parallelism) or from another chain of the same warp (instruction-level
parallelism). To Little's law it makes no difference which: throughput = min(the pipe's rate, warps × ILP / latency).
One warp with four chains does what four warps with one chain do, so that a kernel can be at its peak at a low occupancy
(Volkov 2010).

As microbenchmarks do, the experiment runs every kernel at two lengths and takes the difference, in which start
and end of the block cancel. The law assumes that the schedulers have equally many warps, that these get their turns one
after the other, and that nothing but the chains is issued. Four points show where that breaks: a short kernel as a
whole, one warp more than there are schedulers, a greedy scheduler, which lets the youngest warps fall behind until they
are alone, and a loop that is not unrolled. For each there is a better formula, and it is compared, too; where the
loop's warps all wait for their branches at once, that of a round in step.

    gpusim-des experiment ilp_vs_tlp --gpu h100-sxm --out out
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import gpusim_des as gs
from gpusim_des.grid import WARP_SIZE
from gpusim_des.textbook.ilp_vs_tlp import Beyond, IlpPoint, measure, where_it_breaks

GPU = "h100-sxm"
ILP = (1, 2, 4)
WARPS, QUICK_WARPS = (1, 2, 3, 4, 5, 6, 7, 8), (1, 2, 4, 8)  # per scheduler
LAW = "min(rate, warps × ILP / latency)"
ASSUMES = "warps in equal numbers and in turn, and nothing but the chains"
QUANTITY = "warp instructions per cycle and SM"


def chains(ilp: int, multiply_adds: int) -> gs.ThreadKernel:
    """`ilp` chains of dependent multiply-adds, unrolled: nothing else is issued."""
    rounds = multiply_adds // ilp

    @gs.kernel
    def unrolled(t: Any, out: Any) -> None:
        x = [np.float32(1)] * ilp
        for _ in range(rounds):  # a constant of the source: unrolled
            for k in range(ilp):
                x[k] = x[k] * np.float32(0.5) + np.float32(1)
        for k in range(1, ilp):
            x[0] += x[k]
        out[t.blockIdx.x * t.blockDim.x + t.threadIdx.x] = x[0]

    return unrolled


def loop(ilp: int, multiply_adds: int) -> gs.ThreadKernel:
    """The same chains in a loop of unknown length: every round adds to a counter, compares it, and branches."""

    @gs.kernel
    def rolled(t: Any, out: Any, rounds: int = multiply_adds // ilp) -> None:
        x = [np.float32(1)] * ilp
        for _ in range(rounds):
            for k in range(ilp):
                x[k] = x[k] * np.float32(0.5) + np.float32(1)
        for k in range(1, ilp):
            x[0] += x[k]
        out[t.blockIdx.x * t.blockDim.x + t.threadIdx.x] = x[0]

    return rolled


def compared(points: Sequence[IlpPoint], beyond: Sequence[Beyond], in_step: Sequence[IlpPoint]) -> gs.Comparison:
    """The law where it holds; where it breaks, the law and what holds instead; and warps in step."""
    return (
        gs.experiment.compare_points(
            points,
            lambda p: p.formula,
            lambda p: p.simulated,
            name=LAW,
            quantity=QUANTITY,
            assumes=ASSUMES,
        )
        + gs.experiment.compare_points(
            beyond,
            lambda p: p.law,
            lambda p: p.simulated,
            name=LAW,
            quantity=QUANTITY,
            because=lambda p: (p.why, gs.experiment.reach(p.law, min(p.better, p.still_better))),
            assumes=ASSUMES,
        )
        + gs.experiment.compare_points(
            beyond,
            lambda p: p.better,
            lambda p: p.simulated,
            name="with what the law leaves out",
            quantity=QUANTITY,
            because=lambda p: (p.why_not_better, gs.experiment.reach(p.better, p.still_better)),
        )
        + gs.experiment.compare_points(
            in_step,
            lambda p: p.formula,
            lambda p: p.simulated,
            name="a round of warps in step",
            quantity=QUANTITY,
            assumes="one instruction of every warp after the other, and then the next",
        )
    )


def draw(points: Sequence[IlpPoint], chip: gs.GPU, path: Path) -> None:
    """Draw throughput over warps, a curve for each ILP."""
    by_ilp = {ilp: [p for p in points if p.ilp == ilp] for ilp in ILP}
    ax = gs.views.curves(
        [p.warps for p in by_ilp[ILP[0]]],
        [
            gs.views.Curve(f"ILP {ilp}", [p.simulated for p in ps], [p.formula for p in ps])
            for ilp, ps in by_ilp.items()
        ],
        xlabel="warps per scheduler",
        ylabel="multiply-adds per cycle and SM (warp instructions)",
        title=f"ILP or TLP: instructions under way hide the latency, on {chip.title}",
    )
    marks = [line for line in ax.lines if str(line.get_label()).startswith("ILP")]
    for line, size in zip(marks, (12, 9, 6), strict=True):  # where the curves meet, all of them show
        line.set_markersize(size)
    gs.experiment.save(ax, path)


def main(gpu: str = GPU, out: Path | None = None, *, quick: bool = False) -> tuple[list[IlpPoint], gs.Comparison]:
    whole = gs.load_gpu(gpu)
    chip = whole.slice(sms=1)  # what one SM does, all do
    most = chip.max_threads_per_block // (WARP_SIZE * chip.sub_partitions)
    numbers = [warps for warps in (QUICK_WARPS if quick else WARPS) if warps <= most]
    points = [measure(chip, chains, ilp, warps) for ilp in ILP for warps in numbers]
    table = compared(points, *where_it_breaks(chip, chains, loop, ILP[-1], numbers[-1]))
    print(f"{whole.title}, one SM with {chip.sub_partitions} schedulers\n{table}")
    if out is not None:
        draw(points, whole, out / "ilp_vs_tlp.png")
    return points, table


if __name__ == "__main__":
    gs.experiment.script(main)

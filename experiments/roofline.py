"""Roofline: ten kernels on one chart, each under the roof of the DRAM or of its pipe.

A kernel that does I operations for each byte that it moves can do min(peak of the pipe, I × bandwidth) of them per
second. Left of the ridge memory limits it, right of it arithmetic (Williams, Waterman and Patterson 2009). Intensity is
counted from the kernel's instructions and sectors, which can be done by hand, too; an addition takes as much of the
pipe as a multiply-add, and counts as two.

The roof is a bound, and it takes for granted that nothing else is in the way. Most kernels are below it: mixed reads
and writes get less of the DRAM than reads; loads, addresses, loops and barriers take issue slots and load/store cycles.
A roofline with a ceiling for every part of the chip is closer. What is left is waiting, most of it for global memory:
for the first load, for tiles behind a barrier, and, in the longest polynomial, because the greedy scheduler lets the
youngest warps fall behind, so that nobody hides the loads of the next ones. On a chip with next to no latencies, where
other parts are far from busy and DRAM is one channel, so that none has more to do than others, twice the work takes
longer by what the roofline says.

    gpusim-des experiment roofline --gpu h100-sxm --out out
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import gpusim_des as gs
from gpusim_des.textbook.roofline import RooflineRun, below_the_roof, explanation, measure
from gpusim_des.textbook.roofline_kernels import cases

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GPU = "h100-sxm"
SMS = 2  # of the slice: every SM has its share of the DRAM
N, QUICK_N = 1 << 17, 1 << 15  # threads of the kernels on vectors
MATRIX, QUICK_MATRIX = 128, 64  # rows and columns of the products


def compared(runs: Sequence[RooflineRun], chip: gs.GPU) -> gs.Comparison:
    """Intensities, and operations per second by the chart and by all parts."""
    points = partial(gs.experiment.compare_points, runs, label=lambda r: r.case.name)

    def roof(r: RooflineRun) -> float:
        return float(gs.analytic.roofs(chip).attainable(r.intensity, r.case.compute))

    return (
        points(
            lambda r: r.case.intensity,
            lambda r: r.intensity,
            name="intensity by hand",
            quantity="operations per byte",
            tolerance=0,
        )
        + points(
            lambda r: roof(r) / 1e9,
            lambda r: r.per_second / 1e9,
            name="roofline",
            quantity="operations (GFLOP/s)",
            because=lambda r: (below_the_roof(r, chip), r.reach(roof(r))),
            assumes="nothing but reading from DRAM and arithmetic",
        )
        + points(
            lambda r: r.operations / r.parts.seconds / 1e9,
            lambda r: r.per_second / 1e9,
            name="busiest of all parts",
            quantity="operations (GFLOP/s)",
            because=lambda r: (explanation(r), r.reach(r.operations / r.parts.seconds)),
            assumes="the busiest part never waits",
        )
        + points(
            lambda r: r.alone_formula_s * 1e6,
            lambda r: r.alone_s * 1e6,
            name="busiest part, where nothing else limits",
            quantity="what twice the work takes longer (µs)",
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
        gs.experiment.save(draw(runs, chip), out / "roofline.png")
    return runs, table


def draw(runs: Sequence[RooflineRun], chip: gs.GPU) -> Axes:
    """The chart."""
    points = [gs.views.RooflinePoint(r.case.name, r.intensity, r.per_second, r.case.compute) for r in runs]
    pipes = tuple(dict.fromkeys(point.compute for point in points))
    return gs.views.roofline(gs.analytic.roofs(chip), points, compute=pipes, title=f"Roofline of {chip.title}")


if __name__ == "__main__":
    gs.experiment.script(main)

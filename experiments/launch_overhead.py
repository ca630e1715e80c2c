"""Launch cost: how long a kernel must run until its launch does not matter, and what a graph saves.

Every launch costs the host a call, and the device a gap between two kernels. Both go on at once, so that many kernels
one behind the other follow each other every ``max(call, kernel + gap)``: below the length of the call, a kernel that is
faster makes nothing faster. A graph needs one call for all of its kernels; what remains is a shorter gap.

    python experiments/launch_overhead.py --gpu h200-sxm --out out
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import gpusim_des as gs
from gpusim_des.textbook.launch_overhead import LaunchPoint, measure, whole_run_us
from gpusim_des.units import to_us

GPU = "h200-sxm"
LENGTHS, QUICK_LENGTHS = (64, 256, 512, 1024, 2048, 4096, 8192), (64, 512, 4096)
"""Instructions of the kernels, each of which waits for the one before."""
LAUNCHES = 12
SMS = 2
INTERVAL = "from one kernel's start to the next (µs)"
ENDS = "the first kernel starts a launch latency after its call, and the host hears of the last one late"


@gs.block_kernel
def chain(blk: gs.Block, length: int) -> None:
    blk.compute(length)


def compared(chip: gs.GPU, points: Sequence[LaunchPoint], launches: int) -> gs.Comparison:
    """Intervals by formula and simulation, and a whole run, which the formula of an interval does not cover."""

    def intervals_us(p: LaunchPoint) -> float:
        return launches * p.stream_formula_us

    return (
        gs.experiment.compare_points(
            points,
            lambda p: p.stream_formula_us,
            lambda p: p.stream_us,
            name="max(call, kernel + gap)",
            quantity=INTERVAL,
        )
        + gs.experiment.compare_points(
            points,
            lambda p: p.graph_formula_us,
            lambda p: p.graph_us,
            name="kernel + graph gap",
            quantity=INTERVAL,
        )
        + gs.experiment.compare_points(
            points[:1],
            intervals_us,
            lambda p: p.stream.seconds * 1e6,
            name="launches × interval",
            quantity="whole run (µs)",
            label=lambda p: f"{launches} kernels of {p.kernel_us:.2f} µs",
            because=lambda p: (ENDS, gs.experiment.reach(intervals_us(p), whole_run_us(chip, p, launches))),
            assumes="so many launches that start and end do not count",
        )
    )


def main(
    gpu: str = GPU,
    out: Path | None = None,
    lengths: Sequence[int] | None = None,
    launches: int = LAUNCHES,
    *,
    quick: bool = False,
) -> tuple[list[LaunchPoint], gs.Comparison]:
    chip = gs.load_gpu(gpu)
    chip = chip.slice(sms=min(SMS, chip.sms))
    points = [measure(chip, chain, length, launches) for length in lengths or (QUICK_LENGTHS if quick else LENGTHS)]
    print(
        f"{chip.title}: a launch costs the host {to_us(chip.launch_call_fs):.2f} µs, the device "
        f"{to_us(chip.kernel_gap_fs):.2f} µs between two kernels, {to_us(chip.graph_gap_fs):.2f} µs between two nodes "
        "of a graph"
    )
    for p in points:
        print(
            f"a kernel of {p.kernel_us:.2f} µs: {p.share(p.stream_us):.0%} launch cost launched one by one, "
            f"{p.share(p.graph_us):.0%} in a graph"
        )
    table = compared(chip, points, launches)
    print(f"\n{table}")
    if out is not None:
        one_by_one = [(p.share(p.stream_us), p.share(p.stream_formula_us)) for p in points]
        as_nodes = [(p.share(p.graph_us), p.share(p.graph_formula_us)) for p in points]
        axes = gs.views.curves(
            [p.kernel_us for p in points],
            [
                gs.views.Curve(label, [100 * simulated for simulated, _ in shares], [100 * f for _, f in shares])
                for label, shares in (("launched one by one", one_by_one), ("nodes of a graph", as_nodes))
            ],
            xlabel="time of the kernel (µs)",
            ylabel="share of launch cost (%)",
            title=f"Launch cost of short kernels on {chip.title}",
            logarithmic=True,
            top=100,
        )
        gs.experiment.save(axes, out / "launch_overhead.png")
        short = points[min(1, len(points) - 1)]
        runs = {"launched one by one": short.stream, "nodes of a graph": short.graph}
        gs.experiment.save(gs.views.compare_streams(runs), out / "launch_overhead_timelines.png")
    return points, table


if __name__ == "__main__":
    gs.experiment.script(main)

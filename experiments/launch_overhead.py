"""Launch cost: how long a kernel must run until its launch does not matter, and what a graph saves.

Every launch costs the host a call, and the device a gap between two kernels. Both go on at once, so that many kernels
one behind the other follow each other every ``max(call, kernel + gap)``: below the length of the call, a kernel that is
faster makes nothing faster. A graph needs one call for all of its kernels; what remains is a shorter gap.

    python experiments/launch_overhead.py --gpu h200-sxm --out out
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import gpusim_des as gs

GPU = "h200-sxm"
LENGTHS = (64, 256, 512, 1024, 2048, 4096, 8192)
"""Instructions of the kernels, each of which waits for the one before."""
LAUNCHES = 12
SMS = 2
FS_PER_US = 10**9


@gs.block_kernel
def chain(blk: gs.Block, length: int) -> None:
    blk.compute(length)


@dataclass(frozen=True)
class LaunchPoint:
    """One length of kernel; times in microseconds."""

    length: int
    kernel_us: float
    stream_us: float
    """From one kernel's start to the next one's, launched one by one."""
    graph_us: float
    """The same in a graph."""
    stream_formula_us: float
    graph_formula_us: float
    stream: gs.Simulation = field(repr=False)
    graph: gs.Simulation = field(repr=False)

    def share(self, interval_us: float) -> float:
        """Share of an interval in which the kernel does not run, 0…1."""
        return 1 - self.kernel_us / interval_us


def run(chip: gs.GPU, length: int, launches: int, *, as_graph: bool) -> gs.Simulation:
    dev = gs.Device(chip)
    stream = dev.stream()

    def launch_all() -> None:
        for _ in range(launches):
            dev.launch(chain, 1, 32, length, stream=stream)

    if as_graph:
        with dev.capture(stream) as graph:
            launch_all()
        graph.launch(stream)
    else:
        launch_all()
    dev.synchronize()
    return dev.simulate(detail="kernel")


def interval_us(sim: gs.Simulation) -> float:
    """Mean time from one kernel's start to the next one's."""
    kernels = sim.kernels
    return (kernels[-1].start_fs - kernels[0].start_fs) / (len(kernels) - 1) / FS_PER_US


def measure(chip: gs.GPU, length: int, launches: int) -> LaunchPoint:
    stream, graph = (run(chip, length, launches, as_graph=as_graph) for as_graph in (False, True))
    kernel_s = sum(k.seconds for k in graph.kernels) / launches
    gap_s, node_gap_s, call_s = (
        fs / gs.timeline.FS_PER_S for fs in (chip.kernel_gap_fs, chip.graph_gap_fs, chip.launch_call_fs)
    )
    return LaunchPoint(
        length,
        kernel_s * 1e6,
        interval_us(stream),
        interval_us(graph),
        gs.analytic.launch_interval_seconds(kernel_s, gap_s, call_s) * 1e6,
        gs.analytic.launch_interval_seconds(kernel_s, node_gap_s) * 1e6,
        stream,
        graph,
    )


def main(
    gpu: str = GPU, out: Path | None = None, lengths: Sequence[int] = LENGTHS, launches: int = LAUNCHES
) -> list[LaunchPoint]:
    chip = gs.load_gpu(gpu)
    chip = chip.slice(sms=min(SMS, chip.sms))
    points = [measure(chip, length, launches) for length in lengths]
    print(
        f"{chip.title}: a launch costs the host {chip.launch_call_fs / FS_PER_US:.2f} µs, the device "
        f"{chip.kernel_gap_fs / FS_PER_US:.2f} µs between two kernels, "
        f"{chip.graph_gap_fs / FS_PER_US:.2f} µs between two nodes of a graph"
    )
    print("                        launched one by one              nodes of a graph")
    print("instructions  kernel µs   every µs   formula  launch cost   every µs   formula  launch cost")
    for p in points:
        print(
            f"{p.length:12d} {p.kernel_us:10.2f} {p.stream_us:10.2f} {p.stream_formula_us:9.2f} "
            f"{p.share(p.stream_us):12.0%} {p.graph_us:10.2f} {p.graph_formula_us:9.2f} {p.share(p.graph_us):12.0%}"
        )
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        axes = gs.views.curves(
            [p.kernel_us for p in points],
            [
                gs.views.Curve(
                    "launched one by one",
                    [100 * p.share(p.stream_us) for p in points],
                    [100 * p.share(p.stream_formula_us) for p in points],
                ),
                gs.views.Curve(
                    "nodes of a graph",
                    [100 * p.share(p.graph_us) for p in points],
                    [100 * p.share(p.graph_formula_us) for p in points],
                ),
            ],
            xlabel="time of the kernel (µs)",
            ylabel="share of launch cost (%)",
            title=f"Launch cost of short kernels on {chip.title}",
            logarithmic=True,
            top=100,
        )
        gs.views.save(axes, out / "launch_overhead.png")
        short = points[min(1, len(points) - 1)]
        runs = {"launched one by one": short.stream, "nodes of a graph": short.graph}
        gs.views.save(gs.views.compare_streams(runs), out / "launch_overhead_timelines.png")
        print(f"written: {out / 'launch_overhead.png'}, {out / 'launch_overhead_timelines.png'}")
    return points


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", default=GPU)
    parser.add_argument("--out", type=Path, default=Path("out"))
    options = parser.parse_args()
    main(options.gpu, options.out)

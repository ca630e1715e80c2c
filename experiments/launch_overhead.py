"""Launch cost: how long a kernel must run until its launch does not matter, and what a graph saves.

Every launch costs the host a call, and the device a gap between two kernels. Both go on at once, so that many kernels
one behind the other follow each other every ``max(call, kernel + gap)``: below the length of the call, a kernel that is
faster makes nothing faster. A graph needs one call for all of its kernels; what remains is a shorter gap.

    python experiments/launch_overhead.py --gpu h200-sxm --out out
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import gpusim_des as gs

GPU = "h200-sxm"
LENGTHS = (64, 256, 512, 1024, 2048, 4096, 8192)
"""Instructions of the kernels, each of which waits for the one before."""
QUICK_LENGTHS = (64, 512, 4096)
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


def with_ends_us(chip: gs.GPU, short: LaunchPoint, launches: int) -> float:
    """Time of a whole run: to the first start, from start to start, the last kernel, and until the host hears."""
    ends_fs = chip.launch_call_fs + chip.launch_latency_fs + chip.synchronize_latency_fs
    return ends_fs / FS_PER_US + (launches - 1) * short.stream_formula_us + short.kernel_us


def compared(chip: gs.GPU, points: Sequence[LaunchPoint], launches: int) -> gs.Comparison:
    """Intervals by formula and simulation, and a whole run, which the formula of an interval does not cover."""
    labels = [f"kernel of {p.kernel_us:.2f} µs" for p in points]
    quantity = "from one kernel's start to the next (µs)"
    stream, graph = [p.stream_formula_us for p in points], [p.graph_formula_us for p in points]
    short = points[0]
    return (
        gs.compare(
            *(stream, [p.stream_us for p in points]), name="max(call, kernel + gap)", quantity=quantity, labels=labels
        )
        + gs.compare(graph, [p.graph_us for p in points], name="kernel + graph gap", quantity=quantity, labels=labels)
        + gs.compare(
            launches * short.stream_formula_us,
            short.stream.seconds * 1e6,
            name="launches × interval",
            quantity="whole run (µs)",
            labels=[f"{launches} kernels of {short.kernel_us:.2f} µs"],
            explain="the first kernel starts a launch latency after its call, and the host hears of the last one late",
            explained_up_to=gs.experiment.reach(
                launches * short.stream_formula_us, with_ends_us(chip, short, launches)
            ),
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
    lengths = lengths or (QUICK_LENGTHS if quick else LENGTHS)
    chip = gs.load_gpu(gpu)
    chip = chip.slice(sms=min(SMS, chip.sms))
    points = [measure(chip, length, launches) for length in lengths]
    print(
        f"{chip.title}: a launch costs the host {chip.launch_call_fs / FS_PER_US:.2f} µs, the device "
        f"{chip.kernel_gap_fs / FS_PER_US:.2f} µs between two kernels, "
        f"{chip.graph_gap_fs / FS_PER_US:.2f} µs between two nodes of a graph"
    )
    for p in points:
        print(
            f"a kernel of {p.kernel_us:.2f} µs: {p.share(p.stream_us):.0%} launch cost launched one by one, "
            f"{p.share(p.graph_us):.0%} in a graph"
        )
    table = compared(chip, points, launches)
    print(f"\n{table}")
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
    return points, table


if __name__ == "__main__":
    gs.experiment.script(main)

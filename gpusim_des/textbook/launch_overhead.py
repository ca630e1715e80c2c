"""Kernels that follow each other, launched one by one and as the nodes of a graph."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpusim_des.analytic import launch_interval_seconds
from gpusim_des.device import Device
from gpusim_des.functional.block_kernel import BlockKernel
from gpusim_des.gpu import GPU
from gpusim_des.simulation import Simulation
from gpusim_des.units import FS_PER_S, to_us


@dataclass(frozen=True)
class LaunchPoint:
    """One length of kernel, launched one by one (`stream`) and in a graph; times in microseconds."""

    kernel_us: float
    stream_us: float
    """From one kernel's start to the next one's, mean."""
    graph_us: float
    stream_formula_us: float
    graph_formula_us: float
    stream: Simulation = field(repr=False)
    graph: Simulation = field(repr=False)

    @property
    def label(self) -> str:
        """Name of the row."""
        return f"kernel of {self.kernel_us:.2f} µs"

    def share(self, interval_us: float) -> float:
        """Share of an interval in which the kernel does not run, 0…1."""
        return 1 - self.kernel_us / interval_us


def run(chip: GPU, kernel: BlockKernel, length: int, launches: int, *, as_graph: bool) -> Simulation:
    """Launch one warp so often, each launch behind the one before, and wait for the last one."""
    dev = Device(chip)
    stream = dev.stream()

    def launch_all() -> None:
        for _ in range(launches):
            dev.launch(kernel, 1, 32, length, stream=stream)

    if as_graph:
        with dev.capture(stream) as graph:
            launch_all()
        graph.launch(stream)
    else:
        launch_all()
    dev.synchronize()
    return dev.simulate(detail="kernel")


def interval_us(sim: Simulation) -> float:
    """Mean time from one kernel's start to the next one's."""
    kernels = sim.kernels
    return to_us((kernels[-1].start_fs - kernels[0].start_fs) / (len(kernels) - 1))


def measure(chip: GPU, kernel: BlockKernel, length: int, launches: int) -> LaunchPoint:
    """Launch a kernel that takes its length as its argument both ways, and ask the formulas."""
    stream, graph = (run(chip, kernel, length, launches, as_graph=as_graph) for as_graph in (False, True))
    kernel_s = sum(k.seconds for k in graph.kernels) / launches
    gap_s, node_gap_s, call_s = (fs / FS_PER_S for fs in (chip.kernel_gap_fs, chip.graph_gap_fs, chip.launch_call_fs))
    return LaunchPoint(
        kernel_s * 1e6,
        interval_us(stream),
        interval_us(graph),
        launch_interval_seconds(kernel_s, gap_s, call_s) * 1e6,
        launch_interval_seconds(kernel_s, node_gap_s) * 1e6,
        stream,
        graph,
    )


def whole_run_us(chip: GPU, point: LaunchPoint, launches: int) -> float:
    """Time of a whole run: to the first start, from start to start, the last kernel, and until the host hears."""
    ends_fs = chip.launch_call_fs + chip.launch_latency_fs + chip.synchronize_latency_fs
    return to_us(ends_fs) + (launches - 1) * point.stream_formula_us + point.kernel_us

"""Lists that warps walk through: loads in flight, their latency and rate, beside the DRAM as queues."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gpusim_des.analytic import closed_queue_seconds, md1_throughput, md1_wait, roofs
from gpusim_des.check_result import check_result
from gpusim_des.device import Device
from gpusim_des.experiment import save
from gpusim_des.functional.thread_kernel import ThreadKernel
from gpusim_des.gpu import GPU
from gpusim_des.grid import WARP_SIZE
from gpusim_des.simulation import Simulation
from gpusim_des.trace import LINE_BYTES
from gpusim_des.views import Law, Simulated, laws

STEPS = 32
"""Loads of a list."""
LINES = 1 << 14
IN_ORDER = 0.05
"""Of the loads in flight, where a list that could go on waits for the one before it."""

Walker = Callable[[int], ThreadKernel]
"""Makes a kernel that walks so many lists in each thread, `STEPS` steps of each."""


@dataclass(frozen=True)
class LoadPoint:
    """One number of lists; times in cycles, measured while all lists are walked."""

    warps: int
    """Per SM."""
    lists: int
    """Of a warp."""
    flights: int
    """Lists in all: loads that can be in flight."""
    in_flight: float
    """Loads in flight, mean over time: L."""
    per_cycle: float
    """Loads issued in a cycle, all SMs: λ."""
    latency: float
    """From issue to use, mean: W."""

    @property
    def label(self) -> str:
        """Name of the row."""
        return f"{self.warps} warps × {self.lists}"


@dataclass(frozen=True)
class Channels:
    """The DRAM as queues, times in cycles."""

    number: int
    service: float
    """Of a line on a channel."""
    latency: float
    """Of a load that is alone."""
    bandwidth_gbs: float

    def utilisation(self, per_cycle: float) -> float:
        """Share of the time in which a channel is busy, 0…1."""
        return per_cycle / (self.number / self.service)

    def gbs(self, per_cycle: float) -> float:
        """Loads per cycle as bandwidth."""
        return self.utilisation(per_cycle) * self.bandwidth_gbs

    def knee(self, flights: float) -> float:
        """Loads per cycle by the law with the latency of a load that is alone, and at most what the DRAM gives."""
        return min(self.number / self.service, flights / self.latency)

    def queued(self, flights: float) -> float:
        """Loads per cycle by the law with that latency and the wait of M/D/1."""
        return float(md1_throughput(flights, self.number, self.service, self.latency))

    def waiting(self, rho: float) -> float:
        """Latency under load by M/D/1."""
        return self.latency + float(md1_wait(rho, self.service))

    def closed(self, in_flight: float) -> float:
        """Latency with a fixed number of loads in flight."""
        elsewhere = self.latency - self.service
        return float(closed_queue_seconds(round(in_flight), self.number, self.service, elsewhere))

    def least(self, p: LoadPoint) -> float:
        """Loads per cycle of a closed queue, less what warps lose that issue the loads of several lists in order."""
        return p.flights / self.closed(p.flights) * (1 - IN_ORDER * (p.lists > 1))

    def loads_queue(self, p: LoadPoint) -> str:
        """Say why the latency of a lone load is not enough."""
        return f"loads queue: they take {p.latency:.0f} cycles, alone {self.latency:.0f}"

    def few_lists(self, p: LoadPoint) -> str:
        """Say why there is less waiting than M/D/1 has it."""
        return (
            f"{p.flights / self.number:.3g} lists for each channel cannot queue like endless random arrivals; the "
            "formula that knows their number is compared, too"
        )


def channels(chip: GPU, walker: Walker) -> Channels:
    """Measure a load that is alone, and ask the chip for the rest."""
    gbs = roofs(chip).memory["DRAM"] / 1e9
    service = chip.dram_channels * LINE_BYTES * chip.sm_clock_hz / (gbs * 1e9)
    return Channels(chip.dram_channels, service, measure(chip, walker, 1, 1, sms=1).latency, gbs)


def simulate(chip: GPU, walker: Walker, warps: int, lists: int, sms: int) -> Simulation:
    """Walk the lists on some SMs, with loads alone taking time, and check where they end."""
    rng = np.random.default_rng(0)
    order = rng.permutation(LINES)
    line = np.empty(LINES, np.int64)
    line[order] = np.roll(order, -1)  # one ring through all lines: every list is a part of it
    lanes = np.arange(WARP_SIZE)
    late = rng.integers(0, chip.dram_latency_cycles // chip.branch_latency_cycles + 1, sms * warps)
    dev = Device(chip)
    following = dev.to_device((WARP_SIZE * line[:, None] + lanes).astype(np.int32).ravel())
    rounds, end = dev.to_device(late.astype(np.int32)), dev.malloc(sms * warps * WARP_SIZE, np.int32)
    dev.forget_launches()
    block = max(w for w in range(1, chip.max_threads_per_block // WARP_SIZE + 1) if warps % w == 0)
    grid = sms * warps // block
    dev.launch(*(walker(lists), grid, block * WARP_SIZE, following, rounds, end), registers=16, count="declared")
    at = np.arange(lists * sms * warps)
    for _ in range(STEPS):
        at = line[at]
    expected = (WARP_SIZE * at[:, None] + lanes).reshape(lists, -1).sum(axis=0)
    check_result(dev.to_host(end), expected.astype(np.int32))
    return dev.simulate(caches="off", detail="warp")


def measure(chip: GPU, walker: Walker, warps: int, lists: int, sms: int) -> LoadPoint:
    """Take L, λ and W from the loads' histories, between the slowest warp's first quarter and the fastest one's end."""
    sim = simulate(chip, walker, warps, lists, sms)
    loads = [
        np.array([(issue.cycle, issue.complete_cycle) for issue in warp.issues if issue.op == "global_load"][1:])
        for warp in sim.timeline.warps  # the first load says how late the warp is
    ]
    start, stop = max(warp[len(warp) // 4, 0] for warp in loads), min(warp[-1, 0] for warp in loads)
    issued, back = np.concatenate(loads).T
    inside = (start <= issued) & (issued < stop)
    under_way = np.clip(np.minimum(back, stop) - np.maximum(issued, start), 0, None).sum()
    return LoadPoint(
        warps,
        lists,
        sms * warps * lists,
        float(under_way / (stop - start)),
        float(inside.sum() / (stop - start)),
        float((back - issued)[inside].mean()),
    )


def draw_bandwidth(points: Sequence[LoadPoint], dram: Channels, chip: GPU, path: Path) -> None:
    """Draw bandwidth over bytes in flight, with both forms of the law."""
    kib = LINE_BYTES / 1024 / chip.sms  # of a load, per SM
    flights = np.linspace(1e-3, 1.05 * max(p.flights for p in points), 500)
    ax = laws(
        [Simulated("simulated", [p.flights * kib for p in points], [dram.gbs(p.per_cycle) for p in points])],
        [
            Law("Little's law, L / latency", flights * kib, [dram.gbs(dram.knee(n)) for n in flights], 1, "--"),
            Law("and the wait of M/D/1", flights * kib, [dram.gbs(dram.queued(n)) for n in flights], 2),
        ],
        xlabel="bytes that can be in flight per SM (KiB)",
        ylabel="bandwidth (GB/s)",
        title=f"Little's law: bytes in flight make bandwidth, {chip.title}",
        top=1.1 * dram.bandwidth_gbs,
    )
    save(ax, path)


def draw_wait(points: Sequence[LoadPoint], dram: Channels, chip: GPU, path: Path) -> None:
    """Draw latency over the utilisation of the DRAM."""
    top, right = 2.2 * dram.latency, 102
    shown = [p for p in points if p.latency < top]
    rho = 1 - np.geomspace(1, 1e-4, 400)
    flights = range(1, max(p.flights for p in points) + 1)
    closed = [dram.closed(n) for n in flights]
    busy = [100 * dram.utilisation(n / c) for n, c in zip(flights, closed, strict=True)]
    ax = laws(
        [Simulated("simulated", [100 * dram.utilisation(p.per_cycle) for p in shown], [p.latency for p in shown])],
        [
            Law("latency of a lone load", [0, right], [dram.latency] * 2, 1, "--"),
            Law("latency and wait of M/D/1", 100 * rho, [dram.waiting(r) for r in rho], 2),
            Law("and of a closed queue", busy, closed, 3, ":"),
        ],
        xlabel="DRAM utilisation (%)",
        ylabel="latency of a load (cycles)",
        title=f"Queueing near saturation on {chip.title}",
        right=right,
        top=top,
    )
    save(ax, path)

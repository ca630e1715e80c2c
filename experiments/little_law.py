"""Little's law, L = λW: bytes in flight make the bandwidth, until they queue.

Warps walk through lists that are scattered over memory: each load has to be back before the next one of its list can
go. A list keeps one line of 128 bytes in flight, so the experiment knows L: lists × 128 bytes. Little's law with the
latency of a load that is alone says λ = L / W, at most what the DRAM gives. That holds while loads do not meet. Towards
saturation they do: the channels are queues, and a load waits for those before it. With random arrivals and equal
service a channel is an M/D/1 queue, with a mean wait of ρ S / (2 (1 - ρ)). Put into Little's law, it gives the
bandwidth over the whole range: λ (W + wait(λ)) = L.

Little's law itself assumes a steady state and nothing else: with L, λ and W all taken from the simulated loads it holds
at every point. The formula of the queue breaks close to ρ = 1, where it grows without end: no more loads can wait than
there are lists. Mean value analysis of a closed queue knows their number, and gives the latency on both sides of the
knee. Warps issue in order, so that with several lists a load that could go waits for the list before it, and less is in
flight than there are lists; the closed queue therefore takes the number that was in flight. On a single channel loads
that have waited for each other once come one by one ever after, as in a round of cars through one toll gate, and
nobody waits until there are too many: the sharp knee is right there.

    gpusim-des experiment little_law --gpu h100-sxm --out out
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import gpusim_des as gs
from gpusim_des.grid import WARP_SIZE
from gpusim_des.views import figure, palette

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GPU = "h100-sxm"
SMS = 4  # of the slice
SHAPES = ((1 / 16, 1), (1 / 4, 1), (1 / 2, 1), (3 / 4, 1), (1, 1), (5 / 8, 2), (3 / 4, 2), (1, 2), (1, 3), (1, 4))
QUICK_SHAPES = ((1 / 4, 1), (3 / 4, 1), (1, 1), (1, 4))  # share of an SM's warp slots, lists of a warp
STEPS = 32  # loads of a list
LINE_BYTES = 128
LINES = 1 << 14
IN_ORDER = 0.05  # of the loads in flight, where a list that could go on waits for the one before it
NEARLY_FULL = 0.999  # utilisation from which on M/D/1 has no meaning


def walker(lists: int) -> gs.ThreadKernel:
    """Walk `lists` lists at once. A warp starts late by a number of rounds of its own, so that they do not march."""

    @gs.kernel
    def walk(t: Any, following: Any, late: Any, end: Any) -> None:
        i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
        at = [np.int32(0)] * lists
        for k in range(lists):
            at[k] = i + k * t.gridDim.x * t.blockDim.x
        for _ in range(late[i // WARP_SIZE]):
            at[0] += 0
        for _ in range(STEPS):
            for k in range(lists):
                at[k] = following[at[k]]
        for k in range(1, lists):
            at[0] += at[k]
        end[i] = at[0]

    return walk


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

    @property
    def lines_per_cycle(self) -> float:
        """What they serve at most."""
        return self.number / self.service

    def utilisation(self, per_cycle: float) -> float:
        """Share of the time in which a channel is busy, 0…1."""
        return per_cycle / self.lines_per_cycle

    def queued(self, flights: float) -> float:
        """Loads per cycle λ that solve ``λ (latency + M/D/1 wait) = flights``, a quadratic equation in ρ."""
        a = self.lines_per_cycle * self.latency
        both = a + flights
        rho = 2 * flights / (both + math.sqrt(both * both - 4 * flights * (a - self.number / 2)))
        return rho * self.lines_per_cycle

    def knee(self, flights: float) -> float:
        """Loads per cycle by the law with the latency of a load that is alone, and at most what the DRAM gives."""
        return min(self.lines_per_cycle, flights / self.latency)

    def least(self, flights: int, lists: int) -> float:
        """Loads per cycle of a closed queue, less what warps lose that issue the loads of several lists in order."""
        return flights / self.closed(flights) * (1 - IN_ORDER * (lists > 1))

    def waiting(self, rho: float) -> float:
        """Latency under load by M/D/1."""
        return self.latency + float(gs.analytic.md1_wait(rho, self.service))

    def closed(self, in_flight: float) -> float:
        """Latency with a fixed number of loads in flight."""
        elsewhere = self.latency - self.service
        return float(gs.analytic.closed_queue_seconds(round(in_flight), self.number, self.service, elsewhere))

    def gbs(self, per_cycle: float) -> float:
        """Loads per cycle as bandwidth."""
        return self.utilisation(per_cycle) * self.bandwidth_gbs


def simulate(chip: gs.GPU, warps: int, lists: int, sms: int) -> gs.Simulation:
    """Walk the lists on some SMs, with loads alone taking time, and check where they end."""
    rng = np.random.default_rng(0)
    order = rng.permutation(LINES)
    line = np.empty(LINES, np.int64)
    line[order] = np.roll(order, -1)  # one ring through all lines: every list is a part of it
    lanes = np.arange(WARP_SIZE)
    late = rng.integers(0, chip.dram_latency_cycles // chip.branch_latency_cycles + 1, sms * warps)
    dev = gs.Device(chip)
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
    if not np.array_equal(dev.to_host(end), expected.astype(np.int32)):
        raise AssertionError("the kernel's results differ from NumPy's: this is a bug of the simulator")
    return dev.simulate(caches="off", detail="warp")


def measure(chip: gs.GPU, warps: int, lists: int, sms: int) -> LoadPoint:
    """Take L, λ and W from the loads' histories, between the slowest warp's first quarter and the fastest one's end."""
    sim = simulate(chip, warps, lists, sms)
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


def compared(points: Sequence[LoadPoint], dram: Channels) -> gs.Comparison:
    """The law with two latencies, the wait, and the law as Little proved it."""
    labels, gbs = [p.label for p in points], [dram.gbs(p.per_cycle) for p in points]
    loaded = [p for p in points if dram.utilisation(p.per_cycle) < NEARLY_FULL]

    def few(p: LoadPoint) -> str:
        return (
            f"{p.flights / dram.number:.3g} lists for each channel cannot queue like endless random arrivals; the "
            "formula that knows their number is compared, too"
        )

    table = (
        gs.compare(
            [dram.gbs(dram.knee(p.flights)) for p in points],
            gbs,
            name="Little's law, W = latency of a lone load",
            quantity="bandwidth (GB/s)",
            labels=labels,
            explain={
                p.label: f"loads queue: they take {p.latency:.0f} cycles, alone {dram.latency:.0f}" for p in points
            },
            explained_up_to={
                p.label: gs.experiment.reach(dram.knee(p.flights), dram.least(p.flights, p.lists)) for p in points
            },
            assumes="loads do not meet",
        )
        + gs.compare(
            [dram.gbs(dram.queued(p.flights)) for p in points],
            gbs,
            name="Little's law, W = latency + M/D/1 wait",
            quantity="bandwidth (GB/s)",
            labels=labels,
            explain={p.label: few(p) for p in points},
            explained_up_to={
                p.label: gs.experiment.reach(dram.queued(p.flights), dram.least(p.flights, p.lists)) for p in points
            },
            assumes="random arrivals",
        )
        + gs.compare(
            [p.per_cycle * p.latency for p in points],
            [p.in_flight for p in points],
            name="L = λW",
            quantity="loads in flight",
            labels=labels,
            assumes="a steady state",
        )
        + gs.compare(
            [dram.closed(p.in_flight) for p in points],
            [p.latency for p in points],
            name="latency + wait of a closed queue" if dram.number > 1 else "max(latency, loads × service)",
            quantity="latency under load (cycles)",
            labels=labels,
            assumes="as many loads as are in flight, each to a random channel",
        )
    )
    if loaded:  # a single channel can be full from a few warps on
        table += gs.compare(
            [dram.waiting(dram.utilisation(p.per_cycle)) for p in loaded],
            [p.latency for p in loaded],
            name="latency + M/D/1 wait",
            quantity="latency under load (cycles)",
            labels=[p.label for p in loaded],
            explain={p.label: few(p) for p in loaded},
            explained_up_to={
                p.label: gs.experiment.reach(dram.waiting(dram.utilisation(p.per_cycle)), dram.closed(p.in_flight))
                for p in loaded
            },
            assumes="random arrivals without end",
        )
    return table


def main(gpu: str = GPU, out: Path | None = None, *, quick: bool = False) -> tuple[list[LoadPoint], gs.Comparison]:
    whole = gs.load_gpu(gpu)
    chip = whole.slice(sms=min(SMS, whole.sms))
    full = chip.max_warps_per_sm
    shapes = [(max(1, round(full * part)), lists) for part, lists in (QUICK_SHAPES if quick else SHAPES)]
    lone = measure(chip, 1, 1, sms=1)
    gbs = gs.analytic.roofs(chip).memory["DRAM"] / 1e9
    service = chip.dram_channels * LINE_BYTES * chip.sm_clock_hz / (gbs * 1e9)
    dram = Channels(chip.dram_channels, service, lone.latency, gbs)
    points = [measure(chip, warps, lists, chip.sms) for warps, lists in dict.fromkeys(shapes)]
    table = compared(points, dram)
    print(
        f"{chip.title}: {dram.number} channels, a line of {LINE_BYTES} bytes takes {service:.1f} cycles on one, a lone "
        f"load {dram.latency:.0f}\n{table}"
    )
    if out is not None:
        for name, ax in (
            ("little_law", draw_bandwidth(points, dram, chip)),
            ("little_law_wait", draw_wait(points, dram, whole)),
        ):
            gs.views.save(ax, out / f"{name}.png")
            print(f"written: {out / name}.png")
    return points, table


def draw_bandwidth(points: Sequence[LoadPoint], dram: Channels, chip: gs.GPU) -> Axes:
    """Bandwidth over bytes in flight, with both forms of the law."""
    ax = figure.new_axes(None, 9.5, 5.0)
    kib = LINE_BYTES / 1024 / chip.sms  # of a load, per SM
    flights = np.linspace(1e-3, 1.05 * max(p.flights for p in points), 500)
    law = [dram.gbs(dram.knee(n)) for n in flights]
    queued = [dram.gbs(dram.queued(n)) for n in flights]
    ax.plot(
        flights * kib,
        law,
        color=palette.kernel_color(1),
        linewidth=2,
        linestyle="--",
        label="Little's law, L / latency",
    )
    ax.plot(flights * kib, queued, color=palette.kernel_color(2), linewidth=2, label="and the wait of M/D/1")
    ax.plot(
        [p.flights * kib for p in points],
        [dram.gbs(p.per_cycle) for p in points],
        *("o",),
        color=palette.kernel_color(0),
        markersize=8,
        label="simulated",
        zorder=3,
    )
    ax.set_xlim(0)
    ax.set_ylim(0, 1.1 * dram.bandwidth_gbs)
    ax.set_xlabel("bytes that can be in flight per SM (KiB)")
    ax.set_ylabel("bandwidth (GB/s)")
    return _finish(ax, f"Little's law: bytes in flight make bandwidth, {chip.title}")


def draw_wait(points: Sequence[LoadPoint], dram: Channels, chip: gs.GPU) -> Axes:
    """Latency over the utilisation of the DRAM."""
    ax = figure.new_axes(None, 9.5, 5.0)
    top = 2.2 * dram.latency
    rho = 1 - np.geomspace(1, 1e-4, 400)
    shown = [p for p in points if p.latency < top]
    ax.plot(
        100 * rho,
        [dram.waiting(r) for r in rho],
        color=palette.kernel_color(2),
        linewidth=2,
        label="latency and wait of M/D/1",
    )
    flights = range(1, max(p.flights for p in points) + 1)
    closed = [dram.closed(n) for n in flights]
    busy = [100 * dram.utilisation(n / c) for n, c in zip(flights, closed, strict=True)]
    ax.plot(busy, closed, color=palette.kernel_color(3), linewidth=2, linestyle=":", label="and of a closed queue")
    ax.plot(
        [100 * dram.utilisation(p.per_cycle) for p in shown],
        [p.latency for p in shown],
        *("o",),
        color=palette.kernel_color(0),
        markersize=8,
        label="simulated",
        zorder=3,
    )
    ax.axhline(
        dram.latency,
        color=palette.kernel_color(1),
        linewidth=1.6,
        linestyle="--",
        label="latency of a lone load",
        zorder=1,
    )
    ax.set_xlim(0, 102)
    ax.set_ylim(0, top)
    ax.set_xlabel("DRAM utilisation (%)")
    ax.set_ylabel("latency of a load (cycles)")
    return _finish(ax, f"Queueing near saturation on {chip.title}")


def _finish(ax: Axes, title: str) -> Axes:
    ax.grid(color="#e6e6e6", linewidth=0.8)
    ax.set_axisbelow(True)
    figure.open_frame(ax)
    figure.outside_legend(ax, ax.get_legend_handles_labels()[0])
    ax.set_title(title)
    return ax


if __name__ == "__main__":
    gs.experiment.script(main)

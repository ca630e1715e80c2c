"""An array read with many launch shapes: occupancy, time and its three limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from gpusim_des.analytic import occupancy, waves
from gpusim_des.experiment import save
from gpusim_des.explanations import reading_s
from gpusim_des.gpu import GPU, Occupancy
from gpusim_des.simulation import Simulation
from gpusim_des.textbook.reading import read_array
from gpusim_des.timeline import KernelTiming
from gpusim_des.units import FS_PER_S, to_us
from gpusim_des.views import figure, palette

QUEUES = 0.35
"""Of the time, where two limits are the same: then blocks wait for each other."""
WAVES = 16
"""Of one element per thread at full occupancy: what every kernel reads."""


def registers_for(loads: int) -> int:
    """Registers of a thread with so many loads under way: value and address each, and 24 more (an assumption)."""
    return 24 + 4 * loads


@dataclass(frozen=True)
class Shape:
    """A launch shape."""

    loads: int
    threads: int
    registers: int
    shared_bytes: int
    occupancy: Occupancy

    @property
    def label(self) -> str:
        """Name of the row."""
        reserved = f", {self.shared_bytes // 1024} KiB" if self.shared_bytes else ""
        return f"{self.loads} load{'s' * (self.loads > 1)}, {self.threads} threads{reserved}"


@dataclass(frozen=True)
class OccupancyRun:
    """One launch shape, simulated."""

    shape: Shape
    chip: GPU
    kernel: KernelTiming
    most_resident: int
    """Blocks on an SM at a time, at most."""
    block_us: float
    """Time that a block holds its slot, mean."""
    lone_us: float
    """The same of a block that is alone."""
    lone_warp_cycles: int
    """Cycles of its warps."""

    @property
    def label(self) -> str:
        """Name of the row."""
        return self.shape.label

    @property
    def us(self) -> float:
        """Simulated time."""
        return self.kernel.seconds * 1e6

    @cached_property
    def limits_us(self) -> dict[str, float]:
        """Least time by each of the three limits."""
        chip, blocks = self.chip, self.kernel.blocks
        nbytes = 4 * blocks * self.shape.threads * self.shape.loads
        count = waves(blocks, self.kernel.blocks_per_sm, chip.sms).count
        return {
            "DRAM": reading_s(chip, nbytes) * 1e6,
            "block scheduler": (blocks - 1) * chip.dispatch_interval_fs / FS_PER_S * 1e6 + self.lone_us,
            "latency": count * self.lone_us,
        }

    @property
    def limiter(self) -> str:
        """The limit that takes longest."""
        return max(self.limits_us, key=lambda limit: self.limits_us[limit])

    @property
    def placed(self) -> float:
        """Blocks on an SM that the block scheduler places before the first one ends."""
        return self.lone_us / (self.chip.sms * self.chip.dispatch_interval_fs / FS_PER_S * 1e6)

    @property
    def queues(self) -> float:
        """Share of the time that blocks may wait for each other: more where a second limit is close to the first."""
        *_, second, first = sorted(self.limits_us.values())
        return QUEUES * second / first

    @property
    def filled(self) -> float:
        """Share of the time, over all slots, in which a block holds a slot, 0…1."""
        k = self.kernel
        return k.blocks * self.block_us / (k.blocks_per_sm * k.sms * self.us)

    @property
    def littles_occupancy(self) -> float:
        """Occupancy by Little's law, L = λW: blocks per active time × the stay of a lone one's warps."""
        k = self.kernel
        resident = k.blocks * self.lone_warp_cycles / (self.chip.max_warps_per_sm * k.sm_active_cycles)
        return min(k.theoretical_occupancy, resident)

    @property
    def present(self) -> float:
        """Share of its block's time in which a warp is resident, 0…1."""
        k = self.kernel
        block_cycles = self.block_us * self.chip.sm_clock_hz / 1e6
        return k.resident_warp_cycles / (k.blocks * k.warps_per_block * block_cycles)

    @property
    def among_others(self) -> str:
        """What a block takes, in words."""
        return f"a block takes {self.block_us:.3f} µs among others, {self.lone_us:.3f} alone"

    @property
    def slot_taken(self) -> str:
        """What of the time a slot is of use, in words."""
        return f"its slot is taken {self.filled:.0%} of the time"


def shapes(chip: GPU, loads: Sequence[int], threads: Sequence[int], shared: Sequence[float]) -> list[Shape]:
    """Launch shapes that the GPU can hold, those left out whose shared memory changes nothing.

    Parameters
    ----------
    chip, loads, threads
        The GPU, loads of a thread and threads of a block, at most as many as the GPU allows.
    shared
        Of a block, as shares of an SM's shared memory.
    """
    found: list[Shape] = []
    for number in loads:
        registers = min(registers_for(number), chip.max_registers_per_thread)
        for size in sorted({min(n, chip.max_threads_per_block) for n in threads}):
            before = 0
            for part in shared:
                nbytes = min(int(part * chip.shared_bytes_per_sm), chip.shared_bytes_per_block_optin) // 1024 * 1024
                fits = occupancy(chip, size, registers, nbytes)
                if fits.blocks_per_sm not in (0, before):
                    found.append(Shape(number, size, registers, nbytes, fits))
                before = fits.blocks_per_sm
    return found


def simulate(chip: GPU, shape: Shape, blocks: int) -> Simulation:
    """Run one launch shape."""
    launch = {"registers": shape.registers, "dynamic_shared": shape.shared_bytes}
    return read_array(chip, shape.loads, blocks, shape.threads, **launch).simulate(caches="off")


def measure(chip: GPU, shape: Shape) -> OccupancyRun:
    """Read the same array with one launch shape, and time a block of it alone."""
    blocks = WAVES * chip.sms * chip.max_threads_per_sm // (shape.threads * shape.loads)
    sim, alone = simulate(chip, shape, blocks), simulate(chip, shape, 1)
    spans, lone = sim.timeline.blocks, alone.timeline.blocks[0]
    return OccupancyRun(
        shape,
        chip,
        sim.kernels[0],
        max(span.slot for span in spans) + 1,
        to_us(sum(span.end_fs - span.start_fs for span in spans) / len(spans)),
        to_us(lone.end_fs - lone.start_fs),
        alone.kernels[0].resident_warp_cycles,
    )


def draw(runs: Sequence[OccupancyRun], chip: GPU, path: Path) -> None:
    """Time over occupancy: theoretical filled, achieved hollow; colours are loads, markers block sizes."""
    ax = figure.new_axes(None, 9.5, 5.4)
    loads, sizes = sorted({r.shape.loads for r in runs}), sorted({r.shape.threads for r in runs})
    colors = {n: palette.kernel_color(k) for k, n in enumerate(loads)}
    markers = dict(zip(sizes, ("^", "s", "o"), strict=False))
    for r in runs:
        x = 100 * r.kernel.theoretical_occupancy, 100 * r.kernel.achieved_occupancy
        color, marker = colors[r.shape.loads], markers[r.shape.threads]
        ax.plot(x, (r.us, r.us), color=palette.lighter(color, 0.5), linewidth=1.2, zorder=2)
        ax.plot(x[1], r.us, marker, color=color, markerfacecolor="white", markersize=7, zorder=3)
        ax.plot(x[0], r.us, marker, color=color, markersize=8, zorder=4)
    floor = runs[0].limits_us["DRAM"]
    ax.axhline(floor, color="#555555", linewidth=1.2, linestyle="--", zorder=1)
    handles = [
        ax.plot([], [], color=colors[n], linewidth=6, label=f"{n} load{'s' * (n > 1)}, {registers_for(n)} registers")[0]
        for n in loads
    ]
    handles += [ax.plot([], [], markers[n], color="#777777", label=f"{n} threads per block")[0] for n in sizes]
    handles += ax.plot([], [], "o", color="#777777", label="theoretical occupancy")
    handles += ax.plot([], [], "o", color="#777777", markerfacecolor="white", label="achieved occupancy")
    handles += ax.plot([], [], color="#555555", linewidth=1.2, linestyle="--", label="DRAM limit")
    named = {
        "fastest": min(runs, key=lambda r: r.us),
        "slowest at the highest occupancy": max(runs, key=lambda r: (r.kernel.theoretical_occupancy, r.us)),
    }
    for text, r in named.items():
        at = 100 * r.kernel.theoretical_occupancy, r.us
        ax.annotate(f"{text}: {r.us:.1f} µs", at, (0, 9), textcoords="offset points", ha="right", fontweight="bold")
    ax.set_yscale("log")
    ax.set_ylim(0.8 * floor, 1.6 * max(r.us for r in runs))
    ticks = [value for power in range(-1, 5) for value in (10.0**power, 2 * 10.0**power, 5 * 10.0**power)]
    low, high = ax.get_ylim()
    ax.set_yticks(shown := [value for value in ticks if low <= value <= high], [f"{value:g}" for value in shown])
    ax.set_yticks([], minor=True)
    ax.set_xlim(0, 104)
    ax.set_xlabel("occupancy (%)")
    ax.set_ylabel("time (µs)")
    ax.grid(color="#e6e6e6", linewidth=0.8)
    ax.set_axisbelow(True)
    figure.open_frame(ax)
    figure.outside_legend(ax, handles)
    ax.set_title(f"The highest occupancy is not the fastest: reading an array on {chip.title}")
    save(ax, path)

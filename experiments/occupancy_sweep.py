"""Occupancy sweep: block size × registers × shared memory, and why the highest occupancy is not the fastest.

A kernel reads an array, one, four or sixteen elements per thread, all loads under way before the first is used. More
elements take more registers, so that fewer warps fit; but each brings more bytes under way, and it is bytes that hide a
latency, not warps (Volkov 2010). Shared memory that a block reserves takes warps away and gives nothing back here.

Three limits make the time, and the slowest of them counts: the DRAM (bytes / bandwidth, after the first latency), the
block scheduler (blocks × interval: small blocks that live for a moment cannot be handed out fast enough, whatever
would fit), and latency (Little's law for blocks: waves × the time of a block that is alone). The formula assumes that
blocks do not disturb each other; where latency and DRAM come close, they queue, and the time is above it.

The occupancy calculator says how many blocks fit. So many are resident at a time, unless the block scheduler is too
slow; the achieved occupancy is lower, for slots stand empty while blocks start and end.

    gpusim-des experiment occupancy_sweep --gpu h100-sxm --out out
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import gpusim_des as gs
from gpusim_des.gpu import Occupancy
from gpusim_des.timeline import FS_PER_S
from gpusim_des.views import figure, palette

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GPU = "h100-sxm"
SMS = 2  # of the slice: every SM has its share of the DRAM and of the block scheduler
THREADS, QUICK_THREADS = (64, 256, 1024), (64, 256)
LOADS, QUICK_LOADS = (1, 4, 16), (1, 16)
SHARED, QUICK_SHARED = (0, 1 / 5, 1 / 3), (0, 1 / 3)  # of an SM's shared memory, for a block
QUEUES = 0.35  # of the time, where two limits are the same: then blocks wait for each other
WAVES = 16  # of one element per thread at full occupancy: what every kernel reads


def registers_for(loads: int) -> int:
    """Registers of a thread with so many loads under way: value and address each, and 24 more (an assumption)."""
    return 24 + 4 * loads


def reader(loads: int) -> gs.ThreadKernel:
    """Sum up `loads` elements, a grid apart; a sum is written only if it is negative, so that all traffic is reads."""

    @gs.kernel
    def read(t: Any, a: Any, out: Any) -> None:
        i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
        x = [np.float32(0)] * loads
        for k in range(loads):
            x[k] = a[i + k * t.gridDim.x * t.blockDim.x]
        for k in range(1, loads):
            x[0] += x[k]
        if x[0] < 0:
            out[i] = x[0]

    return read


@dataclass(frozen=True)
class Shape:
    """A launch shape."""

    loads: int
    threads: int
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
    chip: gs.GPU
    kernel: gs.KernelTiming
    most_resident: int
    """Blocks on an SM at a time, at most."""
    block_us: float
    """Time that a block holds its slot, mean."""
    lone_us: float
    """The same of a block that is alone."""
    lone_warp_cycles: int
    """Cycles of its warps."""

    @property
    def us(self) -> float:
        """Simulated time."""
        return self.kernel.seconds * 1e6

    @cached_property
    def limits_us(self) -> dict[str, float]:
        """Least time by each of the three limits."""
        chip, blocks = self.chip, self.kernel.blocks
        nbytes = 4 * blocks * self.shape.threads * self.shape.loads
        first = gs.experiment.ends_s(chip)
        waves = gs.analytic.waves(blocks, self.kernel.blocks_per_sm, chip.sms).count
        return {
            "DRAM": (nbytes / gs.analytic.roofs(chip).memory["DRAM"] + first) * 1e6,
            "block scheduler": (blocks - 1) * chip.dispatch_interval_fs / FS_PER_S * 1e6 + self.lone_us,
            "latency": waves * self.lone_us,
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


def shapes(chip: gs.GPU, *, quick: bool) -> list[Shape]:
    """Launch shapes that the GPU can hold, those left out whose shared memory changes nothing."""
    threads = sorted({min(n, chip.max_threads_per_block) for n in (QUICK_THREADS if quick else THREADS)})
    found: list[Shape] = []
    for loads in QUICK_LOADS if quick else LOADS:
        for size in threads:
            before = 0
            for part in QUICK_SHARED if quick else SHARED:
                nbytes = min(int(part * chip.shared_bytes_per_sm), chip.shared_bytes_per_block_optin) // 1024 * 1024
                fits = gs.analytic.occupancy(
                    chip, size, min(registers_for(loads), chip.max_registers_per_thread), nbytes
                )
                if fits.blocks_per_sm not in (0, before):
                    found.append(Shape(loads, size, nbytes, fits))
                before = fits.blocks_per_sm
    return found


def simulate(chip: gs.GPU, shape: Shape, blocks: int) -> gs.Simulation:
    """Run one launch shape and check its sums against NumPy."""
    dev = gs.Device(chip)
    threads = blocks * shape.threads
    x = np.random.default_rng(0).random(threads * shape.loads, dtype=np.float32)
    x[:: threads // 2] = -100  # a few sums are negative
    a, out = dev.to_device(x), dev.to_device(np.zeros(threads, np.float32))
    dev.forget_launches()
    registers = min(registers_for(shape.loads), chip.max_registers_per_thread)
    dev.launch(
        *(reader(shape.loads), blocks, shape.threads, a, out), registers=registers, dynamic_shared=shape.shared_bytes
    )
    sums = x.reshape(shape.loads, threads).sum(axis=0)
    if not np.allclose(dev.to_host(out), np.minimum(sums, 0), rtol=1e-5):
        raise AssertionError("the kernel's results differ from NumPy's: this is a bug of the simulator")
    return dev.simulate(caches="off")


def measure(chip: gs.GPU, shape: Shape) -> OccupancyRun:
    """Read the same array with one launch shape, and time a block of it alone."""
    blocks = WAVES * chip.sms * chip.max_threads_per_sm // (shape.threads * shape.loads)
    sim, alone = simulate(chip, shape, blocks), simulate(chip, shape, 1)
    spans, lone = sim.timeline.blocks, alone.timeline.blocks[0]
    return OccupancyRun(
        shape,
        chip,
        sim.kernels[0],
        max(span.slot for span in spans) + 1,
        sum(span.end_fs - span.start_fs for span in spans) / len(spans) / 1e9,
        (lone.end_fs - lone.start_fs) / 1e9,
        alone.kernels[0].resident_warp_cycles,
    )


def compared(runs: Sequence[OccupancyRun]) -> gs.Comparison:
    """Blocks that fit, occupancy, and time."""
    labels = [r.shape.label for r in runs]
    free = [r for r in runs if r.limiter != "DRAM"] or runs
    achieved = [100 * r.kernel.achieved_occupancy for r in runs]
    among = {r.shape.label: f"a block takes {r.block_us:.3f} µs among others, {r.lone_us:.3f} alone" for r in runs}
    taken = {r.shape.label: f"its slot is taken {r.filled:.0%} of the time" for r in runs}
    return (
        gs.compare(
            *([r.shape.occupancy.blocks_per_sm for r in runs], [r.most_resident for r in runs]),
            name="occupancy calculator",
            quantity="blocks on an SM at a time",
            labels=labels,
            tolerance=0,
            explain={
                r.shape.label: f"the first blocks, {r.block_us:.2f} µs each, end before the block scheduler has placed "
                f"so many, one every {r.chip.dispatch_interval_fs / 1e6:.3g} ns"
                for r in runs
                if r.limiter == "block scheduler"
            },
            explained_up_to={
                r.shape.label: gs.experiment.reach(r.shape.occupancy.blocks_per_sm, r.placed - 1)
                for r in runs
                if r.limiter == "block scheduler"
            },
        )
        + gs.compare(
            *([100 * r.kernel.theoretical_occupancy for r in runs], achieved),
            name="theoretical occupancy",
            quantity="achieved occupancy (%)",
            labels=labels,
            explain={r.shape.label: f"{taken[r.shape.label]}, by warps {r.present:.0%} of that" for r in runs},
            explained_up_to={
                r.shape.label: gs.experiment.reach(r.kernel.theoretical_occupancy, r.littles_occupancy) for r in runs
            },
            assumes="slots are never empty",
        )
        + gs.compare(
            *([100 * r.littles_occupancy for r in free], [100 * r.kernel.achieved_occupancy for r in free]),
            name="Little's law, W = stay of a lone block's warps",
            quantity="achieved occupancy (%)",
            labels=[r.shape.label for r in free],
            explain={r.shape.label: among[r.shape.label] for r in free},
            explained_up_to={r.shape.label: r.queues for r in free},
            assumes="blocks do not wait for the DRAM",
        )
        + gs.compare(
            *([max(r.limits_us.values()) for r in runs], [r.us for r in runs]),
            name="max(DRAM, block scheduler, latency)",
            quantity="time (µs)",
            labels=labels,
            explain={
                r.shape.label: f"{among[r.shape.label]}; {taken[r.shape.label]}, the DRAM busy "
                f"{r.kernel.dram_utilization:.0%}"
                for r in runs
            },
            explained_up_to={r.shape.label: r.queues for r in runs},
            assumes="blocks do not disturb each other",
        )
    )


def main(gpu: str = GPU, out: Path | None = None, *, quick: bool = False) -> tuple[list[OccupancyRun], gs.Comparison]:
    whole = gs.load_gpu(gpu)
    chip = whole.slice(sms=min(SMS, whole.sms))
    runs = [measure(chip, shape) for shape in shapes(chip, quick=quick)]
    table = compared(runs)
    print(f"{chip.title}\n{table}\n")
    for r in sorted(runs, key=lambda r: r.us):
        k = r.kernel
        occupancies = f"{k.theoretical_occupancy:6.1%} {k.achieved_occupancy:6.1%}"
        print(f"{r.us:8.2f} µs  {occupancies}  {r.shape.label:<32} limited by {r.limiter}")
    best, most = min(runs, key=lambda r: r.us), max(runs, key=lambda r: r.kernel.theoretical_occupancy)
    print(
        f"fastest at {best.kernel.theoretical_occupancy:.1%} occupancy, {best.us:.2f} µs; {most.shape.label} takes "
        f"{most.us:.2f} µs at {most.kernel.theoretical_occupancy:.1%}"
    )
    if out is not None:
        gs.views.save(draw(runs, whole), out / "occupancy_sweep.png")
        print(f"written: {out / 'occupancy_sweep.png'}")
    return runs, table


def draw(runs: Sequence[OccupancyRun], chip: gs.GPU) -> Axes:
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
    return ax


if __name__ == "__main__":
    gs.experiment.script(main)

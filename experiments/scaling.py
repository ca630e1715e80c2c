"""Scaling: Amdahl's and Gustafson's laws by the number of SMs.

A program has a part that one block does alone, and a part that many blocks share. On n SMs the second takes an n-th of
the time, the first all of it: Amdahl's speed-up is 1 / (s + (1 - s) / n), never above 1 / s, with s the serial share of
the time on one SM. If the work grows with the SMs, the parallel part always takes as long, and Gustafson's speed-up
against one SM with all of that work is n - s (n - 1), with s the serial share of the time on n. To the serial part
belongs the gap between two kernels, in which no SM works.

Both take for granted that work divides into n equal parts and that nothing is shared. The first breaks where the SMs do
not divide the blocks: whole waves count, ⌈blocks / n⌉. The second breaks for a kernel that reads memory: all SMs share
the DRAM, and more of them do not make it faster. Nothing of the kernel is serial but its first latency and the start
and end of blocks, yet a serial fraction can be computed from the speed-up (Karp and Flatt): as long as it is the same
for every n it is serial work, and where it grows with n it is contention.

    gpusim-des experiment scaling --gpu h100-sxm --out out
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import gpusim_des as gs
from gpusim_des.timeline import FS_PER_S
from gpusim_des.views import figure, palette

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GPU = "h100-sxm"
SMS, QUICK_SMS = (1, 2, 4, 8, 16, 32, 64), (1, 4, 16)
UNEVEN, QUICK_UNEVEN = (24, 48), (6, 12)  # numbers of SMs that do not divide the blocks
THREADS = 32  # a warp is enough where each instruction waits for the one before
READERS = 128  # threads of a block that reads memory
CHAIN = 100  # square roots of a thread in the parallel part
SERIAL_CHAIN = 250  # and of the only block in the serial part
GOLDEN_RATIO = (1 + 5**0.5) / 2
READS = 16  # elements of a thread that reads memory
US = 1e6 / FS_PER_S
QUEUES = 0.05  # of the speed-up: where DRAM is nearly full, loads queue
LAST_WRITES = 0.05  # of the serial part


def chain(length: int) -> gs.ThreadKernel:
    """A chain of dependent square roots in every thread, and one store."""

    @gs.kernel
    def square_roots(t: Any, out: Any) -> None:
        x = np.float32(1)
        for _ in range(length):
            x = np.sqrt(x + np.float32(1))
        out[t.blockIdx.x * t.blockDim.x + t.threadIdx.x] = x

    return square_roots


@gs.kernel
def read(t: Any, a: Any, out: Any) -> None:
    """Sum up elements a grid apart; only a negative sum is written, so that all traffic is reads."""
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    x = [np.float32(0)] * READS
    for k in range(READS):
        x[k] = a[i + k * t.gridDim.x * t.blockDim.x]
    for k in range(1, READS):
        x[0] += x[k]
    if x[0] < 0:
        out[i] = x[0]


@dataclass(frozen=True)
class Run:
    """One program on some SMs; microseconds."""

    sms: int
    us: float
    """From the start of the first kernel to the end of the last."""
    parallel_us: float
    """Of the parallel kernel."""
    dram_utilization: float

    @property
    def serial_fraction(self) -> float:
        """Share of the time in which at most one block works, 0…1: first kernel and gap."""
        return 1 - self.parallel_us / self.us


def compute(chip: gs.GPU, sms: int, blocks: int) -> Run:
    """Run the serial part and then `blocks` blocks, one on an SM at a time, on a slice of the chip."""
    part = chip.slice(sms=sms)
    dev = gs.Device(part)
    out = dev.malloc(blocks * THREADS, np.float32)
    whole_sm = min(part.shared_bytes_per_block_optin, part.shared_bytes_per_sm - part.shared_bytes_reserved_per_block)
    for kernel, grid in ((chain(SERIAL_CHAIN), 1), (chain(CHAIN), blocks)):
        dev.launch(kernel, grid, THREADS, out, registers=32, dynamic_shared=whole_sm)
    if not np.allclose(dev.to_host(out), GOLDEN_RATIO):  # the limit of x = √(x + 1)
        raise AssertionError("the kernel's results are not the golden ratio: this is a bug of the simulator")
    return finished(dev.simulate(caches="off", detail="kernel"), sms)


def memory(chip: gs.GPU, sms: int, blocks: int) -> Run:
    """Read memory on some SMs of a chip whose DRAM is always whole."""
    dev = gs.Device(chip.replace(sms=sms))
    x = np.random.default_rng(0).random(blocks * READERS * READS, dtype=np.float32)
    x[:: blocks * READERS // 2] = -100  # a few sums are negative
    a, out = dev.to_device(x), dev.to_device(np.zeros(blocks * READERS, np.float32))
    dev.forget_launches()
    dev.launch(read, blocks, READERS, a, out, registers=32)
    if not np.allclose(dev.to_host(out), np.minimum(x.reshape(READS, -1).sum(axis=0), 0), rtol=1e-4):
        raise AssertionError("the kernel's results differ from NumPy's: this is a bug of the simulator")
    return finished(dev.simulate(caches="off", detail="kernel"), sms)


def finished(sim: gs.Simulation, sms: int) -> Run:
    """What a program's kernels took."""
    kernels = sim.kernels
    us = (kernels[-1].end_fs - kernels[0].start_fs) * US
    return Run(sms, us, kernels[-1].seconds * 1e6, kernels[-1].dram_utilization)


@dataclass(frozen=True)
class Speedup:
    """A speed-up, by formula and simulated."""

    law: str
    """``Amdahl``, ``uneven``, ``Gustafson`` or ``reading``."""
    sms: int
    formula: float
    better: float
    """A formula that knows whole waves, or the DRAM; the same where there is nothing to know."""
    simulated: float
    dram_utilization: float


def strong(chip: gs.GPU, numbers: Sequence[int], uneven: Sequence[int]) -> tuple[list[Speedup], gs.Comparison]:
    """One program on more and more SMs."""
    blocks = 8 * numbers[-1] if numbers[-1] < 8 else numbers[-1]
    one = compute(chip, 1, blocks)
    s, found = one.serial_fraction, []
    for sms in (*numbers, *uneven):
        run = one if sms == 1 else compute(chip, sms, blocks)
        waves = gs.analytic.waves(blocks, 1, sms).count
        whole = one.us / (s * one.us + one.parallel_us * waves / blocks)
        law = "uneven" if sms in uneven else "Amdahl"
        amdahl = float(gs.analytic.amdahl(s, sms))
        found.append(Speedup(law, sms, amdahl, whole, one.us / run.us, run.dram_utilization))
    even = [p for p in found if p.law == "Amdahl"]
    fitted = gs.analytic.fit_serial_fraction([p.sms for p in even], [p.simulated for p in even])
    return found, gs.compare(
        *(s, fitted),
        name="serial share on one SM",
        quantity="serial fraction, fitted to the speed-ups",
        labels=[f"1 to {even[-1].sms} SMs"],
        explain="the last writes of the parallel part are serial, too",
        explained_up_to=LAST_WRITES,
        assumes="Amdahl's law",
    )


def scaled(chip: gs.GPU, numbers: Sequence[int]) -> list[Speedup]:
    """Four blocks for each SM: the program grows with the chip."""
    found = []
    for sms in numbers:
        large, one = compute(chip, sms, 4 * sms), compute(chip, 1, 4 * sms)
        formula = float(gs.analytic.gustafson(large.serial_fraction, sms))
        found.append(Speedup("Gustafson", sms, formula, formula, one.us / large.us, large.dram_utilization))
    return found


def reading(chip: gs.GPU, numbers: Sequence[int]) -> list[Speedup]:
    """A kernel without a serial part that reads memory; the DRAM is that of the largest number of SMs."""
    part = chip.slice(sms=numbers[-1])
    blocks = 16 * numbers[-1]
    runs = [memory(part, sms, blocks) for sms in numbers]
    one = runs[0].us
    # Start of the first blocks, first latency, end of the last ones: no number of SMs shortens them.
    edges = gs.experiment.ends_s(part) * 1e6
    dram = 4 * blocks * READERS * READS / gs.analytic.roofs(part).memory["DRAM"] * 1e6
    found = []
    for run in runs:
        better = one / (edges + max((one - edges) / run.sms, dram))
        amdahl = float(gs.analytic.amdahl(0, run.sms))
        found.append(Speedup("reading", run.sms, amdahl, better, one / run.us, run.dram_utilization))
    return found


def compared(points: Sequence[Speedup]) -> gs.Comparison:
    """A table for each law."""

    def table(law: str, name: str, why: str, assumes: str, *, better: bool = False) -> list[gs.Comparison]:
        chosen = [p for p in points if p.law == law]
        if not chosen:
            return []
        return [
            gs.compare(
                [p.better if better else p.formula for p in chosen],
                [p.simulated for p in chosen],
                name=name,
                quantity="speed-up",
                labels=[f"{p.sms} SM{'s' * (p.sms > 1)}" for p in chosen],
                explain={
                    f"{p.sms} SM{'s' * (p.sms > 1)}": why.format(dram=f"{p.dram_utilization:.0%}") for p in chosen
                },
                explained_up_to={
                    f"{p.sms} SM{'s' * (p.sms > 1)}": -QUEUES if better else gs.experiment.reach(p.formula, p.better)
                    for p in chosen
                },
                assumes=assumes,
            )
        ]

    waves = "the SMs do not divide the blocks: in the last wave some have none"
    full = "first latency, start and end of blocks are not divided, and all share the DRAM, busy {dram} of the time"
    near = "the DRAM is busy {dram} of the time, and loads queue before it is full"
    even, alone = "blocks that divide evenly", "nothing shared"
    tables = [
        *table("Amdahl", "Amdahl's law", "", even),
        *table("uneven", "Amdahl's law, blocks that do not divide evenly", waves, even),
        *table("uneven", "the same with whole waves", "", "equal blocks", better=True),
        *table("Gustafson", "Gustafson's law", "", even),
        *table("reading", "Amdahl's law, reading memory", full, alone),
        *table("reading", "edges + max(work / SMs, DRAM), reading memory", near, "no queues", better=True),
    ]
    return sum(tables[1:], tables[0])


def main(gpu: str = GPU, out: Path | None = None, *, quick: bool = False) -> tuple[list[Speedup], gs.Comparison]:
    chip = gs.load_gpu(gpu)
    if chip.sms == 1:
        raise ValueError(f"{chip.name} has 1 SM: scaling needs at least 2, take another GPU")
    numbers = [n for n in (QUICK_SMS if quick else SMS) if n <= chip.sms]
    if len(numbers) == 1:
        numbers = sorted({1, chip.sms})
    uneven = [n for n in (QUICK_UNEVEN if quick else UNEVEN) if n < numbers[-1]]
    points, fitted = strong(chip, numbers, uneven)
    points += scaled(chip, numbers) + reading(chip, numbers)
    table = compared(points) + fitted
    print(f"{chip.title}\n{table}\n")
    print("serial fraction that the speed-ups show (Karp and Flatt):")
    for law in ("Amdahl", "reading"):
        shown = [p for p in points if p.law == law and p.sms > 1]
        print(f"  {law}: " + ", ".join(f"{p.sms} SMs {gs.analytic.karp_flatt(p.simulated, p.sms):.3f}" for p in shown))
    if out is not None:
        gs.views.save(draw(points, chip), out / "scaling.png")
        print(f"written: {out / 'scaling.png'}")
    return points, table


def draw(points: Sequence[Speedup], chip: gs.GPU) -> Axes:
    """Speed-ups over the number of SMs."""
    ax = figure.new_axes(None, 9.5, 5.4)
    numbers = [p.sms for p in points if p.law == "Gustafson"]
    (ideal,) = ax.plot(numbers, numbers, color="#999999", linewidth=1.2, linestyle=":", label="ideal")
    handles = [ideal]
    named = (
        ("Gustafson", "work grows with the SMs: Gustafson", "^"),
        ("Amdahl", "one problem with a serial part: Amdahl", "o"),
        ("uneven", "SMs that do not divide the blocks", "x"),
        ("reading", "reading memory: all share the DRAM", "s"),
    )
    for number, (law, label, marker) in enumerate(named):
        chosen = sorted((p for p in points if p.law == law), key=lambda p: p.sms)
        if not chosen:
            continue
        color = palette.kernel_color(number)
        if law != "uneven":
            line = [p.better if law == "reading" else p.formula for p in chosen]
            ax.plot([p.sms for p in chosen], line, color=color, linewidth=1.5, zorder=2)
        x, y = [p.sms for p in chosen], [p.simulated for p in chosen]
        handles += ax.plot(x, y, marker, color=color, markersize=8, markeredgewidth=2, label=label, zorder=3)
    handles += ax.plot([], [], color="#555555", linewidth=1.5, label="lines: formula")
    ax.set_xscale("log", base=2)
    ax.set_yscale("log", base=2)
    ax.set_xticks(numbers, [str(n) for n in numbers])
    ax.set_yticks(numbers, [str(n) for n in numbers])
    ax.set_xlabel("SMs")
    ax.set_ylabel("speed-up over one SM")
    ax.grid(color="#e6e6e6", linewidth=0.8)
    ax.set_axisbelow(True)
    figure.open_frame(ax)
    figure.outside_legend(ax, handles, below=True)
    ax.set_title(f"Scaling with the number of SMs on {chip.title}")
    return ax


if __name__ == "__main__":
    gs.experiment.script(main)

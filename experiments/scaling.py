"""Scaling: Amdahl's and Gustafson's laws by the number of SMs.

A program has a part that one block does alone, and a part that many blocks share. On n SMs the second takes an n-th of
the time, the first all of it: Amdahl's speed-up is 1 / (s + (1 - s) / n), never above 1 / s, with s the serial share of
the time on one SM. If the work grows with the SMs, the parallel part always takes as long, and Gustafson's speed-up
against one SM with all of that work is n - s (n - 1), with s the serial share of the time on n. To the serial part
belongs the gap between two kernels, in which no SM works.

Both take for granted that work divides into n equal parts and that nothing is shared. The first breaks where the SMs do
not divide the blocks: whole waves count, ⌈blocks / n⌉. The second breaks for a kernel that reads memory
(``gpusim_des/textbook/reading.py``): all SMs share the DRAM, and more of them do not make it faster. Nothing of the
kernel is serial but its first latency and the start and end of blocks, yet a serial fraction can be computed from the
speed-up (Karp and Flatt): as long as it is the same for every n it is serial work, and where it grows with n it is
contention.

    gpusim-des experiment scaling --gpu h100-sxm --out out
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import gpusim_des as gs
from gpusim_des.textbook.scaling import Speedup, reading, scaled, strong

GPU = "h100-sxm"
SMS, QUICK_SMS = (1, 2, 4, 8, 16, 32, 64), (1, 4, 16)
UNEVEN, QUICK_UNEVEN = (24, 48), (6, 12)  # numbers of SMs that do not divide the blocks
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


def compared(points: Sequence[Speedup], serial: float) -> gs.Comparison:
    """A table for each law, and the serial fraction fitted to the first one's speed-ups."""

    def table(law: str, name: str, why: str, assumes: str, *, better: bool = False) -> gs.Comparison:
        def reason(p: Speedup) -> tuple[str, float]:
            bound = -QUEUES if better else gs.experiment.reach(p.formula, p.better)
            return why.format(dram=f"{p.dram_utilization:.0%}"), bound

        return gs.experiment.compare_points(
            [p for p in points if p.law == law],
            lambda p: p.better if better else p.formula,
            lambda p: p.simulated,
            name=name,
            quantity="speed-up",
            because=reason,
            assumes=assumes,
        )

    waves = "the SMs do not divide the blocks: in the last wave some have none"
    full = "first latency, start and end of blocks are not divided, and all share the DRAM, busy {dram} of the time"
    near = "the DRAM is busy {dram} of the time, and loads queue before it is full"
    even, alone = "blocks that divide evenly", "nothing shared"
    fitted = [p for p in points if p.law == "Amdahl"]
    return (
        table("Amdahl", "Amdahl's law", "", even)
        + table("uneven", "Amdahl's law, blocks that do not divide evenly", waves, even)
        + table("uneven", "the same with whole waves", "", "equal blocks", better=True)
        + table("Gustafson", "Gustafson's law", "", even)
        + table("reading", "Amdahl's law, reading memory", full, alone)
        + table("reading", "edges + max(work / SMs, DRAM), reading memory", near, "no queues", better=True)
        + gs.compare(
            serial,
            gs.analytic.fit_serial_fraction([p.sms for p in fitted], [p.simulated for p in fitted]),
            name="serial share on one SM",
            quantity="serial fraction, fitted to the speed-ups",
            labels=[f"1 to {fitted[-1].sms} SMs"],
            explain="the last writes of the parallel part are serial, too",
            explained_up_to=LAST_WRITES,
            assumes="Amdahl's law",
        )
    )


def draw(points: Sequence[Speedup], numbers: Sequence[int], chip: gs.GPU, path: Path) -> None:
    simulated, lines = [], [gs.views.Law("ideal", numbers, numbers, None, ":")]
    for number, (law, label, marker) in enumerate(
        (
            ("Gustafson", "work grows with the SMs: Gustafson", "^"),
            ("Amdahl", "one problem with a serial part: Amdahl", "o"),
            ("uneven", "SMs that do not divide the blocks", "x"),
            ("reading", "reading memory: all share the DRAM", "s"),
        )
    ):
        shown = [p for p in points if p.law == law]
        x = [p.sms for p in shown]
        simulated.append(gs.views.Simulated(label, x, [p.simulated for p in shown], number, marker))
        if law != "uneven":
            y = [p.better if law == "reading" else p.formula for p in shown]
            lines.append(gs.views.Law("", x, y, number))
    ax = gs.views.laws(
        simulated,
        [*lines, gs.views.Law("lines: formula", [], [], None)],
        xlabel="SMs",
        ylabel="speed-up over one SM",
        title=f"Scaling with the number of SMs on {chip.title}",
        ticks=numbers,
    )
    gs.experiment.save(ax, path)


def main(gpu: str = GPU, out: Path | None = None, *, quick: bool = False) -> tuple[list[Speedup], gs.Comparison]:
    chip = gs.load_gpu(gpu)
    if chip.sms == 1:
        raise ValueError(f"{chip.name} has 1 SM: scaling needs at least 2, take another GPU")
    numbers = [n for n in (QUICK_SMS if quick else SMS) if n <= chip.sms]
    if len(numbers) == 1:
        numbers = sorted({1, chip.sms})
    uneven = [n for n in (QUICK_UNEVEN if quick else UNEVEN) if n < numbers[-1]]
    serial, points = strong(chip, chain, numbers, uneven)
    points += scaled(chip, chain, numbers) + reading(chip, numbers)
    table = compared(points, serial)
    print(f"{chip.title}\n{table}\n")
    print("serial fraction that the speed-ups show (Karp and Flatt):")
    for law in ("Amdahl", "reading"):
        shown = [p for p in points if p.law == law and p.sms > 1]
        print(f"  {law}: " + ", ".join(f"{p.sms} SMs {gs.analytic.karp_flatt(p.simulated, p.sms):.3f}" for p in shown))
    if out is not None:
        draw(points, numbers, chip, out / "scaling.png")
    return points, table


if __name__ == "__main__":
    gs.experiment.script(main)

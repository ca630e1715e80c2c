"""ILP and TLP: a latency is hidden by other warps, or by independent instructions of the same warp.

A multiply-add that needs the result of the one before waits for it, four cycles on most GPUs. Meanwhile the scheduler
issues from other warps (thread-level parallelism) or from another chain of the same warp (instruction-level
parallelism). To Little's law it makes no difference which: throughput = min(the pipe's rate, warps × ILP / latency).
One warp with four chains does what four warps with one chain do, so that a kernel can be at its peak at a low occupancy
(Volkov 2010).

As microbenchmarks do, the experiment runs every kernel at two lengths and takes the difference, in which start
and end of the block cancel. The law assumes that the schedulers have equally many warps, that these get their turns one
after the other, and that nothing but the chains is issued. Four points show where that breaks: a short kernel as a
whole, one warp more than there are schedulers, a greedy scheduler, which lets the youngest warps fall behind until they
are alone, and a loop that is not unrolled. For each there is a better formula, and it is compared, too; where the
loop's warps all wait for their branches at once, that of a round in step.

    gpusim-des experiment ilp_vs_tlp --gpu h100-sxm --out out
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import gpusim_des as gs
from gpusim_des.gpu import PIPE_FRACTION
from gpusim_des.grid import WARP_SIZE

GPU = "h100-sxm"
ILP = (1, 2, 4)
WARPS, QUICK_WARPS = (1, 2, 3, 4, 5, 6, 7, 8), (1, 2, 4, 8)  # per scheduler
LENGTH = 240  # multiply-adds of a thread in the shorter of two runs, a multiple of every ILP; the longer has twice that
LAW = "min(rate, warps × ILP / latency)"
TOLERANCE = 0.02
BETWEEN = 0.05  # of the throughput, where the pipe's rate is no whole number of warps
ASSUMES = "warps in equal numbers and in turn, and nothing but the chains"
QUANTITY = "warp instructions per cycle and SM"

Maker = Callable[[int, int], gs.ThreadKernel]


def chains(ilp: int, multiply_adds: int) -> gs.ThreadKernel:
    """`ilp` chains of dependent multiply-adds, unrolled: nothing else is issued."""
    rounds = multiply_adds // ilp

    @gs.kernel
    def unrolled(t: Any, out: Any) -> None:
        x = [np.float32(1)] * ilp
        for _ in range(rounds):  # a constant of the source: unrolled
            for k in range(ilp):
                x[k] = x[k] * np.float32(0.5) + np.float32(1)
        for k in range(1, ilp):
            x[0] += x[k]
        out[t.blockIdx.x * t.blockDim.x + t.threadIdx.x] = x[0]

    return unrolled


def loop(ilp: int, multiply_adds: int) -> gs.ThreadKernel:
    """The same chains in a loop of unknown length: every round adds to a counter, compares it, and branches."""

    @gs.kernel
    def rolled(t: Any, out: Any, rounds: int = multiply_adds // ilp) -> None:
        x = [np.float32(1)] * ilp
        for _ in range(rounds):
            for k in range(ilp):
                x[k] = x[k] * np.float32(0.5) + np.float32(1)
        for k in range(1, ilp):
            x[0] += x[k]
        out[t.blockIdx.x * t.blockDim.x + t.threadIdx.x] = x[0]

    return rolled


@dataclass(frozen=True)
class IlpPoint:
    """A point of a curve; throughputs in warp instructions per cycle and SM."""

    ilp: int
    warps: int
    """Per scheduler."""
    formula: float
    simulated: float


@dataclass(frozen=True)
class Beyond:
    """A point where the law's assumptions do not hold."""

    label: str
    law: float
    better: float
    """A formula that knows what the law leaves out."""
    simulated: float
    why: str
    why_not_better: str = ""
    still_better: float = 0
    """With what the better one leaves out; 0 where nothing is to be explained."""


@dataclass(frozen=True)
class Slope:
    """What the longer of two runs does more than the shorter one."""

    throughput: float
    """Multiply-adds of a warp per cycle."""
    cycles: int
    instructions: Counter[str]


def run(chip: gs.GPU, make: Maker, ilp: int, warps: int, length: int) -> gs.KernelTiming:
    """Time one block of `warps` warps on one SM, its results checked."""
    dev = gs.Device(chip)
    out = dev.malloc(WARP_SIZE * warps, np.float32)
    dev.launch(make(ilp, length), 1, WARP_SIZE * warps, out, registers=32)
    if not np.allclose(dev.to_host(out), ilp * (2 - 0.5 ** (length // ilp))):  # x = x / 2 + 1, from 1 on
        raise AssertionError("the kernel's results are not the series': this is a bug of the simulator")
    return dev.simulate(caches="off", detail="kernel").kernels[0]


def slope(chip: gs.GPU, make: Maker, ilp: int, warps: int) -> Slope:
    """Run a kernel at two lengths; `warps` on the SM."""
    short, long = (run(chip, make, ilp, warps, length) for length in (LENGTH, 2 * LENGTH))
    cycles = long.cycles - short.cycles
    return Slope(warps * LENGTH / cycles, cycles, Counter(long.instructions) - Counter(short.instructions))


def where_it_breaks(chip: gs.GPU, most: int) -> gs.Comparison:
    """Points beyond the law's assumptions, beside the law and beside what holds instead; `most` warps per scheduler."""

    def law(warps: int, ilp: int = 1) -> float:
        return float(gs.analytic.arithmetic_throughput(chip, warps, ilp))

    fair, schedulers, ilp = chip.replace(scheduler_policy="lrr"), chip.sub_partitions, ILP[-1]
    rows: list[Beyond] = []

    empty, whole = (run(chip, chains, 1, schedulers, length).cycles for length in (1, LENGTH))
    better = 1 / (1 / law(schedulers) + empty / (LENGTH * schedulers))
    why = f"the block starts and ends and its results are written: {empty} cycles with a single multiply-add"
    rows.append(Beyond(f"whole kernel of {LENGTH}", law(schedulers), better, schedulers * LENGTH / whole, why))

    if schedulers > 1:
        more = schedulers + 1
        better = min(law(more, ilp), more * law(2 * schedulers, ilp) / (2 * schedulers))
        uneven = slope(fair, chains, ilp, more).throughput
        why = "one scheduler has two warps and takes longest, the others wait for it"
        rows.append(Beyond(f"{more} warps, ILP {ilp}", law(more, ilp), better, uneven, why))

    enough = gs.analytic.arithmetic_warps_needed(chip) // schedulers
    if enough < most:
        alone = law(schedulers)  # of one warp per scheduler
        better = (enough + 1) / (enough / law(enough * schedulers) + 1 / alone)
        why = f"{enough} warps per scheduler take all turns, the youngest runs when they have ended, alone"
        between = "the pipe's rate is no whole number of warps: the youngest gets the cycles that are left over"
        greedy = slope(chip.replace(scheduler_policy="gto"), chains, 1, more := (enough + 1) * schedulers).throughput
        label = f"{more} warps, ILP 1, greedy"
        rows.append(Beyond(label, law(more), better, greedy, why, between, (1 + BETWEEN) * better))

    rolled = slope(fair, loop, ilp, most * schedulers)
    busy = gs.analytic.roofline(chip, instructions=rolled.instructions)
    better = most * schedulers * LENGTH / (busy.seconds * chip.sm_clock_hz)
    why = f"{sum(rolled.instructions.values()) / rolled.instructions['fp32']:.3g} instructions for each multiply-add"
    together = (
        f"all warps wait for their branch at once, and {most} do not fill its {chip.branch_latency_cycles} cycles"
    )
    label = f"{most * schedulers} warps, ILP {ilp}, loop"
    step = most * schedulers * ilp / round_in_step(chip, most, ilp)
    rows.append(Beyond(label, law(most * schedulers, ilp), better, rolled.throughput, why, together, min(step, better)))
    in_step = gs.compare(
        step,
        rolled.throughput,
        name="a round of warps in step",
        quantity=QUANTITY,
        labels=[label],
        assumes="one instruction of every warp after the other, and then the next",
    )

    labels, simulated = [row.label for row in rows], [row.simulated for row in rows]
    table = gs.compare(
        [row.law for row in rows],
        simulated,
        name=LAW,
        quantity=QUANTITY,
        labels=labels,
        explain={row.label: row.why for row in rows},
        explained_up_to={
            row.label: gs.experiment.reach(row.law, min(row.better, row.still_better or row.better)) for row in rows
        },
        assumes=ASSUMES,
    ) + gs.compare(
        [row.better for row in rows],
        simulated,
        name="with what the law leaves out",
        quantity=QUANTITY,
        labels=labels,
        explain={row.label: row.why_not_better for row in rows},
        explained_up_to={row.label: gs.experiment.reach(row.better, row.still_better or row.better) for row in rows},
    )
    # Where the busiest part is busy all the time, it does not matter who is in step.
    return table + in_step if rolled.throughput < (1 - TOLERANCE) * better else table


def round_in_step(chip: gs.GPU, warps: int, ilp: int) -> float:
    """Cycles of a round of the loop where a scheduler's warps take turns instruction by instruction.

    A turn of all warps takes a cycle for each, or as long as their pipe does; an instruction that needs the result of
    the one before waits for it, if that is longer. Where the multiply-adds' pipe is slower than the scheduler, the
    first warp's next instruction finds a slot between them.
    """
    fp32, integer = (max(1.0, chip.pipe(pipe).sustained_interval / PIPE_FRACTION) for pipe in ("fp32", "int"))
    chains = ilp * warps if fp32 == 1 else (ilp - 1) * warps * fp32 + 1
    counted = max(warps * integer, chip.pipe("int").latency_cycles)  # the comparison, and the branch
    return chains + 2 * counted + max(warps, chip.branch_latency_cycles)


def main(gpu: str = GPU, out: Path | None = None, *, quick: bool = False) -> tuple[list[IlpPoint], gs.Comparison]:
    whole = gs.load_gpu(gpu)
    chip = whole.slice(sms=1)  # what one SM does, all do
    fair, schedulers = chip.replace(scheduler_policy="lrr"), chip.sub_partitions
    most = chip.max_threads_per_block // (WARP_SIZE * schedulers)
    numbers = [warps for warps in (QUICK_WARPS if quick else WARPS) if warps <= most]
    points = [
        IlpPoint(
            ilp,
            warps,
            gs.analytic.arithmetic_throughput(chip, warps * schedulers, ilp),
            slope(fair, chains, ilp, warps * schedulers).throughput,
        )
        for ilp in ILP
        for warps in numbers
    ]
    table = gs.compare(
        [p.formula for p in points],
        [p.simulated for p in points],
        name=LAW,
        quantity=QUANTITY,
        labels=[f"{p.warps * schedulers} warps, ILP {p.ilp}" for p in points],
        assumes=ASSUMES,
    ) + where_it_breaks(chip, numbers[-1])
    print(f"{whole.title}, one SM with {schedulers} schedulers\n{table}")
    if out is not None:
        gs.views.save(draw(points, whole), out / "ilp_vs_tlp.png")
        print(f"written: {out / 'ilp_vs_tlp.png'}")
    return points, table


def draw(points: Sequence[IlpPoint], chip: gs.GPU) -> Any:
    """Throughput over warps, a curve for each ILP."""
    by_ilp = {ilp: [p for p in points if p.ilp == ilp] for ilp in ILP}
    ax = gs.views.curves(
        [p.warps for p in by_ilp[ILP[0]]],
        [
            gs.views.Curve(f"ILP {ilp}", [p.simulated for p in line], [p.formula for p in line])
            for ilp, line in by_ilp.items()
        ],
        xlabel="warps per scheduler",
        ylabel="multiply-adds per cycle and SM (warp instructions)",
        title=f"ILP or TLP: instructions under way hide the latency, on {chip.title}",
    )
    marks = [line for line in ax.lines if str(line.get_label()).startswith("ILP")]
    for line, size in zip(marks, (12, 9, 6), strict=True):  # where the curves meet, all of them show
        line.set_markersize(size)
    return ax


if __name__ == "__main__":
    gs.experiment.script(main)

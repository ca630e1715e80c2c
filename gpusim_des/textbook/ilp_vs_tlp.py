"""Chains of dependent multiply-adds in a block: their throughput, and four points where Little's law does not hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpusim_des.analytic import arithmetic_interval, arithmetic_throughput, arithmetic_warps_needed, roofline
from gpusim_des.check_result import check_result
from gpusim_des.device import Device
from gpusim_des.functional.thread_kernel import ThreadKernel
from gpusim_des.gpu import GPU
from gpusim_des.grid import WARP_SIZE
from gpusim_des.timeline import KernelTiming

LENGTH = 240
"""Multiply-adds of a thread in the shorter of two runs, a multiple of every ILP; the longer one has twice that."""
TOLERANCE = 0.02
BETWEEN = 0.05
"""Of the throughput, where the pipe's rate is no whole number of warps."""

Maker = Callable[[int, int], ThreadKernel]
"""Makes a kernel of so many chains and so many multiply-adds of a thread in all."""


@dataclass(frozen=True)
class IlpPoint:
    """A point of a curve; throughputs in warp instructions per cycle and SM."""

    label: str
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
    with_that: float = 0
    """The better formula, with what it leaves out in turn; 0 where nothing is to be explained."""

    @property
    def still_better(self) -> float:
        """The best formula that there is."""
        return self.with_that or self.better


@dataclass(frozen=True)
class Slope:
    """What the longer of two runs does more than the shorter one."""

    throughput: float
    """Multiply-adds of a warp per cycle."""
    instructions: Counter[str]


def run(chip: GPU, make: Maker, ilp: int, warps: int, length: int) -> KernelTiming:
    """Time one block of `warps` warps on one SM, its results checked: chains of x = x / 2 + 1, from 1 on, added up."""
    dev = Device(chip)
    out = dev.malloc(WARP_SIZE * warps, np.float32)
    dev.launch(make(ilp, length), 1, WARP_SIZE * warps, out, registers=32)
    check_result(dev.to_host(out), ilp * (2 - 0.5 ** (length // ilp)), rtol=1e-5)
    return dev.simulate(caches="off", detail="kernel").kernels[0]


def slope(chip: GPU, make: Maker, ilp: int, warps: int) -> Slope:
    """Run a kernel at two lengths; `warps` on the SM."""
    short, long = (run(chip, make, ilp, warps, length) for length in (LENGTH, 2 * LENGTH))
    more = Counter(long.instructions) - Counter(short.instructions)
    return Slope(warps * LENGTH / (long.cycles - short.cycles), more)


def measure(chip: GPU, chains: Maker, ilp: int, warps: int) -> IlpPoint:
    """Run so many warps per scheduler, which get their turns one after the other."""
    on_sm = warps * chip.sub_partitions
    simulated = slope(chip.replace(scheduler_policy="lrr"), chains, ilp, on_sm).throughput
    law = float(arithmetic_throughput(chip, on_sm, ilp))
    return IlpPoint(f"{on_sm} warps, ILP {ilp}", ilp, warps, law, simulated)


def where_it_breaks(chip: GPU, chains: Maker, loop: Maker, ilp: int, most: int) -> tuple[list[Beyond], list[IlpPoint]]:
    """Points beyond the law's assumptions: a whole kernel, uneven warps, a greedy scheduler, a loop.

    Parameters
    ----------
    chip
        One SM.
    chains, loop
        Make the kernel unrolled, and as a loop of unknown length.
    ilp, most
        Chains of a thread and warps per scheduler, as many as there are.

    Returns
    -------
    list of Beyond, list of IlpPoint
        The points; and the loop beside the formula of a round in step, where the formula that knows its instructions
        is not enough. Where the busiest part is busy all the time, it does not matter who is in step.
    """

    def law(warps: int, chains_each: int = 1) -> float:
        return float(arithmetic_throughput(chip, warps, chains_each))

    fair, schedulers = chip.replace(scheduler_policy="lrr"), chip.sub_partitions
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

    enough = arithmetic_warps_needed(chip) // schedulers
    if enough < most:
        alone = law(schedulers)  # of one warp per scheduler
        better = (enough + 1) / (enough / law(enough * schedulers) + 1 / alone)
        why = f"{enough} warps per scheduler take all turns, the youngest runs when they have ended, alone"
        between = "the pipe's rate is no whole number of warps: the youngest gets the cycles that are left over"
        greedy = slope(chip.replace(scheduler_policy="gto"), chains, 1, more := (enough + 1) * schedulers).throughput
        label = f"{more} warps, ILP 1, greedy"
        rows.append(Beyond(label, law(more), better, greedy, why, between, (1 + BETWEEN) * better))

    on_sm = most * schedulers
    rolled = slope(fair, loop, ilp, on_sm)
    better = on_sm * LENGTH / (roofline(chip, instructions=rolled.instructions).seconds * chip.sm_clock_hz)
    why = f"{sum(rolled.instructions.values()) / rolled.instructions['fp32']:.3g} instructions for each multiply-add"
    together = (
        f"all warps wait for their branch at once, and {most} do not fill its {chip.branch_latency_cycles} cycles"
    )
    label, step = f"{on_sm} warps, ILP {ilp}, loop", on_sm * ilp / round_in_step(chip, most, ilp)
    rows.append(Beyond(label, law(on_sm, ilp), better, rolled.throughput, why, together, min(step, better)))
    in_step = IlpPoint(label, ilp, most, step, rolled.throughput)
    return rows, [in_step] if rolled.throughput < (1 - TOLERANCE) * better else []


def round_in_step(chip: GPU, warps: int, ilp: int) -> float:
    """Cycles of a round of the loop where a scheduler's warps take turns instruction by instruction.

    A turn of all warps takes a cycle for each, or as long as their pipe does; an instruction that needs the result of
    the one before waits for it, if that is longer. Where the multiply-adds' pipe is slower than the scheduler, the
    first warp's next instruction finds a slot between them.
    """
    fp32, integer = arithmetic_interval(chip), arithmetic_interval(chip, "int")
    chains = ilp * warps if fp32 == 1 else (ilp - 1) * warps * fp32 + 1
    counted = max(warps * integer, chip.pipe("int").latency_cycles)  # the comparison, and the branch
    return chains + 2 * counted + max(warps, chip.branch_latency_cycles)

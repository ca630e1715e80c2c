"""Kernels beside the busiest part of the chip: counted, simulated, and simulated where nothing else limits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpusim_des import analytic
from gpusim_des.analytic.latency import Traffic
from gpusim_des.check_result import check_result
from gpusim_des.device import Device
from gpusim_des.explanations import alone_s, reach, waits
from gpusim_des.gpu import GPU
from gpusim_des.launched import Launch
from gpusim_des.textbook.chips import limited_by
from gpusim_des.textbook.counted import load_store_cycles
from gpusim_des.textbook.roofline_kernels import Case
from gpusim_des.timeline import KernelTiming

QUEUES = 0.5  # of the time: blocks among others take longer than alone


@dataclass(frozen=True)
class RooflineRun:
    """One kernel, counted and simulated."""

    case: Case
    intensity: float
    operations: int
    kernel: KernelTiming
    alone_formula_s: float
    """What the busiest part takes longer for twice the work where it is the only limit."""
    alone_s: float
    """What that takes longer, simulated."""
    parts: analytic.Roofline
    reading_s: float
    """What the busiest part would take if DRAM were as fast for reads and writes mixed as for reads."""
    latency_s: float
    """What the blocks take one after the other in their slots, each as long as one that is alone."""

    def reach(self, per_second: float) -> float:
        """How far the explanation of another speed than `per_second` goes."""
        slowest, fastest = (
            self.operations / (1 + QUEUES) / max(self.parts.seconds, self.latency_s),
            self.operations / self.reading_s,
        )
        return reach(per_second, fastest if self.per_second > per_second else slowest)

    @property
    def per_second(self) -> float:
        """Operations per second."""
        return self.operations / self.kernel.seconds


def run(chip: GPU, case: Case) -> tuple[Launch, KernelTiming]:
    """Run one kernel, check its result, and simulate it."""
    dev = Device(chip)
    inputs = [dev.to_device(x) for x in case.inputs]
    out = dev.to_device(np.zeros(case.expected.size, case.expected.dtype))
    dev.forget_launches()
    launch = dev.launch(case.kernel, case.grid, case.block, *inputs, out, *case.scalars, registers=32)
    check_result(dev.to_host(out), case.expected, case.name, rtol=1e-4)
    return launch, dev.simulate(caches="off", detail="kernel").kernels[0]


def parts(chip: GPU, launch: Launch, dram_bytes: int, kind: Traffic) -> analytic.Roofline:
    """What each part takes; `dram_bytes` are whole granules, of 64 bytes on some chips."""
    return analytic.roofline(
        chip,
        instructions=launch.counters.instruction_mix,
        load_store_cycles=load_store_cycles(chip, launch.counters),
        dram_bytes=dram_bytes,
        kind=kind,
    )


def measure(chip: GPU, case: Case, twice: Case) -> RooflineRun:
    """Count, simulate as it is and where nothing else limits, there with twice the work, too; and ask the formulas."""
    launch, kernel = run(chip, case)
    busiest = parts(chip, launch, kernel.dram_bytes, case.kind)
    alone, found = limited_by(chip, busiest.limiter), []
    for some in (case, twice):
        once, timing = run(alone, some)
        formula_s = parts(alone, once, timing.dram_bytes, case.kind).seconds
        found.append((formula_s, timing.seconds))
    formula_more, more = (b - a for a, b in zip(*found, strict=True))
    lone_s = alone_s(
        chip, case.kernel, case.block, *case.inputs, np.zeros_like(case.expected), *case.scalars, registers=32
    )
    return RooflineRun(
        case,
        analytic.intensity(launch.counters, case.compute),
        analytic.counted_operations(launch.counters, case.compute),
        kernel,
        formula_more,
        more,
        busiest,
        parts(chip, launch, kernel.dram_bytes, "read").seconds,
        analytic.waves(kernel.blocks, kernel.blocks_per_sm, chip.sms).count * lone_s,
    )


UNEVEN = 1.01
"""A channel is told of from here on that has so much more to do than the mean of all."""
CANNOT_HELP = ("math_pipe_throttle", "not_selected")
"""Stalls that come from the queue in front of a pipe or of the issue slots."""


def explanation(r: RooflineRun) -> str:
    """Why a kernel is slower than its busiest part, or in one case faster."""
    k = r.kernel
    if k.seconds < r.parts.seconds:
        while_busy = k.dram_bytes_per_second / (k.dram_peak_bytes_per_s * k.dram_utilization)
        return f"reads and writes come in long rows: while it is busy, the DRAM reaches {while_busy:.0%} of its peak"
    busy = f"{r.parts.limiter} busy {r.parts.seconds / k.seconds:.0%} of the time"
    if r.parts.limiter == "DRAM" and k.busiest_channel > UNEVEN * k.dram_utilization:
        busy += f", its busiest channel {k.busiest_channel:.0%}"
    return f"{busy}; {waits(k, CANNOT_HELP)}"


def below_the_roof(r: RooflineRun, chip: GPU) -> str:
    """Why a kernel is below the roof of the chart."""
    part = r.parts.limiter
    if part == "DRAM" and r.case.kind == "mixed":
        share = float(chip.efficiency("mixed") / chip.efficiency("read"))
        if share < 1:
            return f"mixed with writes, reads get {share:.0%} of the DRAM; {explanation(r)}"
    elif part not in ("DRAM", f"{r.case.compute} pipe"):
        return f"more to do than for DRAM and {r.case.compute} pipe; {explanation(r)}"
    return explanation(r)

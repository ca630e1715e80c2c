"""Programs with a serial and a parallel part on more and more SMs: their speed-ups, and what laws say of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from gpusim_des.analytic import amdahl, gustafson, roofs, waves
from gpusim_des.check_result import check_result
from gpusim_des.device import Device
from gpusim_des.explanations import ends_s
from gpusim_des.functional.thread_kernel import ThreadKernel
from gpusim_des.gpu import GPU
from gpusim_des.simulation import Simulation
from gpusim_des.textbook.reading import read_array
from gpusim_des.timeline import FS_PER_S

THREADS = 32
"""Of a block that computes: a warp is enough where each instruction waits for the one before."""
CHAIN = 100
"""Square roots of a thread in the parallel part."""
SERIAL_CHAIN = 250
"""And of the only block in the serial part."""
READERS = 128
"""Threads of a block that reads memory."""
READS = 16
"""Elements of a thread that reads memory."""
GOLDEN_RATIO = (1 + 5**0.5) / 2
US = 1e6 / FS_PER_S

Chain = Callable[[int], ThreadKernel]
"""Makes a kernel of so many dependent square roots, x = √(x + 1), in each thread."""


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

    @property
    def label(self) -> str:
        """Name of the row."""
        return f"{self.sms} SM{'s' * (self.sms > 1)}"


def compute(chip: GPU, chain: Chain, sms: int, blocks: int) -> Run:
    """Run the serial part and then `blocks` blocks, one on an SM at a time, on a slice of the chip."""
    part = chip.slice(sms=sms)
    dev = Device(part)
    out = dev.malloc(blocks * THREADS, np.float32)
    whole_sm = min(part.shared_bytes_per_block_optin, part.shared_bytes_per_sm - part.shared_bytes_reserved_per_block)
    for kernel, grid in ((chain(SERIAL_CHAIN), 1), (chain(CHAIN), blocks)):
        dev.launch(kernel, grid, THREADS, out, registers=32, dynamic_shared=whole_sm)
    check_result(dev.to_host(out), GOLDEN_RATIO, rtol=1e-5)  # the limit of x = √(x + 1)
    return finished(dev.simulate(caches="off", detail="kernel"), sms)


def finished(sim: Simulation, sms: int) -> Run:
    """What a program's kernels took."""
    kernels = sim.kernels
    us = (kernels[-1].end_fs - kernels[0].start_fs) * US
    return Run(sms, us, kernels[-1].seconds * 1e6, kernels[-1].dram_utilization)


def strong(chip: GPU, chain: Chain, numbers: Sequence[int], uneven: Sequence[int]) -> tuple[float, list[Speedup]]:
    """One program on more and more SMs, and on `uneven` numbers; its serial fraction on one SM, and speed-ups."""
    blocks = 8 * numbers[-1] if numbers[-1] < 8 else numbers[-1]
    one = compute(chip, chain, 1, blocks)
    s, found = one.serial_fraction, []
    for sms in (*numbers, *uneven):
        run = one if sms == 1 else compute(chip, chain, sms, blocks)
        count = waves(blocks, 1, sms).count
        whole = one.us / (s * one.us + one.parallel_us * count / blocks)
        law = "uneven" if sms in uneven else "Amdahl"
        found.append(Speedup(law, sms, float(amdahl(s, sms)), whole, one.us / run.us, run.dram_utilization))
    return s, found


def scaled(chip: GPU, chain: Chain, numbers: Sequence[int]) -> list[Speedup]:
    """Four blocks for each SM: the program grows with the chip."""
    found = []
    for sms in numbers:
        large, one = compute(chip, chain, sms, 4 * sms), compute(chip, chain, 1, 4 * sms)
        formula = float(gustafson(large.serial_fraction, sms))
        found.append(Speedup("Gustafson", sms, formula, formula, one.us / large.us, large.dram_utilization))
    return found


def reading(chip: GPU, numbers: Sequence[int]) -> list[Speedup]:
    """A kernel without a serial part that reads memory; the DRAM is that of the largest number of SMs."""
    part = chip.slice(sms=numbers[-1])
    blocks = 16 * numbers[-1]
    devices = ((sms, read_array(part.replace(sms=sms), READS, blocks, READERS, registers=32)) for sms in numbers)
    runs = [finished(dev.simulate(caches="off", detail="kernel"), sms) for sms, dev in devices]
    one = runs[0].us
    # Start of the first blocks, first latency, end of the last ones: no number of SMs shortens them.
    edges = ends_s(part) * 1e6
    dram = 4 * blocks * READERS * READS / roofs(part).memory["DRAM"] * 1e6
    found = []
    for run in runs:
        better = one / (edges + max((one - edges) / run.sms, dram))
        law = float(amdahl(0, run.sms))
        found.append(Speedup("reading", run.sms, law, better, one / run.us, run.dram_utilization))
    return found

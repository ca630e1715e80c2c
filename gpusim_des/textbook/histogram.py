"""Histograms with atomic operations: passes by their definition, what each part of the chip has to do, measurements."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpusim_des.analytic import roofs, waves
from gpusim_des.check_result import check_result
from gpusim_des.device import Device
from gpusim_des.explanations import alone_s, ends_s, reach, waits
from gpusim_des.functional.memory import DeviceArray
from gpusim_des.functional.thread_kernel import ThreadKernel
from gpusim_des.gpu import GPU
from gpusim_des.launched import Launch
from gpusim_des.textbook.chips import LOAD_STORE, limited_by
from gpusim_des.textbook.counted import load_cycles
from gpusim_des.timeline import KernelTiming
from gpusim_des.units import FS_PER_S, duration

BINS = 256
THREADS, VALUES, REGISTERS = 256, 4, 32
"""Threads of a block; values of a thread."""
WARP_PASSES = 3
"""Of a warp, beside its values: its bins set to zero, read, and added up."""
QUEUES = 0.3  # of the time: blocks among others take longer than alone
UNITS = BINS * 4 // 256
"""Pieces of 256 bytes that the bins have."""
ATOMIC_UNIT, SLICES = "atomic unit of the L2", "slices of the L2"
Values = npt.NDArray[np.int32]


@dataclass(frozen=True)
class HistogramPoint:
    """One kernel and one distribution."""

    label: str
    counted: int
    """Passes of atomic operations, in the L2 for global bins, in the load/store units for shared ones."""
    formula: int
    kernel: KernelTiming
    limits_s: dict[str, float]
    """Part → seconds, latency included."""
    hot_s: float
    """Latency + n × interval."""
    least_s: float
    """What the busiest part takes."""
    early_s: float
    """What the formula may count too much: what the busiest slice of the L2 does before the first value is there, or
    the sums of the last blocks, which meet other blocks' work where blocks end apart."""
    alone_formula_s: float
    """What the busiest part takes longer for twice the values where it is the only limit."""
    alone_s: float
    """What that takes longer, simulated."""
    latency_s: float
    """What the blocks take one after the other in their slots, each as long as one that is alone."""

    @property
    def limiter(self) -> str:
        """The busiest part."""
        return max(self.limits_s, key=lambda part: self.limits_s[part])

    @property
    def limit_s(self) -> float:
        """What the busiest part takes, latency included."""
        return self.limits_s[self.limiter]

    @property
    def reach(self) -> float:
        """How far the explanation of another time than the busiest part's goes."""
        if self.kernel.seconds < self.limit_s:
            return reach(self.limit_s, self.limit_s - self.early_s)
        return reach(self.limit_s, max(self.limit_s, self.latency_s), QUEUES)

    @property
    def explanation(self) -> str:
        """Why the busiest part was not busy all the time, what else warps waited for; or what it did meanwhile."""
        if self.kernel.seconds < self.limit_s:
            early = f"reads of the first blocks pass the slices while others wait for DRAM: {duration(self.early_s)}"
            return (
                early if self.limiter == SLICES else f"blocks end apart, and add up in up to {duration(self.early_s)}"
            )
        share = self.least_s / self.kernel.seconds
        return f"{self.limiter} busy {share:.0%} of the time; {waits(self.kernel, OWN[self.limiter])}"


OWN = {
    ATOMIC_UNIT: ("lg_throttle", "drain"),
    SLICES: ("lg_throttle", "drain"),
    LOAD_STORE: ("mio_throttle", "short_scoreboard", "lg_throttle"),
    "DRAM": ("long_scoreboard", "drain"),
}
"""Stalls that come from the queue in front of a part."""


def distributions(n: int) -> dict[str, Values]:
    """`n` values by the name of their distribution."""
    random = np.random.default_rng(0)
    return {
        "one bin": np.full(n, 7, np.int32),
        "16 bins": random.integers(0, 16, n).astype(np.int32),
        f"{BINS} bins": random.integers(0, BINS, n).astype(np.int32),
    }


def passes(values: Values, *, shared: bool) -> tuple[int, Values, Values]:
    """Passes of all warps by the definition; and, for each 256 bytes of bins in the L2, operations and sectors.

    A warp's passes in the L2 are the lanes that share its most wanted address; in shared memory two different words of
    one bank take a pass each, too. A sector of the L2 takes the lanes on its most wanted address.

    Examples
    --------
    Eight lanes in each of the bins 0, 8, 16 and 24: eight passes; four sectors take eight operations each.

    >>> total, operations, sectors = passes(np.repeat([0, 8, 16, 24], 8), shared=False)
    >>> total, operations.tolist(), sectors.tolist()
    (8, [32, 0, 0, 0], [4, 0, 0, 0])
    """
    total, operations, sectors = 0, np.zeros(UNITS, np.int32), np.zeros(UNITS, np.int32)
    for warp in values.reshape(-1, 32):
        lanes = np.bincount(warp, minlength=BINS)
        words = (lanes > 0).reshape(-1, 32).sum(axis=0)  # different ones of each bank
        total += max(int(lanes.max()), int(words.max()) if shared else 0)
        wanted = lanes.reshape(UNITS, -1, 8).max(axis=2)  # eight bins in a sector
        operations += wanted.sum(axis=1).astype(np.int32)
        sectors += (wanted > 0).sum(axis=1).astype(np.int32)
    return total, operations, sectors


def run(chip: GPU, kernel: ThreadKernel, distribution: str, values: Values) -> tuple[Launch, DeviceArray, KernelTiming]:
    """Run one kernel, check its bins and simulate it."""
    dev = Device(chip)
    a = dev.to_device(values)
    dev.forget_launches()
    bins = dev.to_device(np.zeros(BINS, np.int32))  # the copy leaves them in the L2
    launch = dev.launch(kernel, len(values) // (THREADS * VALUES), THREADS, a, bins, registers=REGISTERS)
    check_result(dev.to_host(bins), np.bincount(values, minlength=BINS), distribution)
    return launch, bins, dev.simulate(detail="kernel").kernels[0]


def busy(
    chip: GPU, values: Values, launch: Launch, bins: DeviceArray, timing: KernelTiming, *, shared: bool
) -> dict[str, float]:
    """Part → seconds that it is busy, without latencies."""
    blocks, n = launch.config.blocks, len(values)
    total, operations, sectors = passes(values, shared=shared)
    if shared:  # each block adds its bins once: 64 of them are eight sectors, one operation each
        operations = sectors = np.full(UNITS, 8 * blocks, np.int32)
    # Slices are dealt out in turn; what is read is spread over all of them.
    slices = (bins.address + 256 * np.arange(UNITS)) // chip.channel_interleave_bytes % chip.dram_channels
    served, changed = (np.bincount(slices, weights=w, minlength=chip.dram_channels) for w in (operations, sectors))
    read = n * 4 // 32 / chip.dram_channels
    # Passes beside the atomics'.
    lone = n // 32 * load_cycles(chip) + (WARP_PASSES * blocks * THREADS // 32 if shared else n // 32)
    # Blocks that begin together end together: those of the last wave add their bins when all else is done.
    last = min(1, chip.sms * timing.blocks_per_sm / blocks) * float(served.max()) if shared else 0
    return {
        ATOMIC_UNIT: chip.seconds(float(served.max()) * chip.atomic_interval_cycles),
        SLICES: (read + float(changed.max())) * chip.l2_sector_fs / FS_PER_S,
        LOAD_STORE: chip.seconds((lone + (total if shared else 0)) / chip.sms + last * chip.atomic_interval_cycles),
        "DRAM": 4 * n / roofs(chip).memory["DRAM"],
    }


def measure(chip: GPU, kernel: ThreadKernel, distribution: str, values: Values, *, shared: bool) -> HistogramPoint:
    """Count, simulate as it is and where nothing else limits, and ask the formulas."""
    launch, bins, timing = run(chip, kernel, distribution, values)
    blocks, n = launch.config.blocks, len(values)
    accesses = launch.counters.accesses.items()
    counted = [c.wavefronts for site, c in accesses if (site.memory, site.operation) == ("shared", "atomic")]
    parts = busy(chip, values, launch, bins, timing, shared=shared)
    # An operation sets out when its value has been read, goes half of the way to the L2 and back, and nobody waits for
    # it: the kernel is over with the last one.
    later = chip.seconds(chip.block_start_cycles + chip.dram_latency_cycles + chip.l2_latency_cycles / 2)
    ends = {ATOMIC_UNIT: later, SLICES: later, LOAD_STORE: ends_s(chip), "DRAM": ends_s(chip)}
    limits = {part: ends[part] + seconds for part, seconds in parts.items()}
    limiter = max(limits, key=lambda part: limits[part])
    first = min(n, THREADS * VALUES * chip.sms * timing.blocks_per_sm) / 8 / chip.dram_channels
    last = min(1, chip.sms * timing.blocks_per_sm / blocks) if shared else 0
    early = {
        SLICES: min(first * chip.l2_sector_fs / FS_PER_S, chip.seconds(chip.dram_latency_cycles)),
        LOAD_STORE: last * parts[ATOMIC_UNIT],
    }
    chip_alone, found = limited_by(chip, limiter, room=1 if limiter == "DRAM" else 4), []
    for some in (values, np.concatenate((values, values))):
        some_launch, some_bins, some_timing = run(chip_alone, kernel, distribution, some)
        work = busy(chip_alone, some, some_launch, some_bins, some_timing, shared=shared)
        found.append((work[limiter], some_timing.seconds))
    formula_more, more = (b - a for a, b in zip(*found, strict=True))
    block = values[: THREADS * VALUES], np.zeros(BINS, np.int32)
    block_s = alone_s(chip, kernel, THREADS, *block, caches="on", registers=REGISTERS)
    return HistogramPoint(
        f"{'shared' if shared else 'global'}, {distribution}",
        sum(counted) if shared else launch.counters.atomic_serialization,
        passes(values, shared=shared)[0],
        timing,
        limits,
        later + chip.seconds(n * chip.atomic_interval_cycles),
        parts[limiter],
        early.get(limiter, 0.0),
        formula_more,
        more,
        waves(blocks, timing.blocks_per_sm, chip.sms).count * block_s,
    )

"""Histogram: atomic operations on one address follow each other, however many threads wait.

Each value adds one to its bin. In global memory the L2 does that, one operation after another on an address: if all n
values fall into one bin, time = latency + n × interval, and neither more threads nor more SMs help. Values that are
spread over the bins meet less often. A copy of the bins in each block's shared memory takes the crowd apart: every SM
serialises its own values only, n / SMs passes of the load/store unit, and the L2 sees one operation for each bin and
block.

The formulas take the busiest part alone: operations on the busiest address of each sector, and sectors, in the L2 slice
that has most of them; passes in the load/store units; bytes in DRAM. They assume that this part never waits for the
others. On a chip with next to no latencies, where other parts are far from busy, twice the values take so much longer.
The L2's slices are dealt out in turn here, so that one can say on paper which slice has a bin; real GPUs scramble them.

    gpusim-des experiment histogram --gpu h100-sxm --out out
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

import gpusim_des as gs
from gpusim_des.units import FS_PER_S

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GPU = "h100-sxm"
SMS = 4
N, QUICK_N = 1 << 18, 1 << 16
BINS = 256
THREADS, VALUES, REGISTERS = 256, 4, 32
"""Threads of a block; values of a thread."""
BARRIERS = 0.1  # of the time, on load/store units
QUEUES = 0.3  # of the time: blocks among others take longer than alone
UNITS = BINS * 4 // 256
ATOMIC_UNIT = "atomic unit of the L2"
Values = npt.NDArray[np.int32]


@gs.kernel
def in_global(t: Any, values: Any, bins: Any) -> None:
    """Every value is an atomic operation in global memory."""
    i, step = t.blockIdx.x * VALUES * THREADS + t.threadIdx.x, THREADS
    v0, v1, v2, v3 = values[i], values[i + step], values[i + 2 * step], values[i + 3 * step]
    bins.atomic_add(v0, 1)
    bins.atomic_add(v1, 1)
    bins.atomic_add(v2, 1)
    bins.atomic_add(v3, 1)


@gs.kernel
def in_shared(t: Any, values: Any, bins: Any) -> Any:
    """A copy of the bins for each block; at its end they are added up."""
    mine = t.shared("mine", (BINS,), np.int32)
    mine[t.threadIdx.x] = 0
    i, step = t.blockIdx.x * VALUES * THREADS + t.threadIdx.x, THREADS
    v0, v1, v2, v3 = values[i], values[i + step], values[i + 2 * step], values[i + 3 * step]
    yield t.syncthreads()
    mine.atomic_add(v0, 1)
    mine.atomic_add(v1, 1)
    mine.atomic_add(v2, 1)
    mine.atomic_add(v3, 1)
    yield t.syncthreads()
    bins.atomic_add(t.threadIdx.x, mine[t.threadIdx.x])


@dataclass(frozen=True)
class HistogramPoint:
    """One kernel and one distribution."""

    label: str
    counted: int
    """Passes of atomic operations, in the L2 for global bins, in the load/store units for shared ones."""
    formula: int
    kernel: gs.KernelTiming
    limits_s: dict[str, float]
    """Part → seconds, latency included."""
    hot_s: float
    """Latency + n × interval."""
    least_s: float
    """What the busiest part takes."""
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


def distributions(n: int) -> dict[str, Values]:
    """Values by the name of their distribution."""
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


def run(
    chip: gs.GPU, kernel: gs.ThreadKernel, distribution: str, values: Values
) -> tuple[gs.Launch, gs.DeviceArray, gs.KernelTiming]:
    """Run one kernel, check its bins and simulate it."""
    dev = gs.Device(chip)
    a = dev.to_device(values)
    dev.forget_launches()
    bins = dev.to_device(np.zeros(BINS, np.int32))  # the copy leaves them in the L2
    launch = dev.launch(kernel, len(values) // (THREADS * VALUES), THREADS, a, bins, registers=REGISTERS)
    if not (dev.to_host(bins) == np.bincount(values, minlength=BINS)).all():
        raise AssertionError(f"{distribution}: results differ from NumPy's: this is a bug of the simulator")
    return launch, bins, dev.simulate(detail="kernel").kernels[0]


def alone_s(chip: gs.GPU, kernel: gs.ThreadKernel, values: Values) -> float:
    """Seconds of a block that is alone."""
    arguments = values[: THREADS * VALUES], np.zeros(BINS, np.int32)
    return gs.experiment.alone_s(chip, kernel, THREADS, *arguments, caches="on", registers=REGISTERS)


def busy(
    chip: gs.GPU, values: Values, launch: gs.Launch, bins: gs.DeviceArray, timing: gs.KernelTiming, *, shared: bool
) -> dict[str, float]:
    """Part → seconds that it is busy, without latencies."""
    blocks, cycle, n = launch.config.blocks, chip.sm_period_fs / FS_PER_S, len(values)
    total, operations, sectors = passes(values, shared=shared)
    if shared:  # each block adds its bins once: 64 of them are eight sectors, one operation each
        operations = sectors = np.full(UNITS, 8 * blocks, np.int32)
    # Slices are dealt out in turn; what is read is spread over all of them.
    slices = (bins.address + 256 * np.arange(UNITS)) // chip.channel_interleave_bytes % chip.dram_channels
    served, changed = (np.bincount(slices, weights=w, minlength=chip.dram_channels) for w in (operations, sectors))
    read = n * 4 // 32 / chip.dram_channels
    # Passes beside the atomics': the values, and for each warp of a block the bins set to zero, read, and added up.
    lone = n // 32 + (3 * blocks * THREADS // 32 if shared else n // 32)
    # Blocks that begin together end together: those of the last wave add their bins when all else is done.
    last = min(1, chip.sms * timing.blocks_per_sm / blocks) * float(served.max()) if shared else 0
    return {
        ATOMIC_UNIT: float(served.max()) * chip.atomic_interval_cycles * cycle,
        "slices of the L2": (read + float(changed.max())) * chip.l2_sector_fs / FS_PER_S,
        "load/store units": ((lone + (total if shared else 0)) / chip.sms + last * chip.atomic_interval_cycles) * cycle,
        "DRAM": 4 * n / gs.analytic.roofs(chip).memory["DRAM"],
    }


def measure(chip: gs.GPU, kernel: gs.ThreadKernel, distribution: str, values: Values) -> HistogramPoint:
    """Count, simulate as it is and where nothing else limits, and ask the formulas."""
    shared, n = kernel is in_shared, len(values)
    launch, bins, timing = run(chip, kernel, distribution, values)
    blocks, cycle = launch.config.blocks, chip.sm_period_fs / FS_PER_S
    accesses = launch.counters.accesses.items()
    counted = [c.wavefronts for site, c in accesses if (site.memory, site.operation) == ("shared", "atomic")]
    parts = busy(chip, values, launch, bins, timing, shared=shared)
    ends = gs.experiment.ends_s(chip)
    later = chip.l2_latency_cycles * cycle  # an operation reaches its bin after its value has been read
    limits = {part: ends + (later if part == ATOMIC_UNIT else 0) + seconds for part, seconds in parts.items()}
    limiter = max(limits, key=lambda part: limits[part])
    alone = gs.experiment.limited_by(chip, limiter, room=1 if limiter == "DRAM" else 4)
    found = []
    for some in (values, np.concatenate((values, values))):
        run_launch, run_bins, run_timing = run(alone, kernel, distribution, some)
        formula = busy(alone, some, run_launch, run_bins, run_timing, shared=shared)[limiter]
        found.append((formula, run_timing.seconds))
    formula_more, more = (b - a for a, b in zip(*found, strict=True))
    return HistogramPoint(
        f"{'shared' if shared else 'global'}, {distribution}",
        sum(counted) if shared else launch.counters.atomic_serialization,
        passes(values, shared=shared)[0],
        timing,
        limits,
        ends + later + n * chip.atomic_interval_cycles * cycle,
        parts[limiter],
        formula_more,
        more,
        gs.analytic.waves(blocks, timing.blocks_per_sm, chip.sms).count * alone_s(chip, kernel, values),
    )


OWN = {
    ATOMIC_UNIT: ("lg_throttle", "drain"),
    "slices of the L2": ("lg_throttle", "drain"),
    "load/store units": ("mio_throttle", "short_scoreboard", "lg_throttle"),
    "DRAM": ("long_scoreboard", "drain"),
}
"""Stalls that come from the queue in front of a part."""


def explanation(p: HistogramPoint) -> str:
    """Why the busiest part was not busy all the time: what else warps waited for."""
    busy = p.least_s / p.kernel.seconds
    return f"{p.limiter} busy {busy:.0%} of the time; {gs.experiment.waits(p.kernel, OWN[p.limiter])}"


def compared(points: Sequence[HistogramPoint]) -> gs.Comparison:
    """Passes, which are equal; n × interval; and the busiest part."""
    labels, hot = [p.label for p in points], [p for p in points if p.label.endswith("one bin")]
    return (
        gs.compare(
            *([p.formula for p in points], [p.counted for p in points]),
            name="lanes that meet",
            quantity="passes of atomic operations",
            labels=labels,
            tolerance=0,
        )
        + gs.compare(
            *([p.hot_s * 1e6 for p in hot], [p.kernel.seconds * 1e6 for p in hot]),
            name="latency + n × interval",
            quantity="time (µs)",
            labels=[p.label for p in hot],
            explain={"shared, one bin": "each SM serialises its own values, and all SMs work at once"},
            explained_up_to={p.label: gs.experiment.reach(p.hot_s, p.limits_s[p.limiter]) for p in hot},
            assumes="all operations on one address in the L2",
        )
        + gs.compare(
            *([p.limits_s[p.limiter] * 1e6 for p in points], [p.kernel.seconds * 1e6 for p in points]),
            name="latency + busiest part",
            quantity="time (µs)",
            labels=labels,
            explain={p.label: explanation(p) for p in points},
            explained_up_to={
                p.label: gs.experiment.reach(busy := p.limits_s[p.limiter], max(busy, p.latency_s), QUEUES)
                for p in points
            },
            assumes="the busiest part never waits for the others",
        )
        + gs.compare(
            *([p.alone_formula_s * 1e6 for p in points], [p.alone_s * 1e6 for p in points]),
            name="busiest part, where nothing else limits",
            quantity="what twice the values take longer (µs)",
            labels=labels,
            explain={
                p.label: "warps of a block wait for its slowest one at two barriers, and few passes are left meanwhile"
                for p in points
                if p.limiter == "load/store units"
            },
            explained_up_to=BARRIERS,
            assumes="next to no latencies, and other parts far from busy",
        )
    )


def draw(chip: gs.GPU, points: Sequence[HistogramPoint], n: int) -> Axes:
    us = [p.kernel.seconds * 1e6 for p in points]
    return gs.views.bars(
        [p.label for p in points],
        us,
        [p.limits_s[p.limiter] * 1e6 for p in points],
        xlabel="time (µs)",
        title=f"Histogram of {n:,} values on {chip.title}",
        notes=[f"{t:.3g}   {p.limiter}" for t, p in zip(us, points, strict=True)],
        formula_label="formula: latency + busiest part",
    )


def main(gpu: str = GPU, out: Path | None = None, *, quick: bool = False) -> tuple[list[HistogramPoint], gs.Comparison]:
    whole = gs.load_gpu(gpu)
    # Slices of the L2 in turn, so that the formula can say which one has a bin; a hash spreads them like balls in bins.
    part = whole.slice(sms=min(SMS, whole.sms))
    chip = part.replace(channel_hash="linear", title=part.title)
    fit = gs.analytic.occupancy(chip, threads=THREADS, registers=REGISTERS, shared_bytes=4 * BINS)
    wave = THREADS * VALUES * chip.sms * fit.blocks_per_sm
    n = round((QUICK_N if quick else N) / wave) * wave  # whole waves: every SM gets as many blocks
    points = [measure(chip, kernel, *way) for kernel in (in_global, in_shared) for way in distributions(n).items()]
    print(f"{n:,} values, {BINS} bins, {chip.title}")
    table = compared(points)
    print(table)
    if out is not None:
        gs.views.save(draw(chip, points, n), out / "histogram.png")
        print(f"written: {out / 'histogram.png'}")
    return points, table


if __name__ == "__main__":
    gs.experiment.script(main)

"""Rule S3: how far an extrapolated time may be off.

What varies at random is added up as variances and widened by Student's t to a confidence of 95 %. What would be off in
one direction everywhere is added on top: trends within runs, work that a straight line does not tell, the end of the
kernel, write queues that grow, and caches that hold something else than they would have. The factors of the latter were
chosen so that the truth lies within the bound in more than 95 % of random kernels (`tests/test_sampled_bounds.py`).
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np

from gpusim_des import units
from gpusim_des.gpu import GPU
from gpusim_des.statistics import student
from gpusim_des.timing.block_cost import Floats
from gpusim_des.timing.extrapolation import Extrapolation
from gpusim_des.trace import MEASURES, SECTOR_BYTES

DRIFT = 0.5
"""Share of the change from the first to the last wave of the runs that may still be to come."""

MODEL = 0.5
"""Share of the difference between the two ways in which cost is read from work."""

PHASE = 0.25
"""Waves by which the end of the kernel may shift, because blocks would be more, or less, in step by then."""

TREND_RUNS = 4
"""Runs from which on a run is compared with the line through its neighbours; of fewer, neighbours are compared."""

MANY = 1_000
"""Degrees of freedom of what is summed over all scouts: from here on, they make no difference."""

FIRST_RUN_WAVES = 4
"""Waves at the end of a long first run that tell how much waves differ."""

REUSED = 0.95
"""A run with less than this share of the fresh sectors of the run before reuses more and more."""

LONG_BLOCKS = 2
"""A block that reads this many times the sectors of the others may see another memory at the end."""


class Rates(NamedTuple):
    """What a kernel did per block between the first and the last checkpoint, and how the queues of its writes grew."""

    asked_sectors: float
    """Sectors of loads and stores."""
    stored_sectors: float
    waiting: float
    """Share of their time in which warps waited for global memory, or for other warps."""
    read_bytes: float
    """From DRAM."""
    spared_bytes: float
    """That later runs read less from DRAM than the first one, perhaps because the gaps left them some of the L2."""
    growth_fs: tuple[float, ...]
    """Growth of the time for which writes are queued, from one run to the next."""
    warm: tuple[float, float]
    """Sectors of the kernel that lay in the L2 from before it and perhaps would not, and that perhaps would."""


class Error(NamedTuple):
    """How far the time may be off, and by how much the estimate has to move for that."""

    moved_fs: float
    """To add to the estimate: what is more likely, or the middle of what is possible."""
    bounds_fs: dict[str, float]
    """Bounds by their reasons; they add up."""

    @property
    def bound_fs(self) -> float:
        """How far the time may be off in all."""
        return sum(self.bounds_fs.values())


def error_of(estimate: Extrapolation, rates: Rates, gpu: GPU, *, caches: bool) -> Error:
    """Return the bound of the error of an extrapolated time, and what moves the time itself."""
    of_scouts = student(MANY) * sqrt(sum(part.variance for part in estimate.missing))
    random = np.hypot(_noise(estimate), of_scouts)
    growing = max(0.0, min(rates.growth_fs[-2:])) * estimate.judged if rates.growth_fs else 0.0
    lines = sum(part.cost for part in estimate.missing)
    ratios = sum(part.by_ratio for part in estimate.missing)
    bounds = {
        "spread": float(random),
        "trend": DRIFT * _drift(estimate),
        "work": MODEL * abs(lines - ratios),
        "end": PHASE * estimate.sample.wave * estimate.mean_cost,
        "writes": growing,
        "caches": 0.0,
    }
    moved = growing
    if caches:
        bounds["caches"] = _reuse(estimate, rates, gpu) + _long_end(estimate, gpu) + _warm(estimate, rates, gpu)
        if not estimate.sample.settled:
            writes, reads = _unsettled(estimate, rates, gpu)
            bounds["caches"] += writes / 2 + reads
            moved += writes / 2
    return Error(moved, bounds)


# What varies at random -----------------------------------------------------------------------------------------------


def _noise(estimate: Extrapolation) -> float:
    """Bound of the error because waves and runs differ, for no reason that their work would tell."""
    sample, surplus = estimate.sample, estimate.surplus
    deviations = []
    for number, run in enumerate(sample.runs):
        waves = estimate.waves(estimate.at(run.measured if number == 0 else run.first, run.measured_end))
        of_run: Floats = np.array([estimate.residual[wave].mean() for wave in waves[-FIRST_RUN_WAVES:]])
        deviations.append(of_run - of_run.mean())
    freedom = max(1, sum(len(of_run) - 1 for of_run in deviations))
    variance = sum(float((of_run**2).sum()) for of_run in deviations) / freedom
    lengths = np.array([(part.stop - part.start) / sample.wave for part in estimate.measured])
    of_waves = student(freedom) * sqrt(float((estimate.weights**2 * variance / lengths).sum()))
    if len(surplus) >= TREND_RUNS:
        bends = surplus[1:-1] - (surplus[:-2] + surplus[2:]) / 2
        # The middle less the mean of two others varies by half as much again as one of them.
        deviation = sqrt(float((bends**2).mean()) / 1.5)
        of_runs = student(len(bends)) * deviation * sqrt(float((estimate.weights**2).sum()))
    else:
        of_runs = float(np.abs(np.diff(surplus)).max()) * estimate.judged
    return max(of_waves, of_runs)


# What is off everywhere ----------------------------------------------------------------------------------------------


def _drift(estimate: Extrapolation) -> float:
    """Change from the first to the last measured wave of a run, mean over the runs, for all blocks that are judged."""
    changes = []
    for part in estimate.measured:
        waves = estimate.waves(part)
        if len(waves) > 1:
            changes.append(estimate.residual[waves[-1]].mean() - estimate.residual[waves[0]].mean())
    return abs(float(np.mean(changes))) * estimate.judged if changes else 0.0


def _sector_fs(gpu: GPU) -> float:
    """Time of a sector in DRAM with mixed traffic, if all channels share the load."""
    return float(SECTOR_BYTES * units.FS_PER_S / (gpu.dram_bandwidth_bytes_per_s * gpu.efficiency("mixed")))


def _latency_ratio(gpu: GPU) -> float:
    return gpu.dram_latency_cycles / gpu.l2_latency_cycles


def _reuse(estimate: Extrapolation, rates: Rates, gpu: GPU) -> float:
    """Time that could be saved where more and more of what blocks ask for was touched before, by blocks left out."""
    fresh, sector_fs, slower = estimate.sample.fresh, _sector_fs(gpu), _latency_ratio(gpu) - 1
    saved = total = 0.0
    for number, gap in enumerate(estimate.sample.gaps):
        total += gap.blocks
        if fresh[number + 1] < REUSED * fresh[number]:
            share = (fresh[number] + fresh[number + 1]) / 2
            transfer = share * rates.asked_sectors * sector_fs
            latency = rates.waiting * estimate.mean_cost * share * slower / (1 + share * slower)
            saved += gap.blocks * max(transfer, latency)
    # The end of the kernel may be as far off as what is left out.
    return saved / total * (estimate.judged + 2 * estimate.sample.wave) if saved else 0.0


def _warm(estimate: Extrapolation, rates: Rates, gpu: GPU) -> float:
    """Time that sectors make, which lie in the L2 or not because of what ran before, to fetch and to write back."""
    asked = rates.asked_sectors * estimate.judged
    if not asked:
        return 0.0
    slower, whole = _latency_ratio(gpu) - 1, rates.waiting * estimate.mean_cost * estimate.judged
    lost, won = (min(1.0, sectors / asked) * slower for sectors in rates.warm)
    return max(sum(rates.warm) * _sector_fs(gpu), whole * max(lost, won / (1 + won)))


def _long_end(estimate: Extrapolation, gpu: GPU) -> float:
    """How much longer or shorter the end may be, if it consists of few blocks that read a lot."""
    played = estimate.played
    sectors = played.work[:, MEASURES.index("sectors")]
    end = float((played.ends.max() - played.starts.max()) - estimate.sample.wave * estimate.mean_cost)
    last = played.ends > played.starts.max()
    if end <= 0 or sectors[last].max() < LONG_BLOCKS * sectors.mean():
        return 0.0
    return end * (1 - 1 / _latency_ratio(gpu))


def _unsettled(estimate: Extrapolation, rates: Rates, gpu: GPU) -> tuple[float, float]:
    """Time that DRAM would take once the L2 is full, if nothing of it is hidden: for writes, and for reads spared.

    What a run finds in the L2 because the same run was there before, it would find in the whole kernel as well.
    """
    sector_fs = _sector_fs(gpu)
    slower = float(1 - gpu.efficiency("mixed") / gpu.efficiency("read"))
    writes = rates.stored_sectors * sector_fs + rates.read_bytes / SECTOR_BYTES * sector_fs * slower
    return estimate.judged * writes, estimate.judged * rates.spared_bytes / SECTOR_BYTES * sector_fs

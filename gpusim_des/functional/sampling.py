"""Rule S1: which blocks of a launch are executed where a sample is to stand for all.

The beginning and the end of the grid are always there: the timing model plays how the kernel fills the GPU and drains.
Between them lie runs of whole waves, spread so that each stands for as much work as the others. How the work is
distributed, single blocks all over the grid tell, which are executed first; more such scouts, drawn at random in groups
from what is left out, stand for it in the counters, and the spread between the groups is the error.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpusim_des.errors import LaunchError
from gpusim_des.functional.accounting import DistinctSectors
from gpusim_des.functional.counters import Counters
from gpusim_des.functional.estimated_counters import EstimatedCounters, estimate
from gpusim_des.functional.executed_blocks import ExecutedBlocks
from gpusim_des.grid import cdiv
from gpusim_des.trace import SECTOR_BYTES, Run, Sample, work

SampleSize = Literal["auto"] | int
"""Waves to play, at least `LEAST_WAVES`; or as many as the kernel needs."""

LEAST_WAVES = 6
"""Three at the beginning, of which the first finds cold caches, and three at the end, of which the last drains."""

AUTO_WAVES = 18
"""What ``"auto"`` begins with: six runs, enough to tell noise from a trend."""

RUN_WAVES = 3
"""Waves of a run: one to bring caches and queues into their state, two to measure."""

GOAL = 0.01
"""Relative error, two standard deviations, of the work of the blocks that are left out at which scouts are enough."""

MOST_PLAYED = 0.75
"""A sample that would play more of the grid than this is not worth its errors."""

FEWEST_PILOTS = 64
"""Blocks at least that look how the work is distributed, before runs are chosen; of small grids an eighth."""

FEWEST_SCOUTS = 32
GROUPS = 8
"""Groups of scouts that are drawn independently; half as many if there are few."""

MOST_EXTRA_RUNS = 3
"""Runs that are added for blocks unlike all that were played so far."""

NOTICEABLE = 0.02
"""Share of a wave's time from which on writes back from the L2 matter."""

SETTLING_WAVES = 2
"""Waves after which writes back from the full L2 have filled the queues behind it."""

UNLIKE = 1.25
"""A block with more work than this times that of any played block, or as much less, is unlike them."""

FILLED = 1.1
"""Bytes touched over those of the L2 from which on it counts as full: its slices do not fill evenly."""

_STORED = "global_store_sectors", "global_atomic_sectors"
"""Counters of what is written to global memory."""

SEED = 20_250_101
"""Draws are random, so that they do not follow a pattern in the grid, and the same in every run."""


class Beginning(NamedTuple):
    """The first run."""

    run: Run
    settled: bool
    """It touched as much memory as the L2 holds, or as much as the whole kernel will."""
    steady: bool
    """That is so, or makes no difference."""
    fresh: float
    """Share of the sectors of its last waves that nobody had touched before."""


def checked(asked: Any) -> SampleSize:
    """Return a `sample` argument, if it is one; raises `LaunchError`."""
    if isinstance(asked, str) and asked == "auto":
        return "auto"
    if not isinstance(asked, bool) and not isinstance(asked, str):
        try:
            waves = operator.index(asked)
        except TypeError:
            waves = -1
        if waves >= LEAST_WAVES:
            return waves
    raise LaunchError(
        f"sample = {asked!r}: give the number of waves to play, a whole number of at least {LEAST_WAVES}, or 'auto'; "
        "leave it out to execute and play all blocks"
    )


class Sampler:
    """Chooses the blocks of one launch and lets them run.

    Parameters
    ----------
    executed
        Runs blocks and keeps what they did.
    asked
        Waves to play, or ``"auto"``.
    wave_of
        Blocks that the GPU holds at a time, given the static shared memory of a block in bytes.
    l2_bytes
        Size of the GPU's L2: until that much is touched, a kernel that writes is not in its steady state.
    bytes_per_instruction
        What DRAM can move in the time in which the GPU can issue a warp instruction.
    done
        Hears how many blocks have run now and then.

    Attributes
    ----------
    reason
        Why all blocks were executed, where they were.
    """

    def __init__(
        self,
        executed: ExecutedBlocks,
        asked: SampleSize,
        wave_of: Callable[[int], int],
        l2_bytes: int,
        bytes_per_instruction: float,
        done: Callable[[int], None] | None = None,
    ) -> None:
        self.reason = ""
        self._executed = executed
        self._asked = asked
        self._wave_of = wave_of
        self._l2_bytes = l2_bytes
        self._bytes_per_instruction = bytes_per_instruction
        self._done = done
        self._random = np.random.default_rng(SEED)
        self._blocks = executed.trace.config.blocks
        self._ran = np.zeros(self._blocks, bool)
        self._wave = 0
        self._waves = 0

    def run(self) -> tuple[EstimatedCounters, Sample] | None:
        """Execute a sample; ``None`` if all blocks were executed because the grid is not much larger than that."""
        self._run(np.zeros(1, np.int64))
        self._wave = self._wave_of(self._executed.counters.shared_bytes_per_block)
        self._waves = self._blocks // self._wave
        wanted = AUTO_WAVES if self._asked == "auto" else self._asked
        if self._waves <= wanted + 1:
            self._all(f"the grid of {self._waves} waves is not larger than the sample of {wanted}")
            return None
        pilots = self._draw([(RUN_WAVES, self._waves - RUN_WAVES)], self._pilots)
        self._run(pilots)
        begin, settled, steady, fresh_at_first = self._begin(wanted)
        first = begin.end
        if self._asked == "auto" and not steady:
            self._all("less than half of the grid does not fill the L2 cache")
            return None
        middle = max(0, (wanted - first - RUN_WAVES) // RUN_WAVES)
        if self._asked == "auto":
            middle = max(middle, AUTO_WAVES // RUN_WAVES - 2)
        begins = self._spread(pilots, first, middle)
        if begins is None:
            self._all(f"{self._waves} waves leave little out between {middle + 2} runs")
            return None
        runs = [begin, *(Run(b, b + 1, b + RUN_WAVES, b + RUN_WAVES) for b in begins)]
        last = self._waves - RUN_WAVES
        runs.append(Run(last, last + 1, last + 2, self._waves))
        fresh = {run: self._fresh_share(run) for run in runs[1:]}
        fresh |= {run: self._fresh_share(run) for run in self._unlike(runs, pilots)}
        runs, fresh[begin] = [begin, *sorted(fresh)], fresh_at_first
        blocks = [Run._make(number * self._wave for number in run) for run in runs]
        blocks[-1] = blocks[-1]._replace(end=self._blocks)
        self._run(np.arange(last * self._wave, self._blocks))
        if self._left < max(2 * GROUPS, (1 - MOST_PLAYED) / 2 * self._blocks):
            self._all(f"blocks of many kinds leave only {self._left:,} of {self._blocks:,} out")
            return None
        return self._finish(tuple(blocks), pilots, settled, [fresh[run] for run in runs])

    # Executing ------------------------------------------------------------------------------------------------------

    def _run(self, blocks: NDArray[np.int64], touched: DistinctSectors | None = None) -> Counters:
        """Run those of some blocks that have not run yet; returns what they counted."""
        new = blocks[~self._ran[blocks]]
        self._ran[new] = True
        return self._executed.run(new, self._done, touched)

    @property
    def _left(self) -> int:
        """Blocks that have not run."""
        return int(np.count_nonzero(~self._ran))

    def _all(self, reason: str) -> None:
        """Execute all that is left, for a reason."""
        self.reason = reason
        self._run(np.arange(self._blocks))

    def _run_waves(self, first: int, end: int, touched: DistinctSectors | None = None) -> Counters:
        return self._run(np.arange(first * self._wave, end * self._wave), touched)

    # Choosing -------------------------------------------------------------------------------------------------------

    @property
    def _pilots(self) -> int:
        """Blocks that look how the work is distributed: as many as run at a time, if that is not too many."""
        return min(self._executed.at_once, max(self._blocks // 16, min(FEWEST_PILOTS, self._blocks // 8)))

    def _draw(self, stretches: list[tuple[int, int]], count: int) -> NDArray[np.int64]:
        """Draw blocks that have not run from stretches of waves, one from each of `count` equal parts; ascending."""
        numbers = np.concatenate([np.arange(a * self._wave, b * self._wave) for a, b in stretches])
        numbers = numbers[~self._ran[numbers]]
        count = min(count, len(numbers))
        borders = np.linspace(0, len(numbers), count + 1).astype(np.int64)
        drawn: NDArray[np.int64] = numbers[self._random.integers(borders[:-1], borders[1:])]
        return drawn

    def _begin(self, wanted: int) -> Beginning:
        """Execute the first run.

        It goes on until it has touched as much memory as the L2 holds, if the whole kernel does and writes enough.
        """
        most = max(RUN_WAVES, wanted - RUN_WAVES - (RUN_WAVES if wanted >= 3 * RUN_WAVES else 0))
        if self._asked == "auto":
            most = self._waves // 2
        row = cdiv(self._executed.trace.config.grid.x, self._wave)
        least = RUN_WAVES if row > wanted // 3 else max(RUN_WAVES, row + 2)
        seen = DistinctSectors()
        touched, sectors = [0], list[int]()
        filled_at = 0
        while True:
            end = len(touched)
            counted = self._run_waves(end - 1, end, seen)
            touched.append(SECTOR_BYTES * seen.count)
            sectors.append(_sectors(counted))
            rate = touched[-1] - touched[-2]
            if touched[-1] >= FILLED * self._l2_bytes and not filled_at:
                filled_at = end
            settled = bool(filled_at) or touched[-1] + rate * (self._waves - end) < self._l2_bytes
            matters = self._writes_matter(counted)
            measured = filled_at + SETTLING_WAVES if filled_at and matters else 1
            steady = settled or not matters
            if end >= most or (steady and end >= max(least, measured + RUN_WAVES - 1)):
                break
        few = RUN_WAVES - 1
        asked = SECTOR_BYTES * sum(sectors[-few:])
        share = (touched[-1] - touched[-1 - few]) / asked if asked else 0.0
        measured = min(measured, end - 1) if steady else max(1, end - RUN_WAVES + 1)
        return Beginning(Run(0, measured, end, end), settled, steady, share)

    def _writes_matter(self, counted: Counters) -> bool:
        """Tell whether writing back what a wave stores could take DRAM a noticeable part of the wave's time."""
        stored = SECTOR_BYTES * _stored(counted)
        return stored > NOTICEABLE * counted.warp_instructions * self._bytes_per_instruction

    def _spread(self, pilots: NDArray[np.int64], first: int, middle: int) -> list[int] | None:
        """First waves of the runs between the beginning and the end, each in the middle of equal amounts of work."""
        end = self._waves - RUN_WAVES
        if first + RUN_WAVES * (middle + 1) > MOST_PLAYED * self._waves:
            return None
        inside = pilots[(pilots >= first * self._wave) & (pilots < end * self._wave)]
        amounts = self._amounts(inside).sum(axis=1) if len(inside) else np.zeros(0)
        edges = np.concatenate([[first], (inside[:-1] + inside[1:]) / (2 * self._wave), [end]])[: len(amounts) + 1]
        done = np.concatenate([[0.0], np.cumsum(amounts)])
        begins: list[int] = []
        earliest = first
        for number in range(middle):
            share = (number + 0.5) / middle
            centre = np.interp(share * done[-1], done, edges) if len(amounts) else first + share * (end - first)
            begin = min(max(round(centre - RUN_WAVES / 2), earliest), end - RUN_WAVES * (middle - number))
            begins.append(int(begin))
            earliest = begin + RUN_WAVES
        return begins

    def _amounts(self, blocks: NDArray[np.int64]) -> NDArray[np.float64]:
        """Work of blocks in all measures, relative to the mean of these blocks."""
        amounts = work(self._executed.trace, blocks)
        mean = amounts.mean(axis=0)
        return amounts / np.where(mean > 0, mean, 1)

    def _fresh_share(self, run: Run) -> float:
        """Execute a run; returns the share of the sectors that it asked for which no block before had touched."""
        before = self._executed.distinct_sectors
        counted = self._run_waves(run.first, run.end)
        asked = _sectors(counted)
        return (self._executed.distinct_sectors - before) / asked if asked else 0.0

    def _unlike(self, runs: list[Run], pilots: NDArray[np.int64]) -> list[Run]:
        """Find runs to add where pilots met blocks with far more or less work than any that is played."""
        added: list[Run] = []
        for _ in range(MOST_EXTRA_RUNS):
            there = sorted([*runs, *added])
            played = np.concatenate([np.arange(run.first * self._wave, run.end * self._wave) for run in there])
            amounts = work(self._executed.trace, played[self._ran[played]])
            seen = work(self._executed.trace, pilots)
            unlike = (seen > UNLIKE * amounts.max(axis=0)) | (seen * UNLIKE < amounts.min(axis=0))
            waves = pilots[unlike.any(axis=1)] // self._wave
            lonely = [wave for wave in waves.tolist() if not any(run.first <= wave < run.end for run in there)]
            if not lonely:
                break
            wave = lonely[len(lonely) // 2]
            before = max(run for run in there if run.end <= wave)
            after = there[there.index(before) + 1]
            if after.first - before.end < RUN_WAVES:
                break
            first = min(max(wave - 1, before.end), after.first - RUN_WAVES)
            added.append(Run(first, first + 1, first + RUN_WAVES, first + RUN_WAVES))
        return added

    # Estimating -----------------------------------------------------------------------------------------------------

    def _finish(
        self, runs: tuple[Run, ...], pilots: NDArray[np.int64], settled: bool, fresh: list[float]
    ) -> tuple[EstimatedCounters, Sample]:
        """Send scouts into what is left out, and let them stand for it."""
        spread = self._amounts(pilots).std(axis=0).max()
        gaps = [(a.end // self._wave, b.first // self._wave) for a, b in pairwise(runs)]
        most = max(FEWEST_SCOUTS, min(self._blocks // 8, sum(run.blocks for run in runs) // 2))
        most = min(most, self._left // 2)
        least = FEWEST_SCOUTS if spread else FEWEST_SCOUTS // 4
        count = int(min(max(least, (2 * spread / GOAL) ** 2), most))
        before, stored_before = self._executed.distinct_sectors, self._executed.distinct_stored_sectors
        several = GROUPS if count >= GROUPS**2 else GROUPS // 2
        groups, counted = [], []
        for _ in range(several):
            groups.append(self._draw(gaps, count // several))
            counted.append(self._run(groups[-1]))
        scouts = np.sort(np.concatenate(groups))
        asked = sum(map(_sectors, counted))
        fresh_scouts = (self._executed.distinct_sectors - before) / asked if asked else 0.0
        played = np.zeros(self._blocks, bool)
        for run in runs:
            played[run.first : run.end] = True
        others = np.flatnonzero(self._ran & ~played)
        sample = Sample(self._blocks, self._wave, runs, scouts, others, settled, tuple(fresh))
        self._executed.counters.distinct_sectors = self._executed.distinct_sectors
        spread = self._local_spread(sample)
        counters = estimate(self._executed, sample, counted, [*fresh[1:], fresh_scouts], spread)
        stored = self._executed.distinct_stored_sectors
        new = (stored - stored_before) / max(1, sum(map(_stored, counted)))
        new = min(new, stored / max(1, _stored(counters.executed)))
        more = round(new * (_stored(counters) - _stored(counters.executed)))
        distinct = counters.distinct_sectors
        return counters, replace(
            sample,
            distinct_sectors=distinct,
            distinct_stored_sectors=min(stored + more, distinct),
            moved_bounds=(counters.bounds["global_load_sectors"], sum(counters.bounds[name] for name in _STORED)),
        )

    def _local_spread(self, sample: Sample) -> float:
        """Relative deviation of the work of blocks from their neighbours', in the measure that differs most.

        Blocks of the runs tell it as well: there are far more of them than scouts, and heavy ones may be rare.
        """
        stretches = [sample.others, *(np.arange(run.first, run.end) for run in sample.runs)]
        amounts = [work(self._executed.trace, blocks) for blocks in stretches]
        steps = [np.diff(of_stretch, axis=0) ** 2 / 2 for of_stretch in amounts]
        variance = np.maximum(steps[0].mean(axis=0), np.concatenate(steps[1:]).mean(axis=0))
        mean = np.concatenate(amounts).mean(axis=0)
        return float((np.sqrt(variance) / np.where(mean > 0, mean, 1)).max())


def _sectors(counted: Counters) -> int:
    """Sectors that blocks asked for in global memory, each as often as it was."""
    return counted.global_load_sectors + _stored(counted)


def _stored(counted: Counters) -> int:
    return sum(getattr(counted, name) for name in _STORED)

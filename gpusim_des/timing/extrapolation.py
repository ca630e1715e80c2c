"""Rule S2: the time of the blocks that a sample leaves out, from the blocks that were played.

Every instant of what was played is divided among the blocks resident then (`shares`): what a block costs. Costs add up
to the time, so what is missing is the cost of the blocks in the gaps. A line over the work of a block tells it
(`BlockCost`), shifted to what the runs on both sides of the gap cost beyond the line; how much work lies in a gap, the
scouts tell. The first waves of a run behind a gap find other caches and queues than they would have; they count as if
they lay in the gap.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpusim_des.timing.block_cost import BlockCost, Floats
from gpusim_des.timing.shares import shares
from gpusim_des.trace import Gap, Sample


class Played(NamedTuple):
    """What playing a sample showed of its blocks, one entry for each in the order of the grid."""

    sample: Sample
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    work: Floats
    """Work of the played blocks, a row for each."""
    others: Floats
    """Work of the blocks that were executed and not played."""


class Missing(NamedTuple):
    """The blocks of one gap, and what they would cost."""

    gap: Gap
    after: int
    """Number of the run before the gap."""
    replaced: slice
    """Played blocks behind the gap that are judged as if they lay in it."""
    cost: float
    """Femtoseconds of all of them."""
    by_ratio: float
    """The same if cost were proportional to work, as near as the runs on both sides are to that."""
    played: float
    """What the replaced ones took."""
    variance: float
    """Of the cost, because only scouts tell what lies in the gap."""
    amount: float
    """Work in the gap, in blocks as they were measured, mean."""


class Extrapolation:
    """The extrapolated time of a sampled kernel.

    Attributes
    ----------
    cost
        Share of time of every played block.
    surplus
        Of every run, what its measured blocks cost beyond the line, mean.
    weights
        Of every run, the number of blocks that it stands for.
    missing
        The gaps.
    """

    def __init__(self, played: Played) -> None:
        self.played = played
        self.sample = played.sample
        self.cost = shares(played.starts, played.ends)
        self._numbers = self.sample.played
        self.measured = [self.at(run.measured, run.measured_end) for run in self.sample.runs]
        everywhere = np.concatenate([np.arange(part.start, part.stop) for part in self.measured])
        self.line = BlockCost.of(played.work[everywhere], self.cost[everywhere])
        self.mean_cost = float(self.cost[everywhere].mean())
        self._amounts = self.line.amounts(played.work)
        self._mean_amount = float(self._amounts[everywhere].mean())
        self._on_line = self.line(played.work)
        self.residual = self.cost - self._on_line
        self.surplus: Floats = np.array([self.residual[part].mean() for part in self.measured])
        self._ratios = [self.cost[part].sum() / self._amounts[part].sum() for part in self.measured]
        self.weights = np.zeros(len(self.measured))
        self.missing = [self._judge(number, gap) for number, gap in enumerate(self.sample.gaps) if gap.blocks]

    @property
    def added_fs(self) -> float:
        """What the blocks in the gaps add, less what those behind them took longer or shorter than they would have."""
        return sum(part.cost - part.played for part in self.missing)

    @property
    def judged(self) -> float:
        """Blocks whose cost is estimated."""
        return float(self.weights.sum())

    def at(self, first: int, end: int) -> slice:
        """Where some blocks of the grid lie among the played ones."""
        begin, stop = np.searchsorted(self._numbers, [first, end]).tolist()
        return slice(begin, stop)

    def amount(self, run: int) -> float:
        """Work of the measured blocks of a run, in blocks as they were measured, mean."""
        return float(self._amounts[self.measured[run]].sum()) / self._mean_amount

    def waves(self, part: slice) -> list[slice]:
        """Whole waves of a stretch of played blocks."""
        wave = self.sample.wave
        return [slice(begin, begin + wave) for begin in range(part.start, part.stop - wave + 1, wave)]

    def along(self, number: int, gap: Gap, played: Floats, others: Floats) -> tuple[Floats, Floats]:
        """Return what blocks have at points through a gap, behind run `number`, and the steps between these points.

        At its ends that is the mean of the wave there, between them what the scouts have.
        """
        sample, wave = self.sample, self.sample.wave
        before, after = sample.runs[number], sample.runs[number + 1]
        scouts = np.flatnonzero((sample.others >= gap.first) & (sample.others < gap.end))
        edges = self.at(before.end - wave, before.end), self.at(after.first, after.first + wave)
        places = np.concatenate([[gap.first], sample.others[scouts], [gap.end]]).astype(np.float64)
        known = [played[edges[0]].mean()], others[scouts], [played[edges[1]].mean()]
        return np.diff(places), np.concatenate(known)

    def total(self, number: int, gap: Gap, played: Floats, others: Floats) -> float:
        """Return what all blocks of a gap have together."""
        return _area(*self.along(number, gap, played, others))

    def _judge(self, number: int, gap: Gap) -> Missing:
        """Find what the blocks of a gap cost, between runs `number` and `number + 1`."""
        after = self.sample.runs[number + 1]
        steps, costs = self.along(number, gap, self._on_line, self.line(self.played.others))
        amount = self.total(number, gap, self._amounts, self.line.amounts(self.played.others))
        left_out = gap.blocks - (len(steps) - 1)
        variance = float((steps**2 * np.diff(costs) ** 2).sum()) / 2 * left_out / gap.blocks
        replaced = self.at(after.first, after.measured)
        more = replaced.stop - replaced.start
        cost = _area(steps, costs) + gap.blocks * float(self.surplus[number : number + 2].mean())
        cost += float(self._on_line[replaced].sum()) + more * float(self.surplus[number + 1])
        ratio = sum(self._ratios[number : number + 2]) / 2
        by_ratio = amount * ratio + float(self._amounts[replaced].sum()) * self._ratios[number + 1]
        self.weights[number] += gap.blocks / 2
        self.weights[number + 1] += gap.blocks / 2 + more
        taken = float(self.cost[replaced].sum())
        return Missing(gap, number, replaced, cost, by_ratio, taken, variance, amount / self._mean_amount)


def _area(steps: Floats, heights: Floats) -> float:
    """Area under a line through points `steps` apart."""
    return float((steps * (heights[1:] + heights[:-1])).sum()) / 2

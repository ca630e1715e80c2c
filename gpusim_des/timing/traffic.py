"""Rules S2 and S3 for memory: what the blocks of a gap would move, and how far that may be off.

How many sectors they ask for, scouts tell. What becomes of a sector that is asked for (it is in a cache, it comes from
DRAM, it drives out another one that has to be written) is read from the measured stretches on both sides of the gap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpusim_des.gpu import GPU
from gpusim_des.timing.block_cost import Floats
from gpusim_des.timing.extrapolation import Extrapolation
from gpusim_des.timing.extrapolation_error import REUSED
from gpusim_des.trace import SECTOR_BYTES

MOVED = (
    *("l1_sectors", "l1_hit_sectors", "stored_sectors", "ideal_load_sectors", "ideal_store_sectors"),
    *("l2_sectors", "l2_hit_sectors", "read_granules", "write_granules"),
)
"""What a run counts of memory."""

DRAM = MOVED[-2:]

NEARLY_FULL = 0.5
"""Share of the L2 that a kernel touches from which on slices may be full, because lines do not spread evenly."""

FULL_ACCESSES = 0.9
"""Stores that touch no more sectors than this share suggests fill their DRAM granules."""

Numbers = NDArray[np.int64]


class Stretch(NamedTuple):
    """What was counted in a measured stretch, and the sectors that its blocks asked for."""

    counts: dict[str, int]
    asked: float


class Traffic(NamedTuple):
    """What the blocks that are not played add to the counts of `MOVED`, and how far that may be off, either way."""

    added: dict[str, int]
    bounds: dict[str, int]
    share: float
    """Sectors that these blocks ask for, over those of all measured stretches."""
    granules_share: float
    """Granules that DRAM moves for them, over those of all measured stretches."""
    warm: tuple[float, float]
    """Sectors that were in the L2 from before the kernel and perhaps would not be, and those that perhaps would."""


@dataclass
class _Between:
    """A count, and how much less or more it may be."""

    count: float
    less: float
    more: float

    def bound(self, played: int) -> float:
        """The larger of both; with what was played, nothing counts less than 0."""
        return max(min(self.less, self.count + played), self.more)


def traffic(
    estimate: Extrapolation,
    stretches: Sequence[dict[str, int]],
    played: dict[str, int],
    moved: Numbers,
    moved_by_others: Numbers,
    gpu: GPU,
    *,
    caches: bool,
    warm: bool,
    atomics: bool,
) -> Traffic:
    """Estimate what the blocks in the gaps move.

    Parameters
    ----------
    estimate
        The gaps, and the runs between which they lie.
    stretches
        Counts of `MOVED` in the measured stretch of every run.
    played
        The same for all that was played.
    moved, moved_by_others
        Sectors that blocks load and store, a row for each: of the played ones, and of the others that were executed.
    warm
        The L2 may hold something from before the kernel.
    atomics
        Some of what is stored, atomic operations store: they read, too.
    """
    return _Estimate(estimate, stretches, played, moved, moved_by_others, gpu).traffic(
        caches=caches, warm=warm, atomics=atomics
    )


class _Estimate:
    def __init__(
        self,
        estimate: Extrapolation,
        stretches: Sequence[dict[str, int]],
        played: dict[str, int],
        moved: Numbers,
        moved_by_others: Numbers,
        gpu: GPU,
    ) -> None:
        self._sample, self._gpu, self._played = estimate.sample, gpu, played
        self._parts = estimate.missing
        self._loads, self._stores = (int(n) for n in moved.sum(axis=0))
        # Loads that pass by the L1 are not counted as they are issued: then blocks tell what a stretch asked for.
        counted = played["l1_sectors"] == self._loads and played["stored_sectors"] == self._stores
        self._stretches = [
            Stretch(
                counts,
                counts["l1_sectors"] + counts["stored_sectors"] if counted else float(moved[part].sum()),
            )
            for counts, part in zip(stretches, estimate.measured, strict=True)
        ]
        kinds: list[tuple[Floats, Floats]] = [
            (moved[:, k].astype(np.float64), moved_by_others[:, k].astype(np.float64)) for k in range(2)
        ]
        of_gaps = [[estimate.total(part.after, part.gap, *kind) for kind in kinds] for part in estimate.missing]
        scouts = moved_by_others[np.isin(self._sample.others, self._sample.scouts)]
        whole = moved_by_others.sum(axis=0) + [self._sample.left_out_count(int(n)) for n in scouts.sum(axis=0)]
        asked = np.array(of_gaps, np.float64).reshape(-1, 2)
        sums = asked.sum(axis=0)
        self._asked: Floats = asked * np.where(sums > 0, whole / np.maximum(sums, 1), 0)
        """Sectors loaded and stored in every gap: together as many as the scouts let expect."""
        self._unsure = self._sample.moved_bounds

    def traffic(self, *, caches: bool, warm: bool, atomics: bool) -> Traffic:
        """All counts."""
        counts = {
            name: self._alike(name, of)
            for name, of in zip(MOVED[:5], ("loads", "loads", "stores", "loads", "stores"), strict=True)
        }
        for name in ("l1_hit_sectors", "l2_hit_sectors", "read_granules", "write_granules"):
            counts[name] = self._near(name)
        counts["l2_sectors"] = self._not_in_l1(counts["l1_hit_sectors"])
        found = 0.0, 0.0
        if caches:
            self._found_nearer(counts)
            self._spared(counts["read_granules"])
            if warm:
                found = self._left_from_before(counts)
            self._written(counts["write_granules"], warm=warm)
        else:
            near = counts["read_granules"]
            differ = {name: counts[name].more for name in ("read_granules", "write_granules")}
            for name, of in (("read_granules", "loads"), ("write_granules", "stores")):
                counts[name] = self._alike(name, of)
                if self._gpu.dram_granule_bytes > SECTOR_BYTES:  # how many of its sectors are used, blocks decide
                    counts[name].less = counts[name].more = max(counts[name].more, differ[name])
            if atomics:
                counts["read_granules"].more += abs(near.count - counts["read_granules"].count) + near.more
                counts["read_granules"].less = counts["read_granules"].more
        measured = sum(s.counts[name] for s in self._stretches for name in DRAM)
        return Traffic(
            {name: max(0, round(c.count)) for name, c in counts.items()},
            {name: ceil(c.bound(self._played[name])) for name, c in counts.items()},
            float(self._asked.sum()) / max(1.0, sum(s.asked for s in self._stretches)),
            sum(counts[name].count for name in DRAM) / max(1, measured),
            found,
        )

    def _alike(self, name: str, of: str) -> _Between:
        """What all sectors of a kind count alike, wherever they lie."""
        column, played = (0, self._loads) if of == "loads" else (1, self._stores)
        each = self._played[name] / played if played else 0.0
        unsure = each * self._unsure[column]
        return _Between(each * float(self._asked[:, column].sum()), unsure, unsure)

    def _pair(self, gap: int) -> tuple[Stretch, Stretch]:
        after = self._parts[gap].after
        return self._stretches[after], self._stretches[after + 1]

    def _near(self, name: str) -> _Between:
        """What sectors count as they did on both sides of their gap.

        It may be off by half of the difference between the sides, or by what such differences are elsewhere, and by one
        count more or less in each stretch.
        """
        count, halves, single = 0.0, [], 0.0
        asked = self._asked.sum(axis=1)
        for gap, sectors in enumerate(asked.tolist()):
            one, other = self._pair(gap)
            both = one.asked + other.asked
            count += sectors * self._share(gap, name)
            shares = [s.counts[name] / s.asked if s.asked else 0.0 for s in (one, other)]
            halves.append(abs(shares[0] - shares[1]) / 2)
            single += sectors / both if both else 0.0
        usual = sqrt(sum(half**2 for half in halves) / len(halves)) if halves else 0.0
        off = sum(max(half, usual) * sectors for half, sectors in zip(halves, asked.tolist(), strict=True))
        off += single + (count / asked.sum() * sum(self._unsure) if asked.sum() else 0.0)
        return _Between(count, off, off)

    def _not_in_l1(self, hits: _Between) -> _Between:
        """Sectors that the L2 is asked for: those that are loaded and not in an L1, and those of atomic operations."""
        loads, stores = self._asked.sum(axis=0).tolist()
        atomics = self._played["l2_sectors"] - (self._loads - self._played["l1_hit_sectors"])
        each = atomics / self._stores if self._stores else 0.0
        unsure = self._unsure[0] + each * self._unsure[1]
        return _Between(loads - hits.count + each * stores, hits.more + unsure, hits.less + unsure)

    def _share(self, gap: int, name: str) -> float:
        """Count of a sector that is asked for around a gap."""
        one, other = self._pair(gap)
        both = one.asked + other.asked
        return (one.counts[name] + other.counts[name]) / both if both else 0.0

    def _found_nearer(self, counts: dict[str, _Between]) -> None:
        """Blocks that are left out would touch what later ones ask for: where that shows, it may be in any cache.

        It shows where some run finds less that is new than the one before.
        """
        fresh = self._sample.fresh
        if not any(later < REUSED * before for before, later in pairwise(fresh)):
            return
        for gap, left_out in enumerate(self._asked.sum(axis=1).tolist()):
            after = self._parts[gap].after
            # The run behind the gap was played without what it would have found.
            run = self._sample.runs[after + 1]
            behind = self._stretches[after + 1].asked * run.blocks / (run.measured_end - run.measured)
            sectors = left_out + behind
            in_l1, in_l2, read, written = (
                self._share(gap, name) * sectors
                for name in ("l1_hit_sectors", "l2_hit_sectors", "read_granules", "write_granules")
            )
            nearer = max(0.0, sectors - in_l1 - in_l2)
            counts["l1_hit_sectors"].more += nearer + in_l2
            counts["l2_sectors"].less += nearer + in_l2
            counts["l2_hit_sectors"].less += in_l2
            counts["l2_hit_sectors"].more += nearer
            counts["read_granules"].less += min(nearer, read)
            counts["write_granules"].less += written

    def _left_from_before(self, counts: dict[str, _Between]) -> tuple[float, float]:
        """What was in the L2 before the kernel: blocks that are left out may find it, or drive it out before others do.

        As much as fits may be found. What played blocks found of it shows where they touched something for the first
        time and did not get it from DRAM; that, others need not find. Returns those and these sectors.
        """
        sample, per_granule = self._sample, self._gpu.dram_granule_bytes / SECTOR_BYTES
        capacity = self._gpu.l2_bytes / SECTOR_BYTES
        asked = self._asked.sum(axis=1)
        loads = float(self._asked[:, 0].sum()) + self._loads
        total = float(asked.sum()) + self._loads + self._stores
        fresh = max((*sample.fresh, 0.0)) if sample.fresh else 1.0
        least = min(
            (s.counts["read_granules"] * per_granule / s.asked for s in self._stretches if s.asked), default=0.0
        )
        found = max(0.0, min(loads, fresh * total) - least * total)
        missed = max(0.0, counts["l2_sectors"].count - counts["l2_hit_sectors"].count)
        findable = min(capacity, max(missed, counts["read_granules"].count * per_granule))
        counts["read_granules"].more += found
        counts["read_granules"].less += findable / per_granule
        counts["l2_hit_sectors"].less += found
        counts["l2_hit_sectors"].more += findable
        return found, findable

    def _spared(self, reads: _Between) -> None:
        """Where the first run reads more than a later one, gaps perhaps left some of the L2 to that one."""
        shares = [s.counts["read_granules"] / s.asked if s.asked else 0.0 for s in self._stretches]
        if not self._sample.settled and len(shares) > 1:
            reads.more += max(0.0, shares[0] - min(shares[1:])) * float(self._asked.sum())

    def _written(self, writes: _Between, *, warm: bool) -> None:
        """The L2 writes back what it is driven to: once it is full, nearly all that is stored.

        At the end it holds as much as fits, and of that what was stored is not written back yet: at least the different
        sectors that are stored, less the whole L2, are.
        """
        sample, played = self._sample, self._played
        capacity = self._gpu.l2_bytes / SECTOR_BYTES
        if sample.distinct_sectors < NEARLY_FULL * capacity and not warm:
            return
        stores = self._stores + float(self._asked[:, 1].sum())
        per_granule = self._gpu.dram_granule_bytes / SECTOR_BYTES
        filled = played["ideal_store_sectors"] >= FULL_ACCESSES * played["stored_sectors"]
        before = played["write_granules"]
        least = max(0.0, sample.distinct_stored_sectors - capacity) / per_granule - before
        most = (stores + self._unsure[1]) / (per_granule if filled else 1) - before + capacity * warm
        if not sample.settled or sample.distinct_sectors < 2 * capacity or warm:
            stay = min(1.0, capacity / max(1, sample.distinct_sectors))
            likely = sample.distinct_stored_sectors * (1 - stay) / per_granule - before
            count = max(writes.count, min(likely, most), 0.0)
            writes.count, writes.less, writes.more = count, writes.less + count - least, writes.more + most - count
        writes.less = max(0.0, min(writes.less, writes.count))
        writes.more = max(0.0, writes.more)

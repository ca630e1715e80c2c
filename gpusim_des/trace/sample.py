"""A sample of a launch: which blocks were executed, which of them the timing model plays, and what stands for the rest.

Blocks are played in *runs*, stretches of whole waves from different parts of the grid; a wave is as many blocks as the
GPU holds at a time. *Scouts* are single blocks all over the parts between the runs: executed and recorded, but not
played, they tell how much work lies there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Run(NamedTuple):
    """Blocks that are played one after another: ``first`` included, ``end`` excluded.

    Blocks from ``measured`` to before ``measured_end`` stand for others. Those before bring caches and queues into the
    state that they would be in; those behind see the kernel end.
    """

    first: int
    measured: int
    measured_end: int
    end: int

    @property
    def blocks(self) -> int:
        """How many they are."""
        return self.end - self.first


class Gap(NamedTuple):
    """A stretch between two runs: ``first`` included, ``end`` excluded."""

    first: int
    end: int

    @property
    def blocks(self) -> int:
        """How many blocks lie there."""
        return self.end - self.first


@dataclass(frozen=True, eq=False)
class Sample:
    """Which blocks of a launch were executed, and which of them are played.

    Examples
    --------
    >>> runs = Run(0, 2, 6, 6), Run(10, 12, 14, 15)
    >>> sample = Sample(15, 2, runs, scouts=np.array([7]), others=np.array([7, 8]))
    >>> sample.played.tolist(), sample.gaps, sample.executed, sample.left_out
    ([0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14], (Gap(first=6, end=10),), 13, 2)
    """

    blocks: int
    """Blocks of the grid."""
    wave: int
    """Blocks that the GPU holds at a time."""
    runs: tuple[Run, ...]
    scouts: NDArray[np.int64]
    """Blocks drawn from those that are left out, which stand for them in counts."""
    others: NDArray[np.int64]
    """All blocks that were executed and are not played, ascending; scouts among them."""
    settled: bool = True
    """The first run touched as much memory as the L2 holds, or as much as the whole kernel will."""
    fresh: tuple[float, ...] = ()
    """Of each run, the share of the sectors it asked for that no block executed before had touched."""
    distinct_sectors: int = 0
    """Different sectors that the whole grid touches, estimated."""
    distinct_stored_sectors: int = 0
    """Different sectors that the whole grid writes, at least, as far as the executed blocks tell."""
    moved_bounds: tuple[float, float] = (0.0, 0.0)
    """How far the sectors that the whole grid loads, and those that it stores, may be off, confidence 95 %."""

    @property
    def executed(self) -> int:
        """Blocks that were executed."""
        return sum(run.blocks for run in self.runs) + len(self.others)

    @property
    def left_out(self) -> int:
        """Blocks that were not."""
        return self.blocks - self.executed

    def left_out_count(self, of_scouts: int) -> int:
        """What the blocks that are left out count, if the scouts, who stand for them, count this much.

        >>> Sample(15, 2, (Run(0, 2, 6, 6), Run(10, 12, 14, 15)), np.array([7]), np.array([7, 8])).left_out_count(5)
        10
        """
        return round(self.left_out * of_scouts / len(self.scouts)) if len(self.scouts) else 0

    @property
    def played(self) -> NDArray[np.int64]:
        """Numbers of the blocks that the timing model plays, ascending."""
        return np.concatenate([np.arange(run.first, run.end) for run in self.runs])

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """What is not played."""
        ends = zip(self.runs[:-1], self.runs[1:], strict=True)
        return tuple(Gap(before.end, after.first) for before, after in ends)

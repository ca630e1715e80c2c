"""Threads that hand data over without a barrier: with fences and atomic operations, as locks, flags and tickets do.

A thread *releases* what it did before a fence with the atomic operation that follows the fence; whoever does an atomic
operation later has *acquired* it. A fence of a block's scope does so for the threads of that block only. Which element
the operations are on is not looked at: threads that use them are taken at their word. So no order is overlooked
that exists, and a race between such threads may be.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]

FenceScope = Literal["block", "device"]
"""Who sees a fence: the threads of the block, or those of all blocks."""


class Handover:
    """What the threads of some blocks have released and acquired.

    Parameters
    ----------
    blocks, threads
        Numbers of the blocks in flight, threads in a block.
    released
        Up to when what a block did has been released, by its number: shared by all blocks of a launch.
    """

    def __init__(self, blocks: NDArray[np.int64], threads: int, released: dict[int, int]) -> None:
        self.active = False
        """Whether there was a fence, without which nothing is handed over."""
        self._blocks = blocks
        self._shape = len(blocks), threads
        self._by_block = released
        self._fences = False
        nothing = np.zeros((0, 0), np.int64)
        self._fence = self._released = self._acquired = nothing
        """By thread: time of the last fence, up to when its work is released, time of the last atomic operation."""
        self._wide = nothing
        """By thread: time of the last fence that all blocks see."""
        self._guarded = np.zeros((0, 0), bool)
        """Threads whose last atomic operation was followed by a fence: they may hold a lock."""

    def _begin(self) -> None:
        """Make room at the first fence or atomic operation: most kernels have none."""
        if not self._fence.size:
            made = (np.full(self._shape, -1, np.int64) for _ in range(4))
            self._fence, self._released, self._acquired, self._wide = made
            self._guarded = np.zeros(self._shape, bool)

    def fence(self, on: NDArray[np.bool_], now: int, scope: FenceScope = "device") -> None:
        """Take note of a fence of some threads."""
        self._begin()
        self._fences = self.active = True
        self._fence[on] = now
        if scope == "device":
            self._wide[on] = now
        self._guarded |= on & (self._acquired >= 0)

    def atomic(self, on: NDArray[np.bool_], now: int) -> None:
        """Take note of an atomic operation of some threads."""
        self._begin()
        self._acquired[on] = now
        self._guarded &= ~on
        self.active |= bool(self._by_block)
        if self._fences:
            self._released[on] = self._fence[on]
            for row in np.flatnonzero(on.any(axis=1)).tolist():
                block, latest = int(self._blocks[row]), int(self._wide[row, on[row]].max())
                if latest >= 0:
                    self._by_block[block] = max(latest, self._by_block.get(block, -1))

    def guarded(self, who: Numbers, rows: Numbers) -> NDArray[np.bool_]:
        """Tell which threads may hold a lock; `who` is the number in the block."""
        return self._guarded[rows, who]

    def within(self, rows: Numbers, one: Numbers, other: Numbers, time: Numbers) -> NDArray[np.bool_]:
        """Tell whether `one` handed what it did at `time` over to `other`, numbers in the block.

        Steps of threads that run one after the other under a lock are gone through in lockstep: then both hold it.
        """
        handed = (self._released[rows, one] >= time) & (self._acquired[rows, other] > time)
        both = self._guarded[rows, one] & self._guarded[rows, other] & (self._acquired[rows, one] < time)
        return np.asarray(handed | both)

    def between(self, rows: Numbers, blocks: Numbers, time: Numbers) -> NDArray[np.bool_]:
        """Tell whether other `blocks` handed what they did at `time` over to those in flight.

        A thread may have acquired it for its whole block, which then meets at a barrier.
        """
        released: Any = np.array([self._by_block.get(block, -1) for block in blocks.tolist()], np.int64)
        return np.asarray((released >= time) & (self._acquired.max(axis=1)[rows] > time))

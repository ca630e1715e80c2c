"""Which accesses of threads are in order: what barriers, exchanges within warps, fences and atomics say about time.

Time counts accesses. A *stamp* is the time of an access and the thread that made it, in one integer, so that an array
of them is a shadow of memory.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpusim_des.functional.handover import Handover
from gpusim_des.grid import WARP_SIZE

WHO_BITS = 36
"""Bits of a stamp for the thread's number in the grid; 27 remain for the time."""
WHO = (1 << WHO_BITS) - 1
NONE, SAME_WARP, SAME_BLOCK, OTHER_BLOCK = range(4)
"""How far two accesses are from being in order; `NONE`: they are, or one thread made both."""

MOST_EXCHANGES = 64
"""Exchanges of parts of warps that are kept before somebody asks what they mean."""

Numbers = NDArray[np.int64]


class Threads(NamedTuple):
    """Threads that make an access, one entry for each."""

    who: Numbers
    """Number in the block, or in the grid where blocks are told apart."""
    rows: Numbers
    """Their block's place among the blocks in flight."""


class ThreadOrder:
    """The order of accesses of the blocks in flight.

    Parameters
    ----------
    rows, threads
        Blocks in flight, threads in a block.
    start
        Time of the last access of earlier blocks.
    handover
        What threads hand over to each other without a barrier.

    Attributes
    ----------
    floor
        Time up to which accesses are before everything that their block does now.
    alike
        Every block has been put in order in the same way since the last barrier of all of them.
    """

    def __init__(self, rows: int, threads: int, start: int, handover: Handover | None = None) -> None:
        self.handover = handover
        self.threads = threads
        self.floor = start
        self.alike = True
        self._rows = rows
        self._warps = -(-threads // WARP_SIZE)
        self._barriers: Numbers | None = None
        self._together = start
        """Time of the last exchange in which all lanes of all warps took part."""
        self._full: Numbers | None = None
        """The same, warp by warp."""
        self._partial: list[tuple[int, NDArray[np.bool_]]] = []
        """Exchanges of some lanes of warps: when, and which lanes."""
        self._known: NDArray[np.int64] | None = None
        """Up to when each lane of each warp is behind every other lane, as far as `_partial` was looked at."""
        self._looked = 0

    def barrier(self, there: NDArray[np.bool_], now: int) -> None:
        """Put everything before a barrier of all blocks, or of some, before everything after it."""
        if there.all():
            self.floor, self.alike = now, True
            self._barriers = self._full = self._known = None
            self._together, self._looked = now, 0
            self._partial.clear()
            return
        if self._barriers is None:
            self._barriers = np.full(self._rows, self.floor)
        self._barriers[there] = now
        self.alike = False

    def exchange_all(self, now: int) -> None:
        """Put all lanes of every warp in order."""
        self._together = now

    def exchange(self, lanes: NDArray[np.bool_], full: NDArray[np.bool_], now: int, *, alike: bool) -> None:
        """Put lanes in order that exchange something, in rows of 32; `full` are the warps of which all take part."""
        if full.all():
            self._together = now
            return
        self.alike &= alike
        if self._full is None:
            self._full = np.full(self._rows * self._warps, self._together)
        self._full[full] = now
        self._partial.append((now, lanes & ~full[:, None]))
        if len(self._partial) == MOST_EXCHANGES:
            self._know()
            self._partial.clear()
            self._looked = 0

    def distance(self, stamps: Numbers, threads: Threads, *, across: bool) -> tuple[NDArray[np.intp], NDArray[np.int8]]:
        """Those of earlier accesses that are not in order with accesses of `threads` now, and how far apart they are.

        `across`: blocks are told apart, and are in order with none of the others.
        """
        least = -1 if across else self.floor << WHO_BITS | WHO
        who = threads.who
        some = np.flatnonzero((stamps > least) & ((stamps & WHO) != who))
        if not some.size:
            return some, np.zeros(0, np.int8)
        one, other, rows = stamps[some] & WHO, who[some], threads.rows[some]
        time = stamps[some] >> WHO_BITS
        live = time > (self.floor if self._barriers is None else self._barriers[rows])
        far = one // self.threads != other // self.threads if across else np.zeros(len(some), bool)
        one, other = one % self.threads, other % self.threads
        found = np.where(far, OTHER_BLOCK, np.where(live, SAME_BLOCK, NONE)).astype(np.int8)
        close = np.flatnonzero((found == SAME_BLOCK) & (one // WARP_SIZE == other // WARP_SIZE))
        if close.size:
            apart = self._apart(rows[close], one[close], other[close], time[close])
            found[close] = np.where(apart, SAME_WARP, NONE)
        if self.handover is not None and self.handover.active:
            handed = self.handover.within(rows, one, other, time)
            if far.any():
                blocks = (stamps[some] & WHO) // self.threads
                handed[far] = self.handover.between(rows[far], blocks[far], time[far])
            found[handed] = NONE
        kept = np.flatnonzero(found)
        return some[kept], found[kept]

    def _apart(self, rows: Numbers, one: Numbers, other: Numbers, time: Numbers) -> NDArray[np.bool_]:
        """Tell whether no exchange has put `other` behind what `one`, a lane of the same warp, did at `time`."""
        warp = rows * self._warps + one // WARP_SIZE
        late = time > self._together
        if self._full is not None:
            late &= time > self._full[warp]
        if (self._partial or self._known is not None) and late.any():
            known = self._know()
            late &= time > known[warp, other % WARP_SIZE, one % WARP_SIZE]
        return late

    def _know(self) -> NDArray[np.int64]:
        """Follow what lanes of a warp know of each other through the exchanges since it was last asked for."""
        if self._known is None:
            self._known = np.full((self._rows * self._warps, WARP_SIZE, WARP_SIZE), -1, np.int64)
        for time, lanes in self._partial[self._looked :]:
            warps = np.flatnonzero(lanes.any(axis=1))
            there = lanes[warps]
            known = self._known[warps]
            joint = np.where(there[:, :, None], known, -1).max(axis=1)
            joint[there] = time
            self._known[warps] = np.where(there[:, :, None], joint[:, None, :], known)
        self._looked = len(self._partial)
        return self._known

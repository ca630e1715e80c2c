"""The shadow of some memory: who touched every element last, so that the next access can be held against it.

For reads, writes and atomic operations it remembers two accesses per element: the last one, and the last by somebody
who is as far from that thread as possible: of another block before another warp before another lane. One of the two is
not in order with a new access if any access is, whoever makes it; so races are found with a fixed amount of memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpusim_des.functional.journal import Journal
from gpusim_des.functional.thread_order import (
    NONE,
    OTHER_BLOCK,
    SAME_BLOCK,
    SAME_WARP,
    WHO,
    WHO_BITS,
    Numbers,
    ThreadOrder,
    Threads,
)
from gpusim_des.grid import WARP_SIZE

READ, WRITE, ATOMIC = range(3)
CONFLICTS = {READ: (WRITE, ATOMIC), WRITE: (WRITE, ATOMIC, READ), ATOMIC: (WRITE, READ)}


class Conflicts(NamedTuple):
    """Accesses that race with an earlier one."""

    which: NDArray[np.intp]
    """Their places among the accesses that were asked about."""
    partners: Numbers
    """Stamp of the earlier access."""
    distance: NDArray[np.int8]


class Shadow:
    """Stamps of the elements of one array, or of that array in every block.

    Parameters
    ----------
    elements
        How many there are.
    across
        Blocks are told apart, and are never in order.
    """

    def __init__(self, elements: int, *, across: bool = False) -> None:
        self._elements = elements
        self._across = across
        self._last: dict[int, Numbers] = {}
        self._rival: dict[int, Numbers] = {}
        self._newest = dict.fromkeys((READ, WRITE, ATOMIC), -1)
        self.journal: Journal | None = None
        """Takes note of stamps from before the time `since`, before they are overwritten."""
        self.since = -1

    def is_stale(self, order: ThreadOrder) -> bool:
        """Tell whether everything that was remembered is before the last barrier."""
        return all(newest <= order.floor for newest in self._newest.values())

    def has_writes(self, order: ThreadOrder) -> bool:
        """Tell whether something was written, or updated by atomics, since the last barrier."""
        return max(self._newest[WRITE], self._newest[ATOMIC]) > order.floor

    def spread(self, rows: int) -> Shadow:
        """Return the shadow of so many blocks that have all done what this one has."""
        wide = Shadow(self._elements * rows)
        wide._last = {kind: np.tile(stamps, rows) for kind, stamps in self._last.items()}
        wide._rival = {kind: np.tile(stamps, rows) for kind, stamps in self._rival.items()}
        wide._newest = dict(self._newest)
        return wide

    def conflicts(self, kind: int, where: Numbers, threads: Threads, order: ThreadOrder) -> Conflicts | None:
        """Accesses of this kind, to elements `where`, that race with earlier ones; ``None``: no one does."""
        best = far = None
        for stamps in self._candidates(kind, where, order):
            some, distance = order.distance(stamps, threads, across=self._across)
            if not some.size:
                continue
            if best is None or far is None:
                best, far = np.full(len(where), -1, np.int64), np.zeros(len(where), np.int8)
            better = (distance > far[some]) | ((distance == far[some]) & (stamps[some] > best[some]))
            chosen = some[better]
            best[chosen], far[chosen] = stamps[chosen], distance[better]
        if best is None or far is None:
            return None
        which = np.flatnonzero(far)
        return Conflicts(which, best[which], far[which])

    def _candidates(self, kind: int, where: Numbers, order: ThreadOrder) -> Iterator[Numbers]:
        for other in CONFLICTS[kind]:
            if self._newest[other] > (-1 if self._across else order.floor):
                for slots in (self._last, self._rival):
                    if other in slots:
                        yield slots[other][where]

    def enter(self, kind: int, where: Numbers, threads: Threads, time: int, order: ThreadOrder) -> Conflicts | None:
        """Remember accesses that happen at once; returns those of several to one element but the one that comes last.

        The partner of each is that last one.
        """
        new = time << WHO_BITS | threads.who
        fresh = self._newest[kind] <= (-1 if self._across else order.floor)
        self._newest[kind] = time
        if kind not in self._last:
            self._last[kind] = np.full(self._elements, -1, np.int64)
            if self._across:
                self._rival[kind] = np.full(self._elements, -1, np.int64)
        last = self._last[kind]
        if not fresh or self.journal is not None:
            old = last[where]
            self._keep(kind, where, old)
            some, distance = order.distance(old, threads, across=self._across)
            if some.size:
                who = Threads(threads.who[some], threads.rows[some])
                self._displace(kind, where[some], old[some], distance, who, order)
        last[where] = new
        after = last[where]
        lost = np.flatnonzero(after != new)
        if not lost.size:
            return None
        winners = after[lost]
        apart = self._between(new[lost], winners, order.threads)
        by_distance = np.argsort(apart, kind="stable")  # the farthest is written last, and stays
        self._displace(
            kind,
            where[lost][by_distance],
            new[lost][by_distance],
            apart[by_distance],
            Threads(winners[by_distance] & WHO, threads.rows[lost][by_distance]),
            order,
        )
        free = self._unguarded(new[lost], winners, threads.rows[lost], order)
        return Conflicts(lost[free], winners[free], apart[free]) if free.any() else None

    def _unguarded(self, one: Numbers, other: Numbers, rows: Numbers, order: ThreadOrder) -> NDArray[np.bool_]:
        """Tell which accesses of one moment are not both done under a lock, one after the other."""
        if order.handover is None or not order.handover.active:
            return np.ones(len(one), bool)
        guarded = order.handover.guarded
        far = (one & WHO) // order.threads != (other & WHO) // order.threads
        both = guarded((one & WHO) % order.threads, rows) & guarded((other & WHO) % order.threads, rows)
        return np.asarray(far | ~both)

    def _between(self, one: Numbers, other: Numbers, threads: int) -> NDArray[np.int8]:
        a, b = one & WHO, other & WHO
        near = np.where(a % threads // WARP_SIZE == b % threads // WARP_SIZE, SAME_WARP, SAME_BLOCK)
        return np.where(a // threads == b // threads, near, OTHER_BLOCK).astype(np.int8)

    def _displace(
        self,
        kind: int,
        where: Numbers,
        stamps: Numbers,
        distance: NDArray[np.int8],
        threads: Threads,
        order: ThreadOrder,
    ) -> None:
        """Keep stamps that were overwritten as rivals, unless the present rival is farther from the new thread."""
        rival = self._rival.get(kind)
        if rival is None:
            rival = self._rival[kind] = np.full(self._elements, -1, np.int64)
        else:
            some, farther = order.distance(rival[where], threads, across=self._across)
            present = np.full(len(where), NONE, np.int8)
            present[some] = farther
            kept = distance >= present
            where, stamps = where[kept], stamps[kept]
        rival[where] = stamps

    def _keep(self, kind: int, where: Numbers, old: Numbers) -> None:
        if self.journal is None:
            return
        first = where[old >> WHO_BITS <= self.since]
        if first.size:
            self.journal.note(self._last[kind], first)
            self.journal.note(self._rival[kind], first)


def together(found: Conflicts, more: Conflicts) -> Conflicts:
    """Add the conflicts of accesses that have none so far."""
    new = ~np.isin(more.which, found.which)
    return Conflicts(
        np.concatenate([found.which, more.which[new]]),
        np.concatenate([found.partners, more.partners[new]]),
        np.concatenate([found.distance, more.distance[new]]),
    )

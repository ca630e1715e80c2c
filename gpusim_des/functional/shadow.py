"""The shadow of some memory: who touched every element last, so that the next access can be held against it.

For reads, writes and atomic operations it remembers two accesses per element: the last one, and the last by somebody
who is as far from that thread as possible: of another block before another warp before another lane. One of the two is
not in order with a new access if any access is, whoever makes it; so races are found with a fixed amount of memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

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
from gpusim_des.functional.touched import Active, same_values
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
    equal: NDArray[np.bool_]
    """Whether the earlier access has left the value that this one writes, in every block that the shadow stands for."""


class Writing(NamedTuple):
    """Values that belong to writes of one moment: one row for each block that the shadow stands for."""

    mine: Callable[[NDArray[np.intp]], NDArray[Any]]
    """What is written, from places among the writes."""
    before: Callable[[NDArray[np.intp]], NDArray[Any]]
    """What is in the element before."""
    theirs: Callable[[Numbers, NDArray[np.intp]], NDArray[Any]]
    """What partners of the same moment write, from their stamps."""


class Shadow:
    """Stamps of the elements of one array, or of that array in every block.

    Parameters
    ----------
    elements
        How many there are.
    blocks
        Blocks that do the same, for all of which it stands.
    across
        Blocks are told apart, and are never in order.
    """

    def __init__(self, elements: int, blocks: int = 1, *, across: bool = False) -> None:
        self._elements = elements
        self._blocks = blocks
        self._across = across
        self._changed: Numbers | None = None
        """By block and element, twice the time of its last change: it has kept its value since. One less where all that
        wrote at that time wrote the same value, so that each of them has left it."""
        self._last: dict[int, Numbers] = {}
        self._rival: dict[int, Numbers] = {}
        self._newest = dict.fromkeys((READ, WRITE, ATOMIC), -1)
        self.journal: Journal | None = None
        """Takes note of stamps from before the time `since`, before they are overwritten."""
        self.since = -1

    def refine(self, parts: int) -> None:
        """Go on with elements that are so many parts of those before."""
        self._elements *= parts
        for slots in (self._last, self._rival):
            for kind, stamps in slots.items():
                slots[kind] = np.repeat(stamps, parts)
        if self._changed is not None:
            self._changed = np.repeat(self._changed, parts, axis=1)

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
        wide._changed = None if self._changed is None else self._changed.reshape(1, -1).copy()
        return wide

    def meet(
        self, kind: int, active: Active, time: int, order: ThreadOrder, writing: Writing | None = None
    ) -> Conflicts | None:
        """Hold accesses of one moment against those before them, and against each other, and remember them."""
        where, threads = active
        found = self.conflicts(kind, where, threads, order)
        if found is not None and writing is not None:
            found = self._not_only_written(found._replace(equal=self._left_by(found, where, writing)), active, order)
        lost = self.enter(kind, where, threads, time, order, writing)
        if kind != WRITE or lost is None:
            return found
        return lost if found is None else together(found, lost)

    def conflicts(self, kind: int, where: Numbers, threads: Threads, order: ThreadOrder) -> Conflicts | None:
        """Accesses of this kind, to elements `where`, that race with earlier ones; ``None``: no one does."""
        return self._search(CONFLICTS[kind], where, threads, order)

    def _search(self, kinds: tuple[int, ...], where: Numbers, threads: Threads, order: ThreadOrder) -> Conflicts | None:
        best = far = None
        for stamps in self._candidates(kinds, where, order):
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
        return Conflicts(which, best[which], far[which], np.zeros((self._blocks, len(which)), bool))

    def _not_only_written(self, found: Conflicts, active: Active, order: ThreadOrder) -> Conflicts:
        """Of writes that race with one of the same value, find those that race with a read or an update as well."""
        same = np.flatnonzero(found.equal.any(axis=0))
        if not same.size:
            return found
        (who, rows), which = active.threads, found.which[same]
        worse = self._search((ATOMIC, READ), active.elements[which], Threads(who[which], rows[which]), order)
        if worse is None:
            return found
        at = same[worse.which]
        found.partners[at], found.distance[at], found.equal[:, at] = worse.partners, worse.distance, False
        return found

    def _left_by(self, found: Conflicts, where: Numbers, writing: Writing) -> NDArray[np.bool_]:
        """Tell which writes find the value that they write, and find it since their partner's."""
        equal = same_values(writing.mine(found.which), writing.before(found.which))
        if self._changed is not None:
            elements, times = where[found.which], 2 * (found.partners >> WHO_BITS)
            changed = self._changed[:, elements]
            last = self._last.get(WRITE)
            latest = False if last is None else last[elements] == found.partners
            equal = equal & ((times > changed) | ((times == changed) & latest))
        return equal

    def _candidates(self, kinds: tuple[int, ...], where: Numbers, order: ThreadOrder) -> Iterator[Numbers]:
        for other in kinds:
            if self._newest[other] > (-1 if self._across else order.floor):
                for slots in (self._last, self._rival):
                    if other in slots:
                        yield slots[other][where]

    def enter(
        self,
        kind: int,
        where: Numbers,
        threads: Threads,
        time: int,
        order: ThreadOrder,
        writing: Writing | None = None,
    ) -> Conflicts | None:
        """Remember accesses that happen at once; returns those of several to one element but the one that comes last.

        The partner of each is that last one.
        """
        new = time << WHO_BITS | threads.who
        fresh = self._is_past(kind, order)
        self._newest[kind] = time
        if kind not in self._last:
            self._last[kind] = np.full(self._elements, -1, np.int64)
            if self._across:
                self._rival[kind] = np.full(self._elements, -1, np.int64)
        last = self._last[kind]
        if kind == ATOMIC and not self._is_past(WRITE, order):
            self._change(where, 2 * time)
        if not fresh or self.journal is not None:
            old = last[where]
            if kind == WRITE and not fresh:
                self._overwrite(where, old, time, order, writing)
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
        same = np.zeros((self._blocks, len(lost)), bool)
        if writing is not None:
            same = same_values(writing.mine(lost), writing.theirs(winners, lost))
        if kind == WRITE:
            self._change(where[lost], 2 * time, ~same)
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
        return Conflicts(lost[free], winners[free], apart[free], same[:, free]) if free.any() else None

    def _is_past(self, kind: int, order: ThreadOrder) -> bool:
        return self._newest[kind] <= (-1 if self._across else order.floor)

    def _overwrite(self, where: Numbers, old: Numbers, time: int, order: ThreadOrder, writing: Writing | None) -> None:
        """Take note of values that change where somebody may yet be asked for what was there before."""
        some = np.flatnonzero(old > (-1 if self._across else order.floor << WHO_BITS | WHO))
        if not some.size:
            return
        if writing is None:
            self._change(where[some], 2 * time)
        else:
            self._change(where[some], 2 * time - 1, ~same_values(writing.mine(some), writing.before(some)))

    def _change(self, elements: Numbers, when: int, which: NDArray[np.bool_] | None = None) -> None:
        """Note that values of elements changed, in all blocks or in those marked in (blocks, elements)."""
        if which is not None and not which.any():
            return
        if self._changed is None:
            self._changed = np.full((self._blocks, self._elements), -1, np.int64)
        rows, columns = np.nonzero(np.ones((self._blocks, len(elements)), bool) if which is None else which)
        flat, where = self._changed.reshape(-1), rows * self._elements + elements[columns]
        if self.journal is not None:
            self.journal.note(flat, where)
        flat[where] = when

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


def of_whole(found: Conflicts, parts: int) -> Conflicts:
    """One conflict for each element, of those that its parts have: the farthest, of different values if there are."""
    whole = found.which // parts
    order = np.lexsort((-found.distance, found.equal.all(axis=0), whole))
    _, first = np.unique(whole[order], return_index=True)
    kept = order[first]
    return Conflicts(found.which[kept], found.partners[kept], found.distance[kept], found.equal[:, kept])


def together(found: Conflicts, more: Conflicts) -> Conflicts:
    """Add the conflicts of accesses that have none so far, or one of equal values in more blocks."""
    _, one, other = np.intersect1d(found.which, more.which, assume_unique=True, return_indices=True)
    worse = more.equal[:, other].sum(axis=0) < found.equal[:, one].sum(axis=0)
    old, new = np.ones(len(found.which), bool), np.ones(len(more.which), bool)
    old[one[worse]], new[other[~worse]] = False, False
    return Conflicts(
        np.concatenate([found.which[old], more.which[new]]),
        np.concatenate([found.partners[old], more.partners[new]]),
        np.concatenate([found.distance[old], more.distance[new]]),
        np.concatenate([found.equal[:, old], more.equal[:, new]], axis=1),
    )

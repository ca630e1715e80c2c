"""Races in shared memory, found as a kernel runs.

Blocks mostly do the same with their shared memory. Then one shadow stands for all of them; it is spread to one per
block where they begin to differ, and again one suffices behind the next barrier. Reads behind a barrier are only noted
until somebody writes to the array, which in most kernels does not happen before the next barrier.

Arrays of several types may show the same bytes: their shadow is one of parts, the largest that make up all elements.
"""

from __future__ import annotations

from math import gcd
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpusim_des.functional.memory import SharedArray
from gpusim_des.functional.race_teller import KINDS, RaceTeller, Racing
from gpusim_des.functional.races import AccessKind
from gpusim_des.functional.shadow import READ, WRITE, Conflicts, Shadow, Writing, of_whole
from gpusim_des.functional.source import Site
from gpusim_des.functional.thread_order import SAME_BLOCK, SAME_WARP, WHO, WHO_BITS, Numbers, ThreadOrder, Threads
from gpusim_des.functional.touched import Access, Active, active_of, in_parts
from gpusim_des.grid import WARP_SIZE

_MOST_WAITING = 1 << 22
"""Reads that are noted at most, before they enter the shadow."""


class _Touch(NamedTuple):
    """What is done to an array: the access counts parts of its elements."""

    array: SharedArray
    access: Access
    parts: int


class _Watched:
    """The memory of a shared array, or of several, and what is known of it."""

    def __init__(self, array: SharedArray, blocks: int) -> None:
        self.unit = array.dtype.itemsize
        """Bytes of a part."""
        self.size = array.size
        """Parts in a block."""
        self.blocks = blocks
        self.one = Shadow(array.size, blocks)
        self.wide: Shadow | None = None
        self.is_wide = False
        self.waiting: list[tuple[int, Access]] = []
        self.waiting_reads = 0
        self.under_way: Numbers | None = None
        """Stamp of the asynchronous copy that is on its way to each part in every block, -1 for none."""
        self.copies = 0

    def refine(self, unit: int) -> None:
        """Go on with smaller parts."""
        parts = self.unit // unit
        self.unit, self.size, self.copies = unit, self.size * parts, self.copies * parts
        for shadow in (self.one, self.wide):
            if shadow is not None:
                shadow.refine(parts)
        if self.under_way is not None:
            self.under_way = np.repeat(self.under_way, parts)

    def barrier(self) -> None:
        """All that was noted is before a barrier of all blocks."""
        self.is_wide = False
        self.waiting.clear()
        self.waiting_reads = 0

    def widen(self, order: ThreadOrder) -> None:
        """Go on with one shadow for every block."""
        if self.is_wide:
            return
        self.is_wide = True
        if self.wide is None or not self.one.is_stale(order):
            self.wide = self.one.spread(self.blocks)


class SharedRaces:
    """Looks for races in the shared memory of a machine's blocks.

    Parameters
    ----------
    blocks
        Numbers of the blocks in flight.
    threads
        Threads in a block.
    order, teller
        What is in order, and who hears of what is not.
    """

    def __init__(self, blocks: NDArray[np.int64], threads: int, order: ThreadOrder, teller: RaceTeller) -> None:
        self._blocks = blocks
        self._threads = np.arange(threads, dtype=np.int64)
        self._order = order
        self._teller = teller
        self._arrays: dict[int, _Watched] = {}
        """By identity of their memory."""

    def barrier(self) -> None:
        """Forget what is before a barrier of all blocks."""
        for watched in self._arrays.values():
            watched.barrier()

    def access(self, array: SharedArray, access: Access, site: Site, values: Any = None, before: Any = None) -> None:
        """Hold an access against those before it.

        `values` is what a write writes, `before` gives the elements' values before it from their positions.
        """
        watched, touch = self._touch(array, access)
        access = touch.access
        time = self._teller.begin(KINDS[access.kind], site)
        if access.kind == READ and not watched.copies and not self._written(watched):
            watched.waiting.append((time, access))
            marks = 1 if access.mask is None else access.mask.size
            watched.waiting_reads += max(access.position.size, marks)
            if watched.waiting_reads > _MOST_WAITING:
                self._catch_up(watched)
            return
        self._catch_up(watched)
        self._enter(watched, touch, time, values, before)

    def _touch(self, array: SharedArray, access: Access) -> tuple[_Watched, _Touch]:
        watched = self._arrays.get(array.identity)
        if watched is None:
            watched = self._arrays[array.identity] = _Watched(array, len(self._blocks))
        size = array.dtype.itemsize
        if size % watched.unit:
            self._catch_up(watched)
            watched.refine(gcd(size, watched.unit))
        parts = size // watched.unit
        return watched, _Touch(array, in_parts(access, parts), parts)

    def _written(self, watched: _Watched) -> bool:
        shadow = watched.wide if watched.is_wide else watched.one
        assert shadow is not None
        return shadow.has_writes(self._order)

    def _catch_up(self, watched: _Watched) -> None:
        """Enter the reads that were noted: nothing was written since the barrier, so they race with nothing."""
        for time, access in watched.waiting:
            shadow, active = self._place(watched, access)
            shadow.enter(READ, active.elements, active.threads, time, self._order)
        watched.waiting.clear()
        watched.waiting_reads = 0

    def _place(self, watched: _Watched, access: Access) -> tuple[Shadow, Active]:
        """Shadow that an access belongs to, and what it touches there."""
        if not (access.alike and self._order.alike):
            watched.widen(self._order)
        rows = len(self._blocks) if watched.is_wide else 1
        active = active_of(access, rows, self._threads, watched.size)
        if watched.is_wide:
            assert watched.wide is not None
            return watched.wide, active
        return watched.one, active

    def _enter(self, watched: _Watched, touch: _Touch, time: int, values: Any, before: Any) -> None:
        shadow, active = self._place(watched, touch.access)
        writing = self._writing(watched, touch, active, values, before)
        found = shadow.meet(touch.access.kind, active, time, self._order, writing)
        if watched.copies:
            told = self._meet_copies(watched, touch, time)
            found = None if found is None or told.size else found
        if found is not None:
            self._tell(watched, touch, active, found, time)

    def _tell(self, watched: _Watched, touch: _Touch, active: Active, found: Conflicts, time: int) -> None:
        if touch.parts > 1:
            found = of_whole(found, touch.parts)
        which, array = found.which, touch.array
        equal = found.equal & self._teller.wrote(found.partners)
        for same in (False, True):
            weights = (equal == same).sum(axis=0)
            if not weights.any():
                continue
            kept = np.flatnonzero(weights)
            racing = Racing(
                active.elements[which[kept]] % watched.size // touch.parts,
                active.threads.who[which[kept]],
                active.threads.rows[which[kept]],
                found.partners[kept],
                found.distance[kept],
                np.full(len(kept), same),
                weights[kept].astype(np.int64),
            )
            self._teller.tell("shared", array.name, array.shape, self._teller.moments[time], racing, self._block_of)

    def _block_of(self, _: int, row: int) -> int:
        return int(self._blocks[row])

    def _writing(self, watched: _Watched, touch: _Touch, active: Active, values: Any, before: Any) -> Writing | None:
        if touch.access.kind != WRITE or values is None or touch.access.width > touch.parts:
            return None
        whole = np.broadcast_to(values, (len(self._blocks), len(self._threads)))
        who, wide, every = active.threads.who, watched.is_wide, np.arange(len(self._blocks))[:, None]

        def rows(places: NDArray[np.intp]) -> NDArray[Any]:
            return active.threads.rows[places] if wide else every

        def then(places: NDArray[np.intp]) -> NDArray[Any]:
            found: NDArray[Any] = before(rows(places), active.elements[places] % watched.size // touch.parts)
            return np.atleast_2d(found).astype(whole.dtype, copy=False)

        return Writing(
            lambda places: np.atleast_2d(whole[rows(places), who[places]]),
            then,
            lambda partners, places: np.atleast_2d(whole[rows(places), partners & WHO]),
        )

    # Asynchronous copies --------------------------------------------------------------------------------------------

    def start_copy(self, array: SharedArray, access: Access, site: Site, kind: AccessKind = "copy") -> None:
        """Take note of copies that begin: nobody may touch their elements until they have been waited for."""
        watched, touch = self._touch(array, access)
        self._catch_up(watched)
        watched.widen(self._order)
        time = self._teller.begin(kind, site)
        shadow, active = self._place(watched, touch.access)
        found = shadow.conflicts(WRITE, active.elements, active.threads, self._order)
        if watched.under_way is None:
            watched.under_way = np.full(len(self._blocks) * watched.size, -1, np.int64)
        told = self._meet_copies(watched, touch, time)
        if found is not None and not told.size:
            self._tell(watched, touch, active, found, time)
        new = time << WHO_BITS | active.threads.who
        watched.copies += int(np.count_nonzero(watched.under_way[active.elements] < 0))
        watched.under_way[active.elements] = new
        after = watched.under_way[active.elements]
        lost = np.flatnonzero(after != new)
        if lost.size:  # several threads copy to one element
            self._tell_copies(watched, touch, active, lost, after[lost], time)

    def finish_copy(self, array: SharedArray, elements: Numbers, threads: Threads | None) -> None:
        """Take note of copies that arrived, elements counted over all blocks: their threads have written them now.

        `threads` is ``None`` where whoever waits is in order with the copy.
        """
        watched, touch = self._touch(array, Access(WRITE, elements, None, 1))
        if watched.under_way is None or not len(elements):
            return
        if touch.parts > 1:
            elements = (touch.access.position[:, None] + np.arange(touch.parts)).reshape(-1)
            threads = None if threads is None else Threads(*(np.repeat(n, touch.parts) for n in threads))
        stamps = watched.under_way[elements]
        watched.copies -= int(np.count_nonzero(stamps >= 0))
        watched.under_way[elements] = -1
        if threads is None:
            return
        self._catch_up(watched)
        watched.widen(self._order)
        assert watched.wide is not None
        copy = self._teller.moments[int(stamps.max()) >> WHO_BITS]
        time = self._teller.begin(copy.kind, copy.site)
        watched.wide.enter(WRITE, elements, threads, time, self._order)

    def _meet_copies(self, watched: _Watched, touch: _Touch, time: int) -> NDArray[np.intp]:
        """Report accesses to elements that copies are on their way to, those of the thread that copies as well."""
        assert watched.under_way is not None
        watched.widen(self._order)
        active = active_of(touch.access, len(self._blocks), self._threads, watched.size)
        stamps = watched.under_way[active.elements]
        which = np.flatnonzero(stamps >= 0)
        if which.size:
            self._tell_copies(watched, touch, active, which, stamps[which], time)
        return which

    def _tell_copies(
        self, watched: _Watched, touch: _Touch, active: Active, which: NDArray[np.intp], stamps: Numbers, time: int
    ) -> None:
        if touch.parts > 1:
            _, first = np.unique(which // touch.parts, return_index=True)
            which, stamps = which[first], stamps[first]
        who, array = active.threads.who[which], touch.array
        near = (stamps & WHO) // WARP_SIZE == who // WARP_SIZE
        racing = Racing(
            active.elements[which] % watched.size // touch.parts,
            who,
            active.threads.rows[which],
            stamps,
            np.where(near, SAME_WARP, SAME_BLOCK).astype(np.int8),
            np.zeros(len(which), bool),
            np.ones(len(which), np.int64),
        )
        self._teller.tell("shared", array.name, array.shape, self._teller.moments[time], racing, self._block_of)

"""Races in global memory, between threads of a block and between blocks, found as a kernel runs.

Blocks are never in order: the shadow of an array lives as long as the launch, and every block's accesses are held
against those of all blocks before it. That costs a few array operations per access, however long the kernel is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpusim_des.functional.journal import Journal
from gpusim_des.functional.memory import DeviceArray
from gpusim_des.functional.race_teller import Moment, RaceTeller, Racing
from gpusim_des.functional.races import AccessKind
from gpusim_des.functional.shadow import ATOMIC, READ, WRITE, Conflicts, Shadow, together
from gpusim_des.functional.source import Site
from gpusim_des.functional.thread_order import WHO, WHO_BITS, ThreadOrder, Threads
from gpusim_des.functional.touched import Access, Active, active_of, same_values

_KINDS: dict[int, AccessKind] = {READ: "read", WRITE: "write", ATOMIC: "atomic"}


class GlobalShadows:
    """What a launch remembers of device arrays, whichever blocks are in flight.

    Attributes
    ----------
    moments
        What happened at every time since the launch began.
    """

    def __init__(self) -> None:
        self.moments: list[Moment] = []
        self._shadows: dict[int, tuple[DeviceArray, Shadow]] = {}

    def of(self, array: DeviceArray) -> Shadow:
        """Shadow of a whole array."""
        if id(array) not in self._shadows:
            self._shadows[id(array)] = (array, Shadow(array.size, across=True))
        return self._shadows[id(array)][1]


class GlobalRaces:
    """Looks for races in the global memory that a machine's blocks touch.

    Parameters
    ----------
    shadows
        What blocks before have left behind.
    blocks, threads
        Numbers of the blocks in flight, threads in a block.
    order, teller
        What is in order, and who hears of what is not.
    names
        Names of arrays by identity.
    """

    def __init__(
        self,
        shadows: GlobalShadows,
        blocks: NDArray[np.int64],
        threads: int,
        order: ThreadOrder,
        teller: RaceTeller,
        names: dict[int, str],
    ) -> None:
        self._shadows = shadows
        self._blocks = blocks
        self._threads = np.arange(threads, dtype=np.int64)
        self._order = order
        self._teller = teller
        self._names = names
        self._journal = Journal()
        self._since = order.floor

    def undo(self) -> None:
        """Forget what these blocks did: they run again."""
        self._journal.undo()

    def access(self, array: DeviceArray, access: Access, site: Site, values: Any = None, before: Any = None) -> None:
        """Hold an access against those before it; arguments as for shared memory."""
        moments = self._teller.moments
        time = self._teller.begin(_KINDS[access.kind], site)
        local = active_of(access, len(self._blocks), self._threads, 0)
        rows = local.threads.rows
        first = (array.address - array.owner.address) // array.dtype.itemsize
        threads = Threads(self._blocks[rows] * len(self._threads) + local.threads.who, rows)
        active = Active(local.elements + first if first else local.elements, threads)
        shadow = self._shadows.of(array.owner)
        shadow.journal, shadow.since = self._journal, self._since
        found = shadow.conflicts(access.kind, active.elements, threads, self._order)
        lost = shadow.enter(access.kind, active.elements, threads, time, self._order)
        if access.kind == WRITE and lost is not None:
            found = lost if found is None else together(found, lost)
        if found is None:
            return
        equal = np.zeros(len(found.which), bool)
        if access.kind == WRITE and values is not None and access.width == 1:
            equal = self._equal(local, found, time, values, before)
        racing = Racing(
            local.elements[found.which],
            threads.who[found.which],
            rows[found.which],
            found.partners,
            found.distance,
            equal,
            np.ones(len(found.which), np.int64),
        )
        label = self._names.get(id(array), array.name)
        self._teller.tell("global", label, array.shape, moments[time], racing, self._block_of)

    def _block_of(self, who: int, _: int) -> int:
        return who // len(self._threads)

    def _equal(self, local: Active, found: Conflicts, time: int, values: Any, before: Any) -> NDArray[np.bool_]:
        """Whether a write writes what its partner has written."""
        which, moments, size = found.which, self._teller.moments, len(self._threads)
        writes = np.array([moments[t].kind == "write" for t in (found.partners >> WHO_BITS).tolist()], bool)
        whole = np.broadcast_to(values, (len(self._blocks), size))
        rows = local.threads.rows[which]
        mine = whole[rows, local.threads.who[which]]
        now = found.partners >> WHO_BITS == time
        row_of = np.zeros(len(which), np.intp)
        partners = found.partners & WHO
        row_of[now] = np.searchsorted(self._blocks, partners[now] // size)
        theirs = whole[row_of, partners % size]
        then = before(rows, local.elements[which]).astype(mine.dtype, copy=False)
        return np.asarray(same_values(mine, np.where(now, theirs, then)) & writes)

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
from gpusim_des.functional.race_teller import KINDS, Moment, RaceTeller, Racing
from gpusim_des.functional.shadow import WRITE, Shadow, Writing
from gpusim_des.functional.source import Site
from gpusim_des.functional.thread_order import WHO, Numbers, ThreadOrder, Threads
from gpusim_des.functional.touched import Access, Active, active_of


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
        time = self._teller.begin(KINDS[access.kind], site)
        local = active_of(access, len(self._blocks), self._threads, 0)
        rows = local.threads.rows
        first = (array.address - array.owner.address) // array.dtype.itemsize
        threads = Threads(self._blocks[rows] * len(self._threads) + local.threads.who, rows)
        active = Active(local.elements + first if first else local.elements, threads)
        shadow = self._shadows.of(array.owner)
        shadow.journal, shadow.since = self._journal, self._since
        found = shadow.meet(access.kind, active, time, self._order, self._writing(access, local, values, before))
        if found is None:
            return
        racing = Racing(
            local.elements[found.which],
            threads.who[found.which],
            rows[found.which],
            found.partners,
            found.distance,
            found.equal[0] & self._teller.wrote(found.partners),
            np.ones(len(found.which), np.int64),
        )
        label = self._names.get(id(array), array.name)
        self._teller.tell("global", label, array.shape, moments[time], racing, self._block_of)

    def _block_of(self, who: int, _: int) -> int:
        return who // len(self._threads)

    def _writing(self, access: Access, local: Active, values: Any, before: Any) -> Writing | None:
        if access.kind != WRITE or values is None or access.width > 1:
            return None
        size = len(self._threads)
        whole = np.broadcast_to(values, (len(self._blocks), size))
        who, rows = local.threads

        def theirs(partners: Numbers, _: Any) -> NDArray[Any]:
            number = partners & WHO
            return whole[None, np.searchsorted(self._blocks, number // size), number % size]

        return Writing(
            lambda places: whole[None, rows[places], who[places]],
            lambda places: before(rows[places], local.elements[places])[None].astype(whole.dtype, copy=False),
            theirs,
        )

"""Watches a machine for mistakes that a GPU would not report, and keeps all that is found of them.

Races and reads of what nobody wrote are looked for here; `barriers` and `overflow` bring what they have found.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from gpusim_des.functional.barriers import LeftBeforeBarrier
from gpusim_des.functional.global_races import GlobalRaces, GlobalShadows
from gpusim_des.functional.handover import FenceScope, Handover
from gpusim_des.functional.memory import DeviceArray, PrivateArray, SharedArray
from gpusim_des.functional.overflow import IndexOverflow, Overflow
from gpusim_des.functional.race_teller import RaceTeller
from gpusim_des.functional.races import Remedies
from gpusim_des.functional.reports import Reports
from gpusim_des.functional.shadow import ATOMIC, READ, WRITE
from gpusim_des.functional.shared_races import SharedRaces
from gpusim_des.functional.source import Site
from gpusim_des.functional.thread_order import Numbers, ThreadOrder, Threads
from gpusim_des.functional.touched import Access, one_row
from gpusim_des.functional.unwritten import UnwrittenReads
from gpusim_des.trace import OpClass

if TYPE_CHECKING:
    from gpusim_des.functional.machine import Machine, Mask

RaceCheck = Literal["shared", "global", "off"]
"""Where a launch looks for races: in shared memory, in global memory as well, or nowhere."""

_KINDS = {
    OpClass.GLOBAL_LOAD: READ,
    OpClass.SHARED_LOAD: READ,
    OpClass.ASYNC_COPY: READ,
    OpClass.BULK_COPY: READ,
    OpClass.GLOBAL_STORE: WRITE,
    OpClass.SHARED_STORE: WRITE,
    OpClass.GLOBAL_ATOMIC: ATOMIC,
    OpClass.SHARED_ATOMIC: ATOMIC,
}


class LaunchWatch:
    """What the watches of a launch's machines share.

    Parameters
    ----------
    check
        Where to look for races.
    remedies
        How the kernel's style writes barriers.
    """

    def __init__(self, check: RaceCheck = "off", remedies: Remedies = Remedies()) -> None:  # noqa: B008 - immutable
        self.check = check
        self.remedies = remedies
        self.shadows = GlobalShadows() if check == "global" else None
        self.released: dict[int, int] = {}
        """Up to when what a block did was released to others, by its number."""
        self.written: dict[int, dict[int, Any]] = {}
        """Values that interpreted blocks wrote to device arrays, by array and position."""


class Watch:
    """Watches one machine.

    Attributes
    ----------
    races, unwritten, left, overflows
        What was found.
    """

    def __init__(self, machine: Machine, launch: LaunchWatch) -> None:
        self._machine = machine
        self._launch = launch
        rows, threads = machine.shape
        moments = [] if launch.shadows is None else launch.shadows.moments
        self._handover = Handover(machine.blocks, threads, launch.released)
        self._order = ThreadOrder(rows, threads, len(moments) - 1, self._handover)
        teller = RaceTeller(machine.kernel_name, machine.config, launch.remedies, moments, machine.counters)
        self._moments = moments
        self.races = teller.log
        self.left: Reports[LeftBeforeBarrier] = Reports()
        self.overflows: Reports[IndexOverflow] = Reports()
        self._shared = SharedRaces(machine.blocks, threads, self._order, teller) if launch.check != "off" else None
        self.unwritten = UnwrittenReads(machine.kernel_name, machine.config, machine.blocks, machine.names)
        self._global = None
        if launch.shadows is not None:
            self._global = GlobalRaces(launch.shadows, machine.blocks, threads, self._order, teller, machine.names)
        self.replayed: dict[int, NDArray[Any]] | None = None
        """What steps have written to shared memory, where the kernel has run already and is gone through in order."""

    def undo(self) -> None:
        """Forget what these blocks did: they run again."""
        self.unwritten.undo()
        if self._global is not None:
            self._global.undo()

    # What happens ---------------------------------------------------------------------------------------------------

    def barrier(self, mask: Mask) -> None:
        """Take note of a barrier of blocks."""
        there: NDArray[np.bool_] = np.asarray(self._machine.everyone(mask).any(axis=1))
        self._order.barrier(there, len(self._moments) - 1)
        if there.all():
            self.unwritten.barrier()
            if self._shared is not None:
                self._shared.barrier()

    def warp_barrier(self, mask: Mask, members: NDArray[np.uint32] | None) -> None:
        """Take note of a barrier of the active lanes of warps, or of those with the same `members`."""
        if self._shared is None:
            return
        machine, now = self._machine, len(self._moments) - 1
        if members is None or members.size == 1:
            if mask is None:
                self._order.exchange_all(now)
            else:
                self._warps_meet(machine.by_warp(mask, fill=False), now, alike=mask.ndim < 2 or len(mask) == 1)
            return
        active, groups = machine.by_warp(machine.everyone(mask), fill=False), machine.by_warp(members, fill=0)
        alike = all(x is None or x.ndim < 2 or len(x) == 1 for x in (mask, members))
        for group in np.unique(groups[active]):
            self._warps_meet(active & (groups == group), now, alike=alike)

    def _warps_meet(self, lanes: NDArray[np.bool_], now: int, *, alike: bool) -> None:
        full = lanes.sum(axis=1) == self._machine.lanes(None)
        self._order.exchange(lanes, full, now, alike=alike)

    def fence(self, mask: Mask, scope: FenceScope) -> None:
        """Take note of a fence."""
        if self._shared is not None:
            self._handover.fence(self._machine.everyone(mask), len(self._moments) - 1, scope)

    def access(
        self,
        op: OpClass,
        array: DeviceArray | SharedArray,
        index: NDArray[Any],
        mask: Mask,
        site: Site,
        width: int = 0,
        values: Any = None,
    ) -> None:
        """Take note of an access of active threads, before it is done; a lane touches `width` bytes, else an element.

        `values` is what a store will write, or the name of an atomic operation.
        """
        if isinstance(array, PrivateArray):  # constants, and what a thread has for itself
            return
        kind, elements = _KINDS[op], max(1, width // array.dtype.itemsize)
        in_shared = isinstance(array, SharedArray)
        where, active = (one_row(index), one_row(mask)) if in_shared else (index, mask)
        access = Access(kind, where, active, elements)
        if kind == READ or (kind == ATOMIC and values != "atomic_exch"):  # an exchange need not look at what was there
            self.unwritten.read(array, access, site)
        if kind != READ:
            self.unwritten.wrote(array, access)
        checker: Any = self._shared if in_shared else self._global
        if kind == ATOMIC and self._shared is not None:
            self._handover.atomic(self._machine.everyone(mask), len(self._moments))
        if checker is None:
            return
        if width and op is not OpClass.BULK_COPY:  # which lane moves which part of a fragment is left open
            self._order.exchange_all(len(self._moments) - 1)
        checker.access(array, access, site, values, self._before(array))
        if self.replayed is not None and access.kind == WRITE and values is not None:
            self._remember(array, index, mask, values)

    def index_overflow(self, label: str, over: Overflow, site: Site, thread: int | None = None) -> IndexOverflow:
        """Report an index that wrapped in some threads, or in one."""
        machine = self._machine
        shape = machine.shape if thread is None else (1, 1)
        lanes, exact = np.broadcast_to(over.lanes, shape), np.broadcast_to(over.exact, shape)
        row, lane = (int(k) for k in np.argwhere(lanes)[0])
        report = IndexOverflow(
            kernel=machine.kernel_name,
            array=label,
            exact=int(exact[row, lane]),
            site=over.site,
            access=site,
            block=machine.config.grid.at(int(machine.blocks[row])),
            thread=machine.config.block.at(lane if thread is None else thread),
            count=int(np.count_nonzero(lanes)),
        )
        self.overflows.add(report)
        return report

    def _before(self, array: DeviceArray | SharedArray) -> Callable[[Any, Any], NDArray[Any]]:
        """Function that gives values of elements before the present access, from rows and positions."""
        if isinstance(array, SharedArray):
            shared = array.data if self.replayed is None else self._replayed(array)
            return lambda rows, elements: shared[rows, elements]
        if self.replayed is None:
            data = array.flat
            return lambda _, elements: data[elements]
        written, offset = self._launch.written.get(id(array.owner), {}), self._offset(array)
        nothing = np.zeros((), array.dtype)[()]

        def look_up(_: Any, elements: Any) -> NDArray[Any]:
            flat = [written.get(int(e) + offset, nothing) for e in np.ravel(elements)]
            return np.array(flat, array.dtype).reshape(np.shape(elements))

        return look_up

    def _replayed(self, array: SharedArray) -> NDArray[Any]:
        """What an array's memory holds by now, in the way of the array."""
        assert self.replayed is not None
        if array.identity not in self.replayed:
            whole = array.data if array.data.base is None else array.data.base
            self.replayed[array.identity] = np.zeros_like(whole)
        return self.replayed[array.identity].view(array.dtype)

    @staticmethod
    def _offset(array: DeviceArray) -> int:
        return (array.address - array.owner.address) // array.dtype.itemsize

    def _remember(self, array: DeviceArray | SharedArray, index: NDArray[Any], mask: Mask, values: Any) -> None:
        shape, on = self._machine.shape, self._machine.everyone(mask)
        where, what = np.broadcast_to(index, shape)[on], np.broadcast_to(values, shape)[on]
        if isinstance(array, SharedArray):
            self._replayed(array)[0, where] = what
        else:
            written = self._launch.written.setdefault(id(array.owner), {})
            written.update(zip((where + self._offset(array)).tolist(), what, strict=True))

    def start_copy(self, array: SharedArray, index: NDArray[Any], mask: Mask, site: Site, elements: int = 0) -> None:
        """Take note of asynchronous copies that begin; bulk copies have a number of elements each."""
        if self._shared is not None:
            access = Access(WRITE, index, mask, max(1, elements))
            self._shared.start_copy(array, access, site, "bulk copy" if elements else "copy")

    def finish_copy(self, array: SharedArray, rows: Any, elements: Any, threads: Any) -> None:
        """Take note of asynchronous copies that have arrived, one entry for each; `threads` waited for them."""
        row: Numbers = np.asarray(rows, np.int64)
        where = row * array.size + np.asarray(elements, np.int64)
        self.unwritten.arrived(array, where)
        if self._shared is not None:
            who = None if threads is None else Threads(np.asarray(threads, np.int64), row)
            self._shared.finish_copy(array, where, who)

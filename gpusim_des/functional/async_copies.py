"""Asynchronous copies of threads from global to shared memory, in groups (``cp.async``, CUDA's pipeline primitives).

A copy reads global memory when it is issued; shared memory changes when the thread that issued it waits for its group.
A kernel that forgets the wait computes with what was there before, as on a GPU.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gpusim_des.functional import copy_rules
from gpusim_des.functional.accounting import AccessCost
from gpusim_des.functional.copy_rules import Ends
from gpusim_des.functional.memory import SharedArray
from gpusim_des.functional.provenance import Producers
from gpusim_des.functional.source import Site
from gpusim_des.trace import OpClass

if TYPE_CHECKING:
    from gpusim_des.functional.machine import Machine, Mask


@dataclass(slots=True)
class _Copy:
    """One copy instruction; arrays broadcast to (blocks, threads)."""

    event: int
    target: SharedArray
    index: NDArray[Any]
    values: NDArray[Any]
    group: NDArray[np.int32]
    """Groups that each thread had committed before."""
    under_way: NDArray[np.bool_]
    """Threads that have not waited for it yet."""

    def finish(self, done: NDArray[np.bool_]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Write what these threads copied; returns block, element and thread of each."""
        row, thread = np.nonzero(done)
        where = self.index[row, thread]
        self.target.data[row, where] = self.values[row, thread]
        self.under_way = self.under_way & ~done
        return row, where, thread


class AsyncCopies:
    """Copies under way in the blocks of a machine, and how many groups each thread has committed."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._commits: NDArray[np.int32] = np.zeros((1, 1), np.int32)
        self._copies: list[_Copy] = []

    def copy(self, ends: Ends, mask: Mask, producers: Producers, site: Site) -> int:
        """Start ``target[to] = source[origin]`` for the active threads; returns the event."""
        machine, (target, to, source, origin, _) = self._machine, ends
        label = machine.names.get(id(source), source.name)
        machine.check_bounds("asynchronous copy to", target.name, target.size, to, mask, site)
        machine.check_bounds("asynchronous copy from", label, source.size, origin, mask, site)
        event = self.count_copy(ends, mask, producers, site)
        if event >= 0:
            values = np.take(source.flat, origin if mask is None else np.where(mask, origin, 0))
            index, values = np.broadcast_to(to, machine.shape), np.broadcast_to(values, machine.shape)
            self._copies.append(_Copy(event, target, index, values, self._commits, machine.everyone(mask)))
        return event

    def count_copy(self, ends: Ends, mask: Mask, producers: Producers, site: Site) -> int:
        """Count a copy without doing it: a load from global memory and a store to shared memory in one instruction."""
        machine = self._machine
        if not machine.lanes(mask).any():
            return -1
        machine.watch.access(OpClass.ASYNC_COPY, ends.source, ends.origin, mask, site)
        machine.watch.start_copy(ends.target, ends.to, mask, site)
        read = machine.cost(OpClass.ASYNC_COPY, ends.source, ends.origin, mask, site)
        written = machine.cost(OpClass.SHARED_STORE, ends.target, ends.to, mask, site)
        assert read.quarter_cycles is not None
        assert written.quarter_cycles is not None
        cost = AccessCost(np.maximum(read.quarter_cycles, written.quarter_cycles), read.sectors)
        return machine.instruction(OpClass.ASYNC_COPY, mask, producers, site, ends.source.dtype.itemsize, cost)

    def commit(self, mask: Mask, producers: Producers, site: Site) -> None:
        """End the group of copies of every active thread; the next copy begins a new one."""
        self._commits = self._commits + (np.ones((1, 1), bool) if mask is None else mask)
        self._machine.instruction(OpClass.ASYNC_COMMIT, mask, producers, site)

    def wait_prior(self, prior: Any, mask: Mask, producers: Producers, site: Site) -> None:
        """Finish the copies of all but the `prior` newest groups that each active thread has committed.

        The instruction depends on the copies that it finishes: those that no earlier wait of the thread has finished.
        """
        machine = self._machine
        on = machine.everyone(mask)
        name = "pipeline_wait_prior n"
        number = copy_rules.whole(machine.kernel_name, name, "groups", 0, prior, on, site)
        made: list[Any] = []
        for copy in self._copies:
            done = copy.under_way & on & (copy.group < self._commits - number)
            if done.any():
                machine.watch.finish_copy(copy.target, *copy.finish(done))
                made.append(copy.event if done.all() else np.where(done, np.int32(copy.event), np.int32(-1)))
        self._copies = [copy for copy in self._copies if copy.under_way.any()]
        machine.instruction(OpClass.ASYNC_WAIT, mask, (*producers, *made), site)

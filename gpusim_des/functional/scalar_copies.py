"""Asynchronous copies in the interpreter: a thread's own groups, and bulk copies for which it meets its block.

A bulk copy and the wait for it are done where all threads have stopped, in lockstep order, as masked execution does.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gpusim_des.functional import copy_rules, thread_copies
from gpusim_des.functional.bulk_copies import SharedBarrier, Started
from gpusim_des.functional.machine import Machine
from gpusim_des.functional.memory import SharedArray
from gpusim_des.functional.scalar_steps import Key, Meeting
from gpusim_des.trace import OpClass

if TYPE_CHECKING:
    from gpusim_des.functional.scalar_runtime import ScalarRuntime

BULK = frozenset({"memcpy_async_bulk", "barrier_wait"})
"""Operations for which a thread meets its block."""


@dataclass(slots=True)
class _Copy:
    """One element on its way."""

    key: Key
    group: int
    target: SharedArray
    to: int
    value: Any


class Groups:
    """The asynchronous copies of one thread that it has not waited for."""

    def __init__(self) -> None:
        self._commits = 0
        self._copies: list[_Copy] = []

    def add(self, key: Key, target: SharedArray, to: int, value: Any) -> None:
        """Take note of a copy."""
        self._copies.append(_Copy(key, self._commits, target, to, value))

    def commit(self) -> None:
        """End a group."""
        self._commits += 1

    def wait_prior(self, prior: int) -> tuple[Key, ...]:
        """Finish all but the `prior` newest groups; returns the steps that started their copies."""
        done = [c for c in self._copies if c.group < self._commits - prior]
        self._copies = self._copies[len(done) :]
        for c in done:
            c.target.data[0, c.to] = c.value
        return tuple(c.key for c in done)


def copy(
    runtime: ScalarRuntime, place: int, name: str, arguments: dict[str, Any]
) -> Generator[Meeting, Any, SharedBarrier | None]:
    """Do one of the operations of asynchronous copies for one thread."""
    runtime.changes += 1
    if name == "pipeline_memcpy_async":
        _memcpy_async(runtime, place, **arguments)
    elif name == "pipeline_commit":
        runtime.groups.commit()
        runtime.step(place, OpClass.ASYNC_COMMIT, ())
    elif name == "pipeline_wait_prior":
        number = thread_copies.number(runtime, place, arguments["n"])
        what, site = "pipeline_wait_prior n", runtime.sites[place]
        prior = copy_rules.whole(runtime.kernel_name, what, "groups", 0, number, np.ones((1, 1), bool), site)
        runtime.step(place, OpClass.ASYNC_WAIT, runtime.groups.wait_prior(int(prior)))
    elif name == "shared_barrier":
        barrier_name = thread_copies.barrier_name(runtime, place, arguments["name"])
        return runtime.block.barrier(barrier_name, runtime.key(place), runtime.sites[place])
    elif name == "barrier_wait":
        (key,) = runtime.step(place, OpClass.BULK_WAIT, ())
        yield Meeting(key, name, runtime.sites[place], arguments)
    else:
        yield _memcpy_async_bulk(runtime, place, **arguments)
    return None


def _memcpy_async(runtime: ScalarRuntime, place: int, dst: Any, dst_index: Any, src: Any, src_index: Any) -> None:
    ends, made = thread_copies.ends(runtime, place, "pipeline_memcpy_async", dst, dst_index, src, src_index)
    to, origin = int(ends.to[0, 0]), int(ends.origin[0, 0])
    more = {"array": src, "flat": origin, "target": dst, "target_flat": to}
    (key,) = runtime.step(place, OpClass.ASYNC_COPY, made, **more)
    runtime.groups.add(key, dst, to, src.flat[origin].copy())


def _memcpy_async_bulk(
    runtime: ScalarRuntime, place: int, dst: Any, dst_start: Any, src: Any, src_start: Any, count: Any, bar: Any
) -> Meeting:
    name = "memcpy_async_bulk"
    ends, made = thread_copies.ends(runtime, place, name, dst, dst_start, src, src_start, count)
    (key,) = runtime.step(place, OpClass.BULK_COPY, made)
    return Meeting(key, name, runtime.sites[place], {"bar": bar, "ends": ends})


@dataclass(slots=True)
class Waited:
    """A wait that threads of the block have done."""

    barrier: SharedBarrier
    phases: NDArray[np.int32]


def meet(machine: Machine, meeting: Meeting, mask: NDArray[np.bool_]) -> Started | Waited:
    """Do a bulk copy, or a wait for bulk copies, of the threads in `mask`; it is counted later."""
    barrier = meeting.arguments["bar"]
    if meeting.name == "barrier_wait":
        return Waited(barrier, machine.bulk_copies.finish(barrier, mask, meeting.site))
    return machine.bulk_copies.start(barrier, meeting.arguments["ends"], mask, meeting.site)


def count(machine: Machine, done: Started | Waited, mask: NDArray[np.bool_], producers: Any, site: Any) -> None:
    """Count what `meet` did."""
    if isinstance(done, Waited):
        machine.bulk_copies.count_wait(done.barrier, done.phases, mask, producers, site)
    else:
        machine.bulk_copies.count_copy(done, mask, producers, site)

"""Rules T1 and T2: integer time, and what happens first when several things happen at one instant.

SimPy sorts simultaneous events by an integer priority before it falls back on the order of insertion. The priority
made here spells the rule out, so that insertion never decides.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any, cast

import simpy
from simpy import Event

from gpusim_des.errors import TraceError

END_OF_TIME = 1 << 60
"""Femtoseconds at which a simulation has to be over, 19 minutes: four times as much still fits 64 bits (T1)."""


class Environment(simpy.Environment):
    """A SimPy environment whose time is an integer number of femtoseconds (T1)."""

    @property
    def now(self) -> int:
        """Present time in femtoseconds."""
        return cast("int", self._now)

    never = END_OF_TIME
    """A time at which nothing happens."""

    @property
    def first(self) -> tuple[int, int]:
        """Time and priority of the next event; `never` and 0 if there is none before."""
        first = cast("tuple[int, int]", self._queue[0][:2]) if self._queue else (self.never, 0)
        return first if first[0] < self.never else (self.never, 0)


def end_of_time() -> TraceError:
    """Complaint about a simulation that lasts too long."""
    return TraceError(
        f"the simulation came to {END_OF_TIME:,} fs, 19 minutes: engines count no further (T1); simulate less at a time"
    )


class Kind(IntEnum):
    """Kinds of events in the order in which they happen at one instant (T2)."""

    ARRIVAL = 0
    REPLY = 1
    RETIREMENT = 2
    DISPATCH = 3
    ISSUE = 4
    HOST = 5


_KINDS = tuple((int(kind) + 1) << 120 for kind in Kind)
"""Behind SimPy's own priorities, 0 and 1: what a process of the host waited for happens before anything of the GPU."""


def order(kind: Kind, sm: int = 0, sub_partition: int = 0, age: int = 0, instruction: int = 0, part: int = 0) -> int:
    """Priority of an event: by kind, then SM, sub-partition, warp age, instruction and part of the access.

    >>> order(Kind.REPLY) < order(Kind.REPLY, sm=1) < order(Kind.ISSUE)
    True
    """
    return _KINDS[kind] | sm << 104 | sub_partition << 96 | age << 48 | instruction << 16 | part


LAST = (len(Kind) + 1) << 120
"""Priority behind everything else at one instant."""


class Occurrence(Event):
    """An event that is certain to happen at a given time (femtoseconds), in the order of rule T2."""

    def __init__(
        self, env: Environment, time_fs: int, priority: int, callbacks: list[Callable[[Any], None]] | None = None
    ) -> None:
        super().__init__(env)
        self._ok = True
        self._value = None
        if callbacks is not None:
            self.callbacks = callbacks
        env.schedule(self, priority, time_fs - env.now)  # type: ignore[arg-type]  # SimPy hints a flag, takes any int


class Alarm:
    """Wakes one process at the earliest time that anyone asked for."""

    def __init__(self, env: Environment, priority: int) -> None:
        self._env = env
        self._priority = priority
        self._event = Event(env)
        self._due: int | None = None

    def set(self, time_fs: int) -> None:
        """Wake the process at `time_fs` at the latest."""
        if self._due is not None and self._due <= time_fs:
            return
        # The sleeper moves to the earlier event; the one it leaves will pass unnoticed.
        sleepers, self._event.callbacks = self._event.callbacks, []
        self._event = Occurrence(self._env, time_fs, self._priority, sleepers)
        self._due = time_fs

    def sleep(self) -> Event:
        """Event to yield on: it happens when the alarm rings."""
        return self._event

    def reset(self) -> None:
        """Call after waking: nobody has asked for anything now."""
        self._event = Event(self._env)
        self._due = None

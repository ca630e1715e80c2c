"""Rule H1: an operation that the host asked for, on its way through a stream."""

from __future__ import annotations

from typing import NamedTuple

from simpy import Event

from gpusim_des.timing.dma import DmaTraffic
from gpusim_des.timing.order import Environment
from gpusim_des.trace import Command


class Dependency(NamedTuple):
    """Something that must have happened before an operation may start."""

    event: Event
    reason: str
    """Why: ``stream order``, ``event``, ``default stream``, ``graph order`` or ``hardware queue``."""
    name: str
    """The operation behind it."""


class Work:
    """One operation: a kernel, a copy, a memset, or a mark in a stream (an event's record, the end of a graph).

    ``ended`` happens when it is over; ``done`` when the device signals that, which is the same moment but on chips that
    signal the ends of kernels late.
    """

    __slots__ = (
        "command",
        "dependencies",
        "done",
        "end_fs",
        "ended",
        "engine",
        "issued_fs",
        "kernel",
        "kind",
        "last_wait_fs",
        "name",
        "nbytes",
        "number",
        "pageable",
        "start_fs",
        "started",
        "stream",
        "traffic",
        "wait_reason",
        "waited_for",
    )

    def __init__(self, env: Environment, number: int, kind: str, name: str, stream: int, command: Command) -> None:
        self.number = number
        self.kind = kind
        self.name = name
        self.stream = stream
        self.command = command
        self.nbytes = 0
        self.engine = ""
        self.pageable = False
        self.kernel = -1
        self.dependencies: list[Dependency] = []
        self.issued_fs = env.now
        self.start_fs = -1
        self.end_fs = -1
        self.started = Event(env)
        self.ended = Event(env)
        self.done = Event(env)
        self.wait_reason = "none"
        self.waited_for = ""
        self.last_wait_fs = -1
        self.traffic = DmaTraffic()

    def waited(self, reason: str, other: str, since_fs: int) -> None:
        """Note the wait that ended last."""
        self.wait_reason, self.waited_for, self.last_wait_fs = reason, other, since_fs

"""Rule H1: what an operation has to wait for before it may start."""

from __future__ import annotations

from gpusim_des.timing.work import Dependency, Work
from gpusim_des.trace import DEFAULT_STREAM, HostProgram


class Streams:
    """The ends of all streams: a stream executes in order; streams know each other by events and the default stream.

    ``hardware_queues`` is how many streams the device can tell apart: operations for one engine whose streams share a
    queue start in the order in which they were issued.
    """

    def __init__(self, program: HostProgram, hardware_queues: int) -> None:
        self._blocking = {stream.number: stream.blocking for stream in program.streams}
        self._legacy = not program.per_thread_default
        self._queues = hardware_queues
        self._tails: dict[int, Work] = {}
        self._awaited: dict[int, list[Work]] = {}
        """Records of events that the next operation of a stream waits for."""
        self._records: dict[int, Work] = {}
        self._heads: dict[tuple[int, str], Work] = {}

    def enter(self, work: Work) -> None:
        """Put an operation at the end of its stream, with everything that it waits for."""
        stream = work.stream
        if stream in self._tails:
            work.dependencies.append(self._after(self._tails[stream], "stream order", work))
        for record in self._awaited.pop(stream, ()):
            work.dependencies.append(self._after(record, "event", work))
        if self._legacy:
            for neighbour in self._ordered_by_default_stream(stream):
                for other in self.tail(neighbour):
                    work.dependencies.append(self._after(other, "default stream", work))
        self._tails[stream] = work

    def queue(self, work: Work) -> None:
        """Let an operation start behind those that its hardware queue holds for the same engine."""
        place = work.stream % self._queues, work.engine
        before = self._heads.get(place)
        if before is not None and before.stream != work.stream:
            work.dependencies.append(Dependency(before.started, "hardware queue", before.name))
        self._heads[place] = work

    def _ordered_by_default_stream(self, stream: int) -> list[int]:
        if stream == DEFAULT_STREAM:
            others = dict.fromkeys((*self._tails, *self._awaited))
            return [other for other in others if other != stream and self._blocking.get(other, True)]
        return [DEFAULT_STREAM] if self._blocking.get(stream, True) else []

    @staticmethod
    def _after(before: Work, reason: str, work: Work) -> Dependency:
        # A kernel behind a kernel needs no signal: the device keeps them in order.
        kernels = before.kind == work.kind == "kernel"
        return Dependency(before.ended if kernels else before.done, reason, before.name)

    def record(self, event: int, work: Work) -> None:
        """Note that `work` is the record of an event."""
        self._records[event] = work

    def recorded(self, event: int) -> Work:
        """Work that records an event."""
        return self._records[event]

    def wait(self, stream: int, event: int) -> None:
        """Let the next operation of a stream wait for an event's record."""
        self._awaited.setdefault(stream, []).append(self._records[event])

    def tail(self, stream: int) -> list[Work]:
        """What must be done for a stream to be empty: its last operation, and records that it waits for since then."""
        last = [self._tails[stream]] if stream in self._tails else []
        return last + self._awaited.get(stream, [])

    def tails(self) -> list[Work]:
        """What must be done for the device to be empty."""
        return list(self._tails.values())

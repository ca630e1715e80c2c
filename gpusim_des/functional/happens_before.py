"""Which operations of a host program are over before others begin: vector clocks of streams and of the host.

Operations run in *lanes*: a stream is a lane, and a graph has one per stream that it was captured from. A clock counts,
for every lane, the operations of it that are known to be over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

Lane = int | tuple[int, int]
"""Number of a stream, or of the stream that a graph was launched in and of the one that its node was captured from."""

Clock = dict[Lane, int]


class Moment(NamedTuple):
    """An operation, as clocks see it: the so-and-so-many-th of its lane."""

    lane: Lane
    turn: int

    def over(self, clock: Clock) -> bool:
        """Tell whether whoever has this clock comes after the operation."""
        return clock.get(self.lane, 0) >= self.turn


class HappensBefore:
    """Orders the operations of one device by stream order, events, the legacy default stream and the waiting host.

    Parameters
    ----------
    legacy
        Number of the legacy default stream; ``None`` if the default stream is one like the others.

    Examples
    --------
    >>> order = HappensBefore(legacy=None)
    >>> order.add_stream(1), order.add_stream(2)
    (None, None)
    >>> copy, _ = order.operation(1)
    >>> copied = order.record(1)
    >>> _, clock = order.operation(2)
    >>> copy.over(clock)
    False
    >>> order.wait(2, copied)
    >>> _, clock = order.operation(2)
    >>> copy.over(clock), copy.over(order.host)
    (True, False)
    """

    def __init__(self, legacy: int | None) -> None:
        self.host: Clock = {}
        """What the host knows to be over: everything that it asks for later comes after it."""
        self._legacy = legacy
        self._clocks: dict[int, Clock] = {}
        """What is over when a stream comes to its next command."""
        self._blocking: set[int] = set()
        self._counts: Counter[Lane] = Counter()

    def add_stream(self, number: int, *, blocking: bool = True) -> None:
        """Start a stream; `blocking` ones take part in the barriers of the legacy default stream."""
        self._clocks[number] = {}
        if blocking:
            self._blocking.add(number)

    def operation(self, stream: int) -> tuple[Moment, Clock]:
        """Put an operation into a stream; returns it and what is over when it begins."""
        clock = self._reach(stream)
        moment = self._next(stream)
        before = dict(clock)
        clock[stream] = moment.turn
        return moment, before

    def graph(self, stream: int, nodes: Sequence[tuple[int, Sequence[int]]]) -> list[tuple[Moment, Clock]]:
        """Put a graph into a stream: for each node the stream of its capture, and the nodes that it waits for."""
        clock = self._reach(stream)
        placed: list[tuple[Moment, Clock]] = []
        for captured, after in nodes:
            before = dict(clock)
            for node in after:
                moment, earlier = placed[node]
                _join(before, earlier)
                before[moment.lane] = max(before.get(moment.lane, 0), moment.turn)
            placed.append((self._next((stream, captured)), before))
        for moment, _ in placed:
            clock[moment.lane] = moment.turn
        return placed

    def record(self, stream: int) -> Clock:
        """Return what is over when a stream comes to an event."""
        return dict(self._reach(stream))

    def done(self, stream: int) -> Clock:
        """Return what is over when everything in a stream so far is."""
        return dict(self._clocks[stream])

    def wait(self, stream: int, event: Clock) -> None:
        """Let a stream wait for what `record` returned."""
        _join(self._reach(stream), event)

    def learn(self, clock: Clock) -> None:
        """Let the host have waited for something."""
        _join(self.host, clock)

    def learn_all(self) -> None:
        """Let the host have waited for everything."""
        self.host.update(self._counts)

    def pending(self, stream: int | None = None) -> bool:
        """Tell whether operations of a stream, or of any, are not known to the host to be over."""
        return any(
            self.host.get(lane, 0) < count
            for lane, count in self._counts.items()
            if stream is None or lane == stream or (isinstance(lane, tuple) and lane[0] == stream)
        )

    def _next(self, lane: Lane) -> Moment:
        self._counts[lane] += 1
        return Moment(lane, self._counts[lane])

    def _reach(self, stream: int) -> Clock:
        """Clock of a stream at its next command, with what the host and the legacy default stream add to it."""
        clock = self._clocks[stream]
        _join(clock, self.host)
        if self._legacy is not None and stream in self._blocking:
            for other in self._blocking if stream == self._legacy else (self._legacy,):
                _join(clock, self._clocks[other])
        return clock


def _join(clock: Clock, other: Clock) -> None:
    for lane, count in other.items():
        if clock.get(lane, 0) < count:
            clock[lane] = count

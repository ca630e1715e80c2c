"""A first-in-first-out server, kept as the time at which it is free next."""

from __future__ import annotations

from collections import deque

LOOKBACK = 256
"""Idle stretches that a server remembers: more than lie between the present and the last announced customer."""


class FifoServer:
    """Serves one customer at a time in the order of arrival; times are integers in one unit.

    Finish times equal those of ``simpy.Resource(env, 1)`` with a timeout inside, at a fraction of the cost, because
    in a FIFO queue a customer's finish is known on arrival. Customers must be announced in the order of arrival.

    Examples
    --------
    >>> server = FifoServer()
    >>> server.serve(arrival=0, service=10), server.serve(arrival=3, service=10), server.serve(arrival=50, service=1)
    (10, 20, 51)
    >>> server.busy, server.served, server.waited
    (21, 3, 7)
    """

    __slots__ = ("_idle", "busy", "free", "history", "served", "waited")

    def __init__(self, *, history: bool = False) -> None:
        self.free = 0
        """First time at which a new customer would be served at once."""
        self.busy = 0
        """Time spent serving so far."""
        self.served = 0
        """Customers so far."""
        self.waited = 0
        """Sum of the customers' waits in the queue."""
        self._idle: deque[tuple[int, int]] = deque(maxlen=LOOKBACK)
        """The latest stretches in which there was nothing to do."""
        self.history: list[tuple[int, int, int]] | None = [] if history else None
        """Arrival, start and end of every customer, if that was asked for."""

    def serve(self, arrival: int, service: int) -> int:
        """Accept a customer; returns when it leaves."""
        start = self.free
        if arrival > start:
            self._idle.append((start, arrival))
            start = arrival
        self.free = start + service
        self.busy += service
        self.served += 1
        self.waited += start - arrival
        if self.history is not None:
            self.history.append((arrival, start, self.free))
        return self.free

    def busy_before(self, time: int) -> int:
        """Time spent serving before `time`; customers may have been announced that arrive or are served later.

        >>> server = FifoServer()
        >>> server.serve(arrival=0, service=10), server.serve(arrival=20, service=10)
        (10, 30)
        >>> [server.busy_before(time) for time in (4, 15, 24, 50)]
        [4, 10, 14, 20]
        """
        idle = sum(end - max(start, time) for start, end in self._idle if end > time)
        return self.busy - max(0, self.free - time) + idle

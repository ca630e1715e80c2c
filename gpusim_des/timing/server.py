"""A first-in-first-out server, kept as the time at which it is free next."""

from __future__ import annotations


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

    __slots__ = ("busy", "free", "history", "served", "waited")

    def __init__(self, *, history: bool = False) -> None:
        self.free = 0
        """First time at which a new customer would be served at once."""
        self.busy = 0
        """Time spent serving so far."""
        self.served = 0
        """Customers so far."""
        self.waited = 0
        """Sum of the customers' waits in the queue."""
        self.history: list[tuple[int, int, int]] | None = [] if history else None
        """Arrival, start and end of every customer, if that was asked for."""

    def serve(self, arrival: int, service: int) -> int:
        """Accept a customer; returns when it leaves."""
        start = arrival if arrival > self.free else self.free
        self.free = start + service
        self.busy += service
        self.served += 1
        self.waited += start - arrival
        if self.history is not None:
            self.history.append((arrival, start, self.free))
        return self.free

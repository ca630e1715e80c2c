"""Rule I5: arithmetic pipes, and what every unit that can turn an instruction away has in common."""

from __future__ import annotations

from bisect import bisect_right


class Unit:
    """Something an instruction needs at issue and that can be occupied: a pipe, or a queue with no room.

    A warp that waits in front of a unit wants to know afterwards for how many cycles the unit was the reason. The unit
    counts its occupied cycles; two readings of `occupied_before` then give the answer without looking at every cycle.

    ``seats`` is the number of sub-partitions that use the unit; each counts from its own seat.
    """

    __slots__ = ("_log", "_occupied", "free")

    def __init__(self, seats: int, *, keep_log: bool = False) -> None:
        self.free = 0
        """First cycle at which the unit accepts an instruction."""
        self._occupied = [0] * seats
        self._log: list[list[tuple[int, int]]] | None = [[] for _ in range(seats)] if keep_log else None

    def occupy(self, cycle: int, until: int, seat: int) -> None:
        """Accept an instruction at `cycle` and no other before `until`.

        For the seat that issued, the cycle itself counts as selected; for the others the unit is taken.
        """
        self.free = until
        for s in range(len(self._occupied)):
            start = cycle + 1 if s == seat else cycle
            if until > start:
                self._occupied[s] += until - start
                if self._log is not None:
                    self._log[s].append((start, until))

    def occupied_before(self, cycle: int, seat: int) -> int:
        """Cycles before `cycle` in which the unit was occupied, as seen from a seat.

        Valid for the present cycle: nothing that occupies the unit later than `cycle` may have been accepted yet,
        except what was accepted before it and lasts beyond it.
        """
        beyond = self.free - cycle
        return self._occupied[seat] - beyond if beyond > 0 else self._occupied[seat]

    def occupied_spans(self, start: int, end: int, seat: int) -> list[tuple[int, int]]:
        """Occupied cycles in ``[start, end)`` as spans; needs ``keep_log``."""
        assert self._log is not None
        log = self._log[seat]
        first = max(bisect_right(log, (start, start)) - 1, 0)
        spans = []
        for begin, until in log[first:]:
            if begin >= end:
                break
            if until > start:
                spans.append((max(begin, start), min(until, end)))
        return spans


class Pipe(Unit):
    """A pipe of L lanes: it takes a warp instruction every 32 / L cycles and answers after a fixed latency (I5)."""

    __slots__ = ("interval",)

    def __init__(self, interval: int, seats: int, *, keep_log: bool = False) -> None:
        super().__init__(seats, keep_log=keep_log)
        self.interval = interval

    def accept(self, cycle: int, seat: int) -> None:
        """Take an instruction at `cycle`."""
        self.occupy(cycle, cycle + self.interval, seat)

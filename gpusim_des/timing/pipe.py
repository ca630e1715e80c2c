"""Rule I5: arithmetic pipes, and what every unit that can turn an instruction away has in common."""

from __future__ import annotations

from bisect import bisect_right

from gpusim_des.gpu import PIPE_FRACTION


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

    def end_occupation(self, until: int) -> None:
        """Learn that the unit is free again at `until`, earlier than it seemed; nobody was accepted since."""
        early = self.free - until
        self.free = until
        for s in range(len(self._occupied)):
            self._occupied[s] -= early
            if self._log is not None:
                self._log[s][-1] = (self._log[s][-1][0], until)

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
    """A pipe takes a warp instruction every so often and answers after a fixed latency (I5).

    Intervals are counted in parts of a cycle (`PIPE_FRACTION`), because a pipe that keeps up less than its peak over
    many instructions may still take two in a row.
    """

    __slots__ = ("_free_parts",)

    def __init__(self, seats: int, *, keep_log: bool = False) -> None:
        super().__init__(seats, keep_log=keep_log)
        self._free_parts = 0

    def accept(self, cycle: int, interval_parts: int, seat: int) -> None:
        """Take an instruction at `cycle`.

        >>> pipe = Pipe(seats=1)
        >>> for cycle in (0, 2, 3):  # one and a half cycles each
        ...     pipe.accept(cycle, 96, seat=0)
        ...     print(pipe.free)
        2
        3
        5
        """
        # What an instruction leaves of a cycle is lost only if the pipe then idles.
        begin = PIPE_FRACTION * cycle - PIPE_FRACTION + 1
        self._free_parts = (self._free_parts if self._free_parts > begin else begin) + interval_parts
        self.occupy(cycle, max(cycle + 1, -(-self._free_parts // PIPE_FRACTION)), seat)

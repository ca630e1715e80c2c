"""Races between streams: operations that touch one array, at least one of them writing, in no order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpusim_des.functional.array_use import ArrayUse, UseKind
from gpusim_des.functional.happens_before import Clock, Moment
from gpusim_des.functional.memory import DeviceArray
from gpusim_des.functional.source import Site

_VERB: dict[UseKind, str] = {"read": "reads", "write": "writes", "atomic": "updates"}


@dataclass(frozen=True)
class RacingOperation:
    """One side of a race.

    Examples
    --------
    >>> print(RacingOperation("kernel 'scale'", "writes", "compute", Site("app.py", 12)))
    kernel 'scale' in stream 'compute' (line 12 of app.py)
    """

    name: str
    """``kernel 'scale'``, ``copy h2d 'a'``, ``memset 'a'``."""
    does: str
    """``reads``, ``writes`` and ``updates`` (by atomics), with ``and`` between them."""
    stream: str
    site: Site

    @property
    def line(self) -> int:
        """Source line of the call, 0 if unknown."""
        return self.site.line

    def __str__(self) -> str:
        return f"{self.name} in stream {self.stream!r} ({self.site})"


@dataclass(frozen=True)
class StreamRace:
    """Two operations on one device array that a GPU may run in either order, or at once."""

    array: str
    first: RacingOperation
    """Asked for first; it was computed first too."""
    second: RacingOperation

    @property
    def remedy(self) -> str:
        """What puts the two in order."""
        a, b = self.first.stream, self.second.stream
        if a == b:  # branches of one graph
            return "let one branch of the graph wait for the other, with an event during the capture"
        return (
            f"record an event in stream {a!r} after the first, event.record(stream), and let stream {b!r} wait for it "
            "before the second, stream.wait_event(event); or let the host wait in between, stream.synchronize()"
        )

    def __str__(self) -> str:
        return (
            f"race on array {self.array!r}: {self.first} {self.first.does} it, {self.second} {self.second.does} it, "
            f"and neither waits for the other; {self.remedy}"
        )


@dataclass(slots=True)
class _Access:
    use: ArrayUse
    moment: Moment
    operation: RacingOperation


class StreamRaces:
    """Looks for races as operations come in, in the order in which the host asks for them.

    Atomics of two kernels on one array are no race, and neither are accesses to parts that do not overlap.

    Attributes
    ----------
    found
        One for every array and pair of calls, however often they are repeated.
    """

    def __init__(self) -> None:
        self.found: list[StreamRace] = []
        self._accesses: dict[int, list[_Access]] = {}
        """By identity of the array; an access that a later one covers is left out."""
        self._known: set[tuple[object, ...]] = set()

    def add(
        self,
        name: str,
        stream: str,
        site: Site,
        uses: Iterable[ArrayUse],
        moment: Moment,
        before: Clock,
        host: Clock,
    ) -> list[StreamRace]:
        """Add an operation that begins when everything in `before` is over; returns the races that are new.

        What the host knows to be over, `host`, is before everything that comes later, too.
        """
        new: list[StreamRace] = []
        together = list(uses)
        for use in together:
            verbs = [_VERB[other.kind] for other in together if other.array is use.array]
            now = _Access(use, moment, RacingOperation(name, " and ".join(verbs), stream, site))
            kept = []
            for earlier in self._accesses.get(id(use.array), ()):
                over = earlier.moment.over(before)
                if not over and earlier.moment != moment and _clash(earlier.use, use):
                    new += self._report(use.array, earlier.operation, now.operation)
                if not (earlier.moment.over(host) or (over and _covers(use, earlier.use))):
                    kept.append(earlier)
            kept.append(now)
            self._accesses[id(use.array)] = kept
        return new

    def forget(self, array: DeviceArray) -> None:
        """Leave out an array that was freed."""
        self._accesses.pop(id(array), None)

    def forget_accesses(self) -> None:
        """Leave out every access so far: whatever comes later comes after them."""
        self._accesses.clear()

    def _report(self, array: DeviceArray, first: RacingOperation, second: RacingOperation) -> list[StreamRace]:
        key = id(array), first.name, first.site, second.name, second.site
        if key in self._known:
            return []
        self._known.add(key)
        self.found.append(StreamRace(array.name, first, second))
        return self.found[-1:]


def _clash(a: ArrayUse, b: ArrayUse) -> bool:
    together = a.kind == b.kind and a.kind != "write"
    return not together and a.low < b.end and b.low < a.end


def _covers(later: ArrayUse, earlier: ArrayUse) -> bool:
    """Whatever would race with `earlier` would race with `later` too, if that comes after it."""
    return later.low <= earlier.low and earlier.end <= later.end and later.kind in {earlier.kind, "write"}

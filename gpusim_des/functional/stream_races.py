"""Races between streams: operations that touch one array, at least one of them writing, in no order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from gpusim_des.functional.array_use import ArrayUse, UseKind
from gpusim_des.functional.happens_before import Clock, Moment
from gpusim_des.functional.memory import DeviceArray
from gpusim_des.functional.reports import Report, Reports
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


@dataclass(frozen=True, kw_only=True)
class StreamRace(Report):
    """Two operations on one device array that a GPU may run in either order, or at once."""

    array: str
    element: tuple[int, ...]
    """Index of the first element that both may touch: of kernels, the ends of what they touch are known."""
    last_element: tuple[int, ...]
    """Index of the last one."""
    first: RacingOperation
    """Asked for first; it was computed first too."""
    second: RacingOperation
    identity: int = field(repr=False)
    """Tells arrays of one name apart."""

    @property
    def key(self) -> tuple[object, ...]:
        """What is the same for all that are counted together."""
        return self.identity, self.first.name, self.first.site, self.second.name, self.second.site

    @property
    def where(self) -> tuple[int, ...]:
        """Nothing: the first one is the example."""
        return ()

    @property
    def sites(self) -> tuple[Site, ...]:
        """Both calls."""
        return self.first.site, self.second.site

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

    @property
    def finding(self) -> str:
        """What is wrong in the example."""
        ends = [", ".join(map(str, index)) for index in (self.element, self.last_element)]
        where = f"[{ends[0]}]" if ends[0] == ends[1] else f"[{ends[0]}] to [{ends[1]}]"
        return (
            f"race on array {self.array!r}, {where}: {self.first} {self.first.does} it, {self.second} "
            f"{self.second.does} it, and neither waits for the other"
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
        One for every array and pair of calls, with how often they are repeated.
    """

    def __init__(self) -> None:
        self.found: Reports[StreamRace] = Reports()
        self._accesses: dict[int, list[_Access]] = {}
        """By identity of the array; an access that a later one covers is left out."""

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
        met: dict[tuple[int, Moment], list[tuple[_Access, _Access]]] = {}
        together = list(uses)
        for use in together:
            verbs = [_VERB[other.kind] for other in together if other.array is use.array]
            now = _Access(use, moment, RacingOperation(name, " and ".join(verbs), stream, site))
            kept = []
            for earlier in self._accesses.get(id(use.array), ()):
                over = earlier.moment.over(before)
                if not over and earlier.moment != moment and _clash(earlier.use, use):
                    met.setdefault((id(use.array), earlier.moment), []).append((earlier, now))
                if not (earlier.moment.over(host) or (over and _covers(use, earlier.use))):
                    kept.append(earlier)
            kept.append(now)
            self._accesses[id(use.array)] = kept
        races = [_race_of(pairs) for pairs in met.values()]
        return [race for race in races if self.found.add(race)]

    def forget(self, array: DeviceArray) -> None:
        """Leave out an array that was freed."""
        self._accesses.pop(id(array), None)

    def forget_accesses(self) -> None:
        """Leave out every access so far: whatever comes later comes after them."""
        self._accesses.clear()


def _race_of(pairs: list[tuple[_Access, _Access]]) -> StreamRace:
    """Report of two operations whose accesses meet in these pairs."""
    earlier, now = pairs[0]
    array = now.use.array
    low = min(max(a.use.low, b.use.low) for a, b in pairs)
    end = max(min(a.use.end, b.use.end) for a, b in pairs)
    first, last = (
        tuple(int(n) for n in np.unravel_index((byte - array.address) // array.dtype.itemsize, array.shape))
        for byte in (low, end - 1)
    )
    return StreamRace(
        array=array.name,
        element=first,
        last_element=last,
        first=earlier.operation,
        second=now.operation,
        identity=id(array),
        count=1,
    )


def _clash(a: ArrayUse, b: ArrayUse) -> bool:
    together = a.kind == b.kind and a.kind != "write"
    return not together and a.low < b.end and b.low < a.end


def _covers(later: ArrayUse, earlier: ArrayUse) -> bool:
    """Whatever would race with `earlier` would race with `later` too, if that comes after it."""
    return later.low <= earlier.low and earlier.end <= later.end and later.kind in {earlier.kind, "write"}

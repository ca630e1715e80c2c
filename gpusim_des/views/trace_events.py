"""What a trace is made of, whatever its format: rows, slices on them, arrows between slices, counters, marks.

A trace may hold a million slices. They are kept as columns, a sequence for each property, because making, sorting and
writing an object for each takes ten times as long.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

FS_PER_NS = 10**6
NS_PER_US = 1000

Times = NDArray[np.int64]
"""Whole nanoseconds, since Perfetto counts them: fractions, of starts and durations each rounded for itself, would
make slices overlap."""


class Track(NamedTuple):
    """A row: a thread of a process."""

    pid: int
    tid: int
    name: str


class Arrow(NamedTuple):
    """From what ended a wait to its end."""

    number: int
    """Unique in a trace."""
    name: str
    source: int
    """Place of the slice, in its table, that it leaves."""
    leaves_ns: int
    target: int
    """Place of the slice, in the same table, at which it arrives."""
    arrives_ns: int


class Counter(NamedTuple):
    """A value that changes at some moments."""

    name: str
    unit: str
    moments_ns: Sequence[int]
    values: Sequence[float]


class Mark(NamedTuple):
    """A text on the axis of time."""

    text: str
    moment_ns: int


@dataclass(frozen=True)
class Slices:
    """Slices of one category, row by row, those of a row in the order of their starts."""

    category: str
    tracks: Sequence[Track]
    rows: Sequence[int]
    """Of each slice: the place of its row among `tracks`."""
    names: Sequence[str]
    start_ns: Times
    end_ns: Times
    notes: Mapping[str, Sequence[Any]]
    """What a click shows, by name: for each slice a number, a text, a tuple of texts, or ``None`` for nothing."""
    arrow_category: str = ""
    arrows: Sequence[Arrow] = ()

    def __len__(self) -> int:
        return len(self.names)

    def used(self) -> list[Track]:
        """Rows that have slices."""
        return [self.tracks[row] for row in sorted(set(self.rows))]

    def only(self, kept: NDArray[np.bool_]) -> Slices:
        """Return the slices that are `kept`, and the arrows between them.

        Examples
        --------
        >>> arrow = Arrow(7, "wait", 0, 1, 2, 4)
        >>> table = slices("a", [(Track(1, 1, "row"), "abc", [0, 1, 3], [1, 2, 5], [{}] * 3)], "waits", [arrow])
        >>> part = table.only(np.array([True, False, True]))
        >>> part.names, part.start_ns.tolist(), part.arrows[0].target
        (['a', 'c'], [0, 3], 1)
        """
        place, chosen = (np.cumsum(kept) - 1).tolist(), kept.tolist()
        arrows = [a for a in self.arrows if chosen[a.source] and chosen[a.target]]
        return replace(
            self,
            rows=list(compress(self.rows, chosen)),
            names=list(compress(self.names, chosen)),
            start_ns=self.start_ns[kept],
            end_ns=self.end_ns[kept],
            notes={name: list(compress(values, chosen)) for name, values in self.notes.items()},
            arrows=[a._replace(source=place[a.source], target=place[a.target]) for a in arrows],
        )


Row = tuple[Track, Sequence[str], Sequence[int], Sequence[int], Sequence[Mapping[str, Any]]]
"""A row with names, starts and ends (nanoseconds) and notes of its slices, in the order of the starts."""


def slices(category: str, rows: Iterable[Row], arrow_category: str = "", arrows: Sequence[Arrow] = ()) -> Slices:
    """Return the slices of some rows as columns.

    Examples
    --------
    >>> table = slices("a", [(Track(1, 1, "row"), "ab", [0, 1], [1, 2], [{"x": 1}, {"y": 2}])])
    >>> table.rows, table.notes
    ([0, 0], {'x': [1, None], 'y': [None, 2]})
    """
    tracks: list[Track] = []
    places: list[int] = []
    names: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    notes: list[Mapping[str, Any]] = []
    for track, of_names, of_starts, of_ends, of_notes in rows:
        places += [len(tracks)] * len(of_names)
        tracks.append(track)
        names += of_names
        starts += of_starts
        ends += of_ends
        notes += of_notes
    keys = dict.fromkeys(key for note in notes for key in note)
    columns = {key: [note.get(key) for note in notes] for key in keys}
    times = np.array(starts, np.int64), np.array(ends, np.int64)
    return Slices(category, tracks, places, names, *times, columns, arrow_category, arrows)


def ns(fs: int) -> int:
    """Return the whole nanosecond that has begun.

    >>> ns(1_999_999)
    1
    """
    return fs // FS_PER_NS


def us(moment_ns: int) -> float:
    """Return microseconds.

    >>> us(1500)
    1.5
    """
    return moment_ns / NS_PER_US

"""Pieces of a Chrome trace that all its tracks share."""

from __future__ import annotations

from math import ulp
from typing import Any, NamedTuple

FS_PER_NS = 10**6
NS_PER_US = 1000


class Event(NamedTuple):
    """An event of the trace, with what is needed to sort and name it."""

    start_fs: int
    thread: str
    """Name of the thread, empty for events of the whole process."""
    fields: dict[str, Any]


class Track(NamedTuple):
    """A thread of a process."""

    pid: int
    tid: int
    name: str

    def slice(self, name: str, start_fs: int, end_fs: int, *, cat: str, args: dict[str, Any]) -> Event:
        """Return a complete event (``X``) on this track, from whole nanosecond to whole nanosecond.

        >>> Track(1, 1, "a").slice("k", 1_999_999, 5_000_000, cat="kernel", args={}).fields["dur"]
        0.003999999999999998
        """
        lasts = (end_fs // FS_PER_NS - start_fs // FS_PER_NS) / NS_PER_US
        # Viewers add the two, some after they have subtracted the first start: what is lost in that must not look like
        # an overlap.
        times = {"ts": us(start_fs), "dur": max(0.0, lasts - 2 * ulp(us(end_fs)))}
        fields = {"name": name, "cat": cat, "ph": "X", **times, "pid": self.pid, "tid": self.tid, "args": args}
        return Event(start_fs, self.name, fields)


def us(fs: int) -> float:
    """Microseconds up to the whole nanosecond that has begun.

    Perfetto counts nanoseconds and rounds starts and durations each for itself: fractions would make slices overlap.
    """
    return fs // FS_PER_NS / NS_PER_US

"""Pieces of a Chrome trace that all its tracks share."""

from __future__ import annotations

from typing import Any, NamedTuple

from gpusim_des.views.figure import FS_PER_US


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
        """Return a complete event (``X``) on this track."""
        times = {"ts": us(start_fs), "dur": us(end_fs - start_fs)}
        fields = {"name": name, "cat": cat, "ph": "X", **times, "pid": self.pid, "tid": self.tid, "args": args}
        return Event(start_fs, self.name, fields)


def us(fs: int) -> float:
    """Microseconds; the quotient of two integers is rounded once."""
    return fs / FS_PER_US

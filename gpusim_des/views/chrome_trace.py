"""A timeline as Chrome Trace Event JSON, for Perfetto (ui.perfetto.dev) and ``chrome://tracing``.

Tracks: processes for the host thread, the streams and the copy engines (`gpusim_des.views.host_trace`); the process
``GPU`` holds the kernels and counters (`gpusim_des.views.trace_counters`); a process for each SM holds one thread for
each block slot, and, if warps were recorded, one for each warp (`gpusim_des.views.warp_trace`).

Times are microseconds, as the format demands, and whole nanoseconds, as Perfetto counts. States of warps that begin and
end within the same nanosecond would be drawn inside of the next one: they are left out, and ``otherData`` says so.
Clicks tell cycles exactly.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import repeat
from json import JSONEncoder
from typing import IO, Any

import numpy as np

from gpusim_des.timeline import HasTimeline, Timeline
from gpusim_des.views.run_trace import MOST_EVENTS, Trace, run_trace
from gpusim_des.views.trace_events import NS_PER_US, Slices, us
from gpusim_des.views.trace_file import trace_file

_encode = JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


def chrome_trace(sim: HasTimeline | Timeline, *, max_events: int = MOST_EVENTS) -> dict[str, Any]:
    """Return the timeline as a Chrome trace: a dictionary that ``json.dump`` can write.

    Parameters
    ----------
    sim
        What ``simulate()`` returned, or its timeline. Blocks need ``detail="sm"``, warps ``detail="warp"``.
    max_events
        Most slices and values of counters to keep; arrows and names of processes and threads do not count. If there
        are more, rows are left out for the whole run, the finest first: warps of some SMs, then all warps, then blocks.
        ``otherData["notice"]`` and a mark on the time axis say which.

    Raises
    ------
    ValueError
        If `max_events` is not positive.
    """
    trace = run_trace(sim, max_events)
    events = list(_names(trace))
    for table in trace.tables:
        events += _slices(table)
        events += _flows(table)
    return {**_about(trace), "traceEvents": [*events, *_counts(trace), *_marks(trace)]}


def save_chrome_trace(
    sim: HasTimeline | Timeline, path: str | os.PathLike[str], *, max_events: int = MOST_EVENTS
) -> None:
    """Write `chrome_trace` to `path`, compressed if the name ends in ``.gz``; both viewers open either.

    The file appears whole or not at all: it is written under another name and renamed at the end.

    Raises
    ------
    ValueError
        If `max_events` is not positive.
    FileNotFoundError
        If the folder does not exist.
    """
    with trace_file(path) as file:
        _write(run_trace(sim, max_events), file)


def _write(trace: Trace, file: IO[bytes]) -> None:
    """Write one event on a line, so that text tools can read the file, and memory holds one table at a time."""

    def write(text: str) -> None:
        # Half a surrogate pair, which a name from elsewhere may hold, is the one thing that UTF-8 cannot write.
        file.write(text.encode("utf-8", "replace"))

    write(_encode(_about(trace))[:-1] + ',"traceEvents":[\n')
    write(",\n".join(map(_encode, _names(trace))))
    for table in trace.tables:
        write("".join(_slice_lines(table)))
        write("".join(f",\n{_encode(end)}" for end in _flows(table)))
    write("".join(f",\n{_encode(event)}" for event in (*_counts(trace), *_marks(trace))) + "\n]}\n")


def _about(trace: Trace) -> dict[str, Any]:
    other = {"generator": "gpusim_des", "gpu": trace.gpu_name, **trace.notices}
    return {"displayTimeUnit": "ns", "otherData": other}


def _names(trace: Trace) -> Iterator[dict[str, Any]]:
    """Names and order of all processes and threads."""

    def said(what: str, pid: int, tid: int, **args: str | int) -> dict[str, Any]:
        return {"name": what, "ph": "M", "pid": pid, "tid": tid, "args": args}

    for process in trace.processes:
        yield said("process_name", process.pid, 0, name=process.name)
        yield said("process_sort_index", process.pid, 0, sort_index=process.place)
        for track in process.tracks:
            yield said("thread_name", track.pid, track.tid, name=track.name)
            yield said("thread_sort_index", track.pid, track.tid, sort_index=track.tid)


def _counts(trace: Trace) -> Iterator[dict[str, Any]]:
    pid = trace.gpu.pid
    for name, unit, moments, values in trace.counters:
        for moment, value in zip(moments, values, strict=True):
            yield {"name": name, "ph": "C", "ts": us(moment), "pid": pid, "args": {unit: value}}


def _marks(trace: Trace) -> Iterator[dict[str, Any]]:
    for mark in trace.marks:
        yield {"name": mark.text, "ph": "i", "s": "g", "ts": us(mark.moment_ns), "pid": trace.gpu.pid, "tid": 1}


def _times(table: Slices) -> tuple[list[float], list[float]]:
    """Starts and durations in microseconds."""
    ends = table.end_ns / NS_PER_US
    # Viewers add the two, some after they have subtracted the first start: what is lost in that must not look like an
    # overlap. So a duration is two units in the last place of its end too short.
    lasts = (table.end_ns - table.start_ns) / NS_PER_US - 2 * np.spacing(ends)
    return (table.start_ns / NS_PER_US).tolist(), np.maximum(lasts, 0.0).tolist()


def _slices(table: Slices) -> Iterator[dict[str, Any]]:
    starts, lasts = _times(table)
    for place, row in enumerate(table.rows):
        track = table.tracks[row]
        notes = {name: values[place] for name, values in table.notes.items() if values[place] is not None}
        yield {
            "name": table.names[place],
            "cat": table.category,
            "ph": "X",
            "ts": starts[place],
            "dur": lasts[place],
            "pid": track.pid,
            "tid": track.tid,
            "args": {name: list(v) if isinstance(v, tuple) else v for name, v in notes.items()},
        }


def _slice_lines(table: Slices) -> list[str]:
    """Return what `_slices` yields as lines behind others: column by column, each value encoded once."""
    starts, lasts = _times(table)
    durations = _Texts("")
    names = _Texts("")
    tracks = [f'"pid":{track.pid},"tid":{track.tid}' for track in table.tracks]
    columns = [map(_Texts(f",{_encode(name)}:").__getitem__, values) for name, values in table.notes.items()]
    notes = map("".join, zip(*columns, strict=True)) if columns else repeat("")
    middle = f',"cat":{_encode(table.category)},"ph":"X","ts":'
    return [
        f',\n{{"name":{names[name]}{middle}{start!r},"dur":{durations[last]},{tracks[row]},"args":{{{said[1:]}}}}}'
        for name, start, last, row, said in zip(table.names, starts, lasts, table.rows, notes, strict=False)
    ]


class _Texts(dict[Any, str]):
    """Values as JSON behind a prefix; nothing for ``None``."""

    def __init__(self, prefix: str) -> None:
        super().__init__({None: ""})
        self._prefix = prefix

    def __missing__(self, value: Any) -> str:
        self[value] = text = self._prefix + _encode(value)
        return text


def _flows(table: Slices) -> Iterator[dict[str, Any]]:
    """Two flow events for each arrow."""
    for arrow in table.arrows:
        common = {"name": arrow.name, "cat": table.arrow_category, "id": arrow.number}
        yield {**common, "ph": "s", **_at(table, arrow.source, arrow.leaves_ns)}
        yield {**common, "ph": "f", "bp": "e", **_at(table, arrow.target, arrow.arrives_ns)}


def _at(table: Slices, place: int, moment_ns: int) -> dict[str, Any]:
    track = table.tracks[table.rows[place]]
    return {"ts": us(moment_ns), "pid": track.pid, "tid": track.tid}

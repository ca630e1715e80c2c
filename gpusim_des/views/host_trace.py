"""The host's side of a trace: its thread, the streams, the copy engines, and arrows between operations.

An arrow leads from the operation whose end (or, in a hardware queue, whose start) let another one begin.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any, Literal

from gpusim_des.timeline import Operation, Timeline
from gpusim_des.views.lanes import lanes
from gpusim_des.views.trace_events import FS_PER_NS, Arrow, Row, Slices, Track, ns, slices, us

PROCESSES = ("host", "streams", "copy engines")
"""Names of the processes, from top to bottom; the GPU and its SMs follow."""


def pid_of(timeline: Timeline, process: str) -> int:
    """Return the process number, after those of the SMs and of the GPU."""
    return timeline.sms + 2 + PROCESSES.index(process)


def host_slices(timeline: Timeline) -> Iterator[Slices]:
    """One slice for each call of the host, and two for each copy: in its stream and on its engine."""
    spans = sorted(timeline.host, key=attrgetter("start_fs"))
    said = [{"blocked": "yes" if s.waits else "no", "line": s.line or None} for s in spans]
    yield slices("host", [_row(Track(pid_of(timeline, "host"), 1, "host thread"), spans, said)])
    streams, engines = defaultdict(list), defaultdict(list)
    for operation in timeline.operations:
        streams[operation.stream].append(operation)
        if operation.engine.startswith("copy engine"):
            engines[operation.engine].append(operation)
    in_streams = [(timeline.stream_name(number), streams[number]) for number in sorted(streams)]
    shown = list(_rows(timeline, "streams", in_streams))
    yield slices("operation", [row for row, _ in shown], "wait", _arrows(timeline, [o for _, of in shown for o in of]))
    on_engines = [(name, engines[name]) for name in sorted(engines)]
    yield slices("copy", [row for row, _ in _rows(timeline, "copy engines", on_engines)])


def _rows(
    timeline: Timeline, process: str, named: Sequence[tuple[str, list[Operation]]]
) -> Iterator[tuple[Row, list[Operation]]]:
    """Rows of a process with their operations; what runs at the same time has rows of its own."""
    tid = 1
    for name, operations in named:
        for concurrent, members in enumerate(lanes(operations)):
            track = Track(pid_of(timeline, process), tid, name + f", concurrent {concurrent}" * (concurrent > 0))
            yield _row(track, members, [_notes(timeline, o) for o in members]), members
            tid += 1


def _row(track: Track, members: Sequence[Any], notes: Sequence[dict[str, Any]]) -> Row:
    starts, ends = [ns(m.start_fs) for m in members], [ns(m.end_fs) for m in members]
    return track, [m.name for m in members], starts, ends, notes


def _notes(timeline: Timeline, o: Operation) -> dict[str, Any]:
    """Return what a click on an operation shows; ``None`` for what it does not have."""
    has_rate, from_host = o.nbytes and o.end_fs > o.start_fs, o.kind in ("h2d", "d2h")
    return {
        "operation": o.number,
        "stream": timeline.stream_name(o.stream),
        "bytes": o.nbytes or None,
        "DRAM bytes": o.dram_bytes if o.nbytes else None,
        "GB/s": round(o.nbytes / o.seconds / 1e9, 3) if has_rate else None,
        "host memory": ("pageable" if o.pageable else "pinned") if from_host else None,
        "issued at µs": us(ns(o.issued_fs)),
        "wait reason": o.wait_reason,
        "waited for": o.waited_for or None,
        "waited µs": us(ns(o.start_fs - max(o.issued_fs, o.last_wait_fs))) if o.last_wait_s else None,
        "kernel": o.kernel if o.kernel >= 0 else None,
        "line": o.line or None,
    }


# Arrows -------------------------------------------------------------------------------------------------------------


def _arrows(timeline: Timeline, shown: Sequence[Operation]) -> list[Arrow]:
    """Arrows for each wait that another operation ended, between the places at which operations are shown."""
    places = {o.number: place for place, o in enumerate(shown)}
    ends, starts = _ByName(timeline.operations, "end_fs"), _ByName(timeline.operations, "start_fs")
    found = []
    for o in timeline.operations:
        in_queue = o.wait_reason == "hardware queue"
        cause = (starts if in_queue else ends).cause(o) if o.waited_for else None
        if cause is None:
            continue
        # Inside of the slice that it leaves: viewers count its end to the next one, and cut to nanoseconds.
        end = cause.start_fs if in_queue else max(cause.start_fs, cause.end_fs - FS_PER_NS)
        found.append(Arrow(o.number, o.wait_reason, places[cause.number], ns(end), places[o.number], ns(o.start_fs)))
    return found


class _ByName:
    """Operations by name, in the order of their starts or ends.

    Names are not unique: chunks of one array have one name.
    """

    def __init__(self, operations: Iterable[Operation], moment: Literal["start_fs", "end_fs"]) -> None:
        self._moment = attrgetter(moment)
        self._named: dict[str, list[Operation]] = defaultdict(list)
        for o in sorted(operations, key=attrgetter(moment, "number")):
            self._named[o.name].append(o)

    def cause(self, o: Operation) -> Operation | None:
        """Return the operation that ended the wait of `o`: of those that have the name, the last one before."""
        named = self._named[o.waited_for]
        for place in range(bisect_right(named, o.start_fs, key=self._moment) - 1, -1, -1):
            other = named[place]
            in_order = o.wait_reason not in ("stream order", "graph order") or other.stream == o.stream
            on_engine = o.wait_reason not in ("copy engine", "hardware queue") or other.engine == o.engine
            if other.number != o.number and in_order and on_engine:
                return other
        return None

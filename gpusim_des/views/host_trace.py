"""The host's side of a Chrome trace: its thread, the streams, the copy engines, and arrows between operations.

An arrow leads from the operation whose end (or, in a hardware queue, whose start) let another one begin.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Any, Literal

from gpusim_des.timeline import Operation, Timeline
from gpusim_des.views.lanes import lanes
from gpusim_des.views.trace_events import FS_PER_NS, Event, Track, us

PROCESSES = ("host", "streams", "copy engines")
"""Names of the processes, from top to bottom; the GPU and its SMs follow."""


def pid_of(timeline: Timeline, process: str) -> int:
    """Return the process number, after those of the SMs and of the GPU."""
    return timeline.sms + 2 + PROCESSES.index(process)


def host_events(timeline: Timeline) -> Iterator[Event]:
    """One slice for each call of the host, and two for each copy: in its stream and on its engine."""
    host = Track(pid_of(timeline, "host"), 1, "host thread")
    for span in timeline.host:
        line = {"line": span.line} if span.line else {}
        args: dict[str, Any] = {"blocked": "yes" if span.waits else "no", **line}
        yield host.slice(span.name, span.start_fs, span.end_fs, cat="host", args=args)
    streams, engines = defaultdict(list), defaultdict(list)
    for operation in timeline.operations:
        streams[operation.stream].append(operation)
        if operation.engine.startswith("copy engine"):
            engines[operation.engine].append(operation)
    tracks = [("streams", timeline.stream_name(number), "operation", streams[number]) for number in sorted(streams)]
    tracks += [("copy engines", name, "copy", engines[name]) for name in sorted(engines)]
    tids: dict[str, int] = defaultdict(int)
    for process, name, cat, operations in tracks:
        found = lanes(operations)
        for lane, members in enumerate(found, tids[process] + 1):
            concurrent = lane - tids[process] - 1
            track = Track(pid_of(timeline, process), lane, name + f", concurrent {concurrent}" * (concurrent > 0))
            for o in members:
                yield track.slice(o.name, o.start_fs, o.end_fs, cat=cat, args=_args(timeline, o))
        tids[process] += len(found)


def _args(timeline: Timeline, o: Operation) -> dict[str, Any]:
    args: dict[str, Any] = {"operation": o.number, "stream": timeline.stream_name(o.stream)}
    if o.nbytes:
        args["bytes"] = o.nbytes
        args["DRAM bytes"] = o.dram_bytes
        if o.end_fs > o.start_fs:
            args["GB/s"] = round(o.nbytes / o.seconds / 1e9, 3)
    if o.kind in ("h2d", "d2h"):
        args["host memory"] = "pageable" if o.pageable else "pinned"
    args |= {"issued at µs": us(o.issued_fs), "wait reason": o.wait_reason}
    if o.waited_for:
        args["waited for"] = o.waited_for
    if o.last_wait_s:
        args["waited µs"] = us(o.start_fs - max(o.issued_fs, o.last_wait_fs))
    if o.kernel >= 0:
        args["kernel"] = o.kernel
    return args | ({"line": o.line} if o.line else {})


# Arrows -------------------------------------------------------------------------------------------------------------


def arrows(timeline: Timeline, kept: Iterable[Event]) -> Iterator[dict[str, Any]]:
    """Two flow events for each wait that another operation ended, where slices of both are among the events `kept`."""
    shown = {
        e.fields["args"]["operation"]: e.fields
        for e in kept
        if e.fields["ph"] == "X" and e.fields["cat"] == "operation"
    }
    ends, starts = _ByName(timeline.operations, "end_fs"), _ByName(timeline.operations, "start_fs")
    for o in timeline.operations:
        cause = (starts if o.wait_reason == "hardware queue" else ends).cause(o) if o.waited_for else None
        if cause is None or not {o.number, cause.number} <= shown.keys():
            continue
        source, target = shown[cause.number], shown[o.number]
        # Inside of the slice that it leaves: viewers count its end to the next one, and cut to nanoseconds.
        end = cause.start_fs if o.wait_reason == "hardware queue" else max(cause.start_fs, cause.end_fs - FS_PER_NS)
        common = {"name": o.wait_reason, "cat": "wait", "id": o.number}
        yield {**common, "ph": "s", "ts": us(end), "pid": source["pid"], "tid": source["tid"]}
        yield {**common, "ph": "f", "bp": "e", "ts": target["ts"], "pid": target["pid"], "tid": target["tid"]}


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

"""A timeline as a Perfetto protobuf trace.

It holds what the Chrome trace holds (`gpusim_des.views.chrome_trace`), and the order of its rows: Perfetto's page sorts
the processes of a Chrome trace by how busy they are, but keeps the order of tracks that ask for it [1]_. Times are
whole nanoseconds, as in the Chrome trace.

Texts that come again are interned: one packet tells their numbers, the others name these [2]_. Packets that do so say
that they need what came before, and the first one says that nothing did.

References
----------
.. [1] Perfetto, "Writing TrackEvent Protos", https://perfetto.dev/docs/reference/synthetic-track-event
.. [2] Perfetto, "Incremental state" in ``protos/perfetto/trace/trace_packet.proto``
"""

from __future__ import annotations

import os
from collections import Counter as Multiset
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import IO, Any, NamedTuple

from gpusim_des.timeline import HasTimeline, Timeline
from gpusim_des.views.chrome_trace import save_chrome_trace
from gpusim_des.views.host_trace import PROCESSES
from gpusim_des.views.perfetto_fields import (
    ChildTracksOrdering,
    CounterDescriptor,
    DebugAnnotation,
    EventName,
    InternedData,
    SequenceFlags,
    TracePacket,
    TrackDescriptor,
    TrackEvent,
    Type,
)
from gpusim_des.views.perfetto_fields import Trace as TraceMessage
from gpusim_des.views.protobuf import double, fixed64, message, number, tag, text, varint
from gpusim_des.views.run_trace import MOST_EVENTS, Process, Trace, run_trace
from gpusim_des.views.trace_events import Counter, Slices, Track
from gpusim_des.views.trace_file import trace_file

SUFFIXES = (".pftrace", ".perfetto-trace")
"""Endings of the names of such files."""

_SEQUENCE = number(TracePacket.TRUSTED_PACKET_SEQUENCE_ID, 1)
"""All packets belong to one sequence, in which they are read in order where times are equal."""

_FIRST = _SEQUENCE + number(TracePacket.SEQUENCE_FLAGS, SequenceFlags.SEQ_INCREMENTAL_STATE_CLEARED)
_LATER = _SEQUENCE + number(TracePacket.SEQUENCE_FLAGS, SequenceFlags.SEQ_NEEDS_INCREMENTAL_STATE)

_PACKET, _EVENT = tag(TraceMessage.PACKET), tag(TracePacket.TRACK_EVENT)
_TIME = number(TracePacket.TIMESTAMP, 0)[:-1]

_ROOT = 1
"""Number of the row that all others are below: Perfetto sorts rows without one above them by their names."""


def save_trace(sim: HasTimeline | Timeline, path: str | os.PathLike[str], *, max_events: int = MOST_EVENTS) -> None:
    """Write the trace that the name asks for: `save_perfetto_trace` for those of its `SUFFIXES`, or a Chrome trace."""
    name = Path(path).name.removesuffix(".gz")
    save = save_perfetto_trace if name.endswith(SUFFIXES) else save_chrome_trace
    save(sim, path, max_events=max_events)


def save_perfetto_trace(
    sim: HasTimeline | Timeline, path: str | os.PathLike[str], *, max_events: int = MOST_EVENTS
) -> None:
    """Write a Perfetto trace to `path`, compressed if the name ends in ``.gz``.

    The file appears whole or not at all: it is written under another name and renamed at the end.

    Parameters
    ----------
    sim
        What ``simulate()`` returned, or its timeline. Blocks need ``detail="sm"``, warps ``detail="warp"``.
    path
        Ends in ``.pftrace`` or ``.perfetto-trace`` by custom, and in ``.gz`` behind that if it is to be compressed.
    max_events
        Most events to keep, as in `chrome_trace`.

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
    rows = _Rows(trace)
    file.write(b"".join(rows.packets()))
    texts = _Texts()
    for table in trace.tables:
        packets = b"".join(_packets(table, [rows.of(track) for track in table.tracks], texts))
        file.write(texts.packet())
        file.write(packets)
    for mark in trace.marks:
        event = _event(Type.TYPE_INSTANT, _ROOT) + text(TrackEvent.NAME, mark.text)
        file.write(_packet(_at(mark.moment_ns) + message(TracePacket.TRACK_EVENT, event)))
    for counter in trace.counters:
        head = _event(Type.TYPE_COUNTER, rows.of(counter))
        for moment, value in zip(counter.moments_ns, counter.values, strict=True):
            event = head + double(TrackEvent.DOUBLE_COUNTER_VALUE, value)
            file.write(_packet(_at(moment) + message(TracePacket.TRACK_EVENT, event)))


def _packet(content: bytes, sequence: bytes = _LATER) -> bytes:
    return message(TraceMessage.PACKET, content + sequence)


def _at(moment_ns: int) -> bytes:
    return number(TracePacket.TIMESTAMP, moment_ns)


def _event(kind: Type, row: int) -> bytes:
    return number(TrackEvent.TYPE, kind) + number(TrackEvent.TRACK_UUID, row)


# Slices -------------------------------------------------------------------------------------------------------------


def _packets(table: Slices, rows: list[int], texts: _Texts) -> Iterator[bytes]:
    """Beginnings and ends of the slices, row by row in the order in which they happen."""
    sizes, moments = _Made(varint), _Made(lambda moment: _TIME + varint(moment))
    category = number(TrackEvent.CATEGORY_IIDS, texts.iid(InternedData.EVENT_CATEGORIES, table.category))
    begins = [_event(Type.TYPE_SLICE_BEGIN, row) + category for row in rows]
    ends = [message(TracePacket.TRACK_EVENT, _event(Type.TYPE_SLICE_END, row)) + _LATER for row in rows]
    flows = _flows(table)
    last, open_until = -1, list[int]()

    def end() -> bytes:
        content = moments[open_until.pop()] + ends[last]
        return _PACKET + sizes[len(content)] + content

    columns = (table.rows, table.start_ns.tolist(), table.end_ns.tolist(), _names(table, texts), _notes(table, texts))
    for place, (row, start, stop, name, notes) in enumerate(zip(*columns, strict=False)):
        while open_until and (open_until[-1] <= start or row != last):
            yield end()
        last = row
        event = begins[row] + name + notes
        if place in flows:
            event += flows[place]
        content = moments[start] + _EVENT + sizes[len(event)] + event + _LATER
        yield _PACKET + sizes[len(content)] + content
        open_until.append(stop)
    while open_until:
        yield end()


class _Made(dict[Any, bytes]):
    """Values and the bytes that they are written as, each made once; none for ``None``."""

    def __init__(self, make: Callable[[Any], bytes]) -> None:
        super().__init__({None: b""})
        self._make = make

    def __missing__(self, value: Any) -> bytes:
        self[value] = made = self._make(value)
        return made


def _names(table: Slices, texts: _Texts) -> Iterator[bytes]:
    """Names of the slices; one that occurs once, as those of blocks do, is written as it is."""
    times = Multiset(table.names)

    def made(name: str) -> bytes:
        if times[name] == 1:
            return text(TrackEvent.NAME, name)
        return number(TrackEvent.NAME_IID, texts.iid(InternedData.EVENT_NAMES, name))

    return map(_Made(made).__getitem__, table.names)


def _notes(table: Slices, texts: _Texts) -> Iterator[bytes]:
    """What a click shows of each slice."""

    def made(head: bytes, value: int | float | str | tuple[str, ...]) -> bytes:
        if isinstance(value, int):
            content = number(DebugAnnotation.INT_VALUE, value)
        elif isinstance(value, float):
            content = double(DebugAnnotation.DOUBLE_VALUE, value)
        else:
            said = ", ".join(value) if isinstance(value, tuple) else value
            iid = texts.iid(InternedData.DEBUG_ANNOTATION_STRING_VALUES, said)
            content = number(DebugAnnotation.STRING_VALUE_IID, iid)
        return message(TrackEvent.DEBUG_ANNOTATIONS, head + content)

    columns = []
    for name, values in table.notes.items():
        head = number(DebugAnnotation.NAME_IID, texts.iid(InternedData.DEBUG_ANNOTATION_NAMES, name))
        columns.append(map(_Made(partial(made, head)).__getitem__, values))
    return map(b"".join, zip(*columns, strict=True)) if columns else repeat(b"")


def _flows(table: Slices) -> dict[int, bytes]:
    """By place of a slice: numbers of the arrows that leave it, or arrive at it."""
    found: dict[int, bytes] = defaultdict(bytes)
    for arrow in table.arrows:
        found[arrow.source] += fixed64(TrackEvent.FLOW_IDS, arrow.number + 1)  # 0 means none
        found[arrow.target] += fixed64(TrackEvent.TERMINATING_FLOW_IDS, arrow.number + 1)
    return found


class _Texts:
    """Texts that have numbers, and those of them that the file does not tell yet."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[InternedData, str], int] = {}
        self._untold = b""

    def iid(self, kind: InternedData, said: str) -> int:
        """Return the number of a text."""
        found = self._numbers.get((kind, said))
        if found is None:
            found = self._numbers[kind, said] = len(self._numbers) + 1  # 0 means none
            self._untold += message(kind, number(EventName.IID, found) + text(EventName.NAME, said))
        return found

    def packet(self) -> bytes:
        """Return a packet that tells the new ones; it must stand before those that use them."""
        packet = _packet(message(TracePacket.INTERNED_DATA, self._untold)) if self._untold else b""
        self._untold = b""
        return packet


# Rows ---------------------------------------------------------------------------------------------------------------


class _Row(NamedTuple):
    parent: int
    name: str
    unit: str = ""
    """Of a counter."""


class _Rows:
    """Rows from the top.

    What is to be seen at once needs no group: the host, streams and copy engines have rows of their own, kernels the
    GPU's own row, with its counters below it.
    """

    def __init__(self, trace: Trace) -> None:
        self._rows: dict[int, _Row] = {_ROOT: _Row(0, trace.gpu_name)}
        self._uuids: dict[tuple[int, int] | str, int] = {}
        for process in trace.processes:
            group = _ROOT if process.name in PROCESSES else self._add(_Row(_ROOT, process.name))
            self._add_tracks(group, process)
            if process is trace.gpu:
                for counter in sorted(trace.counters, key=lambda c: (c.unit, c.name)):
                    self._uuids[counter.name] = self._add(_Row(group, counter.name, counter.unit))

    def _add_tracks(self, group: int, process: Process) -> None:
        tracks = list(process.tracks)
        if tracks and not process.place:
            self._uuids[tracks.pop(0)[:2]] = group
        for track in tracks:
            self._uuids[track[:2]] = self._add(_Row(group, track.name))

    def _add(self, row: _Row) -> int:
        uuid = _ROOT + len(self._rows)
        self._rows[uuid] = row
        return uuid

    def of(self, shown: Track | Counter) -> int:
        """Number of a row."""
        return self._uuids[shown.name if isinstance(shown, Counter) else shown[:2]]

    def packets(self) -> Iterator[bytes]:
        """Descriptions of all rows, with their order: the first packets of the file."""
        for uuid, row in self._rows.items():
            said = number(TrackDescriptor.UUID, uuid) + text(TrackDescriptor.NAME, row.name)
            said += number(TrackDescriptor.CHILD_ORDERING, ChildTracksOrdering.EXPLICIT)
            if row.parent:
                said += number(TrackDescriptor.PARENT_UUID, row.parent)
                said += number(TrackDescriptor.SIBLING_ORDER_RANK, uuid)
            if row.unit:
                said += message(TrackDescriptor.COUNTER, text(CounterDescriptor.UNIT_NAME, row.unit))
            yield _packet(message(TracePacket.TRACK_DESCRIPTOR, said), _FIRST if uuid == _ROOT else _LATER)

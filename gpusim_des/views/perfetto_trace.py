"""A timeline as a Perfetto protobuf trace, written through the package ``perfetto`` (``gpusim-des[perfetto]``).

It holds what the Chrome trace holds (`gpusim_des.views.chrome_trace`), and the order of its rows: Perfetto's page sorts
the processes of a Chrome trace by how busy they are, but keeps the order of tracks that ask for it [1]_. Times are
whole nanoseconds, as in the Chrome trace.

References
----------
.. [1] Perfetto, "Writing TrackEvent Protos", https://perfetto.dev/docs/reference/synthetic-track-event
"""

from __future__ import annotations

import gzip
import os
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import IO, Any, NamedTuple

from gpusim_des.errors import UsageError
from gpusim_des.timeline import HasTimeline, Timeline
from gpusim_des.views.chrome_trace import GPU, chrome_trace, save_chrome_trace
from gpusim_des.views.host_trace import PROCESSES
from gpusim_des.views.trace_events import NS_PER_US
from gpusim_des.whole_file import whole_file

SUFFIXES = (".pftrace", ".perfetto-trace")
"""Endings of the names of such files."""

_SEQUENCE = 1
"""All packets belong to one sequence, in which they are read in order where times are equal."""

_ROOT = 1
"""Number of the row that all others are below: Perfetto sorts rows without one above them by their names."""

_AT_ONCE = 1000
"""Packets that are written together."""


class _Slice(NamedTuple):
    start_ns: int
    end_ns: int
    fields: dict[str, Any]


def save_trace(sim: HasTimeline | Timeline, path: str | os.PathLike[str]) -> None:
    """Write the trace that the name asks for: `save_perfetto_trace` for those of its `SUFFIXES`, or a Chrome trace."""
    name = Path(path).name.removesuffix(".gz")
    save = save_perfetto_trace if name.endswith(SUFFIXES) else save_chrome_trace
    save(sim, path)


def save_perfetto_trace(
    sim: HasTimeline | Timeline, path: str | os.PathLike[str], *, max_events: int = 1_000_000
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
    UsageError
        Without the package ``perfetto``.
    FileNotFoundError
        If the folder does not exist.
    """
    packets = _packets(chrome_trace(sim, max_events=max_events))
    with whole_file(path) as draft, draft.open("xb") as raw:
        if Path(path).suffix == ".gz":
            with gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=6, mtime=0) as file:
                _write(packets, file)
        else:
            _write(packets, raw)


def _write(packets: Iterable[Any], file: IO[bytes] | gzip.GzipFile) -> None:
    """Write packets in batches: a file of this format is a concatenation of such."""
    protos, left = _protos(), iter(packets)
    while batch := list(islice(left, _AT_ONCE)):
        file.write(protos.Trace(packet=batch).SerializeToString())


def _protos() -> Any:
    try:
        from perfetto.protos.perfetto.trace import perfetto_trace_pb2  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise UsageError(
            "traces in Perfetto's own format are written by the package perfetto, which is not installed: "
            "pip install 'gpusim-des[perfetto]', or take a name ending in .json for a Chrome trace, which it opens, too"
        ) from error
    return perfetto_trace_pb2


def _packets(trace: dict[str, Any]) -> Iterator[Any]:
    """All packets of a Chrome trace: tracks, slices and instants, counters."""
    protos = _protos()
    kinds: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for event in trace["traceEvents"]:
        kinds[event["ph"]].append(event)
    tracks = _Tracks(protos, trace["otherData"]["gpu"], kinds)
    yield from tracks.packets()
    slices: dict[tuple[int, int], list[_Slice]] = defaultdict(list)
    for event in kinds["X"]:
        start, end = _ns(event["ts"]), _ns(event["ts"] + event["dur"])
        slices[event["pid"], event["tid"]].append(_Slice(start, end, event))
    leaving, arriving = _flows(slices, kinds["s"]), _flows(slices, kinds["f"])
    for place, members in slices.items():
        for packet, event in _nested(protos, members, tracks.of(*place)):
            if event is not None:
                packet.track_event.flow_ids.extend(leaving.get(id(event), ()))
                packet.track_event.terminating_flow_ids.extend(arriving.get(id(event), ()))
            yield packet
    for event in kinds["i"]:
        yield _packet(protos, event, "TYPE_INSTANT", _ROOT)
    yield from _counters(protos, tracks, kinds["C"])


def _ns(us: float) -> int:
    return round(us * NS_PER_US)  # it is whole


def _flows(slices: dict[tuple[int, int], list[_Slice]], ends: Iterable[dict[str, Any]]) -> dict[int, list[int]]:
    """By identity of a slice's event: numbers of the arrows that leave it, or arrive at it."""
    ordered = {place: [s.fields for s in of] for place, of in slices.items()}
    found: dict[int, list[int]] = defaultdict(list)
    for event in ends:
        inside = ordered.get((event["pid"], event["tid"]), [])
        last = bisect_right(inside, event["ts"], key=itemgetter("ts")) - 1
        if last >= 0:
            found[id(inside[last])].append(event["id"] + 1)  # 0 means none
    return found


def _nested(protos: Any, members: Iterable[_Slice], track: int) -> Iterator[tuple[Any, dict[str, Any] | None]]:
    """Beginnings, with their events, and ends of the slices of a track, in the order in which they happen."""
    open_until: list[int] = []
    for member in members:
        while open_until and open_until[-1] <= member.start_ns:
            yield _end(protos, open_until.pop(), track), None
        yield _packet(protos, member.fields, "TYPE_SLICE_BEGIN", track), member.fields
        open_until.append(member.end_ns)
    while open_until:
        yield _end(protos, open_until.pop(), track), None


def _packet(protos: Any, event: dict[str, Any], kind: str, track: int) -> Any:
    packet = protos.TracePacket(timestamp=_ns(event["ts"]), trusted_packet_sequence_id=_SEQUENCE)
    said = packet.track_event
    said.type, said.track_uuid, said.name = getattr(protos.TrackEvent, kind), track, event["name"]
    if "cat" in event:
        said.categories.append(event["cat"])
    for name, value in event.get("args", {}).items():
        note = said.debug_annotations.add(name=name)
        if isinstance(value, int):
            note.int_value = value
        elif isinstance(value, float):
            note.double_value = value
        else:
            note.string_value = ", ".join(value) if isinstance(value, list) else str(value)
    return packet


def _end(protos: Any, moment: int, track: int) -> Any:
    packet = protos.TracePacket(timestamp=moment, trusted_packet_sequence_id=_SEQUENCE)
    packet.track_event.type, packet.track_event.track_uuid = protos.TrackEvent.TYPE_SLICE_END, track
    return packet


def _counters(protos: Any, tracks: _Tracks, events: Iterable[dict[str, Any]]) -> Iterator[Any]:
    for event in events:
        (value,) = event["args"].values()
        packet = protos.TracePacket(timestamp=_ns(event["ts"]), trusted_packet_sequence_id=_SEQUENCE)
        said = packet.track_event
        said.type, said.track_uuid = protos.TrackEvent.TYPE_COUNTER, tracks.of(event["pid"], event["name"])
        said.double_counter_value = value
        yield packet


class _Row(NamedTuple):
    parent: int
    name: str
    unit: str = ""
    """Of a counter."""


class _Tracks:
    """Rows, from the top, as the names and places of a Chrome trace's processes and threads say.

    What is to be seen at once needs no group: the host, streams and copy engines have rows of their own, kernels the
    GPU's own row, with its counters below it.
    """

    def __init__(self, protos: Any, title: str, kinds: dict[str, list[dict[str, Any]]]) -> None:
        self._protos = protos
        self._rows: dict[int, _Row] = {_ROOT: _Row(0, title)}
        self._uuids: dict[tuple[int, int | str], int] = {}
        said = {(note["name"], note["pid"], note["tid"]): note["args"] for note in kinds["M"]}
        places = {key[1]: args["sort_index"] for key, args in said.items() if key[0] == "process_sort_index"}
        units = {(event["pid"], event["name"]): next(iter(event["args"])) for event in kinds["C"]}
        for pid in sorted(places, key=lambda pid: places[pid]):
            name = said["process_name", pid, 0]["name"]
            threads = sorted(key[1:] for key in said if key[0] == "thread_name" and key[1] == pid)
            group = _ROOT if name in PROCESSES else self._add(_Row(_ROOT, name))
            if threads and name.startswith(GPU):
                self._uuids[threads.pop(0)] = group
            for tid in (tid for _, tid in threads):
                self._uuids[pid, tid] = self._add(_Row(group, said["thread_name", pid, tid]["name"]))
            for counter in sorted((c for c in units if c[0] == pid), key=lambda c: (units[c], c)):
                self._uuids[counter] = self._add(_Row(group, counter[1], units[counter]))

    def _add(self, row: _Row) -> int:
        uuid = _ROOT + len(self._rows)
        self._rows[uuid] = row
        return uuid

    def of(self, pid: int, row: int | str) -> int:
        """Number of a thread's row, or of a counter's."""
        return self._uuids[pid, row]

    def packets(self) -> Iterator[Any]:
        """Descriptions of all rows, with their order."""
        for uuid, row in self._rows.items():
            packet = self._protos.TracePacket(trusted_packet_sequence_id=_SEQUENCE)
            said = packet.track_descriptor
            said.uuid, said.name, said.child_ordering = uuid, row.name, self._protos.TrackDescriptor.EXPLICIT
            if row.parent:
                said.parent_uuid, said.sibling_order_rank = row.parent, uuid
            if row.unit:
                said.counter.unit_name = row.unit
            yield packet

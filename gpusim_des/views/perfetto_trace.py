"""A timeline as a Perfetto protobuf trace, written through the package ``perfetto`` (``gpusim-des[perfetto]``).

It holds what the Chrome trace holds (`gpusim_des.views.chrome_trace`), and the order of its rows: Perfetto's page sorts
the processes of a Chrome trace by how busy they are, but keeps the order of tracks that ask for it [1]_. Times are
whole nanoseconds, as the format demands: of states of warps, which last cycles, the Chrome trace keeps the fractions.

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
from operator import itemgetter
from pathlib import Path
from typing import IO, Any, NamedTuple

from gpusim_des.errors import UsageError
from gpusim_des.timeline import HasTimeline, Timeline
from gpusim_des.views.chrome_trace import chrome_trace, save_chrome_trace
from gpusim_des.whole_file import whole_file

NS_PER_US = 1000

SUFFIXES = (".pftrace", ".perfetto-trace")
"""Endings of the names of such files."""

_SEQUENCE = 1
"""All packets belong to one sequence, in which they are read in order where times are equal."""

_ROOT = 1
"""Number of the row that all others are below: Perfetto sorts rows without one above them by their names."""

_PROCESS = ""
"""Stands for the row of a process itself."""


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
    """Write one packet after the other: a file of this format is a concatenation of such."""
    protos = _protos()
    for packet in packets:
        file.write(protos.Trace(packet=[packet]).SerializeToString())


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
    for members in slices.values():
        members.sort(key=lambda s: (s.start_ns, -s.end_ns))
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
    return round(us * NS_PER_US)


def _flows(slices: dict[tuple[int, int], list[_Slice]], ends: Iterable[dict[str, Any]]) -> dict[int, list[int]]:
    """By identity of a slice's event: numbers of the arrows that leave it, or arrive at it."""
    ordered = {place: sorted((s.fields for s in of), key=itemgetter("ts")) for place, of in slices.items()}
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


class _Tracks:
    """Rows, as the names and places of a Chrome trace's processes and threads say, and behind them counters."""

    def __init__(self, protos: Any, title: str, kinds: dict[str, list[dict[str, Any]]]) -> None:
        self._protos, self._title = protos, title
        self._names: dict[tuple[int, int | str], str] = {}
        self._ranks: dict[tuple[int, int | str], int] = {}
        for note in kinds["M"]:
            place = note["pid"], note["tid"] if note["name"].startswith("thread") else _PROCESS
            if note["name"].endswith("_name"):
                self._names[place] = note["args"]["name"]
            else:
                self._ranks[place] = note["args"]["sort_index"]
        first = 1 + max(self._ranks.values(), default=0)
        self._units = {(event["pid"], event["name"]): next(iter(event["args"])) for event in kinds["C"]}
        by_unit = sorted(self._units, key=lambda place: (self._units[place], place))
        for rank, place in enumerate(by_unit, first):
            self._names[place], self._ranks[place] = place[1], rank
        self._uuids = {place: number for number, place in enumerate(self._names, _ROOT + 1)}

    def of(self, pid: int, row: int | str) -> int:
        """Number of a thread's row, or of a counter's."""
        return self._uuids[pid, row]

    def packets(self) -> Iterator[Any]:
        """Descriptions of all rows, with their order."""
        yield self._described(_ROOT, self._title)
        least = min(self._ranks.values(), default=0)
        for (pid, row), uuid in self._uuids.items():
            packet = self._described(uuid, self._names[pid, row])
            said = packet.track_descriptor
            said.parent_uuid = _ROOT if row == _PROCESS else self._uuids[pid, _PROCESS]
            said.sibling_order_rank = self._ranks[pid, row] - least
            if (pid, row) in self._units:
                said.counter.unit_name = self._units[pid, row]
            yield packet

    def _described(self, uuid: int, name: str) -> Any:
        packet = self._protos.TracePacket(trusted_packet_sequence_id=_SEQUENCE)
        said = packet.track_descriptor
        said.uuid, said.name, said.child_ordering = uuid, name, self._protos.TrackDescriptor.EXPLICIT
        return packet

"""Traces in Perfetto's own format, read back with Perfetto's own classes."""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict
from dataclasses import replace
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpusim_des as gs
from gpusim_des.simulation import Simulation
from gpusim_des.timeline import Timeline
from gpusim_des.views import chrome_trace, perfetto_fields, protobuf, save_perfetto_trace, save_trace

pytest_plugins = ["tests.timelines"]

protos: Any = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")


@gs.kernel
def reverse(t: Any, a: Any) -> Any:
    s = t.shared("s", 128, np.float32)
    first = t.blockIdx.x * 128
    s[t.threadIdx.x] = a[first + t.threadIdx.x]
    yield t.syncthreads()
    a[first + t.threadIdx.x] = s[127 - t.threadIdx.x]


def run(gpu: gs.GPU | str = "tiny") -> Simulation:
    """Two streams with copies and kernels that wait for each other; warps that wait at barriers and for loads."""
    dev = gs.Device(gpu)
    streams = [dev.stream() for _ in range(2)]
    host = dev.pinned(512, np.float32)
    for stream in streams:
        a = dev.malloc(512, np.float32)
        dev.memcpy_async(a, host, stream)
        dev.launch(reverse, 4, 128, a, stream=stream)
        dev.memcpy_async(host, a, stream)
    dev.synchronize()
    return dev.simulate(detail="warp")


def read(path: Path) -> list[Any]:
    """Packets with the texts that their numbers stand for; a number must be told before it is used."""
    content = path.read_bytes()
    packets = protos.Trace.FromString(gzip.decompress(content) if path.suffix == ".gz" else content).packet
    kinds = ("event_categories", "event_names", "debug_annotation_names", "debug_annotation_string_values")
    texts: dict[str, dict[int, Any]] = {kind: {} for kind in kinds}
    for packet in packets:
        for kind in kinds:
            for entry in getattr(packet.interned_data, kind):
                assert entry.iid not in texts[kind]
                texts[kind][entry.iid] = entry.str.decode() if kind == kinds[-1] else entry.name
        if not packet.HasField("track_event"):
            continue  # touching it would make one
        said = packet.track_event
        said.categories.extend(texts["event_categories"][iid] for iid in said.category_iids)
        if said.HasField("name_iid"):
            said.name = texts["event_names"][said.name_iid]
        for note in said.debug_annotations:
            note.name = texts["debug_annotation_names"][note.name_iid]
            if note.HasField("string_value_iid"):
                note.string_value = texts["debug_annotation_string_values"][note.string_value_iid]
    return list(packets)


def events(packets: list[Any]) -> list[Any]:
    return [p for p in packets if p.HasField("track_event")]


def in_chrome_trace(sim: Simulation) -> tuple[Counter[Any], Counter[Any], Counter[Any]]:
    """Slices, values of counters, and arrows from slice to slice, of a Chrome trace."""
    trace = chrome_trace(sim)["traceEvents"]
    threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in trace if e["name"] == "thread_name"}
    on: dict[tuple[int, int], list[tuple[int, Any]]] = defaultdict(list)
    for e in trace:
        if e["ph"] == "X":
            start, thread = round(e["ts"] * 1000), (e["pid"], e["tid"])
            args = {k: ", ".join(v) if isinstance(v, list) else v for k, v in e["args"].items()}
            shown = threads[thread], e["cat"], e["name"], start, start + round(e["dur"] * 1000), tuple(args.items())
            on[thread].append((start, shown))
    ends: dict[int, list[Any]] = defaultdict(list)
    for e in trace:
        if e["ph"] in "sf":
            ends[e["id"]].append([s for start, s in on[e["pid"], e["tid"]] if start <= round(e["ts"] * 1000)][-1])
    values = Counter((e["name"], round(e["ts"] * 1000), *e["args"].items()) for e in trace if e["ph"] == "C")
    return Counter(s for of in on.values() for _, s in of), values, Counter(map(tuple, ends.values()))


def in_packets(packets: list[Any]) -> tuple[Counter[Any], Counter[Any], Counter[Any]]:
    """The same of a Perfetto trace."""
    rows = {p.track_descriptor.uuid: p.track_descriptor for p in packets if p.HasField("track_descriptor")}
    found: dict[int, list[Any]] = defaultdict(list)
    values: Counter[Any] = Counter()
    leaving: dict[int, Any] = {}
    arriving: dict[int, Any] = {}
    slices: Counter[Any] = Counter()
    for p in events(packets):
        said, row = p.track_event, rows[p.track_event.track_uuid]
        if said.type == protos.TrackEvent.TYPE_COUNTER:
            values[row.name, p.timestamp, (row.counter.unit_name, said.double_counter_value)] += 1
        elif said.type == protos.TrackEvent.TYPE_SLICE_BEGIN:
            found[row.uuid].append(p)
        else:
            begin = found[row.uuid].pop()
            name = "kernels" if row.name.startswith("GPU") else row.name
            args = tuple((n.name, value_of(n)) for n in begin.track_event.debug_annotations)
            (category,) = begin.track_event.categories
            shown = name, category, begin.track_event.name, begin.timestamp, p.timestamp, args
            slices[shown] += 1
            leaving |= dict.fromkeys(begin.track_event.flow_ids, shown)
            arriving |= dict.fromkeys(begin.track_event.terminating_flow_ids, shown)
    assert leaving.keys() == arriving.keys()
    return slices, values, Counter((leaving[n], arriving[n]) for n in leaving)


def value_of(note: Any) -> int | float | str:
    kinds = ("int_value", "double_value", "string_value")
    (found,) = (getattr(note, kind) for kind in kinds if note.HasField(kind))
    value: int | float | str = found
    return value


@pytest.mark.parametrize("gpu", ["tiny", "t4"])
@pytest.mark.parametrize("name", ["run.pftrace", "run.perfetto-trace.gz"])
def test_it_holds_what_the_chrome_trace_holds(tmp_path: Path, name: str, gpu: str) -> None:
    sim = run(gs.load_gpu(gpu).slice(sms=2))
    sim.save_trace(tmp_path / name)
    assert [p.name for p in tmp_path.iterdir()] == [name]
    expected, found = in_chrome_trace(sim), in_packets(read(tmp_path / name))
    assert found == expected
    assert all(len(each) > 2 for each in expected)


def test_packets_say_what_they_need_of_those_before(tmp_path: Path) -> None:
    run().save_trace(tmp_path / "run.pftrace")
    first, *others = read(tmp_path / "run.pftrace")
    assert first.sequence_flags == protos.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
    assert {p.sequence_flags for p in others} == {protos.TracePacket.SEQ_NEEDS_INCREMENTAL_STATE}
    assert {p.trusted_packet_sequence_id for p in [first, *others]} == {1}


def test_texts_that_come_again_are_told_once(tmp_path: Path) -> None:
    run().save_trace(tmp_path / "run.pftrace")
    content = (tmp_path / "run.pftrace").read_bytes()
    for said in (b"long_scoreboard", b"sub-partition", b"stream order", b"global_load"):
        assert content.count(said) in (1, 2)  # main stall of the kernels, as well as the name of a state


def test_numbers_of_fields_are_those_of_the_format() -> None:
    found = vars(perfetto_fields).values()
    messages = [m for m in found if isinstance(m, type) and issubclass(m, IntEnum) and m is not IntEnum]
    assert len(messages) == 11
    compared = 0
    for ours in messages:
        where = {"Type": protos.TrackEvent, "SequenceFlags": protos.TracePacket}.get(ours.__name__, protos)
        where = protos.TrackDescriptor if ours.__name__ == "ChildTracksOrdering" else where
        theirs = getattr(where, ours.__name__)
        for member in ours:
            if hasattr(theirs, "DESCRIPTOR") and hasattr(theirs.DESCRIPTOR, "fields_by_name"):
                assert theirs.DESCRIPTOR.fields_by_name[member.name.lower()].number == member.value
            else:
                assert theirs.Value(member.name) == member.value
            compared += 1
    assert compared > 30


@given(
    value=st.integers(-(2**63), 2**63 - 1),
    amount=st.floats(allow_nan=False),
    said=st.text(st.characters(codec="utf-8")),
    big=st.integers(0, 2**64 - 1),
)
def test_bytes_of_messages_are_those_of_the_format(value: int, amount: float, said: str, big: int) -> None:
    fields = perfetto_fields.DebugAnnotation
    content = protobuf.number(fields.INT_VALUE, value) + protobuf.number(fields.NAME_IID, 300)
    note = protos.DebugAnnotation.FromString(content)
    assert (note.int_value, note.name_iid) == (value, 300)
    assert protos.DebugAnnotation.FromString(protobuf.double(fields.DOUBLE_VALUE, amount)).double_value == amount
    row = protos.TrackDescriptor.FromString(protobuf.text(perfetto_fields.TrackDescriptor.NAME, said))
    assert row.name == said
    event = protos.TrackEvent.FromString(protobuf.fixed64(perfetto_fields.TrackEvent.FLOW_IDS, big))
    assert list(event.flow_ids) == [big]


@pytest.mark.parametrize("gpu", ["tiny", "t4", "h100-sxm"])
def test_slices_of_a_track_follow_each_other_in_the_order_in_which_they_are_read(gpu: str, tmp_path: Path) -> None:
    """On real chips some last less than a nanosecond."""
    run(gs.load_gpu(gpu).slice(sms=2)).save_trace(tmp_path / "run.pftrace")
    depth: Counter[int] = Counter()
    last: dict[int, int] = {}
    for packet in events(read(tmp_path / "run.pftrace")):
        track, kind = packet.track_event.track_uuid, packet.track_event.type
        assert packet.timestamp >= last.get(track, 0)
        last[track] = packet.timestamp
        depth[track] += (kind == protos.TrackEvent.TYPE_SLICE_BEGIN) - (kind == protos.TrackEvent.TYPE_SLICE_END)
        assert depth[track] in (0, 1)
    assert set(depth.values()) == {0}


def rows(packets: list[Any], parent: int) -> list[tuple[int, str]]:
    """Number and name of the rows below a row, from the top."""
    below = [p.track_descriptor for p in packets if p.HasField("track_descriptor")]
    below = [d for d in below if d.parent_uuid == parent and d.uuid != parent]
    assert len({d.sibling_order_rank for d in below}) == len(below)
    assert {d.child_ordering for d in below} <= {protos.TrackDescriptor.EXPLICIT}
    return [(d.uuid, d.name) for d in sorted(below, key=lambda d: d.sibling_order_rank)]


def test_rows_stand_in_the_order_of_the_machine(tmp_path: Path) -> None:
    run().save_trace(tmp_path / "run.pftrace")
    packets = read(tmp_path / "run.pftrace")
    ((root, title),) = rows(packets, 0)
    assert title == "tiny (two SMs, round numbers)"
    top = rows(packets, root)
    assert [name for _, name in top] == [
        *("host thread", "stream 1", "stream 2", "copy engine 0", "copy engine 1"),
        *(f"GPU {title}", "SM 0", "SM 1"),
    ]
    inside = {name: [row for _, row in rows(packets, number)] for number, name in top}
    assert inside["SM 0"][:3] == ["block slot 0", "block slot 1", "reverse (0) block 0 warp 0"]
    assert inside[f"GPU {title}"] == [
        "issue slots used %",
        *("device to host GB/s", "host to device GB/s"),
        "resident blocks: reverse",
        *("eligible warps per SM", "resident warps per SM"),
    ]
    gpu = next(number for number, name in top if name.startswith("GPU"))
    kernels = [p for p in events(packets) if p.track_event.track_uuid == gpu and p.track_event.name]
    assert [p.track_event.name for p in kernels] == ["reverse", "reverse"]


def test_times_are_nanoseconds_and_a_click_tells_what_the_chrome_trace_tells(
    three_waves: Timeline, tmp_path: Path
) -> None:
    save_perfetto_trace(three_waves, tmp_path / "run.pftrace")
    found = events(read(tmp_path / "run.pftrace"))
    (kernel,) = (p for p in found if list(p.track_event.categories) == ["kernel"])
    end = next(p for p in found[found.index(kernel) + 1 :] if p.track_event.track_uuid == kernel.track_event.track_uuid)
    assert (kernel.timestamp, end.timestamp) == (5, 50)  # cycles 10 to 100 at 2 GHz
    assert kernel.track_event.name == "add"
    said = {a.name: a for a in kernel.track_event.debug_annotations}
    assert (said["blocks"].int_value, said["main stall"].string_value) == (6, "long_scoreboard")
    assert said["est. achieved occupancy %"].double_value == pytest.approx(100 * 100 / (8 * 90), abs=1e-3)


def test_half_characters_in_names_become_question_marks(three_waves: Timeline, tmp_path: Path) -> None:
    kernel = replace(three_waves.kernels[0], name="k\ud800")
    save_trace(replace(three_waves, kernels=(kernel,)), tmp_path / "run.pftrace")
    save_trace(replace(three_waves, kernels=(kernel,)), tmp_path / "run.json")
    found = {p.track_event.name for p in events(read(tmp_path / "run.pftrace"))}
    names = {e["name"] for e in json.loads((tmp_path / "run.json").read_text(encoding="utf-8"))["traceEvents"]}
    assert {"k?", "k? block 0"} <= found & names


def test_a_cut_trace_says_so(three_waves: Timeline, tmp_path: Path) -> None:
    save_perfetto_trace(three_waves, tmp_path / "run.pftrace", max_events=10)
    found = [p.track_event for p in events(read(tmp_path / "run.pftrace"))]
    assert [e.name for e in found if e.type == protos.TrackEvent.TYPE_INSTANT] == [
        chrome_trace(three_waves, max_events=10)["otherData"]["notice"]
    ]
    assert Counter(e.type for e in found)[protos.TrackEvent.TYPE_SLICE_BEGIN] == 4

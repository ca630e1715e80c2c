"""Traces in Perfetto's own format, read back with Perfetto's own classes."""

from __future__ import annotations

import gzip
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpusim_des as gs
from gpusim_des.simulation import Simulation
from gpusim_des.timeline import Timeline
from gpusim_des.views import chrome_trace, save_perfetto_trace

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
    content = path.read_bytes()
    return list(protos.Trace.FromString(gzip.decompress(content) if path.suffix == ".gz" else content).packet)


def events(packets: list[Any]) -> list[Any]:
    return [p for p in packets if p.HasField("track_event")]


@pytest.mark.parametrize("name", ["run.pftrace", "run.perfetto-trace.gz"])
def test_it_holds_what_the_chrome_trace_holds(tmp_path: Path, name: str) -> None:
    sim = run()
    sim.save_trace(tmp_path / name)
    assert [p.name for p in tmp_path.iterdir()] == [name]
    kinds = Counter(e["ph"] for e in chrome_trace(sim)["traceEvents"])
    found = [p.track_event for p in events(read(tmp_path / name))]
    types = Counter(protos.TrackEvent.Type.Name(e.type) for e in found)
    assert types == {
        "TYPE_SLICE_BEGIN": kinds["X"],
        "TYPE_SLICE_END": kinds["X"],
        "TYPE_COUNTER": kinds["C"],
    }
    leaving = Counter(n for e in found for n in e.flow_ids)
    assert leaving == Counter(n for e in found for n in e.terminating_flow_ids)
    assert len(leaving) == kinds["s"] > 2


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
    (kernel,) = [p for p in found if list(p.track_event.categories) == ["kernel"]]
    end = next(p for p in found[found.index(kernel) + 1 :] if p.track_event.track_uuid == kernel.track_event.track_uuid)
    assert (kernel.timestamp, end.timestamp) == (5, 50)  # cycles 10 to 100 at 2 GHz
    assert kernel.track_event.name == "add"
    said = {a.name: a for a in kernel.track_event.debug_annotations}
    assert (said["blocks"].int_value, said["main stall"].string_value) == (6, "long_scoreboard")
    assert said["est. achieved occupancy %"].double_value == pytest.approx(100 * 100 / (8 * 90), abs=1e-3)


def test_a_cut_trace_says_so(three_waves: Timeline, tmp_path: Path) -> None:
    save_perfetto_trace(three_waves, tmp_path / "run.pftrace", max_events=10)
    found = [p.track_event for p in events(read(tmp_path / "run.pftrace"))]
    assert [e.name for e in found if e.type == protos.TrackEvent.TYPE_INSTANT] == [
        "trace cut: the earliest 10 of 79 events; raise max_events to see the rest"
    ]


def test_without_the_package_the_remedy_is_named_and_nothing_is_written(
    three_waves: Timeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "perfetto.protos.perfetto.trace", None)
    with pytest.raises(gs.UsageError, match=r"pip install 'gpusim-des\[perfetto\]', or take a name ending in .json"):
        save_perfetto_trace(three_waves, tmp_path / "run.pftrace")
    assert list(tmp_path.iterdir()) == []

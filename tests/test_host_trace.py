"""The host's side of a Chrome trace: rows, what a click shows, and arrows."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusim_des.timeline import HostSpan, Operation, Timeline
from gpusim_des.views import chrome_trace
from tests.test_chrome_trace import Event, assert_no_overlap, exact, names, slices

pytest_plugins = ["tests.timelines"]

US = 10**9
HOST, STREAMS, ENGINES = 4, 5, 6
"""Processes of a GPU with two SMs: those are 1 and 2, the GPU is 3."""


def operation(number: int, kind: str, name: str, stream: int, start: int, end: int, **more: Any) -> Operation:
    engine = {"h2d": "copy engine 0", "d2h": "copy engine 1", "kernel": "compute"}[kind]
    return replace(Operation(number, kind, name, stream, 0, start * US, end * US, engine=engine), **more)


@pytest.fixture
def pipeline(two_kernels: Timeline) -> Timeline:
    """A copy, a kernel behind it, and a copy in another stream that waits for the engine."""
    engine: dict[str, Any] = {"wait_reason": "copy engine", "waited_for": "h2d a", "last_wait_fs": 3 * US}
    return replace(
        two_kernels,
        operations=(
            operation(0, "h2d", "h2d a", 1, 2, 12, nbytes=10_000),
            operation(1, "kernel", "add", 1, 13, 20, wait_reason="stream order", waited_for="h2d a", kernel=0),
            operation(2, "h2d", "h2d a", 2, 12, 32, nbytes=10_000, dram_bytes=4_096, pageable=True, line=7, **engine),
            operation(3, "d2h", "d2h c", 1, 20, 25, nbytes=500, wait_reason="stream order", waited_for="add"),
        ),
        host=(HostSpan("memcpy h2d a", 0, US, line=6), HostSpan("synchronize device", US, 33 * US, waits=True)),
        stream_names={1: "stream 1", 2: "copies"},
    )


def flows(trace: dict[str, Any]) -> dict[int, tuple[Event, Event]]:
    """Start and finish of every arrow."""
    found: dict[int, list[Event]] = defaultdict(list)
    for event in exact(trace):
        if event["ph"] in "sf":
            found[event["id"]].append(event)
    for pair in found.values():
        assert [e["ph"] for e in pair] == ["s", "f"]
        assert pair[1]["bp"] == "e"
    return {number: (pair[0], pair[1]) for number, pair in found.items()}


def test_host_streams_and_engines_are_processes_above_the_gpu(pipeline: Timeline) -> None:
    events = exact(chrome_trace(pipeline))
    processes = names(events, "process_name")
    assert {pid: processes[pid, 0] for pid in (HOST, STREAMS, ENGINES)} == {
        HOST: "host",
        STREAMS: "streams",
        ENGINES: "copy engines",
    }
    order = {e["pid"]: e["args"]["sort_index"] for e in events if e["name"] == "process_sort_index"}
    assert sorted(order, key=lambda pid: order[pid]) == [HOST, STREAMS, ENGINES, 3, 1, 2]
    threads = {key: name for key, name in names(events, "thread_name").items() if key[0] >= HOST}
    assert threads == {
        (HOST, 1): "host thread",
        (STREAMS, 1): "stream 1",
        (STREAMS, 2): "copies",
        (ENGINES, 1): "copy engine 0",
        (ENGINES, 2): "copy engine 1",
    }
    assert_no_overlap(events)


def test_a_click_tells_size_rate_and_wait(pipeline: Timeline) -> None:
    events = exact(chrome_trace(pipeline))
    (copy,) = (e for e in slices(events, "operation") if e["ts"] == 12)
    assert (copy["name"], copy["ts"], copy["dur"], copy["pid"], copy["tid"]) == ("h2d a", 12, 20, STREAMS, 2)
    assert copy["args"] == {
        "operation": 2,
        "stream": "copies",
        "bytes": 10_000,
        "DRAM bytes": 4_096,
        "GB/s": Decimal("0.5"),
        "host memory": "pageable",
        "issued at µs": 0,
        "wait reason": "copy engine",
        "waited for": "h2d a",
        "waited µs": 9,
        "line": 7,
    }
    on_engine = [e for e in slices(events, "copy") if e["ts"] == 12]
    assert [(e["pid"], e["tid"], e["dur"], e["args"]) for e in on_engine] == [(ENGINES, 1, 20, copy["args"])]
    call, wait = slices(events, "host")
    assert (call["args"], wait["args"]) == ({"blocked": "no", "line": 6}, {"blocked": "yes"})
    assert (wait["name"], wait["ts"], wait["dur"]) == ("synchronize device", 1, 32)


def test_arrows_lead_from_what_ended_a_wait(pipeline: Timeline) -> None:
    found = flows(chrome_trace(pipeline))
    ends = {n: (s["tid"], s["ts"], f["tid"], f["ts"], s["name"]) for n, (s, f) in found.items()}
    assert ends == {
        1: (1, Decimal("11.999"), 1, 13, "stream order"),
        2: (1, Decimal("11.999"), 2, 12, "copy engine"),
        3: (1, Decimal("19.999"), 1, 20, "stream order"),
    }
    assert {e["pid"] for pair in found.values() for e in pair} == {STREAMS}


def test_of_chunks_with_one_name_the_last_one_before_is_meant() -> None:
    """In a hardware queue a start ends the wait; in a stream only its own operations count."""
    queue: dict[str, Any] = {"wait_reason": "hardware queue", "waited_for": "d2h c"}
    order: dict[str, Any] = {"wait_reason": "stream order", "waited_for": "h2d a"}
    operations = (
        operation(0, "h2d", "h2d a", 1, 0, 10),
        operation(1, "h2d", "h2d a", 2, 10, 20),
        operation(2, "kernel", "add", 1, 20, 30, **order),
        operation(3, "d2h", "d2h c", 3, 30, 60),
        operation(4, "d2h", "d2h c", 4, 30, 60, **queue),
        operation(5, "d2h", "d2h c", 5, 60, 70, wait_reason="event", waited_for="graph ends"),
    )
    found = flows(chrome_trace(Timeline("tiny", 2, 500_000, operations=operations)))
    assert {n: (s["tid"], s["ts"]) for n, (s, _) in found.items()} == {2: (1, Decimal("9.999")), 4: (3, 30)}


def test_nodes_of_a_graph_that_run_at_once_get_threads_of_their_own() -> None:
    starts = ((1, 0), (1, 2), (1, 4), (2, 0))
    operations = tuple(operation(n, "kernel", "add", stream, start, 10) for n, (stream, start) in enumerate(starts))
    events = exact(chrome_trace(Timeline("tiny", 2, 500_000, operations=operations)))
    threads = names(events, "thread_name")
    assert [threads[STREAMS, tid] for tid in (1, 2, 3, 4)] == [
        *("stream 1", "stream 1, concurrent 1", "stream 1, concurrent 2", "stream 2"),
    ]
    assert_no_overlap(events)


@st.composite
def programs(draw: st.DrawFn) -> Timeline:
    """Operations of any start and length that wait for names at will."""
    kinds = st.sampled_from(["h2d", "d2h", "kernel"])
    reasons = st.sampled_from(["none", "stream order", "copy engine", "hardware queue", "event"])
    operations = []
    for number in range(draw(st.integers(1, 15))):
        kind, start = draw(kinds), draw(st.integers(0, 30))
        end = start + draw(st.integers(0, 9))
        wait, whom = draw(reasons), draw(st.sampled_from(["", "h2d a", "d2h a", "kernel a"]))
        stream = draw(st.integers(0, 3))
        operations.append(operation(number, kind, f"{kind} a", stream, start, end, wait_reason=wait, waited_for=whom))
    return Timeline("tiny", 2, 500_000, operations=tuple(operations))


@given(timeline=programs(), max_events=st.integers(1, 30))
def test_arrows_begin_and_end_inside_of_slices(timeline: Timeline, max_events: int) -> None:
    trace = chrome_trace(timeline, max_events=max_events)
    events = exact(trace)
    assert_no_overlap(events)
    shown = slices(events, "operation")
    for source, target in flows(trace).values():
        assert source["ts"] <= target["ts"]
        for end in (source, target):
            there = [e for e in shown if (e["pid"], e["tid"]) == (end["pid"], end["tid"])]
            assert any(e["ts"] <= end["ts"] <= e["ts"] + e["dur"] for e in there)
    assert json.dumps(trace)


def test_thousands_of_operations_are_fast() -> None:
    more: dict[str, Any] = {"wait_reason": "copy engine", "waited_for": "h2d a"}
    many = tuple(operation(n, "h2d", "h2d a", n % 4, n, n + 1, **more) for n in range(20_000))
    began = time.perf_counter()
    found = flows(chrome_trace(Timeline("tiny", 2, 500_000, operations=many)))
    assert time.perf_counter() - began < 10  # about a second; a loaded machine may be slow
    assert len(found) == 19_999

"""Graphs: what a capture writes down, what a launch computes, and what is illegal during a capture."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpusim_des as gs
from gpusim_des.trace import LaunchGraph, LaunchKernel
from tests.host_programs import add, increment, readable
from tests.kernels import scale


@pytest.fixture
def dev() -> gs.Device:
    return gs.Device("tiny")


class Diamond:
    """``a`` is copied up; left and right branch compute ``b`` and ``c`` of it; their sum ``d`` is copied down."""

    def __init__(self, dev: gs.Device) -> None:
        self.stream, self.side = dev.stream(name="main"), dev.stream(name="side")
        self.host, self.out = dev.pinned(64), dev.pinned(64)
        self.a, self.b, self.c, self.d = (dev.malloc(64, name=name) for name in "abcd")
        fork, join = dev.event("fork"), dev.event("join")
        with dev.capture(self.stream, "diamond") as self.graph:
            dev.memcpy_async(self.a, self.host, self.stream)
            fork.record(self.stream)
            self.side.wait_event(fork)
            dev.memcpy_async(self.b, self.a, self.stream)
            self.left = dev.launch(scale, 2, 32, self.b, 64, stream=self.stream)
            dev.memset_async(self.c, 0, self.side)
            dev.launch(increment, 1, 64, self.c, stream=self.side)
            self.side.record(join)
            self.stream.wait_event(join)
            dev.launch(add, 1, 64, self.b, self.c, self.d, stream=self.stream)
            dev.memcpy_async(self.out, self.d, self.stream)


NODES = (
    "h2d* a 256 after [], d2d b 256 after [0], launch scale after [1], memset c 256 after [0], "
    "launch increment after [3], launch add after [2, 4], d2h* d 256 after [5]"
)


def test_a_diamond(dev: gs.Device) -> None:
    diamond = Diamond(dev)
    assert [node.after for node in diamond.graph.nodes] == [(), (0,), (1,), (0,), (3,), (2, 4), (5,)]
    assert repr(diamond.graph) == "<Graph 'diamond', 7 nodes, complete>"
    assert dev.program.commands == []
    assert dev.launches == []
    assert np.isnan(dev.to_host(diamond.d)).all()  # nothing has run
    dev.forget_launches()
    for k in range(1, 4):
        diamond.host[:] = k
        done = diamond.graph.launch(diamond.stream)
        diamond.stream.synchronize()
        assert diamond.out.tolist() == [2 * k + 1] * 64
        assert [launch.name for launch in done] == ["scale", "increment", "add"]
        assert dev.launches[-3:] == done
    assert readable(dev) == [f"1: diamond [{NODES}]", "host: synchronize stream 1"] * 3
    assert len(dev.simulate().kernels) == 9
    assert dev.warnings == ()


def test_every_launch_has_traces_of_its_own(dev: gs.Device) -> None:
    diamond = Diamond(dev)
    first = diamond.graph.launch(diamond.stream)
    diamond.stream.synchronize()
    second = diamond.graph.launch(diamond.side)
    launches = [dev.program.commands[0], dev.program.commands[2]]
    for command, done in zip(launches, (first, second), strict=True):
        assert isinstance(command, LaunchGraph)
        kernels = [node.command for node in command.nodes if isinstance(node.command, LaunchKernel)]
        assert [kernel.trace for kernel in kernels] == [launch.trace for launch in done]
        assert {node.command.stream for node in command.nodes} == {command.stream}
    assert [command.stream for command in launches] == [1, 2]
    assert first[0].trace is not second[0].trace
    assert first[0].counters.global_load_requests == 2


def test_a_captured_launch_is_empty(dev: gs.Device) -> None:
    left = Diamond(dev).left
    assert left.captured
    assert (left.name, left.config.blocks, left.counters) == ("scale", 2, gs.Counters())
    assert not dev.launch(scale, 1, 32, dev.to_device(np.ones(4, np.float32)), 4).captured


def test_other_streams_run_during_a_capture(dev: gs.Device) -> None:
    stream, other, event, a = dev.stream(), dev.stream(), dev.event(), dev.malloc(64, name="a")
    with dev.capture(stream) as graph:
        dev.memset_async(a, 0, other)
        event.record(other)
        dev.stream().wait_event(event)
        dev.host_work(1e-6)
        b = dev.malloc(64, name="b")
        dev.memset_async(b, 0, stream)
    assert [node.name for node in graph.nodes] == ["memset 'b'"]
    assert readable(dev) == ["2: memset a 256", "2: record 0", "3: wait 0", "host: host work 1000000000"]


def test_an_empty_graph(dev: gs.Device) -> None:
    with dev.capture(dev.stream()) as graph:
        pass
    assert dev.instantiate(graph) is graph
    assert graph.launch() == []
    assert readable(dev) == ["0: graph 1 []"]


def test_the_default_stream_per_thread_is_captured() -> None:
    dev = gs.Device("tiny", default_stream="per-thread")
    a = dev.malloc(4)
    with dev.capture(dev.default_stream) as graph:
        dev.memset(a, 0)
        dev.memset_async(a, 255)
    assert len(graph.nodes) == 2
    graph.launch()
    assert dev.to_host(a).view(np.uint8).tolist() == [255] * 16


def test_nodes_read_what_arrays_hold_at_the_launch(dev: gs.Device) -> None:
    stream, a = dev.stream(), dev.to_device(np.zeros(64, np.float32))
    with dev.capture(stream) as graph:
        dev.launch(increment, 1, 64, a, stream=stream)
    for _ in range(5):
        graph.launch(stream)
    dev.launch(increment, 1, 64, a, stream=stream)
    assert dev.to_host(a).tolist() == [6] * 64


# Refused --------------------------------------------------------------------------------------------------------------

WAITS = "it makes the host wait, and nothing of a capture runs"
LEGACY = "goes to the legacy default stream during the capture of graph 'g': that stream waits for all others"


class Capturing:
    def __init__(self, dev: gs.Device) -> None:
        self.stream, self.other, self.event = dev.stream(name="s"), dev.stream(name="other"), dev.event("e")
        self.event.record(self.other)
        self.a = dev.malloc(64, name="a")
        with dev.capture(dev.stream()) as self.graph:
            pass


ILLEGAL: dict[str, tuple[Any, str]] = {
    "stream": (lambda d, c: c.stream.synchronize(), f"stream.synchronize during the capture of graph 'g': {WAITS}"),
    "other stream": (lambda d, c: c.other.synchronize(), f"stream.synchronize during the capture .*{WAITS}"),
    "event": (lambda d, c: c.event.synchronize(), f"event.synchronize during the capture of graph 'g': {WAITS}"),
    "device": (lambda d, c: d.synchronize(), f"dev.synchronize during the capture of graph 'g': {WAITS}; call it bef"),
    "to_device": (lambda d, c: d.to_device([1.0]), f"dev.to_device during the capture of graph 'g': {WAITS}"),
    "to_host": (lambda d, c: d.to_host(c.a), f"dev.to_host during the capture of graph 'g': {WAITS}"),
    "memcpy": (
        lambda d, c: d.memcpy(c.a, d.pinned(64)),
        rf"dev.memcpy during the capture of graph 'g': {WAITS}; dev.memcpy_async\(dst, src, stream\) does not",
    ),
    "free": (lambda d, c: d.free(c.a), f"dev.free during the capture of graph 'g': {WAITS}"),
    "forget": (lambda d, c: d.forget_launches(), "dev.forget_launches during the capture of graph 'g'"),
    "memset": (lambda d, c: d.memset(c.a, 0), f"memset 'a' {LEGACY}, .* name a captured stream in the call, .* 's'"),
    "launch": (lambda d, c: d.launch(increment, 1, 64, c.a), f"kernel 'increment' {LEGACY}"),
    "copy": (lambda d, c: d.memcpy_async(c.a, d.pinned(64)), f"copy h2d 'a' {LEGACY}"),
    "record": (lambda d, c: d.event("x").record(), f"event.record of event 'x' {LEGACY}"),
    "wait": (lambda d, c: d.default_stream.wait_event(c.event), f"stream.wait_event of event 'e' {LEGACY}"),
    "graph": (lambda d, c: c.graph.launch(), f"graph 'graph 1' {LEGACY}"),
    "graph in a graph": (
        lambda d, c: c.graph.launch(c.stream),
        "graph 'graph 1' is launched into stream 's', which is being captured: a graph inside of a graph is not simul",
    ),
    "pageable": (
        lambda d, c: d.memcpy_async(c.a, np.zeros(64, np.float32), c.stream),
        r"copy h2d 'a' in the capture of graph 'g': its host array is pageable, .*; allocate it with dev.pinned\(",
    ),
    "outside": (
        lambda d, c: c.stream.wait_event(c.event),
        "stream 's' is captured into graph 'g' and waits for event 'e', which was recorded outside of the capture",
    ),
    "destroy": (lambda d, c: c.stream.destroy(), "stream 's' is captured into graph 'g': destroy it after the capture"),
    "nested": (
        lambda d, c: d.capture(c.other).__enter__(),
        "capture of stream 'other' inside of the capture of graph 'g': captures do not nest",
    ),
}


@pytest.mark.parametrize("name", ILLEGAL)
def test_illegal_during_a_capture(dev: gs.Device, name: str) -> None:
    action, message = ILLEGAL[name]
    parts = Capturing(dev)
    before = len(dev.program.commands)
    with dev.capture(parts.stream, "g") as graph, pytest.raises(gs.StreamError, match=message):
        action(dev, parts)
    assert graph.nodes == []
    assert len(dev.program.commands) == before
    assert np.isnan(dev.to_host(parts.a)).all()


def test_the_legacy_default_stream_is_not_captured(dev: gs.Device) -> None:
    with (
        pytest.raises(gs.StreamError, match=r"capture of the legacy default stream: .* default_stream='per-thread'"),
        dev.capture(dev.default_stream),
    ):
        pass
    dev.synchronize()  # no capture is in progress


def test_a_stream_that_does_not_come_back(dev: gs.Device) -> None:
    stream, side, fork, a = dev.stream(name="s"), dev.stream(name="side"), dev.event(), dev.malloc(64, name="a")
    message = (
        r"capture of graph 'graph 1': stream 'side' joined it, but at its end stream 's' does not wait for memset 'a' "
        r"\(line \d+ of test_graphs.py\) in 'side'; record an event after it, and let 's' wait"
    )
    capture = dev.capture(stream)

    def leave_open() -> None:
        with capture:
            fork.record(stream)
            side.wait_event(fork)
            dev.memset_async(a, 0, side)

    with pytest.raises(gs.StreamError, match=message):
        leave_open()
    graph = capture.graph
    with pytest.raises(gs.StreamError, match=r"the capture of graph 'graph 1' failed: .* capture it again"):
        graph.launch()
    with pytest.raises(gs.StreamError, match="event 'event 1' was last recorded in the capture of graph 'graph 1': "):
        stream.wait_event(fork)
    with pytest.raises(gs.StreamError, match="such a record orders the graph and never happens; record it again"):
        fork.synchronize()
    with pytest.raises(gs.StreamError, match="was last recorded in the capture"):
        fork.elapsed(fork)
    dev.memset_async(a, 0, side)
    assert readable(dev) == ["2: memset a 256"]


def test_a_side_without_work_need_not_come_back(dev: gs.Device) -> None:
    stream, side, fork, a = dev.stream(), dev.stream(), dev.event(), dev.malloc(64, name="a")
    with dev.capture(stream) as graph:
        dev.memset_async(a, 0, stream)
        fork.record(stream)
        side.wait_event(fork)
    graph.launch(side)


def test_a_capture_is_used_once(dev: gs.Device) -> None:
    capture = dev.capture(dev.stream())
    with capture:
        pass
    with pytest.raises(gs.StreamError, match=r"the capture of graph 'graph 1' is over: begin another, dev.capture\("):
        capture.__enter__()
    dev.synchronize()


def test_a_capture_that_fails_is_over(dev: gs.Device) -> None:
    stream, a = dev.stream(), dev.malloc(64, name="a")
    capture = dev.capture(stream)

    def fail() -> None:
        with capture:
            dev.memset_async(a, 0, stream)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    graph = capture.graph
    assert repr(graph) == "<Graph 'graph 1', 1 node, abandoned>"
    with pytest.raises(gs.StreamError, match="failed"):
        dev.instantiate(graph)
    dev.memset_async(a, 0, stream)
    assert readable(dev) == ["1: memset a 256"]


def test_graphs_that_cannot_be_launched(dev: gs.Device) -> None:
    stream, a, b = dev.stream(), dev.malloc(64, name="a"), dev.malloc(64, name="b")
    with dev.capture(stream) as graph:
        dev.memset_async(b, 0, stream)
        dev.launch(increment, 1, 64, a, stream=stream)
        with pytest.raises(gs.StreamError, match="graph 'graph 1' is still being captured: launch it after the block"):
            graph.launch(dev.stream())
    with pytest.raises(gs.StreamError, match="graph 'graph 1' belongs to another device"):
        gs.Device("tiny").instantiate(graph)
    with pytest.raises(gs.StreamError, match="instantiate of a Stream: give the graph of a capture"):
        dev.instantiate(stream)  # type: ignore[arg-type]
    dev.free(a)
    with pytest.raises(gs.DeviceMemoryError, match="kernel 'increment' of graph 'graph 1' uses array 'a', which was f"):
        graph.launch(stream)
    assert np.isnan(dev.to_host(b)).all()  # no node has run


def test_what_is_wrong_is_said_during_the_capture(dev: gs.Device) -> None:
    stream, a = dev.stream(), dev.malloc(64)
    with dev.capture(stream) as graph:
        with pytest.raises(gs.LaunchError, match=r"grid\.x = 0"):
            dev.launch(increment, 0, 64, a, stream=stream)
        with pytest.raises(gs.DeviceMemoryError, match="memset value = 999"):
            dev.memset_async(a, 999, stream)
    assert graph.nodes == []

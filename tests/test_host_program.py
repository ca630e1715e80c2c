"""What a device writes down of a host program, command by command, and what its results are."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import gpusim_des as gs
from gpusim_des.trace import CopyMemory, HostWork, LaunchKernel, SetMemory, WaitEvent
from tests.host_programs import add, increment, readable
from tests.kernels import kernel_of


@pytest.fixture
def dev() -> gs.Device:
    return gs.Device("tiny")


ONES = np.ones(64, np.float32)


def line() -> int:
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


def test_calls_without_a_stream(dev: gs.Device) -> None:
    a, b = dev.to_device(ONES, "a"), dev.malloc(64, name="b")
    dev.memset(b, 0)
    dev.memcpy(b, a, nbytes=128)
    dev.launch(increment, 1, 64, b)
    dev.memcpy(b, ONES, nbytes=4)
    assert dev.to_host(b).tolist() == [1.0] + [2.0] * 31 + [1.0] * 32
    assert readable(dev) == [
        "0: h2d! a 256",
        "0: memset b 256",
        "0: d2d b 128",
        "0: launch increment",
        "0: h2d! b 4",
        "0: d2h! b 256",
    ]


def test_calls_with_streams(dev: gs.Device) -> None:
    first, second = dev.stream(), dev.stream(priority=-1, name="second", blocking=False)
    host, back = dev.pinned(64), dev.pinned(64)
    host[:] = 1
    a, b, c = (dev.malloc(64, name=name) for name in "abc")
    ready = dev.event()
    dev.memcpy_async(a, host, first)
    dev.memset_async(b, 0, second)
    ready.record(first)
    second.wait_event(ready)
    dev.launch(add, 1, 64, a, b, c, stream=second)
    second.record(ready)
    dev.host_work(1e-6, "prepare")
    dev.memcpy_async(back, c, second, nbytes=128)
    dev.memcpy_async(b, c, stream=second, kind="d2d")
    ready.synchronize()
    second.synchronize()
    dev.synchronize()
    assert readable(dev) == [
        "1: h2d* a 256",
        "2: memset b 256",
        "1: record 0",
        "2: wait 0",
        "2: launch add",
        "2: record 1",
        "host: prepare 1000000000",
        "2: d2h* c 128",
        "2: d2d b 256",
        "host: synchronize event 1",
        "host: synchronize stream 2",
        "host: synchronize device",
    ]
    assert back.tolist() == [1.0] * 32 + [0.0] * 32
    assert [(s.number, s.name, s.priority, s.blocking) for s in dev.program.streams] == [
        (0, "default", 0, True),
        (1, "stream 1", 0, True),
        (2, "second", -1, False),
    ]
    assert dev.warnings == ()
    assert dev.stream_races() == []


def test_commands_know_line_address_and_trace(dev: gs.Device) -> None:
    stream, event = dev.stream(), dev.event()
    a = dev.malloc(64, name="a")
    start = line()
    dev.memset_async(a, 0, stream)
    dev.memcpy_async(dev.pinned(64), a, stream)
    launch = dev.launch(increment, 1, 64, a, stream=stream)
    event.record(stream)
    stream.wait_event(event)
    event.synchronize()
    stream.synchronize()
    dev.synchronize()
    dev.host_work(0)
    dev.to_host(a)
    dev.to_device(ONES)
    commands = dev.program.commands
    assert [command.line for command in commands] == list(range(start + 1, start + 12))
    assert isinstance(commands[0], SetMemory)
    assert commands[0].address == a.address
    assert isinstance(commands[1], CopyMemory)
    assert commands[1].address == a.address
    assert isinstance(commands[2], LaunchKernel)
    assert commands[2].trace is launch.trace
    assert dev.launches == [launch]


def test_asynchronous_copies_of_pageable_memory_are_written_down_as_asked(dev: gs.Device) -> None:
    stream, a = dev.stream(), dev.malloc(64, name="a")
    with pytest.warns(gs.PageableCopyWarning, match="not asynchronous"):
        dev.memcpy_async(a, ONES, stream)
    command = dev.program.commands[0]
    assert isinstance(command, CopyMemory)
    assert (command.blocking, command.pinned) == (False, False)
    assert not dev._host.order.pending()  # the host has waited in any case


def test_copies_between_devices_belong_to_the_one_that_is_asked(dev: gs.Device) -> None:
    other = gs.Device("tiny")
    a, b = dev.to_device(ONES, "a"), other.malloc(64, name="b")
    dev.memcpy(b, a)
    other.memcpy_async(b, a, other.stream())
    assert readable(dev, 1) == ["0: d2d a 256"]
    assert readable(other) == ["1: d2d b 256"]
    assert dev.copy_report().p2p_copies == other.copy_report().p2p_copies == 1


def test_nothing_is_copied_but_written_down(dev: gs.Device) -> None:
    a = dev.malloc(64, name="a")
    dev.memcpy(a, ONES, nbytes=0)
    dev.memset(a, 0, nbytes=0)
    assert readable(dev) == ["0: h2d! a 0", "0: memset a 0"]


def test_free_waits_for_pending_work_only(dev: gs.Device) -> None:
    a, b, c = dev.malloc(64, name="a"), dev.malloc(64), dev.malloc(64)
    dev.free(b)
    dev.memset_async(a, 0, dev.stream())
    dev.free(c)
    dev.free(a)
    assert readable(dev) == ["1: memset a 256", "host: synchronize device"]


def test_what_fails_is_not_written_down(dev: gs.Device) -> None:
    stream, a = dev.stream(), dev.malloc(64, name="a")
    dev.free(dev.malloc(1))

    def fail(blk: gs.Block) -> None:
        blk.load(a, blk.tx)

    with pytest.raises(gs.BoundsError):
        dev.launch(kernel_of(fail), 1, 128, stream=stream)
    with pytest.raises(gs.DeviceMemoryError, match="from 12 to 256 bytes"):
        dev.memcpy_async(a, ONES[:3], stream)
    with pytest.raises(gs.DeviceMemoryError, match="memset value = 999: it sets bytes"):
        dev.memset_async(a, 999, stream)
    gone = dev.malloc(64, name="gone")
    dev.free(gone)
    with pytest.raises(gs.DeviceMemoryError, match="array 'gone' was freed"):
        dev.memcpy_async(gone, dev.pinned(64), stream)
    with pytest.raises(gs.DeviceMemoryError, match="array 'gone' was freed"):
        dev.memset_async(gone, 0, stream)
    assert dev.program.commands == []
    assert dev.launches == []
    assert not dev._host.order.pending()


def test_forgotten_launches_begin_a_new_program(dev: gs.Device) -> None:
    stream, old, a = dev.stream(name="s"), dev.event(), dev.malloc(64, name="a")
    dev.memset_async(a, 0, stream)
    old.record(stream)
    before = dev.program
    dev.forget_launches()
    assert dev.program is not before
    assert len(before.commands) == 2
    other = dev.stream()
    other.wait_event(old)  # it has happened: nothing to wait for
    old.synchronize()
    dev.launch(increment, 1, 64, a, stream=other)  # after everything before, so this is no race
    old.record(other)
    stream.wait_event(old)
    assert readable(dev) == ["2: launch increment", "2: record 1", "1: wait 1"]
    assert [s.name for s in dev.program.streams] == ["default", "s", "stream 2"]
    assert dev.stream_races() == []


def test_simulate_times_the_kernels_of_all_streams(dev: gs.Device) -> None:
    a, b = dev.to_device(ONES), dev.to_device(ONES)
    dev.launch(increment, 1, 64, a, stream=dev.stream())
    dev.launch(increment, 1, 64, b, stream=dev.stream())
    assert len(dev.simulate().kernels) == 2


@pytest.mark.parametrize(("which", "per_thread"), [("legacy", False), ("per-thread", True)])
def test_default_streams(which: Any, per_thread: bool) -> None:
    dev = gs.Device("tiny", default_stream=which)
    assert dev.program.per_thread_default is per_thread
    dev.forget_launches()
    assert dev.program.per_thread_default is per_thread
    assert dev.default_stream.number == 0
    dev.default_stream.synchronize()
    assert readable(dev) == ["host: synchronize stream 0"]


def test_an_unknown_default_stream() -> None:
    with pytest.raises(gs.StreamError, match="default_stream = 'new': possible are 'legacy' and 'per-thread'"):
        gs.Device("tiny", default_stream="new")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("seconds", "message"),
    [
        (-1e-6, "seconds = -1e-06: must be finite and at least 0"),
        (float("nan"), "seconds = nan: must be finite"),
        (float("inf"), "seconds = inf: must be finite"),
        ("1 ms", "seconds = '1 ms' is a str: give a number"),
        (True, "seconds = True is a bool: give a number"),
    ],
)
def test_host_work_that_is_none(dev: gs.Device, seconds: Any, message: str) -> None:
    with pytest.raises(gs.StreamError, match=message):
        dev.host_work(seconds)
    assert dev.program.commands == []


def test_host_work_in_femtoseconds(dev: gs.Device) -> None:
    dev.host_work(np.float64(1.5))
    dev.host_work(2, "think")
    work = [command for command in dev.program.commands if isinstance(command, HostWork)]
    assert [(w.femtoseconds, w.name) for w in work] == [(1_500_000_000_000_000, "host work"), (2 * 10**15, "think")]


CALLS: dict[str, Any] = {
    "dev.stream": lambda d, _: d.stream(),
    "dev.event": lambda d, _: d.event(),
    "dev.synchronize": lambda d, _: d.synchronize(),
    "dev.host_work": lambda d, _: d.host_work(1),
    "dev.memcpy_async": lambda d, p: d.memcpy_async(p.a, p.a),
    "dev.memset_async": lambda d, p: d.memset_async(p.a, 0),
    "dev.pinned": lambda d, _: d.pinned(3),
    "dev.capture": lambda d, p: d.capture(p.stream),
    "dev.instantiate": lambda d, p: d.instantiate(p.graph),
    "dev.forget_launches": lambda d, _: d.forget_launches(),
    "stream.synchronize": lambda _, p: p.stream.synchronize(),
    "stream.wait_event": lambda _, p: p.stream.wait_event(p.event),
    "stream.destroy": lambda _, p: p.stream.destroy(),
    "event.record": lambda _, p: p.event.record(),
    "event.synchronize": lambda _, p: p.event.synchronize(),
    "graph.launch": lambda _, p: p.graph.launch(),
}


class Parts:
    def __init__(self, dev: gs.Device) -> None:
        self.a, self.stream, self.event = dev.malloc(4), dev.stream(), dev.event()
        self.event.record(self.stream)
        with dev.capture(self.stream) as self.graph:
            pass


@pytest.mark.parametrize("call", CALLS)
def test_kernels_call_nothing_of_the_host(dev: gs.Device, call: str) -> None:
    parts = Parts(dev)
    message = rf"kernel 'k' calls {call} in line \d+ of test_host_program.py: that is for the host"
    with pytest.raises(gs.KernelError, match=message):
        dev.launch(kernel_of(lambda _: CALLS[call](dev, parts)), 1, 32)


def test_waits_refer_to_the_last_record_at_the_time_of_the_call(dev: gs.Device) -> None:
    one, two, event = dev.stream(), dev.stream(), dev.event()
    event.record(one)
    two.wait_event(event)
    event.record(one)
    two.wait_event(event)
    waits = [command.event for command in dev.program.commands if isinstance(command, WaitEvent)]
    assert waits == [0, 1]
    assert event.number == 1

"""Rules of streams and events: what is refused, what is warned of, what time passed between events."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpusim_des as gs


@pytest.fixture
def dev() -> gs.Device:
    return gs.Device("tiny")


def test_names_and_numbers(dev: gs.Device) -> None:
    copies, nameless = dev.stream(priority=-2, name="copies"), dev.stream()
    assert repr(copies) == "<Stream 'copies' number=1 priority=-2>"
    assert (nameless.name, nameless.priority, nameless.blocking) == ("stream 2", 0, True)
    assert repr(dev.default_stream) == "<Stream 'default' number=0 priority=0>"
    event = dev.event("done")
    assert repr(event) == "<Event 'done', never recorded>"
    assert event.number is None
    event.record(copies)
    assert repr(event) == "<Event 'done'>"
    assert dev.event().name == "event 2"


@pytest.mark.parametrize("priority", [1.5, "high", None, True])
def test_priorities_that_are_none(dev: gs.Device, priority: Any) -> None:
    with pytest.raises(gs.StreamError, match=r"priority = .*: a whole number, lower ones come first"):
        dev.stream(priority)


def uses(dev: gs.Device, stream: Any) -> list[Any]:
    a, host, event = dev.malloc(4), dev.pinned(4), dev.event()
    with dev.capture(dev.stream()) as graph:
        pass
    return [
        lambda: dev.memset_async(a, 0, stream),
        lambda: dev.memcpy_async(a, host, stream),
        lambda: dev.launch(gs.block_kernel(lambda blk: None), 1, 32, stream=stream),
        lambda: event.record(stream),
        lambda: dev.capture(stream),
        lambda: graph.launch(stream),
    ]


def test_destroyed_streams(dev: gs.Device) -> None:
    stream, event = dev.stream(name="old"), dev.event()
    event.record(stream)
    stream.destroy()
    assert repr(stream) == "<Stream 'old' number=1 priority=0, destroyed>"
    more = [stream.synchronize, stream.destroy, lambda: stream.wait_event(event), lambda: stream.record(event)]
    for use in uses(dev, stream) + more:
        with pytest.raises(gs.StreamError, match=r"stream 'old' was destroyed: make a new one with dev.stream\(\)"):
            use()


def test_streams_of_another_device(dev: gs.Device) -> None:
    stream = gs.Device("tiny").stream(name="there")
    for use in uses(dev, stream):
        with pytest.raises(gs.StreamError, match="stream 'there' belongs to another device"):
            use()


def test_what_is_no_stream(dev: gs.Device) -> None:
    for use in uses(dev, 1):
        with pytest.raises(
            gs.StreamError, match=r"stream = 1, of type int: give a stream of dev.stream\(\), or leave it out"
        ):
            use()


def test_the_default_stream_stays(dev: gs.Device) -> None:
    with pytest.raises(gs.StreamError, match="the default stream cannot be destroyed"):
        dev.default_stream.destroy()


def test_a_stream_destroyed_with_work(dev: gs.Device) -> None:
    stream, a = dev.stream(name="busy"), dev.malloc(4, name="a")
    dev.memset_async(a, 0, stream)
    message = (
        r"stream 'busy' is destroyed with work that the host has not waited for, last memset 'a' \(line \d+ of "
        r"test_streams.py\): it will finish, .*; call stream.synchronize\(\) first"
    )
    with pytest.warns(gs.PendingWorkWarning, match=message) as told:
        stream.destroy()
    assert told[0].filename == __file__
    assert stream.destroyed
    assert len(dev.warnings) == 1


@pytest.mark.parametrize("how", ["stream", "event", "device", "legacy"])
def test_a_stream_destroyed_after_its_work(dev: gs.Device, how: str) -> None:
    stream, a, event = dev.stream(), dev.malloc(4), dev.event()
    dev.memset_async(a, 0, stream)
    event.record(stream)
    if how == "stream":
        stream.synchronize()
    elif how == "event":
        event.synchronize()
    elif how == "device":
        dev.synchronize()
    else:
        dev.to_host(a)
    stream.destroy()
    assert dev.warnings == ()


# Events ---------------------------------------------------------------------------------------------------------------


def test_events_that_nobody_records(dev: gs.Device) -> None:
    event, stream = dev.event("never"), dev.stream(name="s")
    record = r"which nobody has recorded: record it first, event.record\(stream\)"
    with pytest.raises(gs.StreamError, match=f"stream 's' waits for event 'never', {record}"):
        stream.wait_event(event)
    with pytest.raises(gs.StreamError, match=f"the host waits for event 'never', {record}"):
        event.synchronize()
    with pytest.raises(gs.StreamError, match=f"elapsed asks for the time of event 'never', {record}"):
        event.elapsed(event)
    assert dev.program.commands == []


def test_events_of_another_device_and_what_is_none(dev: gs.Device) -> None:
    there: Any = gs.Device("tiny").event("there")
    there.record()
    stream, event = dev.stream(), dev.event()
    for use in (lambda: stream.wait_event(there), lambda: stream.record(there), lambda: event.elapsed(there)):
        with pytest.raises(gs.StreamError, match=r"event 'there' belongs to another device: .* event.synchronize"):
            use()
    none: Any = 3
    for use in (lambda: stream.wait_event(none), lambda: stream.record(none), lambda: event.elapsed(none)):
        with pytest.raises(gs.StreamError, match=r"event = 3 is a int: give an event of dev.event\(\)"):
            use()


def test_time_between_events(dev: gs.Device) -> None:
    start, end = dev.event("start"), dev.event("end")
    start.record()
    end.record()
    with pytest.raises(gs.StreamError, match=r"event 'start' has no time yet: .* call dev.simulate\(\) first"):
        start.elapsed(end)
    assert not start.has_time
    dev._event_times_fs = {0: 1_000_000, 1: 3_500_000}
    assert start.has_time
    assert start.elapsed(end) == 2.5e-9
    assert end.elapsed(start) == -2.5e-9
    end.record()
    assert (start.has_time, end.has_time, dev.event().has_time) == (True, False, False)
    with pytest.raises(gs.StreamError, match="event 'end' has no time yet"):
        start.elapsed(end)
    dev._event_times_fs[2] = 1_000_000
    assert start.elapsed(end) == 0


def test_the_default_stream_is_meant_where_none_is_given(dev: gs.Device) -> None:
    a = dev.malloc(4)
    dev.memset_async(a, 0)
    dev.memcpy_async(np.asarray(dev.pinned(4)), a)
    dev.event().record()
    assert [command.stream for command in dev.program.commands] == [0, 0, 0]

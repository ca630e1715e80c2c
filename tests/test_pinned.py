"""Page-locked host memory: what counts as pinned, copies that are not asynchronous, sources that change too early."""

from __future__ import annotations

import gc
import warnings
from typing import Any

import numpy as np
import pytest

import gpusim_des as gs
from gpusim_des.functional import pinned


@pytest.fixture
def dev() -> gs.Device:
    return gs.Device("tiny")


def test_pinned_arrays_are_zero_and_usable(dev: gs.Device) -> None:
    host = dev.pinned((2, 3), np.int32)
    assert host.dtype == np.int32
    assert host.tolist() == [[0] * 3] * 2
    host[:] = [[1, 2, 3], [4, 5, 6]]
    a = dev.malloc((2, 3), np.int32)
    dev.memcpy(a, host)
    out = dev.pinned((2, 3), np.int32)
    dev.memcpy(out, a)
    assert out.tolist() == host.tolist()
    assert [getattr(command, "pinned", None) for command in dev.program.commands] == [True, True]


@pytest.mark.parametrize(
    "view",
    [
        lambda p: p,
        lambda p: p[3],
        lambda p: p[1:3, ::2],
        lambda p: p[::-1],
        lambda p: p.T,
        lambda p: p.reshape(-1).view(np.int8),
        lambda p: np.frombuffer(memoryview(p), np.float32),
        lambda p: p[:0],
        np.asarray,
    ],
)
def test_views_are_pinned(dev: gs.Device, view: Any) -> None:
    assert dev.is_pinned(view(dev.pinned((4, 6))))


@pytest.mark.parametrize("other", [lambda p: p.copy(), lambda p: p + 1, lambda p: np.zeros(3), lambda p: [1.0]])
def test_others_are_not(dev: gs.Device, other: Any) -> None:
    assert not dev.is_pinned(other(dev.pinned((4, 6))))


def test_all_devices_know_pinned_memory(dev: gs.Device) -> None:
    assert gs.Device("tiny").is_pinned(dev.pinned(4))


def test_memory_that_is_gone_is_forgotten(dev: gs.Device) -> None:
    gc.collect()
    count = len(pinned._PINNED)
    host = dev.pinned(4)
    view = host[1:]
    del host
    gc.collect()
    assert dev.is_pinned(view)
    del view
    gc.collect()
    assert len(pinned._PINNED) == count


@pytest.mark.parametrize(
    ("shape", "dtype", "message"),
    [
        (0, np.float32, "shape 0: sizes are whole numbers, at least 1"),
        (4, object, "dtype object: .*no Python objects"),
        ((1 << 60, 1 << 20), np.float64, "the host has no memory for a pinned array of shape .*: make a smaller one"),
    ],
)
def test_what_cannot_be_pinned(dev: gs.Device, shape: Any, dtype: Any, message: str) -> None:
    with pytest.raises(gs.DeviceMemoryError, match=message):
        dev.pinned(shape, dtype)


# Pageable copies ------------------------------------------------------------------------------------------------------


def test_pageable_copies_are_told_once_per_line(dev: gs.Device) -> None:
    stream, a, host = dev.stream(), dev.malloc(4, name="a"), np.ones(4, np.float32)
    message = (
        "copy h2d 'a': this copy is not asynchronous: the host array is pageable; allocate it with "
        "dev.pinned(shape, dtype)"
    )
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(3):
            dev.memcpy_async(a, host, stream)
        dev.memcpy_async(host, a, stream)
        dev.memcpy_async(a, dev.pinned(4), stream)
        dev.memcpy(a, host)
    assert [w.category for w in told] == [gs.PageableCopyWarning] * 2
    assert str(told[0].message) == message
    assert told[0].filename == __file__
    assert dev.warnings == (message, message.replace("h2d", "d2h"))


def test_a_pageable_source_may_change(dev: gs.Device) -> None:
    stream, a, host = dev.stream(), dev.malloc(4), np.ones(4, np.float32)
    with pytest.warns(gs.PageableCopyWarning):
        dev.memcpy_async(a, host, stream)
    host[:] = 2
    stream.synchronize()
    assert dev.to_host(a).tolist() == [1] * 4


# Changed sources ------------------------------------------------------------------------------------------------------

CHANGED = (
    r"the pinned source of copy h2d 'a' \(line \d+ of test_pinned.py\) changed before its copy was known to be done: "
    r"a GPU copies .*; wait before changing it, with stream.synchronize\(\) or event.synchronize\(\), or use two arrays"
)


class Upload:
    def __init__(self, dev: gs.Device) -> None:
        self.stream, self.done, self.host = dev.stream(), dev.event(), dev.pinned(4)
        self.a = dev.malloc(4, name="a")
        dev.memcpy_async(self.a, self.host, self.stream)
        self.done.record(self.stream)


WAITS: dict[str, Any] = {
    "stream": lambda _, up: up.stream.synchronize(),
    "event": lambda _, up: up.done.synchronize(),
    "device": lambda dev, _: dev.synchronize(),
    "blocking copy": lambda dev, up: dev.to_host(up.a),
    "free": lambda dev, up: dev.free(up.a),
    "new program": lambda dev, _: dev.forget_launches(),
}


@pytest.mark.parametrize("wait", WAITS)
def test_a_source_that_changes_too_early(dev: gs.Device, wait: str) -> None:
    up = Upload(dev)
    up.host[2] = 1
    with pytest.warns(gs.HostBufferChangedWarning, match=CHANGED):
        WAITS[wait](dev, up)
    dev.synchronize()
    assert len(dev.warnings) == 1


@pytest.mark.parametrize("wait", WAITS)
def test_a_source_that_changes_in_time(dev: gs.Device, wait: str) -> None:
    up = Upload(dev)
    WAITS[wait](dev, up)
    up.host[2] = 1
    dev.synchronize()
    assert dev.warnings == ()


def test_waiting_for_something_else_does_not_help(dev: gs.Device) -> None:
    up, other = Upload(dev), dev.stream()
    dev.memset_async(dev.malloc(4), 0, other)
    other.synchronize()
    up.host[2] = 1
    with pytest.warns(gs.HostBufferChangedWarning, match=CHANGED):
        up.stream.synchronize()


def test_one_buffer_filled_twice(dev: gs.Device) -> None:
    stream, host, a, b = dev.stream(), dev.pinned(4), dev.malloc(4, name="a"), dev.malloc(4, name="b")
    host[:] = 1
    dev.memcpy_async(a, host, stream)
    host[:] = 2
    dev.memcpy_async(b, host, stream)
    with pytest.warns(gs.HostBufferChangedWarning, match=CHANGED):
        stream.synchronize()
    assert len(dev.warnings) == 1


def test_results_may_come_back_into_the_source(dev: gs.Device) -> None:
    stream, host, a = dev.stream(), dev.pinned(4), dev.malloc(4, name="a")
    dev.memcpy_async(a, host, stream)
    dev.memset_async(a, 255, stream)
    dev.memcpy_async(host, a, stream)
    stream.synchronize()
    assert dev.warnings == ()
    dev.memcpy_async(a, host, stream)
    host[:] = 3
    with pytest.warns(gs.HostBufferChangedWarning, match=CHANGED):
        dev.memcpy_async(host, a, stream)


def test_large_sources_are_not_watched(dev: gs.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pinned, "WATCHED_BYTES", 15)
    up = Upload(dev)
    up.host[2] = 1
    dev.synchronize()
    assert dev.warnings == ()


def test_sources_of_graphs(dev: gs.Device) -> None:
    stream, host, a = dev.stream(), dev.pinned(4), dev.malloc(4, name="a")
    with dev.capture(stream) as graph:
        dev.memcpy_async(a, host, stream)
    host[:] = 1  # nothing has been copied yet
    graph.launch(stream)
    assert dev.to_host(a).tolist() == [1] * 4
    graph.launch(stream)
    host[:] = 2
    with pytest.warns(gs.HostBufferChangedWarning, match=CHANGED):
        stream.synchronize()

"""``gpusim_des.cuda`` on the host: arrays, streams and events, and the names that there are not."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest

import gpusim_des as gs
import gpusim_des.cuda
from gpusim_des import cuda
from gpusim_des.trace import RecordEvent
from tests.test_cuda_face import scale, small_device  # noqa: F401 - every test has a device of its own

# Arrays -------------------------------------------------------------------------------------------------------------


def test_device_arrays_are_made_copied_and_described() -> None:
    host = np.arange(12, dtype=np.float32).reshape(3, 4)
    a = cuda.to_device(host)
    assert (a.shape, a.strides, a.size, a.ndim, a.nbytes, len(a)) == ((3, 4), (16, 4), 12, 2, 48, 3)
    assert a.dtype == np.float32
    assert cuda.is_cuda_array(a)
    assert not cuda.is_cuda_array(host)
    assert cuda.to_device(a) is a
    b = cuda.device_array_like(a)
    assert np.isnan(b.copy_to_host()).all()  # poison
    b.copy_to_device(a)
    b.copy_to_device(b.copy_to_host() + 1)
    target = np.zeros((3, 4), np.float32)
    assert b.copy_to_host(target) is target
    assert target.tolist() == (host + 1).tolist()
    assert cuda.to_device(2 * host, to=a) is a
    assert a[2, 3] == 22
    assert a[-1, 0] == 16
    a[0] = 5
    a[2, 1] = 8
    assert a.copy_to_host().tolist() == [[5, 5, 5, 5], [8, 10, 12, 14], [16, 8, 20, 22]]
    assert a.ravel().shape == (12,)
    assert a.reshape(2, -1)[1].copy_to_host().tolist() == [12, 14, 16, 8, 20, 22]
    assert cuda.device_array(3, dtype=numba.int16).dtype == np.int16
    assert cuda.pinned_array_like(host).shape == (3, 4)
    assert gs.Device.is_pinned(cuda.pinned_array(4, np.int8))
    assert repr(a).startswith("<DeviceNDArray shape=(3, 4) dtype=float32 of <DeviceArray 'd")


def test_column_major_arrays_keep_their_order_and_show_it_in_the_counters() -> None:
    """Neighbouring lanes take neighbouring rows: they lie side by side in a column-major array only."""

    @cuda.jit
    def first_column(a: Any, out: Any) -> None:
        i = cuda.grid(1)
        out[i] = a[i, 0]

    rows = np.arange(32 * 8.0).reshape(32, 8)
    out = cuda.device_array(32)
    sectors = []
    orders: tuple[Any, ...] = ("C", "F")
    for order in orders:
        a = cuda.to_device(np.asarray(rows, order=order))
        assert (a.is_c_contiguous(), a.is_f_contiguous()) == (order == "C", order == "F")
        assert a.copy_to_host().tolist() == rows.tolist()
        assert cuda.device_array_like(a).is_f_contiguous() == (order == "F")
        first_column[1, 32](a, out)
        assert out.copy_to_host().tolist() == rows[:, 0].tolist()
        sectors.append(first_column.launches[-1].counters.global_load_sectors)
    assert sectors == [32, 8]
    assert cuda.to_device(np.asfortranarray(rows)).T.copy_to_host().tolist() == rows.T.tolist()


@pytest.mark.parametrize(
    ("do", "message"),
    [
        (lambda a: a[:, 1].copy_to_host(), r"copy of a view of array .* do not lie side by side; copy the whole array"),
        (
            lambda a: a.copy_to_host(np.zeros(3)),
            r"copy_to_host to an array of shape \(3,\) and type float64: this one",
        ),
        (
            lambda a: a.copy_to_device([1, 2]),
            r"copy_to_device of an array of shape \(2,\) and type int64: this one",
        ),
        (lambda a: a[1, 2, 3], r"3 indices for an array of shape \(3, 4\): give at most 2"),
        (lambda a: a[3], r"index 3 of an array of shape \(3, 4\): give whole numbers within it, and slices"),
        (lambda a: a["x"], r"index 'x' of an array"),
        (lambda a: a.reshape(5), r"reshape to \(5,\) of an array of shape \(3, 4\): the number of elements stays 12"),
        (lambda a: a.T.reshape(12), r"they must lie side by side in row-major order"),
        (lambda _: cuda.device_array(3, strides=(8,)), r"device_array strides = \(8,\): leave them out"),
        (lambda _: cuda.device_array(3, order="A"), r"device_array order = 'A': possible are 'C' and 'F'"),
        (lambda _: cuda.pinned_array(3, order="F"), r"pinned arrays are row-major, leave both out"),
        (lambda a: cuda.to_device(np.zeros(3), copy=False), r"to_device\(copy=False\): make a device array"),
        (lambda _: cuda.to_device(np.zeros(0)), r"there is nothing to copy"),
    ],
)
def test_arrays_that_cannot_be(do: Any, message: str) -> None:
    with pytest.raises(gs.DeviceMemoryError, match=message):
        do(cuda.to_device(np.zeros((3, 4))))


def test_a_view_of_an_array_of_another_device_is_refused() -> None:
    a = cuda.to_device(np.zeros((3, 4)))
    cuda.select("tiny")
    with pytest.raises(gs.DeviceMemoryError, match="device"):
        scale[1, 32](a[1], 2.0)


def test_launches_of_the_device_take_views_and_options() -> None:
    a = cuda.to_device(np.arange(12.0).reshape(3, 4))
    launch = cuda.device().launch(scale, 1, 32, a[1], 2.0, registers=64, count="declared", vectorize=False)
    assert not launch.vectorized
    assert a.copy_to_host()[1].tolist() == [8, 10, 12, 14]


# Streams and events -------------------------------------------------------------------------------------------------


def test_events_tell_simulated_milliseconds() -> None:
    """A copy of 1 MB at 1 GB/s takes a millisecond on ``tiny``."""
    host = cuda.pinned_array(1_000_000, np.uint8)
    stream, start, end = cuda.stream(), cuda.event(), cuda.event(timing=True)
    a = cuda.device_array(1_000_000, np.uint8)
    start.record(stream)
    a.copy_to_device(host, stream=stream)
    end.record(stream)
    end.synchronize()
    assert end.query()
    took = start.elapsed_time(end)
    assert 1.0 <= took < 1.1
    assert cuda.event_elapsed_time(start, end) == took
    with pytest.raises(gs.StreamError, match=r"elapsed_time to 5: give an event that cuda.event\(\) made"):
        start.elapsed_time(5)  # type: ignore[arg-type]
    with pytest.raises(gs.StreamError, match="which nobody has recorded"):
        start.elapsed_time(cuda.event())
    with pytest.raises(gs.StreamError, match="which nobody has recorded"):
        cuda.event().query()


def test_streams_wait_for_events() -> None:
    first, second, done = cuda.stream(), cuda.stream(), cuda.event()
    a = cuda.device_array(64)
    with first.auto_synchronize() as queue:
        a.copy_to_device(cuda.pinned_array(64), queue)
        done.record(queue)
    done.wait(second)
    scale[2, 32, second](a, 2.0)
    second.synchronize()
    done.record()
    done.wait()
    cuda.synchronize()
    assert cuda.device().stream_races() == []
    assert sum(isinstance(c, RecordEvent) for c in cuda.device().program.commands) == 2
    scale[2, 32, cuda.default_stream()](a, 2.0)
    scale[2, 32, second.inner](a, 2.0)
    assert "stream" in repr(first)
    assert "event" in repr(done)


# What there is not --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("cg", "end the kernel there and launch a second one"),
        ("mapped_array", "use cuda.device_array and copies"),
        ("pinned", "make it with cuda.pinned_array"),
        ("reduce", "write the reduction as a kernel"),
        ("libdevice", "use the functions of math"),
        ("nanosleep", "leave it out"),
        ("float4", "use one array for each part"),
        ("float32x2", "use one array for each part"),
        ("uchar3", "use one array for each part"),
        ("int32", "from gpusim_des import cuda, int32"),
        ("gpus", r"cuda.get_current_device\(\)"),
        ("list_devices", r"cuda.get_current_device\(\)"),
        ("detect", r"gpusim_des.list_gpus\(\)"),
        ("close", r"begin anew with cuda.select\(\)"),
        ("ldg", "index the array"),
        ("float5", "it has DeviceNDArray, Event"),
    ],
)
def test_names_that_there_are_not(name: str, instead: str) -> None:
    with pytest.raises(AttributeError, match=rf"gpusim_des.cuda has no '{name}'; .*{instead}"):
        getattr(cuda, name)


def test_all_names_are_there() -> None:
    assert set(cuda.__all__) == set(dir(cuda))
    assert all(hasattr(cuda, name) for name in cuda.__all__)

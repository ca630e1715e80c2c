"""Copies between host and device, and memset: what they do, what is counted, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpusim_des as gs


@pytest.fixture
def dev() -> gs.Device:
    return gs.Device("tiny")


def counting(n: int, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return np.arange(n).astype(dtype)


# memcpy ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [True, False])
def test_all_directions(dev: gs.Device, given: bool) -> None:
    host, back = counting(100), np.zeros(100, np.float32)
    a, b = dev.malloc(100), dev.malloc((10, 10))
    dev.memcpy(a, host, kind="h2d" if given else None)
    dev.memcpy(b, a, kind="d2d" if given else None)
    dev.memcpy(back, b, kind="d2h" if given else None)
    assert back.tolist() == host.tolist()
    assert dev.copy_report() == gs.CopyReport(1, 400, 1, 400, 1, 400)


def test_a_copy_is_no_view(dev: gs.Device) -> None:
    host = counting(4)
    a = dev.to_device(host)
    b = dev.malloc(4)
    dev.memcpy(b, a)
    host[:] = -1
    dev.memset(a, 0)
    out = dev.to_host(b)
    out[:] = -2
    assert dev.to_host(b).tolist() == [0, 1, 2, 3]


def test_a_part(dev: gs.Device) -> None:
    a = dev.to_device(np.zeros(8, np.int32))
    dev.memcpy(a, counting(8, np.int32) + 1, nbytes=12)
    assert dev.to_host(a).tolist() == [1, 2, 3, 0, 0, 0, 0, 0]
    out = np.full((3, 3), -1, np.int32)
    dev.memcpy(out, a, nbytes=np.int64(16))
    assert out.tolist() == [[1, 2, 3], [0, -1, -1], [-1, -1, -1]]


def test_nothing_counts_as_a_copy(dev: gs.Device) -> None:
    a = dev.malloc(4)
    dev.memcpy(a, np.ones(2, np.float32), nbytes=0)
    dev.memcpy(a, np.ones(0, np.float32), nbytes=0)
    assert dev.copy_report() == gs.CopyReport(h2d_copies=2)
    assert np.isnan(dev.to_host(a)).all()


def test_to_device_and_to_host_count(dev: gs.Device) -> None:
    a = dev.to_device(np.ones((3, 5), np.float64))
    dev.to_host(a)
    dev.to_host(a)
    report = dev.copy_report()
    assert report == gs.CopyReport(h2d_copies=1, h2d_bytes=120, d2h_copies=2, d2h_bytes=240)
    assert (report.copies, report.nbytes) == (3, 360)


def test_between_devices(dev: gs.Device) -> None:
    other = gs.Device("tiny")
    a, b = dev.to_device(counting(16)), other.malloc(16)
    dev.memcpy(b, a)
    assert other.to_host(b).tolist() == counting(16).tolist()
    assert dev.copy_report() == gs.CopyReport(h2d_copies=1, h2d_bytes=64, p2p_copies=1, p2p_bytes=64)
    other.memcpy(b, a, kind="d2d")
    assert other.copy_report() == gs.CopyReport(d2h_copies=1, d2h_bytes=64, p2p_copies=1, p2p_bytes=64)


def test_the_report_as_a_table() -> None:
    report = gs.CopyReport(1, 2_000_000, 3, 4, 5, 6, 7, 8)
    lines = [" ".join(line.split()) for line in str(report).splitlines()]
    assert lines == [
        "host to device 1 copies 2,000,000 bytes",
        "device to host 3 copies 4 bytes",
        "device to device 5 copies 6 bytes",
        "peer to peer 7 copies 8 bytes",
    ]
    assert (report.copies, report.nbytes) == (16, 2_000_018)


def test_strided_host_arrays_go_to_the_device(dev: gs.Device) -> None:
    host = counting(24).reshape(4, 6)
    for view in (host.T, host[::2, ::3], np.asfortranarray(host), host[::-1]):
        assert dev.to_host(dev.to_device(view)).tolist() == view.tolist()


ONES = np.ones(8, np.float32)
READ_ONLY = np.ones(8, np.float32)
READ_ONLY.flags.writeable = False

COPIES: dict[str, tuple[Any, str]] = {
    "list": (
        lambda d, a: d.memcpy(a, [1.0] * 8),
        r"memcpy src is a list: give .* np.asarray\(data, dtype=np.float32\)",
    ),
    "list as destination": (lambda d, a: d.memcpy([1.0] * 8, a), "memcpy dst is a list: give a device array or"),
    "number": (lambda d, a: d.memcpy(a, np.float32(1)), "memcpy src is a float32: give a device array"),
    "host to host": (lambda d, _: d.memcpy(ONES.copy(), ONES), r"from host to host: .* use np.copyto\(dst, src\)"),
    "host to host by name": (lambda d, _: d.memcpy(ONES.copy(), ONES, kind="h2h"), "kind = 'h2h': possible are 'h2d'"),
    "unknown kind": (lambda d, a: d.memcpy(a, ONES, kind="up"), "kind = 'up': possible are 'h2d', 'd2h' and 'd2d'; or"),
    "wrong direction": (
        lambda d, a: d.memcpy(a, ONES, kind="d2h"),
        r"'d2h', but dst is device array 'a' and src a host array, which is 'h2d': the order is memcpy\(dst, src\)",
    ),
    "other type": (
        lambda d, a: d.memcpy(a, ONES.astype(np.float64), nbytes=32),
        r"from float64 to float32: .* both sides have one type; convert on the host first, .*src.astype\(dst.dtype\)",
    ),
    "other type of the same size": (lambda d, a: d.memcpy(a, ONES.view(np.int32)), "from int32 to float32"),
    "other byte order": (lambda d, a: d.memcpy(a, ONES.astype(">f4")), "from >f4 to float32"),
    "sizes": (
        lambda d, a: d.memcpy(a, np.ones(7, np.float32)),
        "from 28 to 32 bytes: without nbytes both sides have one size; to copy a part, give nbytes, at most 28",
    ),
    "broken element": (
        lambda d, a: d.memcpy(a, ONES, nbytes=30),
        r"nbytes = 30: must be a multiple of the 4 bytes of an element \(float32\), at least 0; use elements \*",
    ),
    "negative": (lambda d, a: d.memcpy(a, ONES, nbytes=-4), "nbytes = -4: must be a multiple of .*at least 0"),
    "fraction": (lambda d, a: d.memcpy(a, ONES, nbytes=8.0), r"memcpy nbytes = 8.0 is a float: must be a whole number"),
    "beyond dst": (
        lambda d, a: d.memcpy(a, np.ones(9, np.float32), nbytes=36),
        "nbytes = 36: dst, device array 'a', has 32 bytes; copy at most that, or make it larger",
    ),
    "beyond src": (
        lambda d, a: d.memcpy(np.ones(9, np.float32), a, nbytes=36),
        "nbytes = 36: src, device array 'a', has 32 bytes",
    ),
    "strided source": (
        lambda d, a: d.memcpy(a, np.ones(16, np.float32)[::2]),
        r"src is a host array of shape \(8,\) with strides \(8,\): .*; copy np.ascontiguousarray\(src\)",
    ),
    "Fortran's order": (
        lambda d, a: d.memcpy(a, np.ones((2, 4), np.float32, order="F")),
        "src is a host array .* needs row-major elements one after the other",
    ),
    "strided destination": (
        lambda d, a: d.memcpy(np.ones(16, np.float32)[::2], a),
        "dst is a host array of shape .* copy into a new array and assign that",
    ),
    "read-only": (lambda d, a: d.memcpy(READ_ONLY, a), r"dst is a host array that is read-only: .*dst.copy\(\)"),
    "another device's": (
        lambda d, a: gs.Device("tiny").memcpy(a, ONES),
        "array 'a' belongs to another device: use it there",
    ),
    "two of another device": (lambda d, a: gs.Device("tiny").memcpy(a, a), "array 'a' belongs to another device"),
}


@pytest.mark.parametrize("name", COPIES)
def test_copies_refused(dev: gs.Device, name: str) -> None:
    copy, message = COPIES[name]
    a = dev.malloc(8, name="a")
    with pytest.raises(gs.DeviceMemoryError, match=message):
        copy(dev, a)
    assert dev.copy_report().copies == 0
    assert np.isnan(dev.to_host(a)).all()


@pytest.mark.parametrize("freed", ["dst", "src"])
def test_copies_of_freed_arrays(dev: gs.Device, freed: str) -> None:
    a, b = dev.malloc(8, name="dst"), dev.to_device(ONES, name="src")
    dev.free(a if freed == "dst" else b)
    with pytest.raises(gs.DeviceMemoryError, match=f"array '{freed}' was freed: allocate it again"):
        dev.memcpy(a, b)
    other = gs.Device("tiny")
    with pytest.raises(gs.DeviceMemoryError, match=f"array '{freed}' was freed"):
        other.memcpy(a, other.malloc(8)) if freed == "dst" else other.memcpy(other.malloc(8), b)


def test_to_device_of_a_device_array(dev: gs.Device) -> None:
    a: Any = dev.malloc(4, name="a")
    message = r"array 'a' is in device memory already: pass it to the kernel, or copy it with dev.memcpy\(new, array\)"
    with pytest.raises(gs.DeviceMemoryError, match=message):
        dev.to_device(a)


# memset ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [(np.int32, 0, 0), (np.int32, -1, -1), (np.uint8, 255, 255), (np.int32, 1, 16_843_009), (np.float64, 0, 0.0)],
)
def test_memset(dev: gs.Device, dtype: Any, value: int, expected: float) -> None:
    a = dev.malloc((2, 3), dtype)
    dev.memset(a, value)
    assert dev.to_host(a).tolist() == [[expected] * 3] * 2
    assert dev.copy_report().h2d_copies == 0


def test_memset_of_a_part(dev: gs.Device) -> None:
    a = dev.malloc(4, np.uint16)
    dev.memset(a, 0, nbytes=3)
    dev.memset(a, 1, nbytes=0)
    assert dev.to_host(a).tolist() == [0, 0xCD00, 0xCDCD, 0xCDCD]


def test_memset_of_truth_values(dev: gs.Device) -> None:
    a = dev.malloc(4, np.bool_)
    dev.memset(a, 0)
    assert not dev.to_host(a).any()
    dev.memset(a, 1, 2)
    assert dev.to_host(a).tolist() == [True, True, False, False]
    with pytest.raises(gs.DeviceMemoryError, match="value = 255 on truth values: their bytes are 0 or 1"):
        dev.memset(a, 255)


SETS: dict[str, tuple[Any, str]] = {
    "element": (lambda d, a: d.memset(a, 1000), r"memset value = 1,000: it sets bytes, from -128 to 255; .*np.full\("),
    "too low": (lambda d, a: d.memset(a, -129), "memset value = -129: it sets bytes"),
    "fraction": (lambda d, a: d.memset(a, 1.0), "memset value = 1.0 is a float: must be a whole number"),
    "too long": (
        lambda d, a: d.memset(a, 0, 33),
        "nbytes = 33: must lie between 0 and the 32 bytes of array 'a'; leave it out to set all of them",
    ),
    "negative": (lambda d, a: d.memset(a, 0, -1), "nbytes = -1: must lie between 0 and the 32 bytes"),
    "fraction of a byte": (lambda d, a: d.memset(a, 0, 0.5), "memset nbytes = 0.5 is a float"),
    "host array": (lambda d, _: d.memset(ONES, 0), "ndarray is no device array: make one with dev.to_device"),
    "another device's": (lambda d, a: gs.Device("tiny").memset(a, 0), "'a' belongs to another device: use it there"),
}


@pytest.mark.parametrize("name", SETS)
def test_memset_refused(dev: gs.Device, name: str) -> None:
    action, message = SETS[name]
    a = dev.malloc(8, name="a")
    with pytest.raises(gs.DeviceMemoryError, match=message):
        action(dev, a)
    assert np.isnan(dev.to_host(a)).all()

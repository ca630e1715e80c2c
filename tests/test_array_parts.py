"""Parts of device arrays: memory shared with the whole, for copies in chunks and kernels on pieces."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import gpusim_des as gs


@gs.kernel
def double(t: Any, a: Any) -> None:
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    a[i] = 2 * a[i]


@pytest.fixture
def dev() -> gs.Device:
    return gs.Device("tiny")


def test_a_part_shares_the_memory_of_the_whole(dev: gs.Device) -> None:
    whole = dev.to_device(np.arange(256, dtype=np.float32).reshape(4, 64), "whole")
    part = whole.part(64, 64)
    assert (part.name, part.shape, part.address - whole.address) == ("whole[64:128]", (64,), 256)
    dev.launch(double, 2, 32, part)
    expected = np.arange(256, dtype=np.float32)
    expected[64:128] *= 2
    assert dev.to_host(whole).ravel().tolist() == expected.tolist()
    assert dev.to_host(part.part(8, 2)).tolist() == [144, 146]
    assert dev.used_bytes == whole.nbytes


def test_the_canonical_program_of_copies_in_chunks(dev: gs.Device) -> None:
    """One array on the device, one pinned on the host, a stream for each quarter: right, without a race, overlapped."""
    n, chunks = 4096, 4
    host = dev.pinned(n)
    host[:] = np.arange(n)
    device = dev.malloc(n, np.float32, "device")
    streams = [dev.stream() for _ in range(chunks)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for k, stream in enumerate(streams):
            piece, there = host[k * n // chunks : (k + 1) * n // chunks], device.part(k * n // chunks, n // chunks)
            dev.memcpy_async(there, piece, stream)
            dev.launch(double, n // chunks // 128, 128, there, stream=stream)
            dev.memcpy_async(piece, there, stream)
        dev.synchronize()
    assert host.tolist() == [2.0 * i for i in range(n)]
    assert dev.stream_races() == []
    assert dev.simulate().overlap().speedup > 1.3


def test_parts_that_overlap_race(dev: gs.Device) -> None:
    whole = dev.malloc(64, np.float32, "whole")
    dev.memset_async(whole.part(0, 33), 0, dev.stream())
    with pytest.warns(gs.StreamRaceWarning, match="race on array 'whole'"):
        dev.memset_async(whole.part(32, 32), 0, dev.stream())


def test_the_end_of_a_part_is_an_end(dev: gs.Device) -> None:
    part = dev.to_device(np.zeros(256, np.float32)).part(0, 48)
    with pytest.raises(gs.BoundsError, match="index 48 is outside 0…47"):
        dev.launch(double, 2, 32, part)


def test_a_part_goes_with_the_whole(dev: gs.Device) -> None:
    whole = dev.malloc(64, np.float32, "whole")
    part = whole.part(8, 8)
    with pytest.raises(
        gs.DeviceMemoryError, match=r"'whole\[8:16\]' is a part of 'whole' and goes with it: free the whole"
    ):
        dev.free(part)
    dev.free(whole)
    assert part.freed
    with pytest.raises(gs.DeviceMemoryError, match=r"array 'whole\[8:16\]' was freed"):
        dev.to_host(part)
    with pytest.raises(gs.DeviceMemoryError, match="belongs to another device"):
        gs.Device("tiny").memset(dev.malloc(8).part(0, 4), 0)


@pytest.mark.parametrize(
    ("start", "count", "message"),
    [
        (60, 5, r"part\(start=60, count=5\) of array 'whole': must hold at least one element and lie within its 64"),
        (-1, 5, r"part\(start=-1, count=5\)"),
        (0, 0, r"part\(start=0, count=0\)"),
        (0.5, 1, "part start = 0.5 of array 'whole': give a whole number"),
        (0, True, "part count = True of array 'whole': give a whole number"),
    ],
)
def test_parts_that_cannot_be(dev: gs.Device, start: Any, count: Any, message: str) -> None:
    with pytest.raises(gs.DeviceMemoryError, match=message):
        dev.malloc(64, np.float32, "whole").part(start, count)

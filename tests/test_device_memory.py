"""Allocation of device memory: addresses, accounting, capacity, and the poison in fresh memory."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpusim_des as gs
from gpusim_des.functional import host_memory
from gpusim_des.functional.allocator import ALIGNMENT_BYTES, FIRST_ADDRESS, DeviceMemory
from gpusim_des.functional.poison import POISON_BYTE, POISON_CHARACTER

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parent / "data" / "golden_device.json").read_text())

TYPES = {"f4": np.float32, "f8": np.float64, "i4": np.int32}


@pytest.fixture
def dev() -> gs.Device:
    return gs.Device("tiny")


# The reference --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", GOLDEN["device"], ids=range(len(GOLDEN["device"])))
def test_accounting_of_the_reference(dev: gs.Device, case: dict[str, Any]) -> None:
    arrays = [dev.malloc(size, TYPES[code]) for code, size in case["malloc"]]
    assert [a.address - arrays[0].address for a in arrays] == case["offsets_from_first"]
    assert [a.name for a in arrays] == case["names"]
    for kind, number, nbytes in case["copies"]:
        array = arrays[number]
        host = np.zeros(array.shape, array.dtype)
        other = dev.malloc(array.shape, array.dtype) if kind == "d2d" else host
        dst, src = (other, array) if kind == "d2h" else (array, other)
        dev.memcpy(dst, src, nbytes, kind)
        if isinstance(other, gs.DeviceArray):
            dev.free(other)  # the reference copied within an array; its peak is checked below
    report = dev.copy_report()
    expected = case["report"]
    assert (report.copies, report.h2d_bytes, report.d2h_bytes, report.d2d_bytes) == tuple(
        expected[key] for key in ("copies", "h2d_bytes", "d2h_bytes", "d2d_bytes")
    )
    dev.free(arrays[0])
    assert dev.used_bytes == case["allocated_after_free_first"]
    assert [a.name for a in dev.leaks()] == case["live_after_free"]


@pytest.mark.parametrize("case", GOLDEN["device"], ids=range(len(GOLDEN["device"])))
def test_peak_of_the_reference(dev: gs.Device, case: dict[str, Any]) -> None:
    arrays = [dev.malloc(size, TYPES[code]) for code, size in case["malloc"]]
    assert dev.peak_bytes == dev.used_bytes == case["peak_bytes"]
    dev.free(arrays[0])
    assert dev.peak_bytes == case["peak_after_free"]


# Addresses ------------------------------------------------------------------------------------------------------------


def test_first_fit_reuses_and_joins_holes(dev: gs.Device) -> None:
    a, b, c, d = (dev.malloc(256, np.int8, name) for name in "abcd")
    dev.free(b)
    dev.free(c)
    e = dev.malloc(300, np.int8)
    assert e.address == b.address
    f = dev.malloc(1, np.int8)
    assert f.address == d.address + 256
    dev.free(a)
    g = dev.malloc(256, np.int8)
    assert g.address == a.address
    assert repr(a) == "<DeviceArray 'a' shape=(256,) dtype=int8, freed>"
    assert repr(d) == f"<DeviceArray 'd' shape=(256,) dtype=int8, 256 bytes at {d.address:#x}>"


def test_a_freed_array_stays_freed_when_its_address_is_given_again(dev: gs.Device) -> None:
    old = dev.malloc(10, name="old")
    dev.free(old)
    new = dev.malloc(10, name="new")
    assert new.address == old.address
    for use in (lambda: dev.to_host(old), lambda: dev.memset(old, 0)):
        with pytest.raises(gs.DeviceMemoryError, match="array 'old' was freed: allocate it again"):
            use()
    with pytest.raises(gs.DeviceMemoryError, match="array 'old' was freed already: free each array once"):
        dev.free(old)
    assert dev.leaks() == [new]


def test_freed_arrays_give_host_memory_back(dev: gs.Device) -> None:
    a = dev.malloc(1000)
    dev.free(a)
    assert a._data.nbytes == 0


CAPACITY = 16 * ALIGNMENT_BYTES + 100
"""The last piece is smaller than the others."""


class Model:
    """The same memory as a row of pieces, each free or taken."""

    def __init__(self) -> None:
        self.taken = [False] * 17
        self.live: dict[int, tuple[int, int]] = {}
        self.peak = 0

    @property
    def used(self) -> int:
        return sum(nbytes for _, nbytes in self.live.values())

    @property
    def free(self) -> int:
        return sum(100 if k == 16 else 256 for k, taken in enumerate(self.taken) if not taken)

    def allocate(self, key: int, nbytes: int) -> int | None:
        pieces = -(-nbytes // 256)
        for first in range(17):
            wanted = self.taken[first : first + pieces]
            if first * 256 + nbytes <= CAPACITY and not any(wanted):
                self.taken[first : first + pieces] = [True] * pieces
                self.live[key] = (first, nbytes)
                self.peak = max(self.peak, self.used)
                return first * 256
        return None

    def release(self, key: int) -> None:
        first, nbytes = self.live.pop(key)
        pieces = -(-nbytes // 256)
        self.taken[first : first + pieces] = [False] * pieces


@given(st.lists(st.integers(1, 6 * 256) | st.integers(-20, -1), max_size=60))
def test_random_allocations(steps: list[int]) -> None:
    """Positive steps allocate so many bytes, negative ones free one of the live arrays."""
    memory, model = DeviceMemory(CAPACITY), Model()
    arrays: dict[int, gs.DeviceArray] = {}
    for key, step in enumerate(steps):
        if step > 0:
            expected = model.allocate(key, step)
            if expected is None:
                with pytest.raises(gs.DeviceMemoryError, match=f"out of device memory: {step:,} bytes requested"):
                    memory.allocate(step, np.int8)
            else:
                arrays[key] = memory.allocate(step, np.int8)
                assert arrays[key].address == FIRST_ADDRESS + expected
        elif arrays:
            victim = list(arrays)[step % len(arrays)]
            memory.free(arrays.pop(victim))
            model.release(victim)
        assert (memory.used_bytes, memory.peak_bytes, memory.free_bytes) == (model.used, model.peak, model.free)
        assert memory.live == list(arrays.values())
        spans = sorted((a.address, a.address + a.nbytes) for a in arrays.values())
        assert all(start % ALIGNMENT_BYTES == 0 for start, _ in spans)
        assert all(end <= start for (_, end), (start, _) in pairwise(spans))
        assert not spans or spans[-1][1] <= FIRST_ADDRESS + CAPACITY
    for array in arrays.values():
        memory.free(array)
    assert memory.allocate(CAPACITY, np.int8).address == FIRST_ADDRESS  # all holes have become one


# Capacity -------------------------------------------------------------------------------------------------------------


def small(nbytes: int) -> gs.Device:
    return gs.Device(gs.load_gpu("tiny").replace(memory_bytes=nbytes))


def test_all_of_the_memory_and_not_a_byte_more() -> None:
    dev = small(1000)
    with pytest.raises(gs.DeviceMemoryError, match=r"1,001 bytes requested, 1,000 of 1,000 free; .*: none; free some"):
        dev.malloc(1001, np.int8)
    dev.malloc(1000, np.int8)
    assert (dev.used_bytes, dev.peak_bytes, dev.free_bytes) == (1000, 1000, 0)
    with pytest.raises(gs.DeviceMemoryError, match=r"1 bytes requested, 0 of 1,000 free; .*'d1' 1,000 bytes; "):
        dev.malloc(1, np.int8)


def test_out_of_memory_names_the_three_largest() -> None:
    dev = small(10_000)
    for nbytes in (300, 2000, 100, 1000):
        dev.malloc(nbytes, np.int8, f"of{nbytes}")
    message = "largest live arrays: 'of2000' 2,000 bytes, 'of1000' 1,000 bytes, 'of300' 300 bytes; free some with"
    with pytest.raises(gs.DeviceMemoryError, match=message):
        dev.malloc(10_000, np.int8)


def test_fragmentation_is_named() -> None:
    dev = small(8 * 256)
    arrays = [dev.malloc(256, np.int8) for _ in range(8)]
    for array in arrays[1::2]:
        dev.free(array)
    message = (
        "out of device memory: 512 bytes requested, 1,024 of 2,048 free in 4 holes, the largest of 256 "
        r"(fragmentation); .*; free the arrays between the holes, or make large arrays before small ones"
    )
    with pytest.raises(gs.DeviceMemoryError, match=message.replace("(", r"\(").replace(")", r"\)")):
        dev.malloc(512, np.int8)
    dev.free(arrays[2])
    dev.malloc(512, np.int8)


def test_the_host_has_too_little_memory() -> None:
    dev = small(1 << 50)
    message = (
        r"the host has no memory for an array of shape \(1048576, 536870912\) and type int8: simulated device memory "
        r"lives in host memory \(.*\); free some with dev.free\(array\), or simulate a smaller problem"
    )
    with pytest.raises(gs.DeviceMemoryError, match=message):
        dev.malloc((1 << 20, 1 << 29), np.int8)
    assert (dev.used_bytes, dev.free_bytes, dev.leaks()) == (0, 1 << 50, [])


def test_the_host_is_asked_first(dev: gs.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_memory, "available_bytes", lambda: 100_000_000)
    message = r"\(120,000,000 bytes asked for, 100,000,000 available\)"
    with pytest.raises(gs.DeviceMemoryError, match=message):
        dev.malloc(120_000_000, np.int8)
    with pytest.raises(gs.DeviceMemoryError, match=message):
        dev.to_device(np.broadcast_to(np.int8(1), 120_000_000))
    assert dev.malloc(80_000_000, np.int8).nbytes == dev.used_bytes


def test_available_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = tmp_path / "meminfo"
    monkeypatch.setattr(host_memory, "MEMINFO", told)
    assert host_memory.available_bytes() is None
    told.write_text("MemTotal:       16 kB\n")
    assert host_memory.available_bytes() is None
    told.write_text("MemTotal:       16 kB\nMemFree: 3 kB\nMemAvailable:   12 kB\n")
    assert host_memory.available_bytes() == 12 * 1024


# Poison ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", ["f2", "f4", "f8", "longdouble", "c8", "c16", "clongdouble"])
def test_fresh_floats_are_nan(dev: gs.Device, code: str) -> None:
    values = dev.to_host(dev.malloc(5, code))
    assert np.isnan(values.real).all()
    assert np.isnan(values.imag).all() or values.dtype.kind == "f"


@pytest.mark.parametrize("code", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", ">i4", "V3", "S4"])
def test_every_byte_of_other_types_is_poison(dev: gs.Device, code: str) -> None:
    assert set(dev.to_host(dev.malloc(5, code)).tobytes()) == {POISON_BYTE}


def test_poison_that_people_recognise(dev: gs.Device) -> None:
    assert dev.to_host(dev.malloc(1, np.int32)).tolist() == [-842150451]
    assert dev.to_host(dev.malloc(1, np.uint8)).tolist() == [205]
    assert dev.to_host(dev.malloc(1, np.bool_)).view(np.uint8).tolist() == [1]
    assert np.isnat(dev.to_host(dev.malloc(2, "M8[us]"))).all()
    assert np.isnat(dev.to_host(dev.malloc(2, "m8"))).all()
    assert dev.to_host(dev.malloc(1, "U3")).tolist() == [3 * POISON_CHARACTER]


def test_records_are_poisoned_field_by_field(dev: gs.Device) -> None:
    kind = np.dtype([("x", "f4", 2), ("n", "i2"), ("inner", [("ok", "?"), ("z", "c8")])], align=True)
    (value,) = dev.to_host(dev.malloc(1, kind))
    assert np.isnan(value["x"]).all()
    assert value["n"] == -12851
    assert value["inner"]["ok"].tobytes() == b"\x01"
    assert np.isnan(value["inner"]["z"])


def test_a_place_used_again_is_poisoned_again(dev: gs.Device) -> None:
    dev.free(dev.to_device(np.ones(100, np.float32)))
    assert np.isnan(dev.to_host(dev.malloc(100))).all()


# Types and shapes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    [*"?bBhHiIlLefdgFDG", "M8[s]", "m8[ns]", "S1", "S32", "U8", "V7", ">f8", [("a", "i1"), ("b", "f8")], "complex256"],
    ids=str,
)
def test_types_make_the_round_trip(dev: gs.Device, code: Any) -> None:
    host = np.zeros((3, 2), code)
    host.reshape(-1).view(np.uint8)[:: host.itemsize] = 1
    array = dev.to_device(host)
    assert (array.dtype, array.shape, array.nbytes) == (host.dtype, (3, 2), host.nbytes)
    assert dev.to_host(array).tobytes() == host.tobytes()


@gs.block_kernel
def copy(blk: gs.Block, a: gs.DeviceArray, b: gs.DeviceArray, n: int) -> None:
    m = blk.tx < n
    tile = blk.shared(64, a.dtype)
    blk.sstore(tile, blk.tx, blk.load(a, blk.tx, mask=m), mask=m)
    blk.store(b, blk.tx, blk.sload(tile, blk.tx, mask=m), mask=m)


@pytest.mark.parametrize("code", ["?", "u1", "e", "g", "D", "G", "M8[s]", "S5", "U2", "V32", "i4,f8"])
def test_kernels_move_every_type(dev: gs.Device, code: str) -> None:
    host = np.zeros(40, code)
    host.view(np.uint8)[:: host.itemsize] = 1
    a, b = dev.to_device(host), dev.malloc(40, code)
    counters = dev.launch(copy, 1, 64, a, b, 40).counters
    assert dev.to_host(b).tobytes() == host.tobytes()
    assert counters.global_bytes_requested == 2 * host.nbytes


@pytest.mark.parametrize(
    ("dtype", "message"),
    [
        (object, "dtype object: device memory holds .*no Python objects.*for example to np.float32"),
        ([("a", "O")], "no Python objects"),
        ("S0", "of 1 to 32 bytes"),
        ("S33", "of 1 to 32 bytes"),
        (("f4", 3), "no arrays as elements"),
        ("float33", "dtype 'float33': NumPy has no such type; give one, for example np.float32"),
    ],
)
def test_types_that_device_memory_cannot_hold(dev: gs.Device, dtype: Any, message: str) -> None:
    with pytest.raises(gs.DeviceMemoryError, match=message):
        dev.malloc(4, dtype)
    assert dev.used_bytes == 0


def test_python_objects_are_not_copied(dev: gs.Device) -> None:
    with pytest.raises(gs.DeviceMemoryError, match=r"dtype object: .* no Python objects"):
        dev.to_device(np.array([{}, None]))


@pytest.mark.parametrize("shape", [0, -1, (3, 0), (), 1.5, (2, 2.0), True, "4", None, np.zeros(2, int)])
def test_shapes_that_are_none(dev: gs.Device, shape: Any) -> None:
    message = f"shape {re.escape(repr(shape))}: sizes are whole numbers, at least 1 in every dimension"
    with pytest.raises(gs.DeviceMemoryError, match=message):
        dev.malloc(shape)


def test_shapes(dev: gs.Device) -> None:
    given: list[Any] = [7, np.int64(7), (2, 3), [4, 5]]
    shapes = [dev.malloc(shape).shape for shape in given]
    assert shapes == [(7,), (7,), (2, 3), (4, 5)]
    assert dev.to_device(np.float32(1)).shape == (1,)


# Pitch ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "dtype", "pitch"),
    [
        (1, np.int8, 512),
        (128, np.float32, 512),
        (129, np.float32, 1024),
        (641, np.float32, 3072),
        (64, np.complex128, 1024),
        (43, "V12", 1536),
    ],
)
def test_pitch(dev: gs.Device, columns: int, dtype: Any, pitch: int) -> None:
    array, found = dev.malloc_pitch(3, columns, dtype, "image")
    assert found == pitch
    assert array.shape == (3, pitch // np.dtype(dtype).itemsize)
    assert array.nbytes == 3 * pitch == dev.used_bytes
    assert array.name == "image"


@pytest.mark.parametrize(("rows", "columns"), [(0, 4), (4, 0), (4, 1.5), (-1, 4)])
def test_pitch_of_no_matrix(dev: gs.Device, rows: Any, columns: Any) -> None:
    with pytest.raises(gs.DeviceMemoryError, match=r"shape \(.*\): sizes are whole numbers"):
        dev.malloc_pitch(rows, columns)


@gs.block_kernel
def read_rows(blk: gs.Block, image: gs.DeviceArray) -> None:
    blk.load(image, (blk.by, blk.bx * 32 + blk.tx))


def test_pitch_brings_every_request_to_four_sectors(dev: gs.Device) -> None:
    """Rows of 641 floats begin at any float of a sector: 7 of 8 requests touch a fifth one."""
    plain = dev.launch(read_rows, (20, 64), 32, dev.malloc((64, 641))).counters
    assert plain.global_load_sectors / plain.global_load_requests == 4.875
    pitched = dev.launch(read_rows, (20, 64), 32, dev.malloc_pitch(64, 641)[0]).counters
    assert pitched.global_load_sectors / pitched.global_load_requests == 4

"""Launches and device memory used against their rules: the message names value, rule and remedy."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import gpusim_des as gs
from tests.kernels import assert_usable, kernel_of, scale


@pytest.fixture
def dev() -> gs.Device:
    return gs.Device("h100-sxm")


# Launch ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("grid", "block", "message"),
    [
        (0, 32, "grid.x = 0: must lie between 1 and 2,147,483,647; leave out a launch with nothing to do"),
        (-3, 32, "grid.x = -3: must lie between 1 and 2,147,483,647"),
        (2**31, 32, "grid.x = 2,147,483,648: .*spread it over the other dimensions"),
        ((1, 65536), 32, "grid.y = 65,536: must lie between 1 and 65,535; spread"),
        (4.0, 32, "grid.x = 4.0 is a float: sizes are whole numbers; use gs.cdiv"),
        ("4", 32, "grid.x = '4' is a str: sizes are whole numbers"),
        (1, 1025, "block.x = 1,025: must lie between 1 and 1,024; launch more blocks"),
        (1, (1, 1, 65), "block.z = 65: must lie between 1 and 64"),
        (1, (33, 32), r"block = \(33, 32, 1\) has 1,056 threads: a block holds at most 1,024; use a smaller block"),
        (1, 0, "block.x = 0: must lie between 1 and 1,024"),
        (1, (8, 0.5), "block.y = 0.5 is a float"),
        ((1, 1, 1, 1), 32, r"grid = \(1, 1, 1, 1\): give one, two or three sizes \(x, y, z\), not 4"),
        (1, (), r"block = \(\): give one, two or three sizes"),
    ],
)
def test_launch_shapes(dev: gs.Device, grid: Any, block: Any, message: str) -> None:
    with pytest.raises(gs.LaunchError, match=message):
        dev.launch(scale, grid, block, dev.malloc(32), 32)
    assert_usable(dev)


def test_a_launch_error_is_a_value_error(dev: gs.Device) -> None:
    with pytest.raises(ValueError, match=r"grid.x = 0:"):
        dev.launch(scale, 0, 32, dev.malloc(32), 32)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"registers": 0}, "registers = 0: whole registers per thread, 1 to 255"),
        ({"registers": 1.5}, "registers = 1.5: whole registers"),
        ({"registers": 256}, "registers = 256: whole registers per thread, 1 to 255; the rest goes to memory"),
        ({"dynamic_shared": -1}, "dynamic_shared = -1: a whole number of bytes, at least 0"),
        ({"dynamic_shared": 0.5}, "dynamic_shared = 0.5: a whole number of bytes"),
        ({"dynamic_shared": 232_449}, "shared_mem = 232449 per block: must lie between 0 and 227 KiB .*smaller tiles"),
    ],
)
def test_launch_options(dev: gs.Device, options: dict[str, Any], message: str) -> None:
    with pytest.raises(gs.LaunchError, match=message):
        dev.launch(scale, 1, 32, dev.malloc(32), 32, **options)
    assert_usable(dev)


def test_unknown_way_of_counting(dev: gs.Device) -> None:
    with pytest.raises(ValueError, match="count = 'all': possible are 'auto', 'declared'"):
        dev.launch(scale, 1, 32, dev.malloc(32), 32, count="all")  # type: ignore[arg-type]


def test_a_plain_function_is_no_kernel(dev: gs.Device) -> None:
    def plain(blk: gs.Block) -> None:
        pass

    with pytest.raises(TypeError, match=r"is no kernel: mark the function with @gs.kernel or @gs.block_kernel"):
        dev.launch(plain, 1, 32)  # type: ignore[arg-type]


def test_calling_a_kernel() -> None:
    with pytest.raises(TypeError, match=r"scale is a kernel: run it with dev.launch\(scale, grid, block, ...\)"):
        scale(1, 2)


def test_a_kernel_without_a_block() -> None:
    def alone() -> None:
        pass

    with pytest.raises(TypeError, match=r"kernel 'alone' takes no argument: the first one is the block, kernel\(blk"):
        gs.block_kernel(alone)


def test_a_kernel_with_a_flexible_number_of_arguments() -> None:
    def many(blk: gs.Block, *arrays: gs.DeviceArray) -> None:
        pass

    message = r"kernel 'many': parameter '\*arrays' is not one argument by position, .*; name each one"
    with pytest.raises(TypeError, match=message):
        gs.block_kernel(many)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), r"kernel 'scale' takes \(data, n\), got 0 arguments: missing a required argument: 'data'"),
        ((1,), r"kernel 'scale' takes \(data, n\), got 1 argument: missing a required argument: 'n'"),
        ((1, 2, 3), r"kernel 'scale' takes \(data, n\), got 3 arguments: too many positional arguments"),
    ],
)
def test_number_of_arguments(dev: gs.Device, args: tuple[int, ...], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        dev.launch(scale, 1, 32, *args)
    assert_usable(dev)


@pytest.mark.parametrize("value", [1, 0, False, "done"])
def test_a_kernel_that_returns_something(dev: gs.Device, value: Any) -> None:
    def k(blk: gs.Block) -> Any:
        return value

    message = (
        f"kernel 'k' returned {re.escape(repr(value))}: a kernel returns nothing, write its results with blk.store"
    )
    with pytest.raises(gs.KernelError, match=message):
        dev.launch(gs.block_kernel(k), 1, 32)
    assert_usable(dev)


def test_a_kernel_that_launches_a_kernel(dev: gs.Device) -> None:
    a = dev.malloc(32)
    with pytest.raises(gs.LaunchError, match=r"kernel 'k' launches 'scale': a kernel cannot launch .* from the host"):
        dev.launch(kernel_of(lambda blk: dev.launch(scale, 1, 32, a, 32)), 1, 32)
    assert_usable(dev)


# Memory ---------------------------------------------------------------------------------------------------------------


def test_a_host_array_as_argument(dev: gs.Device) -> None:
    message = r"argument 'data' of kernel 'scale' is a host array: copy it first, data = dev.to_device\(data\)"
    with pytest.raises(gs.DeviceMemoryError, match=message):
        dev.launch(scale, 1, 32, np.zeros(32), 32)
    assert_usable(dev)


def test_a_freed_array(dev: gs.Device) -> None:
    a = dev.malloc(32, name="weights")
    dev.free(a)
    for use in (lambda: dev.launch(scale, 1, 32, a, 32), lambda: dev.to_host(a)):
        with pytest.raises(gs.DeviceMemoryError, match="array 'weights' was freed: allocate it again before using it"):
            use()
    with pytest.raises(gs.DeviceMemoryError, match="array 'weights' was freed already: free each array once"):
        dev.free(a)
    assert dev.used_bytes == 0
    assert_usable(dev)


def test_an_array_of_another_device(dev: gs.Device) -> None:
    a = gs.Device("h100-sxm").malloc(32, name="theirs")
    for use in (lambda: dev.launch(scale, 1, 32, a, 32), lambda: dev.to_host(a), lambda: dev.free(a)):
        with pytest.raises(gs.DeviceMemoryError, match=r"'theirs' belongs to another device: (use|free) it there"):
            use()
    assert_usable(dev)


@pytest.mark.parametrize("use", ["free", "to_host"])
def test_something_that_is_no_device_array(dev: gs.Device, use: str) -> None:
    with pytest.raises(gs.DeviceMemoryError, match=r"ndarray is no device array: make one with dev.to_device\(data\)"):
        getattr(dev, use)(np.zeros(3))


def test_out_of_memory(dev: gs.Device) -> None:
    small = gs.Device("tiny")
    small.malloc(2**28, np.int8, name="big")
    message = (
        "out of device memory: 1,073,741,824 bytes requested, 805,306,368 of 1,073,741,824 free; "
        r"largest live arrays: 'big' 268,435,456 bytes; free some with dev.free\(array\)"
    )
    with pytest.raises(gs.DeviceMemoryError, match=message):
        small.malloc(2**28, np.float32)
    assert small.used_bytes == small.peak_bytes == 2**28
    with pytest.raises(gs.DeviceMemoryError, match="4,000,000,000,000,000,000,000 bytes requested"):
        dev.malloc((10**9, 10**12))
    assert_usable(dev)


@pytest.mark.parametrize("shape", [0, -1, (3, 0), (), 1.5, (2, 2.0)])
def test_shapes(dev: gs.Device, shape: Any) -> None:
    message = f"shape {re.escape(repr(shape))}: sizes are whole numbers, at least 1 in every dimension"
    with pytest.raises(gs.DeviceMemoryError, match=message):
        dev.malloc(shape)


@pytest.mark.parametrize("dtype", [object, "U9", "S33", ("f4", 2), [("a", "f8"), ("b", "f8", 5)]])
def test_element_types(dev: gs.Device, dtype: Any) -> None:
    with pytest.raises(gs.DeviceMemoryError, match=r"dtype .*: device memory holds numbers, truth values and records"):
        dev.malloc(4, dtype)


def test_nothing_to_copy(dev: gs.Device) -> None:
    with pytest.raises(gs.DeviceMemoryError, match=r"array of shape \(0,\): there is nothing to copy"):
        dev.to_device([])


def test_the_host_touches_no_elements(dev: gs.Device) -> None:
    a: Any = dev.malloc(4, name="a")
    for touch in (lambda: a[0], lambda: np.asarray(a), lambda: a.__setitem__(0, 1)):
        with pytest.raises(gs.DeviceMemoryError, match=r"array 'a' lives in device memory, .*dev.to_host\(array\)"):
            touch()

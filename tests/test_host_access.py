"""Python that touches device memory by itself, on the host and in a kernel, and calls of the host in a kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpusim_des as gs


@pytest.fixture
def dev() -> gs.Device:
    return gs.Device("tiny")


@pytest.mark.parametrize(
    "touch",
    [
        lambda a: a[0],
        lambda a: a.__setitem__(0, 1),
        np.asarray,
        list,
        lambda a: a + 1,
        lambda a: 2 * a,
        lambda a: a < 3,
        lambda a: np.ones(4) + a,
        np.sum,
    ],
)
def test_the_host_touches_no_elements(dev: gs.Device, touch: Any) -> None:
    a = dev.malloc(4, name="a")
    with pytest.raises(gs.DeviceMemoryError, match=r"array 'a' lives in device memory, .*dev.to_host\(array\)"):
        touch(a)


HINT = r"blk.load\(array, index, mask=…\) and writes it with blk.store\(array, index, value, mask=…\); array\[index\]"


@gs.block_kernel
def assign(blk: gs.Block, c: gs.DeviceArray) -> None:
    c[blk.tx] = blk.tx


@gs.block_kernel
def read(blk: gs.Block, c: gs.DeviceArray) -> None:
    blk.store(c, blk.tx, c[blk.tx])


@gs.block_kernel
def add_whole(blk: gs.Block, c: gs.DeviceArray) -> None:
    c + 1


@pytest.mark.parametrize("kernel", [assign, read, add_whole])
def test_plain_indexing_in_a_block_kernel(dev: gs.Device, kernel: gs.BlockKernel) -> None:
    c = dev.malloc(32, name="result")
    message = rf"{kernel.name}: Python touches elements of array 'result' in line \d+ of test_host_access.py, '.*c.*"
    with pytest.raises(gs.KernelError, match=message + HINT):
        dev.launch(kernel, 1, 32, c)
    with pytest.raises(gs.DeviceMemoryError, match="the host cannot touch its elements"):
        c[0]  # the launch is over


@gs.block_kernel
def assign_shared(blk: gs.Block) -> None:
    tile = blk.shared(32, name="tile")
    tile[blk.tx] = 1


@gs.block_kernel
def sum_shared(blk: gs.Block) -> None:
    np.sum(blk.shared(32, name="tile"))


@gs.block_kernel
def double_shared(blk: gs.Block) -> None:
    blk.shared(32, name="tile") * 2


@pytest.mark.parametrize("kernel", [assign_shared, sum_shared, double_shared])
def test_plain_indexing_of_shared_memory_in_a_block_kernel(dev: gs.Device, kernel: gs.BlockKernel) -> None:
    message = r"elements of shared array 'tile' in line .*, '.*blk.sload\(array, .*blk.sstore\(array, "
    with pytest.raises(gs.KernelError, match=message):
        dev.launch(kernel, 1, 32)


CALLS = ["malloc", "malloc_pitch", "free", "to_device", "to_host", "memcpy", "memset"]


@pytest.mark.parametrize("call", CALLS)
def test_calls_of_the_host_in_a_kernel(dev: gs.Device, call: str) -> None:
    a = dev.malloc(4)
    arguments: dict[str, tuple[Any, ...]] = {"malloc": (4,), "malloc_pitch": (4, 4), "memcpy": (a, a), "memset": (a, 0)}

    def k(blk: gs.Block) -> None:
        getattr(dev, call)(*arguments.get(call, (a,)))

    message = rf"kernel 'k' calls dev.{call} in line \d+ of test_host_access.py: that is for the host; call it before"
    with pytest.raises(gs.KernelError, match=message):
        dev.launch(gs.block_kernel(k), 1, 32)
    assert (dev.used_bytes, dev.copy_report().copies) == (16, 0)
    dev.to_host(a)

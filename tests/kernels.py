"""Kernels and checks that several tests of the executor share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import gpusim_des as gs

Array = np.ndarray[Any, Any]
Body = Callable[[Any], object]


def kernel_of(body: Body) -> gs.BlockKernel:
    """Wrap what a test wants to happen inside of a kernel called ``k``."""

    def k(blk: gs.Block) -> None:
        body(blk)

    return gs.block_kernel(k)


def run_block(
    body: Any, *arrays: Array, grid: int = 1, block: int = 32, **options: Any
) -> tuple[list[Array], gs.Launch]:
    """Launch ``body(blk, *arrays)`` as kernel ``k``; returns all arrays afterwards."""

    def k(blk: gs.Block, a: gs.DeviceArray, b: gs.DeviceArray | None = None, c: gs.DeviceArray | None = None) -> None:
        body(blk, *(x for x in (a, b, c) if x is not None))

    dev = gs.Device("h100-sxm")
    there = [dev.to_device(array) for array in arrays]
    launch = dev.launch(gs.block_kernel(k), grid, block, *there, **options)
    return [dev.to_host(array) for array in there], launch


def line_of(kernel: gs.BlockKernel, offset: int) -> int:
    """Number of the source line `offset` lines below the ``def``; the decorator's line comes first."""
    function: Any = kernel.function
    return int(function.__code__.co_firstlineno) + 1 + offset


@gs.block_kernel
def scale(blk: gs.Block, data: gs.DeviceArray, n: int) -> None:
    i = blk.bx * blk.bdx + blk.tx
    m = i < n
    blk.store(data, i, 2 * blk.load(data, i, mask=m), mask=m)


def assert_usable(dev: gs.Device) -> None:
    launches = len(dev.launches)
    a = dev.to_device(np.arange(100, dtype=np.float32))
    assert dev.launch(scale, 4, 32, a, 100).counters.global_load_sectors == 13
    assert dev.to_host(a).tolist() == [2.0 * k for k in range(100)]
    dev.free(a)
    assert len(dev.launches) == launches + 1

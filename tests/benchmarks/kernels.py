"""Kernels that the benchmarks run, each with a launch of a size that may be chosen."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import gpusim_des as gs

THREADS = 256
TILE = 16
STRIDE = 32
LENGTH = 64
"""Multiplications of each chain."""


@gs.kernel
def vector_add(t: Any, a: Any, b: Any, c: Any, n: Any) -> None:
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    if i < n:
        c[i] = a[i] + b[i]


@gs.block_kernel
def vector_add_blocks(blk: gs.Block, a: gs.DeviceArray, b: gs.DeviceArray, c: gs.DeviceArray, n: int) -> None:
    i = blk.bx * blk.bdx + blk.tx
    m = i < n
    blk.store(c, i, blk.load(a, i, mask=m) + blk.load(b, i, mask=m), mask=m)


@gs.block_kernel
def strided_reads(blk: gs.Block, a: gs.DeviceArray, c: gs.DeviceArray) -> None:
    i = blk.bx * blk.bdx + blk.tx
    blk.store(c, i, blk.load(a, i * STRIDE))


@gs.block_kernel
def reduction(blk: gs.Block, a: gs.DeviceArray, c: gs.DeviceArray) -> None:
    tile = blk.shared(THREADS)
    blk.sstore(tile, blk.tid, blk.load(a, blk.bx * THREADS + blk.tid))
    blk.sync()
    step = THREADS // 2
    while step:
        lower = blk.branch(blk.tid < step)
        with lower:
            blk.sstore(tile, blk.tid, blk.sload(tile, blk.tid) + blk.sload(tile, blk.tid + step))
        blk.sync()
        step //= 2
    with blk.branch(blk.tid == 0):
        blk.store(c, blk.bx, blk.sload(tile, blk.tid))


@gs.block_kernel
def chains(blk: gs.Block, c: gs.DeviceArray, length: int, ilp: int) -> None:
    """`ilp` chains of `length` multiplications, each of which waits for the one before."""
    values = [blk.tid.astype(np.float32) + np.float32(k) for k in range(ilp)]
    for _ in range(length):
        values = [v * np.float32(0.5) + np.float32(1) for v in values]
    blk.store(c, blk.bx * blk.bdx + blk.tx, sum(values[1:], start=values[0]))


@gs.kernel
def matmul_naive(t: Any, a: Any, b: Any, c: Any, n: Any) -> None:
    column = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    row = t.blockIdx.y * t.blockDim.y + t.threadIdx.y
    acc = 0.0
    for k in range(n):
        acc += a[row, k] * b[k, column]
    c[row, column] = acc


def tiled_matmul(tile: int) -> gs.ThreadKernel:
    """Multiply with tiles of `tile` × `tile` in shared memory."""

    @gs.kernel
    def matmul_tiled(t: Any, a: Any, b: Any, c: Any, n: Any) -> Any:
        tile_a = t.shared("tile_a", (tile, tile), np.float32)
        tile_b = t.shared("tile_b", (tile, tile), np.float32)
        x, y = t.threadIdx.x, t.threadIdx.y
        row, column = t.blockIdx.y * tile + y, t.blockIdx.x * tile + x
        acc = 0.0
        for first in range(0, n, tile):
            tile_a[y, x] = a[row, first + x]
            tile_b[y, x] = b[first + y, column]
            yield t.syncthreads()
            for k in range(tile):
                acc += tile_a[y, k] * tile_b[k, x]
            yield t.syncthreads()
        c[row, column] = acc

    return matmul_tiled


matmul_tiled = tiled_matmul(TILE)
matmul_tiled_32 = tiled_matmul(32)


Start = Callable[[], gs.Launch]
"""A launch, its arrays ready on the device."""


def filled(dev: gs.Device, *shape: int) -> gs.DeviceArray:
    array = dev.malloc(shape)
    dev.memset(array, 0)
    return array


def add_vectors(dev: gs.Device, n: int, kernel: Any = vector_add_blocks, block: int = THREADS, **how: Any) -> Start:
    a, b, c = (filled(dev, n) for _ in range(3))
    return partial(dev.launch, kernel, gs.cdiv(n, block), block, a, b, c, n, **how)


def read_with_stride(dev: gs.Device, n: int) -> Start:
    return partial(dev.launch, strided_reads, n // THREADS, THREADS, filled(dev, STRIDE * n), filled(dev, n))


def reduce(dev: gs.Device, n: int, **how: Any) -> Start:
    return partial(dev.launch, reduction, n // THREADS, THREADS, filled(dev, n), filled(dev, n // THREADS), **how)


def run_chains(dev: gs.Device, n: int, ilp: int = 1, length: int = LENGTH) -> Start:
    return partial(dev.launch, chains, n // THREADS, THREADS, filled(dev, n), length, ilp)


def multiply(dev: gs.Device, n: int, kernel: Any = matmul_tiled_32, tile: int = 32, **how: Any) -> Start:
    a, b, c = (filled(dev, n, n) for _ in range(3))
    return partial(dev.launch, kernel, (n // tile, n // tile), (tile, tile), a, b, c, n, **how)


class Case(NamedTuple):
    """A kernel with three sizes: for tests, for both engines, and for the compiled engine alone."""

    name: str
    prepare: Callable[[gs.Device, int], Start]
    tiny: int
    small: int
    large: int


CASES = (
    Case("vector add", add_vectors, 1 << 12, 1 << 17, 1 << 20),
    Case("stride-32 reads", read_with_stride, 1 << 11, 1 << 15, 1 << 20),
    Case("reduction", reduce, 1 << 11, 1 << 16, 1 << 20),
    Case("FFMA, 1 chain", run_chains, 1 << 11, 1 << 16, 1 << 20),
    Case("FFMA, 4 chains", partial(run_chains, ilp=4), 1 << 11, 1 << 15, 1 << 18),
    Case("tiled matmul, T = 32", multiply, 32, 128, 1024),
)

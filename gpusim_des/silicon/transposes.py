"""Transposes of a matrix of floats: by rows and columns directly, and through tiles in shared memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from gpusim_des.device import Device
from gpusim_des.functional.block_kernel import Block, BlockKernel, block_kernel
from gpusim_des.functional.memory import DeviceArray
from gpusim_des.gpu import GPU, occupancy
from gpusim_des.silicon.steady import kernel_of

TILE, ROWS = 32, 8
MOST = 8192
"""Rows and columns of the largest matrix that is simulated."""

WAVES = 8
"""Waves of blocks that are executed and simulated; the rest is estimated. A slice would not do: all channels take part
in what columns that lie a power of two apart do to them.
"""

MERGING_BYTES = 32 * 1024
"""L2 of an SM that is enough for the pieces of a sector which the warps of a block write to meet there."""


def _elements(blk: Block, tile: int, rows: int) -> list[tuple[Any, Any]]:
    """Column and row of the matrix for each of a thread's elements."""
    x, y = blk.bx * tile + blk.tx, blk.by * tile + blk.ty
    return [(x, y + shift) for shift in range(0, tile, rows)]


@block_kernel
def copy(blk: Block, a: DeviceArray, c: DeviceArray, n: int, tile: int, rows: int) -> None:
    """Rows to rows."""
    places = _elements(blk, tile, rows)
    values = [blk.load(a, y * n + x) for x, y in places]
    for (x, y), value in zip(places, values, strict=True):
        blk.store(c, y * n + x, value)


@block_kernel
def write_columns(blk: Block, a: DeviceArray, c: DeviceArray, n: int, tile: int, rows: int) -> None:
    """Reads rows, writes columns."""
    places = _elements(blk, tile, rows)
    values = [blk.load(a, y * n + x) for x, y in places]
    for (x, y), value in zip(places, values, strict=True):
        blk.store(c, x * n + y, value)


@block_kernel
def read_columns(blk: Block, a: DeviceArray, c: DeviceArray, n: int, tile: int, rows: int) -> None:
    """Reads columns, writes rows."""
    places = _elements(blk, tile, rows)
    values = [blk.load(a, x * n + y) for x, y in places]
    for (x, y), value in zip(places, values, strict=True):
        blk.store(c, y * n + x, value)


def through_tile(width: int) -> BlockKernel:
    """Reads and writes rows; a tile with rows of `width` words in between."""

    @block_kernel
    def tiled(blk: Block, a: DeviceArray, c: DeviceArray, n: int, tile: int, rows: int) -> None:
        held = blk.shared(TILE * width, np.float32)
        shifts = range(0, tile, rows)
        values = [blk.load(a, y * n + x) for x, y in _elements(blk, tile, rows)]
        for shift, value in zip(shifts, values, strict=True):
            blk.sstore(held, (blk.ty + shift) * width + blk.tx, value)
        blk.sync()
        x, y = blk.by * tile + blk.tx, blk.bx * tile + blk.ty
        turned = [blk.sload(held, blk.tx * width + blk.ty + shift) for shift in shifts]
        for shift, value in zip(shifts, turned, strict=True):
            blk.store(c, (y + shift) * n + x, value)

    return tiled


class Variant(NamedTuple):
    """A kernel and the shape of its blocks: `tile` columns, `rows` rows of threads."""

    kernel: BlockKernel
    tile: int
    rows: int


VARIANTS = {
    "copy": Variant(copy, TILE, ROWS),
    "16 × 16, strided writes": Variant(write_columns, 16, 16),
    "16 × 16, strided reads": Variant(read_columns, 16, 16),
    "strided writes": Variant(write_columns, TILE, ROWS),
    "tile": Variant(through_tile(TILE), TILE, ROWS),
    "padded tile": Variant(through_tile(TILE + 1), TILE, ROWS),
}


def _seconds(gpu: GPU, name: str, n: int) -> float:
    """Seconds of a transpose; the L2 is as small against the sampled blocks as the chip's is against all of them."""
    variant, columns = VARIANTS[name], min(n, MOST)
    threads, side = variant.tile * variant.rows, columns // variant.tile
    sampled = WAVES * gpu.sms * occupancy(gpu, threads).blocks_per_sm
    share = min(1.0, sampled / side**2) * (columns / n) ** 2
    chip = gpu.replace(l2_bytes=round(min(gpu.l2_bytes, max(gpu.sms * MERGING_BYTES, share * gpu.l2_bytes))))
    dev = Device(chip)
    a, c = dev.malloc((columns**2,), np.float32), dev.malloc((columns**2,), np.float32)
    dev.memset(a, 0)
    dev.forget_launches()
    args = a, c, columns, variant.tile, variant.rows
    dev.launch(variant.kernel, (side, side), (variant.tile, variant.rows), *args, registers=32, sample=WAVES)
    return kernel_of(dev).seconds * (n / columns) ** 2


def us_of_a_transpose(gpu: GPU, inputs: Mapping[str, Any]) -> float:
    """Microseconds of the ``kernel`` on a matrix of ``n`` × ``n``."""
    return 1e6 * _seconds(gpu, inputs["kernel"], inputs["n"])


def bandwidth_of_a_transpose(gpu: GPU, inputs: Mapping[str, Any]) -> float:
    """GB/s of the ``kernel`` on a matrix of ``n`` × ``n``, read and written once."""
    n: int = inputs["n"]
    return 8 * n**2 / _seconds(gpu, inputs["kernel"], n) / 1e9


REPRODUCTIONS: dict[str, Callable[[GPU, Mapping[str, Any]], float]] = {
    "us_of_a_transpose": us_of_a_transpose,
    "bandwidth_of_a_transpose": bandwidth_of_a_transpose,
}

"""Matrix products in single precision, from a thread for each element to tiles in registers; and A·Aᵀ."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from gpusim_des.device import Device
from gpusim_des.functional.block_kernel import Block, BlockKernel, block_kernel
from gpusim_des.functional.memory import DeviceArray, SharedArray
from gpusim_des.gpu import GPU
from gpusim_des.silicon.steady import kernel_of, part, seconds_per_step, streaming_part, whole
from gpusim_des.timeline import KernelTiming

UNROLLED = 4
"""The loads of four turns come before their multiply-adds, as compilers unroll such a loop."""


def _fma(blk: Block, total: Any, x: Any, y: Any) -> Any:
    """One multiply-add, declared: what compilers make of indices around it, offsets in the instructions, is free."""
    return blk.compute(1, value=total + x * y)


def _one_element(blk: Block, a: Any, b: Any, c: Any, row: Any, column: Any, n: int, depth: int) -> None:
    total: Any = blk.tx * np.float32(0)
    for k in range(0, depth, UNROLLED):
        left = [blk.load(a, row * depth + k + u) for u in range(UNROLLED)]
        right = [blk.load(b, (k + u) * n + column) for u in range(UNROLLED)]
        for x, y in zip(left, right, strict=True):
            total = _fma(blk, total, x, y)
        blk.branch(row >= 0)
    blk.store(c, row * n + column, total)


@block_kernel
def naive(blk: Block, a: DeviceArray, b: DeviceArray, c: DeviceArray, n: int, depth: int) -> None:
    """A thread for each element; neighbours in a warp compute neighbours of a column."""
    _one_element(blk, a, b, c, blk.bx * 32 + blk.tx % 32, blk.by * 32 + blk.tx // 32, n, depth)


@block_kernel
def coalesced(blk: Block, a: DeviceArray, b: DeviceArray, c: DeviceArray, n: int, depth: int) -> None:
    """The same; neighbours in a warp compute neighbours of a row."""
    _one_element(blk, a, b, c, blk.bx * 32 + blk.tx // 32, blk.by * 32 + blk.tx % 32, n, depth)


@block_kernel
def shared_tiles(blk: Block, a: DeviceArray, b: DeviceArray, c: DeviceArray, n: int, depth: int) -> None:
    """Tiles of 32 × 32 of both matrices in shared memory; a thread for each element."""
    left, right = blk.shared(1024, np.float32, name="left"), blk.shared(1024, np.float32, name="right")
    y, x = blk.tx // 32, blk.tx % 32
    row, column = blk.bx * 32 + y, blk.by * 32 + x
    total: Any = blk.tx * np.float32(0)
    for k in range(0, depth, 32):
        u, v = blk.load(a, row * depth + k + x), blk.load(b, (k + y) * n + column)
        blk.sstore(left, blk.tx, u)
        blk.sstore(right, blk.tx, v)
        blk.sync()
        for d in range(32):
            total = _fma(blk, total, blk.sload(left, y * 32 + d), blk.sload(right, d * 32 + x))
        blk.sync()
        blk.branch(row >= 0)
    blk.store(c, row * n + column, total)


FOUR = np.complex128
"""Sixteen bytes: what a lane loads from shared memory where the compiler joins four neighbouring words.

Their words cannot be told apart here, so the kernels that use it take the right time and compute no product.
"""


def _fours(blk: Block, array: SharedArray, first: Any, count: int) -> list[Any]:
    """`count` words of a row, from `first` on, four at a time; in `first` and `array` the unit is four words."""
    loaded = [blk.sload(array, first + k) for k in range(count // 4)]
    return [value for value in loaded for _ in range(4)]


@block_kernel
def strips(blk: Block, a: DeviceArray, b: DeviceArray, c: DeviceArray, n: int, depth: int) -> None:
    """Tiles of 64 × 8 and 8 × 64 in shared memory; a thread computes eight elements of a column.

    Along k the words of A's tile are neighbours, and the loop over them is unrolled.
    """
    left, right = blk.shared(128, FOUR, name="left"), blk.shared(512, np.float32, name="right")
    x, y = blk.tx % 64, blk.tx // 64
    row, column = blk.bx * 64, blk.by * 64
    totals: list[Any] = [blk.tx * np.float32(0)] * 8
    for k in range(0, depth, 8):
        u = blk.load(a, (row + blk.tx // 8) * depth + k + blk.tx % 8)
        v = blk.load(b, (k + y) * n + column + x)
        blk.sstore(left, blk.tx // 4, u, mask=blk.tx % 4 == 0)
        blk.sstore(right, blk.tx, v)
        blk.sync()
        across = [blk.sload(right, d * 64 + x) for d in range(8)]
        for i in range(8):
            for d, down in enumerate(_fours(blk, left, (y * 8 + i) * 2, 8)):
                totals[i] = _fma(blk, totals[i], down, across[d])
        blk.sync()
        blk.branch(row >= 0)
    for i, total in enumerate(totals):
        blk.store(c, (row + y * 8 + i) * n + column + x, np.absolute(total))


def _square_totals(blk: Block, totals: list[list[Any]], down: list[Any], across: list[Any]) -> None:
    """Add the products of a column of A and a row of B to a square of sums."""
    for i, left in enumerate(down):
        for j, right in enumerate(across):
            totals[i][j] = _fma(blk, totals[i][j], left, right)


def _store_square(blk: Block, c: DeviceArray, first: Any, n: int, totals: list[list[Any]]) -> None:
    for i, line in enumerate(totals):
        for j, total in enumerate(line):
            blk.store(c, first + i * n + j, np.absolute(total))


@block_kernel
def squares(blk: Block, a: DeviceArray, b: DeviceArray, c: DeviceArray, n: int, depth: int) -> None:
    """Tiles of 128 × 8 and 8 × 128 in shared memory; a thread computes a square of 8 × 8 elements.

    A row of B's tile is read four words at a time, a column of A's word by word.
    """
    left, right = blk.shared(1024, np.float32, name="left"), blk.shared(256, FOUR, name="right")
    x, y = blk.tx % 16, blk.tx // 16
    row, column = blk.bx * 128, blk.by * 128
    totals: list[list[Any]] = [[blk.tx * np.float32(0)] * 8 for _ in range(8)]
    for k in range(0, depth, 8):
        us = [blk.load(a, (row + blk.tx // 8 + 32 * q) * depth + k + blk.tx % 8) for q in range(4)]
        vs = [blk.load(b, (k + blk.tx // 128 + 2 * q) * n + column + blk.tx % 128) for q in range(4)]
        for q in range(4):
            blk.sstore(left, blk.tx + 256 * q, us[q])
            blk.sstore(right, (blk.tx + 256 * q) // 4, vs[q], mask=blk.tx % 4 == 0)
        blk.sync()
        for d in range(8):
            down = [blk.sload(left, (y * 8 + i) * 8 + d) for i in range(8)]
            _square_totals(blk, totals, down, _fours(blk, right, d * 32 + x * 2, 8))
        blk.sync()
        blk.branch(row >= 0)
    _store_square(blk, c, (row + y * 8) * n + column + x * 8, n, totals)


@block_kernel
def vectorized(blk: Block, a: DeviceArray, b: DeviceArray, c: DeviceArray, n: int, depth: int) -> None:
    """The same with A's tile stored turned, so that its columns are read four words at a time as well.

    Four words at a time are also what is loaded from global memory, once for each thread and tile.
    """
    left, right = blk.shared(256, FOUR, name="left"), blk.shared(256, FOUR, name="right")
    x, y = blk.tx % 16, blk.tx // 16
    row, column = blk.bx * 128, blk.by * 128
    totals: list[list[Any]] = [[blk.tx * np.float32(0)] * 8 for _ in range(8)]
    for k in range(0, depth, 8):
        u = blk.load(a, (row + blk.tx // 2) * depth // 4 + k // 4 + blk.tx % 2)
        v = blk.load(b, (k + blk.tx // 32) * n // 4 + column // 4 + blk.tx % 32)
        for _ in range(4):  # the four words go to four rows
            blk.sstore(left, blk.tx // 4 * 4, u, mask=blk.tx % 4 == 0)
        blk.sstore(right, blk.tx, v)
        blk.sync()
        for d in range(8):
            _square_totals(blk, totals, _fours(blk, left, d * 32 + y * 2, 8), _fours(blk, right, d * 32 + x * 2, 8))
        blk.sync()
        blk.branch(row >= 0)
    _store_square(blk, c, (row + y * 8) * n + column + x * 8, n, totals)


class Step(NamedTuple):
    """One rung of the ladder: a kernel and its launch."""

    kernel: BlockKernel
    tile: int
    threads: int
    registers: int
    """What the published kernels were compiled to, as far as their occupancy tells."""
    per_sm: int
    """Blocks on an SM."""
    depth: int
    """Steps along k whose time is taken."""
    loads: DTypeLike = np.float32
    """What a lane loads from A and B at a time."""


LADDER = {
    "naive": Step(naive, 32, 1024, 37, 1, 64),
    "coalesced": Step(coalesced, 32, 1024, 37, 1, 64),
    "shared tiles": Step(shared_tiles, 32, 1024, 37, 1, 64),
    "1-D register tiles": Step(strips, 64, 512, 40, 3, 64),
    "2-D register tiles": Step(squares, 128, 256, 128, 2, 32),
    "vectorized": Step(vectorized, 128, 256, 128, 2, 32, FOUR),
}
SMS = 2


def _product(gpu: GPU, step: Step, depth: int) -> KernelTiming:
    """Time one wave of blocks along a row of C; every block meets every line of its columns of B once, as on the chip.

    The L2 begins cold, which stands for matrices that are much larger.
    """
    blocks = step.per_sm * gpu.sms
    n = step.tile * blocks
    dev = Device(gpu)
    words = np.dtype(step.loads).itemsize // 4
    a = dev.to_device(np.zeros(step.tile * depth // words, step.loads))
    b = dev.to_device(np.zeros(depth * n // words, step.loads))
    c = dev.malloc(step.tile * n)
    dev.forget_launches()
    dev.launch(step.kernel, (1, blocks), step.threads, a, b, c, n, depth, registers=step.registers, count="declared")
    return kernel_of(dev)


def gflops_of_a_product(gpu: GPU, inputs: Mapping[str, Any]) -> float:
    """GFLOP/s of the ``kernel`` in the steady state along k."""
    small, step = part(gpu, SMS), LADDER[inputs["kernel"]]
    seconds = seconds_per_step(lambda depth: _product(small, step, depth), step.depth)
    return 2 * step.tile**2 * step.per_sm * small.sms / seconds * whole(gpu, small) / 1e9


def sectors_per_step(gpu: GPU, inputs: Mapping[str, Any]) -> float:
    """Sectors that a warp of the ``kernel`` asks for in each step along k."""
    step, depth = LADDER[inputs["kernel"]], 8
    dev = Device(part(gpu, 1))
    a, b = (dev.to_device(np.zeros(step.tile * depth, np.float32)) for _ in range(2))
    c = dev.malloc(step.tile**2)
    counters = dev.launch(step.kernel, (1, 1), step.threads, a, b, c, step.tile, depth, registers=32).counters
    return int(counters.global_load_sectors) / (step.threads // 32 * depth)


# A times A transposed, and A times B, both 32 deep --------------------------------------------------------------------

DEPTH = 32


@block_kernel
def from_memory(blk: Block, a: DeviceArray, b: DeviceArray, c: DeviceArray, n: int, transposed: int) -> None:
    """Everything from global memory; a transposed second matrix is read with a stride of 32 floats."""
    y, x = blk.tx // 32, blk.tx % 32
    row, column = blk.by * 32 + y, blk.bx * 32 + x
    total: Any = 0.0
    for k in range(0, DEPTH, UNROLLED):
        left = [blk.load(a, row * DEPTH + k + u) for u in range(UNROLLED)]
        right = [blk.load(b, column * DEPTH + k + u if transposed else (k + u) * n + column) for u in range(UNROLLED)]
        for u, v in zip(left, right, strict=True):
            total = total + u * v
    blk.store(c, row * n + column, total)


@block_kernel
def left_tile(blk: Block, a: DeviceArray, b: DeviceArray, c: DeviceArray, n: int) -> None:
    """The tile of A in shared memory, which the warp that reads it has loaded itself."""
    left = blk.shared(1024, np.float32)
    y, x = blk.tx // 32, blk.tx % 32
    row, column = blk.by * 32 + y, blk.bx * 32 + x
    blk.sstore(left, blk.tx, blk.load(a, row * DEPTH + x))
    blk.syncwarp()
    total: Any = 0.0
    for k in range(0, DEPTH, UNROLLED):
        right = [blk.load(b, (k + u) * n + column) for u in range(UNROLLED)]
        for u, v in enumerate(right):
            total = total + blk.sload(left, y * 32 + k + u) * v
    blk.store(c, row * n + column, total)


def both_tiles(width: int, *, transposed: bool) -> BlockKernel:
    """Both tiles in shared memory; a transposed second one has rows of `width` words."""

    @block_kernel
    def tiles(blk: Block, a: DeviceArray, b: DeviceArray, c: DeviceArray, n: int) -> None:
        left, right = blk.shared(1024, np.float32, name="left"), blk.shared(32 * width, np.float32, name="right")
        y, x = blk.tx // 32, blk.tx % 32
        row, column = blk.by * 32 + y, blk.bx * 32 + x
        blk.sstore(left, blk.tx, blk.load(a, row * DEPTH + x))
        if transposed:
            blk.sstore(right, x * width + y, blk.load(b, (blk.bx * 32 + y) * DEPTH + x))
        else:
            blk.sstore(right, y * width + x, blk.load(b, y * n + column))
        blk.sync()
        total: Any = 0.0
        for k in range(DEPTH):
            total = total + blk.sload(left, y * 32 + k) * blk.sload(right, k * width + x)
        blk.store(c, row * n + column, total)

    return tiles


def rate_of_thin_products(gpu: GPU, inputs: Mapping[str, Any]) -> float:
    """Bandwidth of the ``kernel``, up to a factor that all of them share: blocks of C a second, in thousands."""
    name = inputs["kernel"]
    small = streaming_part(gpu, SMS)
    kernels: dict[str, tuple[BlockKernel, tuple[int, ...]]] = {
        "A·Aᵀ, from memory": (from_memory, (1,)),
        "A·Aᵀ, tiles": (both_tiles(32, transposed=True), ()),
        "A·Aᵀ, padded tiles": (both_tiles(33, transposed=True), ()),
        "A·B, from memory": (from_memory, (0,)),
        "A·B, tile of A": (left_tile, ()),
        "A·B, both tiles": (both_tiles(32, transposed=False), ()),
    }
    kernel, more = kernels[name]
    per_row = 2 * small.sms

    def run(rows: int) -> KernelTiming:
        n = 32 * per_row
        dev = Device(small)
        a = dev.to_device(np.zeros(rows * 32 * DEPTH, np.float32))
        b = dev.to_device(np.zeros(DEPTH * n, np.float32))
        c = dev.malloc(rows * 32 * n)
        dev.forget_launches()
        dev.launch(kernel, (per_row, rows), 1024, a, b, c, n, *more, registers=32)
        return kernel_of(dev)

    return per_row / seconds_per_step(run, 6) / 1e3


REPRODUCTIONS: dict[str, Callable[[GPU, Mapping[str, Any]], float]] = {
    "gflops_of_a_product": gflops_of_a_product,
    "sectors_per_step": sectors_per_step,
    "rate_of_thin_products": rate_of_thin_products,
}

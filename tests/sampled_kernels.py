"""Kernels of which samples are compared with the whole: even ones, and such whose blocks differ in every way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gpusim_des as gs
from tests import ten_kernels

f32 = np.float32


@gs.kernel
def chains(t: Any, c: Any, length: int) -> None:
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    x = f32(i)
    for _ in range(length):
        x = x * f32(0.5) + f32(1)
    c[i] = x


@gs.kernel
def work_list(t: Any, steps: Any, c: Any) -> None:
    """Arithmetic, as much as the list says of the block."""
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    x = f32(i)
    for _ in range(steps[t.blockIdx.x]):
        x = x * f32(0.5) + f32(1)
    c[i] = x


@gs.kernel
def load_list(t: Any, steps: Any, a: Any, c: Any, size: int) -> None:
    """Loads all over an array, as many as the list says of the block."""
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    x = f32(0)
    for k in range(steps[t.blockIdx.x]):
        x += a[(i + k * 7919 * 32) % size]
    c[i] = x


@gs.kernel
def thread_list(t: Any, steps: Any, c: Any) -> None:
    """Arithmetic, as much as the list says of the thread: warps diverge."""
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    x = f32(i)
    for _ in range(steps[i]):
        x = x * f32(0.5) + f32(1)
    c[i] = x


@gs.kernel
def mandelbrot(t: Any, c: Any, width: int, height: int, limit: int) -> None:
    px = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    py = t.blockIdx.y * t.blockDim.y + t.threadIdx.y
    x0 = f32(px) / f32(width) * f32(3.5) - f32(2.5)
    y0 = f32(py) / f32(height) * f32(2) - f32(1)
    x = f32(0)
    y = f32(0)
    n = 0
    while n < limit and x * x + y * y <= f32(4):
        next_x = x * x - y * y + x0
        y = f32(2) * x * y + y0
        x = next_x
        n += 1
    c[py * width + px] = n


@gs.kernel
def triangular(t: Any, a: Any, v: Any, c: Any, n: int) -> None:
    """Product of a lower triangular matrix, stored by columns, and a vector."""
    row = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    total = f32(0)
    for k in range((t.blockIdx.x + 1) * t.blockDim.x):
        if k <= row:
            total += a[k * n + row] * v[k]
    c[row] = total


Launcher = Callable[[gs.Device, Any], gs.Launch]
"""Launches a kernel on a device with a `sample`."""


def wave_of(gpu: gs.GPU, threads: int, registers: int = 32, shared: int = 0) -> int:
    """Blocks that a GPU holds at a time."""
    return (
        int(gs.analytic.occupancy(gpu, threads=threads, registers=registers, shared_bytes=shared).blocks_per_sm)
        * gpu.sms
    )


def vector_add(blocks: int, threads: int = 256) -> Launcher:
    def launch(dev: gs.Device, sample: Any) -> gs.Launch:
        n = blocks * threads
        a, b, c = (dev.malloc(n, f32, name) for name in "abc")
        return dev.launch(ten_kernels.vector_add, blocks, threads, a, b, c, n, registers=24, sample=sample)

    return launch


def strided_copy(blocks: int, stride: int) -> Launcher:
    def launch(dev: gs.Device, sample: Any) -> gs.Launch:
        n = blocks * 256
        a, c = dev.malloc(n * stride), dev.malloc(n)
        return dev.launch(ten_kernels.strided_copy, blocks, 256, a, c, n, stride, registers=24, sample=sample)

    return launch


def fp32_chains(blocks: int, length: int, threads: int = 256) -> Launcher:
    def launch(dev: gs.Device, sample: Any) -> gs.Launch:
        return dev.launch(chains, blocks, threads, dev.malloc(blocks * threads), length, registers=32, sample=sample)

    return launch


def reduction(blocks: int) -> Launcher:
    def launch(dev: gs.Device, sample: Any) -> gs.Launch:
        a, c = dev.malloc(blocks * 256), dev.malloc(blocks)
        return dev.launch(ten_kernels.reduction, blocks, 256, a, c, registers=24, sample=sample)

    return launch


def histogram(blocks: int, bins: int, seed: int = 1) -> Launcher:
    def launch(dev: gs.Device, sample: Any) -> gs.Launch:
        n = blocks * 256
        a = dev.to_device(np.random.default_rng(seed).integers(0, bins, n).astype(np.int32))
        counts = dev.to_device(np.zeros(bins, np.int32))
        dev.forget_launches()
        return dev.launch(ten_kernels.hot_histogram, blocks, 256, a, counts, n, registers=24, sample=sample)

    return launch


def matmul(n: int, *, tiled: bool) -> Launcher:
    kernel, block = (ten_kernels.tiled_matmul, (16, 16)) if tiled else (ten_kernels.naive_matmul, (32, 8))

    def launch(dev: gs.Device, sample: Any) -> gs.Launch:
        matrices = [dev.malloc(n * n) for _ in range(3)]
        return dev.launch(kernel, (n // block[0], n // block[1]), block, *matrices, n, registers=32, sample=sample)

    return launch


def listed(kernel: gs.ThreadKernel, steps: NDArray[np.int64], threads: int = 256, size: int = 1 << 18) -> Launcher:
    """Launch a kernel that does as much as a list says, of blocks or of threads."""

    def launch(dev: gs.Device, sample: Any) -> gs.Launch:
        blocks = len(steps) // (threads if kernel is thread_list else 1)
        arrays = [dev.to_device(steps.astype(np.int32)), dev.malloc(blocks * threads)]
        if kernel is load_list:
            arrays.insert(1, dev.malloc(size))
        dev.forget_launches()
        more = [size] if kernel is load_list else []
        return dev.launch(kernel, blocks, threads, *arrays, *more, registers=32, sample=sample)

    return launch


def picture(width: int, height: int, limit: int) -> Launcher:
    def launch(dev: gs.Device, sample: Any) -> gs.Launch:
        c = dev.malloc(width * height, np.int32)
        grid = width // 16, height // 16
        return dev.launch(mandelbrot, grid, (16, 16), c, width, height, limit, registers=32, sample=sample)

    return launch


def triangle(n: int) -> Launcher:
    """Reserve shared memory, so that few blocks fit on an SM, and a matrix of moderate size has many waves."""

    def launch(dev: gs.Device, sample: Any) -> gs.Launch:
        a, v, c = dev.malloc(n * n), dev.malloc(n), dev.malloc(n)
        reserve = dev.gpu.shared_bytes_per_block_optin // 2 - 1024
        return dev.launch(triangular, n // 32, 32, a, v, c, n, registers=32, dynamic_shared=reserve, sample=sample)

    return launch


def regular_cases(gpu: gs.GPU) -> dict[str, Launcher]:
    """Kernels whose blocks are alike, tens of waves of each."""
    blocks = 44 * wave_of(gpu, 256, 24) + 3
    return {
        "vector add": vector_add(3 * blocks),
        "strided copy": strided_copy(2 * blocks, 8),
        "reduction": reduction(blocks),
        "fp32 chains": fp32_chains(blocks, 40),
        "histogram": histogram(blocks, 256),
    }


def irregular_cases(gpu: gs.GPU) -> dict[str, Launcher]:
    """Kernels whose blocks differ: in proportion to their number, at random, by a step, at the end, by their data."""
    wave, draw = wave_of(gpu, 256), np.random.default_rng(6)
    blocks, longer = 40 * wave + 5, 110 * wave + 5
    number, more = np.arange(blocks), np.arange(longer)
    tenth, tenth_more = draw.random(blocks) < 0.1, draw.random(longer) < 0.1
    last = np.full(blocks, 20)
    last[-1] = 1_000
    return {
        "work grows with the block number": listed(work_list, 1 + number * 50 // blocks),
        "one block in ten has ten times the work": listed(work_list, np.where(tenth, 60, 6)),
        "the first half is heavy": listed(work_list, np.where(number < blocks // 2, 40, 4)),
        "the last block is heavy": listed(work_list, last),
        "a heavy stretch": listed(work_list, np.where((number > 0.4 * blocks) & (number < 0.55 * blocks), 60, 5)),
        "loads grow with the block number": listed(load_list, 1 + more * 8 // longer),
        "one block in ten has ten times the loads": listed(load_list, np.where(tenth_more, 20, 2)),
    }


def long_cases(gpu: gs.GPU) -> dict[str, tuple[Launcher, bool]]:
    """Kernels that take long to execute, and whether their blocks are alike."""
    draw = np.random.default_rng(6)
    threads = np.minimum(draw.exponential(6, 40 * wave_of(gpu, 64) * 64), 60).astype(np.int64)
    return {
        "work of every thread from a list": (listed(thread_list, threads, 64), False),
        "naive matmul": (matmul(256, tiled=False), True),
        "tiled matmul": (matmul(512, tiled=True), True),
        "mandelbrot": (picture(512, 512, 40), False),
        "triangular matrix": (triangle(1920), False),
    }

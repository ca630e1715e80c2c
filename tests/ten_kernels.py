"""Ten kernels whose bottleneck an expert knows, at sizes that a slice of an H100 takes seconds for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import gpusim_des as gs
from gpusim_des.timing import simulate as timing

SMS = 4


@gs.kernel
def vector_add(t: Any, a: Any, b: Any, c: Any, n: int) -> None:
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    if i < n:
        c[i] = a[i] + b[i]


@gs.kernel
def strided_copy(t: Any, a: Any, c: Any, n: int, stride: int) -> None:
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    if i < n:
        c[i] = a[i * stride]


@gs.kernel
def naive_matmul(t: Any, a: Any, b: Any, c: Any, n: int) -> None:
    """Neighbouring threads compute neighbouring rows: column accesses of a and c are not coalesced."""
    row = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    column = t.blockIdx.y * t.blockDim.y + t.threadIdx.y
    total = np.float32(0)
    for k in range(n):
        total += a[row * n + k] * b[k * n + column]
    c[row * n + column] = total


@gs.kernel
def tiled_matmul(t: Any, a: Any, b: Any, c: Any, n: int) -> Any:
    tile_a = t.shared("a", (16, 16), np.float32)
    tile_b = t.shared("b", (16, 16), np.float32)
    x, y = t.threadIdx.x, t.threadIdx.y
    row, column = t.blockIdx.y * 16 + y, t.blockIdx.x * 16 + x
    total = np.float32(0)
    for k in range(n // 16):
        tile_a[y, x] = a[row * n + k * 16 + x]
        tile_b[y, x] = b[(k * 16 + y) * n + column]
        yield t.syncthreads()
        for j in range(16):
            total += tile_a[y, j] * tile_b[j, x]
        yield t.syncthreads()
    c[row * n + column] = total


@gs.kernel
def transpose(t: Any, a: Any, c: Any, n: int) -> Any:
    """Through a tile of 32 columns: its rows all begin in the same bank. Many passes, to let them weigh."""
    tile = t.shared("tile", (32, 32), np.float32)
    x, y = t.threadIdx.x, t.threadIdx.y
    for _repeat in range(4):
        for j in range(0, 32, 8):
            tile[y + j, x] = a[(t.blockIdx.y * 32 + y + j) * n + t.blockIdx.x * 32 + x]
        yield t.syncthreads()
        for j in range(0, 32, 8):
            c[(t.blockIdx.x * 32 + y + j) * n + t.blockIdx.y * 32 + x] = tile[x, y + j]
        yield t.syncthreads()


@gs.kernel
def reduction(t: Any, a: Any, c: Any) -> Any:
    tile = t.shared("tile", (256,), np.float32)
    x = t.threadIdx.x
    tile[x] = a[t.blockIdx.x * 256 + x]
    yield t.syncthreads()
    step = 128
    while step > 0:
        if x < step:
            tile[x] += tile[x + step]
        yield t.syncthreads()
        step //= 2
    if x == 0:
        c[t.blockIdx.x] = tile[0]


@gs.kernel
def hot_histogram(t: Any, a: Any, bins: Any, n: int) -> None:
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    if i < n:
        bins.atomic_add(a[i], 1)


@gs.kernel
def divergent_loop(t: Any, a: Any) -> None:
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    value = np.float32(1)
    for _ in range(4 * (t.lane + 1)):
        value = value * np.float32(0.5) + np.float32(1)
    a[i] = value


@gs.kernel
def fp64_chain(t: Any, a: Any) -> None:
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    x, y = a[i], a[i] + 1.0
    for _ in range(64):
        x = x * 0.5 + 1.0
        y = y * 0.5 + 1.0
    a[i] = x + y


def _floats(dev: gs.Device, count: int) -> gs.DeviceArray:
    return dev.to_device(np.ones(count, np.float32))


def _launch_vector_add(dev: gs.Device) -> None:
    n = 1 << 17
    dev.launch(vector_add, n // 256, 256, _floats(dev, n), _floats(dev, n), dev.malloc(n, np.float32), n, registers=24)


def _launch_strided_copy(dev: gs.Device) -> None:
    n = 1 << 14
    dev.launch(strided_copy, n // 256, 256, _floats(dev, 32 * n), dev.malloc(n, np.float32), n, 32, registers=24)


def _launch_naive_matmul(dev: gs.Device) -> None:
    n = 64
    dev.launch(naive_matmul, (n // 32, n // 8), (32, 8), *(_floats(dev, n * n) for _ in range(3)), n, registers=32)


def _launch_tiled_matmul(dev: gs.Device) -> None:
    n = 128
    dev.launch(tiled_matmul, (n // 16, n // 16), (16, 16), *(_floats(dev, n * n) for _ in range(3)), n, registers=32)


def _launch_transpose(dev: gs.Device) -> None:
    n = 256
    dev.launch(
        transpose, (n // 32, n // 32), (32, 8), _floats(dev, n * n), dev.malloc(n * n, np.float32), n, registers=32
    )


def _launch_reduction(dev: gs.Device) -> None:
    dev.launch(reduction, 256, 256, _floats(dev, 256 * 256), dev.malloc(256, np.float32), registers=24)


def _launch_hot_histogram(dev: gs.Device) -> None:
    n = 1 << 14
    data = dev.to_device(np.zeros(n, np.int32))
    dev.launch(hot_histogram, n // 256, 256, data, dev.to_device(np.zeros(16, np.int32)), n, registers=24)


def _launch_divergent_loop(dev: gs.Device) -> None:
    dev.launch(divergent_loop, 64, 128, dev.malloc(64 * 128, np.float32), registers=24)


def _launch_tiny_grid(dev: gs.Device) -> None:
    n = 256
    dev.launch(vector_add, 1, 256, _floats(dev, n), _floats(dev, n), dev.malloc(n, np.float32), n, registers=24)


def _launch_fp64_chain(dev: gs.Device) -> None:
    dev.launch(fp64_chain, 64, 256, dev.to_device(np.ones(64 * 256)), registers=32)


KERNELS: dict[str, Callable[[gs.Device], None]] = {
    "vector add": _launch_vector_add,
    "strided copy": _launch_strided_copy,
    "naive matmul": _launch_naive_matmul,
    "tiled matmul": _launch_tiled_matmul,
    "transpose with conflicts": _launch_transpose,
    "reduction": _launch_reduction,
    "histogram with one hot bin": _launch_hot_histogram,
    "divergent loop": _launch_divergent_loop,
    "tiny grid": _launch_tiny_grid,
    "fp64 chain": _launch_fp64_chain,
}


def simulate(name: str, gpu: str = "h100-sxm") -> gs.Simulation:
    """Run one of the ten on a slice of a GPU."""
    dev = gs.Device(gs.load_gpu(gpu).slice(sms=SMS))
    KERNELS[name](dev)
    # The kernels alone: the copies before them would leave the data in the L2.
    timeline = timing.simulate(dev.gpu, [launch.trace for launch in dev.launches], detail="kernel")
    return gs.Simulation(timeline, "simpy")

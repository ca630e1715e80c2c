"""Speed of the functional executor, as figures and ratios within one run; nothing here passes or fails.

python tests/benchmarks/executor.py [--large]
"""

import argparse
import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import gpusim_des as gs
from gpusim_des.functional import executor

TILE = 16


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


@gs.kernel
def matmul_naive(t: Any, a: Any, b: Any, c: Any, n: Any) -> None:
    column = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    row = t.blockIdx.y * t.blockDim.y + t.threadIdx.y
    acc = 0.0
    for k in range(n):
        acc += a[row, k] * b[k, column]
    c[row, column] = acc


@gs.kernel
def matmul_tiled(t: Any, a: Any, b: Any, c: Any, n: Any) -> Any:
    tile_a = t.shared("tile_a", (TILE, TILE), np.float32)
    tile_b = t.shared("tile_b", (TILE, TILE), np.float32)
    x, y = t.threadIdx.x, t.threadIdx.y
    row, column = t.blockIdx.y * TILE + y, t.blockIdx.x * TILE + x
    acc = 0.0
    for m in range(n // TILE):
        tile_a[y, x] = a[row, m * TILE + x]
        tile_b[y, x] = b[m * TILE + y, column]
        yield t.syncthreads()
        for k in range(TILE):
            acc += tile_a[y, k] * tile_b[k, x]
        yield t.syncthreads()
    c[row, column] = acc


def best(action: Callable[[], gs.Launch], runs: int = 3) -> tuple[float, gs.Launch]:
    """Shortest time of some runs, in seconds, and the last launch."""
    shortest, launch = float("inf"), None
    for _ in range(runs):
        start = time.perf_counter()
        launch = action()
        shortest = min(shortest, time.perf_counter() - start)
    assert launch is not None
    return shortest, launch


def report(name: str, seconds: float, launch: gs.Launch) -> None:
    c = launch.counters
    accesses = c.thread_loads + c.thread_stores + c.thread_atomics + c.shared_accesses
    print(
        f"{name:<44}{seconds:>9.3f} s{c.threads / seconds / 1e6:>10.3f} M threads/s"
        f"{accesses / seconds / 1e6:>10.2f} M accesses/s"
    )


def add(kernel: Any, n: int, block: int, **options: Any) -> Callable[[], gs.Launch]:
    def action() -> gs.Launch:
        return dev.launch(kernel, gs.cdiv(n, block), block, a, b, c, n, **options)

    dev = gs.Device("h100-sxm")
    a, b, c = dev.to_device(np.ones(n, np.float32)), dev.to_device(np.ones(n, np.float32)), dev.malloc(n, np.float32)
    return action


def matmul(kernel: Any, n: int, **options: Any) -> Callable[[], gs.Launch]:
    def action() -> gs.Launch:
        return dev.launch(kernel, (n // TILE, n // TILE), (TILE, TILE), a, b, c, n, **options)

    dev = gs.Device("h100-sxm")
    a, b = (dev.to_device(np.ones((n, n), np.float32)) for _ in range(2))
    c = dev.malloc((n, n), np.float32)
    return action


def main(*, large: bool) -> None:
    if large:
        action = add(vector_add_blocks, 1 << 26, 256)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        seconds, launch = best(action, runs=1)
        report("block style, vector add 2^26", seconds, launch)
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**20
        print(f"{'':<44}{grown:.2f} GiB beyond its arrays, {launch.trace.spilled_bytes / 2**20:.0f} MiB spilled")
        for kernel in (matmul_naive, matmul_tiled):
            seconds, launch = best(matmul(kernel, 512), runs=1)
            report(f"{kernel.name} n = 512", seconds, launch)
    fast, launch = best(add(vector_add, 1 << 20, 256))
    report("thread style, vector add 2^20, vectorized", fast, launch)
    slow, launch = best(add(vector_add, 1 << 13, 256, vectorize=False), runs=1)
    report("thread style, vector add 2^13, interpreted", slow, launch)
    print(f"{'':<44}vectorized is {(1 << 20) / fast / ((1 << 13) / slow):,.0f} times as fast")
    seconds, launch = best(matmul(matmul_tiled, 128))
    report("thread style, tiled matmul n = 128", seconds, launch)
    at_once, launch = best(add(vector_add_blocks, 1 << 18, 64))
    report("block style, 64-thread blocks, many at once", at_once, launch)
    executor.CHUNK_THREADS = 64
    alone, launch = best(add(vector_add_blocks, 1 << 18, 64), runs=1)
    report("block style, 64-thread blocks, one by one", alone, launch)
    executor.CHUNK_THREADS = 1 << 16
    print(f"{'':<44}many at once is {alone / at_once:.1f} times as fast")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true", help="n = 512 matmuls and a vector add of 2^26 elements")
    main(large=parser.parse_args().large)

"""The same kernel in both styles: equal results, sectors, wavefronts, barriers and branches."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpusim_des as gs

TILE = 16
PITCH = TILE + 1


@gs.kernel
def transpose(t: Any, a: Any, out: Any, n: Any) -> Any:
    tile = t.shared("tile", (TILE, PITCH), np.float32)
    x, y = t.threadIdx.x, t.threadIdx.y
    tile[y, x] = a[t.blockIdx.y * TILE + y, t.blockIdx.x * TILE + x]
    yield t.syncthreads()
    out[t.blockIdx.x * TILE + y, t.blockIdx.y * TILE + x] = tile[x, y]


@gs.block_kernel
def transpose_blocks(blk: gs.Block, a: gs.DeviceArray, out: gs.DeviceArray, n: int) -> None:
    tile = blk.shared((TILE, PITCH), np.float32)
    blk.sstore(tile, (blk.ty, blk.tx), blk.load(a, (blk.by * TILE + blk.ty, blk.bx * TILE + blk.tx)))
    blk.sync()
    blk.store(out, (blk.bx * TILE + blk.ty, blk.by * TILE + blk.tx), blk.sload(tile, (blk.tx, blk.ty)))


@gs.kernel
def matmul(t: Any, a: Any, out: Any, n: Any) -> Any:
    left = t.shared("left", (TILE, TILE), np.float32)
    right = t.shared("right", (TILE, TILE), np.float32)
    x, y = t.threadIdx.x, t.threadIdx.y
    row, column = t.blockIdx.y * TILE + y, t.blockIdx.x * TILE + x
    acc = 0.0
    for m in range(n // TILE):
        left[y, x] = a[row, m * TILE + x]
        right[y, x] = a[m * TILE + y, column]
        yield t.syncthreads()
        for k in range(TILE):
            acc += left[y, k] * right[k, x]
        yield t.syncthreads()
    out[row, column] = acc


@gs.block_kernel
def matmul_blocks(blk: gs.Block, a: gs.DeviceArray, out: gs.DeviceArray, n: int) -> None:
    left, right = blk.shared((TILE, TILE), np.float32), blk.shared((TILE, TILE), np.float32)
    row, column = blk.by * TILE + blk.ty, blk.bx * TILE + blk.tx
    acc: Any = np.float32(0)
    for m in range(n // TILE):
        blk.sstore(left, (blk.ty, blk.tx), blk.load(a, (row, m * TILE + blk.tx)))
        blk.sstore(right, (blk.ty, blk.tx), blk.load(a, (m * TILE + blk.ty, column)))
        blk.sync()
        for k in range(TILE):
            acc = acc + blk.sload(left, (blk.ty, k)) * blk.sload(right, (k, blk.tx))
        blk.sync()
    blk.store(out, (row, column), acc)


@gs.kernel
def block_sums(t: Any, a: Any, out: Any, n: Any) -> Any:
    s = t.shared("s", 128, np.float32)
    i = t.threadIdx.x
    s[i] = a[t.blockIdx.x * t.blockDim.x + i]
    yield t.syncthreads()
    half = 64
    while half > 0:
        if i < half:
            s[i] += s[i + half]
        yield t.syncthreads()
        half //= 2
    if i == 0:
        out[t.blockIdx.x] = s[0]


@gs.block_kernel
def block_sums_blocks(blk: gs.Block, a: gs.DeviceArray, out: gs.DeviceArray, n: int) -> None:
    s = blk.shared(128, np.float32)
    i = blk.tx
    blk.sstore(s, i, blk.load(a, blk.bx * blk.bdx + i))
    blk.sync()
    half = 64
    while half > 0:
        with blk.branch(i < half):
            total = blk.sload(s, i) + blk.sload(s, i + half)
            blk.sstore(s, i, total)
        blk.sync()
        half //= 2
    with blk.branch(i == 0):
        blk.store(out, blk.bx, blk.sload(s, 0))


@gs.kernel
def histogram(t: Any, a: Any, out: Any, n: Any) -> None:
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    if i < n:
        out.atomic_add(int(a[i]) % 7, 1)


@gs.block_kernel
def histogram_blocks(blk: gs.Block, a: gs.DeviceArray, out: gs.DeviceArray, n: int) -> None:
    i = blk.bx * blk.bdx + blk.tx
    with blk.branch(i < n):
        blk.atomic_add(out, blk.load(a, i).astype(np.int32) % 7, 1)


SQUARE = np.arange(64 * 64, dtype=np.float32).reshape(64, 64) % 5
LINE = np.arange(1000, dtype=np.float32)

CASES: dict[str, tuple[Any, Any, Any, Any, Any, Any, Callable[[], Any]]] = {
    "transpose": (transpose, transpose_blocks, (4, 4), (TILE, TILE), SQUARE, SQUARE * 0, lambda: SQUARE.T),
    "matmul": (matmul, matmul_blocks, (4, 4), (TILE, TILE), SQUARE, SQUARE * 0, lambda: SQUARE @ SQUARE),
    "block_sums": (
        *(block_sums, block_sums_blocks, 8, 128),
        *(np.ones(1024, np.float32), np.zeros(8, np.float32), lambda: np.full(8, 128)),
    ),
    "histogram": (
        *(histogram, histogram_blocks, 8, 128, LINE, np.zeros(7, np.int32)),
        lambda: np.bincount(np.arange(1000) % 7),
    ),
}

EQUAL = (
    "blocks threads global_load_requests global_load_sectors global_store_requests global_store_sectors "
    "global_atomic_requests global_atomic_sectors atomic_serialization shared_requests shared_wavefronts "
    "shared_ideal_wavefronts barriers shared_bytes_per_block distinct_sectors thread_loads thread_stores"
)


@pytest.mark.parametrize("name", CASES)
def test_equal_results_sectors_and_wavefronts(name: str) -> None:
    in_threads, in_blocks, grid, block, source, target, expected = CASES[name]
    launches = []
    for kernel in (in_threads, in_blocks):
        dev = gs.Device("h100-sxm")
        a, out = dev.to_device(source), dev.to_device(target)
        launches.append(dev.launch(kernel, grid, block, a, out, 1000 if name == "histogram" else 64))
        assert np.array_equal(dev.to_host(out), expected())
    first, second = ({counter: getattr(launch.counters, counter) for counter in EQUAL.split()} for launch in launches)
    assert first == second
    for one, other in zip(*(launch.trace for launch in launches), strict=True):
        for w1, w2 in zip(one, other, strict=True):
            assert w1.footprint.quarter_cycles.tolist() == w2.footprint.quarter_cycles.tolist()
            offset = [w.footprint.offsets.tolist() for w in (w1, w2)]
            assert offset[0] == offset[1]


def test_matmul_loads_what_the_formula_says() -> None:
    """Tiled: 2 n^3 / T elements; naive would be 2 n^3."""
    dev = gs.Device("h100-sxm")
    a, out = dev.to_device(SQUARE), dev.malloc((64, 64))
    assert dev.launch(matmul, (4, 4), (TILE, TILE), a, out, 64).counters.thread_loads == 2 * 64**3 // TILE


@gs.kernel
def naive(t: Any, a: Any, out: Any, n: Any) -> None:
    row = t.blockIdx.y * TILE + t.threadIdx.y
    column = t.blockIdx.x * TILE + t.threadIdx.x
    acc = 0.0
    for k in range(n):
        acc += a[row, k] * a[k, column]
    out[row, column] = acc


def test_naive_matmul_loads_every_element_it_multiplies() -> None:
    dev = gs.Device("h100-sxm")
    a, out = dev.to_device(SQUARE), dev.malloc((64, 64))
    launch = dev.launch(naive, (4, 4), (TILE, TILE), a, out, 64)
    assert launch.counters.thread_loads == 2 * 64**3
    assert np.array_equal(dev.to_host(out), SQUARE @ SQUARE)

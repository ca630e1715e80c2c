"""Kernels with a performance mistake, and near misses without it."""

from __future__ import annotations

from typing import Any

import numpy as np

import gpusim_des as gs


def advice_of(launch: gs.Launch) -> list[str]:
    """Names of the checks that had something to say, worst first."""
    return [advice.check for advice in launch.advice()]


def number_of(kernel: Any, text: str) -> int:
    """Source line of a kernel that contains a text."""
    code = kernel.function.__code__
    with open(code.co_filename) as source:  # noqa: PTH123 - a path would be no shorter
        lines = source.read().splitlines()
    return next(n for n, line in enumerate(lines, 1) if n >= code.co_firstlineno and text in line)


@gs.kernel
def by_column(t: Any, a: Any, out: Any, n: int) -> None:
    x, y = t.blockIdx.x * 32 + t.threadIdx.x, t.blockIdx.y * 8 + t.threadIdx.y
    out[y * n + x] = a[x * n + y]


@gs.kernel
def by_row(t: Any, a: Any, out: Any, n: int) -> None:
    x, y = t.blockIdx.x * 32 + t.threadIdx.x, t.blockIdx.y * 8 + t.threadIdx.y
    out[y * n + x] = a[y * n + x]


@gs.kernel
def shifted(t: Any, a: Any, out: Any) -> None:
    """One element beyond a sector's border: a fifth sector, but neighbours are neighbours."""
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    out[i] = a[i + 1]


@gs.kernel
def records(t: Any, a: Any, out: Any) -> None:
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    out[i] = a[4 * i + 1]


@gs.kernel
def gather(t: Any, a: Any, index: Any, out: Any) -> None:
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    out[i] = a[index[i]]


@gs.kernel
def through_tile(t: Any, a: Any, out: Any, n: int, pitch: Any) -> Any:
    tile = t.shared("tile", (32, pitch), np.float32)
    x, y = t.threadIdx.x, t.threadIdx.y
    for k in range(0, 32, 8):
        tile[x, y + k] = a[(t.blockIdx.y * 32 + y + k) * n + t.blockIdx.x * 32 + x]
    yield t.syncthreads()
    for k in range(0, 32, 8):
        out[(t.blockIdx.x * 32 + y + k) * n + t.blockIdx.y * 32 + x] = tile[y + k, x]


@gs.kernel
def word_stride(t: Any, out: Any, stride: int, dtype: Any) -> Any:
    """A warp adds to words a stride apart, ten times (C16, C19)."""
    s = t.shared("s", (2112,), dtype)
    i = t.threadIdx.x * stride
    s[i] = 0
    t.syncwarp()
    for _ in range(10):
        s[i] += 1
    out[t.threadIdx.x] = s[i]


@gs.kernel
def odd_and_even(t: Any, out: Any) -> None:
    """C23, kernel 1: neighbouring threads take different ways."""
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    v = 0.0 * i
    if i % 2 == 0:
        v = v * v + 100.0
        v = v * v + 100.0
        v = v * v + 100.0
    else:
        v = v * v + 200.0
        v = v * v + 200.0
        v = v * v + 200.0
    out[i] = v


@gs.kernel
def warp_by_warp(t: Any, out: Any) -> None:
    """C23, kernel 2: neighbouring warps do."""
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    v = 0.0 * i
    if (i // 32) % 2 == 0:
        v = v * v + 100.0
        v = v * v + 100.0
        v = v * v + 100.0
    else:
        v = v * v + 200.0
        v = v * v + 200.0
        v = v * v + 200.0
    out[i] = v


@gs.kernel
def two_ifs(t: Any, out: Any) -> None:
    """C23, kernel 3: as kernel 1, with two branches."""
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    v = 0.0 * i
    even = i % 2 == 0
    if even:
        v = v * v + 100.0
        v = v * v + 100.0
        v = v * v + 100.0
    if not even:
        v = v * v + 200.0
        v = v * v + 200.0
        v = v * v + 200.0
    out[i] = v


@gs.kernel
def vector_add(t: Any, a: Any, b: Any, c: Any, n: int) -> None:
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    if i < n:
        c[i] = a[i] + b[i]


@gs.kernel
def scaled(t: Any, a: Any, out: Any, factor: Any) -> None:
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    out[i] = a[i] * factor


@gs.kernel
def doubled_by_accident(t: Any, a: Any, out: Any) -> None:
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    out[i] = a[i] * np.float64(0.1)


@gs.kernel
def scaled_by_number(t: Any, a: Any, out: Any) -> None:
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    out[i] = a[i] * 0.1


@gs.kernel
def histogram(t: Any, keys: Any, bins: Any) -> None:
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    bins.atomic_add(keys[i], 1)


@gs.kernel
def histogram_of_pairs(t: Any, keys: Any, bins: Any) -> None:
    """Two lines that fight for the same addresses."""
    i = 2 * (t.blockIdx.x * t.blockDim.x + t.threadIdx.x)
    bins.atomic_add(keys[i], 1)
    bins.atomic_add(keys[i + 1], 1)


@gs.kernel
def shared_histogram(t: Any, keys: Any, bins: Any) -> Any:
    own = t.shared("own", (256,), np.int32)
    own[t.threadIdx.x] = 0
    yield t.syncthreads()
    own.atomic_add(keys[t.blockIdx.x * t.blockDim.x + t.threadIdx.x], 1)
    yield t.syncthreads()
    bins.atomic_add(t.threadIdx.x, own[t.threadIdx.x])


@gs.kernel
def count_even(t: Any, keys: Any, count: Any) -> None:
    """C34: every element that passes adds one."""
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    if keys[i] % 2 == 0:
        count.atomic_add(0, 1)


@gs.kernel
def count_even_by_warp(t: Any, keys: Any, count: Any) -> None:
    """C34: the warp adds once for all of its elements."""
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    votes = t.ballot(keys[i] % 2 == 0)
    if t.lane == 0:
        bits = 0
        while votes != 0:
            bits += 1
            votes = votes & (votes - 1)
        count.atomic_add(0, bits)


@gs.kernel
def counted_loop(t: Any, a: Any, out: Any, n: int) -> None:
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    total = a[i]
    k = 0
    while k < n:
        total = total * 0.5
        k += 1
    out[i] = total


@gs.kernel
def constant_loop(t: Any, a: Any, out: Any) -> None:
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    total = a[i]
    for _ in range(16):
        total = total * 0.5
    out[i] = total


@gs.kernel
def two_strides(t: Any, a: Any, b: Any, out: Any) -> None:
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    out[i] = a[4 * i] + b[8 * i]

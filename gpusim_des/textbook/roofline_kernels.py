"""Ten kernels at rising intensity: what they compute, beside NumPy, and their operations per byte by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpusim_des.analytic.latency import Traffic
from gpusim_des.functional.thread_kernel import ThreadKernel, kernel
from gpusim_des.textbook.reading import reader
from gpusim_des.textbook.tiled_matmul import naive, tiled

THREADS = 256
STRIDE = 8  # elements: a sector for each
LOADS = 16  # of a thread that sums up
TILE = 16


@kernel
def vector_add(t: Any, a: Any, b: Any, c: Any) -> None:
    """An element of each vector per thread."""
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    c[i] = a[i] + b[i]


@kernel
def strided_saxpy(t: Any, a: Any, b: Any, c: Any) -> None:
    """``2 a + b`` of every eighth element: a sector for each."""
    i = (t.blockIdx.x * t.blockDim.x + t.threadIdx.x) * STRIDE
    c[i] = np.float32(2) * a[i] + b[i]


@kernel
def stencil(t: Any, a: Any, c: Any) -> None:
    """A weighted mean of three neighbours."""
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    left, middle, right = a[i], a[i + 1], a[i + 2]
    c[i] = np.float32(0.25) * left + np.float32(0.5) * middle + np.float32(0.25) * right


def polynomial(degree: int, dtype: Any = np.float32) -> ThreadKernel:
    """Horner's rule, a chain of multiply-adds, in every thread."""
    half, one = dtype(0.5), dtype(1)

    @kernel
    def horner(t: Any, a: Any, c: Any) -> None:
        i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
        x = a[i]
        y = half
        for _ in range(degree):
            y = y * x + one
        c[i] = y

    return horner


@dataclass(frozen=True)
class Case:
    """A kernel with its arguments, its result by NumPy, and its intensity by hand."""

    name: str
    kernel: ThreadKernel
    grid: Any
    block: Any
    inputs: tuple[Any, ...]
    expected: Any
    intensity: float
    """Operations per byte, of a warp."""
    compute: str = "fp32"
    kind: Traffic = "mixed"
    scalars: tuple[int, ...] = ()


def cases(n: int, m: int, times: int = 1) -> list[Case]:
    """Ten kernels: `n` threads on vectors, and products with m × m matrices; `times` as many elements and rows."""
    n, rows = times * n, times * m
    rng = np.random.default_rng(0)

    def fresh(size: int, dtype: Any = np.float32) -> Any:
        return rng.random(size).astype(dtype)

    a, b, wide = fresh(n), fresh(n), (fresh(n * STRIDE), fresh(n * STRIDE))
    many, edges, doubles = fresh(n), fresh(n + 2), fresh(n // 4, np.float64)
    left, right = fresh(rows * m).reshape(rows, m), fresh(m * m).reshape(m, m)
    product = (left @ right).ravel()
    strided = np.zeros(n * STRIDE, np.float32)
    strided[::STRIDE] = 2 * wide[0][::STRIDE] + wide[1][::STRIDE]
    blocks = n // THREADS
    found = [
        Case("vector add", vector_add, blocks, THREADS, (a, b), a + b, 64 / (3 * 128)),
        Case("SAXPY, stride 8", strided_saxpy, blocks, THREADS, wide, strided, 64 / (3 * 32 * 32)),
        # Neighbours to the right begin in the middle of a sector: five of them instead of four.
        Case(
            "stencil, 3 points",
            stencil,
            blocks,
            THREADS,
            (edges,),
            0.25 * edges[:-2] + 0.5 * edges[1:-1] + 0.25 * edges[2:],
            3 * 64 / ((4 + 5 + 5 + 4) * 32),
        ),
        Case(
            "sums",
            reader(LOADS),
            blocks // LOADS,
            THREADS,
            (many,),
            np.zeros(n // LOADS, np.float32),
            (LOADS - 1) * 64 / (LOADS * 128),
            kind="read",
        ),
    ]
    for degree, x, compute in ((8, a, "fp32"), (32, a, "fp32"), (256, a[: n // 4], "fp32"), (128, doubles, "fp64")):
        name = f"polynomial, degree {degree}" + f", {compute}" * (compute == "fp64")
        work = polynomial(degree, x.dtype.type), len(x) // THREADS, THREADS, (x,), horner_by_numpy(x, degree)
        found.append(Case(name, *work, degree * 64 / (2 * 32 * x.itemsize), compute))
    grid = (m // 32, rows // 8), (32, 8)
    # A step of a warp: one element of A, 32 of B.
    found.append(
        Case(
            "matmul, naive",
            naive,
            *grid,
            (left.ravel(), right.ravel()),
            product,
            m * 64 / (m * 5 * 32 + 128),
            kind="read",
            scalars=(m,),
        )
    )
    grid = (m // TILE, rows // TILE), (TILE, TILE)
    # A warp is two rows of a tile: four sectors of each factor for TILE steps.
    found.append(
        Case(
            f"matmul, tiles of {TILE}",
            tiled(TILE),
            *grid,
            (left.ravel(), right.ravel()),
            product,
            m * 64 / (m // TILE * 8 * 32 + 128),
            scalars=(m,),
        )
    )
    return found


def horner_by_numpy(x: Any, degree: int) -> Any:
    """The polynomial's value."""
    y = np.full_like(x, 0.5)
    for _ in range(degree):
        y = y * x + 1
    return y

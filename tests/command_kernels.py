"""Kernels that the command line loads from this file."""

import numpy as np

import gpusim_des as gs

NOT_A_KERNEL = 1


@gs.kernel
def vector_add(t, a, b, c, n):  # type: ignore[no-untyped-def]
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    if i < n:
        c[i] = a[i] + b[i]


@gs.kernel
def without_guard(t, a):  # type: ignore[no-untyped-def]
    a[t.blockIdx.x * t.blockDim.x + t.threadIdx.x] = 1


@gs.block_kernel
def halves_stop(blk, a):  # type: ignore[no-untyped-def]
    with blk.branch(blk.tx < 16):
        blk.sync()


@gs.block_kernel
def divides_by_zero(blk, a):  # type: ignore[no-untyped-def]
    blk.store(a, blk.tx, 1 // 0)


@gs.block_kernel
def races(blk, a):  # type: ignore[no-untyped-def]
    tile = blk.shared(64, np.float32, name="tile")
    blk.sstore(tile, blk.tx, np.float32(1))
    blk.store(a, blk.tx, blk.sload(tile, 63 - blk.tx))


@gs.kernel
def strided(t, a, c):  # type: ignore[no-untyped-def]
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    c[i] = a[32 * i]


@gs.block_kernel
def scale(blk, a, factor=3.0):  # type: ignore[no-untyped-def]
    i = blk.bx * blk.bdx + blk.tx
    blk.store(a, i, blk.load(a, i) * np.float32(factor))

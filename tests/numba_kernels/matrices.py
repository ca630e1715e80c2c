"""Matrix products and transposes."""

import numpy as np
from numba import cuda

TILE = 8
RNG = np.random.default_rng(2)


@cuda.jit
def matmul(a, b, c):
    row, column = cuda.grid(2)
    if row < c.shape[0] and column < c.shape[1]:
        total = 0.0
        for k in range(a.shape[1]):
            total += a[row, k] * b[k, column]
        c[row, column] = total


@cuda.jit
def tiled_matmul(a, b, c):
    tile_a = cuda.shared.array((TILE, TILE), dtype=np.float32)
    tile_b = cuda.shared.array(shape=(TILE, TILE), dtype=np.float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    column, row = cuda.grid(2)
    total = np.float32(0.0)
    for step in range((a.shape[1] + TILE - 1) // TILE):
        tile_a[ty, tx] = 0
        tile_b[ty, tx] = 0
        if row < a.shape[0] and step * TILE + tx < a.shape[1]:
            tile_a[ty, tx] = a[row, step * TILE + tx]
        if column < b.shape[1] and step * TILE + ty < b.shape[0]:
            tile_b[ty, tx] = b[step * TILE + ty, column]
        cuda.syncthreads()
        for k in range(TILE):
            total += tile_a[ty, k] * tile_b[k, tx]
        cuda.syncthreads()
    if row < c.shape[0] and column < c.shape[1]:
        c[row, column] = total


@cuda.jit
def transpose(source, target):
    tile = cuda.shared.array((TILE, TILE + 1), np.int32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    x = cuda.blockIdx.x * TILE + tx
    y = cuda.blockIdx.y * TILE + ty
    if x < source.shape[1] and y < source.shape[0]:
        tile[ty, tx] = source[y, x]
    cuda.syncthreads()
    x = cuda.blockIdx.y * TILE + tx
    y = cuda.blockIdx.x * TILE + ty
    if x < target.shape[1] and y < target.shape[0]:
        target[y, x] = tile[tx, ty]


@cuda.jit
def matvec_of_rows(matrix, vector, out):
    i = cuda.grid(1)
    if i < matrix.shape[0]:
        row = matrix[i]
        total = 0.0
        for k in range(len(row)):
            total += row[k] * vector[k]
        out[i] = total + row[-1]


@cuda.jit
def add_column_major(a, b, out):
    i, j = cuda.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        out[i, j] = a[i, j] + 2 * b[i, j]


def run():
    a, b = RNG.normal(size=(13, 17)).astype(np.float32), RNG.normal(size=(17, 11)).astype(np.float32)
    naive, tiled = np.zeros((13, 11), np.float32), np.zeros((13, 11), np.float32)
    matmul[(2, 2), (8, 8)](a, b, naive)
    on_device = cuda.to_device(a), cuda.to_device(b), cuda.device_array((13, 11), dtype=np.float32)
    tiled_matmul[(2, 2), (TILE, TILE)](*on_device)
    on_device[2].copy_to_host(tiled)
    source = np.arange(13 * 20, dtype=np.int32).reshape(13, 20)
    target = np.zeros((20, 13), np.int32)
    transpose[(3, 2), (TILE, TILE)](source, target)
    vector, product = RNG.normal(size=17), np.zeros(13)
    matvec_of_rows[1, 16](a.astype(np.float64), vector, product)
    columns = np.asfortranarray(RNG.integers(0, 100, (6, 9)))
    added = np.zeros((6, 9), np.int64, order="F")
    add_column_major[(1, 2), (8, 8)](columns, np.ascontiguousarray(columns), added)
    return {"matmul": naive, "tiled_matmul": tiled, "transpose": target, "matvec": product, "column_major": added}

"""Dynamic shared memory, streams, events, device arrays and their slices."""

import numpy as np
from numba import cuda
from numba import float32, int32

RNG = np.random.default_rng(7)


@cuda.jit
def reverse_in_blocks(a):
    line = cuda.shared.array(0, dtype=int32)
    t = cuda.threadIdx.x
    line[t] = a[cuda.grid(1)]
    cuda.syncthreads()
    a[cuda.grid(1)] = line[cuda.blockDim.x - 1 - t]


@cuda.jit
def two_arrays_in_one(a, b, out):
    n = cuda.blockDim.x
    first = cuda.shared.array(0, dtype=float32)[:n]
    second = cuda.shared.array(0, dtype=float32)[n : 2 * n]
    t = cuda.threadIdx.x
    first[t] = a[t]
    second[t] = b[t]
    cuda.syncthreads()
    out[t] = first[n - 1 - t] + second[(t + 1) % n]


@cuda.jit
def scale(a, factor):
    i = cuda.grid(1)
    if i < a.size:
        a[i] *= factor


@cuda.jit
def fill_tile(out):
    tile = cuda.shared.array((4, 4), dtype=float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    tile[y, x] = float32(x) / float32(y + 1)
    cuda.syncthreads()
    out[y, x] = tile[x, y]


def run():
    a = np.arange(32, dtype=np.int32)
    reverse_in_blocks[2, 16, 0, 16 * 4](a)
    x, y = RNG.normal(size=16).astype(np.float32), RNG.normal(size=16).astype(np.float32)
    joined = np.zeros(16, np.float32)
    two_arrays_in_one[1, 16, 0, 2 * 16 * 4](x, y, joined)
    stream, start, end = cuda.stream(), cuda.event(), cuda.event()
    host = cuda.pinned_array(40, np.float64)
    host[:] = np.arange(40)
    numbers = cuda.to_device(host, stream=stream)
    start.record(stream)
    scale[1, 32, stream](numbers[8:24], 10.0)
    scale[1, 32, stream](numbers[::2], -1.0)
    end.record(stream)
    end.synchronize()
    back = cuda.pinned_array(40, np.float64)
    numbers.copy_to_host(back, stream=stream)
    stream.synchronize()
    table = cuda.to_device(np.arange(12.0).reshape(3, 4))
    scale[1, 32](table[1], 2.0)
    scale[1, 32](table[:, 2], 3.0)
    scale[1, 32](table.reshape(12)[10:], 5.0)
    tile = np.zeros((4, 4), np.float32)
    fill_tile[1, (4, 4)](tile)
    cuda.synchronize()
    return {
        "reverse_in_blocks": a,
        "two_arrays_in_one": joined,
        "slices": back.copy(),
        "table": table.copy_to_host(),
        "fill_tile": tile,
    }

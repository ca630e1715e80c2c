"""Many numbers become few: in shared memory, with atomics, row by row."""

import math

import numpy as np
from numba import cuda

THREADS = 32
RNG = np.random.default_rng(3)


@cuda.jit
def sum_of_blocks(a, out):
    part = cuda.shared.array(THREADS, np.float64)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    part[t] = a[i] if i < a.size else 0.0
    cuda.syncthreads()
    s = cuda.blockDim.x // 2
    while s > 0:
        if t < s:
            part[t] += part[t + s]
        cuda.syncthreads()
        s //= 2
    if t == 0:
        out[cuda.blockIdx.x] = part[0]


@cuda.jit
def sum_with_atomics(a, total):
    i = cuda.grid(1)
    if i < a.size:
        cuda.atomic.add(total, 0, a[i])


@cuda.jit
def dot(x, y, result):
    part = cuda.shared.array(THREADS, np.int64)
    t = cuda.threadIdx.x
    mine = 0
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        mine += x[i] * y[i]
    part[t] = mine
    cuda.syncthreads()
    if t == 0:
        total = 0
        for k in range(cuda.blockDim.x):
            total += part[k]
        cuda.atomic.add(result, 0, total)


@cuda.jit
def extremes(a, found):
    i = cuda.grid(1)
    if i < a.size:
        cuda.atomic.max(found, 0, a[i])
        cuda.atomic.min(found, 1, a[i])


@cuda.jit
def softmax_of_rows(a, out):
    row, t = cuda.blockIdx.x, cuda.threadIdx.x
    largest = cuda.shared.array(1, np.float64)
    total = cuda.shared.array(1, np.float64)
    if t == 0:
        largest[0] = -math.inf
        total[0] = 0.0
    cuda.syncthreads()
    cuda.atomic.max(largest, 0, a[row, t])
    cuda.syncthreads()
    power = math.exp(a[row, t] - largest[0])
    cuda.atomic.add(total, 0, power)
    cuda.syncthreads()
    out[row, t] = power / total[0]


@cuda.jit
def counts_of_blocks(a, out):
    i = cuda.grid(1)
    positive = a[i] > 0
    many = cuda.syncthreads_count(positive)
    all_of_them = cuda.syncthreads_and(positive)
    some = cuda.syncthreads_or(positive)
    if cuda.threadIdx.x == 0:
        out[cuda.blockIdx.x, 0] = many
        out[cuda.blockIdx.x, 1] = all_of_them
        out[cuda.blockIdx.x, 2] = some


@cuda.jit
def all_atomics(words, marks, order):
    i = cuda.grid(1)
    cuda.atomic.sub(marks, 0, i)
    cuda.atomic.and_(marks, 1, ~(1 << i))
    cuda.atomic.or_(marks, 2, 1 << i)
    cuda.atomic.xor(marks, 3, i)
    cuda.atomic.inc(words, 0, np.uint32(4))
    cuda.atomic.dec(words, 1, np.uint32(6))
    order[cuda.atomic.add(marks, (4,), 1)] = 1
    cuda.atomic.cas(marks, 5, 0, 7)
    cuda.atomic.exch(marks, 6, 3)


def run():
    a = RNG.normal(size=100)
    blocks = np.zeros(4)
    sum_of_blocks[4, THREADS](a, blocks)
    total = np.zeros(1, np.int64)
    sum_with_atomics[4, 32](np.arange(100), total)
    x, y = RNG.integers(-1000, 1000, 150), RNG.integers(-1000, 1000, 150)
    product = np.zeros(1, np.int64)
    dot[2, THREADS](x, y, product)
    found = np.array([-1e30, 1e30])
    extremes[4, 32](a, found)
    rows = RNG.normal(size=(3, 20))
    shares = np.zeros((3, 20))
    softmax_of_rows[3, 20](rows, shares)
    counts = np.zeros((3, 3), np.int32)
    counts_of_blocks[3, 16](np.concatenate([np.ones(16), -np.ones(16), np.arange(16.0)]), counts)
    words, marks, order = np.zeros(2, np.uint32), np.zeros(7, np.int64), np.zeros(16, np.int64)
    marks[1] = 0xFFFF
    all_atomics[1, 16](words, marks, order)
    return {
        "sum_of_blocks": blocks,
        "sum_with_atomics": total,
        "dot": product,
        "extremes": found,
        "softmax": shares,
        "counts_of_blocks": counts,
        "all_atomics_words": words,
        "all_atomics_marks": marks,
        "all_atomics_order": order,
    }

"""Prefix sums, histograms and sorting."""

import numpy as np
from numba import cuda

SIZE = 32
BINS = 10
RNG = np.random.default_rng(4)


@cuda.jit
def hillis_steele(a, out):
    line = cuda.shared.array((2, SIZE), np.int32)
    t = cuda.threadIdx.x
    line[0, t] = a[cuda.grid(1)]
    cuda.syncthreads()
    now, distance = 0, 1
    while distance < SIZE:
        line[1 - now, t] = line[now, t]
        if t >= distance:
            line[1 - now, t] += line[now, t - distance]
        now = 1 - now
        distance *= 2
        cuda.syncthreads()
    out[cuda.grid(1)] = line[now, t]


@cuda.jit
def blelloch(a, out):
    tree = cuda.shared.array(SIZE, np.float64)
    t = cuda.threadIdx.x
    tree[2 * t] = a[2 * t]
    tree[2 * t + 1] = a[2 * t + 1]
    offset = 1
    d = SIZE >> 1
    while d > 0:
        cuda.syncthreads()
        if t < d:
            tree[offset * (2 * t + 2) - 1] += tree[offset * (2 * t + 1) - 1]
        offset <<= 1
        d >>= 1
    if t == 0:
        tree[SIZE - 1] = 0
    d = 1
    while d < SIZE:
        offset >>= 1
        cuda.syncthreads()
        if t < d:
            left, right = offset * (2 * t + 1) - 1, offset * (2 * t + 2) - 1
            kept = tree[left]
            tree[left] = tree[right]
            tree[right] += kept
        d *= 2
    cuda.syncthreads()
    out[2 * t] = tree[2 * t]
    out[2 * t + 1] = tree[2 * t + 1]


@cuda.jit
def histogram(a, low, high, bins):
    width = (high - low) / bins.shape[0]
    for i in range(cuda.grid(1), a.shape[0], cuda.gridsize(1)):
        number = int((a[i] - low) / width)
        if 0 <= number < bins.shape[0]:
            cuda.atomic.add(bins, number, 1)


@cuda.jit
def shared_histogram(a, bins):
    mine = cuda.shared.array(BINS, np.int32)
    t = cuda.threadIdx.x
    if t < BINS:
        mine[t] = 0
    cuda.syncthreads()
    i = cuda.grid(1)
    if i < a.size:
        cuda.atomic.add(mine, a[i] % BINS, 1)
    cuda.syncthreads()
    if t < BINS:
        cuda.atomic.add(bins, t, mine[t])


@cuda.jit
def bitonic_sort(values):
    line = cuda.shared.array(SIZE, np.float32)
    t = cuda.threadIdx.x
    line[t] = values[t]
    cuda.syncthreads()
    k = 2
    while k <= SIZE:
        j = k // 2
        while j > 0:
            other = t ^ j
            if other > t:
                rising = (t & k) == 0
                if (line[t] > line[other]) == rising:
                    line[t], line[other] = line[other], line[t]
            cuda.syncthreads()
            j //= 2
        k *= 2
    values[t] = line[t]


def run():
    a = RNG.integers(-50, 50, 2 * SIZE).astype(np.int32)
    inclusive = np.zeros_like(a)
    hillis_steele[2, SIZE](a, inclusive)
    b = RNG.normal(size=SIZE)
    exclusive = np.zeros(SIZE)
    blelloch[1, SIZE // 2](b, exclusive)
    numbers = RNG.normal(size=200).astype(np.float32)
    bins = np.zeros(BINS, np.int32)
    histogram[2, 32](numbers, np.float32(-2), np.float32(2), bins)
    shared_bins = np.zeros(BINS, np.int32)
    shared_histogram[4, 32](RNG.integers(0, 1000, 120), shared_bins)
    values = RNG.permutation(SIZE).astype(np.float32)
    bitonic_sort[1, SIZE](values)
    return {
        "hillis_steele": inclusive,
        "blelloch": exclusive,
        "histogram": bins,
        "shared_histogram": shared_bins,
        "bitonic_sort": values,
    }

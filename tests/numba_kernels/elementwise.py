"""Kernels in which every thread makes its own elements."""

import math

import numpy as np
from numba import cuda

RNG = np.random.default_rng(1)


@cuda.jit
def vector_add(a, b, c):
    i = cuda.grid(1)
    if i < c.size:
        c[i] = a[i] + b[i]


@cuda.jit("void(float32, float32[:], float32[:])")
def saxpy(alpha, x, y):
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i >= x.shape[0]:
        return
    y[i] = alpha * x[i] + y[i]


@cuda.jit
def squares_in_strides(a, out, n):
    for i in range(cuda.grid(1), n, cuda.gridsize(1)):
        out[i] = a[i] * a[i] - 1


@cuda.jit
def rgb_to_grey(image, grey):
    x, y = cuda.grid(2)
    height, width = grey.shape
    if x < width and y < height:
        red, green, blue = image[y, x, 0], image[y, x, 1], image[y, x, 2]
        grey[y, x] = int(0.299 * red + 0.587 * green + 0.114 * blue)


@cuda.jit
def clamp_volume(volume, low, high):
    x, y, z = cuda.grid(3)
    if z < volume.shape[0] and y < volume.shape[1] and x < volume.shape[2]:
        volume[z, y, x] = min(max(volume[z, y, x], low), high)


@cuda.jit(device=True)
def normal_cdf(x):
    return 0.5 * (1.0 + math.erf(x / math.sqrt(2.0)))


@cuda.jit(fastmath=True)
def black_scholes(spot, strike, years, rate, volatility, call):
    i = cuda.grid(1)
    if i < spot.size:
        root = volatility * math.sqrt(years[i])
        d1 = (math.log(spot[i] / strike[i]) + (rate + 0.5 * volatility * volatility) * years[i]) / root
        d2 = d1 - root
        call[i] = spot[i] * normal_cdf(d1) - strike[i] * math.exp(-rate * years[i]) * normal_cdf(d2)


@cuda.jit
def mixed_integers(a, b, out):
    i = cuda.grid(1)
    if i < a.size:
        total = 0
        for k in range(5):
            total = total * 31 + a[i] * (k + 1)
        out[i] = (total // 7) ^ (b[i] << 3) + (-total) % 5


@cuda.jit
def collatz(start, steps):
    i = cuda.grid(1)
    if i < start.size:
        n = start[i]
        count = 0
        while n != 1 and count < 500:
            if n % 2 == 0:
                n //= 2
            else:
                n = 3 * n + 1
            count += 1
        steps[i] = count


def run():
    x, y = RNG.normal(size=100).astype(np.float32), RNG.normal(size=100).astype(np.float32)
    added = np.zeros_like(x)
    vector_add[4, 32](x, y, added)
    scaled = y.copy()
    saxpy[2, 64](np.float32(2.5), x, scaled)
    whole = np.arange(-150, 150, dtype=np.int32)
    squared = np.zeros_like(whole)
    squares_in_strides[2, 32](whole, squared, whole.size)
    image = RNG.integers(0, 256, (13, 21, 3)).astype(np.uint8)
    grey = np.zeros((13, 21), np.uint8)
    rgb_to_grey[(2, 2), (16, 8)](image, grey)
    volume = RNG.normal(size=(3, 5, 7))
    clamp_volume[(2, 2, 2), (4, 4, 2)](volume, -0.5, 0.75)
    spot, strike = RNG.uniform(5, 30, 40), RNG.uniform(1, 100, 40)
    years, call = RNG.uniform(0.25, 10, 40), np.zeros(40)
    black_scholes[2, 32](spot, strike, years, 0.02, 0.3, call)
    a, b = RNG.integers(-(2**20), 2**20, 50), RNG.integers(0, 2**20, 50)
    mixed = np.zeros(50, np.int64)
    mixed_integers[1, 64](a, b, mixed)
    starts = np.arange(1, 61)
    steps = np.zeros(60, np.int32)
    collatz[2, 32](starts, steps)
    return {
        "vector_add": added,
        "saxpy": scaled,
        "squares_in_strides": squared,
        "rgb_to_grey": grey,
        "clamp_volume": volume,
        "black_scholes": call,
        "mixed_integers": mixed,
        "collatz": steps,
    }

"""Every element looks at its neighbours."""

import numpy as np
from numba import cuda

RADIUS = 2
BLOCK = 16
WEIGHTS = np.array([0.1, 0.2, 0.4, 0.2, 0.1])
SMOOTH = np.array([[1, 2, 1], [2, 4, 2], [1, 2, 1]], np.float32)
RNG = np.random.default_rng(5)


@cuda.jit
def heat_1d(now, then, factor):
    i = cuda.grid(1)
    if 0 < i < now.size - 1:
        then[i] = now[i] + factor * (now[i - 1] - 2 * now[i] + now[i + 1])
    elif i < now.size:
        then[i] = now[i]


@cuda.jit
def stencil_1d(source, target):
    line = cuda.shared.array(BLOCK + 2 * RADIUS, np.int32)
    i = cuda.grid(1)
    t = cuda.threadIdx.x + RADIUS
    n = source.shape[0]
    line[t] = source[i] if i < n else 0
    if cuda.threadIdx.x < RADIUS:
        left, right = i - RADIUS, i + BLOCK
        line[t - RADIUS] = source[left] if left >= 0 else 0
        line[t + BLOCK] = source[right] if right < n else 0
    cuda.syncthreads()
    if i < n:
        total = 0
        for k in range(-RADIUS, RADIUS + 1):
            total += line[t + k]
        target[i] = total


@cuda.jit
def laplace_2d(u, v):
    i, j = cuda.grid(2)
    rows, columns = u.shape
    if i >= 1 and i < rows - 1 and j >= 1 and j < columns - 1:
        v[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])


@cuda.jit
def convolve_1d(signal, out):
    weights = cuda.const.array_like(WEIGHTS)
    i = cuda.grid(1)
    if i < out.size:
        total = 0.0
        for k in range(weights.size):
            at = i + k - weights.size // 2
            if 0 <= at < signal.size:
                total += weights[k] * signal[at]
        out[i] = total


@cuda.jit
def convolve_2d(image, out):
    smooth = cuda.const.array_like(SMOOTH)
    x, y = cuda.grid(2)
    height, width = image.shape
    if x < width and y < height:
        total = np.float32(0)
        for dy in range(-1, 2):
            for dx in range(-1, 2):
                row = min(max(y + dy, 0), height - 1)
                column = min(max(x + dx, 0), width - 1)
                total += image[row, column] * smooth[dy + 1, dx + 1]
        out[y, x] = total / np.float32(16)


@cuda.jit
def game_of_life(world, after):
    x, y = cuda.grid(2)
    height, width = world.shape
    if x >= width or y >= height:
        return
    alive = 0
    for dy in (-1, 0, 1):
        for dx in (-1, 0, 1):
            if dx != 0 or dy != 0:
                alive += world[(y + dy) % height, (x + dx) % width]
    if alive == 3 or (alive == 2 and world[y, x]):
        after[y, x] = 1
    else:
        after[y, x] = 0


def run():
    rod = RNG.normal(size=50)
    later = np.zeros(50)
    here, there = cuda.to_device(rod), cuda.device_array_like(later)
    for _ in range(3):
        heat_1d[2, 32](here, there, 0.25)
        here, there = there, here
    later = here.copy_to_host()
    source = RNG.integers(0, 100, 45).astype(np.int32)
    sums = np.zeros_like(source)
    stencil_1d[3, BLOCK](source, sums)
    u = RNG.normal(size=(9, 14)).astype(np.float32)
    v = np.zeros_like(u)
    laplace_2d[(2, 2), (8, 8)](u, v)
    signal = RNG.normal(size=40)
    convolved = np.zeros(40)
    convolve_1d[2, 32](signal, convolved)
    image = RNG.normal(size=(10, 12)).astype(np.float32)
    smooth = np.zeros_like(image)
    convolve_2d[(2, 2), (8, 8)](image, smooth)
    world = RNG.integers(0, 2, (11, 13)).astype(np.int8)
    after = np.zeros_like(world)
    game_of_life[(2, 2), (8, 8)](world, after)
    return {
        "heat_1d": later,
        "stencil_1d": sums,
        "laplace_2d": v,
        "convolve_1d": convolved,
        "convolve_2d": smooth,
        "game_of_life": after,
    }

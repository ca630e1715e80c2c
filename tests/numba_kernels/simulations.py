"""Fractals, random numbers, bodies and clusters."""

import math

import numpy as np
from numba import cuda

RNG = np.random.default_rng(6)


@cuda.jit(device=True)
def escapes(real, imag, most):
    zr = 0.0
    zi = 0.0
    for i in range(most):
        zr, zi = zr * zr - zi * zi + real, 2.0 * zr * zi + imag
        if zr * zr + zi * zi >= 4.0:
            return i
    return most


@cuda.jit
def mandelbrot(left, top, step, image, most):
    x, y = cuda.grid(2)
    if x < image.shape[1] and y < image.shape[0]:
        image[y, x] = escapes(left + x * step, top - y * step, most)


@cuda.jit
def julia(image, most):
    x, y = cuda.grid(2)
    if x < image.shape[1] and y < image.shape[0]:
        z = complex(x / 8.0 - 1.0, y / 8.0 - 1.0)
        count = 0
        while count < most and z.real * z.real + z.imag * z.imag < 4.0:
            z = z * z + complex(-0.4, 0.6)
            count += 1
        image[y, x] = count


@cuda.jit(device=True)
def next_random(state):
    return (state * 1664525 + 1013904223) & 0xFFFFFFFF


@cuda.jit
def monte_carlo_pi(seeds, draws, hits):
    i = cuda.grid(1)
    if i >= seeds.size:
        return
    state = seeds[i]
    inside = 0
    for _ in range(draws):
        state = next_random(state)
        x = state / 4294967296.0
        state = next_random(state)
        y = state / 4294967296.0
        if x * x + y * y <= 1.0:
            inside += 1
    hits[i] = inside


@cuda.jit
def n_body(position, mass, velocity, dt):
    i = cuda.grid(1)
    n = position.shape[0]
    ax, ay, az = 0.0, 0.0, 0.0
    if i < n:
        for j in range(n):
            dx = position[j, 0] - position[i, 0]
            dy = position[j, 1] - position[i, 1]
            dz = position[j, 2] - position[i, 2]
            inverse = 1.0 / math.sqrt(dx * dx + dy * dy + dz * dz + 1e-3)
            pull = mass[j] * inverse**3
            ax += pull * dx
            ay += pull * dy
            az += pull * dz
        velocity[i, 0] += ax * dt
        velocity[i, 1] += ay * dt
        velocity[i, 2] += az * dt


@cuda.jit
def k_means_step(points, centres, labels, sums, counts):
    i = cuda.grid(1)
    if i < points.shape[0]:
        best = -1
        nearest = math.inf
        for k in range(centres.shape[0]):
            distance = 0.0
            for axis in range(points.shape[1]):
                distance += (points[i, axis] - centres[k, axis]) ** 2
            if distance < nearest:
                nearest = distance
                best = k
        labels[i] = best
        for axis in range(points.shape[1]):
            cuda.atomic.add(sums, (best, axis), points[i, axis])
        cuda.atomic.add(counts, best, 1)


@cuda.jit
def horner(x, out):
    i = cuda.grid(1)
    powers = cuda.local.array(4, np.float64)
    if i < x.size:
        powers[0] = 1.0
        for k in range(1, 4):
            powers[k] = powers[k - 1] * x[i]
        which = i % 4
        out[i] = powers[which] + powers[3]


def run():
    image = np.zeros((12, 16), np.int32)
    mandelbrot[(2, 2), (8, 8)](-2.0, 1.25, 0.2, image, 40)
    other = np.zeros((16, 16), np.int32)
    julia[(2, 2), (8, 8)](other, 50)
    hits = np.zeros(20, np.int64)
    monte_carlo_pi[1, 32](np.arange(20), 25, hits)
    position, mass, velocity = RNG.normal(size=(10, 3)), RNG.uniform(1, 2, 10), np.zeros((10, 3))
    n_body[1, 16](position, mass, velocity, 0.01)
    points, centres = RNG.normal(size=(40, 2)), RNG.normal(size=(4, 2))
    labels, sums, counts = np.zeros(40, np.int32), np.zeros((4, 2)), np.zeros(4, np.int32)
    k_means_step[2, 32](points, centres, labels, sums, counts)
    x = RNG.normal(size=30)
    values = np.zeros(30)
    horner[1, 32](x, values)
    return {
        "mandelbrot": image,
        "julia": other,
        "monte_carlo_pi": hits,
        "n_body": velocity,
        "k_means_labels": labels,
        "k_means_sums": sums,
        "k_means_counts": counts,
        "horner": values,
    }

"""Random numbers under the names of ``numba.cuda.random``: a xoroshiro128+ generator for each thread.

Generators are 2^64 steps apart on one sequence, so that they never meet. (Blackman and Vigna, "Scrambled linear
pseudorandom number generators", 2018; the first state is made by their splitmix64, as in Numba.)
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpusim_des.cuda.arrays import DeviceNDArray, to_device
from gpusim_des.cuda.dispatcher import jit
from gpusim_des.errors import LaunchError

_MASK = (1 << 64) - 1

_JUMP = 0xD86B048B86AA9922_BEAC0467EBA5FACB
"""Polynomial that advances a generator by 2^64 steps: which of the next 128 states are added up."""

_ROTATE_FIRST, _SHIFT, _ROTATE_SECOND = 55, 14, 36

State = tuple[int, int]


def create_xoroshiro128p_states(n: int, seed: int, subsequence_start: int = 0, stream: Any = 0) -> DeviceNDArray:
    """Make `n` generators in device memory, of 16 bytes each.

    Parameters
    ----------
    n
        Number of generators, one for each thread that draws.
    seed
        The first state is made of it, a whole number of up to 64 bits.
    subsequence_start
        Generators of the same seed that others have taken, which are left out.
    stream
        The stream of the copy.

    Raises
    ------
    LaunchError
        For a number of generators below 1, or numbers that are no whole ones.

    Examples
    --------
    >>> from gpusim_des import cuda
    >>> _ = cuda.select("tiny")
    >>> states = cuda.random.create_xoroshiro128p_states(32, seed=1)
    >>> @cuda.jit
    ... def draw(states, out):
    ...     i = cuda.grid(1)
    ...     out[i] = cuda.random.xoroshiro128p_uniform_float64(states, i)
    >>> out = np.zeros(32)
    >>> draw[1, 32](states, out)
    >>> bool(0 <= out.min() < 0.2 and 0.8 < out.max() < 1)
    True
    """
    for what, number, least in (("n", n, 1), ("seed", seed, 0), ("subsequence_start", subsequence_start, 0)):
        if isinstance(number, bool) or not isinstance(number, int | np.integer) or int(number) < least:
            raise LaunchError(f"create_xoroshiro128p_states {what} = {number!r}: a whole number, at least {least}")
    return to_device(states_of(int(n), int(seed), int(subsequence_start)), stream)


def states_of(n: int, seed: int, start: int) -> NDArray[np.uint64]:
    """States of `n` generators, one a row, the first `start` jumps behind the one that the seed makes.

    A jump is linear in the bits of a state: of the first k states the next k are made by the k-fold jump.
    """
    first = _first_state(seed)
    jump = [_jumped((1 << k, 0) if k < 64 else (0, 1 << (k - 64))) for k in range(128)]
    power, begun = jump, np.array([first], np.uint64)
    while start:
        if start & 1:
            begun = _mapped(power, begun)
        power, start = _squared(power), start >> 1
    states, power = begun, jump
    while len(states) < n:
        states, power = np.concatenate([states, _mapped(power, states)]), _squared(power)
    return states[:n]


def _first_state(seed: int) -> State:
    z = (seed + 0x9E3779B97F4A7C15) & _MASK
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & _MASK
    z ^= z >> 31
    return z, z


def _rotated(x: int, by: int) -> int:
    return (x << by | x >> (64 - by)) & _MASK


def _next_state(state: State) -> State:
    low, high = state
    high ^= low
    return _rotated(low, _ROTATE_FIRST) ^ high ^ (high << _SHIFT & _MASK), _rotated(high, _ROTATE_SECOND)


def _jumped(state: State) -> State:
    low = high = 0
    for k in range(128):
        if _JUMP >> k & 1:
            low, high = low ^ state[0], high ^ state[1]
        state = _next_state(state)
    return low, high


def _mapped(images: list[State], states: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Apply a linear map to every state; `images` are those of single bits."""
    done = np.zeros_like(states)
    for k, image in enumerate(images):
        bit = (states[:, k // 64] >> np.uint64(k % 64)) & np.uint64(1)
        done ^= bit[:, None] * np.array([image], np.uint64)
    return done


def _squared(images: list[State]) -> list[State]:
    rows = _mapped(images, np.array(images, np.uint64))
    return [(int(low), int(high)) for low, high in rows]


# In kernels ---------------------------------------------------------------------------------------------------------


@jit(device=True)
def xoroshiro128p_next(states: Any, index: Any) -> Any:
    """Return the next 64 random bits of generator `index`."""
    low = states[index, 0]
    high = states[index, 1]
    bits = low + high
    mixed = high ^ low
    states[index, 0] = (low << _ROTATE_FIRST | low >> (64 - _ROTATE_FIRST)) ^ mixed ^ (mixed << _SHIFT)
    states[index, 1] = mixed << _ROTATE_SECOND | mixed >> (64 - _ROTATE_SECOND)
    return bits


@jit(device=True)
def xoroshiro128p_uniform_float64(states: Any, index: Any) -> Any:
    """Return a random number from 0 to below 1, in double precision."""
    return (xoroshiro128p_next(states, index) >> 11) * 2.0**-53


@jit(device=True)
def xoroshiro128p_uniform_float32(states: Any, index: Any) -> Any:
    """Return a random number from 0 to 1, in single precision."""
    return np.float32(xoroshiro128p_uniform_float64(states, index))


@jit(device=True)
def xoroshiro128p_normal_float64(states: Any, index: Any) -> Any:
    """Return a normally distributed random number in double precision (Box and Muller 1958).

    It is made of two numbers of single precision, as in Numba.
    """
    first = xoroshiro128p_uniform_float32(states, index)
    second = xoroshiro128p_uniform_float32(states, index)
    return math.sqrt(-2.0 * math.log(first)) * math.cos(2.0 * math.pi * second)


@jit(device=True)
def xoroshiro128p_normal_float32(states: Any, index: Any) -> Any:
    """Return a normally distributed random number in single precision (Box and Muller 1958)."""
    first = xoroshiro128p_uniform_float32(states, index)
    second = xoroshiro128p_uniform_float32(states, index)
    return math.sqrt(np.float32(-2) * math.log(first)) * math.cos(np.float32(2 * math.pi) * second)

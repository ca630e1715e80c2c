"""Random numbers of kernels in Numba's style are those of ``numba.cuda.random``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba.cuda import random as numbas

import gpusim_des as gs
from gpusim_des import cuda
from gpusim_des.cuda.random import (
    create_xoroshiro128p_states,
    xoroshiro128p_normal_float32,
    xoroshiro128p_normal_float64,
    xoroshiro128p_uniform_float32,
    xoroshiro128p_uniform_float64,
)

BOTH = pytest.mark.parametrize("vectorize", [True, False])


@cuda.jit
def draws(states: Any, singles: Any, doubles: Any) -> None:
    i = cuda.grid(1)
    if i < singles.shape[0]:
        singles[i, 0] = xoroshiro128p_uniform_float32(states, i)
        doubles[i, 0] = xoroshiro128p_uniform_float64(states, i)
        singles[i, 1] = xoroshiro128p_normal_float32(states, i)
        doubles[i, 1] = xoroshiro128p_normal_float64(states, i)


def states_in_numba(n: int, seed: int, start: int) -> Any:
    states = np.zeros(n, numbas.xoroshiro128p_dtype)
    numbas.init_xoroshiro128p_states_cpu(states, np.uint64(seed), start)
    return states


@pytest.mark.parametrize(("n", "seed", "start"), [(1, 0, 0), (70, 42, 0), (33, 2**63 + 5, 7)])
def test_states_are_those_of_numba(n: int, seed: int, start: int) -> None:
    cuda.select("tiny")
    theirs = states_in_numba(n, seed, start)
    mine = create_xoroshiro128p_states(n, seed, subsequence_start=start).copy_to_host()
    assert mine.tolist() == [[int(s["s0"]), int(s["s1"])] for s in theirs]


@BOTH
def test_numbers_are_those_of_numba(vectorize: bool) -> None:
    """Uniform ones to the last bit; logarithms of single precision, roots and cosines are those of another library."""
    n = 40
    theirs = states_in_numba(n, 3, 0)
    wanted = np.array(
        [
            [
                numbas.xoroshiro128p_uniform_float32(theirs, i),
                numbas.xoroshiro128p_uniform_float64(theirs, i),
                numbas.xoroshiro128p_normal_float32(theirs, i),
                numbas.xoroshiro128p_normal_float64(theirs, i),
            ]
            for i in range(n)
        ]
    )
    dev = cuda.select("tiny")
    states = create_xoroshiro128p_states(n, seed=3)
    singles, doubles = cuda.to_device(np.zeros((n, 2), np.float32)), cuda.to_device(np.zeros((n, 2)))
    dev.launch(draws, 2, 32, states, singles, doubles, vectorize=vectorize)
    mine, more = singles.copy_to_host(), doubles.copy_to_host()
    assert mine[:, 0].tolist() == wanted[:, 0].tolist()
    assert more[:, 0].tolist() == wanted[:, 1].tolist()
    np.testing.assert_allclose(mine[:, 1], wanted[:, 2], rtol=2e-5, atol=1e-6)
    np.testing.assert_allclose(more[:, 1], wanted[:, 3], rtol=1e-6, atol=1e-7)
    left = states.copy_to_host()
    assert left.tolist() == [[int(s["s0"]), int(s["s1"])] for s in theirs]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 1), r"create_xoroshiro128p_states n = 0: a whole number, at least 1"),
        ((4.5, 1), r"n = 4.5"),
        ((4, -1), r"seed = -1: a whole number, at least 0"),
        ((4, 1, -2), r"subsequence_start = -2"),
    ],
)
def test_states_that_cannot_be(arguments: Any, message: str) -> None:
    with pytest.raises(gs.LaunchError, match=message):
        create_xoroshiro128p_states(*arguments)

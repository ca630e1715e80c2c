"""Atomic operations and functions of thread style beyond the common ones, in both ways, worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import gpusim_des as gs
from gpusim_des.functional import atomics

BOTH = pytest.mark.parametrize("vectorize", [True, False])


@gs.kernel
def every_atomic(t: Any, a: Any, old: Any) -> None:
    i = t.linear
    old[0, i] = a.atomic_sub(0, i)
    old[1, i] = a.atomic_and(1, ~(1 << i))
    old[2, i] = a.atomic_or(2, 1 << i)
    old[3, i] = a.atomic_xor(3, i)
    old[4, i] = a.atomic_inc(4, 2)
    old[5, i] = a.atomic_dec(5, 2)


@BOTH
def test_every_atomic_returns_the_old_value(vectorize: bool) -> None:
    dev = gs.Device("tiny")
    a, old = dev.to_device(np.array([10, 0b1111, 0, 0, 0, 0], np.uint32)), dev.malloc((6, 4), np.uint32)
    launch = dev.launch(every_atomic, 1, 4, a, old, vectorize=vectorize)
    assert dev.to_host(a).tolist() == [4, 0, 0b1111, 0 ^ 1 ^ 2 ^ 3, 1, 2]
    assert dev.to_host(old).tolist() == [
        [10, 10, 9, 7],
        [0b1111, 0b1110, 0b1100, 0b1000],
        [0, 1, 3, 7],
        [0, 0, 1, 3],
        [0, 1, 2, 0],
        [0, 2, 1, 0],
    ]
    assert launch.counters.thread_atomics == 24


@gs.kernel
def bits_of_floats(t: Any, a: Any) -> None:
    a.atomic_xor(0, 1)


@gs.kernel
def counts_signed(t: Any, a: Any) -> None:
    a.atomic_dec(0, 1)


@BOTH
def test_types_that_an_atomic_does_not_have(vectorize: bool) -> None:
    dev = gs.Device("tiny")
    with pytest.raises(gs.KernelError, match=r"atomic_xor in line \d+ .* of type float32: bits are those of whole"):
        dev.launch(bits_of_floats, 1, 4, dev.malloc(1), vectorize=vectorize)
    with pytest.raises(gs.KernelError, match=r"atomic_dec in line \d+ .* of type int32: it counts unsigned numbers"):
        dev.launch(counts_signed, 1, 4, dev.malloc(1, np.int32), vectorize=vectorize)


@pytest.mark.parametrize("name", atomics.NEW_VALUES)
@pytest.mark.parametrize("kind", [np.uint32, np.int64, np.float32])
def test_one_after_the_other_and_all_at_once_are_equal(name: str, kind: Any) -> None:
    """A thousand operations on ten elements, NaN among the numbers."""
    if kind is np.float32 and name in {"atomic_and", "atomic_or", "atomic_xor"}:
        with pytest.raises(TypeError):
            atomics.new_value(name, np.zeros(1, kind), np.ones(1, kind))
        return
    rng = np.random.default_rng(3)
    start, where = rng.integers(0, 9, 10).astype(kind), rng.integers(0, 10, 1000)
    numbers = [rng.integers(0, 9, 1000).astype(kind) for _ in range(2 if name == "atomic_cas" else 1)]
    if kind is np.float32:
        numbers[0][::50] = np.nan
    together, single = start.copy(), start.copy()
    old = atomics.perform(name, together, where, numbers)
    changed = atomics.changes(name, old, numbers)
    for k in range(1000):
        before, moved = atomics.perform_one(name, single, int(where[k]), numbers[0][k], numbers[-1][k])
        assert np.array_equal(before, old[k], equal_nan=kind is np.float32)
        assert moved == changed[k] or np.isnan(before)
    assert np.array_equal(together, single, equal_nan=kind is np.float32)


@gs.kernel
def functions(t: Any, x: Any, out: Any) -> None:
    i = t.linear
    v = x[i]
    out[0, i] = math.fabs(i - 2) / 2
    out[1, i] = math.pow(i, 2) / 2
    out[2, i] = math.erf(v) + math.erfc(v)
    out[3, i] = math.gamma(v + 1) - math.exp(math.lgamma(v + 1))
    out[4, i] = math.asinh(math.sinh(v)) + math.acosh(math.cosh(v)) + math.atanh(math.tanh(v))
    out[5, i] = math.radians(math.degrees(math.copysign(v, -1)))
    out[6, i] = math.log1p(math.expm1(v)) if math.isfinite(v) else 0.0
    out[7, i] = abs(complex(3 * v, 4 * v))


@BOTH
def test_functions_with_their_inverses(vectorize: bool) -> None:
    """``fabs`` and ``pow`` of whole numbers are no whole numbers, as in C: halves of them have fractions."""
    dev = gs.Device("tiny")
    x, out = dev.to_device(np.array([0.0, 0.5, 1.0], np.float32)), dev.malloc((8, 3))
    dev.launch(functions, 1, 3, x, out, vectorize=vectorize)
    wanted: list[list[float]] = [
        [1, 0.5, 0],
        [0, 0.5, 2],
        [1, 1, 1],
        [0, 0, 0],
        [0, 1.5, 3],
        [0, -0.5, -1],
        [0, 0.5, 1],
        [0, 2.5, 5],
    ]
    np.testing.assert_allclose(dev.to_host(out), wanted, atol=2e-6)

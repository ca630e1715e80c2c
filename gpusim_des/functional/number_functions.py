"""Functions of numbers that NumPy lacks: bits, a multiply-add with one rounding, the error and gamma functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

_SPLIT = 134217729.0
"""2^27 + 1: splits a double into two halves of 26 bits (Dekker 1971)."""


def popc(x: Any) -> Any:
    """Number of bits that are set, in the type of `x`.

    >>> popc(np.array([0, 7, -1], np.int32)).tolist()
    [0, 3, 32]
    """
    return np.bitwise_count(_unsigned(x)).astype(np.asarray(x).dtype) if _HAS_COUNT else _popc(x)


def _popc(x: Any) -> Any:
    """As `popc`, for NumPy before 2.0."""
    bits = np.unpackbits(np.ascontiguousarray(_unsigned(x))[..., None].view(np.uint8), axis=-1)
    return bits.sum(axis=-1).astype(np.asarray(x).dtype)


_HAS_COUNT = hasattr(np, "bitwise_count")


def clz(x: Any) -> Any:
    """Number of zero bits above the highest one that is set, in the type of `x`.

    >>> clz(np.array([0, 1, 2**31], np.uint32)).tolist(), clz(np.int64(1))
    ([32, 31, 0], np.int64(63))
    """
    filled, size = _unsigned(x), np.asarray(x).dtype.itemsize * 8
    step = 1
    while step < size:
        filled = filled | (filled >> filled.dtype.type(step))
        step *= 2
    return popc(~filled).astype(np.asarray(x).dtype)


def ffs(x: Any) -> Any:
    """Position of the lowest bit that is set, from 1 on, 0 if none is; ``uint32``.

    >>> ffs(np.array([0, 1, 12], np.int32)).tolist()
    [0, 1, 3]
    """
    bits = _unsigned(x)
    lowest = bits & (~bits + bits.dtype.type(1))
    return np.where(bits == 0, 0, popc(lowest - bits.dtype.type(1)) + 1).astype(np.uint32)[()]


def brev(x: Any) -> Any:
    """The bits in reverse order, ``uint32`` or ``uint64``.

    >>> hex(brev(np.uint32(1))), hex(brev(np.uint64(1)))
    ('0x80000000', '0x8000000000000000')
    """
    bits = _unsigned(x)
    width, done = bits.dtype.itemsize * 8, np.zeros_like(bits)
    for k in range(width):
        done = done | (((bits >> bits.dtype.type(k)) & bits.dtype.type(1)) << bits.dtype.type(width - 1 - k))
    return done


def _unsigned(x: Any) -> Any:
    """Return whole numbers as unsigned ones of the same bits."""
    numbers = np.asarray(x)
    return numbers.astype(f"u{numbers.dtype.itemsize}")[()]


def fma(a: Any, b: Any, c: Any) -> Any:
    """``a * b + c`` of floating-point numbers, rounded once.

    In single precision the product is exact in double precision, and so is the sum but for the last of its 53 bits.
    In double precision the product is taken apart into two numbers without an error (Dekker 1971), and so is the sum
    (Knuth 1969). Both may differ from a GPU's in the last digit where the exact sum lies halfway between two numbers;
    products beyond 1e300 are computed with two roundings.

    >>> a = np.float32(1 + 2**-12)
    >>> float(fma(a, a, np.float32(-1))) == 2**-11 + 2**-24, float(a * a - np.float32(1)) == 2**-11
    (True, True)
    """
    dtype = np.result_type(a, b, c)
    if dtype.itemsize <= 4:
        return (np.float64(a) * np.float64(b) + np.float64(c)).astype(dtype)
    product, rest = _two_product(a, b)
    total = product + c
    part = total - product
    exact = (product - (total - part)) + (c - part)
    fused = total + (exact + rest)
    return np.where(np.isfinite(fused) & np.isfinite(rest), fused, a * b + c)[()]


def _two_product(a: Any, b: Any) -> tuple[Any, Any]:
    product = a * b
    a_high, b_high = (_SPLIT * x - (_SPLIT * x - x) for x in (a, b))
    a_low, b_low = a - a_high, b - b_high
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def elementwise(function: Callable[..., float]) -> Callable[..., NDArray[Any]]:
    """Return a function of arrays that calls a function of numbers for each element; NaN where that has no answer.

    >>> elementwise(math.gamma)(np.array([4.0, -1.0])).tolist()
    [6.0, nan]
    """

    def one(*numbers: float) -> float:
        try:
            return function(*numbers)
        except (ValueError, OverflowError):
            return math.nan

    made = np.frompyfunc(one, 1, 1)
    return lambda numbers: np.asarray(made(np.asarray(numbers, np.float64))).astype(np.float64)[()]


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "popc": popc,
    "clz": clz,
    "ffs": ffs,
    "brev": brev,
    "fma": fma,
    "erf": elementwise(math.erf),
    "erfc": elementwise(math.erfc),
    "gamma": elementwise(math.gamma),
    "lgamma": elementwise(math.lgamma),
}
"""By the name under which `plain_numbers.calculate` finds them."""

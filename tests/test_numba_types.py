"""Numba's rules for mixed types: held against the type inference of Numba itself, and what kernels make of them."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numba import types
from numba.cuda.target import CUDATypingContext
from numba.np.numpy_support import as_dtype

from gpusim_des import cuda
from gpusim_des.functional.arithmetic_rules import function_name
from gpusim_des.functional.numba_types import NUMBA_TYPES

SCALARS = [
    *(types.boolean, types.int8, types.uint8, types.int16, types.uint16, types.int32, types.uint32, types.int64),
    *(types.uint64, types.float32, types.float64, types.complex64, types.complex128),
]
OPERATORS = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "floor_divide": operator.floordiv,
    "remainder": operator.mod,
    "power": operator.pow,
    "left_shift": operator.lshift,
    "right_shift": operator.rshift,
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
}
ODD = {("power", types.boolean, types.int32)}
"""Numba makes a ``float32`` of a truth value to the power of an ``int32``, an ``int64`` of all other whole powers."""


@pytest.fixture(scope="module")
def context() -> Any:
    made = CUDATypingContext()
    made.refresh()
    return made


def inferred(context: Any, function: Any, *arguments: Any) -> Any:
    """Signature that Numba finds, ``None`` if there is none."""
    try:
        return context.resolve_function_type(function, arguments, {})
    except Exception:  # noqa: BLE001 - Numba's own errors, of several kinds
        return None


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_have_numbas_types(name: str, context: Any) -> None:
    known = 0
    for a in SCALARS:
        for b in SCALARS:
            found = inferred(context, OPERATORS[name], a, b)
            if found is not None and (name, a, b) not in ODD:
                assert NUMBA_TYPES.joint(name, [as_dtype(a), as_dtype(b)]) == as_dtype(found.return_type), (a, b)
                known += 1
    assert known >= 80


@pytest.mark.parametrize(("name", "function"), [("less", operator.lt), ("equal", operator.eq)])
def test_comparisons_are_made_in_numbas_types(name: str, function: Callable[..., Any], context: Any) -> None:
    known = 0
    for a in SCALARS:
        for b in SCALARS:
            found = inferred(context, function, a, b)
            if found is not None:
                both = np.promote_types(*map(as_dtype, found.args))
                assert NUMBA_TYPES.joint(name, [as_dtype(a), as_dtype(b)]) == both, (a, b)
                known += 1
    assert known >= 120


@pytest.mark.parametrize("name", ["negative", "invert"])
def test_signs_and_complements(name: str, context: Any) -> None:
    function = {"negative": operator.neg, "invert": operator.invert}[name]
    for a in SCALARS:
        found = inferred(context, function, a)
        if found is not None:
            assert NUMBA_TYPES.unary(name, as_dtype(a)) == as_dtype(found.return_type), a


FUNCTIONS = [
    *(math.sqrt, math.exp, math.expm1, math.log, math.log2, math.log10, math.log1p, math.sin, math.cos, math.tan),
    *(math.sinh, math.cosh, math.tanh, math.asin, math.acos, math.atan, math.asinh, math.acosh, math.atanh),
    *(math.floor, math.ceil, math.trunc, math.fabs, math.erf, math.erfc, math.gamma, math.lgamma, math.degrees),
    *(math.radians, math.pow, math.atan2, math.hypot, math.fmod, math.copysign, min, max, abs),
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_functions_have_numbas_types(function: Callable[..., Any], context: Any) -> None:
    name = {min: "minimum", max: "maximum"}.get(function) or function_name(function)
    assert name is not None
    two = function in {math.pow, math.atan2, math.hypot, math.fmod, math.copysign, min, max}
    known = 0
    for a in (types.int32, types.int64, types.uint64, types.float32, types.float64):
        for b in (types.int32, types.int64, types.float32, types.float64) if two else (None,):
            arguments = (a,) if b is None else (a, b)
            found = inferred(context, function, *arguments)
            if found is not None:
                mine = NUMBA_TYPES.joint(name, [as_dtype(x) for x in arguments])
                assert mine == as_dtype(found.return_type), arguments
                known += 1
    assert known >= 5


@pytest.mark.parametrize("function", [int, float, round])
def test_conversions_have_numbas_types(function: Any, context: Any) -> None:
    for a in SCALARS:
        found = inferred(context, function, a)
        if found is not None and not isinstance(a, types.Boolean):
            own = as_dtype(a)
            mine = NUMBA_TYPES.rounded(round, "rint") if function is round else NUMBA_TYPES.cast(function, own)
            assert mine == as_dtype(found.return_type), a


@cuda.jit
def types_of_variables(x: Any, out: Any) -> None:
    half = x[0] * 0.5
    single = x[0] * np.float32(0.5)
    i: Any = 1
    i = i + 0.5  # from here on another variable
    total = 0
    for k in range(2):
        total += x[k]
    big = cuda.threadIdx.x + 2147483647 + 1
    out[0], out[1], out[2], out[3], out[4] = half, single, i, total, big


def test_half_of_a_float32_is_computed_in_double_precision() -> None:
    """A multiplication with 0.5 and three additions have 64 bits, a multiplication with ``np.float32(0.5)`` has 32."""
    cuda.select("tiny")
    third = np.float32(1) / np.float32(3)
    x, out = np.array([third, 2.0], np.float32), np.zeros(5)
    types_of_variables[1, 1](x, out)
    assert out.tolist() == [float(third) * 0.5, float(third * np.float32(0.5)), 1.5, float(third) + 2.0, 2.0**31]
    mix = types_of_variables.launches[-1].counters.instruction_mix
    assert (mix["fp32"], mix["fp64"]) == (1, 4)

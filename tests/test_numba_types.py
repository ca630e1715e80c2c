"""Numba's rules for mixed types: held against the type inference of Numba itself, and what kernels make of them."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import types
from numba.cuda.target import CUDATypingContext
from numba.np.numpy_support import as_dtype

from gpusim_des import cuda
from gpusim_des.functional.arithmetic_rules import function_name
from gpusim_des.functional.numba_types import NUMBA_TYPES
from tests.thread_modules import module_of

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


@cuda.jit
def parameters_that_change(x: Any, n: Any, out: Any) -> None:
    out[0] = x / np.float32(3)  # in single precision
    x = x * 0.5
    n = n // 2
    n = n + 0.25
    out[1] = x / 3
    out[2] = n


def test_a_parameter_is_another_variable_after_an_assignment() -> None:
    cuda.select("tiny")
    out = np.zeros(3)
    parameters_that_change[1, 1](np.float32(1), 7, out)
    assert out.tolist() == [float(np.float32(1) / np.float32(3)), 0.5 / 3, 3.25]


@cuda.jit
def products(out: Any) -> None:
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    out[i] = cuda.threadIdx.x * cuda.threadIdx.x


@cuda.jit
def long_products(out: Any) -> None:
    i = cuda.grid(1)
    out[i] = i * i


def test_products_of_short_numbers_are_one_wide_instruction() -> None:
    """A wide multiply-add takes the thread's index, which is converted; then a product, an address.

    With ``grid`` the index is made in one instruction, and a product of 64-bit numbers takes three.
    """
    cuda.select("tiny")
    out = np.zeros(64, np.int64)
    products[2, 32](out)
    assert out.tolist() == [t * t for t in range(32)] * 2
    assert products.launches[-1].counters.instruction_mix["int"] == 2 * (1 + 1 + 1 + 1)
    long_products[2, 32](out)
    assert out.tolist() == [i * i for i in range(64)]
    assert long_products.launches[-1].counters.instruction_mix["int"] == 2 * (1 + 3 + 1)


# Values -------------------------------------------------------------------------------------------------------------

EXPRESSIONS = [
    *("i + j", "i * j - k", "i // (k | 1)", "i % (j | 1)", "-i // 7", "~j + k", "i << 3 ^ k", "k >> (i & 7)", "u + w"),
    *("u * u", "u - w * 5", "u // 3 + w % 7", "(u << 4) >> 2", "b * b + b", "b // 3 - c", "c * c * c", "i & 255 | u"),
    *("i + 0.5", "x * 0.5", "x + y", "x * y + z", "x / 3", "i / j if j != 0 else 0.0", "x * i", "c + x", "x // 0.25"),
    *("z % 0.75", "x ** 2", "i ** 2 + j ** 3", "math.sqrt(abs(x)) * math.sqrt(abs(i))", "math.floor(z * 10)"),
    *("math.exp(x)", "math.expm1(z)", "math.atan2(x, y)", "math.hypot(x, z)", "min(i, x)", "max(b, u) - min(x, z)"),
    *("abs(c) + abs(x)", "int(x * 100) + int(z * 100)", "float(i) * x", "np.float32(z) * np.float32(i)"),
    *("np.int8(i) + np.uint16(j)", "(i > j) + (x > y)", "not i > j", "i > 0 and x > 0", "(i < u) + (x == z) * 2"),
    *("math.copysign(x, z) + math.fabs(i)", "round(z * 10)", "math.pow(x, 2)", "np.fmod(z, 0.3)", "i if x > 0 else z"),
]
"""Of i and j of 32 bits, k of 64, b of 8, unsigned u of 32, w of 64, c of 8, single precision x and y, double z."""

NAMES = "ijkuwbcxyz"
SOURCE = """\
import math

import numba
import numpy as np

from gpusim_des import cuda


@numba.njit(error_model="numpy")
def theirs({names}, out):
{stores}


@cuda.jit
def ours({names}, out):
    t = cuda.grid(1)
    {picks}
    out = out[t]
{stores}
"""


def test_expressions_have_the_values_that_numba_computes(tmp_path: Path) -> None:
    """Half a hundred expressions of ten variables of eight types, compiled by Numba for the CPU; two hundred inputs.

    Whole numbers to the last bit, all 64 of them. Floating-point numbers to three parts in ten million: Numba computes
    functions of single precision in single precision, where NumPy rounds some of them better.
    """
    stores = "\n".join(f"    out[{n}] = {e}" for n, e in enumerate(EXPRESSIONS))
    picks = f"{', '.join(NAMES)} = {', '.join(f'{n}[t]' for n in NAMES)}"
    module = module_of(SOURCE.format(names=", ".join(NAMES), stores=stores, picks=picks), tmp_path)
    rng = np.random.default_rng(11)
    size = 200
    inputs: dict[str, Any] = {
        **{n: rng.integers(-(2**31), 2**31, size).astype(np.int32) for n in "ij"},
        "k": rng.integers(-(2**62), 2**62, size),
        "u": rng.integers(0, 2**32, size).astype(np.uint32),
        "w": rng.integers(0, 2**63, size).astype(np.uint64),
        "b": rng.integers(-128, 128, size).astype(np.int8),
        "c": rng.integers(0, 256, size).astype(np.uint8),
        **{n: rng.normal(size=size).astype(np.float32) for n in "xy"},
        "z": rng.normal(size=size),
    }
    inputs["i"][:100] = rng.integers(-50, 50, 100)  # small numbers, too
    whole: dict[str, bool] = {}
    for kind in (np.float64, np.int64):
        wanted, found = np.zeros((size, len(EXPRESSIONS)), kind), np.zeros((size, len(EXPRESSIONS)), kind)
        for n in range(size):
            module.theirs(*(inputs[name][n] for name in NAMES), wanted[n])
        cuda.select("tiny")
        module.ours[1, size](*(inputs[name] for name in NAMES), found)
        for number, expression in enumerate(EXPRESSIONS):
            mine, right = found[:, number], wanted[:, number]
            if kind is np.float64:
                whole[expression] = bool((right == np.trunc(right)).all())
            if kind is np.float64 or whole[expression]:
                rtol = 0.0 if whole[expression] else 3e-7
                np.testing.assert_allclose(mine, right, rtol=rtol, atol=0, err_msg=expression)
    assert 20 < sum(whole.values()) < len(EXPRESSIONS)

"""C's rules for mixed types, as thread-style kernels follow them: 32 bits unless somebody asks for 64.

A plain Python number is a constant: it takes the type of the value that it meets.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gpusim_des.functional import instructions

INT32, INT64, FLOAT32, BOOL = np.dtype(np.int32), np.dtype(np.int64), np.dtype(np.float32), np.dtype(np.bool_)

Dtype = np.dtype[Any]

BITWISE = frozenset({"bitwise_and", "bitwise_or", "bitwise_xor"})


def constant_type(value: Any) -> Dtype:
    """Type of a constant that stands alone: ``int``, or 64 bits if it does not fit; ``float``; ``bool``.

    >>> constant_type(7), constant_type(2**31), constant_type(0.5)
    (dtype('int32'), dtype('int64'), dtype('float32'))
    """
    if isinstance(value, np.generic):
        return value.dtype
    if isinstance(value, bool):
        return BOOL
    if isinstance(value, int):
        return INT32 if -(2**31) <= value < 2**31 else INT64 if -(2**63) <= value < 2**63 else np.dtype(np.uint64)
    if isinstance(value, float):
        return FLOAT32
    return np.dtype(np.complex64)


def promoted(dtype: Dtype) -> Dtype:
    """Integer promotion: types narrower than ``int`` become ``int``.

    >>> promoted(np.dtype("i1")), promoted(np.dtype("u4"))
    (dtype('int32'), dtype('uint32'))
    """
    return INT32 if dtype.kind in "iub" and dtype.itemsize < 4 else dtype


def common_type(a: Dtype, b: Dtype) -> Dtype:
    """Usual arithmetic conversions: the floating type wins, then the wider one, then the unsigned one.

    >>> common_type(INT32, FLOAT32), common_type(np.dtype("u4"), INT32), common_type(FLOAT32, np.dtype("f8"))
    (dtype('float32'), dtype('uint32'), dtype('float64'))
    """
    a, b = promoted(a), promoted(b)
    for kind in "cf":
        found = [t for t in (a, b) if t.kind == kind]
        if len(found) == 2:
            return np.promote_types(a, b)
        if found:
            other = b if found[0] is a else a
            return np.promote_types(found[0], other) if other.kind == "f" else found[0]
    if a.itemsize != b.itemsize:
        return a if a.itemsize > b.itemsize else b
    return a if a.kind == "u" else b


def meet_constant(dtype: Dtype, value: Any) -> Dtype:
    """Type in which a value of type `dtype` and a constant are combined.

    >>> meet_constant(INT32, 0.5), meet_constant(np.dtype("f8"), 2), meet_constant(INT32, 2**40)
    (dtype('float32'), dtype('float64'), dtype('int64'))
    >>> meet_constant(np.dtype("u4"), 0xFFFFFFFF), meet_constant(np.dtype("u4"), -1)
    (dtype('uint32'), dtype('uint32'))
    """
    if isinstance(value, np.generic):
        return common_type(dtype, value.dtype)
    own = constant_type(value)
    if own.kind == "f" and dtype.kind in "fc":
        return dtype
    if own.kind in "iu" and dtype.kind in "iu" and 0 <= value <= np.iinfo(promoted(dtype)).max:
        return promoted(dtype)
    if own.kind in "ib" and (dtype.kind in "fc" or own.itemsize <= promoted(dtype).itemsize):
        return promoted(dtype)
    return common_type(dtype, own)


def operation_type(name: str, dtype: Dtype) -> Dtype:
    """Type in which operation `name` on operands of the common type `dtype` is computed."""
    if dtype.kind in "iub" and (name in {"divide", "power"} or name in FLOAT_FUNCTIONS):
        return FLOAT32 if name != "power" else dtype
    return dtype


def conversion(source: Dtype, target: Dtype) -> instructions.Sequence:
    """Instructions of a conversion; loads widen narrow integers and stores narrow them on the way.

    >>> conversion(np.dtype("i1"), INT32), conversion(INT32, FLOAT32)
    ((), (<OpClass.CONVERSION: 4>,))
    """
    if all(t.kind in "iu" and t.itemsize <= 4 for t in (source, target)):
        return ()
    return instructions.conversion(source, target)


FLOAT_FUNCTIONS = frozenset(
    {
        "sqrt",
        "exp",
        "exp2",
        "expm1",
        "log",
        "log2",
        "log10",
        "log1p",
        "sin",
        "cos",
        "tan",
        "sinh",
        "cosh",
        "tanh",
        "arcsin",
        "arccos",
        "arctan",
        "arctan2",
        "hypot",
        "fabs",
        "float_power",
        "reciprocal",
        "cbrt",
        "erf",
        "erfc",
        "gamma",
        "lgamma",
        "arcsinh",
        "arccosh",
        "arctanh",
        "degrees",
        "radians",
        "floor",
        "ceil",
        "rint",
        "trunc",
    }
)
"""Functions whose result is a floating-point number whatever the operand."""

_MATH_NAMES = {
    math.sqrt: "sqrt",
    math.exp: "exp",
    math.log: "log",
    math.log2: "log2",
    math.log10: "log10",
    math.log1p: "log1p",
    math.sin: "sin",
    math.cos: "cos",
    math.tan: "tan",
    math.sinh: "sinh",
    math.cosh: "cosh",
    math.tanh: "tanh",
    math.asin: "arcsin",
    math.acos: "arccos",
    math.atan: "arctan",
    math.atan2: "arctan2",
    math.hypot: "hypot",
    math.fabs: "fabs",
    math.floor: "floor",
    math.ceil: "ceil",
    math.trunc: "trunc",
    math.pow: "float_power",
    math.fmod: "fmod",
    math.isnan: "isnan",
    math.isinf: "isinf",
    math.isfinite: "isfinite",
    math.expm1: "expm1",
    math.erf: "erf",
    math.erfc: "erfc",
    math.gamma: "gamma",
    math.lgamma: "lgamma",
    math.asinh: "arcsinh",
    math.acosh: "arccosh",
    math.atanh: "arctanh",
    math.copysign: "copysign",
    math.degrees: "degrees",
    math.radians: "radians",
    abs: "absolute",
    round: "rint",
    pow: "power",
}


def function_name(function: Callable[..., Any]) -> str | None:
    """NumPy's name of a scalar function, ``None`` if it is not one that kernels may call.

    >>> function_name(math.atan2), function_name(np.maximum), function_name(print)
    ('arctan2', 'maximum', None)
    """
    if isinstance(function, np.ufunc):
        return function.__name__
    try:
        return _MATH_NAMES.get(function)
    except TypeError:  # not hashable
        return None

"""What an operator costs in warp instructions, by operation and element type (W2).

Each entry says where it comes from; entries marked *assumption* have no measured source yet. A result is produced by
the last instruction of its sequence, every instruction of a sequence depends on the one before.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpusim_des.trace import OpClass

INT, F32, F64, F16 = OpClass.INT, OpClass.FP32, OpClass.FP64, OpClass.FP16
CVT, SFU = OpClass.CONVERSION, OpClass.SFU

Sequence = tuple[OpClass, ...]

ADDRESS: Sequence = (INT,)
"""64-bit address of an element: one wide multiply-add of index and element size (IMAD.WIDE in SASS listings)."""

_ALU = frozenset(
    {
        "equal",
        "not_equal",
        "less",
        "less_equal",
        "greater",
        "greater_equal",
        "maximum",
        "minimum",
        "fmax",
        "fmin",
        "absolute",
        "fabs",
        "negative",
        "sign",
        "isnan",
        "isfinite",
        "isinf",
        "signbit",
        "logical_and",
        "logical_or",
        "logical_not",
        "logical_xor",
        "select",
        "copysign",
    }
)
"""Compare, select, minimum and sign operations run on the integer pipe for every type (FSETP, FMNMX and FSEL are ALU
instructions on compute capability 7.0 and later; recalled, unchecked)."""

_FLOAT_SEQUENCES: dict[str, int] = {
    # Instructions of the type's own class beside one SFU start value.
    "divide": 7,  # TITAN V: 8 divisions per clock and SM against 64 multiply-adds, so 8 issue slots
    "true_divide": 7,
    "reciprocal": 7,
    "sqrt": 7,  # the same microbenchmark: 8 square roots per clock and SM
    "exp": 6,  # assumption: scale, split, polynomial correction around ex2
    "exp2": 3,  # assumption
    "expm1": 10,  # assumption
    "log": 9,  # assumption
    "log2": 9,  # assumption
    "log10": 10,  # assumption
    "log1p": 12,  # assumption
    "sin": 16,  # assumption: range reduction without the slow path, polynomial
    "cos": 16,  # assumption
    "tan": 20,  # assumption
    "tanh": 12,  # assumption
    "sinh": 14,  # assumption
    "cosh": 14,  # assumption
    "arctan": 16,  # assumption
    "arcsin": 18,  # assumption
    "arccos": 18,  # assumption
    "arctan2": 24,  # assumption
    "hypot": 10,  # assumption
    "power": 20,  # assumption: log2, multiply, exp2 with extended precision
    "float_power": 20,  # assumption
    "cbrt": 12,  # assumption
    "erf": 14,  # assumption: polynomials of two ranges, an exponential
    "erfc": 20,  # assumption
    "gamma": 40,  # assumption
    "lgamma": 40,  # assumption
    "arcsinh": 16,  # assumption: a logarithm of a sum with a root
    "arccosh": 16,  # assumption
    "arctanh": 14,  # assumption
}

_BITS: dict[str, int] = {"popc": 1, "clz": 1, "brev": 1, "ffs": 2}
"""Instructions of 32 bits at a quarter of the rate of additions, as the SFU's (CUDA C++ Programming Guide, "Arithmetic
instructions": 16 results per clock and SM); the lowest bit is the highest of the reverse."""

_DIVISIONS = frozenset({"floor_divide", "remainder", "fmod"})

_INT_DIVISION: Sequence = (CVT, SFU, CVT, *(INT,) * 12)
"""32-bit division or remainder by a variable: float reciprocal, two conversions, corrections (assumption: 15)."""

_CONSTANT_DIVISION: Sequence = (INT, INT, INT)
"""Division by a constant: multiply high, shift, correct the sign (Granlund and Montgomery 1994)."""


def float_class(dtype: np.dtype[Any]) -> OpClass:
    """Pipe of an arithmetic operation on this element type."""
    if dtype.kind in "fc":
        size = dtype.itemsize // (2 if dtype.kind == "c" else 1)
        return {2: F16, 4: F32}.get(size, F64)
    return INT


def arithmetic(name: str, dtype: np.dtype[Any], constant: object = None) -> Sequence:
    """Instructions of NumPy operation `name` on operands of type `dtype`.

    `constant` is the second operand if it is a plain number: division by it is cheaper, by a power of two a shift.

    >>> [op.label for op in arithmetic("multiply", np.dtype("f4"))]
    ['fp32']
    >>> len(arithmetic("remainder", np.dtype("i4"))), len(arithmetic("remainder", np.dtype("i4"), 32))
    (15, 1)
    """
    if name in _ALU:
        return (INT,) * _width(dtype)
    if name in _BITS:
        return (SFU,) * (_BITS[name] * _width(dtype))
    if float_class(dtype) is INT:
        return _integer(name, dtype, constant)
    return _floating(name, dtype)


def _width(dtype: np.dtype[Any]) -> int:
    """Parts that are computed one by one: two for 64-bit integers and for complex numbers."""
    return 2 if (dtype.kind in "iu" and dtype.itemsize == 8) or dtype.kind == "c" else 1


def _floating(name: str, dtype: np.dtype[Any]) -> Sequence:
    own, width = float_class(dtype), _width(dtype)
    if name in _FLOAT_SEQUENCES:
        return (SFU, *(own,) * (_FLOAT_SEQUENCES[name] * width))
    if name in _DIVISIONS:
        return (SFU, *(own,) * (10 * width))  # assumption: a division, a rounding, a multiply-add
    if name in {"floor", "ceil", "rint", "trunc"}:
        return (CVT,)  # FRND runs beside the conversions (recalled, unchecked)
    return (own,) * (4 if dtype.kind == "c" and name == "multiply" else width)


def _integer(name: str, dtype: np.dtype[Any], constant: object) -> Sequence:
    width = _width(dtype)
    if name in _DIVISIONS:
        if isinstance(constant, int | np.integer) and constant > 0:
            return (INT,) if constant & (constant - 1) == 0 else _CONSTANT_DIVISION * width
        return _INT_DIVISION * width
    return (INT,) * (3 if width == 2 and name == "multiply" else width)


def conversion(source: np.dtype[Any], target: np.dtype[Any]) -> Sequence:
    """Instructions that turn `source` into `target`: none, a move between integer widths, or a conversion.

    >>> conversion(np.dtype("i4"), np.dtype("f4")), conversion(np.dtype("f4"), np.dtype("f4"))
    ((<OpClass.CONVERSION: 4>,), ())
    """
    if source == target:
        return ()
    return (INT,) if source.kind in "iub" and target.kind in "iub" else (CVT,)

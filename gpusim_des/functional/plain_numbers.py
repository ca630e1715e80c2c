"""Arithmetic of constants in a kernel: Python's for plain numbers, the element type's for NumPy scalars."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpusim_des.functional import number_functions
from gpusim_des.functional.type_rules import TypeRules

_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / b,
    "floor_divide": lambda a, b: a // b,
    "remainder": lambda a, b: a % b,
    "power": lambda a, b: a**b,
    "left_shift": lambda a, b: a << b,
    "right_shift": lambda a, b: a >> b,
    "bitwise_and": lambda a, b: a & b,
    "bitwise_or": lambda a, b: a | b,
    "bitwise_xor": lambda a, b: a ^ b,
    "less": lambda a, b: a < b,
    "less_equal": lambda a, b: a <= b,
    "greater": lambda a, b: a > b,
    "greater_equal": lambda a, b: a >= b,
    "equal": lambda a, b: a == b,
    "not_equal": lambda a, b: a != b,
    "minimum": min,
    "maximum": max,
}


def compute(types: TypeRules, name: str, a: Any, b: Any) -> Any:
    """``a op b`` of two constants.

    >>> from gpusim_des.functional.type_rules import C_TYPES
    >>> compute(C_TYPES, "add", 3, 4), compute(C_TYPES, "subtract", np.uint32(1), 2)
    (7, np.uint32(4294967295))
    """
    operands = [x.dtype if isinstance(x, np.generic) else x for x in (a, b)]
    if not any(isinstance(x, np.dtype) for x in operands):
        return _OPERATORS[name](a, b)
    joint = types.joint(name, operands)
    return calculate(name, joint, cast(a, joint), cast(b, joint))


def cast(value: Any, dtype: np.dtype[Any]) -> Any:
    """Convert as C does, without a warning.

    >>> cast(-1, np.dtype(np.uint32)), cast(300, np.dtype(np.int8))
    (np.uint32(4294967295), np.int8(44))
    """
    with np.errstate(all="ignore"):
        return np.asarray(value).astype(dtype)[()]


def calculate(name: str, dtype: np.dtype[Any], *operands: Any) -> Any:
    """``np.name`` of numbers or arrays of type `dtype`, in that type, without warnings: a GPU raises no exceptions.

    An integer to a negative power is 0, unlike in NumPy, which refuses it even in lanes that are not active.
    """
    with np.errstate(all="ignore"):
        if name == "power" and dtype.kind in "iu":
            base, exponent = operands
            value = np.where(exponent < 0, 0, np.power(base, np.maximum(exponent, 0)))[()]
        else:
            value = function_of(name)(*operands)
    size_of_complex = dtype.kind == "c" and value.dtype.kind == "f"
    return value if value.dtype.kind == "b" or value.dtype == dtype or size_of_complex else value.astype(dtype)


@cache
def function_of(name: str) -> Callable[..., Any]:
    """Function of arrays by its name in `rules.function_name`: NumPy's, or one that NumPy lacks."""
    found: Callable[..., Any] = number_functions.FUNCTIONS.get(name) or getattr(np, name)
    return found


def active_only(value: NDArray[Any], mask: NDArray[np.bool_] | None, shape: tuple[int, int]) -> NDArray[Any]:
    """Numbers of the active threads, in a row; one zero if there are none."""
    if mask is None:
        return value.reshape(-1)
    chosen: NDArray[Any] = np.broadcast_to(value, shape)[np.broadcast_to(mask, shape)]
    return chosen if chosen.size else np.zeros(1, value.dtype)

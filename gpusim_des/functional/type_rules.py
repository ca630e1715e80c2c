"""Which types meet to which: the rules that a thread kernel's language has, C's here, Numba's in `numba_types`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from gpusim_des.functional import arithmetic_rules as rules
from gpusim_des.functional.arithmetic_rules import Dtype


class TypeRules(Protocol):
    """Types of constants, operations and variables.

    Attributes
    ----------
    whole, real
        What ``int(x)`` of a floating-point number, and ``float(x)`` of a whole one, return.
    lane_mask
        Type of an answer with a bit per lane.
    numpy_indices
        Arrays are indexed as in NumPy: negative indices count from the end, and fewer indices than dimensions, or
        slices, are views. Otherwise as in C: one index of an array of several dimensions is the row-major position.
    """

    whole: Dtype
    real: Dtype
    lane_mask: Dtype
    numpy_indices: bool

    def constant_type(self, value: Any) -> Dtype:
        """Type of a constant that stands alone."""

    def joint(self, name: str, operands: Sequence[Any]) -> Dtype:
        """Type in which operation `name` is computed; operands are types, at least one of them, and constants."""

    def unary(self, name: str, dtype: Dtype) -> Dtype:
        """Type in which ``-x`` (``negative``) or ``~x`` (``invert``) is computed."""

    def variable(self, old: Dtype, old_constant: bool, new: Dtype, new_constant: bool) -> Dtype:
        """Type of a variable that had one and is assigned another; `constant`: only constants were assigned."""

    def counter(self, dtype: Dtype) -> Dtype:
        """Type of a loop counter that starts with a value of type `dtype`."""

    def rounded(self, function: Callable[..., Any], name: str) -> Dtype | None:
        """Type of a whole number that a rounding function returns, ``None`` if it stays what it is."""

    def cast(self, function: Any, argument: Any) -> Dtype | None:
        """Type that ``int`` or ``float`` makes of a number, ``None`` for other functions; `argument`: its type."""


class CTypes:
    """C's rules for mixed types: 32 bits unless somebody asks for 64, and constants adapt.

    Examples
    --------
    >>> i, f, b = np.dtype(np.int32), np.dtype(np.float32), np.dtype(np.bool_)
    >>> C_TYPES.joint("add", [i, f]), C_TYPES.joint("multiply", [f, 0.5]), C_TYPES.joint("divide", [i, 2])
    (dtype('float32'), dtype('float32'), dtype('float32'))
    >>> C_TYPES.joint("bitwise_and", [b, b]), C_TYPES.joint("add", [b, b])
    (dtype('bool'), dtype('int32'))
    """

    whole = rules.INT32
    real = rules.FLOAT32
    lane_mask = np.dtype(np.uint32)
    numpy_indices = False

    def constant_type(self, value: Any) -> Dtype:
        """Type of a constant that stands alone."""
        return rules.constant_type(value)

    def joint(self, name: str, operands: Sequence[Any]) -> Dtype:
        """Usual arithmetic conversions, then what the operation makes of them."""
        known = [x for x in operands if isinstance(x, np.dtype)]
        if name in rules.BITWISE and len(known) == 2 and set(known) == {rules.BOOL}:
            return rules.BOOL
        joint = known[0]
        for other in known[1:]:
            joint = rules.common_type(joint, other)
        for operand in operands:
            if not isinstance(operand, np.dtype):
                joint = rules.meet_constant(joint, operand)
        return rules.operation_type(name, joint)

    def unary(self, name: str, dtype: Dtype) -> Dtype:
        """Integer promotion, but for ``~`` of a truth value."""
        return dtype if name == "invert" and dtype == rules.BOOL else rules.promoted(dtype)

    def variable(self, old: Dtype, old_constant: bool, new: Dtype, new_constant: bool) -> Dtype:
        """As an expression of both would have; constants adapt to what is no constant."""
        if new_constant and not old_constant:
            return with_constant(old, new)
        if old_constant and not new_constant:
            return with_constant(new, old)
        return old if old == new else rules.common_type(old, new)

    def counter(self, dtype: Dtype) -> Dtype:
        """At least ``int``."""
        return dtype if dtype.itemsize >= 4 else rules.INT32

    def rounded(self, function: Callable[..., Any], name: str) -> Dtype | None:
        """``int`` for Python's functions, which NumPy's are not."""
        python = name in {"floor", "ceil", "trunc"} and function.__module__ == math.__name__
        return rules.INT32 if python or function is round else None

    def cast(self, function: Any, argument: Any) -> Dtype | None:  # noqa: ARG002 - Numba's rules look at it
        """``int`` and ``float`` have 32 bits."""
        return {int: self.whole, float: self.real}.get(function)


def with_constant(dtype: Dtype, constant: Dtype) -> Dtype:
    """Type of a variable that gets values of type `dtype` and constants.

    >>> with_constant(np.dtype("u4"), rules.INT32), with_constant(np.dtype("i1"), rules.INT32)
    (dtype('uint32'), dtype('int32'))
    """
    if dtype == constant or (dtype.kind in "fc" and constant.kind != "c"):
        return dtype
    if dtype.kind in "iub" and constant.kind in "iub" and constant.itemsize <= rules.promoted(dtype).itemsize:
        return rules.promoted(dtype)
    return rules.common_type(dtype, constant)


C_TYPES = CTypes()

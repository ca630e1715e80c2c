"""Numba's rules for mixed types, as kernels written for ``numba.cuda`` follow them: 64 bits unless all are narrower.

A Python number is no guest that adapts: ``2`` is an ``int64`` and ``0.5`` a ``float64``, so that ``0.5 * x`` of a
``float32`` is computed with 64 bits, a frequent cause of slow kernels in Numba. The tests hold these rules
against Numba's own type inference, all operators and all pairs of types. (Numba Enhancement Proposal 1, "Changes in
integer typing"; Numba's reference manual, "Types and signatures".)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpusim_des.functional import arithmetic_rules as rules
from gpusim_des.functional.arithmetic_rules import Dtype

FLOAT64, UINT64 = np.dtype(np.float64), np.dtype(np.uint64)

_ALIKE = frozenset(
    {
        *("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"),
        *("minimum", "maximum", "fmin", "fmax", "absolute", "sign"),
    }
)
"""Operations on the narrowest type that holds both operands."""

_COMPARISONS = frozenset({"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"})

_SHIFTS = frozenset({"left_shift", "right_shift"})

_POWERS = {"power": 8, "float_power": 4}
"""Operations that keep the type of a floating-point base, for whole exponents of so many bytes at most."""

_REAL = rules.FLOAT_FUNCTIONS | {"divide", "fmod", "copysign"}
"""Operations whose result is a floating-point number whatever the operands."""


class NumbaTypes:
    """Numba's rules.

    Examples
    --------
    >>> i, u, f, b = (np.dtype(t) for t in (np.int32, np.uint32, np.float32, np.bool_))
    >>> NUMBA_TYPES.joint("add", [i, i]), NUMBA_TYPES.joint("add", [u, u]), NUMBA_TYPES.joint("add", [i, u])
    (dtype('int64'), dtype('uint64'), dtype('int64'))
    >>> NUMBA_TYPES.joint("multiply", [f, 0.5]), NUMBA_TYPES.joint("multiply", [f, f])
    (dtype('float64'), dtype('float32'))
    >>> NUMBA_TYPES.joint("multiply", [f, i]), NUMBA_TYPES.joint("power", [f, 2])
    (dtype('float64'), dtype('float32'))
    """

    whole = rules.INT64
    real = FLOAT64
    lane_mask = rules.INT32
    numpy_indices = True

    def constant_type(self, value: Any) -> Dtype:
        """``int64`` (``uint64`` if it fits only there), ``float64``, ``complex128``, ``bool``, or a NumPy number's own.

        >>> NUMBA_TYPES.constant_type(7), NUMBA_TYPES.constant_type(2**63), NUMBA_TYPES.constant_type(np.float32(1))
        (dtype('int64'), dtype('uint64'), dtype('float32'))
        """
        if isinstance(value, np.generic):
            return value.dtype
        if isinstance(value, bool):
            return rules.BOOL
        if isinstance(value, int):
            return rules.INT64 if value < 2**63 else UINT64
        return FLOAT64 if isinstance(value, float) else np.dtype(np.complex128)

    def joint(self, name: str, operands: Sequence[Any]) -> Dtype:
        """Type in which an operation is computed."""
        known = [x for x in operands if isinstance(x, np.dtype)]
        if name in _COMPARISONS and all(_fits(x, known[0]) for x in operands if not isinstance(x, np.dtype)):
            operands = known  # the same answer; a compiler compares in the narrower type
        types = [x if isinstance(x, np.dtype) else self.constant_type(x) for x in operands]
        whole = all(t.kind in "iub" for t in types)
        if name in rules.BITWISE and set(types) == {rules.BOOL}:
            return rules.BOOL
        if whole and name in _REAL:
            return FLOAT64
        if whole and name in _SHIFTS:
            return self.wide(types[:1])
        if whole and name not in _ALIKE:
            return self.wide(types)
        if name in _POWERS and types[0].kind == "f" and types[1].kind in "iub" and types[1].itemsize <= _POWERS[name]:
            return types[0]
        joint = types[0]
        for other in types[1:]:
            joint = common(joint, other)
        return joint

    @staticmethod
    def wide(types: Sequence[Dtype]) -> Dtype:
        """64 bits, unsigned if all are."""
        return UINT64 if all(t.kind == "u" for t in types) else rules.INT64

    def unary(self, name: str, dtype: Dtype) -> Dtype:
        """64 bits, but for ``~`` of a truth value."""
        if dtype.kind not in "iub" or (name == "invert" and dtype == rules.BOOL):
            return dtype
        return self.wide([dtype])

    def variable(self, old: Dtype, old_constant: bool, new: Dtype, new_constant: bool) -> Dtype:  # noqa: ARG002
        """The narrowest type that holds both: Numba unifies them."""
        return common(old, new)

    def counter(self, dtype: Dtype) -> Dtype:
        """64 bits."""
        return self.wide([dtype])

    def rounded(self, function: Callable[..., Any], name: str) -> Dtype | None:  # noqa: ARG002
        """``round`` only; ``math.floor`` and its like stay floating-point numbers."""
        return rules.INT64 if function is round else None

    def cast(self, function: Any, argument: Any) -> Dtype | None:
        """``int`` of a whole number and ``float`` of a floating-point number keep their width."""
        if function is int:
            return argument if argument.kind in "iu" else self.whole
        if function is float:
            return argument if argument.kind == "f" else self.real
        return None


def common(a: Dtype, b: Dtype) -> Dtype:
    """The narrowest type that holds both; with a ``uint16`` Numba widens a ``float32``, which would hold it.

    >>> common(np.dtype(np.int16), np.dtype(np.float32)), common(np.dtype(np.uint16), np.dtype(np.float32))
    (dtype('float32'), dtype('float64'))
    """
    joint = np.promote_types(a, b)
    short = np.dtype(np.uint16) in {a, b} and joint.kind in "fc"
    return np.promote_types(joint, np.uint32) if short else joint


def _fits(constant: Any, dtype: Dtype) -> bool:
    """Tell whether a whole constant is one of the numbers of a whole type."""
    if dtype.kind not in "iu" or isinstance(constant, bool) or not isinstance(constant, int):
        return False
    info = np.iinfo(dtype)
    return bool(info.min <= constant <= info.max)


NUMBA_TYPES = NumbaTypes()

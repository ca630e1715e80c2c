"""What formulas share: curves over arrays, and the refusal of numbers that mean nothing."""

from __future__ import annotations

import functools
import math
import numbers
import operator
from collections.abc import Callable
from typing import Any, ParamSpec

import numpy as np

P = ParamSpec("P")

Curve = Any
"""A number, or a list or array of them; arrays are broadcast against each other."""


def curve(function: Callable[P, float]) -> Callable[P, Any]:
    """Let a formula of single numbers take arrays as well: the result then is an array of the broadcast shape.

    The formula stays as it stands in a book, and an error names the single number that is wrong.

    >>> @curve
    ... def double(x: Curve) -> float:
    ...     return 2.0 * x
    >>> double(1), double([1, 2])
    (2.0, array([2., 4.]))
    """
    kind = np.int64 if function.__annotations__.get("return") in ("int", int) else np.float64
    over_arrays = np.vectorize(function, otypes=[kind])

    @functools.wraps(function)
    def wrapped(*positional: P.args, **named: P.kwargs) -> Any:
        if any(_is_array(value) for value in (*positional, *named.values())):
            return over_arrays(*positional, **named)
        return function(*positional, **named)

    return wrapped


def _is_array(value: Any) -> bool:
    return hasattr(value, "__len__") and not isinstance(value, (str, bytes))


def require(rule: str, within: Callable[[float], bool], **arguments: Any) -> None:
    """Refuse a number that is none, is not finite, or breaks a rule; the message names it, its value and the rule."""
    for name, value in arguments.items():
        real = isinstance(value, numbers.Real) and not isinstance(value, (bool, np.bool_))
        if not real or not math.isfinite(value) or not within(float(value)):
            raise ValueError(f"{name} = {value!s}: must be {rule}")


def require_positive(**arguments: Any) -> None:
    """Refuse what is not above 0.

    >>> require_positive(bandwidth=0)
    Traceback (most recent call last):
    ValueError: bandwidth = 0: must be a positive, finite number
    """
    require("a positive, finite number", lambda value: value > 0, **arguments)


def require_amount(**arguments: Any) -> None:
    """Refuse what is below 0."""
    require("a finite number, at least 0", lambda value: value >= 0, **arguments)


def require_fraction(**arguments: Any) -> None:
    """Refuse what is not from 0 to 1."""
    require("a fraction from 0 to 1", lambda value: 0 <= value <= 1, **arguments)


def whole(name: str, value: Any) -> int:
    """`value` as an int; refuse what is not a whole number, at least 1.

    >>> whole("blocks", 1.5)
    Traceback (most recent call last):
    ValueError: blocks = 1.5: must be a whole number, at least 1
    """
    rule = f"{name} = {value!s}: must be a whole number, at least 1"
    try:
        number = operator.index(value)
    except TypeError:
        raise ValueError(rule) from None
    if isinstance(value, (bool, np.bool_)) or number < 1:
        raise ValueError(rule)
    return number

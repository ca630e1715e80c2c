"""Sizes written as expressions: ``cdiv(n, block)`` in a grid, ``f32[n, n]`` in an argument.

Only whole numbers, names, ``+ - * // %``, ``cdiv``, ``min`` and ``max``: nothing that a text could do harm with.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import TypeGuard

import numpy as np

from gpusim_des.errors import UsageError
from gpusim_des.gpu.schema import suggest
from gpusim_des.grid import cdiv

LARGEST = 2**63 - 1
"""Largest size: what 64 bits count."""

LONGEST = 200
"""Characters of an expression."""

_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}

_FUNCTIONS: dict[str, Callable[..., int]] = {"cdiv": cdiv, "min": min, "max": max}


def is_whole(value: object) -> TypeGuard[int]:
    """Tell whether a value is a whole number, Python's or NumPy's.

    >>> is_whole(np.int32(5)), is_whole(True), is_whole(5.0)
    (True, False, False)
    """
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def evaluate(text: str, names: Mapping[str, object], where: str) -> tuple[int, ...]:
    """Compute an expression, or several with commas between them.

    Parameters
    ----------
    text
        For example ``"cdiv(n, block), 2"``.
    names
        Values that it may use; only those that are whole numbers count.
    where
        What is computed, for messages: ``grid``.

    Raises
    ------
    UsageError
        For anything but whole numbers, known names and the operators above.

    Examples
    --------
    >>> evaluate("cdiv(n, block), 2", {"n": 1000, "block": 256}, "grid")
    (4, 2)
    >>> evaluate("n / 2", {"n": 10}, "grid")
    Traceback (most recent call last):
        ...
    gpusim_des.errors.UsageError: grid = 'n / 2': 'n / 2' is not possible here: use whole numbers, names, + - * // %, \
cdiv(a, b), min and max
    """

    def value(node: ast.expr) -> int:
        number = _value(node, names, f"{where} = {text!r}", value)
        if abs(number) > LARGEST:
            raise UsageError(f"{where} = {text!r}: {ast.unparse(node)} is beyond 64 bits")
        return number

    return _each(text, value, where)


def check_expression(text: str, names: Iterable[str], where: str, most: int) -> None:
    """Refuse an expression that cannot be computed whatever the values of its names are; raises `UsageError`.

    Parameters
    ----------
    text, where
        As for `evaluate`.
    names
        What it may use.
    most
        Sizes that it may have.

    Examples
    --------
    >>> check_expression("cdiv(n, block - 1)", ["n", "block"], "grid", 3)
    >>> check_expression("cdiv(m, block)", ["n", "block"], "grid", 3)
    Traceback (most recent call last):
        ...
    gpusim_des.errors.UsageError: grid = 'cdiv(m, block)': 'm' is no argument that is a whole number: known: block, n
    """
    ones = dict.fromkeys(names, 1)

    def value(node: ast.expr) -> int:
        _value(node, ones, f"{where} = {text!r}", value)
        return 1  # so that no difference is a divisor of 0

    sizes = _each(text, value, where)
    if len(sizes) > most:
        raise UsageError(f"{where} = {text!r}: {len(sizes)} sizes: give {'one' if most == 1 else f'at most {most}'}")


def _each(text: str, value: Callable[[ast.expr], int], where: str) -> tuple[int, ...]:
    """Compute what stands between commas."""
    tree = _parsed(text) if len(text) <= LONGEST else None
    if tree is None:
        raise UsageError(
            f"{where} = {text[:LONGEST]!r}: not an expression; write for example 64, 16,16 or cdiv(n, block)"
        )
    try:
        return tuple(value(part) for part in (tree.elts if isinstance(tree, ast.Tuple) else [tree]))
    except (ZeroDivisionError, ValueError, TypeError) as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError(f"{where} = {text!r}: {error}") from None


@lru_cache(maxsize=1024)  # a sweep computes few expressions many times
def _parsed(text: str) -> ast.expr | None:
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _value(node: ast.expr, names: Mapping[str, object], where: str, value: Callable[[ast.expr], int]) -> int:
    match node:
        case ast.Constant(value=int() as number) if not isinstance(number, bool):
            return number
        case ast.Name(id=name):
            return _named(name, names, where)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](value(left), value(right))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -value(operand)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
            return _FUNCTIONS[name](*(value(a) for a in args))
    raise UsageError(
        f"{where}: {ast.unparse(node)!r} is not possible here: use whole numbers, names, + - * // %, cdiv(a, b), min "
        "and max"
    )


def _named(name: str, names: Mapping[str, object], where: str) -> int:
    value = names.get(name)
    if is_whole(value):
        return int(value)
    if name in names:
        example = f"{value:.0f}" if isinstance(value, float) and value.is_integer() else "1024"
        raise UsageError(f"{where}: {name} = {value!r} is no whole number; write for example {name}={example}")
    known = sorted(k for k, v in names.items() if is_whole(v))
    hint = suggest(name, known) if known else "no argument is a whole number"
    raise UsageError(f"{where}: {name!r} is no argument that is a whole number: {hint}")

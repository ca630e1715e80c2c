"""What rewritten kernels are made of: calls of the runtime, by the runtime's names for operators."""

from __future__ import annotations

import ast
from typing import Any

from gpusim_des.functional.kernel_source import RUNTIME

BINARY = {
    ast.Add: "add",
    ast.Sub: "subtract",
    ast.Mult: "multiply",
    ast.Div: "divide",
    ast.FloorDiv: "floor_divide",
    ast.Mod: "remainder",
    ast.Pow: "power",
    ast.LShift: "left_shift",
    ast.RShift: "right_shift",
    ast.BitAnd: "bitwise_and",
    ast.BitOr: "bitwise_or",
    ast.BitXor: "bitwise_xor",
}
COMPARE = {
    ast.Lt: "less",
    ast.LtE: "less_equal",
    ast.Gt: "greater",
    ast.GtE: "greater_equal",
    ast.Eq: "equal",
    ast.NotEq: "not_equal",
}
UNARY = {ast.USub: "negative", ast.Invert: "invert"}


def runtime(method: str, *arguments: ast.expr) -> ast.Call:
    """``__r.method(*arguments)``."""
    return ast.Call(ast.Attribute(ast.Name(RUNTIME, ast.Load()), method, ast.Load()), list(arguments), [])


def constant(value: Any) -> ast.Constant:
    """A literal."""
    return ast.Constant(value)


def thunk(body: ast.expr) -> ast.Lambda:
    """``lambda: body``."""
    return ast.Lambda(ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[]), body)


class Done(ast.expr):
    """Wraps an expression that must not be rewritten again."""

    _fields = ("inner",)

    def __init__(self, inner: ast.expr) -> None:
        super().__init__()
        self.inner = inner


class Kept(ast.expr):
    """An expression that is used twice; without `inner`, its second use."""

    _fields = ("name", "inner")

    def __init__(self, name: str, inner: ast.expr | None) -> None:
        super().__init__()
        self.name = name
        self.inner = inner

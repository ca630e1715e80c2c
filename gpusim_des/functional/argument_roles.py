"""What a kernel's source says it does with its arguments: needed where the blocks that would show it did not run."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from gpusim_des.errors import KernelError
from gpusim_des.functional.kernel_source import parse

_WRITERS = ("store", "atomic")
_READERS = ("load", "len", "pipeline_memcpy_async", "memcpy_async_bulk")
"""Asynchronous copies go from global to shared memory."""

_TARGETS = frozenset({"array", "ary"})
"""Names of the parameter that takes the array which is stored to."""

_FACTS = frozenset({"shape", "size", "ndim", "dtype", "strides", "itemsize", "nbytes"})
"""Attributes that are only looked at."""


class Role(Enum):
    """What happens to an argument."""

    WRITTEN = "written"
    """A statement stores into it, or an atomic operation changes it."""
    READ = "read"
    """It is indexed, asked for its length and shape, or loaded from, and nothing else."""
    UNCLEAR = "unclear"
    """It is given a second name, sliced, or handed to a function; or the source is not known."""


def roles(function: Callable[..., Any], dimensions: Mapping[str, int]) -> dict[str, Role]:
    """Role of every parameter of a kernel, as far as its own source tells; `dimensions` are those of its arrays.

    Empty where the source is not known, as of functions typed at a prompt.

    Examples
    --------
    >>> def add_some(t, a, b, c):
    ...     b[t.threadIdx.x] = a[t.threadIdx.x] + helper(c)
    >>> {name: role.value for name, role in roles(add_some, {}).items()}
    {'t': 'read', 'a': 'read', 'b': 'written', 'c': 'unclear'}
    """
    try:
        node = parse(function).node
    except KernelError:
        return {}
    names = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    visitor = _Occurrences(set(names), dimensions)
    for statement in node.body:
        visitor.visit(statement)
    return {name: _role(visitor.found.get(name, set())) for name in names}


def _role(found: set[Role]) -> Role:
    if Role.WRITTEN in found:
        return Role.WRITTEN
    return Role.UNCLEAR if Role.UNCLEAR in found else Role.READ


class _Occurrences(ast.NodeVisitor):
    def __init__(self, names: set[str], dimensions: Mapping[str, int]) -> None:
        self.found: dict[str, set[Role]] = {}
        self._names = names
        self._dimensions = dimensions

    def _note(self, node: ast.expr, role: Role) -> bool:
        """Note what happens to an argument, if the node is one."""
        mine = isinstance(node, ast.Name) and node.id in self._names
        if isinstance(node, ast.Name) and mine:
            self.found.setdefault(node.id, set()).add(role)
        return mine

    def visit_Subscript(self, node: ast.Subscript) -> None:
        """An element that is read or stored; a slice or a row is a second name."""
        stored = not isinstance(node.ctx, ast.Load)
        element = not any(isinstance(n, ast.Slice) for n in ast.walk(node.slice))
        if isinstance(node.value, ast.Name):
            indices = len(node.slice.elts) if isinstance(node.slice, ast.Tuple) else 1
            element = element and indices >= self._dimensions.get(node.value.id, 1)
        role = Role.WRITTEN if stored else Role.READ if element else Role.UNCLEAR
        if not self._note(node.value, role):
            self._visit_part(node.value, stored=stored)
        self.visit(node.slice)

    def _visit_part(self, node: ast.expr, *, stored: bool) -> None:
        """Visit what is a part of an argument, and of which more is asked: ``a[0]`` in ``a[0][1]``."""
        self.visit(node)
        while isinstance(node, ast.Subscript | ast.Attribute | ast.Call):
            if isinstance(node, ast.Attribute) and node.attr in _FACTS:
                return
            node = node.func if isinstance(node, ast.Call) else node.value
            self._note(node, Role.WRITTEN if stored else Role.UNCLEAR)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """``a.shape`` reads, ``a.atomic_add(…)`` writes; ``a.T`` and the like are second names."""
        role = Role.WRITTEN if node.attr.startswith("atomic") else Role.READ if node.attr in _FACTS else Role.UNCLEAR
        if not self._note(node.value, role):
            self._visit_part(node.value, stored=role is Role.WRITTEN)

    def visit_Call(self, node: ast.Call) -> None:
        """Calls of the kernel's own operations say what they do; of other functions nothing is known."""
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        role = Role.WRITTEN if name.startswith(_WRITERS) else Role.READ if name.startswith(_READERS) else Role.UNCLEAR
        self.visit(node.func)
        target = next((k.value for k in node.keywords if k.arg in _TARGETS), node.args[0] if node.args else None)
        for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
            of_argument = role if argument is target or role is Role.UNCLEAR else Role.READ
            if not self._note(argument, of_argument):
                self.visit(argument)

    def visit_Name(self, node: ast.Name) -> None:
        """Met anywhere else."""
        self._note(node, Role.UNCLEAR)

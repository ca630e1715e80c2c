"""The text of a kernel's source: its lines, and which statements reach how far."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from gpusim_des.line_site import LineSite

Texts = dict[str, dict[int, str]]
"""File → number of a line → its text."""


class Statement(NamedTuple):
    """A branch or a loop in the source: lines ``first`` to ``last``, of which those to ``head`` hold the condition."""

    kind: str
    """``if``, ``while``, ``for`` or ``with``."""
    first: int
    head: int
    last: int
    updates: tuple[int, ...] = ()
    """Lines in a while loop that change what its condition reads."""


class SourceText:
    """A source file, as Python read it; without lines where Python does not know it.

    Examples
    --------
    >>> text = SourceText("nowhere.py", ["def f(n):", "    while n > 0:", "        n -= 1", "        g(n)"])
    >>> text.line(3), text.statements
    ('n -= 1', (Statement(kind='while', first=2, head=2, last=4, updates=(3,)),))
    """

    def __init__(self, filename: str, lines: list[str]) -> None:
        self.filename = filename
        self.lines = [line.rstrip("\n") for line in lines]
        self.statements = _statements(self.lines)

    @property
    def name(self) -> str:
        """Name of the file without its folder."""
        return Path(self.filename).name

    def line(self, number: int) -> str:
        """Text of a line without indentation; empty where it is not known."""
        return self.lines[number - 1].strip() if 0 < number <= len(self.lines) else ""

    def guarded_by(self, number: int) -> list[Statement]:
        """Statements that a line stands in, innermost first, their own first lines included."""
        around = [s for s in self.statements if s.first <= number <= s.last]
        return sorted(around, key=lambda s: (-s.first, s.last))


@lru_cache(64)
def source_text(filename: str) -> SourceText:
    """Read a source file, from Python's own memory of it where it has one (notebook cells)."""
    return SourceText(filename, linecache.getlines(filename))


class SourceSpan(NamedTuple):
    """Where a function stands."""

    filename: str
    first: int
    """Its first line, or that of its first decorator."""
    last: int
    """Its last line; the first if that is not known."""


def texts_of(spans: Iterable[SourceSpan], sites: Iterable[LineSite]) -> Texts:
    """Texts of all lines of functions, and of lines elsewhere; empty where Python does not know them."""
    found: Texts = {}
    wanted = {LineSite(span.filename, line) for span in set(spans) for line in range(span.first, span.last + 1)}
    for filename, line in sorted(wanted.union(sites)):
        if line:
            lines = source_text(filename).lines if filename else []
            found.setdefault(filename, {})[line] = lines[line - 1] if line <= len(lines) else ""
    return found


def span_of(function: Callable[..., Any]) -> SourceSpan:
    """Where a function stands, decorators included."""
    code = function.__code__
    filename, first = code.co_filename, code.co_firstlineno
    last = max((line for _, _, line in code.co_lines() if line), default=first)
    tree = _parsed(source_text(filename).lines)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            begin = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            if begin <= first <= node.lineno and node.name == function.__name__:
                return SourceSpan(filename, begin, node.end_lineno or last)
    return SourceSpan(filename, first, last)


def _parsed(lines: list[str]) -> ast.Module | None:
    try:
        return ast.parse("\n".join(lines))
    except (SyntaxError, ValueError):  # a cell with commands of the notebook's own
        return None


def _statements(lines: list[str]) -> tuple[Statement, ...]:
    tree = _parsed(lines)
    if tree is None:
        return ()
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.If | ast.While):
            updates = _updates(node) if isinstance(node, ast.While) else ()
            kind, head = type(node).__name__.lower(), node.test
            found.append(Statement(kind, node.lineno, _end(head), _end(node), updates))
        elif isinstance(node, ast.For):
            found.append(Statement("for", node.lineno, _end(node.iter), _end(node)))
        elif isinstance(node, ast.With):
            found.append(Statement("with", node.lineno, _end(node.items[-1].context_expr), _end(node)))
        elif isinstance(node, ast.IfExp):
            found.append(Statement("if", node.lineno, node.lineno, _end(node)))
    return tuple(sorted(found, key=lambda s: (s.first, -s.last)))


def _end(node: ast.stmt | ast.expr) -> int:
    return node.end_lineno or node.lineno


def _updates(loop: ast.While) -> tuple[int, ...]:
    """Lines that assign nothing but names that the condition reads."""
    read = {node.id for node in ast.walk(loop.test) if isinstance(node, ast.Name)}
    lines = []
    for statement in (node for part in loop.body for node in ast.walk(part)):
        if isinstance(statement, ast.AugAssign):
            targets: list[ast.expr] = [statement.target]
        elif isinstance(statement, ast.Assign):
            targets = statement.targets
        else:
            continue
        if all(isinstance(target, ast.Name) and target.id in read for target in targets):
            lines.append(statement.lineno)
    return tuple(lines)

"""The source of a kernel in thread style: parsed, its places numbered, rewritten and compiled.

Both ways of running a thread kernel start from the same numbered places (sites), so that they can agree on every count.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from gpusim_des.errors import KernelError
from gpusim_des.functional.source import Site, is_user_code

RUNTIME = "__r"
"""Name of the runtime in rewritten code."""


class NotVectorizable(Exception):  # noqa: N818 - a signal to the executor, not an error of the user
    """A construct that masked execution cannot do; the interpreter takes over."""

    def __init__(self, construct: str, site: Site) -> None:
        super().__init__(f"{construct} in {site}")
        self.construct = construct
        self.site = site


class Source(NamedTuple):
    """A parsed function."""

    node: ast.FunctionDef
    filename: str
    function: Callable[..., Any]
    is_cuda: bool = False
    """Written for ``numba.cuda``: its names are global ones, and barriers are called."""

    def global_value(self, name: str) -> Any:
        """Value of a name that the function does not assign, ``None`` if it has none yet."""
        code = self.function.__code__
        if name in code.co_freevars:
            cell = (self.function.__closure__ or ())[code.co_freevars.index(name)]
            return cell.cell_contents
        return self.function.__globals__.get(name)

    def site(self, node: ast.AST) -> Site:
        """Position of a node."""
        return Site(self.filename, getattr(node, "lineno", self.node.lineno), getattr(node, "col_offset", -1) + 1)


_TEXTBOOK = "gpusim_des.textbook."


class Compiled(NamedTuple):
    """A rewritten function: call ``run(runtime, *arguments)``; ``sites[n]`` is the position of place n."""

    run: Callable[..., Any]
    sites: list[Site]


def is_helper(function: Any) -> bool:
    """Tell whether a kernel may call this as a helper: a function of the user, whose source joins the kernel's.

    The kernels of the textbook are written as users write theirs.
    """
    mine = isinstance(function, FunctionType) and is_user_code(function.__code__.co_filename)
    return mine and (not function.__module__.startswith("gpusim_des.") or function.__module__.startswith(_TEXTBOOK))


def is_constant_function(function: Any) -> bool:
    """Tell whether this is a function of the package's own, a NumPy or a math one: it only computes with constants."""
    module = str(getattr(function, "__module__", None) or type(function).__module__)
    return module.split(".", maxsplit=1)[0] in {"gpusim_des", "math"} or isinstance(function, np.ufunc | type)


def parse(function: Callable[..., Any], *, is_cuda: bool = False) -> Source:
    """Parse the source of a function; line numbers are those of its file.

    Raises
    ------
    KernelError
        If Python does not know the source, as for functions typed at a prompt.
    """
    try:
        lines, first = inspect.getsourcelines(function)
        filename = inspect.getsourcefile(function) or "?"
    except (OSError, TypeError):
        raise KernelError(
            f"the source of {getattr(function, '__name__', function)!r} is not known: kernels of single threads are "
            "read from their source, so write them in a file or a notebook cell"
        ) from None
    tree = ast.parse(textwrap.dedent("".join(lines)))
    ast.increment_lineno(tree, first - 1)
    node = tree.body[0]
    if not isinstance(node, ast.FunctionDef):
        raise KernelError(
            f"{getattr(function, '__name__', function)!r} is no function made by def: kernels and helpers are"
        )
    source = Source(node, filename, function, is_cuda)
    _check_returns(source)
    return source


def _check_returns(source: Source) -> None:
    """Refuse a function that returns a value on some paths only: other threads would go on with nothing."""
    returns = [n for s in source.node.body for n in ast.walk(s) if isinstance(n, ast.Return)]
    valued = [n for n in returns if n.value is not None]
    if valued and (len(valued) < len(returns) or not _always_leaves(source.node.body)):
        raise KernelError(
            f"{source.node.name} returns a value in {source.site(valued[0])}, but not on every path: threads that take "
            "another one would get nothing; end the function with a return of its own"
        )


def _always_leaves(statements: list[ast.stmt]) -> bool:
    """Tell whether these statements never reach their end."""
    for s in statements:
        if isinstance(s, ast.Return | ast.Raise):
            return True
        if isinstance(s, ast.If) and s.orelse and _always_leaves(s.body) and _always_leaves(s.orelse):
            return True
        endless = isinstance(s, ast.While) and isinstance(s.test, ast.Constant) and bool(s.test.value)
        if endless and not any(isinstance(n, ast.Break) for n in ast.walk(s)):
            return True
        if isinstance(s, ast.Try | ast.With | ast.Match):
            return True  # too much for this check; the interpreter runs it as Python does
    return False


def build(source: Source, rewritten: ast.FunctionDef, sites: list[Site]) -> Compiled:
    """Compile a rewritten function in the name space of the original, closure included."""
    function = source.function
    rewritten.name = f"__{rewritten.name}"  # so that a recursive call still means the original
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    factory = ast.FunctionDef(
        name="__factory",
        args=ast.arguments(
            posonlyargs=[], args=[ast.arg(name) for name in cells], kwonlyargs=[], kw_defaults=[], defaults=[]
        ),
        body=[rewritten, ast.Return(ast.Name(rewritten.name, ast.Load()))],
        decorator_list=[],
    )
    if hasattr(factory, "type_params"):
        factory.type_params = []
    module = ast.fix_missing_locations(ast.Module([factory], []))
    names: dict[str, Any] = {}
    exec(compile(module, source.filename, "exec"), function.__globals__, names)
    return Compiled(names["__factory"](*(cell.cell_contents for cell in cells.values())), sites)


class LocalNames(ast.NodeVisitor):
    """Which names a function assigns, how often, and whether inside a loop or a branch."""

    def __init__(self, node: ast.FunctionDef) -> None:
        self._node = node
        self.counts: dict[str, int] = {}
        self.inside: set[str] = set()
        self._depth = 0
        self.parameters = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
        for statement in node.body:
            self.visit(statement)

    def foldable(self, name: str) -> bool:
        """One assignment, outside of loops and branches: a constant assigned there stays a constant."""
        return self.counts.get(name) == 1 and name not in self.inside and name not in self.parameters

    def belongs_to(self, name: str, body: Iterable[ast.stmt]) -> bool:
        """Tell whether a loop's variable is assigned by this loop only, and used in its body only."""

        def uses(nodes: Iterable[ast.AST]) -> int:
            return sum(isinstance(n, ast.Name) and n.id == name for node in nodes for n in ast.walk(node))

        return self.counts.get(name) == 1 and uses(body) == uses([self._node]) - 1

    def visit_Name(self, node: ast.Name) -> None:
        """Count an assignment."""
        if isinstance(node.ctx, ast.Store):
            self.counts[node.id] = self.counts.get(node.id, 0) + 1
            if self._depth:
                self.inside.add(node.id)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """Count twice: the value changes."""
        self.generic_visit(node)
        if isinstance(node.target, ast.Name):
            self.counts[node.target.id] += 1

    def _visit_inner(self, node: ast.For | ast.While | ast.If) -> None:
        self._depth += 1
        self.generic_visit(node)
        self._depth -= 1

    visit_For = _visit_inner
    visit_While = _visit_inner
    visit_If = _visit_inner

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """A nested function's names are its own."""
        self.counts[node.name] = self.counts.get(node.name, 0) + 1

    def visit_Lambda(self, node: ast.Lambda) -> None:
        """As nested functions."""

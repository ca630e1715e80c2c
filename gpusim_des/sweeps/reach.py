"""What a function uses by name, and the functions that a kernel reaches; in an order that depends on sources only."""

from __future__ import annotations

import dis
import importlib
from collections.abc import Iterator
from contextlib import suppress
from types import CodeType, FunctionType, ModuleType
from typing import Any

from gpusim_des.functional.block_kernel import KernelFunction
from gpusim_des.functional.source import is_user_code


def reached(function: FunctionType) -> Iterator[FunctionType]:
    """Yield a function and those that it and its helpers use by name, each once.

    Examples
    --------
    >>> def helper(x):
    ...     return x + 1
    >>> def kernel(blk, a):
    ...     return helper(a)
    >>> [each.__name__ for each in reached(kernel)]
    ['kernel', 'helper']
    """
    seen: set[int] = set()
    waiting: list[Any] = [function]
    while waiting:
        found = waiting.pop(0)
        value = found.function if isinstance(found, KernelFunction) else found
        if isinstance(value, FunctionType) and id(value) not in seen:
            seen.add(id(value))
            yield value
            if is_user_code(value.__code__.co_filename):
                waiting += [other for _, other in used(value)]


def used(function: FunctionType) -> list[tuple[str, Any]]:
    """Globals and variables of outer functions that a function uses, with their values, sorted by name.

    >>> def outer(n):
    ...     return lambda x: len(x) * n
    >>> used(outer(4))
    [('n', 4)]
    """
    known = function.__globals__
    found = {name: known[name] for name in names_in(function.__code__) if name in known}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # not assigned yet
            found[name] = cell.cell_contents
    return sorted(found.items(), key=lambda item: item[0])


def imported(code: CodeType) -> list[tuple[str, ModuleType]]:
    """Modules that a function imports when it runs, sorted by name; they are imported now.

    >>> def function():
    ...     import math
    >>> imported(function.__code__)[0][0]
    'math'
    """
    found: dict[str, ModuleType] = {}
    for name in _imports(code):
        with suppress(ImportError):  # the kernel will say so
            found[name] = importlib.import_module(name)
    return sorted(found.items(), key=lambda item: item[0])


def names_in(code: CodeType) -> frozenset[str]:
    """Names of globals, attributes and modules in a function and in those inside of it."""
    return frozenset(code.co_names).union(*map(names_in, _inner(code)))


def _imports(code: CodeType) -> set[str]:
    own = {str(step.argval) for step in dis.get_instructions(code) if step.opname == "IMPORT_NAME" and step.argval}
    return own.union(*map(_imports, _inner(code)))


def _inner(code: CodeType) -> list[CodeType]:
    return [constant for constant in code.co_consts if isinstance(constant, CodeType)]


def with_filename(code: CodeType, filename: str) -> CodeType:
    """Return the code of a function as one of another file, the functions inside of it too.

    >>> with_filename((lambda: 1).__code__, "kernels.py").co_filename
    'kernels.py'
    """
    consts = tuple(with_filename(c, filename) if isinstance(c, CodeType) else c for c in code.co_consts)
    return code.replace(co_filename=filename, co_consts=consts)

"""What a function uses by name, and the functions that a kernel reaches; in an order that depends on sources only."""

from __future__ import annotations

import dis
import importlib
import importlib.util
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


def imported(function: FunctionType) -> list[tuple[str, ModuleType]]:
    """Modules that a function imports when it runs, sorted by name; they are imported now.

    >>> def function():
    ...     from os import path
    >>> [name for name, _ in imported(function)]
    ['os']
    """
    found: dict[str, ModuleType] = {}
    package = function.__globals__.get("__package__")
    for written, names in _imports(function.__code__):
        with suppress(ImportError, TypeError):  # the kernel will say so
            name = importlib.util.resolve_name(written, package)
            found[name] = module = importlib.import_module(name)
            for each in names:
                if not hasattr(module, each):  # a module of a package, or a mistake
                    importlib.import_module(f"{name}.{each}")
    return sorted(found.items(), key=lambda item: item[0])


def names_in(code: CodeType) -> frozenset[str]:
    """Names of globals, attributes and modules in a function and in those inside of it."""
    return frozenset(code.co_names).union(*map(names_in, _inner(code)))


def _imports(code: CodeType) -> list[tuple[str, tuple[str, ...]]]:
    """Import statements of a function: a module, with dots where it is relative, and the names that are taken of it."""
    steps = [step for step in dis.get_instructions(code) if step.opname != "EXTENDED_ARG"]
    own = [
        # How many dots, and the names, are what is loaded before.
        ("." * steps[k - 2].argval + step.argval, tuple(steps[k - 1].argval or ()))
        for k, step in enumerate(steps)
        if step.opname == "IMPORT_NAME"
    ]
    return own + [each for inner in _inner(code) for each in _imports(inner)]


def _inner(code: CodeType) -> list[CodeType]:
    return [constant for constant in code.co_consts if isinstance(constant, CodeType)]


def with_filename(code: CodeType, filename: str) -> CodeType:
    """Return the code of a function as one of another file, the functions inside of it too.

    >>> with_filename((lambda: 1).__code__, "kernels.py").co_filename
    'kernels.py'
    """
    consts = tuple(with_filename(c, filename) if isinstance(c, CodeType) else c for c in code.co_consts)
    return code.replace(co_filename=filename, co_consts=consts)

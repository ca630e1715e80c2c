"""What a kernel reaches by name: helpers, constants, modules; in an order that depends on the sources only."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any

from gpusim_des.functional.block_kernel import KernelFunction
from gpusim_des.functional.source import is_user_code


def reached(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """A function, and every value that it and its helpers use by name; each function once.

    Examples
    --------
    >>> def helper(x):
    ...     return x + 1
    >>> def kernel(blk, a):
    ...     return helper(a)
    >>> [name for name, value in reached(kernel)]
    ['kernel', 'helper']
    """
    seen: set[int] = set()
    waiting: list[tuple[str, Any]] = [(function.__name__, function)]
    while waiting:
        name, found = waiting.pop(0)
        value = found.function if isinstance(found, KernelFunction) else found
        if not isinstance(value, FunctionType):
            yield name, value
        elif id(value) not in seen:
            seen.add(id(value))
            yield name, value
            if is_user_code(value.__code__.co_filename):
                waiting += sorted(_used(value), key=lambda item: item[0])


def _used(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Globals and variables of outer functions that a function uses, with their values."""
    for name in _names(function.__code__):
        if name in function.__globals__:
            yield name, function.__globals__[name]
    yield from inspect.getclosurevars(function).nonlocals.items()


def _names(code: CodeType) -> set[str]:
    inner = (c for c in code.co_consts if isinstance(c, CodeType))
    return set(code.co_names).union(*map(_names, inner))


def with_filename(code: CodeType, filename: str) -> CodeType:
    """Return the code of a function as one of another file, the functions inside of it too.

    >>> with_filename((lambda: 1).__code__, "kernels.py").co_filename
    'kernels.py'
    """
    consts = tuple(with_filename(c, filename) if isinstance(c, CodeType) else c for c in code.co_consts)
    return code.replace(co_filename=filename, co_consts=consts)

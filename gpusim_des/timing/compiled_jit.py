"""The door to Numba: how functions of the compiled engine are compiled, and what they look like to a type checker."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, MutableSequence, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar, cast

from numba import njit, types
from numba.core.event import Listener, register
from numba.extending import intrinsic

Words = MutableSequence[int]
"""A flat NumPy array of 64-bit integers, as a type checker sees it."""

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled_by_constants(function: Function) -> Function:
    """Compile a function that others call, once more for every constant that they call it with.

    Where that saves decisions in the innermost loops it is worth its compile time. The result is kept on disk as a part
    of those that call it, and Python cannot.
    """
    options: Any = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return cast("Function", njit(error_model="numpy", **options)(function))


def compiled(function: Function) -> Function:
    """Compile a function that others call, once for all values of its arguments; otherwise as above."""
    made: Any = compiled_by_constants(function)
    for_types = getattr(made, "get_call_template", None)
    if for_types is None:  # Numba is switched off, and this is the function itself
        return function

    def for_all_values(arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        """Forget which numbers the arguments are: of what Numba compiled, two fifths were copies for constants."""
        plain: Callable[[Any], Any] = types.unliteral
        return for_types([plain(a) for a in arguments], {name: plain(a) for name, a in keywords.items()})

    made.get_call_template = for_all_values
    return cast("Function", made)


def entrance(function: Function) -> Function:
    """Compile a function that Python calls, and keep the result on disk.

    Numba writes beside the package, or to a directory of the user where the package is read-only. It looks only at
    the function's own file and at the values that it encloses to see whether something has changed: let it enclose a
    digest of everything that it calls.
    """
    try:
        made = njit(error_model="numpy", cache=True, nogil=True)(function)
    except RuntimeError:  # there is no place at all to keep it in
        made = njit(error_model="numpy", nogil=True)(function)
    return cast("Function", made)


class _Announcement(Listener):
    """Tells the user why nothing happens for a while; what is read from disk is not compiled and not announced."""

    def __init__(self) -> None:
        self._was_made = False

    def on_start(self, event: Any) -> None:
        name = event.data["dispatcher"].py_func.__module__
        if not self._was_made and name.startswith(f"{__package__}.compiled"):
            self._was_made = True
            print("gpusim-des: compiling the fast engine, once; about half a minute …", file=sys.stderr, flush=True)

    def on_end(self, event: Any) -> None:
        pass


cast("Any", register)("numba:compile", _Announcement())


PYTHON_SIDE = ("compiled_batch", "compiled_engine", "compiled_history", "compiled_reader", "compiled_words")
"""Files of the engine with nothing in them to compile."""


def compiled_files() -> list[Path]:
    """Sources of the compiled engine with something in them to compile."""
    folder = Path(__file__).parent
    return [path for path in sorted(folder.glob("compiled_*.py")) if path.stem not in PYTHON_SIDE]


def files_with_numbers() -> list[Path]:
    """Other sources, from which those take numbers."""
    folder = Path(__file__).parent
    rules = ("program", "cache", "server", "hbm", "offered_load", "order")
    others = ("trace/operation.py", "timeline/states.py", "gpu/parameters.py")
    return [*(folder / f"{name}.py" for name in rules), *(folder.parent / name for name in others)]


@cache
def digest() -> int:
    """Digest of the sources of the compiled engine and of the numbers that they take from other files."""
    text = b"".join(path.read_bytes() for path in (*compiled_files(), *files_with_numbers()))
    return int.from_bytes(sha256(text).digest()[:7], "big") | 1


@intrinsic
def _start_of(_: Any, array: Any) -> Any:
    """Where the words of an array lie: a bare pointer costs no tests for negative numbers and no counting of users."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return context.make_array(signature.args[0])(context, builder, arguments[0]).data

    pointer = cast("Any", types.CPointer)(types.int64)
    return pointer(array), generate


start_of = cast("Callable[[Words], Words]", _start_of)
"""Bare words of an array, inside compiled code; the array must live on."""

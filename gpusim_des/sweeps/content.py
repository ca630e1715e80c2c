"""What a value is, as a hash: of functions their source, their code and all that they use; of objects their parts.

Equal programs come to equal hashes in any process, and whatever may change a result changes the hash: neighbour files
and their values, attributes of classes, elements of containers. An address never gets in: an object that cannot be
taken apart is refused.
"""

from __future__ import annotations

import copyreg
import hashlib
import inspect
import sys
import sysconfig
from collections.abc import Iterable
from functools import cached_property, lru_cache
from itertools import chain
from pathlib import Path
from types import (
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any

import numpy as np

from gpusim_des.errors import SweepError
from gpusim_des.functional.block_kernel import KernelFunction
from gpusim_des.sweeps.reach import imported, names_in, used

_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis), type(NotImplemented), range)

_OTHERS = tuple(
    str(Path(folder).resolve()) + "/"
    for folder in (
        *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
        str(Path(__file__).parent.parent),
    )
    if folder
)
"""Folders of Python, of installed packages and of the simulator, whose versions tell what is in them."""


@lru_cache(maxsize=1024)
def is_own(filename: str) -> bool:
    """Tell whether a file is the user's: of no installed package, and a cell of a notebook as well.

    >>> is_own("kernels.py"), is_own("<cell 1>"), is_own(inspect.__file__)
    (True, True, False)
    """
    if filename.startswith("<"):
        return not filename.startswith("<frozen")
    return not str(Path(filename).resolve()).startswith(_OTHERS)


def content(name: str, value: Any) -> str:
    """Hash of a value and of everything in it.

    Parameters
    ----------
    name
        What the user calls it, for messages.
    value
        Anything.

    Raises
    ------
    SweepError
        For an object that cannot be taken apart, such as a lock or an open file.

    Examples
    --------
    >>> sides = [16, {"a": np.arange(2000)}]
    >>> before, same = content("sides", sides), content("sides", [16, {"a": np.arange(2000)}])
    >>> sides[1]["a"][1000] = 7
    >>> before == same, before == content("sides", sides)
    (True, False)
    """
    walk = _Walk()
    walk.add(name, value)
    return walk.hash.hexdigest()[:32]


class _Walk:
    """One way through a value: each object once, then by its number."""

    def __init__(self) -> None:
        self.hash = hashlib.sha256()
        self._numbers: dict[int, int] = {}
        self._held: list[Any] = []  # so that the ids stay theirs

    def _write(self, *parts: str | bytes) -> None:
        for part in parts:
            data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
            self.hash.update(len(data).to_bytes(8, "little") + data)

    def add(self, name: str, value: Any, within: frozenset[str] = frozenset()) -> None:
        """Take in a value; `within` are the names that its user writes behind it, as in ``helpers.tile``."""
        if isinstance(value, KernelFunction):
            self._write(type(value).__name__)
            value = value.function
        if type(value) in _PLAIN:
            self._write(type(value).__name__, repr(value))
            return
        known = self._numbers.get(id(value))
        # A module that was seen may be used by other names now.
        if known is not None and not isinstance(value, ModuleType):
            self._write("again", str(known))
            return
        if known is None:
            self._numbers[id(value)] = len(self._held)
            self._held.append(value)
        self._take_apart(name, value, within, first=known is None)

    def _take_apart(self, name: str, value: Any, within: frozenset[str], *, first: bool) -> None:
        match value:
            case np.ndarray() | np.generic() if not value.dtype.hasobject:
                self._write(type(value).__name__, *array_parts(np.asarray(value)))
            case list() | tuple() if type(value) in (list, tuple):
                self._all(name, type(value).__name__, value)
            case dict() if type(value) is dict:
                self._all(name, "dict", chain.from_iterable(value.items()))
            case set() | frozenset():  # their order is by chance
                self._write(type(value).__name__, *sorted(content(name, each) for each in value))
            case FunctionType():
                self._function(value)
            case ModuleType():
                self._module(name, value, within, first=first)
            case type():
                self._class(value)
            case _:
                self._object(name, value)

    def _all(self, name: str, kind: str, values: Iterable[Any]) -> None:
        several = list(values)
        self._write(kind, str(len(several)))
        for value in several:
            self.add(name, value)

    def _function(self, function: FunctionType) -> None:
        if not is_own(function.__code__.co_filename):
            self._write("function", f"{function.__module__}.{function.__qualname__}")
            return
        # Source and code: after an edit of the file, a process that has loaded it before still runs the old one.
        self._write("function", _source(function))
        self._code(function.__code__)
        self._all(function.__name__, "defaults", (function.__defaults__, function.__kwdefaults__))
        names = names_in(function.__code__)
        for name, value in (*used(function), *imported(function)):
            self._write(name)
            self.add(name, value, names)

    def _code(self, code: CodeType) -> None:
        self._write(code.co_code, *code.co_names, *code.co_varnames)
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                self._code(constant)
            else:
                self.add(code.co_name, constant)

    def _module(self, name: str, module: ModuleType, within: frozenset[str], *, first: bool) -> None:
        file = getattr(module, "__file__", None)
        if not file or not is_own(file):
            self._write("module", module.__name__, str(getattr(module, "__version__", "")))
            return
        if first:
            self._write("module", _bytes(file))
        for each in sorted(within & vars(module).keys()):
            self._write(each)
            self.add(f"{name}.{each}", vars(module)[each], within)

    def _class(self, kind: type) -> None:
        file = getattr(sys.modules.get(kind.__module__), "__file__", None)
        if kind.__module__ in sys.builtin_module_names or (file and not is_own(file)):
            self._write("class", f"{kind.__module__}.{kind.__qualname__}")
            return
        self._all(kind.__name__, f"class {kind.__qualname__}", kind.__bases__)
        for name in sorted(vars(kind)):
            value = vars(kind)[name]
            made = name == "_abc_impl" or (name.startswith("__") and name.endswith("__"))
            if not made or isinstance(value, FunctionType | staticmethod | classmethod | property):
                self._write(name)
                self.add(f"{kind.__name__}.{name}", value)

    def _object(self, name: str, value: Any) -> None:
        """Take an object apart as pickle does; a function of C is known by its name."""
        inner = _wrapped(value)
        if inner is not None:
            self._all(name, type(value).__name__, inner)
            return
        if isinstance(getattr(value, "__qualname__", None), str) and callable(value):
            self._write("callable", str(getattr(value, "__module__", "")), value.__qualname__)
            if hasattr(value, "__wrapped__"):  # a cache around a function of the user's
                self.add(name, value.__wrapped__)
            return
        try:
            known = copyreg.dispatch_table.get(type(value))  # regular expressions, for one
            parts = value.__reduce_ex__(4) if known is None else known(value)
        except Exception as error:  # noqa: BLE001 - whatever an object raises that cannot be pickled
            raise SweepError(
                f"{name} = {value!r}: the kernel uses it, and nothing tells whether it is the same in the next sweep "
                f"({type(error).__name__}: {error}); give the kernel what it needs of it, as an argument or a constant"
            ) from None
        if isinstance(parts, str):
            self._write("named", type(value).__module__, type(value).__qualname__, parts)
            return
        make, args, *rest = parts
        # Items come as iterators, of which each may be walked once.
        self._all(name, "object", (make, args, *(each if k == 0 or each is None else list(each)
                                                 for k, each in enumerate(rest[:3]))))  # fmt: skip


def _wrapped(value: Any) -> tuple[Any, ...] | None:
    """What a method or a descriptor of a class is made of; ``None`` for anything else."""
    match value:
        case MethodType():
            return value.__func__, value.__self__
        case staticmethod() | classmethod():
            return (value.__func__,)
        case property() | cached_property():
            return tuple(getattr(value, name, None) for name in ("fget", "fset", "fdel", "func"))
        case MappingProxyType():
            return (dict(value),)
        case GetSetDescriptorType() | MemberDescriptorType():  # of a class with __slots__
            return (str(value.__name__),)
    return None


def array_parts(value: np.ndarray[Any, Any]) -> tuple[str | bytes, ...]:
    """What an array is, down to its bytes."""
    return str(value.dtype), str(value.shape), np.ascontiguousarray(value).tobytes()


def _source(function: FunctionType) -> str:
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        return ""  # typed in: its code tells


def _bytes(file: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError:
        return b""  # in an archive: what is used of it is taken in by name

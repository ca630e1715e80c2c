"""Tracked values of thread-style kernels: a number per thread, or one number, that knows which events made it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NoReturn, SupportsIndex

import numpy as np

from gpusim_des.errors import KernelError

if TYPE_CHECKING:
    from gpusim_des.functional.overflow import Overflows, Range
    from gpusim_des.functional.thread_memory import ThreadMemory

PLAIN = (bool, int, float, complex, np.generic)
"""Types of plain numbers: constants, which cost nothing and take the type of the value they meet."""


class Undefined:
    """Value of a name that was not assigned yet."""

    def __repr__(self) -> str:
        return "<not assigned>"


UNDEFINED = Undefined()


class Value:
    """A tracked value; ``producers`` are the events that made it."""

    __slots__ = ("assigned", "bounds", "overflow", "producers", "runtime", "value")

    def __init__(self, runtime: ThreadMemory, value: Any, producers: Any) -> None:
        self.runtime = runtime
        self.value = value
        self.producers = producers
        self.bounds: Range | None = None
        self.overflow: Overflows = ()
        """What `overflow` finds out about the value."""
        self.assigned: Any = None
        """Threads that assigned the variable that holds the value, ``None`` for all."""

    def _refuse(self, *_: object) -> NoReturn:
        """Python compares, hashes or looks into the value behind the kernel's back: the answer would be wrong."""
        raise KernelError(
            f"{self.runtime.kernel_name}: a per-thread value is compared or looked up outside of the kernel's own "
            "expressions, in a dictionary, a set, match or a library function: use ==, if and lists in the kernel"
        )

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __hash__ = _refuse

    def __repr__(self) -> str:
        return repr(self.value if np.ndim(self.value) else self.value.item())

    def __format__(self, how: str) -> str:
        return format(self.runtime.plain(self, "a text"), how)

    def __str__(self) -> str:
        return str(self.runtime.plain(self, "a text"))

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type."""
        return self.value.dtype  # type: ignore[no-any-return]  # an array or a NumPy scalar

    def __bool__(self) -> bool:
        return bool(self.runtime.plain(self, "a condition"))

    def __int__(self) -> int:
        return int(self.runtime.plain(self, "a whole number"))

    def __index__(self) -> int:
        value = self.runtime.plain(self, "an index")
        if not isinstance(value, int):
            raise TypeError(f"{value!r} is no whole number: convert it with int() first")
        return value

    def __float__(self) -> float:
        return float(self.runtime.plain(self, "a number"))


class LocalList(list[Any]):
    """A local array of a thread; `slot` names it for the types of its elements."""

    __slots__ = ("slot",)

    def __init__(self, items: Iterable[Any], slot: tuple[Any, ...]) -> None:
        super().__init__(items)
        self.slot = slot

    def __mul__(self, times: SupportsIndex) -> LocalList:
        return LocalList(super().__mul__(times), self.slot)

    __rmul__ = __mul__

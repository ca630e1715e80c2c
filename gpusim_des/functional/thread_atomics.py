"""Atomic operations in thread style, what both ways of running share: where they go, and with which numbers."""

from __future__ import annotations

from typing import Any, NamedTuple

from gpusim_des.functional.array_view import ArrayView
from gpusim_des.functional.runtime import Runtime
from gpusim_des.functional.thread_memory import Array
from gpusim_des.functional.tracked import Value


class AtomicAccess(NamedTuple):
    """What an atomic operation does; numbers are one per thread or one for all."""

    flat: Any
    """Row-major position."""
    numbers: list[Any]
    """The operand; for ``atomic_cas`` the new value and the value to compare with."""
    producers: Any
    """What position and numbers were computed from."""


def access(
    runtime: Runtime, place: int, name: str, array: Array | ArrayView, index: Any, value: Any, compare: Any = None
) -> AtomicAccess:
    """Convert the operands to the array's type and find the element; counts both."""
    runtime.operand_type(place, value)
    operands = [runtime.convert(place, value, array.dtype)]
    if name == "atomic_cas":
        operands.append(runtime.convert(place, compare, array.dtype))
    flat, tracked = runtime.locate(place, f"{name} on", array, index)
    numbers = [x.value if isinstance(x, Value) else x for x in operands]
    return AtomicAccess(flat, numbers, runtime.joint_producers((*tracked, *operands)))

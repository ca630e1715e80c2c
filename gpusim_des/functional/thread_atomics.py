"""Atomic operations in thread style, what both ways of running share: where they go, and with which numbers."""

from __future__ import annotations

from typing import Any, NamedTuple

from gpusim_des.errors import KernelError
from gpusim_des.functional.array_view import ArrayView, base_of
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
    _check_type(runtime, place, name, base_of(array))
    runtime.operand_type(place, value)
    operands = [runtime.convert(place, value, array.dtype)]
    if name == "atomic_cas":
        operands.append(runtime.convert(place, compare, array.dtype))
    flat, tracked = runtime.locate(place, f"{name} on", array, index)
    numbers = [x.value if isinstance(x, Value) else x for x in operands]
    return AtomicAccess(flat, numbers, runtime.joint_producers((*tracked, *operands)))


def _check_type(runtime: Runtime, place: int, name: str, array: Array) -> None:
    """Refuse operations on elements for which there are none."""
    what = f"{runtime.kernel_name}: {name} in {runtime.sites[place]} on array {runtime.name_of(array)!r} of type"
    if name in {"atomic_and", "atomic_or", "atomic_xor"} and array.dtype.kind not in "iu":
        raise KernelError(f"{what} {array.dtype}: bits are those of whole numbers; use int32, uint32, int64 or uint64")
    if name in {"atomic_inc", "atomic_dec"} and array.dtype.kind != "u":
        raise KernelError(f"{what} {array.dtype}: it counts unsigned numbers; use uint32 or uint64, or atomic_add")

"""What CUDA demands of asynchronous copies, and what is said to a kernel that asks for something else."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpusim_des.errors import KernelError
from gpusim_des.functional.memory import DeviceArray, SharedArray
from gpusim_des.functional.source import Site

COPY_BYTES = (4, 8, 16)
"""Bytes that one thread may copy at once (PTX ISA, "cp.async")."""

BULK_BYTES = 16
"""Addresses and size of a bulk copy are multiples of this (PTX ISA, "cp.async.bulk")."""


class Ends(NamedTuple):
    """A copy that was asked for: where it begins and ends; positions broadcast to (blocks, threads)."""

    target: SharedArray
    to: NDArray[Any]
    """Row-major positions there."""
    source: DeviceArray
    origin: NDArray[Any]
    elements: Any = 1
    """How many neighbours; more than one in bulk copies only."""


def check_arrays(kernel_name: str, operation: str, target: Any, source: Any, site: Site) -> None:
    """Refuse a copy that does not go from global to shared memory, or changes the type of what it copies."""
    what = f"{kernel_name}: {operation} in {site}"
    if not isinstance(target, SharedArray):
        raise KernelError(
            f"{what} copies to a {type(target).__name__}: the destination, which comes first, is an array in shared "
            "memory, declared with shared(…)"
        )
    if not isinstance(source, DeviceArray):
        raise KernelError(
            f"{what} copies from a {type(source).__name__}: the source is an array in global memory, made by "
            "dev.to_device or dev.malloc"
        )
    if target.dtype != source.dtype:
        raise KernelError(
            f"{what} copies from {source.dtype} to {target.dtype}: bytes are copied, nothing is converted; declare "
            f"shared array {target.name!r} with the type {source.dtype}"
        )


def check_size(kernel_name: str, operation: str, source: DeviceArray, site: Site) -> None:
    """Refuse elements that one thread cannot copy."""
    size = source.dtype.itemsize
    if size not in COPY_BYTES:
        raise KernelError(
            f"{kernel_name}: {operation} in {site} copies elements of {size} byte{'s' if size > 1 else ''} "
            f"({source.dtype}): a thread copies 4, 8 or 16 bytes at once; use another element type, or a load and a "
            "store"
        )


def whole(
    kernel_name: str, what: str, unit: str, least: int, value: Any, on: NDArray[np.bool_], site: Site
) -> NDArray[Any]:
    """Whole numbers of the threads in `on`, not below `least`; raises `KernelError` for others."""
    numbers = np.asarray(value)
    rule = f"must be a whole number of {unit}, at least {least}"
    if numbers.dtype.kind not in "iu":
        shown = f"of type {numbers.dtype}" if numbers.ndim else f"= {value!r}"
        raise KernelError(f"{kernel_name}: {what} {shown} in {site}: {rule}")
    low = np.broadcast_to(numbers, on.shape)[on & (numbers < least)]
    if low.size:
        raise KernelError(f"{kernel_name}: {what} = {int(low[0])} in {site}: {rule}")
    return numbers

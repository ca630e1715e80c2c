"""Asynchronous copies in thread style, what both ways of running share: the ends of a copy, and its numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpusim_des.functional import copy_rules
from gpusim_des.functional.copy_rules import Ends
from gpusim_des.functional.runtime import Runtime
from gpusim_des.functional.tracked import UNDEFINED, Value

_WHAT = {"pipeline_memcpy_async": "asynchronous copy", "memcpy_async_bulk": "bulk copy"}


def ends(
    runtime: Runtime, place: int, operation: str, target: Any, to: Any, source: Any, origin: Any, count: Any = 1
) -> tuple[Ends, Any]:
    """Return both ends of a copy, and what they were computed from; counts the address arithmetic."""
    site = runtime.sites[place]
    copy_rules.check_arrays(runtime.kernel_name, operation, target, source, site)
    if operation == "pipeline_memcpy_async":
        copy_rules.check_size(runtime.kernel_name, operation, source, site)
    flat, made = runtime.locate(place, f"{_WHAT[operation]} to", target, to)
    start, made_start = runtime.locate(place, f"{_WHAT[operation]} from", source, origin)
    many = number(runtime, place, count)
    made_count = (count,) if isinstance(count, Value) else ()
    found = Ends(target, np.atleast_2d(flat), source, np.atleast_2d(start), many)
    return found, runtime.joint_producers((*made, *made_start, *made_count))


def number(runtime: Runtime, place: int, operand: Any) -> Any:
    """Number, or numbers, of an operand that is tracked or not."""
    if isinstance(operand, Value) or operand is UNDEFINED:
        runtime.operand_type(place, operand)
    return operand.value if isinstance(operand, Value) else operand


def barrier_name(runtime: Runtime, place: int, name: Any) -> Any:
    """Name of a barrier; one that the kernel does not name is called after its place in the source."""
    site = runtime.sites[place]
    return f"shared_barrier@{site.line}:{site.column}" if name is None else name

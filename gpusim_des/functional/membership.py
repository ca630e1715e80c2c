"""``in`` and ``is`` in thread-style kernels: comparisons of numbers, where Python would compare objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpusim_des.errors import KernelError
from gpusim_des.functional.tracked import Value

if TYPE_CHECKING:
    from gpusim_des.functional.runtime import Runtime


def contains(runtime: Runtime, place: int, item: Any, items: Any) -> Any:
    """``item in items``: the item is compared with every element, and the answers are joined."""
    if isinstance(items, range) and isinstance(item, Value):
        items = _as_bounds(runtime, place, items)
        low, high = (runtime.compare(place, name, item, bound) for name, bound in items)
        return runtime.binary(place, "bitwise_and", low, high)
    if not isinstance(items, tuple | list):
        if isinstance(item, Value):
            raise KernelError(
                f"{runtime.kernel_name}: {runtime.sites[place]} looks for a per-thread value in a "
                f"{type(items).__name__}: possible are tuples, lists and ranges of step 1"
            )
        return item in items
    found: Any = False
    for other in items:
        equal = runtime.compare(place, "equal", item, other)
        if not isinstance(equal, Value):
            if equal:
                return True
        else:
            found = equal if found is False else runtime.binary(place, "bitwise_or", found, equal)
    return found


def _as_bounds(runtime: Runtime, place: int, items: range) -> list[tuple[str, int]]:
    if items.step != 1:
        raise KernelError(
            f"{runtime.kernel_name}: {runtime.sites[place]} looks for a per-thread value in a range of step "
            f"{items.step}: write the condition with % instead"
        )
    return [("greater_equal", items.start), ("less", items.stop)]


def identical(runtime: Runtime, place: int, a: Any, b: Any) -> bool:
    """``a is b``: of use with ``None`` only, since numbers have no identity."""
    if (isinstance(a, Value) or isinstance(b, Value)) and a is not None and b is not None:
        raise KernelError(
            f"{runtime.kernel_name}: {runtime.sites[place]} compares a per-thread value with `is`: numbers are "
            "compared with =="
        )
    return a is b

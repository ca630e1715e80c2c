"""Arithmetic of 32-bit integers that leaves their range and then becomes an index.

C computes ``row * width + column`` in 32 bits if all three are ``int``, and so do kernels here: the value wraps. That
is a mistake where it becomes an index, and often on purpose elsewhere, in hashes for example; so a value remembers that
it wrapped, through all further arithmetic, and the access that it leads to is what is reported. Unsigned numbers wrap
by the rules of C and are never reported.

Most values are far from the limits, and an interval shows it without looking at any of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from gpusim_des.functional.reports import KernelReport
from gpusim_des.functional.source import Site
from gpusim_des.grid import Dim3

LOWEST, HIGHEST = -(2**31), 2**31 - 1
CHECKED = frozenset({"add", "subtract", "multiply", "left_shift", "power"})
FURTHEST = 2**63 - 1
"""Stands for all exact numbers that are further from 0."""
INT32 = np.dtype(np.int32)

Range = tuple[int, int]


class Overflow(NamedTuple):
    """That a value, or one it was computed from, left 32 bits."""

    site: Site
    exact: NDArray[np.int64]
    """What it would have been."""
    lanes: NDArray[np.bool_]
    """Threads in which it did."""

    def only(self, mask: NDArray[np.bool_] | None) -> Overflow | None:
        """The same for some threads; ``None`` if it happened in none of them."""
        lanes = self.lanes if mask is None else self.lanes & mask
        return Overflow(self.site, self.exact, lanes) if lanes.any() else None


Overflows = tuple[Overflow, ...]
"""Of one value: a thread is in one of them at most."""


def joint(overflows: Iterable[Overflow]) -> Overflows:
    """Overflows of one value: in each thread the first that happened in it."""
    kept: list[Overflow] = []
    for over in overflows:
        rest: Overflow | None = over
        for other in kept:
            rest = None if rest is None else rest.only(~other.lanes)
        if rest is not None:
            kept.append(rest)
    return tuple(kept)


def only(overflows: Overflows, mask: NDArray[np.bool_] | None) -> Overflows:
    """The same for some threads."""
    return tuple(kept for over in overflows if (kept := over.only(mask)) is not None)


@dataclass(frozen=True, kw_only=True)
class IndexOverflow(KernelReport):
    """An index that was computed in 32 bits and did not fit, with an example.

    Attributes
    ----------
    kernel, array
        Names.
    exact
        What the example's arithmetic would give with bits enough.
    site
        The arithmetic.
    access
        Where the array is accessed.
    block, thread
        Who does it.
    count
        How many threads, each as often as it does.
    """

    array: str
    exact: int
    access: Site
    thread: Dim3

    @property
    def key(self) -> tuple[object, ...]:
        """What is the same for all that are counted together."""
        return self.array, self.site, self.access

    @property
    def remedy(self) -> str:
        """What to do about it."""
        return "compute the index in 64 bits, beginning with np.int64(…) around the first factor"

    @property
    def finding(self) -> str:
        """What is wrong in the example."""
        limit = f"more than {HIGHEST:,}" if self.exact > HIGHEST else f"less than {LOWEST:,}"
        further = (" or more" if self.exact > 0 else " or less") if abs(self.exact) == FURTHEST else ""
        return (
            f"index of array {self.array!r} overflows: the arithmetic in line {self.line} gives "
            f"{self.exact:,}{further} in thread {self.thread} of block {self.block}, {limit}, so an int32 wraps"
        )


def interval(name: str, a: Range, b: Range) -> Range:
    """Range of the results, in numbers without limits, of operands within ranges.

    >>> interval("multiply", (-2, 3), (5, 7)), interval("subtract", (0, 1), (2, 9))
    ((-14, 21), (-9, -1))
    >>> interval("left_shift", (1, 3), (0, 4))
    (1, 48)
    >>> interval("power", (2, 3), (0, 4)), interval("power", (-3, 2), (2, 3))
    ((0, 81), (-27, 27))
    """
    (p, q), (r, s) = a, b
    if name == "power":  # what is further than 2**32 need not be known
        furthest = max(abs(p), abs(q), 1) ** max(0, min(s, 33))
        return -furthest if p < 0 else 0, furthest
    if name == "add":
        return p + r, q + s
    if name == "subtract":
        return p - s, q - r
    if name == "left_shift":
        r, s = 1 << max(0, min(r, 31)), 1 << max(0, min(s, 31))
    products = p * r, p * s, q * r, q * s
    return min(products), max(products)


def fits(bounds: Range) -> bool:
    """Tell whether all numbers of a range are of 32 bits."""
    return bounds[0] >= LOWEST and bounds[1] <= HIGHEST


def exactly(name: str, a: Any, b: Any) -> NDArray[np.int64]:
    """Compute in 64 bits what 32 may not hold.

    >>> exactly("multiply", np.int32(65536), np.array([1, 65536], np.int32)).tolist()
    [65536, 4294967296]
    >>> exactly("power", np.int32(-70000), np.array([-1, 2, 3, 5])).tolist()
    [0, 4900000000, -343000000000000, -9223372036854775807]
    """
    x, y = np.asarray(a).astype(np.int64), np.asarray(b).astype(np.int64)
    if name == "left_shift":
        return np.asarray(x * (np.int64(1) << np.clip(y, 0, 31)))
    if name == "power":
        times = np.maximum(y, 0)
        with np.errstate(over="ignore"):
            whole, about = np.power(x, times), np.power(x.astype(np.float64), times)
        furthest = np.where(about < 0, -FURTHEST, FURTHEST)
        return np.where(np.abs(about) >= FURTHEST, furthest, np.where(y < 0, 0, whole))
    return np.asarray(getattr(np, name)(x, y))


def found(site: Site, exact: NDArray[np.int64], mask: NDArray[np.bool_] | None) -> Overflow | None:
    """Threads whose exact result is none of 32 bits; ``None``: there are none."""
    lanes = (exact < LOWEST) | (exact > HIGHEST)
    return Overflow(site, exact, np.asarray(lanes)).only(mask)


class Number(Protocol):
    """A value per thread that remembers whether it wrapped."""

    value: Any
    bounds: Range | None
    """No number of it is outside; ``None``: not known yet."""
    overflow: Overflows


def bounds_of(operand: Any) -> Range:
    """Range of an operand: a plain number, or a value that is looked at once at most."""
    if not hasattr(operand, "bounds"):
        numbers = np.asarray(operand)
        return int(numbers.min()), int(numbers.max())
    if operand.bounds is None:
        operand.bounds = int(operand.value.min()), int(operand.value.max())
    bounds: Range = operand.bounds
    return bounds


def follow(
    name: str, dtype: np.dtype[Any], operands: tuple[Any, ...], result: Number, mask: Any, site: Callable[[], Site]
) -> None:
    """Find out whether an operation on operands of type `dtype` wrapped, or got an operand that had."""
    result.overflow = inherited(operands)
    if dtype == INT32 and name in CHECKED:
        a, b = operands
        _conclude(
            result, interval(name, bounds_of(a), bounds_of(b)), lambda: exactly(name, *map(_plain, (a, b))), mask, site
        )


def follow_product(
    name: str,
    dtype: np.dtype[Any],
    parts: tuple[Any, Any, Any],
    result: Number,
    mask: Any,
    site: Callable[[], Site],
    *,
    first: bool,
) -> None:
    """Find the same of ``x * y`` and then `name` with ``z``, the product `first` or last; only the end must fit."""
    x, y, z = parts
    result.overflow = inherited(parts)
    if dtype != INT32:
        return
    product = interval("multiply", bounds_of(x), bounds_of(y))
    sides = (product, bounds_of(z)) if first else (bounds_of(z), product)

    def exact() -> NDArray[np.int64]:
        made, added = exactly("multiply", _plain(x), _plain(y)), np.asarray(_plain(z)).astype(np.int64)
        return exactly(name, *((made, added) if first else (added, made)))

    _conclude(result, interval(name, *sides), exact, mask, site)


def inherited(operands: Iterable[Any]) -> Overflows:
    """Overflows that a result has from its operands."""
    found_in = [over for x in operands for over in getattr(x, "overflow", ())]
    return joint(found_in) if len(found_in) > 1 else tuple(found_in)


def chosen(condition: Any, sides: Iterable[Any]) -> Overflows:
    """Overflows of ``np.where(condition, *sides)``."""
    masks = condition, np.logical_not(condition)
    parts = (only(getattr(side, "overflow", ()), mask) for mask, side in zip(masks, sides, strict=True))
    return tuple(over for part in parts for over in part)


def _plain(operand: Any) -> Any:
    return operand.value if hasattr(operand, "bounds") else operand


def _conclude(
    result: Number, bounds: Range, exact: Callable[[], NDArray[np.int64]], mask: Any, site: Callable[[], Site]
) -> None:
    if fits(bounds):
        result.bounds = bounds
        return
    new = found(site(), exact(), mask)
    if new is not None:
        result.overflow = joint((*result.overflow, new))

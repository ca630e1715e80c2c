"""Atomic operations of many threads on one array, in the order of the threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

NEW_VALUES: dict[str, Callable[..., Any]] = {
    "atomic_add": lambda old, x: old + x,
    "atomic_sub": lambda old, x: old - x,
    "atomic_max": np.maximum,
    "atomic_min": np.minimum,
    "atomic_nanmax": np.fmax,
    "atomic_nanmin": np.fmin,
    "atomic_and": np.bitwise_and,
    "atomic_or": np.bitwise_or,
    "atomic_xor": np.bitwise_xor,
    "atomic_inc": lambda old, x: np.where(old >= x, 0, old + 1),
    "atomic_dec": lambda old, x: np.where((old == 0) | (old > x), x, old - 1),
    "atomic_exch": lambda old, x: x,  # noqa: ARG005 - whatever was there before
    "atomic_cas": lambda old, x, expected: np.where(old == expected, x, old),
}
"""What an element becomes, by operation: from the old value and the operands."""


def new_value(name: str, old: Any, *numbers: Any) -> Any:
    """Return what elements become, in their type and without warnings.

    >>> new_value("atomic_inc", np.array([0, 1, 2], np.uint32), np.uint32(1)).tolist()
    [1, 0, 0]
    """
    with np.errstate(all="ignore"):
        return np.asarray(NEW_VALUES[name](old, *numbers)).astype(old.dtype)


def perform(name: str, data: NDArray[Any], index: NDArray[np.int64], numbers: list[NDArray[Any]]) -> NDArray[Any]:
    """Do one atomic operation after the other; returns the old values.

    Operations on different elements do not disturb each other, so all first ones on an element are done at once, then
    all second ones, and so on: exactly what one after the other would give, for floats as well.

    Parameters
    ----------
    name
        ``atomic_add``, ``atomic_cas``, or another one of `NEW_VALUES`.
    data
        The array, changed in place.
    index
        Element of every operation, in the order of the threads.
    numbers
        The operand of every operation; for ``atomic_cas`` the new value and the value to compare with.

    Examples
    --------
    >>> data = np.array([10, 0])
    >>> perform("atomic_add", data, np.array([0, 0, 1]), [np.array([1, 2, 3])]), data
    (array([10, 11,  0]), array([13,  3]))
    """
    order = np.argsort(index, kind="stable")
    ordered = index[order]
    first = np.ones(len(ordered), bool)
    first[1:] = ordered[1:] != ordered[:-1]
    starts = np.flatnonzero(first)
    rank = np.arange(len(ordered)) - np.repeat(starts, np.diff(np.append(starts, len(ordered))))
    old = np.zeros(len(index), data.dtype)
    by_rank = np.argsort(rank, kind="stable")
    ends = np.cumsum(np.bincount(rank)) if len(rank) else np.zeros(0, int)
    begin = 0
    for end in ends.tolist():
        which = order[by_rank[begin:end]]
        where = index[which]
        before = data[where]
        old[which] = before
        data[where] = new_value(name, before, *(number[which] for number in numbers))
        begin = end
    return old


def changes(name: str, old: NDArray[Any], numbers: list[NDArray[Any]]) -> NDArray[np.bool_]:
    """Tell which operations changed their element, from the old values and the operands.

    >>> changes("atomic_cas", np.array([0, 5]), [np.array([1, 1]), np.array([0, 0])])
    array([ True, False])
    """
    new = new_value(name, old, *numbers)
    same = new == old
    return np.asarray(~(same | (np.isnan(new) & np.isnan(old)) if old.dtype.kind in "fc" else same))


def perform_one(name: str, data: NDArray[Any], where: int, new: Any, expected: Any) -> tuple[Any, bool]:
    """Do one operation of one thread; returns the old value, and whether the element changed."""
    old = data[where]
    numbers = (new, expected) if name == "atomic_cas" else (new,)
    data[where] = new_value(name, old, *numbers)
    return old, bool(data[where] != old)

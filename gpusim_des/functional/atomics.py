"""Atomic operations of many threads on one array, in the order of the threads."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def perform(name: str, data: NDArray[Any], index: NDArray[np.int64], numbers: list[NDArray[Any]]) -> NDArray[Any]:
    """Do one atomic operation after the other; returns the old values.

    Operations on different elements do not disturb each other, so all first ones on an element are done at once, then
    all second ones, and so on: exactly what one after the other would give, for floats as well.

    Parameters
    ----------
    name
        ``atomic_add``, ``atomic_max``, ``atomic_min``, ``atomic_exch`` or ``atomic_cas``.
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
        new = numbers[0][which]
        with np.errstate(all="ignore"):
            if name == "atomic_add":
                new = before + new
            elif name == "atomic_max":
                new = np.maximum(before, new)
            elif name == "atomic_min":
                new = np.minimum(before, new)
            elif name == "atomic_cas":
                new = np.where(before == numbers[1][which], new, before)
        data[where] = new
        begin = end
    return old


def changes(name: str, old: NDArray[Any], numbers: list[NDArray[Any]]) -> NDArray[np.bool_]:
    """Tell which operations changed their element, from the old values and the operands.

    >>> changes("atomic_cas", np.array([0, 5]), [np.array([1, 1]), np.array([0, 0])])
    array([ True, False])
    """
    new = numbers[0]
    done = {
        "atomic_add": new != 0,
        "atomic_max": new > old,
        "atomic_min": new < old,
        "atomic_exch": new != old,
        "atomic_cas": (old == numbers[-1]) & (new != old),
    }[name]
    return np.asarray(done)


def perform_one(name: str, data: NDArray[Any], where: int, new: Any, expected: Any) -> tuple[Any, bool]:
    """Do one operation of one thread; returns the old value, and whether the element changed."""
    old = data[where]
    with np.errstate(all="ignore"):
        if name == "atomic_add":
            data[where] = old + new
        elif name == "atomic_max":
            data[where] = max(old, new)
        elif name == "atomic_min":
            data[where] = min(old, new)
        elif name == "atomic_exch" or old == expected:
            data[where] = new
    return old, bool(data[where] != old)

"""Which event made a value, thread by thread, turned into what each warp depends on.

A value merged under a mask was made by different events in different threads. A warp that reads it depends on every
event that made it for one of the warp's active threads, and on no other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Producers = tuple[Any, ...]
"""Events that made a value: numbers for all threads, or arrays of numbers per thread, -1 where nothing made it."""

MOST_CARRIED = 16
"""Events that a value remembers where operators are not counted and so no instruction stands for its operands."""


def per_warp(rows: NDArray[np.int32], executing: NDArray[np.bool_]) -> tuple[list[int], list[NDArray[np.int32]]]:
    """Events of each row of 32 lanes (-1: none): those common to all executing warps, and columns for the rest.

    Examples
    --------
    >>> rows = np.array([[3, 3, -1], [4, 3, 3], [-1, -1, -1]], np.int32)
    >>> numbers, columns = per_warp(rows, np.array([True, True, False]))
    >>> numbers, [c.tolist() for c in columns]
    ([], [[3, 4, -1], [-1, 3, -1]])
    >>> per_warp(np.array([[7, 7], [-1, -1]], np.int32), np.array([True, False]))
    ([7], [])
    """
    columns: list[NDArray[np.int32]] = []
    rest = rows
    while True:
        latest = rest.max(axis=1, initial=-1)
        found = latest[executing]
        if not (latest >= 0).any():
            return [], columns
        if not columns and (found == found[0]).all() and (rest[rest >= 0] == found[0]).all():
            return [int(found[0])], columns
        columns.append(latest.astype(np.int32))
        rest = np.where(rest == latest[:, None], np.int32(-1), rest)


def joint(*groups: Producers) -> Producers:
    """Producers of several operands together: numbers once each, ascending, then arrays.

    >>> joint((3, 1), (), (3, 2))
    (1, 2, 3)
    """
    numbers: set[int] = set()
    arrays: dict[int, NDArray[np.int32]] = {}
    for group in groups:
        for producer in group:
            if isinstance(producer, np.ndarray):
                arrays[id(producer)] = producer
            else:
                numbers.add(producer)
    return (*sorted(numbers), *arrays.values())


def latest(producers: Producers, shape: tuple[int, int]) -> Producers:
    """The `MOST_CARRIED` latest events of every thread's value, where arithmetic passes on what its operands wait for.

    >>> latest(tuple(range(100)), (1, 1))[0], len(latest(tuple(range(100)), (1, 1)))
    (array([[99]], dtype=int32), 16)
    """
    if len(producers) <= MOST_CARRIED:
        return producers
    rows = -np.sort([-np.broadcast_to(np.asarray(p, np.int32), shape) for p in producers], axis=0)
    rows[1:][rows[1:] == rows[:-1]] = -1
    rows = -np.sort(-rows, axis=0)
    return tuple(row for row in rows[:MOST_CARRIED] if (row >= 0).any())


def merged(mask: NDArray[np.bool_], new: Producers, old: Producers, shape: tuple[int, int]) -> Producers:
    """Producers of a value that is `new` where `mask` holds and `old` elsewhere.

    >>> merged(np.array([[True, False]]), (5,), (2,), (1, 2))[0].tolist()
    [[5, 2]]
    """
    if all(isinstance(p, int) for p in (*new, *old)) and new == old:
        return tuple(new)
    columns = []
    for column in range(max(len(new), len(old))):
        a, b = (np.asarray(p[column] if column < len(p) else -1, np.int32) for p in (new, old))
        columns.append(np.broadcast_to(np.where(mask, a, b), shape))
    return tuple(columns)

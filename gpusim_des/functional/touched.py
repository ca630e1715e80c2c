"""Which elements the active threads of an access touch, one entry for each."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpusim_des.functional.thread_order import Numbers, Threads

Mask = NDArray[np.bool_] | None


class Access(NamedTuple):
    """What active threads do with a shared or a device array; `position` and `mask` broadcast to (blocks, threads)."""

    kind: int
    position: NDArray[Any]
    mask: Mask
    width: int
    """Neighbouring elements that each thread touches."""

    @property
    def alike(self) -> bool:
        """Whether all blocks do the same."""
        return all(x is None or x.ndim < 2 or len(x) == 1 for x in (self.position, self.mask))


class Active(NamedTuple):
    """The same, one entry for each element that a thread touches."""

    elements: Numbers
    threads: Threads


def one_row(values: Any) -> Any:
    """Positions or a mask as one row, where all blocks have the same.

    >>> one_row(np.array([[1, 2], [1, 2]])).tolist(), one_row(np.array([[1, 2], [1, 3]])).tolist()
    ([[1, 2]], [[1, 2], [1, 3]])
    """
    if values is None or values.ndim < 2 or len(values) == 1:
        return values
    same = values.strides[0] == 0 or (np.array_equal(values[0], values[-1]) and bool((values == values[0]).all()))
    return values[:1] if same else values


def active_of(access: Access, rows: int, threads: Numbers, size: int) -> Active:
    """Elements and threads of the active lanes of so many blocks, whose arrays of `size` elements follow each other.

    >>> found = active_of(Access(0, np.array([[3, 2]]), None, 1), 2, np.arange(2), 4)
    >>> found.elements.tolist(), found.threads.who.tolist(), found.threads.rows.tolist()
    ([3, 2, 7, 6], [0, 1, 0, 1], [0, 0, 1, 1])
    """
    shape = rows, len(threads)
    index = np.broadcast_to(access.position, shape).astype(np.int64, copy=False)
    if access.mask is None:
        elements = index.reshape(-1)
        who = np.broadcast_to(threads, shape).reshape(-1)
        row = np.repeat(np.arange(rows), shape[1])
    else:
        on = np.broadcast_to(access.mask, shape)
        row, lane = np.nonzero(on)
        elements, who = index[on], threads[lane]
    if rows > 1 and size:
        elements = elements + row * size
    if access.width > 1:
        elements = (elements[:, None] + np.arange(access.width)).reshape(-1)
        row, who = np.repeat(row, access.width), np.repeat(who, access.width)
    return Active(elements, Threads(who, row))


def in_parts(access: Access, parts: int) -> Access:
    """The same access, with elements counted as so many parts each.

    >>> in_parts(Access(0, np.array([[3, 2]]), None, 1), 2)
    Access(kind=0, position=array([[6, 4]]), mask=None, width=2)
    """
    if parts == 1:
        return access
    return access._replace(position=access.position.astype(np.int64) * parts, width=access.width * parts)


def elements_of(access: Access, shape: tuple[int, int], size: int) -> NDArray[Any]:
    """Only the elements of `active_of`, faster; `shape` is (blocks, threads).

    >>> elements_of(Access(0, np.array([[3, 2]]), np.array([[True, False]]), 1), (2, 2), 4).tolist()
    [3, 7]
    """
    index = access.position
    if shape[0] > 1 and size:
        index = index.astype(np.int64, copy=False) + np.arange(shape[0])[:, None] * size
    whole = np.broadcast_to(index, shape)
    elements = whole.reshape(-1) if access.mask is None else whole[np.broadcast_to(access.mask, shape)]
    if access.width > 1:
        elements = (elements.astype(np.int64)[:, None] + np.arange(access.width)).reshape(-1)
    return elements


def same_values(one: NDArray[Any], other: NDArray[Any]) -> NDArray[np.bool_]:
    """Tell which values are equal; a NaN equals itself.

    >>> same_values(np.array([1.0, np.nan, 2.0]), np.array([1.0, np.nan, 3.0])).tolist()
    [True, True, False]
    """
    if one.dtype.kind in "fc":
        return np.asarray((one == other) | (np.isnan(one) & np.isnan(other)))
    return np.asarray(one == other)

"""Page-locked ("pinned") host memory, and sources of copies that change before the copy is known to be done."""

from __future__ import annotations

import math
import weakref
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from gpusim_des.errors import DeviceMemoryError
from gpusim_des.functional import host_memory
from gpusim_des.functional.allocator import ASK_HOST_BYTES, Shape, element_type, sizes_of
from gpusim_des.functional.happens_before import Clock, Moment
from gpusim_des.functional.source import Site

WATCHED_BYTES = 64 << 20
"""Largest source that is watched for changes: its checksum is computed twice per copy."""

_PINNED: dict[int, tuple[int, int, weakref.ref[NDArray[Any]]]] = {}
"""Pinned arrays that are alive: where they begin and end. Of the process, as CUDA's are: all devices know them."""


def allocate(shape: Shape, dtype: DTypeLike) -> NDArray[Any]:
    """Make a pinned array of zeros; raises `DeviceMemoryError` for what device memory could not hold either."""
    sizes, kind = sizes_of(shape), element_type(dtype)
    needed = math.prod(sizes) * kind.itemsize
    left = host_memory.available_bytes() if needed >= ASK_HOST_BYTES else None
    try:
        if left is not None and needed > left:
            raise MemoryError(f"{needed:,} bytes asked for, {left:,} available")
        array: NDArray[Any] = np.zeros(sizes, kind)
    except (MemoryError, ValueError) as error:  # NumPy's error for sizes beyond the address space is a ValueError
        raise DeviceMemoryError(
            f"the host has no memory for a pinned array of shape {sizes} and type {kind} ({error or 'MemoryError'}): "
            "make a smaller one, or use one several times"
        ) from None
    key = id(array)
    _PINNED[key] = (*_bounds(array), weakref.ref(array, lambda _: _PINNED.pop(key, None)))
    return array


def is_pinned(array: NDArray[Any]) -> bool:
    """Tell whether every element of a host array lies in one pinned array.

    Examples
    --------
    >>> array = allocate((4, 4), np.float32)
    >>> is_pinned(array[1:, ::2]), is_pinned(array.copy())
    (True, False)
    """
    low, end = _bounds(array)
    return any(start <= low and end <= stop for start, stop, _ in _PINNED.values())


def _bounds(array: NDArray[Any]) -> tuple[int, int]:
    """First address of an array's elements and the one behind the last."""
    low = high = int(array.__array_interface__["data"][0])
    if not array.size:
        return low, low
    for n, stride in zip(array.shape, array.strides, strict=True):
        low, high = low + min(0, (n - 1) * stride), high + max(0, (n - 1) * stride)
    return low, high + array.itemsize


@dataclass(frozen=True, eq=False)
class _Watched:
    view: NDArray[np.uint8]
    checksum: int
    name: str
    site: Site
    moment: Moment

    @property
    def changed(self) -> bool:
        return zlib.crc32(self.view.data) != self.checksum


class WatchedSources:
    """Pinned sources of copies that the host does not know to be done: they must not change.

    Copies of pageable arrays need no watching: they are staged before the call returns.

    Examples
    --------
    >>> sources, array = WatchedSources(), np.zeros(4, np.uint8)
    >>> sources.watch(array, "copy h2d 'a'", Site("app.py", 3), Moment(lane=1, turn=1))
    >>> array[0] = 1
    >>> sources.check({1: 0}), len(sources.check({1: 1})), sources.check({1: 1})
    ([], 1, [])
    """

    def __init__(self) -> None:
        self._watched: list[_Watched] = []

    def watch(self, view: NDArray[np.uint8], name: str, site: Site, moment: Moment) -> None:
        """Watch the source of the copy at `moment` from now on."""
        if 0 < view.nbytes <= WATCHED_BYTES:
            self._watched.append(_Watched(view, zlib.crc32(view.data), name, site, moment))

    def overwritten(self, view: NDArray[np.uint8]) -> list[str]:
        """Stop watching what a copy is about to overwrite; returns what changed before."""
        return self._stop([w for w in self._watched if np.may_share_memory(w.view, view)])

    def check(self, known: Clock) -> list[str]:
        """Stop watching sources of copies that are over in the clock `known`; returns what changed before."""
        return self._stop([w for w in self._watched if w.moment.over(known)])

    def changed(self) -> list[str]:
        """Stop watching what has changed already; returns what did."""
        return self._stop([w for w in self._watched if w.changed])

    def _stop(self, ending: list[_Watched]) -> list[str]:
        self._watched = [w for w in self._watched if w not in ending]
        return [
            f"the pinned source of {w.name} ({w.site}) changed before its copy was known to be done: a GPU copies old "
            "bytes, new ones or both; wait before changing it, with stream.synchronize() or event.synchronize(), or "
            "use two arrays in turn"
            for w in ending
            if w.changed
        ]

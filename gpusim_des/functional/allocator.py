"""The allocator of a device: addresses, the live arrays, and how much is in use."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import DTypeLike, NDArray

from gpusim_des.errors import DeviceMemoryError
from gpusim_des.functional import host_memory
from gpusim_des.functional.memory import MAX_ITEM_BYTES, DeviceArray, is_plain
from gpusim_des.functional.poison import poison
from gpusim_des.grid import cdiv

ALIGNMENT_BYTES = 256
"""cudaMalloc returns addresses aligned to at least 256 bytes (CUDA C++ Programming Guide, "Device memory accesses")."""

FIRST_ADDRESS = 0x7000_0000_0000
"""Where the simulated device memory starts; far from 0, so that a null index error looks like one."""

ASK_HOST_BYTES = 1 << 26
"""Arrays from this size on are held against the memory that the host has left."""

Shape = SupportsIndex | Sequence[SupportsIndex]


class DeviceMemory:
    """Memory of one device: first fit, in pieces of `ALIGNMENT_BYTES`, holes side by side are one.

    Attributes
    ----------
    capacity_bytes
        Size of the memory.
    used_bytes, peak_bytes
        Bytes that the live arrays asked for, now and at most; alignment is not counted.
    running
        Name of the kernel that runs now; arrays mention it when Python touches their elements.
    mallocs
        Arrays made so far.

    Examples
    --------
    >>> memory = DeviceMemory(capacity_bytes=1 << 20)
    >>> a, b = memory.allocate(10, np.float32), memory.allocate(3, np.float64)
    >>> b.address - a.address, memory.used_bytes, (1 << 20) - memory.free_bytes
    (256, 64, 512)
    """

    def __init__(self, capacity_bytes: int) -> None:
        self.capacity_bytes = capacity_bytes
        self.used_bytes = 0
        self.peak_bytes = 0
        self.running: str | None = None
        self.mallocs = 0
        self._holes = [(FIRST_ADDRESS, FIRST_ADDRESS + capacity_bytes)]
        """First address and end of every hole, ascending."""
        self._live: dict[int, DeviceArray] = {}
        self._ends: dict[int, int] = {}

    @property
    def free_bytes(self) -> int:
        """Bytes in holes."""
        return sum(end - start for start, end in self._holes)

    @property
    def live(self) -> list[DeviceArray]:
        """Arrays that were not freed, oldest first."""
        return list(self._live.values())

    def allocate(
        self, shape: Shape, dtype: DTypeLike, name: str | None = None, contents: NDArray[Any] | None = None
    ) -> DeviceArray:
        """Reserve memory for an array of poison, or of a copy of `contents`; raises `DeviceMemoryError`."""
        sizes, kind = sizes_of(shape), element_type(dtype)
        needed = math.prod(sizes) * kind.itemsize
        hole = next((k for k, (start, end) in enumerate(self._holes) if end - start >= needed), None)
        if hole is None:
            raise self._out_of_memory(needed)
        data = _host_array(sizes, kind, needed, contents)  # may fail: nothing has changed yet
        start, end = self._holes[hole]
        used_end = min(start + cdiv(needed, ALIGNMENT_BYTES) * ALIGNMENT_BYTES, end)
        self._holes[hole : hole + 1] = [(used_end, end)] if used_end < end else []
        self.mallocs += 1
        array = DeviceArray(sizes, kind, start, name or f"d{self.mallocs}", data, self)
        array.unwritten = True if contents is None else None
        self._live[start] = array
        self._ends[start] = used_end
        self.used_bytes += needed
        self.peak_bytes = max(self.peak_bytes, self.used_bytes)
        return array

    def free(self, array: DeviceArray) -> None:
        """Give an array's memory back; raises `DeviceMemoryError` if it is not a live array of this device."""
        if array.freed:
            raise DeviceMemoryError(f"array {array.name!r} was freed already: free each array once")
        if not self.owns(array):
            raise DeviceMemoryError(f"array {array.name!r} belongs to another device: free it there")
        if array.owner is not array:
            raise DeviceMemoryError(
                f"array {array.name!r} is a part of {array.owner.name!r} and goes with it: free the whole array"
            )
        del self._live[array.address]
        self.used_bytes -= array.nbytes
        array.discard()
        start, end = array.address, self._ends.pop(array.address)
        before = [hole for hole in self._holes if hole[1] < start]
        after = [hole for hole in self._holes if hole[0] > end]
        for hole in self._holes:
            if hole[1] == start:
                start = hole[0]
            elif hole[0] == end:
                end = hole[1]
        self._holes = [*before, (start, end), *after]

    def owns(self, array: DeviceArray) -> bool:
        """Tell whether `array` is a live array of this device, or a part of one."""
        return self._live.get(array.owner.address) is array.owner

    def check(self, array: DeviceArray) -> None:
        """Refuse an array that was freed or is another device's, with `DeviceMemoryError`."""
        array.flat  # noqa: B018 - refuses an array that was freed
        if not self.owns(array):
            raise DeviceMemoryError(f"array {array.name!r} belongs to another device: use it there")

    def _out_of_memory(self, needed: int) -> DeviceMemoryError:
        largest = sorted(self._live.values(), key=lambda a: -a.nbytes)[:3]
        live = ", ".join(f"{a.name!r} {a.nbytes:,} bytes" for a in largest) or "none"
        free = self.free_bytes
        scattered = ""
        if needed <= free:
            hole = max(end - start for start, end in self._holes)
            scattered = f" in {len(self._holes)} holes, the largest of {hole:,} (fragmentation)"
        remedy = "the arrays between the holes, or make large arrays before small ones" if scattered else "some"
        return DeviceMemoryError(
            f"out of device memory: {needed:,} bytes requested, {free:,} of {self.capacity_bytes:,} free{scattered}; "
            f"largest live arrays: {live}; free {remedy} with dev.free(array)"
        )


def sizes_of(shape: Shape) -> tuple[int, ...]:
    """Sizes of a shape in every dimension; raises `DeviceMemoryError`."""
    sizes: Sequence[Any] = shape if isinstance(shape, tuple | list) else (shape,)
    try:
        whole = tuple(0 if isinstance(n, bool) else operator.index(n) for n in sizes)
    except TypeError:
        whole = ()
    if min(whole, default=0) < 1:
        raise DeviceMemoryError(
            f"shape {shape!r}: sizes are whole numbers, at least 1 in every dimension; leave out an array without "
            "elements, and convert sizes with int()"
        )
    return whole


def element_type(dtype: DTypeLike) -> np.dtype[Any]:
    """Type of the elements, if device memory can hold them; raises `DeviceMemoryError`."""
    try:
        kind = np.dtype(dtype)
    except (TypeError, ValueError):
        raise DeviceMemoryError(f"dtype {dtype!r}: NumPy has no such type; give one, for example np.float32") from None
    if not is_plain(kind):
        raise DeviceMemoryError(
            f"dtype {kind}: device memory holds numbers, truth values and records of 1 to {MAX_ITEM_BYTES} bytes"
            ", dates and strings of fixed length too, but no Python objects and no arrays as elements; "
            "convert the data first, for example to np.float32, or split records into several arrays"
        )
    return kind


def _host_array(
    sizes: tuple[int, ...], kind: np.dtype[Any], needed: int, contents: NDArray[Any] | None
) -> NDArray[Any]:
    """Host memory for an array; raises `DeviceMemoryError` if the host has too little."""
    left = host_memory.available_bytes() if needed >= ASK_HOST_BYTES else None
    try:
        if left is not None and needed > left:
            raise MemoryError(f"{needed:,} bytes asked for, {left:,} available")
        if contents is not None:
            return contents.flatten()
        data = np.empty(math.prod(sizes), kind)
    except MemoryError as error:
        raise DeviceMemoryError(
            f"the host has no memory for an array of shape {sizes} and type {kind}: simulated device memory lives in "
            f"host memory ({error or 'MemoryError'}); free some with dev.free(array), or simulate a smaller problem"
        ) from None
    poison(data)
    return data

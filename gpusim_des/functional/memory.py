"""Device memory: arrays with addresses, and shared memory of the blocks in flight."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
from numpy.typing import DTypeLike, NDArray

from gpusim_des.errors import DeviceMemoryError
from gpusim_des.functional.operations import Atomics

ALIGNMENT_BYTES = 256
"""cudaMalloc returns addresses aligned to at least 256 bytes (CUDA C++ Programming Guide, "Device memory accesses")."""

FIRST_ADDRESS = 0x7000_0000_0000
"""Where the simulated device memory starts; far from 0, so that a null index error looks like one."""

MAX_ITEM_BYTES = 32
"""Largest element a lane may load at once."""


def is_plain(dtype: np.dtype[Any]) -> bool:
    """Tell whether a GPU can hold elements of this type: numbers, truth values and small records of them."""
    return dtype.kind in "biufcV" and not dtype.hasobject and 0 < dtype.itemsize <= MAX_ITEM_BYTES


class DeviceArray(Atomics):
    """An array in device memory: it has an address, and only kernels and copies touch its elements.

    Attributes
    ----------
    name
        Name for messages; a launch uses the kernel's parameter name instead.
    address
        Byte address of the first element.
    shape, dtype, size, nbytes
        As in NumPy, row-major.
    """

    __slots__ = ("_data", "address", "dtype", "freed", "name", "shape")

    def __init__(self, shape: tuple[int, ...], dtype: DTypeLike, address: int, name: str) -> None:
        self.dtype = np.dtype(dtype)
        self.shape = shape
        self.address = address
        self.name = name
        self.freed = False
        self._data: NDArray[Any] = np.zeros(self.size, self.dtype)

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.size * self.dtype.itemsize

    @property
    def flat(self) -> NDArray[Any]:
        """The elements in row-major order, for the executor; raises `DeviceMemoryError` after `free`."""
        if self.freed:
            raise DeviceMemoryError(f"array {self.name!r} was freed: allocate it again before using it")
        return self._data

    def __repr__(self) -> str:
        return f"<DeviceArray {self.name!r} shape={self.shape} dtype={self.dtype} at {self.address:#x}>"

    def _refuse(self) -> NoReturn:
        raise DeviceMemoryError(
            f"array {self.name!r} lives in device memory, the host cannot touch its elements: "
            "copy it with dev.to_host(array), or pass it to a kernel and use blk.load and blk.store there"
        )

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        self._refuse()

    def __getitem__(self, index: object) -> Any:
        self._refuse()

    def __setitem__(self, index: object, value: object) -> None:
        self._refuse()

    def __len__(self) -> int:
        return self.shape[0]


class DeviceMemory:
    """The allocator of one device: addresses, the live arrays, and how much is in use.

    Examples
    --------
    >>> memory = DeviceMemory(capacity_bytes=1 << 20)
    >>> a, b = memory.allocate(10, np.float32), memory.allocate(3, np.float64)
    >>> b.address - a.address, memory.used_bytes
    (256, 64)
    """

    def __init__(self, capacity_bytes: int) -> None:
        self.capacity_bytes = capacity_bytes
        self.used_bytes = 0
        self.peak_bytes = 0
        self._next_address = FIRST_ADDRESS
        self._allocated = 0
        self._live: dict[int, DeviceArray] = {}

    def allocate(self, shape: int | tuple[int, ...], dtype: DTypeLike, name: str | None = None) -> DeviceArray:
        """Reserve memory for an array of zeros; raises `DeviceMemoryError`."""
        sizes = shape if isinstance(shape, tuple) else (shape,)
        if not sizes or any(not isinstance(n, int | np.integer) or n < 1 for n in sizes):
            raise DeviceMemoryError(f"shape {shape!r}: sizes are whole numbers, at least 1 in every dimension")
        kind = np.dtype(dtype)
        if not is_plain(kind):
            raise DeviceMemoryError(
                f"dtype {kind}: device memory holds numbers, truth values and records of 1 to {MAX_ITEM_BYTES} bytes; "
                "convert the data first, for example to np.float32"
            )
        sizes = tuple(int(n) for n in sizes)
        needed = int(np.prod(sizes, dtype=object)) * kind.itemsize
        free = self.capacity_bytes - self.used_bytes
        if needed > free:
            largest = sorted(self._live.values(), key=lambda a: -a.nbytes)[:3]
            live = ", ".join(f"{a.name!r} {a.nbytes:,} bytes" for a in largest) or "none"
            raise DeviceMemoryError(
                f"out of device memory: {needed:,} bytes requested, {free:,} of {self.capacity_bytes:,} free; "
                f"largest live arrays: {live}; free some with dev.free(array)"
            )
        array = DeviceArray(sizes, kind, self._next_address, name or f"array{self._allocated}")
        self._allocated += 1
        self._live[array.address] = array
        self._next_address += -(-max(array.nbytes, 1) // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        self.used_bytes += array.nbytes
        self.peak_bytes = max(self.peak_bytes, self.used_bytes)
        return array

    def free(self, array: DeviceArray) -> None:
        """Give an array's memory back; raises `DeviceMemoryError` if it is not a live array of this device."""
        if array.freed:
            raise DeviceMemoryError(f"array {array.name!r} was freed already: free each array once")
        if not self.owns(array):
            raise DeviceMemoryError(f"array {array.name!r} belongs to another device: free it there")
        del self._live[array.address]
        self.used_bytes -= array.nbytes
        array.freed = True

    def owns(self, array: DeviceArray) -> bool:
        """Tell whether `array` is a live array of this device."""
        return self._live.get(array.address) is array


class SharedArray(Atomics):
    """A shared-memory array of every block in flight: data has one row per block.

    The address counts from the start of the block's shared memory, in bytes.
    """

    __slots__ = ("address", "data", "dtype", "name", "shape")

    def __init__(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any], address: int, blocks: int) -> None:
        self.name = name
        self.shape = shape
        self.dtype = dtype
        self.address = address
        self.data: NDArray[Any] = np.zeros((blocks, int(np.prod(shape, dtype=np.int64))), dtype)

    @property
    def size(self) -> int:
        """Elements per block."""
        return int(self.data.shape[1])

    @property
    def nbytes(self) -> int:
        """Bytes per block."""
        return self.size * self.dtype.itemsize

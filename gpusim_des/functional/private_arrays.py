"""Arrays that are no argument of a launch: constants of the source, and what every thread has for itself.

Both lie in address windows of their own, are reached through L1 and L2 like global memory, and counted with it.
"""

from __future__ import annotations

from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from gpusim_des.errors import KernelError
from gpusim_des.functional.allocator import ALIGNMENT_BYTES, DeviceMemory
from gpusim_des.functional.memory import PrivateArray, is_plain
from gpusim_des.functional.poison import poison
from gpusim_des.functional.source import Site
from gpusim_des.grid import WARP_SIZE, cdiv
from gpusim_des.units import format_bytes

CONSTANT_ADDRESS = 0x6000_0000_0000
LOCAL_ADDRESS = 0x6800_0000_0000

CONSTANT_BYTES = 64 << 10
"""Constant memory of a kernel (CUDA C++ Programming Guide, "Technical specifications per compute capability")."""

LOCAL_BYTES = 512 << 10
"""Local memory of a thread (as above)."""


class ConstantArray(PrivateArray):
    """A copy of a host array that a kernel reads and cannot write."""

    def __init__(self, host: NDArray[Any], address: int, name: str) -> None:
        data = np.ascontiguousarray(host).reshape(-1).copy()
        super().__init__(host.shape, host.dtype, address, name, data, DeviceMemory(CONSTANT_BYTES))


class Constants:
    """The constant arrays of one launch: a host array becomes one when the kernel first reads it."""

    def __init__(self, kernel_name: str) -> None:
        self._kernel_name = kernel_name
        self._arrays: dict[int, tuple[NDArray[Any], ConstantArray]] = {}
        self._end = CONSTANT_ADDRESS

    def of(self, host: NDArray[Any], site: Site) -> ConstantArray:
        """Return the constant array for a host array; raises `KernelError` if it cannot be one."""
        if id(host) not in self._arrays:
            if not is_plain(host.dtype) or not host.size or not host.ndim:
                raise KernelError(
                    f"{self._kernel_name}: {site} reads a host array of shape {host.shape} and type {host.dtype}: "
                    "constants are arrays of numbers with at least one element"
                )
            used = self._end - CONSTANT_ADDRESS
            if used + host.nbytes > CONSTANT_BYTES:
                raise KernelError(
                    f"{self._kernel_name}: a host array of {host.nbytes:,} bytes in {site} brings constant memory to "
                    f"{used + host.nbytes:,} bytes: a kernel has {format_bytes(CONSTANT_BYTES)}; pass the array as an "
                    "argument of the launch"
                )
            self._arrays[id(host)] = host, ConstantArray(host, self._end, f"constant {len(self._arrays) + 1}")
            self._end += cdiv(host.nbytes, ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        return self._arrays[id(host)][1]


class LocalArray(PrivateArray):
    """An array that every thread has for itself.

    Where all its indices are constants it lives in registers: reading and writing cost nothing. Otherwise it is in
    local memory, where elements of the lanes of a warp lie side by side (CUDA C++ Programming Guide, "Local memory").

    Attributes
    ----------
    slot
        Which of the kernel's local arrays it is.
    slots
        Elements, one row per block and one column per thread in flight; `shape` is that of one thread's array.
    in_memory
        Whether it is in local memory.
    """

    __slots__ = ("in_memory", "made", "slot", "slots")

    def __init__(
        self,
        slot: tuple[Any, ...],
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        name: str,
        address: int,
        threads: tuple[int, int],
        *,
        in_memory: bool,
    ) -> None:
        super().__init__(shape, dtype, address, name, np.zeros(0, dtype), DeviceMemory(LOCAL_BYTES))
        self.slot = slot
        self.slots: NDArray[Any] = np.empty((self.size, *threads), dtype)
        poison(self.slots)
        self.in_memory = in_memory
        self.made: dict[int, Any] = {}
        """What made each element, while it is in registers."""

    def position(self, element: Any, blocks: Any, threads: Any, threads_per_block: int) -> Any:
        """Position in the address window: 32 lanes side by side, then the next element, warp and block.

        >>> array = LocalArray((), (10,), np.dtype(np.float32), "a", LOCAL_ADDRESS, (1, 64), in_memory=True)
        >>> array.position(3, 0, np.array([0, 1, 32]), 64).tolist()
        [96, 97, 416]
        """
        warps = cdiv(threads_per_block, WARP_SIZE)
        warp = blocks * warps + threads // WARP_SIZE
        return (warp * self.size + element) * WARP_SIZE + threads % WARP_SIZE

    def _refuse(self) -> NoReturn:
        raise KernelError(
            f"Python touches elements of local array {self.name!r}: only a kernel's own expressions can, one element "
            "at a time"
        )


class Shaped(NamedTuple):
    """An array that a kernel declares by its place in the source: shared by a block, or every thread's own."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    label: str
    """What the kernel calls it."""


class LocalWindow:
    """Addresses of the local arrays of one launch: every one has a window, with room for all threads of the grid."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._windows: dict[tuple[Any, ...], int] = {}
        self._end = LOCAL_ADDRESS

    def address(self, slot: tuple[Any, ...], nbytes: int) -> int:
        """Return the address of the local array `slot`, `nbytes` for each thread."""
        if slot not in self._windows:
            self._windows[slot] = self._end
            self._end += cdiv(nbytes * self._threads, ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        return self._windows[slot]


def check_local(kernel_name: str, site: Site, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Refuse a local array that no thread can have."""
    if not is_plain(dtype):
        raise KernelError(f"{kernel_name}: local array of type {dtype} in {site}: numbers are possible, as np.float32")
    nbytes = int(np.prod(shape, dtype=object)) * dtype.itemsize
    if nbytes > LOCAL_BYTES:
        raise KernelError(
            f"{kernel_name}: local array of {nbytes:,} bytes in {site}: a thread has {format_bytes(LOCAL_BYTES)} of "
            "local memory; use an array in device memory, with a part for each thread"
        )

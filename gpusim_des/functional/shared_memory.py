"""Shared memory of a block: what a kernel declares, held against what the GPU and the launch allow."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from gpusim_des.errors import KernelError, LaunchError
from gpusim_des.functional.memory import MAX_ITEM_BYTES, SharedArray, is_plain
from gpusim_des.functional.poison import poison
from gpusim_des.grid import cdiv
from gpusim_des.units import format_bytes

WINDOW_UNIT = 96
"""Bytes in multiples of which the dynamic window is kept: sizes of elements divide it."""


class SharedLimits(NamedTuple):
    """Shared memory per block, in bytes."""

    static: int
    """Most that a kernel may declare without ``dynamic=True``; 48 KiB on NVIDIA's GPUs (CUDA C++ Programming Guide,
    "Shared memory", of compute capability 7.0 and later)."""
    block: int
    """Most that a block may have, static and dynamic part together."""
    dynamic: int
    """Dynamic part, reserved by the launch."""


class SharedMemory:
    """Gives addresses to the shared arrays of one kernel, counted from the start of the block's shared memory.

    The dynamic part lies behind all static arrays, so it starts where those must end. Its arrays lie one after the
    other; in CUDA, where all ``extern __shared__`` names mean the start of it, the kernel would add the offsets.

    Examples
    --------
    >>> memory = SharedMemory("k", SharedLimits(static=48 << 10, block=227 << 10, dynamic=1000))
    >>> a, b = (memory.declare(name, (3,), np.float64, blocks=1) for name in "ab")
    >>> c, d = (memory.declare(name, (100,), np.float32, blocks=1, dynamic=True) for name in "cd")
    >>> [array.address for array in (a, b, c, d)], memory.static_bytes
    ([0, 24, 49152, 49552], 48)
    """

    def __init__(self, kernel_name: str, limits: SharedLimits) -> None:
        self._kernel_name = kernel_name
        self._limits = limits
        self.static_bytes = 0
        self._dynamic_bytes = 0
        self._window: NDArray[np.uint8] | None = None

    def declare(
        self, name: str, shape: tuple[int, ...], dtype: DTypeLike, blocks: int, *, dynamic: bool = False
    ) -> SharedArray:
        """Make an array of poison for `blocks` blocks; raises `LaunchError` where there is too little memory."""
        kind = np.dtype(dtype)
        if not is_plain(kind):
            raise KernelError(
                f"{self._kernel_name}: shared array {name!r} of type {kind}: shared memory holds numbers, truth values "
                f"and records of 1 to {MAX_ITEM_BYTES} bytes; choose one of those, for example np.float32"
            )
        address = cdiv(self._dynamic_bytes if dynamic else self.static_bytes, kind.itemsize) * kind.itemsize
        needed = address + math.prod(shape) * kind.itemsize
        what = f"{self._kernel_name}: shared array {name!r} of shape {shape}"
        if dynamic:
            self._check_dynamic(what, needed)
            self._dynamic_bytes = needed
            address += cdiv(self._limits.static, kind.itemsize) * kind.itemsize
        else:
            self._check_static(what, needed)
            self.static_bytes = needed
        return SharedArray(name, shape, kind, address, blocks)

    def window(self, name: str, dtype: np.dtype[Any], blocks: int) -> SharedArray:
        """Return all of the dynamic part as an array; windows of other types show the same bytes, as in CUDA.

        Raises
        ------
        LaunchError
            If the launch reserved less than an element.

        Examples
        --------
        >>> memory = SharedMemory("k", SharedLimits(static=48 << 10, block=227 << 10, dynamic=10))
        >>> words, bytes = memory.window("w", np.dtype(np.uint32), 1), memory.window("b", np.dtype(np.uint8), 1)
        >>> words.data[0, 1] = 258
        >>> words.shape, bytes.shape, bytes.data[0, 4:6].tolist()
        ((2,), (10,), [2, 1])
        """
        count = self._limits.dynamic // dtype.itemsize
        if not count:
            raise LaunchError(
                f"{self._kernel_name}: shared array {name!r} of shape 0 and type {dtype} is all of the dynamic shared "
                f"memory, of which the launch reserved {self._limits.dynamic:,} bytes: reserve some, "
                "kernel[blocks, threads, stream, nbytes](...) or dev.launch(..., dynamic_shared=nbytes)"
            )
        address = cdiv(self._limits.static, WINDOW_UNIT) * WINDOW_UNIT
        if self._window is None:
            room = cdiv(self._limits.dynamic, WINDOW_UNIT) * WINDOW_UNIT
            self._window = np.empty((blocks, room), np.uint8)
            poison(self._window.view(dtype) if room % dtype.itemsize == 0 else self._window)
        return SharedArray(name, (count,), dtype, address, blocks, data=self._window.view(dtype))

    def _check_static(self, what: str, needed: int) -> None:
        static, block, dynamic = self._limits
        if needed + dynamic > block:
            raise LaunchError(
                f"{what} brings the block to {needed + dynamic:,} bytes of shared memory ({dynamic:,} of them "
                f"dynamic): this GPU allows {block:,} per block; use a smaller tile or a smaller element type"
            )
        if needed > static:
            raise LaunchError(
                f"{what} brings static shared memory to {needed:,} bytes: a kernel declares at most {static:,} "
                f"({format_bytes(static)}); take more from the dynamic part, up to {block:,} bytes in all: "
                "shared(…, dynamic=True) in the kernel and dev.launch(…, dynamic_shared=nbytes)"
            )

    def _check_dynamic(self, what: str, needed: int) -> None:
        if needed > self._limits.dynamic:
            raise LaunchError(
                f"{what} brings dynamic shared memory to {needed:,} bytes: the launch reserved "
                f"{self._limits.dynamic:,}; reserve enough, dev.launch(…, dynamic_shared={needed}), at most "
                f"{self._limits.block:,} bytes per block with the static part"
            )

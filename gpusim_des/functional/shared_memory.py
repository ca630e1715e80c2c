"""Shared memory of a block: what a kernel declares, held against what the GPU and the launch allow."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from gpusim_des.errors import KernelError, LaunchError
from gpusim_des.functional.memory import MAX_ITEM_BYTES, SharedArray, is_plain
from gpusim_des.grid import cdiv
from gpusim_des.units import format_bytes


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

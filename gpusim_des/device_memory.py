"""Device memory as the host sees it: CUDA's malloc, free, memcpy and memset, and what was allocated and copied."""

from __future__ import annotations

import math
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from gpusim_des.device_work import copy_work, memset_work, uploaded
from gpusim_des.errors import DeviceMemoryError
from gpusim_des.functional.allocator import DeviceMemory, Shape, element_type, sizes_of
from gpusim_des.functional.memory import DeviceArray
from gpusim_des.functional.source import caller
from gpusim_des.functional.transfers import CopyKind, CopyReport
from gpusim_des.grid import cdiv
from gpusim_des.host_side import WAITS, HostSide

PITCH_BYTES = 512
"""Rows of `malloc_pitch` start at multiples of this.

Measured on GTX 780 and GTX 750 with CUDA 6.5 (NVIDIA developer forum, "Understanding Memory Pitch Alignment",
forums.developer.nvidia.com/t/understanding-memory-pitch-alignment/39738); assumed for all GPUs.
"""


class MemoryFace:
    """The memory calls of a `Device`; every one of them raises `DeviceMemoryError` for arguments against its rules.

    They are for the host: inside of a kernel they raise `KernelError`. On purpose they are stricter than CUDA, which
    copies any bytes anywhere: arrays of no elements, copies between types, of broken elements, or of strided host
    arrays are refused, and fresh memory is never clean. A copy to another device needs no peer access.
    """

    def __init__(self, capacity_bytes: int, *, per_thread: bool) -> None:
        self._memory = DeviceMemory(capacity_bytes)
        self._host = HostSide(self._memory, per_thread=per_thread)

    # Allocation -----------------------------------------------------------------------------------------------------

    def malloc(self, shape: Shape, dtype: DTypeLike = np.float32, name: str | None = None) -> DeviceArray:
        """Reserve an array in device memory.

        It holds poison: NaN in floating and complex elements, bytes of 0xCD in integers. Clear it with `memset`.

        Parameters
        ----------
        shape
            Elements, or a tuple of sizes; the array is row-major. Its address is a multiple of 256 bytes.
        dtype
            Any NumPy type of a fixed size of up to 32 bytes, records too; not ``object``.
        name
            For messages; ``d1``, ``d2``, … where not given.

        Raises
        ------
        DeviceMemoryError
            For a shape or type that device memory cannot hold; if device memory is full; or if the memory of the host
            is, in which simulated device memory lives.
        """
        self._host_only("malloc")
        return self._memory.allocate(shape, dtype, name)

    def malloc_pitch(
        self, rows: SupportsIndex, columns: SupportsIndex, dtype: DTypeLike = np.float32, name: str | None = None
    ) -> tuple[DeviceArray, int]:
        """Reserve a matrix whose rows start at multiples of `PITCH_BYTES`, as ``cudaMallocPitch`` does.

        Returns the array, of shape (rows, pitch in elements), and the pitch in bytes. Elements from `columns` on pad
        the row. Where the size of an element does not divide 512 bytes, the pitch is the next multiple of both.

        Examples
        --------
        >>> import gpusim_des as gs
        >>> image, pitch = gs.Device("tiny").malloc_pitch(480, 641, np.float32)
        >>> image.shape, pitch
        ((480, 768), 3072)
        """
        self._host_only("malloc_pitch")
        height, width = sizes_of((rows, columns))
        itemsize = element_type(dtype).itemsize
        unit = math.lcm(PITCH_BYTES, itemsize)
        pitch = cdiv(width * itemsize, unit) * unit
        return self._memory.allocate((height, pitch // itemsize), dtype, name), pitch

    def free(self, array: DeviceArray) -> None:
        """Give an array's memory back; refuses an array that was freed before or is another device's.

        As ``cudaFree`` it lets the host wait for all streams first.
        """
        self._host_only("free")
        self._check_type(array)
        self._host.refuse_in_capture("dev.free")
        self._memory.free(array)
        self._host.free(array, caller().line)

    def leaks(self) -> list[DeviceArray]:
        """Arrays that were not freed, oldest first; their ``name`` and ``nbytes`` say what to look for.

        Examples
        --------
        >>> import gpusim_des as gs
        >>> dev = gs.Device("tiny")
        >>> a, b = dev.malloc(100, np.float32, "a"), dev.malloc(5, np.int8, "b")
        >>> dev.free(a)
        >>> [(array.name, array.nbytes) for array in dev.leaks()]
        [('b', 5)]
        """
        return self._memory.live

    @property
    def used_bytes(self) -> int:
        """Device memory that the live arrays asked for; what alignment adds is not counted."""
        return self._memory.used_bytes

    @property
    def peak_bytes(self) -> int:
        """Largest `used_bytes` so far."""
        return self._memory.peak_bytes

    @property
    def free_bytes(self) -> int:
        """Device memory not reserved; it may lie in several holes, and arrays reserve multiples of 256 bytes."""
        return self._memory.free_bytes

    # Copies ---------------------------------------------------------------------------------------------------------

    def to_device(self, data: ArrayLike, name: str | None = None) -> DeviceArray:
        """Copy a host array to a new device array of the same shape and type; strided arrays are welcome."""
        self._host_only("to_device")
        if isinstance(data, DeviceArray):
            raise DeviceMemoryError(
                f"array {data.name!r} is in device memory already: pass it to the kernel, or copy it with "
                "dev.memcpy(new, array)"
            )
        host = np.asarray(data)
        if host.size == 0:
            raise DeviceMemoryError(f"array of shape {host.shape}: there is nothing to copy")
        self._host.refuse_in_capture("dev.to_device")
        array = self._memory.allocate(host.shape or (1,), host.dtype, name, contents=host)
        self._host.issue(self._host.default_stream, uploaded(self._memory, array, host, site=caller()))
        return array

    def to_host(self, array: DeviceArray) -> NDArray[Any]:
        """Copy a device array back; returns a new host array of the same shape and type."""
        self._host_only("to_host")
        self._check(array)
        self._host.refuse_in_capture("dev.to_host")
        host = np.empty(array.shape, array.dtype)
        work = copy_work(self._memory, host, array, None, "d2h", site=caller(), blocking=True)
        self._host.issue(self._host.default_stream, work)
        return host

    def memcpy(
        self,
        dst: DeviceArray | NDArray[Any],
        src: DeviceArray | NDArray[Any],
        nbytes: SupportsIndex | None = None,
        kind: CopyKind | None = None,
    ) -> None:
        """Copy bytes from the start of `src` to the start of `dst`, as ``cudaMemcpy`` does, in the default stream.

        The host waits until it is done, except for copies within device memory.

        Parameters
        ----------
        dst, src
            Device arrays, or host arrays that are row-major and contiguous; both of the same type, of any shape. At
            least one is on this device; copies between two devices count as peer to peer.
        nbytes
            A multiple of the size of an element; all of both arrays where not given.
        kind
            ``"h2d"``, ``"d2h"`` or ``"d2d"``; found out from `dst` and `src` where not given.
        """
        self._host_only("memcpy")
        self._host.refuse_in_capture("dev.memcpy", f"{WAITS}; dev.memcpy_async(dst, src, stream) does not")
        work = copy_work(self._memory, dst, src, nbytes, kind, site=caller(), blocking=True)
        self._host.issue(self._host.default_stream, work)

    def memset(self, array: DeviceArray, value: SupportsIndex, nbytes: SupportsIndex | None = None) -> None:
        """Set the first `nbytes` bytes, or all, to the byte `value`, as ``cudaMemset`` does, in the default stream.

        `value` is a byte, 0…255 or -128…-1, not an element: ``memset(a, 1)`` makes an ``int32`` 16,843,009. Useful
        are 0, and -1 for the integer -1.
        """
        self._host_only("memset")
        self._check(array)
        self._host.issue(self._host.default_stream, memset_work(self._memory, array, value, nbytes, site=caller()))

    def copy_report(self) -> CopyReport:
        """Copies so far, those of `to_device` and `to_host` too, by direction; `memset` copies nothing."""
        return self._host.copy_report

    # Checks ---------------------------------------------------------------------------------------------------------

    @property
    def _running(self) -> str | None:
        """Name of the kernel that runs now; arrays know it too, for their messages."""
        return self._memory.running

    @_running.setter
    def _running(self, kernel: str | None) -> None:
        self._memory.running = kernel

    def _host_only(self, call: str) -> None:
        self._host.only(f"dev.{call}")

    @staticmethod
    def _check_type(array: object) -> None:
        if not isinstance(array, DeviceArray):
            raise DeviceMemoryError(
                f"{type(array).__name__} is no device array: make one with dev.to_device(data) or dev.malloc(shape)"
            )

    def _check(self, array: DeviceArray) -> None:
        self._check_type(array)
        self._memory.check(array)

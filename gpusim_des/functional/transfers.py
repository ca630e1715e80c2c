"""Copies between host and devices: which are allowed, and how many there were."""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace
from typing import Any, Literal, SupportsIndex, get_args

import numpy as np
from numpy.typing import NDArray

from gpusim_des.errors import DeviceMemoryError
from gpusim_des.functional.allocator import DeviceMemory
from gpusim_des.functional.memory import DeviceArray

Array = DeviceArray | NDArray[Any]

CopyKind = Literal["h2d", "d2h", "d2d"]
"""What `memcpy` copies: host to device, device to host, device to device."""

Direction = Literal["h2d", "d2h", "d2d", "p2p"]
"""How a copy is accounted: ``p2p`` ("peer to peer") is device to device, from one device to another one."""


@dataclass(frozen=True)
class CopyReport:
    """Copies since the device was made: how many, and their bytes, by direction.

    Examples
    --------
    >>> print(CopyReport(h2d_copies=2, h2d_bytes=4_096, d2h_copies=1, d2h_bytes=0))
    host to device           2 copies           4,096 bytes
    device to host           1 copies               0 bytes
    device to device         0 copies               0 bytes
    peer to peer             0 copies               0 bytes
    """

    h2d_copies: int = 0
    h2d_bytes: int = 0
    d2h_copies: int = 0
    d2h_bytes: int = 0
    d2d_copies: int = 0
    d2d_bytes: int = 0
    p2p_copies: int = 0
    p2p_bytes: int = 0

    @property
    def copies(self) -> int:
        """Copies in all directions."""
        return self.h2d_copies + self.d2h_copies + self.d2d_copies + self.p2p_copies

    @property
    def nbytes(self) -> int:
        """Bytes copied in all directions."""
        return self.h2d_bytes + self.d2h_bytes + self.d2d_bytes + self.p2p_bytes

    def plus(self, direction: Direction, nbytes: int) -> CopyReport:
        """Return the report with one more copy in it."""
        copies, total = f"{direction}_copies", f"{direction}_bytes"
        more: dict[str, Any] = {copies: getattr(self, copies) + 1, total: getattr(self, total) + nbytes}
        return replace(self, **more)

    def __str__(self) -> str:
        rows = (
            ("host to device", self.h2d_copies, self.h2d_bytes),
            ("device to host", self.d2h_copies, self.d2h_bytes),
            ("device to device", self.d2d_copies, self.d2d_bytes),
            ("peer to peer", self.p2p_copies, self.p2p_bytes),
        )
        return "\n".join(f"{what:<18}{copies:>8,} copies{nbytes:>16,} bytes" for what, copies, nbytes in rows)


def direction_of(dst: object, src: object, kind: CopyKind | None, memory: DeviceMemory) -> Direction:
    """Direction of a copy by the device with this `memory`; raises `DeviceMemoryError` if it is not to be.

    At least one side is in `memory`, and `kind` agrees with the sides where it is given.
    """
    for side, array in (("dst", dst), ("src", src)):
        if not isinstance(array, DeviceArray | np.ndarray):
            raise DeviceMemoryError(
                f"memcpy {side} is a {type(array).__name__}: give a device array or a NumPy array, for example "
                "np.asarray(data, dtype=np.float32)"
            )
    if kind is not None and kind not in get_args(CopyKind):
        raise DeviceMemoryError(f"memcpy kind = {kind!r}: possible are 'h2d', 'd2h' and 'd2d'; or leave it out")
    devices = [array for array in (dst, src) if isinstance(array, DeviceArray)]
    if not devices:
        raise DeviceMemoryError("memcpy from host to host: dst and src are NumPy arrays; use np.copyto(dst, src)")
    found: CopyKind = "d2d" if len(devices) == 2 else "h2d" if devices[0] is dst else "d2h"
    if kind not in (None, found):
        raise DeviceMemoryError(
            f"memcpy kind = {kind!r}, but dst is {_place(dst)} and src {_place(src)}, which is {found!r}: "
            "the order is memcpy(dst, src)"
        )
    ours = [memory.owns(array) for array in devices]
    if not any(ours):
        memory.check(devices[0])
    return found if all(ours) else "p2p"


def byte_count(dst: Array, src: Array, nbytes: SupportsIndex | None) -> int:
    """Bytes that a copy moves; raises `DeviceMemoryError` if types or sizes forbid it."""
    if dst.dtype != src.dtype:
        raise DeviceMemoryError(
            f"memcpy from {src.dtype} to {dst.dtype}: bytes are copied as they are, so both sides have one type; "
            "convert on the host first, for example src.astype(dst.dtype)"
        )
    if nbytes is None:
        if dst.nbytes != src.nbytes:
            raise DeviceMemoryError(
                f"memcpy from {src.nbytes:,} to {dst.nbytes:,} bytes: without nbytes both sides have one size; "
                f"to copy a part, give nbytes, at most {min(dst.nbytes, src.nbytes):,}"
            )
        return int(dst.nbytes)
    count, itemsize = whole("memcpy nbytes", nbytes), dst.dtype.itemsize
    if count < 0 or count % itemsize:
        raise DeviceMemoryError(
            f"memcpy nbytes = {count:,}: must be a multiple of the {itemsize} bytes of an element ({dst.dtype}), at "
            "least 0; use elements * array.dtype.itemsize"
        )
    for side, array in (("dst", dst), ("src", src)):
        if count > array.nbytes:
            raise DeviceMemoryError(
                f"memcpy nbytes = {count:,}: {side}, {_place(array)}, has {array.nbytes:,} bytes; copy at most that, "
                "or make it larger"
            )
    return count


def bytes_of(array: Array, side: str) -> NDArray[np.uint8]:
    """Bytes of one side of a copy, to read or to write; raises `DeviceMemoryError` where they are scattered."""
    if isinstance(array, DeviceArray):
        return array.flat.view(np.uint8)
    if not array.flags.c_contiguous:
        remedy = "copy into a new array and assign that" if side == "dst" else "copy np.ascontiguousarray(src)"
        raise DeviceMemoryError(
            f"memcpy {side} is a host array of shape {array.shape} with strides {array.strides}: memcpy needs "
            f"row-major elements one after the other; {remedy}"
        )
    if side == "dst" and not array.flags.writeable:
        raise DeviceMemoryError("memcpy dst is a host array that is read-only: copy into one that is not, dst.copy()")
    return np.asarray(array).reshape(-1).view(np.uint8)


def whole(what: str, value: object) -> int:
    """Return `value` as an integer; raises `DeviceMemoryError` for anything else."""
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise DeviceMemoryError(
            f"{what} = {value!r} is a {type(value).__name__}: must be a whole number; use int(…) if it is one"
        ) from None


def _place(array: object) -> str:
    return f"device array {array.name!r}" if isinstance(array, DeviceArray) else "a host array"

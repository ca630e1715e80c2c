"""Device arrays under the names of ``numba.cuda``: made, copied, sliced and reshaped by the host."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpusim_des.cuda.current import device
from gpusim_des.cuda.streams import inner_of
from gpusim_des.errors import DeviceMemoryError
from gpusim_des.functional.array_view import ArrayView, row_major, sliced
from gpusim_des.functional.element_types import element_type
from gpusim_des.functional.memory import DeviceArray


class DeviceNDArray(ArrayView):
    """An array in device memory, or a view of one.

    Slices are views, as in NumPy; a kernel takes any of them, a copy only those whose elements lie side by side.
    """

    __slots__ = ()

    base: DeviceArray
    start: int

    def __repr__(self) -> str:
        return f"<DeviceNDArray shape={self.shape} dtype={self.dtype} of {self.base!r}>"

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.size * self.dtype.itemsize

    @property
    def alloc_size(self) -> int:
        """Size in bytes of the memory that it is a view of."""
        return self.base.nbytes

    def is_c_contiguous(self) -> bool:
        """Tell whether elements lie side by side, the last index running fastest."""
        return self.is_row_major

    def is_f_contiguous(self) -> bool:
        """Tell whether elements lie side by side, the first index running fastest."""
        return self.steps[::-1] == row_major(self.shape[::-1])

    # Copies ---------------------------------------------------------------------------------------------------------

    def _memory(self) -> DeviceArray:
        """Return its elements as one piece of device memory."""
        if not (self.is_c_contiguous() or self.is_f_contiguous()):
            raise DeviceMemoryError(
                f"copy of a view of array {self.base.name!r} of shape {self.shape} and strides {self.strides}: its "
                "elements do not lie side by side; copy the whole array and slice it on the host"
            )
        return self.base if self.size == self.base.size else self.base.part(self.start, self.size)

    @property
    def _order(self) -> Any:
        return "C" if self.is_c_contiguous() else "F"

    def copy_to_host(self, ary: NDArray[Any] | None = None, stream: Any = 0) -> NDArray[Any]:
        """Copy to a new host array, or to `ary`; with a stream the host does not wait if `ary` is pinned.

        Raises
        ------
        DeviceMemoryError
            For a view whose elements do not lie side by side, or an array of another shape or type.
        """
        memory, dev, into = self._memory(), device(), inner_of(stream)
        host = np.empty(self.shape, self.dtype, order=self._order) if ary is None else ary
        self._check(host, "copy_to_host to")
        flat = host.ravel(order=self._order)
        if into is None:
            dev.memcpy(flat, memory)
        else:
            dev.memcpy_async(flat, memory, into)
        if not np.shares_memory(flat, host):
            host[...] = flat.reshape(host.shape, order=self._order)
        return host

    def copy_to_device(self, ary: Any, stream: Any = 0) -> None:
        """Copy a host array, or another device array, into this one; raises as `copy_to_host`."""
        dev, into = device(), inner_of(stream)
        memory = self._memory()
        source: Any
        if isinstance(ary, DeviceNDArray):
            self._check(ary, "copy_to_device of")
            source = ary._memory()
        else:
            host = np.asarray(ary)
            self._check(host, "copy_to_device of")
            source = host.ravel(order=self._order)
        if into is None:
            dev.memcpy(memory, source)
        else:
            dev.memcpy_async(memory, source, into)

    def _check(self, other: Any, what: str) -> None:
        if not isinstance(other, np.ndarray | DeviceNDArray) or other.shape != self.shape or other.dtype != self.dtype:
            about = f"shape {other.shape} and type {other.dtype}" if hasattr(other, "dtype") else type(other).__name__
            raise DeviceMemoryError(
                f"{what} an array of {about}: this one has shape {self.shape} and type {self.dtype}, and both "
                "must agree"
            )

    # Views ----------------------------------------------------------------------------------------------------------

    def __getitem__(self, index: Any) -> Any:  # type: ignore[override]  # the host may
        """Return a view for slices, an element as a number (a copy of its own) for one index per dimension."""
        found = self._view(index)
        return found.copy_to_host()[()] if not found.shape else found

    def __setitem__(self, index: Any, value: Any) -> None:  # type: ignore[override]  # the host may
        """Copy numbers to elements that lie side by side."""
        into = self._view(index)
        into.copy_to_device(np.broadcast_to(np.asarray(_host(value), self.dtype), into.shape))

    def _view(self, index: Any) -> DeviceNDArray:
        parts = list(index if isinstance(index, tuple) else (index,))
        if Ellipsis in parts:
            at = parts.index(Ellipsis)
            parts[at : at + 1] = [slice(None)] * (self.ndim - len(parts) + 1)
        if len(parts) > self.ndim:
            raise DeviceMemoryError(
                f"{len(parts)} indices for an array of shape {self.shape}: give at most {self.ndim}"
            )
        start, shape, steps = self.start, [], []
        for size, step, part in zip(self.shape, self.steps, parts + [slice(None)] * self.ndim, strict=False):
            if isinstance(part, slice):
                first, length, stride = sliced(size, part)
                shape.append(length)
                steps.append(step * stride)
            elif isinstance(part, int | np.integer) and not isinstance(part, bool) and -size <= part < size:
                first = int(part) % size
            else:
                raise DeviceMemoryError(
                    f"index {part!r} of an array of shape {self.shape}: give whole numbers within it, and slices"
                )
            start += first * step
        return DeviceNDArray(self.base, start, tuple(shape), tuple(steps))

    @property
    def T(self) -> DeviceNDArray:  # noqa: N802 - NumPy's name
        """The array with its dimensions in reverse order; nothing is copied."""
        return DeviceNDArray(self.base, self.start, self.shape[::-1], self.steps[::-1])

    def transpose(self) -> DeviceNDArray:
        """Return `T`."""
        return self.T

    def reshape(self, *shape: Any) -> DeviceNDArray:
        """Return a row-major array in another shape; nothing is copied."""
        sizes = list(shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape)
        if sizes.count(-1) == 1:
            known = math.prod(n for n in sizes if n != -1)
            sizes[sizes.index(-1)] = self.size // known if known else 0
        if math.prod(sizes) != self.size or min(sizes, default=1) < 0 or not self.is_row_major:
            raise DeviceMemoryError(
                f"reshape to {shape} of an array of shape {self.shape}: the number of elements stays {self.size:,}, "
                "and they must lie side by side in row-major order"
            )
        return DeviceNDArray(self.base, self.start, tuple(sizes), row_major(tuple(sizes)))

    def ravel(self) -> DeviceNDArray:
        """Return a row-major array in one dimension; nothing is copied."""
        return self.reshape(-1)


def _host(value: Any) -> Any:
    return value.copy_to_host() if isinstance(value, DeviceNDArray) else value


def _of(base: DeviceArray, shape: tuple[int, ...], order: str) -> DeviceNDArray:
    steps = row_major(shape) if order == "C" else row_major(shape[::-1])[::-1]
    return DeviceNDArray(base, 0, shape, steps)


def is_cuda_array(obj: Any) -> bool:
    """Tell whether this is a device array."""
    return isinstance(obj, DeviceNDArray)


def to_device(obj: ArrayLike, stream: Any = 0, copy: bool = True, to: DeviceNDArray | None = None) -> DeviceNDArray:
    """Copy a host array to a new device array, or to an old one.

    Parameters
    ----------
    obj
        Any array; one in column-major order keeps it, other layouts become row-major.
    stream
        The stream of the copy; the host waits unless `obj` is pinned.
    copy
        Always done.
    to
        Where to copy to.

    Raises
    ------
    DeviceMemoryError
        For an empty array, or elements that device memory cannot hold.
    """
    if isinstance(obj, DeviceNDArray):
        return obj
    host = np.asarray(obj)
    if not copy:
        raise DeviceMemoryError("to_device(copy=False): make a device array and do not copy, cuda.device_array_like(a)")
    if to is not None:
        to.copy_to_device(host, stream)
        return to
    into, dev = inner_of(stream), device()
    order: Any = "F" if host.flags.f_contiguous and not host.flags.c_contiguous else "C"
    if into is None:
        flat = host if order == "C" else host.ravel(order="F")
        return _of(dev.to_device(flat), host.shape or (1,), order)
    made = _of(dev.malloc(host.shape if order == "C" else host.size, host.dtype), host.shape, order)
    made.copy_to_device(host, stream)
    return made


def device_array(
    shape: int | Sequence[int], dtype: Any = np.float64, strides: Any = None, order: str = "C", stream: Any = 0
) -> DeviceNDArray:
    """Reserve an array in device memory; it holds poison until somebody writes it.

    Raises
    ------
    DeviceMemoryError
        For strides of its own, an unknown order, or a shape or type that device memory cannot hold.
    """
    if strides is not None:
        raise DeviceMemoryError(f"device_array strides = {strides!r}: leave them out; order='F' is column-major")
    if order not in {"C", "F"}:
        raise DeviceMemoryError(f"device_array order = {order!r}: possible are 'C' and 'F'")
    inner_of(stream)
    sizes = tuple(shape) if isinstance(shape, Sequence) else (shape,)
    kind = element_type(dtype)
    base = device().malloc(sizes if order == "C" else math.prod(sizes), kind)
    return _of(base, sizes, order)


def device_array_like(ary: Any, stream: Any = 0) -> DeviceNDArray:
    """Reserve an array with the shape, type and order of another one, on the host or on the device."""
    column_major = (
        ary.is_f_contiguous() and not ary.is_c_contiguous()
        if isinstance(ary, DeviceNDArray)
        else ary.flags.f_contiguous and not ary.flags.c_contiguous
    )
    return device_array(ary.shape, ary.dtype, order="F" if column_major else "C", stream=stream)


def pinned_array(shape: Any, dtype: Any = np.float64, strides: Any = None, order: str = "C") -> NDArray[Any]:
    """Make a host array of zeros in page-locked memory, which the device copies by itself.

    Raises
    ------
    DeviceMemoryError
        For strides of its own, or an unknown order.
    """
    if strides is not None or order != "C":
        raise DeviceMemoryError(
            f"pinned_array strides = {strides!r}, order = {order!r}: pinned arrays are row-major, leave both out"
        )
    return device().pinned(shape, element_type(dtype))


def pinned_array_like(ary: Any) -> NDArray[Any]:
    """Make a pinned host array with the shape and type of another one."""
    return pinned_array(ary.shape, ary.dtype)

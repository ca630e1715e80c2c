"""Arguments of a launch: NumPy arrays are copied to the device before it, and back after it, as Numba does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpusim_des.cuda.arrays import DeviceNDArray, to_device
from gpusim_des.cuda.streams import Stream
from gpusim_des.device import Device
from gpusim_des.errors import DeviceMemoryError
from gpusim_des.functional.memory import DeviceArray
from gpusim_des.launch import refuse_views_of_one_array


class _Wrapped:
    """An argument with the directions in which it is copied."""

    copies_in = True
    copies_back = True

    def __init__(self, value: NDArray[Any]) -> None:
        if not isinstance(value, np.ndarray):
            raise DeviceMemoryError(f"cuda.{type(self).__name__} of a {type(value).__name__}: give a NumPy array")
        self.value = value


class In(_Wrapped):
    """A host array that is copied to the device, and not back."""

    copies_back = False


class Out(_Wrapped):
    """A host array that is copied back only; the kernel finds poison in it."""

    copies_in = False


class InOut(_Wrapped):
    """A host array that is copied to the device and back, as a plain one."""


@contextmanager
def pass_arguments(dev: Device, names: Sequence[str], values: Sequence[Any], stream: Any) -> Iterator[list[Any]]:
    """Copy host arrays to the device, give what the kernel gets, and copy them back at the end.

    An array that is given twice is one array on the device, too. Nothing is copied back if the launch fails.

    Raises
    ------
    DeviceMemoryError
        For views of one array, arrays that are read-only and copied back, and things that no kernel can get.
    """
    wrapped = {n: v if isinstance(v, _Wrapped) else InOut(v) for n, v in enumerate(values) if _is_host(v)}
    hosts = {id(w.value): (names[n] if n < len(names) else f"#{n + 1}", w.value) for n, w in wrapped.items()}
    refuse_views_of_one_array(list(hosts.values()))
    back = {id(w.value) for w in wrapped.values() if w.copies_back}
    for key, (name, host) in hosts.items():
        if key in back and not host.flags.writeable:
            raise DeviceMemoryError(
                f"argument {name!r} is a read-only array, and would be copied back: pass cuda.In({name}), or a device "
                f"array, cuda.to_device({name})"
            )
    queue = 0 if stream is None else Stream(stream)
    into = {id(w.value) for w in wrapped.values() if w.copies_in}
    copies = {key: _copy(dev, host, queue, copies_in=key in into) for key, (_, host) in hosts.items()}
    try:
        yield [copies[id(wrapped[n].value)] if n in wrapped else _plain(value) for n, value in enumerate(values)]
        for key, (_, host) in hosts.items():
            if key in back:
                copies[key].copy_to_host(host, queue)
    finally:
        for copy in copies.values():
            dev.free(copy.base)


def _copy(dev: Device, host: NDArray[Any], queue: Any, *, copies_in: bool) -> DeviceNDArray:
    if copies_in:
        return to_device(host, queue)
    base = dev.malloc(host.shape, host.dtype)
    return DeviceNDArray(base, 0, host.shape, tuple(s // host.itemsize for s in np.empty_like(host, order="C").strides))


def _is_host(value: Any) -> bool:
    return isinstance(value, _Wrapped) or (isinstance(value, np.ndarray) and value.ndim > 0)


def _plain(value: Any) -> Any:
    """Return an argument that stays what it is; arrays without dimensions are numbers."""
    if isinstance(value, np.ndarray):
        return value[()]
    numbers = value if isinstance(value, tuple) else (value,)
    known = (bool, int, float, complex, np.generic, DeviceArray, DeviceNDArray)
    if value is None or all(isinstance(x, known) for x in numbers):
        return value
    raise DeviceMemoryError(
        f"argument {value!r} of type {type(value).__name__}: kernels get numbers, tuples of numbers, NumPy arrays and "
        "device arrays; convert a list with np.array"
    )

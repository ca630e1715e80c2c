"""Arguments of a launch: NumPy arrays are copied to the device before it, and back after it, as Numba does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpusim_des.cuda.arrays import DeviceNDArray, to_device
from gpusim_des.cuda.streams import Stream
from gpusim_des.device import Device
from gpusim_des.errors import DeviceMemoryError
from gpusim_des.functional.memory import DeviceArray
from gpusim_des.launch_on_arrays import refuse_views_of_one_array


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


class PassedArguments:
    """Host arrays on the device during a ``with`` block, at whose end they are copied back.

    An array that is given twice is one array on the device, too. Nothing is copied back if the launch fails. (A class,
    and no generator: calls of the device belong to the innermost line that is the user's, and the standard library's
    lines would look like it.)

    Raises
    ------
    DeviceMemoryError
        For views of one array, arrays that are read-only and copied back, and things that no kernel can get.
    """

    def __init__(self, dev: Device, names: Sequence[str], values: Sequence[Any], stream: Any) -> None:
        self._dev = dev
        self._values = values
        self._stream = 0 if stream is None else Stream(stream)
        self._wrapped = {n: v if isinstance(v, _Wrapped) else InOut(v) for n, v in enumerate(values) if _is_host(v)}
        self._hosts = {id(w.value): w.value for w in self._wrapped.values()}
        named = {id(w.value): names[n] if n < len(names) else f"#{n + 1}" for n, w in self._wrapped.items()}
        refuse_views_of_one_array([(named[key], host) for key, host in self._hosts.items()])
        self._back = {id(w.value) for w in self._wrapped.values() if w.copies_back}
        for key in self._back:
            if not self._hosts[key].flags.writeable:
                name = named[key]
                raise DeviceMemoryError(
                    f"argument {name!r} is a read-only array, and would be copied back: pass cuda.In({name}), or a "
                    f"device array, cuda.to_device({name})"
                )
        self._others = {n: _plain(value) for n, value in enumerate(values) if n not in self._wrapped}
        self._copies: dict[int, DeviceNDArray] = {}

    def __enter__(self) -> list[Any]:
        into = {id(w.value) for w in self._wrapped.values() if w.copies_in}
        try:
            for key, host in self._hosts.items():
                self._copies[key] = _copy(self._dev, host, self._stream, copies_in=key in into)
        except BaseException:
            self._free()
            raise
        return [
            self._copies[id(self._wrapped[n].value)] if n in self._wrapped else self._others[n]
            for n in range(len(self._values))
        ]

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            for key in self._hosts if kind is None else ():
                if key in self._back:
                    self._copies[key].copy_to_host(self._hosts[key], self._stream)
        finally:
            self._free()

    def _free(self) -> None:
        for copy in self._copies.values():
            self._dev.free(copy.base)


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

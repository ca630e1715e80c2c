"""Shared arrays by name: all threads of a block that give the same name get the same array."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpusim_des.errors import KernelError
from gpusim_des.functional.machine import Machine
from gpusim_des.functional.memory import SharedArray
from gpusim_des.functional.source import Site


class SharedNames:
    """The shared arrays of the blocks in flight."""

    def __init__(self) -> None:
        self._arrays: dict[str, SharedArray] = {}

    def declare(
        self, machine: Machine, name: str, shape: Any, dtype: Any, site: Site, *, dynamic: bool = False
    ) -> SharedArray:
        """Return the array of this name, made at the first call; raises `KernelError` if two declarations differ."""
        sizes = tuple(int(n) for n in (shape if isinstance(shape, tuple | list) else (shape,)))
        if not isinstance(name, str) or min(sizes) < 1:
            raise KernelError(
                f"{machine.kernel_name}: t.shared({name!r}, {shape!r}, …) in {site}: give a name in quotes, and "
                "sizes of at least 1"
            )
        kind = np.dtype(dtype)
        array = self._arrays.get(name)
        if array is None:
            array = self._arrays[name] = machine.shared(name, sizes, kind, dynamic=dynamic)
        elif (array.shape, array.dtype) != (sizes, kind):
            raise KernelError(
                f"{machine.kernel_name}: shared array {name!r} in {site} is declared as {sizes} {kind}, but was "
                f"declared as {array.shape} {array.dtype}: one name is one array"
            )
        return array

"""Shared arrays by name: all threads of a block that give the same name get the same array."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpusim_des.errors import KernelError
from gpusim_des.functional.machine import Machine
from gpusim_des.functional.memory import SharedArray
from gpusim_des.functional.private_arrays import Shaped
from gpusim_des.functional.source import Site


class SharedNames:
    """The shared arrays of the blocks in flight."""

    def __init__(self) -> None:
        self._arrays: dict[str, SharedArray] = {}
        self._places: dict[Site, SharedArray] = {}

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

    def declare_at(self, machine: Machine, declared: Shaped, site: Site) -> SharedArray:
        """Return the array that is declared at this place, made at the first call; of shape 0, the dynamic part."""
        array = self._places.get(site)
        if array is None:
            shape, dtype, label = declared
            taken = any(other.name == label for other in self._places.values())
            name = f"{label}@{site.line}" if taken else label
            if shape == (0,):
                array = machine.shared_memory.window(name, dtype, len(machine.blocks))
            else:
                array = machine.shared(name, shape, dtype)
            self._places[site] = array
        elif (array.shape, array.dtype) != (declared.shape, declared.dtype) and declared.shape != (0,):
            raise KernelError(
                f"{machine.kernel_name}: shared array {array.name!r} in {site} is declared as {declared.shape} "
                f"{declared.dtype}, but was declared as {array.shape} {array.dtype}: its shape is a constant"
            )
        return array

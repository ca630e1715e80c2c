"""What a sampled launch left out of the arrays that its kernel writes: poison, until somebody writes it.

Which elements the blocks that were not executed would have written, nobody knows. So all elements of an array that the
kernel wrote count as left out, except those that executed blocks stored; and all of an array on which it did atomic
operations, because every operation that is missing may have changed any of them. Arrays that no executed block wrote
count as left out, too, if the kernel's source has a statement that writes them, or if nobody can tell and no executed
block looked at them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpusim_des.functional.argument_roles import Role
from gpusim_des.functional.array_use import ArrayUses
from gpusim_des.functional.array_view import base_of
from gpusim_des.functional.machine import Machine
from gpusim_des.functional.memory import DeviceArray
from gpusim_des.functional.poison import poison_of

Elements = NDArray[np.bool_]


class Reached(NamedTuple):
    """What a launch did to one array, or to parts of it."""

    array: DeviceArray
    """The whole array."""
    stored: Elements
    parts: dict[tuple[int, int], bool]
    """Elements that the kernel was given, from one number to before another; true if it did atomic operations there."""


class LeftOut:
    """Follows the writes of a launch, chunk by chunk.

    Attributes
    ----------
    read
        Arrays in which the kernel read where something was left out before, perhaps not these elements themselves.
    """

    def __init__(self) -> None:
        self.read: dict[int, DeviceArray] = {}
        self._reached: dict[int, Reached] = {}

    def note(self, machine: Machine) -> None:
        """Take note of what a chunk read and wrote."""
        for use in machine.uses:
            missing = use.array.missing
            if use.kind != "write" and missing is not None:
                size, begin = use.array.dtype.itemsize, use.array.address
                if missing[(use.low - begin) // size : -(-(use.end - begin) // size)].any():
                    self.read[id(use.array)] = use.array
        for written in machine.uses.writes or ():
            size = written.array.dtype.itemsize
            whole, stored, _ = self._reach(written.array, atomic=written.kind == "atomic")
            if written.kind == "write":
                first = (written.first - whole.address) // size
                stored[first[:, None] + np.arange(max(1, written.width // size))] = True

    def unreached(self, arguments: dict[str, Any], roles: dict[str, Role], uses: ArrayUses) -> None:
        """Hear of a kernel's arguments and of what its source does with them, after a sampled launch."""
        used = {id(use.array) for use in uses}
        for name, value in arguments.items():
            array = base_of(value)
            if not isinstance(array, DeviceArray):
                continue
            role = roles.get(name, Role.UNCLEAR)
            if role is Role.READ or (role is Role.UNCLEAR and id(array.owner) in used):
                continue
            self._reach(array, atomic=False)

    def _reach(self, array: DeviceArray, *, atomic: bool) -> Reached:
        whole, size = array.owner, array.dtype.itemsize
        if id(whole) not in self._reached:
            self._reached[id(whole)] = Reached(whole, np.zeros(whole.size, bool), {})
        reached = self._reached[id(whole)]
        begin = (array.address - whole.address) // size
        part = begin, begin + array.size
        reached.parts[part] = reached.parts.get(part, False) or atomic
        return reached

    def fill(self) -> None:
        """Note that everything which was stored is known, after a launch of which all blocks were executed."""
        for array, stored, _ in self._reached.values():
            if array.missing is not None:
                array.missing = array.missing & ~stored
                _forget_if_complete(array)

    def poison(self) -> list[DeviceArray]:
        """Poison what was left out, after a sampled launch; returns the arrays."""
        incomplete = []
        for array, stored, parts in self._reached.values():
            missing = np.zeros(array.size, bool)
            for (begin, end), updated in parts.items():
                missing[begin:end] |= updated | ~stored[begin:end]
            if missing.any():
                incomplete.append(array)
                array.flat[missing] = poison_of(array.dtype)
            array.missing = missing if array.missing is None else missing | (array.missing & ~stored)
            _forget_if_complete(array)
        return incomplete


def copied(dst: DeviceArray, src: DeviceArray | None, count: int) -> None:
    """Note that `count` elements at the start of an array were overwritten: by those of `src`, or by known values."""
    fresh = None if src is None else src.unwritten
    dst.note_written(slice(0, count), fresh[:count] if isinstance(fresh, np.ndarray) else fresh is True)
    dst.settle_written()
    known = None if src is None else src.missing
    if known is not None and dst.missing is None:
        dst.owner.missing = np.zeros(dst.owner.size, bool)
    if dst.missing is not None:
        dst.missing[:count] = False if known is None else known[:count]
        _forget_if_complete(dst.owner)


def _forget_if_complete(array: DeviceArray) -> None:
    if array.missing is not None and not array.missing.any():
        array.missing = None


def is_missing(array: DeviceArray, count: int) -> bool:
    """Tell whether some of the first `count` elements were left out."""
    return array.missing is not None and bool(array.missing[:count].any())

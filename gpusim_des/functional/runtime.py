"""What rewritten kernels call: the part that masked execution and the interpreter share."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from gpusim_des.errors import BoundsError, KernelError
from gpusim_des.functional import arithmetic_rules as rules
from gpusim_des.functional import complaints, instructions, overflow
from gpusim_des.functional.arithmetic import Arithmetic
from gpusim_des.functional.memory import DeviceArray, SharedArray
from gpusim_des.functional.source import Site
from gpusim_des.functional.tracked import PLAIN, UNDEFINED, LocalList, Value
from gpusim_des.trace import OpClass

Array = DeviceArray | SharedArray


class Runtime(Arithmetic):
    """Memory and assignments; subclasses add control flow and the record of what happened."""

    # Memory ---------------------------------------------------------------------------------------------------------

    @abstractmethod
    def read(self, place: int, array: Array, flat: Any, producers: Any) -> Value:
        """Return the element at row-major position `flat` and record the access."""

    @abstractmethod
    def write(self, place: int, array: Array, flat: Any, value: Any, producers: Any) -> None:
        """Write an element and record the access."""

    @abstractmethod
    def check_bounds(self, place: int, verb: str, array: Array, size: int, index: Any, where: str) -> None:
        """Refuse an index outside 0…size - 1."""

    @abstractmethod
    def joint_producers(self, operands: tuple[Any, ...]) -> Any:
        """Producers of all operands together."""

    def locate(self, place: int, verb: str, array: Array, index: Any) -> tuple[Any, tuple[Any, ...]]:
        """Row-major position of ``array[index]`` and what it was computed from; counts the address arithmetic."""
        parts = index if isinstance(index, tuple) else (index,)
        shape = array.shape
        if len(parts) != len(shape):
            if len(parts) > 1:
                raise KernelError(
                    f"{self.kernel_name}: {len(parts)} indices in {self.sites[place]} for an array of shape {shape}: "
                    f"give {len(shape)}, or one flat index"
                )
            shape = (array.size,)
        flat: Any = 0
        wrapped = [over for p in parts if isinstance(p, Value) for over in overflow.only(p.overflow, self.mask)]
        for axis, (size, part) in enumerate(zip(shape, parts, strict=True)):
            dtype = self.operand_type(place, part)
            number = part.value if isinstance(part, Value) else part
            if (dtype or rules.constant_type(number)).kind not in "iub":
                raise KernelError(
                    f"{self.kernel_name}: {verb} {self.name_of(array)!r} in {self.sites[place]} has an index of type "
                    f"{dtype or type(number).__name__}: indices are whole numbers; convert with int(...)"
                )
            number = number.astype(np.int64) if isinstance(part, Value) else int(number)
            where = f" in dimension {axis}" if len(shape) > 1 else ""
            self._check_index(place, verb, array, size, number, where, wrapped)
            flat = flat * size + number
        tracked = tuple(p for p in parts if isinstance(p, Value))
        if not tracked:
            return flat, ()
        ops = (OpClass.INT,) * (len(shape) - 1) + (instructions.ADDRESS if isinstance(array, DeviceArray) else ())
        return flat, (Value(self, flat, self.emit(place, ops, tracked)),)

    def _check_index(
        self, place: int, verb: str, array: Array, size: int, number: Any, where: str, wrapped: list[overflow.Overflow]
    ) -> None:
        """Refuse an index outside of its array, and report one that wrapped."""
        told = [self.report_overflow(array, over, self.sites[place]) for over in wrapped]
        try:
            self.check_bounds(place, verb, array, size, number, where)
        except BoundsError as error:
            if not told:
                raise
            raise BoundsError(f"{error}; {told[0]}") from None

    @abstractmethod
    def report_overflow(self, array: Array, over: overflow.Overflow, site: Site) -> overflow.IndexOverflow:
        """Report an index that wrapped."""

    def name_of(self, array: Array) -> str:
        """Name of an array in messages: the kernel's parameter, or the name it was declared with."""
        return self.names.get(id(array), array.name)

    def get(self, place: int, array: Any, index: Any) -> Any:
        """``array[index]``."""
        if not isinstance(array, DeviceArray | SharedArray):
            return array[self.plain_index(place, array, index)]
        flat, operands = self.locate(
            place, "load of" if isinstance(array, DeviceArray) else "shared load of", array, index
        )
        return self.read(place, array, flat, self.joint_producers((*operands, *self.guards())))

    def set(self, place: int, array: Any, index: Any, value: Any) -> None:
        """``array[index] = value``."""
        if not isinstance(array, DeviceArray | SharedArray):
            if not isinstance(array, LocalList):
                raise complaints.writes_to_host(self.kernel_name, self.sites[place], array)
            where = self.plain_index(place, array, index)
            slot = self.types.joined(getattr(array, "slot", (*self.frame_key(), place)))
            if self.learning:
                self.types.note_stored(slot)
            array[where] = self._assigned(place, slot, array[where], value)
            return
        self.operand_type(place, value)
        stored = self.convert(place, value, array.dtype)
        flat, operands = self.locate(
            place, "store to" if isinstance(array, DeviceArray) else "shared store to", array, index
        )
        self.write(place, array, flat, stored, self.joint_producers((*operands, stored, *self.guards())))

    def guards(self) -> tuple[Any, ...]:
        """Values that an access depends on beside its operands; a thread that got here waits for no predicate."""
        return ()

    def plain_index(self, place: int, items: Any, index: Any) -> Any:
        """Index of a Python list or tuple: a number that is the same for all threads concerned."""
        self.here = place
        where = index.__index__() if isinstance(index, Value) else index
        if isinstance(items, list | tuple) and isinstance(where, int) and not -len(items) <= where < len(items):
            raise BoundsError(
                f"{self.kernel_name}: index {where} in {self.sites[place]} is outside 0…{len(items) - 1} of a local "
                f"{'tuple' if isinstance(items, tuple) else 'list'}"
            )
        return where

    def local(self, place: int, items: list[Any]) -> LocalList:
        """``[a, b, …]``: a local array; its numbers have one type if the kernel stores to it."""
        slot = self.types.joined((*self.frame_key(), "list", place))
        if self.learning:
            for item in items:
                self._learn(slot, item)
        if slot in self.types.stored:
            items = [self._typed(place, slot, x) if isinstance(x, (Value, *PLAIN)) else x for x in items]
        return LocalList(items, slot)

    # Assignments ----------------------------------------------------------------------------------------------------

    def as_int(self, place: int, value: Any) -> Value:
        """Return a loop counter's first value."""
        if isinstance(value, Value):
            return value if value.dtype.itemsize >= 4 else self.convert(place, value, rules.INT32)
        return self.constant(value, rules.constant_type(value))

    def side(self, place: int, name: int, value: Any) -> Any:
        """One side of a conditional expression."""
        return self.assign(place, f"side {name}", UNDEFINED, value)

    def let(self, place: int, name: str, old: Any, new: Any) -> Any:
        """Assign where a constant stays a constant."""
        return self.assign(place, name, old, new) if isinstance(new, Value | tuple) else new

    def assign(self, place: int, name: str, old: Any, new: Any) -> Any:
        """Assign a value to a variable: it takes the variable's type."""
        return self._assigned(place, (*self.frame_key(), name), old, new)

    def _assigned(self, place: int, slot: tuple[Any, ...], old: Any, new: Any) -> Any:
        if isinstance(new, tuple):
            before = old if isinstance(old, tuple) and len(old) == len(new) else (UNDEFINED,) * len(new)
            return tuple(
                self._assigned(place, (*slot, k), b, x) for k, (b, x) in enumerate(zip(before, new, strict=True))
            )
        if not isinstance(new, (Value, *PLAIN)):
            if self.learning and isinstance(old, LocalList) and isinstance(new, LocalList):
                self.types.join(old.slot, new.slot)
            return self.rebind(place, old, new)
        self.operand_type(place, new)
        if self.learning:
            self._learn(slot, new)
        return self.merge(old, self._typed(place, slot, new))

    def _learn(self, slot: tuple[Any, ...], new: Any) -> None:
        if isinstance(new, Value):
            self.types.learn(slot, new.dtype, constant=False)
        elif isinstance(new, PLAIN):
            self.types.learn(slot, rules.constant_type(new), constant=True)

    def _typed(self, place: int, slot: tuple[Any, ...], new: Any) -> Value:
        own = new.dtype if isinstance(new, Value) else rules.constant_type(new)
        target = self.types.known.get(slot, own)
        done: Value = self.convert(place, new, target) if isinstance(new, Value) else self.constant(new, target)
        return done

    def rebind(self, place: int, old: Any, new: Any) -> Any:  # noqa: ARG002 - masked execution looks at them
        """Assign an array, a list or a function."""
        return new

"""Elements of arrays in thread-style kernels, what both ways of running share: where they lie, reading, writing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from gpusim_des.errors import BoundsError, KernelError
from gpusim_des.functional import complaints, instructions, overflow, view_rules
from gpusim_des.functional.array_view import ArrayView
from gpusim_des.functional.memory import DeviceArray, SharedArray
from gpusim_des.functional.private_arrays import ConstantArray, Constants, LocalArray
from gpusim_des.functional.source import Site
from gpusim_des.functional.tracked import PLAIN, LocalList, Value
from gpusim_des.functional.type_rules import TypeRules
from gpusim_des.functional.variable_types import Types
from gpusim_des.trace import OpClass

Array = DeviceArray | SharedArray


class ThreadMemory(ABC):
    """The part of a runtime that reads and writes elements."""

    kernel_name: str
    names: dict[int, str]
    types: Types
    rules: TypeRules
    learning: bool
    here: int
    sites: list[Site]
    constant_arrays: Constants
    mask: Any = None
    """Threads that execute the present statement, ``None`` for all."""

    # To be given by the ways of running -----------------------------------------------------------------------------

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

    # Given by the rest of the runtime -------------------------------------------------------------------------------

    @abstractmethod
    def emit(self, place: int, ops: instructions.Sequence, operands: tuple[Any, ...]) -> Any:
        """Record a sequence of instructions that reads these operands; returns the producers of its result."""

    @abstractmethod
    def operand_type(self, place: int, operand: Any) -> np.dtype[Any] | None:
        """Type of a tracked value, ``None`` for a constant."""

    @abstractmethod
    def convert(self, place: int, operand: Any, dtype: np.dtype[Any]) -> Any:
        """Operand as a number (or numbers) of type `dtype`, the conversion counted."""

    @abstractmethod
    def frame_key(self) -> tuple[Any, ...]:
        """Name of the function call that runs now, the same in both ways."""

    @abstractmethod
    def plain(self, value: Value, what: str) -> Any:
        """Return the one Python number that a value is for all threads concerned."""

    @abstractmethod
    def learn(self, slot: tuple[Any, ...], new: Any) -> None:
        """Take note of the type of something that is assigned."""

    @abstractmethod
    def typed(self, place: int, slot: tuple[Any, ...], new: Any) -> Value:
        """Return a value with the type of a variable."""

    @abstractmethod
    def assigned(self, place: int, slot: tuple[Any, ...], old: Any, new: Any) -> Any:
        """Return what a variable is after an assignment."""

    # Where elements lie ---------------------------------------------------------------------------------------------

    def locate(self, place: int, verb: str, array: Array | ArrayView, index: Any) -> tuple[Any, tuple[Any, ...]]:
        """Row-major position of ``array[index]`` and what it was computed from; counts the address arithmetic.

        The position is one in the array itself, of which `array` may be a view.
        """
        parts = index if isinstance(index, tuple) else (index,)
        shape = array.shape
        if len(parts) != len(shape):
            if len(parts) > 1 or self.rules.numpy_indices:
                also = "" if self.rules.numpy_indices else ", or one flat index"
                raise KernelError(
                    f"{self.kernel_name}: {len(parts)} indices in {self.sites[place]} for an array of shape {shape}: "
                    f"give {len(shape)}{also}"
                )
            shape = (array.size,)
        base, start, strides = view_rules.parts_of(array)
        flat: Any = start.value if isinstance(start, Value) else start
        for axis, (size, part) in enumerate(zip(shape, parts, strict=True)):
            number = self.index_number(place, verb, base, size, part, f" in dimension {axis}" if len(shape) > 1 else "")
            flat = flat * size + number if strides is None else flat + number * strides[axis]
        tracked = tuple(p for p in (start, *parts) if isinstance(p, Value))
        if not tracked:
            return flat, ()
        if self.learning and isinstance(base, LocalArray):
            self.types.indexed.add(base.slot)
        ops = (OpClass.INT,) * (len(shape) - 1) + (instructions.ADDRESS if isinstance(base, DeviceArray) else ())
        return flat, (Value(self, flat, self.emit(place, ops, tracked)),)

    def index_number(self, place: int, verb: str, array: Array, size: int, part: Any, where: str) -> Any:
        """One index as a number, within its dimension."""
        dtype = self.operand_type(place, part)
        number = part.value if isinstance(part, Value) else part
        if (dtype or self.rules.constant_type(number)).kind not in "iub":
            raise KernelError(
                f"{self.kernel_name}: {verb} {self.name_of(array)!r} in {self.sites[place]} has an index of type "
                f"{dtype or type(number).__name__}: indices are whole numbers; convert with int(...)"
            )
        number = number.astype(np.int64) if isinstance(part, Value) else int(number)
        if self.rules.numpy_indices:
            number = view_rules.from_the_end(number, size)
        wrapped = overflow.only(part.overflow, self.mask) if isinstance(part, Value) else ()
        told = [self.report_overflow(array, over, self.sites[place]) for over in wrapped]
        try:
            self.check_bounds(place, verb, array, size, number, where)
        except BoundsError as error:
            if not told:
                raise
            raise BoundsError(f"{error}; {told[0]}") from None
        return number

    @abstractmethod
    def report_overflow(self, array: Array, over: overflow.Overflow, site: Site) -> overflow.IndexOverflow:
        """Report an index that wrapped."""

    def name_of(self, array: Array | ArrayView) -> str:
        """Name of an array in messages: the kernel's parameter, or the name it was declared with."""
        base = array.base if isinstance(array, ArrayView) else array
        return self.names.get(id(base), base.name)

    # Reading and writing --------------------------------------------------------------------------------------------

    def get(self, place: int, array: Any, index: Any) -> Any:
        """``array[index]``."""
        if self.rules.numpy_indices:
            if isinstance(array, np.ndarray):
                array = self.constant_arrays.of(array, self.sites[place])
            if isinstance(array, DeviceArray | SharedArray | ArrayView) and view_rules.is_view(array, index):
                return view_rules.view(self, place, array, index)
        if not isinstance(array, DeviceArray | SharedArray | ArrayView):
            return array[self.plain_index(place, array, index)]
        base = array.base if isinstance(array, ArrayView) else array
        verb = "shared load of" if isinstance(base, SharedArray) else "load of"
        flat, operands = self.locate(place, verb, array, index)
        return self.read(place, base, flat, self.joint_producers((*operands, *self.guards())))

    def set(self, place: int, array: Any, index: Any, value: Any) -> None:
        """``array[index] = value``."""
        if not isinstance(array, DeviceArray | SharedArray | ArrayView):
            if not isinstance(array, LocalList):
                raise complaints.writes_to_host(self.kernel_name, self.sites[place], array)
            where = self.plain_index(place, array, index)
            slot = self.types.joined(getattr(array, "slot", (*self.frame_key(), place)))
            if self.learning:
                self.types.note_stored(slot)
            array[where] = self.assigned(place, slot, array[where], value)
            return
        self.operand_type(place, value)
        base = array.base if isinstance(array, ArrayView) else array
        if isinstance(base, ConstantArray):
            raise complaints.writes_to_host(self.kernel_name, self.sites[place], base)
        stored = self.convert(place, value, base.dtype)
        verb = "shared store to" if isinstance(base, SharedArray) else "store to"
        flat, operands = self.locate(place, verb, array, index)
        self.write(place, base, flat, stored, self.joint_producers((*operands, stored, *self.guards())))

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
                self.learn(slot, item)
        if slot in self.types.stored:
            items = [self.typed(place, slot, x) if isinstance(x, (Value, *PLAIN)) else x for x in items]
        return LocalList(items, slot)

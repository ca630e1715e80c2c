"""What rewritten kernels call: the part that masked execution and the interpreter share.

A tracked value is a number per thread (masked) or one number (interpreter), with the events that made it. Plain Python
numbers are constants: combining them costs nothing, and they take the type of the value they meet.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from gpusim_des.errors import BoundsError, KernelError
from gpusim_des.functional import arithmetic_rules as rules
from gpusim_des.functional import complaints, instructions, membership, plain_numbers
from gpusim_des.functional.memory import DeviceArray, SharedArray
from gpusim_des.functional.source import Site
from gpusim_des.functional.tracked import PLAIN, UNDEFINED, LocalList, Value
from gpusim_des.functional.variable_types import Types
from gpusim_des.trace import OpClass

Array = DeviceArray | SharedArray


class Runtime(ABC):
    """Arithmetic, types and assignments; subclasses add control flow, memory and the record of what happened."""

    undefined = UNDEFINED

    def __init__(self, kernel_name: str, names: dict[int, str], types: Types, *, learning: bool) -> None:
        self.kernel_name = kernel_name
        self.names = names
        self.types = types
        self.learning = learning
        self.here = 0
        """Place where Python last asked for a number that is the same in all threads."""
        self._kept: dict[str, Any] = {}
        self.sites: list[Site] = []
        """Positions of the places of the function that runs now."""

    # To be given by the ways of running -----------------------------------------------------------------------------

    @abstractmethod
    def emit(self, place: int, ops: instructions.Sequence, operands: tuple[Any, ...]) -> Any:
        """Record a sequence of instructions that reads these operands; returns the producers of its result."""

    @abstractmethod
    def plain(self, value: Value, what: str) -> Any:
        """Return the one Python number that a value is for all threads concerned."""

    @abstractmethod
    def merge(self, old: Any, new: Value) -> Value:
        """Return `new` where threads are active, `old` elsewhere."""

    @abstractmethod
    def frame_key(self) -> tuple[Any, ...]:
        """Name of the function call that runs now, the same in both ways."""

    @abstractmethod
    def constant(self, value: Any, dtype: np.dtype[Any]) -> Value:
        """Return a constant as a value."""

    # Types ----------------------------------------------------------------------------------------------------------

    def operand_type(self, place: int, operand: Any) -> np.dtype[Any] | None:
        """Type of a tracked value, ``None`` for a constant."""
        if isinstance(operand, Value):
            if operand.assigned is not None:
                self.check_assigned(place, operand)
            return operand.dtype
        if isinstance(operand, PLAIN):
            return None
        raise complaints.no_number(self.kernel_name, self.sites[place], operand, unassigned=operand is UNDEFINED)

    @abstractmethod
    def check_assigned(self, place: int, operand: Value) -> None:
        """Refuse a variable that some of the active threads have not assigned."""

    def joint_type(self, place: int, operands: tuple[Any, ...]) -> np.dtype[Any] | None:
        """Type in which operands meet, ``None`` if all are constants."""
        known = [t for t in (self.operand_type(place, x) for x in operands) if t is not None]
        if not known:
            return None
        joint = known[0]
        for other in known[1:]:
            joint = rules.common_type(joint, other)
        for operand in operands:
            if not isinstance(operand, Value):
                joint = rules.meet_constant(joint, operand)
        return joint

    def convert(self, place: int, operand: Any, dtype: np.dtype[Any]) -> Any:
        """Operand as a number (or numbers) of type `dtype`, the conversion counted."""
        if not isinstance(operand, Value):
            return plain_numbers.cast(operand, dtype)
        if operand.dtype == dtype:
            return operand
        with np.errstate(all="ignore"):
            value = operand.value.astype(dtype)
        ops = rules.conversion(operand.dtype, dtype)
        return Value(self, value, self.emit(place, ops, (operand,)) if ops else operand.producers)

    def apply(self, place: int, name: str, operands: tuple[Any, ...], dtype: np.dtype[Any]) -> Value:
        """Convert operands to `dtype`, compute ``np.name`` of them, and count it."""
        last = operands[-1] if len(operands) == 2 and isinstance(operands[-1], int) else None
        converted = tuple(self.convert(place, x, dtype) for x in operands)
        numbers = (x.value if isinstance(x, Value) else x for x in converted)
        value = self.constants(place, plain_numbers.calculate, name, dtype, *numbers)
        return Value(self, value, self.emit(place, instructions.arithmetic(name, dtype, last), converted))

    def constants(self, place: int, function: Callable[..., Any], *arguments: Any) -> Any:
        """Compute with numbers; what Python or NumPy refuses becomes an error of the kernel."""
        try:
            with np.errstate(all="ignore"):
                return function(*arguments)
        except (ArithmeticError, TypeError, ValueError) as error:
            raise KernelError(f"{self.kernel_name}: {self.sites[place]} cannot be computed: {error}") from None

    def keep(self, name: str, value: Any) -> Any:
        """Note an expression that is used a second time."""
        self._kept[name] = value
        return value

    def kept(self, name: str) -> Any:
        """Return it."""
        return self._kept[name]

    # Operators ------------------------------------------------------------------------------------------------------

    def binary(self, place: int, name: str, a: Any, b: Any) -> Any:
        """Return ``a op b``."""
        if not (isinstance(a, Value) or isinstance(b, Value)):
            if a is UNDEFINED or b is UNDEFINED:
                self.operand_type(place, UNDEFINED)
            return self.constants(place, plain_numbers.compute, name, a, b)
        joint = self.joint_type(place, (a, b))
        assert joint is not None
        if name in rules.BITWISE and isinstance(a, Value) and isinstance(b, Value) and a.dtype == b.dtype == rules.BOOL:
            joint = rules.BOOL
        return self.apply(place, name, (a, b), rules.operation_type(name, joint))

    def multiply_add(self, place: int, name: str, x: Any, y: Any, z: Any) -> Any:
        """``x * y ± z``, one instruction where all have one type (FMA, IMAD)."""
        return self._contracted(place, name, (x, y), z, product_first=True)

    def add_product(self, place: int, name: str, z: Any, x: Any, y: Any) -> Any:
        """``z ± x * y``, one instruction where all have one type (FMA, IMAD)."""
        return self._contracted(place, name, (x, y), z, product_first=False)

    def _contracted(self, place: int, name: str, factors: tuple[Any, Any], z: Any, *, product_first: bool) -> Any:
        product = self.joint_type(place, factors)
        joint = self.joint_type(place, (*factors, z))
        if product is None or joint is None or product != joint or joint.kind not in "fiu" or joint.itemsize < 4:
            made = self.binary(place, "multiply", *factors)
            return self.binary(place, name, *((made, z) if product_first else (z, made)))
        parts = [self.convert(place, v, joint) for v in (*factors, z)]
        x, y, added = (v.value if isinstance(v, Value) else v for v in parts)
        operation = getattr(np, name)
        with np.errstate(all="ignore"):
            value = operation(x * y, added) if product_first else operation(added, x * y)
        width = 1 if joint.itemsize == 4 or joint.kind == "f" else 3
        ops = (instructions.float_class(joint),) * width
        return Value(self, value, self.emit(place, ops, tuple(parts)))

    def unary(self, place: int, name: str, a: Any) -> Any:
        """``-a`` or ``~a``."""
        dtype = self.operand_type(place, a)
        if dtype is None:
            return self.constants(place, operator.neg if name == "negative" else operator.invert, a)
        return self.apply(
            place, name, (a,), dtype if name == "invert" and dtype == rules.BOOL else rules.promoted(dtype)
        )

    def negation(self, place: int, a: Any) -> Any:
        """``not a``."""
        if not isinstance(a, Value):
            return not a
        return Value(self, np.logical_not(a.value), self.emit(place, (OpClass.INT,), (a,)))

    def compare(self, place: int, name: str, a: Any, b: Any) -> Any:
        """``a < b`` and its like."""
        if not (isinstance(a, Value) or isinstance(b, Value)):
            return self.constants(place, plain_numbers.compute, name, a, b)
        joint = self.joint_type(place, (a, b))
        assert joint is not None
        return self.apply(place, name, (a, b), joint)

    def contains(self, place: int, item: Any, items: Any) -> Any:
        """``item in items``."""
        return membership.contains(self, place, item, items)

    def identical(self, place: int, a: Any, b: Any) -> bool:
        """``a is b``."""
        return membership.identical(self, place, a, b)

    def truth(self, place: int, a: Any) -> Any:
        """Value as a truth value; a number is compared with zero."""
        if not isinstance(a, Value):
            return bool(a)
        return a if a.dtype == rules.BOOL else self.apply(place, "not_equal", (a, 0), a.dtype)

    # Functions ------------------------------------------------------------------------------------------------------

    def scalar_function(self, place: int, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Result of a builtin, ``math`` or NumPy function of numbers; ``NotImplemented`` if it is none."""
        if function in (min, max) and len(arguments) > 1:
            name = "minimum" if function is min else "maximum"
            result = arguments[0]
            for other in arguments[1:]:
                result = self.binary(place, name, result, other)
            return result
        target = _CASTS.get(function) if isinstance(function, type) else None
        if isinstance(function, type) and issubclass(function, np.generic):
            target = np.dtype(function)
        if isinstance(function, type) and target is not None and len(arguments) == 1:
            return self.cast(place, function, arguments[0], target)
        if function is bool and len(arguments) == 1:
            return self.truth(place, arguments[0])
        name_or_none = rules.function_name(function)
        if name_or_none is None:
            return NotImplemented
        joint = self.joint_type(place, arguments)
        if joint is None:
            return self.constants(place, function, *arguments)
        result = self.apply(place, name_or_none, arguments, rules.operation_type(name_or_none, joint))
        whole = (name_or_none in _WHOLE and function.__module__ == "math") or function is round
        return self.convert(place, result, rules.INT32) if whole else result

    def cast(self, place: int, function: type, argument: Any, target: np.dtype[Any]) -> Any:
        """``int(x)``, ``float(x)``, ``np.float64(x)`` and their like."""
        if isinstance(argument, Value):
            return self.convert(place, argument, target)
        self.operand_type(place, argument)
        if issubclass(function, np.generic):
            return plain_numbers.cast(argument, target)
        return self.constants(place, function, argument)

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
        for axis, (size, part) in enumerate(zip(shape, parts, strict=True)):
            dtype = self.operand_type(place, part)
            number = part.value if isinstance(part, Value) else part
            if (dtype or rules.constant_type(number)).kind not in "iub":
                raise KernelError(
                    f"{self.kernel_name}: {verb} {self.name_of(array)!r} in {self.sites[place]} has an index of type "
                    f"{dtype or type(number).__name__}: indices are whole numbers; convert with int(...)"
                )
            number = number.astype(np.int64) if isinstance(part, Value) else int(number)
            self.check_bounds(place, verb, array, size, number, f" in dimension {axis}" if len(shape) > 1 else "")
            flat = flat * size + number
        tracked = tuple(p for p in parts if isinstance(p, Value))
        if not tracked:
            return flat, ()
        ops = (OpClass.INT,) * (len(shape) - 1) + (instructions.ADDRESS if isinstance(array, DeviceArray) else ())
        return flat, (Value(self, flat, self.emit(place, ops, tracked)),)

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


_CASTS: dict[Any, np.dtype[Any]] = {int: rules.INT32, float: rules.FLOAT32}

_WHOLE = frozenset({"floor", "ceil", "trunc"})

"""Arithmetic of rewritten kernels: types, operators and functions, the same in both ways of running.

A tracked value is a number per thread (masked) or one number (interpreter), with the events that made it. Plain Python
numbers are constants: combining them costs nothing, and they take the type of the value they meet.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from gpusim_des.errors import KernelError
from gpusim_des.functional import arithmetic_rules as rules
from gpusim_des.functional import complaints, instructions, membership, overflow, plain_numbers
from gpusim_des.functional.memory import DeviceArray, SharedArray
from gpusim_des.functional.source import Site
from gpusim_des.functional.tracked import PLAIN, UNDEFINED, Value
from gpusim_des.functional.variable_types import Types
from gpusim_des.trace import OpClass

Array = DeviceArray | SharedArray


class Arithmetic(ABC):
    """Arithmetic, types and assignments; subclasses add control flow, memory and the record of what happened."""

    undefined = UNDEFINED
    mask: Any = None
    """Threads that execute the present statement, ``None`` for all."""

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
        made = Value(self, value, self.emit(place, ops, (operand,)) if ops else operand.producers)
        made.overflow = operand.overflow
        return made

    def apply(self, place: int, name: str, operands: tuple[Any, ...], dtype: np.dtype[Any]) -> Value:
        """Convert operands to `dtype`, compute ``np.name`` of them, and count it."""
        last = operands[-1] if len(operands) == 2 and isinstance(operands[-1], int) else None
        converted = tuple(self.convert(place, x, dtype) for x in operands)
        numbers = (x.value if isinstance(x, Value) else x for x in converted)
        value = self.constants(place, plain_numbers.calculate, name, dtype, *numbers)
        made = Value(self, value, self.emit(place, instructions.arithmetic(name, dtype, last), converted))
        if dtype.kind == "i" and not self.learning:
            overflow.follow(name, dtype, converted, made, self.mask, lambda: self.sites[place])
        return made

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
            return self._constant(place, name, a, b)
        joint = self.joint_type(place, (a, b))
        assert joint is not None
        if name in rules.BITWISE and isinstance(a, Value) and isinstance(b, Value) and a.dtype == b.dtype == rules.BOOL:
            joint = rules.BOOL
        return self.apply(place, name, (a, b), rules.operation_type(name, joint))

    def _constant(self, place: int, name: str, a: Any, b: Any) -> Any:
        """Compute with constants; what was declared to have 32 bits and does not fit is a value from here on."""
        number = self.constants(place, plain_numbers.compute, name, a, b)
        if not self.learning and getattr(number, "dtype", None) == rules.INT32 and name in overflow.CHECKED:
            made = self.constant(number, rules.INT32)
            overflow.follow(name, rules.INT32, (a, b), made, self.mask, lambda: self.sites[place])
            if made.overflow:
                return made
        return number

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
        made = Value(self, value, self.emit(place, ops, tuple(parts)))
        if joint.kind == "i" and not self.learning:
            three = parts[0], parts[1], parts[2]
            overflow.follow_product(name, joint, three, made, self.mask, lambda: self.sites[place], first=product_first)
        return made

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


_CASTS: dict[Any, np.dtype[Any]] = {int: rules.INT32, float: rules.FLOAT32}

_WHOLE = frozenset({"floor", "ceil", "trunc"})

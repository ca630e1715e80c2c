"""What rewritten kernels call: the part that masked execution and the interpreter share.

A tracked value is a number per thread (masked) or one number (interpreter), with the events that made it. Plain Python
numbers are constants: combining them costs nothing, and they take the type of the value they meet.
"""

from __future__ import annotations

import operator
from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from gpusim_des.errors import KernelError
from gpusim_des.functional import arithmetic_rules as rules
from gpusim_des.functional import (
    complaints,
    cuda_translation,
    element_types,
    instructions,
    membership,
    overflow,
    plain_numbers,
)
from gpusim_des.functional.launch_context import LaunchContext
from gpusim_des.functional.operations import Thread
from gpusim_des.functional.source import Site
from gpusim_des.functional.thread_memory import ThreadMemory
from gpusim_des.functional.tracked import PLAIN, UNDEFINED, LocalList, Value
from gpusim_des.trace import OpClass


class Runtime(ThreadMemory):
    """Arithmetic, types and assignments; subclasses add control flow, memory and the record of what happened."""

    undefined = UNDEFINED

    thread: Thread
    """The thread, or threads, that run."""

    def __init__(self, kernel_name: str, context: LaunchContext, *, learning: bool) -> None:
        self.kernel_name = kernel_name
        self.context = context
        self.names = context.names
        self.types = context.types
        self.rules = context.types.rules
        self.constant_arrays = context.constants
        self.learning = learning
        self.here = 0
        """Place where Python last asked for a number that is the same in all threads."""
        self._kept: dict[str, Any] = {}
        self.sites: list[Site] = []
        """Positions of the places of the function that runs now."""

    # Names of numba.cuda --------------------------------------------------------------------------------------------

    def attribute(self, place: int, owner: Any, name: str) -> Any:
        """``owner.name``, in kernels written for ``numba.cuda``."""
        return cuda_translation.attribute(self, place, owner, name)

    def special(self, name: Any) -> Any:
        """Return a global variable that may be ``threadIdx`` or its like."""
        return cuda_translation.special(self, name)

    # To be given by the ways of running -----------------------------------------------------------------------------

    @abstractmethod
    def merge(self, old: Any, new: Value) -> Value:
        """Return `new` where threads are active, `old` elsewhere."""

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

    def joint_type(self, place: int, name: str, operands: tuple[Any, ...]) -> np.dtype[Any] | None:
        """Type in which operation `name` is computed, ``None`` if all operands are constants."""
        types = [self.operand_type(place, x) for x in operands]
        if all(t is None for t in types):
            return None
        return self.rules.joint(name, [x if t is None else t for x, t in zip(operands, types, strict=True)])

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
        joint = self.joint_type(place, name, (a, b))
        assert joint is not None
        if name == "multiply" and _is_wide((a, b), joint):
            x, y = _widened((a, b), joint)
            return Value(self, x * y, self.emit(place, (OpClass.INT,), (a, b)))
        return self.apply(place, name, (a, b), joint)

    def _constant(self, place: int, name: str, a: Any, b: Any) -> Any:
        """Compute with constants; what was declared to have 32 bits and does not fit is a value from here on."""
        number = self.constants(place, plain_numbers.compute, self.rules, name, a, b)
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
        product = self.joint_type(place, "multiply", factors)
        joint = self.joint_type(place, name, (*factors, z))
        if product is None or joint is None or product != joint or joint.kind not in "fiu" or joint.itemsize < 4:
            made = self.binary(place, "multiply", *factors)
            return self.binary(place, name, *((made, z) if product_first else (z, made)))
        wide = _is_wide(factors, joint)
        own = factors if wide else tuple(self.convert(place, v, joint) for v in factors)
        parts = (*own, self.convert(place, z, joint))
        x, y, added = _widened(parts, joint)
        operation = getattr(np, name)
        with np.errstate(all="ignore"):
            value = operation(x * y, added) if product_first else operation(added, x * y)
        width = 1 if joint.itemsize == 4 or joint.kind == "f" or wide else 3
        ops = (instructions.float_class(joint),) * width
        made = Value(self, value, self.emit(place, ops, parts))
        if joint.kind == "i" and not self.learning:
            three = parts[0], parts[1], parts[2]
            overflow.follow_product(name, joint, three, made, self.mask, lambda: self.sites[place], first=product_first)
        return made

    def unary(self, place: int, name: str, a: Any) -> Any:
        """``-a`` or ``~a``."""
        dtype = self.operand_type(place, a)
        if dtype is None:
            return self.constants(place, operator.neg if name == "negative" else operator.invert, a)
        return self.apply(place, name, (a,), self.rules.unary(name, dtype))

    def negation(self, place: int, a: Any) -> Any:
        """``not a``."""
        if not isinstance(a, Value):
            return not a
        return Value(self, np.logical_not(a.value), self.emit(place, (OpClass.INT,), (a,)))

    def compare(self, place: int, name: str, a: Any, b: Any) -> Any:
        """``a < b`` and its like."""
        if not (isinstance(a, Value) or isinstance(b, Value)):
            return self.constants(place, plain_numbers.compute, self.rules, name, a, b)
        joint = self.joint_type(place, name, (a, b))
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
        if len(arguments) == 1 and (target := self._cast_type(function, arguments[0])) is not None:
            return self.cast(place, function, arguments[0], target)
        if function is bool and len(arguments) == 1:
            return self.truth(place, arguments[0])
        name_or_none = rules.function_name(function)
        if name_or_none is None:
            return self._complex(place, arguments) if function is complex else NotImplemented
        joint = self.joint_type(place, name_or_none, arguments)
        if joint is None:
            return self.constants(place, function, *arguments)
        result = self.apply(place, name_or_none, arguments, joint)
        whole = self.rules.rounded(function, name_or_none)
        return result if whole is None else self.convert(place, result, whole)

    def _cast_type(self, function: Any, argument: Any) -> np.dtype[Any] | None:
        """Type that a function converts to, ``None`` if it is no conversion."""
        if function is int or function is float:
            own = argument.dtype if isinstance(argument, Value) else self.rules.constant_type(argument)
            return self.rules.cast(function, own)
        is_scalar = isinstance(function, type) and issubclass(function, np.generic)
        return np.dtype(function) if is_scalar else element_types.of_numba(function)

    def cast(self, place: int, function: Any, argument: Any, target: np.dtype[Any]) -> Any:
        """``int(x)``, ``float(x)``, ``np.float64(x)`` and their like."""
        if isinstance(argument, Value):
            return self.convert(place, argument, target)
        self.operand_type(place, argument)
        if function is int or function is float:
            return self.constants(place, function, argument)
        return plain_numbers.cast(argument, target)

    def _complex(self, place: int, arguments: tuple[Any, ...]) -> Any:
        """``complex(real, imag)``: both parts are in registers already."""
        joint = self.joint_type(place, "maximum", arguments)
        if joint is None or joint.kind == "c" or len(arguments) > 2:
            return self.constants(place, complex, *arguments) if joint is None else arguments[0]
        real = joint if joint.kind == "f" else self.rules.real
        parts = [self.convert(place, x, real) for x in arguments]
        numbers = [x.value if isinstance(x, Value) else x for x in parts]
        value = np.asarray(numbers[0] + 1j * (numbers[1] if len(numbers) > 1 else 0))
        done = value.astype(np.complex64 if real.itemsize <= 4 else np.complex128)[()]
        return Value(self, done, self.joint_producers(tuple(parts)))

    # Assignments ----------------------------------------------------------------------------------------------------

    def as_int(self, place: int, value: Any) -> Value:
        """Return a loop counter's first value."""
        if not isinstance(value, Value):
            return self.constant(value, self.rules.constant_type(value))
        done: Value = self.convert(place, value, self.rules.counter(value.dtype))
        return done

    def side(self, place: int, name: int, value: Any) -> Any:
        """One side of a conditional expression."""
        return self.assign(place, f"side {name}", UNDEFINED, value)

    def let(self, place: int, name: str, old: Any, new: Any) -> Any:
        """Assign where a constant stays a constant."""
        return self.assign(place, name, old, new) if isinstance(new, Value | tuple) else new

    def assign(self, place: int, name: str, old: Any, new: Any) -> Any:
        """Assign a value to a variable: it takes the variable's type."""
        return self.assigned(place, (*self.frame_key(), name), old, new)

    def assigned(self, place: int, slot: tuple[Any, ...], old: Any, new: Any) -> Any:
        """Return what a variable is after an assignment."""
        if isinstance(new, tuple):
            before = old if isinstance(old, tuple) and len(old) == len(new) else (UNDEFINED,) * len(new)
            return tuple(
                self.assigned(place, (*slot, k), b, x) for k, (b, x) in enumerate(zip(before, new, strict=True))
            )
        if not isinstance(new, (Value, *PLAIN)):
            if self.learning and isinstance(old, LocalList) and isinstance(new, LocalList):
                self.types.join(old.slot, new.slot)
            return self.rebind(place, old, new)
        self.operand_type(place, new)
        if self.learning:
            self.learn(slot, new)
        return self.merge(old, self.typed(place, slot, new))

    def learn(self, slot: tuple[Any, ...], new: Any) -> None:
        """Take note of the type of something that is assigned."""
        if isinstance(new, Value):
            self.types.learn(slot, new.dtype, constant=False)
        elif isinstance(new, PLAIN):
            self.types.learn(slot, self.rules.constant_type(new), constant=True)

    def typed(self, place: int, slot: tuple[Any, ...], new: Any) -> Value:
        """Return a value with the type of a variable."""
        own = new.dtype if isinstance(new, Value) else self.rules.constant_type(new)
        target = self.types.known.get(slot, own)
        done: Value = self.convert(place, new, target) if isinstance(new, Value) else self.constant(new, target)
        return done

    def rebind(self, place: int, old: Any, new: Any) -> Any:  # noqa: ARG002 - masked execution looks at them
        """Assign an array, a list or a function."""
        return new


def _is_wide(factors: tuple[Any, ...], joint: np.dtype[Any]) -> bool:
    """Tell whether this is a product of 64 bits of two numbers of 32: one instruction (IMAD.WIDE)."""
    if joint.kind not in "iu" or joint.itemsize < 8:
        return False
    kinds = [x.dtype for x in factors if isinstance(x, Value)]
    return all(k.itemsize <= 4 for k in kinds) and all(
        rules.constant_type(x).itemsize <= 4 for x in factors if not isinstance(x, Value)
    )


def _widened(operands: Iterable[Any], dtype: np.dtype[Any]) -> tuple[Any, ...]:
    """Numbers of operands in a type that holds them all."""
    return tuple(x.value.astype(dtype, copy=False) if isinstance(x, Value) else x for x in operands)

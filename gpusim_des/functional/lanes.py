"""A value per thread that knows which instructions made it.

Kernels compute with NumPy's operators and functions; each becomes the warp instructions that a GPU would issue, and
the result remembers them, so that every later instruction knows what it depends on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import DTypeLike, NDArray

from gpusim_des.errors import KernelError, MaskError
from gpusim_des.functional import arithmetic_rules as rules
from gpusim_des.functional import instructions, overflow, provenance
from gpusim_des.functional.machine import Machine, Mask
from gpusim_des.functional.poison import poison_of
from gpusim_des.functional.provenance import Producers
from gpusim_des.functional.source import caller
from gpusim_des.trace import OpClass

_LOGICAL = frozenset(
    {"bitwise_and", "bitwise_or", "bitwise_xor", "invert", "logical_and", "logical_or", "logical_xor", "logical_not"}
)


class BlocksDisagree(Exception):  # noqa: N818 - a signal to the executor, not an error of the user
    """Blocks that run at once want to go different ways in Python control flow.

    The executor takes their writes back and runs them again, one group for each value.
    """

    def __init__(self, values: NDArray[Any]) -> None:
        super().__init__("blocks disagree on a value that steers Python control flow")
        self.values = values

    def groups(self) -> list[NDArray[np.intp]]:
        """Positions of the blocks that agree, one array for each value, values ascending."""
        _, group = np.unique(self.values, return_inverse=True)
        return [np.flatnonzero(group == number) for number in range(int(group.max()) + 1)]


class Lanes(NDArrayOperatorsMixin):
    """A value for every thread of the blocks in flight.

    Operators and NumPy functions work element by element and are counted as instructions of their class. A value that
    is the same for all threads of a block may steer Python control flow (``if blk.bx == 0``); one that differs from
    thread to thread may not: use a mask.

    Attributes
    ----------
    value
        The numbers, broadcastable to (blocks, threads).
    producers
        Events of the machine that made the value.
    mask
        Threads for which the value means something, ``None`` for all: arithmetic on loaded values is executed only by
        the threads that loaded.
    """

    __slots__ = ("bounds", "machine", "mask", "overflow", "producers", "product", "value")

    def __init__(self, machine: Machine, value: Any, producers: Producers = (), mask: Mask = None) -> None:
        self.machine = machine
        self.value: NDArray[Any] = np.asarray(value)
        self.producers = producers
        self.mask = mask
        self.product: int | None = None
        """Event of the multiplication that made the value, if an addition may absorb it."""
        self.bounds: overflow.Range | None = None
        self.overflow: overflow.Overflows = ()
        """What `overflow` finds out about the value."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type."""
        return self.value.dtype

    def astype(self, dtype: DTypeLike) -> Lanes:
        """Convert, as a cast in C does; counted as a conversion."""
        target = np.dtype(dtype)
        if target == self.dtype:
            return self
        ops = rules.conversion(self.dtype, target)
        made = self._counted(cast(self.value, target), ops, self.producers, within(self.machine, self.mask))
        made.overflow = self.overflow
        return made

    def __repr__(self) -> str:
        return f"Lanes({self.value!r})"

    # NumPy ----------------------------------------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method != "__call__" or ufunc.signature is not None:
            _refuse(f"np.{ufunc.__name__}.{method}" if method != "__call__" else f"np.{ufunc.__name__}")
        if set(kwargs) - {"out"} or kwargs.get("out", inputs[:1])[0] is not inputs[0]:  # x += y arrives with out=(x,)
            _refuse(f"np.{ufunc.__name__} with {' and '.join(kwargs)}")
        name = ufunc.__name__
        values_of_all = [values_of(self.machine, x) for x in inputs]
        if any(isinstance(v, np.ndarray) and v.dtype.kind not in "biufc" for v in values_of_all):
            return self._raw(ufunc, inputs, values_of_all)
        joint = self._joint_type(name, values_of_all)
        operands = [self._in_type(x, v, joint) for x, v in zip(inputs, values_of_all, strict=True)]
        values = [x.value if isinstance(x, Lanes) else x for x in operands]
        with np.errstate(all="ignore"):  # a GPU raises no arithmetic exceptions: it wraps, or makes inf and NaN
            result = ufunc(*values)
        if isinstance(result, tuple):
            _refuse(f"np.{name} (two results)")
        constant = inputs[-1] if len(inputs) == 2 and isinstance(inputs[-1], int | np.integer) else None
        ops = instructions.arithmetic(name, joint, constant)
        lanes = [x for x in operands if isinstance(x, Lanes)]
        mask = within(self.machine, _joint_mask(lanes))
        contracted = self._contract(ops, lanes, mask) if name in {"add", "subtract"} else None
        if contracted is not None:
            made = self._result(result, contracted, mask)
        else:
            made = self._counted(result, ops, joint_producers(*lanes), mask)
        if joint.kind == "i":
            overflow.follow(name, joint, tuple(operands), made, mask, caller)
        if kwargs:
            return self._updated(made)
        if name == "multiply" and len(ops) == 1 and self.machine.counting == "auto" and joint.itemsize >= 4:
            made.product = made.producers[0]
        return made

    def _raw(self, ufunc: np.ufunc, inputs: tuple[Any, ...], values: list[Any]) -> Lanes:
        """Operation on elements that are no numbers, records for example, as NumPy does it."""
        mask = within(self.machine, _joint_mask([x for x in inputs if isinstance(x, Lanes)]))
        return self._counted(ufunc(*values), (OpClass.INT,), joint_producers(*inputs), mask)

    def _joint_type(self, name: str, values: list[Any]) -> np.dtype[Any]:
        """Type in which C would compute: constants take the type of what they meet."""
        known = [v.dtype for v in values if isinstance(v, np.ndarray)]
        if all(t == rules.BOOL for t in known) and not any(
            isinstance(v, int | float | np.generic) and not isinstance(v, bool | np.bool_) for v in values
        ):
            return rules.BOOL if name in _LOGICAL else rules.INT32
        joint = rules.promoted(known[0])
        for other in known[1:]:
            joint = rules.common_type(joint, other)
        for value in values:
            if not isinstance(value, np.ndarray):
                joint = rules.meet_constant(joint, value)
        return rules.operation_type(name, joint)

    def _in_type(self, operand: Any, value: Any, dtype: np.dtype[Any]) -> Any:
        if isinstance(operand, Lanes):
            if operand.dtype == dtype:
                return operand
            ops = rules.conversion(operand.dtype, dtype)
            mask = within(self.machine, operand.mask)
            made = self._counted(cast(operand.value, dtype), ops, operand.producers, mask)
            made.overflow = operand.overflow
            return made
        return cast(np.asarray(value), dtype)

    def _updated(self, new: Lanes) -> Lanes:
        """Value after ``x += y``: inside of a branch, the other threads keep what they had."""
        active = self.machine.active
        if active is None:
            return new
        value = np.where(active, new.value, self.value)
        producers = provenance.merged(active, new.producers, self.producers, self.machine.shape)
        mask = None if self.mask is None or new.mask is None else self.mask | new.mask
        made = Lanes(self.machine, value, producers, mask)
        made.overflow = overflow.chosen(active, (new, self))
        return made

    def _contract(self, ops: instructions.Sequence, lanes: list[Lanes], mask: Mask) -> Producers | None:
        """Turn ``x * y + z`` into one multiply-add; the left product if there are two."""
        if len(ops) != 1:
            return None
        for x in lanes:
            others = joint_producers(*(y for y in lanes if y is not x))
            if x.product is not None and not any(
                p is x.product or p == x.product for p in others if isinstance(p, int)
            ):
                made = self.machine.multiply_add(ops[0], x.product, mask, others, caller())
                if made is not None:
                    return made
        return None

    def _result(self, value: Any, producers: Producers, mask: Mask) -> Lanes:
        """Wrap a result; outside of the branch that computed it, it is poison."""
        active = self.machine.active
        if active is not None:
            value = np.where(active, value, poison_of(np.asarray(value).dtype))
        return Lanes(self.machine, value, producers, mask)

    def __array_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if func is np.where and len(args) == 3 and not kwargs:
            condition, *sides = args
            numbers = [values_of(self.machine, x) for x in args]
            known = [v.dtype for v in numbers[1:] if isinstance(v, np.ndarray)]
            if known and all(t.kind in "iufc" for t in known):
                joint = self._joint_type("select", numbers[1:])
                sides = [self._in_type(x, v, joint) for x, v in zip(sides, numbers[1:], strict=True)]
                numbers[1:] = [x.value if isinstance(x, Lanes) else x for x in sides]
            result = np.where(*numbers)
            lanes = [x for x in (condition, *sides) if isinstance(x, Lanes)]
            mask = within(self.machine, _joint_mask(lanes))
            ops = instructions.arithmetic("select", result.dtype)
            made = self._counted(result, ops, joint_producers(*lanes), mask)
            made.overflow = overflow.chosen(numbers[0], sides)
            return made
        return _refuse(f"np.{func.__name__}")

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        raise KernelError(
            f"{self.machine.kernel_name}: {caller()} turns a per-thread value into a plain array, which would no "
            "longer be counted; keep it as it is and use operators, NumPy ufuncs, np.where and the methods of blk on it"
        )

    def _counted(self, value: Any, ops: instructions.Sequence, producers: Producers, mask: Mask) -> Lanes:
        if self.machine.counting == "auto" and ops:
            producers = self.machine.sequence(ops, mask, producers, caller())
        return self._result(value, producers, mask)

    # Python control flow --------------------------------------------------------------------------------------------

    def _per_block(self, what: str) -> Any:
        """Return the one value that all threads of all blocks in flight share."""
        value = self.value
        if (value.ndim == 2 and value.shape[1] > 1) or (value.ndim == 1 and value.size > 1):
            raise KernelError(
                f"{self.machine.kernel_name}: {caller()} uses a value that differs from thread to thread as {what}; "
                "Python takes one way for all threads of a block, so pass the condition as mask=, count the branch "
                "with blk.branch(condition), or ask .any() or .all()"
            )
        return self._agreed(value.reshape(-1))

    def _agreed(self, per_block: Any) -> Any:
        if not np.array_equal(per_block, np.broadcast_to(per_block[0], per_block.shape), equal_nan=True):
            raise BlocksDisagree(np.broadcast_to(per_block, (self.machine.shape[0],)))
        if self.machine.counting == "auto":
            self.machine.branch(np.array([[bool(per_block[0])]]), None, self.producers, caller())
        return per_block[0].item()

    def __bool__(self) -> bool:
        return bool(self._per_block("a condition"))

    def __int__(self) -> int:
        return int(self._per_block("a whole number"))

    def __index__(self) -> int:
        value = self._per_block("an index or a loop bound")
        if not isinstance(value, int):
            raise TypeError(f"{value!r} is no whole number: convert it with int() first")
        return value

    def __float__(self) -> float:
        return float(self._per_block("a number"))

    def any(self) -> bool:
        """Tell whether the value is true for any thread of the block, the same answer for all its threads."""
        return bool(self._agreed(np.any(self._truth(), axis=1)))

    def all(self) -> bool:
        """Tell whether the value is true for all threads of the block."""
        return bool(self._agreed(np.all(self._truth(), axis=1)))

    def _truth(self) -> NDArray[np.bool_]:
        return np.broadcast_to(self.value, self.machine.shape).astype(np.bool_)


def _refuse(what: str) -> NoReturn:
    raise KernelError(
        f"{what} in {caller()} is not an operation that one thread can do: use operators, element-wise NumPy ufuncs "
        "and np.where on per-thread values, and the methods of blk for everything between threads"
    )


def cast(value: NDArray[Any], target: np.dtype[Any]) -> NDArray[Any]:
    """Convert as C does: without a warning, and not from complex to real."""
    if value.dtype.kind == "c" and target.kind not in "cV":
        raise KernelError(
            f"{caller()} turns a {value.dtype} value into {target}, which would drop its imaginary part: "
            "store it in a complex array, or take np.absolute of it"
        )
    with np.errstate(invalid="ignore", over="ignore"):
        return value.astype(target)


def values_of(machine: Machine, operand: Any) -> Any:
    """Plain numbers of an operand: a `Lanes`, a number, or an array with one entry per thread."""
    if isinstance(operand, Lanes):
        if operand.machine is not machine:
            raise KernelError(f"{machine.kernel_name}: {caller()} uses a value of another launch")
        return operand.value
    if isinstance(operand, np.ndarray) and operand.ndim:
        if operand.shape != (machine.shape[1],):
            raise MaskError(
                f"{machine.kernel_name}: {caller()} uses an array of shape {operand.shape} per thread: the block has "
                f"{machine.shape[1]} threads, so give an array of shape ({machine.shape[1]},) or a single number"
            )
        return operand
    if isinstance(operand, bool | int | float | complex | np.generic | np.ndarray):
        return operand
    raise KernelError(
        f"{machine.kernel_name}: {caller()} computes with a {type(operand).__name__}: per-thread values, numbers and "
        "arrays with one entry per thread are possible"
    )


def within(machine: Machine, mask: Mask) -> Mask:
    """Threads of `mask` that are in the branch in which the kernel is."""
    active = machine.active
    if active is None or mask is active:
        return mask
    return active if mask is None else mask & active


def joint_producers(*operands: Any) -> Producers:
    """Events that made any of the operands."""
    return provenance.joint(*(x.producers for x in operands if isinstance(x, Lanes)))


def _joint_mask(lanes: list[Lanes]) -> Mask:
    """Threads that compute the result: those for which any operand that varies by thread means something."""
    varying = [x for x in lanes if x.mask is not None or (x.value.ndim and x.value.shape[-1] > 1)]
    mask: Mask = None
    for number, x in enumerate(varying):
        if x.mask is None:
            return None
        if number == 0 or mask is x.mask:
            mask = x.mask
        else:
            assert mask is not None
            mask = mask | x.mask
    return mask

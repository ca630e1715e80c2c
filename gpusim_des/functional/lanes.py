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
from gpusim_des.functional import instructions
from gpusim_des.functional.machine import Machine, Mask
from gpusim_des.functional.provenance import Producers
from gpusim_des.functional.source import caller


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

    __slots__ = ("machine", "mask", "producers", "value")

    def __init__(self, machine: Machine, value: Any, producers: Producers = (), mask: Mask = None) -> None:
        self.machine = machine
        self.value: NDArray[Any] = np.asarray(value)
        self.producers = producers
        self.mask = mask

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type."""
        return self.value.dtype

    def astype(self, dtype: DTypeLike) -> Lanes:
        """Convert, as a cast in C does; counted as a conversion."""
        target = np.dtype(dtype)
        if target == self.dtype:
            return self
        ops = instructions.conversion(self.dtype, target)
        return self._counted(cast(self.value, target), ops, self.producers, self.mask)

    def __repr__(self) -> str:
        return f"Lanes({self.value!r})"

    # NumPy ----------------------------------------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method != "__call__" or ufunc.signature is not None:
            _refuse(f"np.{ufunc.__name__}.{method}" if method != "__call__" else f"np.{ufunc.__name__}")
        if set(kwargs) - {"out"} or kwargs.get("out", inputs[:1])[0] is not inputs[0]:  # x += y arrives with out=(x,)
            _refuse(f"np.{ufunc.__name__} with {' and '.join(kwargs)}")
        values, producers, mask = _operands(self.machine, inputs)
        try:
            with np.errstate(all="ignore"):  # a GPU raises no arithmetic exceptions: it wraps, or makes inf and NaN
                result = ufunc(*values)
        except OverflowError as error:
            raise KernelError(
                f"{self.machine.kernel_name}: {caller()}: {error}; convert the per-thread value first, "
                "for example with .astype(np.int64)"
            ) from None
        if isinstance(result, tuple):
            _refuse(f"np.{ufunc.__name__} (two results)")
        constant = inputs[-1] if len(inputs) == 2 and isinstance(inputs[-1], int | np.integer) else None
        operands = [x.dtype for x in inputs if isinstance(x, Lanes)]
        kind = result.dtype if result.dtype.kind != "b" else np.result_type(*operands)
        ops = instructions.arithmetic(ufunc.__name__, kind, constant)
        for operand in operands:  # C converts an integer before it meets a float
            if operand.kind in "iu" and kind.kind == "f":
                ops = instructions.conversion(operand, kind) + ops
        return self._counted(result, ops, producers, mask)

    def __array_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if func is np.where and len(args) == 3 and not kwargs:
            values, producers, mask = _operands(self.machine, args)
            result = np.where(*values)
            return self._counted(result, instructions.arithmetic("select", result.dtype), producers, mask)
        return _refuse(f"np.{func.__name__}")

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        raise KernelError(
            f"{self.machine.kernel_name}: {caller()} turns a per-thread value into a plain array, which would no "
            "longer be counted; keep it as it is and use operators, NumPy ufuncs, np.where and the methods of blk on it"
        )

    def _counted(self, value: Any, ops: instructions.Sequence, producers: Producers, mask: Mask) -> Lanes:
        if self.machine.counting == "auto" and ops:
            producers = self.machine.sequence(ops, mask, producers, caller())
        return Lanes(self.machine, value, producers, mask)

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
        if not np.array_equal(per_block, np.broadcast_to(per_block[0], per_block.shape)):
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


def _operands(machine: Machine, inputs: tuple[Any, ...]) -> tuple[list[Any], Producers, Mask]:
    """Numbers, joint producers and joint mask of some operands."""
    values = [values_of(machine, x) for x in inputs]
    lanes = [x for x in inputs if isinstance(x, Lanes)]
    return values, joint_producers(*lanes), _joint_mask(lanes)


def joint_producers(*operands: Any) -> Producers:
    """Events that made any of the operands, ascending."""
    found = {p for x in operands if isinstance(x, Lanes) for p in x.producers}
    return tuple(sorted(found))


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

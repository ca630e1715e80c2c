"""What the names of ``numba.cuda`` do: numbers are computed here, the rest becomes operations of a thread."""

from __future__ import annotations

import inspect
import linecache
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gpusim_des.errors import KernelError
from gpusim_des.functional import arithmetic_rules as rules
from gpusim_des.functional import complaints, view_rules
from gpusim_des.functional.array_view import ArrayView
from gpusim_des.functional.cuda_operations import CudaOperation, Special
from gpusim_des.functional.element_types import element_type
from gpusim_des.functional.memory import DeviceArray, SharedArray
from gpusim_des.functional.operations import Operation
from gpusim_des.functional.private_arrays import ConstantArray, LocalArray, Shaped
from gpusim_des.functional.tracked import Value
from gpusim_des.trace import OpClass

if TYPE_CHECKING:
    from gpusim_des.functional.runtime import Runtime

_UINT32 = np.dtype(np.uint32)


class Request(NamedTuple):
    """An operation that masked execution and the interpreter do in their own ways."""

    operation: Operation
    arguments: dict[str, Any]


def translate(runtime: Runtime, place: int, operation: CudaOperation, arguments: dict[str, Any]) -> Any:
    """Return the result of an operation, or the `Request` that gives it."""
    name = operation.name
    if name in _NUMBERS:
        return _NUMBERS[name](runtime, place, **arguments)
    if name.startswith("atomic."):
        return _atomic(runtime, place, name.removeprefix("atomic."), **arguments)
    if name.startswith("threadfence"):
        name, arguments = "threadfence", {"scope": "block" if name == "threadfence_block" else "device"}
    if name in {"shared.array", "local.array"}:
        return _request(name, declared=_declared(runtime, place, name, **arguments))
    for what in _WHOLE & arguments.keys():
        _check_whole(runtime, place, f"cuda.{name} {what}", arguments[what])
    if name == "syncwarp":
        return _request("syncwarp", members=arguments["membermask"])
    if name.endswith("_sync"):
        mask = arguments.pop("mask")
        return _request(name.removesuffix("_sync"), **arguments, members=mask)
    return _request(name, **arguments)


_WHOLE = frozenset({"mask", "membermask", "src_lane", "delta", "lane_mask"})
"""Arguments of operations of lanes that are whole numbers."""


def _check_whole(runtime: Runtime, place: int, what: str, given: Any) -> None:
    kind = runtime.operand_type(place, given) or runtime.rules.constant_type(given)
    if kind.kind not in "iu":
        raise KernelError(f"{_here(runtime, place)}: {what} of type {kind}: give a whole number; convert with int(...)")


def special(runtime: Runtime, found: Any) -> Any:
    """Return what a name of ``cuda`` means for the threads that run."""
    if isinstance(found, Special):
        return runtime.thread.lane if found.name == "laneid" else getattr(runtime.thread, found.name)
    return found


def _request(name: str, owner: Any = None, **arguments: Any) -> Request:
    return Request(Operation(name, owner, _NO_SIGNATURE), arguments)


_NO_SIGNATURE = inspect.Signature()


def _here(runtime: Runtime, place: int) -> str:
    return f"{runtime.kernel_name}: {runtime.sites[place]}"


# Position in the grid -----------------------------------------------------------------------------------------------


def _dimensions(runtime: Runtime, place: int, name: str, ndim: Any) -> int:
    if isinstance(ndim, Value | bool) or ndim not in {1, 2, 3}:
        raise KernelError(f"{_here(runtime, place)}: cuda.{name}({ndim!r}): a grid has 1, 2 or 3 dimensions")
    return int(ndim)


def _grid(runtime: Runtime, place: int, ndim: Any) -> Any:
    """One wide multiply-add a dimension (IMAD.WIDE): blocks times threads plus thread, in 64 bits."""
    thread = runtime.thread
    made = []
    for axis in "xyz"[: _dimensions(runtime, place, "grid", ndim)]:
        block, inner = getattr(thread.blockIdx, axis), getattr(thread.threadIdx, axis)
        number = block.value.astype(np.int64) * getattr(thread.blockDim, axis) + inner.value
        made.append(Value(runtime, number, runtime.emit(place, (OpClass.INT,), (block, inner))))
    return made[0] if len(made) == 1 else tuple(made)


def _gridsize(runtime: Runtime, place: int, ndim: Any) -> Any:
    thread = runtime.thread
    axes = "xyz"[: _dimensions(runtime, place, "gridsize", ndim)]
    sizes = tuple(getattr(thread.blockDim, axis) * getattr(thread.gridDim, axis) for axis in axes)
    return sizes[0] if len(sizes) == 1 else sizes


# Numbers ------------------------------------------------------------------------------------------------------------


def _bits(name: str) -> Callable[..., Any]:
    def compute(runtime: Runtime, place: int, x: Any) -> Value:
        own = runtime.operand_type(place, x)
        kind = runtime.rules.constant_type(x) if own is None else own
        if kind.kind not in "iub":
            raise KernelError(
                f"{_here(runtime, place)}: cuda.{name} of a number of type {kind}: bits are those of whole numbers; "
                "convert with int(...)"
            )
        kind = rules.promoted(kind)
        if name == "brev" and kind != np.dtype(np.uint64):
            kind = _UINT32  # as in Numba, which knows no other
        value = runtime.apply(place, name, (runtime.constant(x, kind) if own is None else x,), kind)
        return _as(runtime, value, _UINT32) if name == "ffs" else value

    return compute


def _as(runtime: Runtime, value: Value, dtype: np.dtype[Any]) -> Value:
    """Return the same register, read as another type."""
    return Value(runtime, value.value.astype(dtype), value.producers)


def _fma(runtime: Runtime, place: int, a: Any, b: Any, c: Any) -> Value:
    operands = [x if isinstance(x, Value) else runtime.constant(x, runtime.rules.constant_type(x)) for x in (a, b, c)]
    joint = runtime.joint_type(place, "fma", tuple(operands))
    assert joint is not None
    return runtime.apply(place, "fma", tuple(operands), joint if joint.kind == "f" else runtime.rules.real)


def _cbrt(runtime: Runtime, place: int, a: Any) -> Any:
    return runtime.scalar_function(place, np.cbrt, (a,))


def _selp(runtime: Runtime, place: int, a: Any, b: Any, c: Any) -> Any:
    """One select: all three are computed already."""
    condition = runtime.truth(place, a)
    sides = [x if isinstance(x, Value) else runtime.constant(x, runtime.rules.constant_type(x)) for x in (b, c)]
    joint = runtime.joint_type(place, "maximum", tuple(sides))
    assert joint is not None
    yes, no = (runtime.convert(place, x, joint) for x in sides)
    if not isinstance(condition, Value):
        return yes if condition else no
    chosen = np.where(condition.value, yes.value, no.value)[()]
    return Value(runtime, chosen, runtime.emit(place, (OpClass.INT,), (condition, yes, no)))


def _lanemask_lt(runtime: Runtime, place: int) -> Value:  # noqa: ARG001 - as all others
    """A special register."""
    lane = runtime.thread.lane
    return Value(runtime, ((np.uint64(1) << lane.value.astype(np.uint64)) - np.uint64(1)).astype(np.uint32), ())


def _array_like(runtime: Runtime, place: int, ndarray: Any) -> ConstantArray:
    if isinstance(ndarray, ConstantArray):
        return ndarray
    if not isinstance(ndarray, np.ndarray):
        raise KernelError(
            f"{_here(runtime, place)}: cuda.const.array_like of {complaints.a_kind(ndarray)}: give a NumPy array that "
            "is a global variable of the module; device arrays are arguments of the launch"
        )
    return runtime.constant_arrays.of(ndarray, runtime.sites[place])


_NUMBERS: dict[str, Callable[..., Any]] = {
    "grid": _grid,
    "gridsize": _gridsize,
    **{name: _bits(name) for name in ("popc", "clz", "brev", "ffs")},
    "fma": _fma,
    "cbrt": _cbrt,
    "selp": _selp,
    "lanemask_lt": _lanemask_lt,
    "const.array_like": _array_like,
}


# Memory -------------------------------------------------------------------------------------------------------------

_ATOMICS = {"and_": "atomic_and", "or_": "atomic_or", "cas": "atomic_cas", "compare_and_swap": "atomic_cas"}


def _atomic(runtime: Runtime, place: int, name: str, ary: Any, **arguments: Any) -> Request:
    base = ary.base if isinstance(ary, ArrayView) else ary
    if not isinstance(base, DeviceArray | SharedArray) or isinstance(base, ConstantArray | LocalArray):
        raise KernelError(
            f"{_here(runtime, place)}: cuda.atomic.{name} on a {type(base).__name__}: give an array in global or "
            "shared memory; nobody else writes to constants and local arrays"
        )
    operation = _ATOMICS.get(name, f"atomic_{name}")
    if name == "compare_and_swap":
        index: Any = (0,) * len(ary.shape)
        return _request(operation, ary, index=index, compare=arguments["old"], value=arguments["val"])
    compare = {"compare": arguments["old"]} if name == "cas" else {}
    return _request(operation, ary, index=arguments["idx"], value=arguments["val"], **compare)


def _declared(runtime: Runtime, place: int, name: str, shape: Any, dtype: Any) -> Shaped:
    site = runtime.sites[place]
    sizes = shape if isinstance(shape, tuple | list) else (shape,)
    plain = [isinstance(n, int | np.integer) and not isinstance(n, bool) for n in sizes]
    dynamic = name == "shared.array" and tuple(sizes) == (0,) if all(plain) else False
    if not sizes or not all(plain) or (min(sizes) < 1 and not dynamic):
        also = ", or 0 for dynamic shared memory" if name == "shared.array" else ""
        shown = "that the kernel computes" if any(isinstance(n, Value) for n in sizes) else repr(shape)
        raise KernelError(
            f"{_here(runtime, place)}: cuda.{name} of shape {shown}: sizes are constants of at least 1{also}"
        )
    try:
        kind = element_type(dtype)
    except TypeError as error:
        raise KernelError(f"{_here(runtime, place)}: cuda.{name}: {error}") from None
    text = linecache.getline(site.filename, site.line)
    assigned = re.match(r"\s*(\w+)\s*(:[^=]*)?=[^=]", text)
    label = assigned.group(1) if assigned else f"{name.removesuffix('.array')} array"
    return Shaped(tuple(int(n) for n in sizes), kind, label)


def attribute(runtime: Runtime, place: int, owner: Any, name: str) -> Any:
    """``owner.name`` in a kernel of this style."""
    if isinstance(owner, Value):
        return _part_of_number(runtime, place, owner, name)
    if isinstance(owner, DeviceArray | SharedArray | ArrayView):
        return view_rules.attribute(runtime, place, owner, name)
    try:
        return special(runtime, getattr(owner, name))
    except AttributeError as error:
        raise KernelError(f"{_here(runtime, place)}: {error}") from None


def _part_of_number(runtime: Runtime, place: int, number: Value, name: str) -> Any:
    """Real or imaginary part, which is one of two registers."""
    runtime.operand_type(place, number)
    if name not in {"real", "imag"}:
        raise KernelError(f"{_here(runtime, place)}: attribute {name!r} of a number: it has .real and .imag")
    return Value(runtime, np.asarray(getattr(number.value, name))[()], number.producers)

"""Views of arrays in kernels that index as NumPy does: rows, slices, transposes, negative indices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gpusim_des.errors import KernelError
from gpusim_des.functional.array_view import ArrayView, sliced, whole
from gpusim_des.functional.memory import DeviceArray, SharedArray
from gpusim_des.functional.tracked import Value
from gpusim_des.trace import OpClass

if TYPE_CHECKING:
    from gpusim_des.functional.runtime import Runtime
    from gpusim_des.functional.thread_memory import ThreadMemory

Array = DeviceArray | SharedArray


def parts_of(array: Array | ArrayView) -> tuple[Array, Any, tuple[int, ...] | None]:
    """Array, position of its first element, and the distances along each dimension (``None``: row-major)."""
    if isinstance(array, ArrayView):
        return array.base, array.start, array.steps
    return array, 0, None


def from_the_end(number: Any, size: int) -> Any:
    """An index that counts from the end if it is negative.

    >>> from_the_end(-1, 10), from_the_end(np.array([-10, 3, -11]), 10).tolist()
    (9, [0, 3, -1])
    """
    if isinstance(number, int):
        return number + size if number < 0 else number
    return np.where(number < 0, number + size, number) if np.any(number < 0) else number


def is_view(array: Array | ArrayView, index: Any) -> bool:
    """Tell whether an index picks more than one element."""
    parts = index if isinstance(index, tuple) else (index,)
    return len(parts) < len(array.shape) or any(isinstance(p, slice) or p is Ellipsis for p in parts)


def view(runtime: ThreadMemory, place: int, array: Array | ArrayView, index: Any) -> ArrayView:
    """``array[index]`` where that is a view: a row, a slice of constant length.

    Raises
    ------
    KernelError
        For more indices than dimensions, and for slices with a step that differs from thread to thread.
    """
    source = whole(array)
    parts = list(index if isinstance(index, tuple) else (index,))
    if Ellipsis in [p for p in parts if not isinstance(p, Value)]:
        at = next(k for k, p in enumerate(parts) if p is Ellipsis)
        parts[at : at + 1] = [slice(None)] * (len(source.shape) - len(parts) + 1)
    if len(parts) > len(source.shape):
        raise KernelError(
            f"{runtime.kernel_name}: {len(parts)} indices in {runtime.sites[place]} for an array of shape "
            f"{source.shape}: give at most {len(source.shape)}"
        )
    parts += [slice(None)] * (len(source.shape) - len(parts))
    start: Any = source.start
    shape: list[int] = []
    strides: list[int] = []
    for axis, (part, size, stride) in enumerate(zip(parts, source.shape, source.steps, strict=True)):
        if isinstance(part, slice):
            first, length, step = _range(runtime, place, part, size)
            shape.append(length)
            strides.append(step * stride)
        else:
            where = f" in dimension {axis}" if len(parts) > 1 else ""
            first = runtime.index_number(place, "view of", source.base, size, part, where)
            if isinstance(part, Value):
                first = Value(runtime, first, part.producers)
        start = _moved(runtime, place, start, first, stride)
    return ArrayView(source.base, start, tuple(shape), tuple(strides))


def _moved(runtime: ThreadMemory, place: int, start: Any, by: Any, stride: int) -> Any:
    """``start + by * stride``: a multiply-add if one of them differs from thread to thread."""
    tracked = tuple(x for x in (start, by) if isinstance(x, Value))
    a, b = (x.value if isinstance(x, Value) else x for x in (start, by))
    if not tracked:
        return a + b * stride
    return Value(runtime, np.asarray(a + b * stride)[()], runtime.emit(place, (OpClass.INT,), tracked))


def _range(runtime: ThreadMemory, place: int, part: slice, size: int) -> tuple[Any, int, int]:
    """First element, length and step of a slice; its bounds may be values, its length is the same for all threads."""
    bounds = [part.start, part.stop, part.step]
    if not any(isinstance(b, Value) for b in bounds):
        return sliced(size, slice(*(None if b is None else int(b) for b in bounds)))
    if isinstance(part.step, Value) or part.step not in {None, 1}:
        raise KernelError(
            f"{runtime.kernel_name}: a slice with bounds that differ from thread to thread and a step in "
            f"{runtime.sites[place]}: leave the step out and multiply the index"
        )
    first = 0 if part.start is None else _bound(runtime, place, part.start, size)
    stop = size if part.stop is None else _bound(runtime, place, part.stop, size)
    length = np.asarray(np.maximum(stop - first, 0))[()]
    runtime.here = place
    common = int(runtime.plain(Value(runtime, length, ()), "the length of a slice"))
    if isinstance(part.start, Value):
        first = Value(runtime, first, part.start.producers)
    return first, common, 1


def _bound(runtime: ThreadMemory, place: int, bound: Any, size: int) -> Any:
    dtype = runtime.operand_type(place, bound)
    if dtype is not None and dtype.kind not in "iub":
        raise KernelError(
            f"{runtime.kernel_name}: a slice in {runtime.sites[place]} has a bound of type {dtype}: bounds are whole "
            "numbers; convert with int(...)"
        )
    number = bound.value.astype(np.int64) if isinstance(bound, Value) else int(bound)
    return np.clip(from_the_end(number, size), 0, size)


def attribute(runtime: Runtime, place: int, array: Array | ArrayView, name: str) -> Any:
    """``array.shape`` and its like.

    Raises
    ------
    KernelError
        For what kernels cannot ask of an array.
    """
    own = whole(array)
    known = {
        "shape": tuple(own.shape),
        "ndim": own.ndim,
        "size": own.size,
        "dtype": own.dtype,
        "itemsize": own.dtype.itemsize,
        "nbytes": own.size * own.dtype.itemsize,
        "strides": own.strides,
        "T": ArrayView(own.base, own.start, own.shape[::-1], own.steps[::-1]),
    }
    if name in known:
        return known[name]
    if name.startswith("atomic_"):
        return getattr(array, name)
    raise KernelError(
        f"{runtime.kernel_name}: attribute {name!r} of array {runtime.name_of(array)!r} in {runtime.sites[place]}: "
        "kernels ask for shape, size, ndim, dtype, itemsize, nbytes, strides and T; everything else is for the host"
    )

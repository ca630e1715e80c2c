"""A part of an array as kernels see it: a row, a slice, a transpose; it shares the array's memory."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NoReturn

from gpusim_des.errors import KernelError
from gpusim_des.functional.memory import DeviceArray, SharedArray

if TYPE_CHECKING:
    import numpy as np

Array = DeviceArray | SharedArray


class ArrayView:
    """Elements of an array at regular distances.

    Attributes
    ----------
    base
        The array.
    start
        Row-major position of the first element in it: a number, or a per-thread value in a kernel.
    shape, steps
        Elements along each dimension, and their distances in elements; a distance may be negative.

    Examples
    --------
    >>> import numpy as np
    >>> from gpusim_des.functional.memory import SharedArray
    >>> tile = SharedArray("tile", (4, 8), np.dtype(np.float32), 0, blocks=1)
    >>> column = ArrayView(tile, 3, (4,), (8,))
    >>> column.size, column.ndim, column.dtype
    (4, 1, dtype('float32'))
    """

    __slots__ = ("base", "shape", "start", "steps")

    def __init__(self, base: Array, start: Any, shape: tuple[int, ...], steps: tuple[int, ...]) -> None:
        self.base = base
        self.start = start
        self.shape = shape
        self.steps = steps

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type."""
        return self.base.dtype

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def strides(self) -> tuple[int, ...]:
        """Distances of the elements along each dimension in bytes, as in NumPy."""
        return tuple(step * self.dtype.itemsize for step in self.steps)

    @property
    def is_row_major(self) -> bool:
        """Whether its elements lie one after the other, the last index running fastest."""
        return self.steps == row_major(self.shape)

    @property
    def name(self) -> str:
        """Name of the array."""
        return self.base.name

    def __len__(self) -> int:
        return self.shape[0]

    def _refuse(self, *_: object) -> NoReturn:
        """Python touches elements behind the kernel's back."""
        raise KernelError(
            f"Python touches elements of a view of array {self.name!r}: only a kernel's own expressions can, one "
            "element at a time"
        )

    __getitem__ = __setitem__ = __iter__ = __array__ = _refuse


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Distances of the elements of a row-major array.

    >>> row_major((4, 2, 8))
    (16, 8, 1)
    """
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def whole(array: Array | ArrayView) -> ArrayView:
    """Return a view of all of an array."""
    return array if isinstance(array, ArrayView) else ArrayView(array, 0, array.shape, row_major(array.shape))


def base_of(array: Any) -> Any:
    """Return the array that a view is of; any other array is its own."""
    return array.base if isinstance(array, ArrayView) else array


def simplest(array: ArrayView) -> Array | ArrayView:
    """Return the array itself for a view of all of it, in its own shape."""
    is_all = isinstance(array.start, int) and array.start == 0 and array.shape == array.base.shape
    return array.base if is_all and array.is_row_major else array


def sliced(length: int, part: slice) -> tuple[int, int, int]:
    """First element, number of elements and distance of a slice with whole bounds of a dimension.

    >>> sliced(10, slice(2, 8, 3)), sliced(10, slice(None, None, -1)), sliced(10, slice(8, 20))
    ((2, 2, 3), (9, 10, -1), (8, 2, 1))
    """
    picked = range(*part.indices(length))
    return picked.start, len(picked), picked.step

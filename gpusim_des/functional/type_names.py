"""Names of number types as Numba has them: ``float32``, ``float32[:]`` for arrays, ``void(float32[:], int32)``."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class SignatureType(NamedTuple):
    """What a kernel takes, one type for each argument."""

    args: tuple[Any, ...]


class ArrayType(NamedTuple):
    """An array of numbers."""

    dtype: NumberType
    ndim: int


class NumberType:
    """A type of numbers: it converts numbers, names the elements of arrays, and stands in signatures of kernels.

    It can be used wherever a NumPy type can.

    Attributes
    ----------
    name
        Its name in Numba.
    dtype
        The same type in NumPy.

    Examples
    --------
    >>> import gpusim_des as gs
    >>> gs.float32(0.1), gs.float32[:, :].ndim, np.zeros(2, gs.int16).dtype
    (np.float32(0.1), 2, dtype('int16'))
    """

    def __init__(self, name: str, dtype: type[np.generic]) -> None:
        self.name = name
        self.dtype = np.dtype(dtype)

    def __repr__(self) -> str:
        return self.name

    def __getitem__(self, axes: Any) -> ArrayType:
        """Return the type of arrays with one slice for each dimension, ``float32[:, ::1]``."""
        each = axes if isinstance(axes, tuple) else (axes,)
        if not each or not all(isinstance(axis, slice) for axis in each):
            raise TypeError(f"{self.name}[{axes!r}]: give a colon for each dimension, for example {self.name}[:, :]")
        return ArrayType(self, len(each))

    def __call__(self, *given: Any) -> Any:
        """Convert a number; of types, make the signature of a function that returns this type."""
        if given and all(isinstance(x, NumberType | ArrayType) for x in given):
            return SignatureType(given)
        return self.dtype.type(*given)


def void(*given: Any) -> SignatureType:
    """Make the signature of a kernel, from the types of its arguments.

    Examples
    --------
    >>> import gpusim_des as gs
    >>> gs.void(gs.float32[:], gs.int32).args
    (ArrayType(dtype=float32, ndim=1), int32)
    """
    for one in given:
        if not isinstance(one, NumberType | ArrayType):
            raise TypeError(f"void({one!r}): give types such as float32, int32[:]")
    return SignatureType(given)


boolean = NumberType("boolean", np.bool_)
int8 = NumberType("int8", np.int8)
int16 = NumberType("int16", np.int16)
int32 = NumberType("int32", np.int32)
int64 = NumberType("int64", np.int64)
uint8 = NumberType("uint8", np.uint8)
uint16 = NumberType("uint16", np.uint16)
uint32 = NumberType("uint32", np.uint32)
uint64 = NumberType("uint64", np.uint64)
intp = NumberType("intp", np.int64)
uintp = NumberType("uintp", np.uint64)
float32 = NumberType("float32", np.float32)
float64 = NumberType("float64", np.float64)
complex64 = NumberType("complex64", np.complex64)
complex128 = NumberType("complex128", np.complex128)

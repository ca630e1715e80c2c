"""Signatures of kernels, ``void(float32[:], int32)``: what arguments must be, and what numbers become."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np

from gpusim_des.errors import LaunchError
from gpusim_des.functional.array_view import ArrayView
from gpusim_des.functional.element_types import of_numba
from gpusim_des.functional.memory import DeviceArray
from gpusim_des.functional.type_names import ArrayType, NumberType, SignatureType

_SHORT = {
    **{f"i{n}": f"int{8 * n}" for n in (1, 2, 4, 8)},
    **{f"u{n}": f"uint{8 * n}" for n in (1, 2, 4, 8)},
    "f4": "float32",
    "f8": "float64",
    "c8": "complex64",
    "c16": "complex128",
    "b1": "bool",
    "boolean": "bool",
    "intp": "int64",
    "uintp": "uint64",
    "f": "float32",
    "d": "float64",
    "float_": "float32",
    "double": "float64",
    "byte": "uint8",
    "char": "int8",
    "short": "int16",
    "intc": "int32",
    "int_": "int64",
    "bool_": "bool",
}
"""Numba's short names of types, beside NumPy's."""


class Parameter(NamedTuple):
    """Type of one argument: elements, and dimensions of an array, 0 for a number."""

    dtype: np.dtype[Any]
    ndim: int

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(':' * self.ndim)}]" if self.ndim else str(self.dtype)

    def fits(self, value: Any) -> bool:
        """Tell whether an argument can be passed for this parameter."""
        if isinstance(value, DeviceArray | ArrayView) or (isinstance(value, np.ndarray) and value.ndim):
            return bool(len(value.shape) == self.ndim and value.dtype == self.dtype)
        kind = np.asarray(value).dtype.kind
        if self.ndim or kind not in "biufc":
            return False
        return "biufc".index(kind) <= max("biufc".index(self.dtype.kind), 2)

    def passed(self, value: Any) -> Any:
        """Return the argument as the kernel gets it: a number in the parameter's type."""
        return value if self.ndim else np.asarray(value).astype(self.dtype)[()]


Signature = tuple[Parameter, ...]


def is_signature(given: Any) -> bool:
    """Tell whether this is a signature, or a list of signatures: a text, or types."""
    if isinstance(given, str | list | tuple | NumberType):
        return True
    return type(given).__module__.startswith("numba.") and (hasattr(given, "args") or hasattr(given, "name"))


def signatures(given: Any) -> list[Signature]:
    """Return the signatures that a decorator was given.

    Raises
    ------
    TypeError
        For a signature that cannot be read, or a kernel that returns something.

    Examples
    --------
    >>> [str(p) for p in signatures("void(float32[:,::1], i4)")[0]]
    ['float32[:, :]', 'int32']
    >>> [[str(p) for p in one] for one in signatures(["(f4[:],)", "(f8[:],)"])]
    [['float32[:]'], ['float64[:]']]
    """
    if isinstance(given, list):
        return [one for item in given for one in signatures(item)]
    if isinstance(given, str):
        return [_read(given)]
    if isinstance(given, tuple) and not isinstance(given, SignatureType | ArrayType):
        return [tuple(_parameter(x) for x in given)]
    if hasattr(given, "args"):
        return [tuple(_parameter(x) for x in given.args)]
    return [(_parameter(given),)]


def _parameter(kind: Any) -> Parameter:
    """Parameter of a type: Numba's, NumPy's, or a text."""
    if isinstance(kind, str):
        return _read_parameter(kind, kind)
    element, ndim = getattr(kind, "dtype", None), getattr(kind, "ndim", 0)
    from_numba = type(kind).__module__.startswith("numba.") and isinstance(ndim, int) and ndim
    if from_numba or isinstance(kind, ArrayType):
        kind = element
    dtype = of_numba(kind)
    if dtype is None and isinstance(kind, type) and issubclass(kind, np.generic):
        dtype = np.dtype(kind)
    if dtype is None:
        raise TypeError(f"{kind!r} in a signature: possible are numbers and arrays of numbers, such as float32[:]")
    return Parameter(dtype, ndim if isinstance(ndim, int) else 0)


def _read(text: str) -> Signature:
    match = re.fullmatch(r"\s*(\w*)\s*\((.*)\)\s*", text)
    if match is None:
        raise TypeError(f"signature {text!r}: write void(types of the arguments), for example void(float32[:], int32)")
    parts = re.split(r",(?![^\[]*\])", match.group(2))
    return tuple(_read_parameter(part, text) for part in parts if part.strip())


def _read_parameter(part: str, text: str) -> Parameter:
    match = re.fullmatch(r"\s*(\w+)\s*(?:\[([:\d,\s]*)\])?\s*", part)
    name = None if match is None else match.group(1)
    try:
        dtype = np.dtype(_SHORT.get(name or "", name or ""))
    except TypeError:
        name = None
    if match is None or name is None:
        raise TypeError(
            f"signature {text!r}: {part.strip()!r} is no type; possible are int32, float64[:], float32[:, :], …"
        )
    return Parameter(dtype, 0 if match.group(2) is None else match.group(2).count(",") + 1)


def matching(kernel: str, choices: list[Signature], values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return arguments as the first signature that takes them passes them; raises `LaunchError` if none does."""
    for signature in choices:
        if len(signature) == len(values) and all(p.fits(v) for p, v in zip(signature, values, strict=True)):
            return tuple(p.passed(v) for p, v in zip(signature, values, strict=True))
    shown = " or ".join(f"({', '.join(map(str, signature))})" for signature in choices)
    raise LaunchError(
        f"kernel {kernel!r} is declared for {shown}, and got ({', '.join(map(_described, values))}): convert the "
        "arguments, for example a.astype(np.float32), or leave the signature out of @cuda.jit"
    )


def _described(value: Any) -> str:
    if isinstance(value, DeviceArray | ArrayView | np.ndarray) and len(value.shape):
        return str(Parameter(value.dtype, len(value.shape)))
    return type(value).__name__

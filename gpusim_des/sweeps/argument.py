"""Kernel arguments written as text: ``f32[n]:random``, ``i32:7``, ``1024``, ``true``, ``data.npy``."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import isinf
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpusim_des.errors import UsageError
from gpusim_des.gpu.schema import suggest
from gpusim_des.sweeps.expression import evaluate

DTYPES = {
    **{f"f{8 * n}": f"float{8 * n}" for n in (2, 4, 8)},
    **{f"{letter}{8 * n}": f"{word}{8 * n}" for letter, word in (("i", "int"), ("u", "uint")) for n in (1, 2, 4, 8)},
    "c64": "complex64",
    "c128": "complex128",
    "bool": "bool",
}
"""Short names of types → NumPy's, which may be written as well."""

FILLS = ("zeros", "ones", "arange", "random", "random(SEED)", "empty", "a number")
"""What an array can hold."""

LONGEST_NUMBER = 27
"""Characters of a whole number; 64 bits need 20 and, in groups of three, six ``_`` between them."""

_ARRAY = re.compile(r"(?P<dtype>\w+)\[(?P<shape>[^\[\]]+)\](?::(?P<fill>.+))?")
_TYPED = re.compile(r"(?P<dtype>[a-z]\w*):(?P<value>[^:]+)")
_SEED = re.compile(r"random\((\d{1,18})\)")


@dataclass(frozen=True)
class ArraySpec:
    """An array that is to be made: its sizes may be expressions."""

    dtype: str
    shape: str
    fill: str


def parse_argument(name: str, text: str) -> ArraySpec | NDArray[Any] | Any:
    """Read the text of an argument: an array to be made, an array from a file, a number, or an expression (a text).

    Raises
    ------
    UsageError
        For a form that is not known, a wrong type, or a file that is no array.

    Examples
    --------
    >>> parse_argument("x", "f32[n]:random")
    ArraySpec(dtype='float32', shape='n', fill='random')
    >>> parse_argument("n", "1024"), parse_argument("a", "2.5"), parse_argument("m", "n // 2")
    (1024, 2.5, 'n // 2')
    """
    text = text.strip()
    if array := _ARRAY.fullmatch(text):
        fill = (array["fill"] or "zeros").strip()
        if fill not in FILLS and not _SEED.fullmatch(fill) and _number(name, fill) is None:
            raise UsageError(f"{name} = {text!r}: {fill!r} is no content of an array: {', '.join(FILLS)}")
        return ArraySpec(_dtype(name, array["dtype"]), array["shape"], fill)
    if text.endswith(".npy"):
        return _load(name, text)
    if typed := _TYPED.fullmatch(text):
        number = _number(name, typed["value"].strip())
        if number is None:
            raise UsageError(f"{name} = {text!r}: {typed['value']!r} is no number; write for example {name}=f32:2.5")
        return _cast(name, number, _dtype(name, typed["dtype"]))
    if re.match(r"\w+\[[^\]]*$", text):
        raise UsageError(f"{name} = {text!r}: the ] is missing; write for example {name}=f32[1024]:random")
    number = _number(name, text)
    if number is not None:
        return number
    if not text:
        raise UsageError(f"{name} has no value: write for example {name}=1024 or {name}=f32[1024]:random")
    return text


def _number(name: str, text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    if len(text) <= LONGEST_NUMBER and re.fullmatch(r"[+-]?[0-9]+(_[0-9]+)*", text):
        return int(text)
    try:
        return finite(text, f"{name} = ")
    except ValueError as error:
        if isinstance(error, UsageError):
            raise
        return None


def finite(text: str, where: str = "") -> float:
    """Read a number with a fraction or an exponent; infinity only where it is written.

    Raises
    ------
    UsageError
        For a number beyond what float64 holds.
    ValueError
        For other texts.

    Examples
    --------
    >>> finite("1e3"), finite("-inf")
    (1000.0, -inf)
    >>> finite("1e999")
    Traceback (most recent call last):
        ...
    gpusim_des.errors.UsageError: 1e999: beyond float64, which ends at 1.8e308; write inf where infinity is meant
    """
    number = float(text)
    if isinf(number) and "inf" not in text.lower():
        raise UsageError(f"{where}{text}: beyond float64, which ends at 1.8e308; write inf where infinity is meant")
    return number


def _dtype(name: str, text: str) -> str:
    known = {**DTYPES, **{long: long for long in DTYPES.values()}}
    if text not in known:
        raise UsageError(f"{name}: there is no type {text!r}: {suggest(text, list(known))}; {', '.join(DTYPES)}")
    return known[text]


def _cast(name: str, number: Any, dtype: str) -> Any:
    kind = np.dtype(dtype)
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        if number % 1 != 0 or not limits.min <= number <= limits.max:
            raise UsageError(f"{name} = {number}: does not fit {dtype}, whole numbers {limits.min} to {limits.max}")
    return kind.type(number)


def _load(name: str, path: str) -> NDArray[Any]:
    try:
        array = np.load(Path(path), allow_pickle=False)
    except FileNotFoundError:
        raise UsageError(f"{name}: there is no file {path!r}") from None
    except (ValueError, EOFError, OSError) as error:
        raise UsageError(f"{name}: {path!r} is no array of numbers ({error}); write it with numpy.save") from None
    if not isinstance(array, np.ndarray):
        raise UsageError(f"{name}: {path!r} holds no array; write it with numpy.save")
    return array


def make_arguments(specs: Mapping[str, Any]) -> dict[str, Any]:
    """Turn parsed arguments into numbers and arrays; expressions may use numbers that stand before them.

    Arrays of one name, type and size hold the same in every run.

    Raises
    ------
    UsageError
        For an expression that cannot be computed, or an array without elements.

    Examples
    --------
    >>> made = make_arguments({"n": 4, "m": "n // 2", "x": ArraySpec("int32", "m, n", "arange")})
    >>> made["m"], made["x"].tolist()
    (2, [[0, 1, 2, 3], [4, 5, 6, 7]])
    """
    numbers = plain_numbers(specs)
    return {
        name: make_array(name, value, numbers) if isinstance(value, ArraySpec) else numbers.get(name, value)
        for name, value in specs.items()
    }


def plain_numbers(specs: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments that are numbers, expressions computed; raises `UsageError`.

    >>> plain_numbers({"n": 8, "x": ArraySpec("int32", "n", "zeros"), "m": "n // 2"})
    {'n': 8, 'm': 4}
    """
    numbers: dict[str, Any] = {}
    for name, value in specs.items():
        if isinstance(value, str):
            sizes = evaluate(value, numbers, name)
            if len(sizes) != 1:
                raise UsageError(f"{name} = {value!r}: one number, not {len(sizes)}")
            numbers[name] = sizes[0]
        elif not isinstance(value, ArraySpec | np.ndarray):
            numbers[name] = value
    return numbers


def plain_spec(name: str, spec: ArraySpec, numbers: Mapping[str, Any]) -> ArraySpec:
    """Write what an array is in one way only: sizes computed, ``zeros`` and ``ones`` as numbers; raises `UsageError`.

    >>> plain_spec("x", ArraySpec("float32", "2*n", "zeros"), {"n": 4})
    ArraySpec(dtype='float32', shape='8', fill='0.0')
    """
    shape = ",".join(map(str, evaluate(spec.shape, numbers, f"size of {name}")))
    fill = spec.fill
    if fill in ("random", "random(0)"):
        fill = "random"
    elif fill == "arange" and set(shape.split(",")) == {"1"}:
        fill = repr(_cast(name, 0, spec.dtype).item())
    elif (number := {"zeros": 0, "ones": 1}.get(fill, _number(name, fill))) is not None:
        fill = repr(_cast(name, number, spec.dtype).item())
    return ArraySpec(spec.dtype, shape, fill)


def spec_of(array: NDArray[Any]) -> ArraySpec | None:
    """Write an array as `plain_spec` writes it, if its elements are all the same or 0, 1, 2, …; ``None`` for others.

    >>> spec_of(np.ones((2, 4), np.float32)), spec_of(np.array([0, 1, 3]))
    (ArraySpec(dtype='float32', shape='2,4', fill='1.0'), None)
    """
    if array.dtype.name not in DTYPES.values() or not array.dtype.isnative or not array.size:
        return None
    spec = ArraySpec(array.dtype.name, ",".join(map(str, array.shape)), "arange")
    flat = np.ascontiguousarray(array).reshape(-1)
    data, width = flat.view(np.uint8), array.itemsize
    number = flat[0].item()
    # By their bytes: 0.0 equals -0.0, no nan equals another one, and not all are what a text can say.
    said = array.dtype.type(number if number == number else np.nan)  # noqa: PLR0124 - nan is not
    if np.array_equal(data[width:], data[:-width]) and said.tobytes() == data[:width].tobytes():
        return replace(spec, fill=repr(number))
    counted = flat[-1] == array.dtype.type(flat.size - 1) and np.array_equal(
        data, np.arange(flat.size).astype(array.dtype).view(np.uint8)
    )
    return spec if counted else None


MOST_BYTES = 2**34
"""Largest array that is made: 16 GiB; larger ones are a slip of the pen."""


def make_array(name: str, spec: ArraySpec, numbers: Mapping[str, Any]) -> NDArray[Any] | ArraySpec:
    """Make an array; raises `UsageError`. One of ``empty`` keeps its spec with plain sizes: the device makes it."""
    shape = evaluate(spec.shape, numbers, f"size of {name}")
    if min(shape) < 1:
        raise UsageError(f"{name}: an array of sizes {shape}: each must be at least 1")
    dtype = np.dtype(spec.dtype)
    nbytes = dtype.itemsize
    for size in shape:
        nbytes *= size
    if nbytes > MOST_BYTES:
        raise UsageError(f"{name}: an array of sizes {shape} has {nbytes:,} bytes: at most {MOST_BYTES:,}")
    if spec.fill == "empty":
        return ArraySpec(spec.dtype, ", ".join(map(str, shape)), "empty")
    if spec.fill == "arange":
        return np.arange(nbytes // dtype.itemsize).astype(dtype).reshape(shape)
    if spec.fill.startswith("random"):
        seed = _SEED.fullmatch(spec.fill)
        return _random(dtype, shape, [zlib.crc32(name.encode()), int(seed[1]) if seed else 0])
    fill = {"zeros": 0, "ones": 1}.get(spec.fill)
    return np.full(shape, _cast(name, _number(name, spec.fill), spec.dtype) if fill is None else fill, dtype)


def _random(dtype: np.dtype[Any], shape: tuple[int, ...], seed: list[int]) -> NDArray[Any]:
    generator = np.random.default_rng(seed)
    if dtype.kind in "iu":
        return generator.integers(0, 100, shape).astype(dtype)
    if dtype.kind == "b":
        return generator.integers(0, 2, shape).astype(dtype)
    return generator.random(shape).astype(dtype)

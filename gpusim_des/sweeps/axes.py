"""What a sweep varies: a list is an axis, everything else is one value, and all axes are combined."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from math import isfinite
from os import PathLike
from typing import Any, NamedTuple, get_args

import numpy as np

from gpusim_des.errors import SweepError
from gpusim_des.functional.sampling import checked
from gpusim_des.gpu import GPU, PARAMETERS, SCHEDULER_POLICIES, load_gpu
from gpusim_des.gpu.schema import suggest
from gpusim_des.sweeps.argument import ArraySpec, parse_argument
from gpusim_des.sweeps.configuration import Configuration
from gpusim_des.sweeps.expression import check_expression, is_whole
from gpusim_des.sweeps.gpu_label import gpu_labels
from gpusim_des.timing.choice import Engine
from gpusim_des.timing.simulate import Caches

MOST = 1_000_000
"""Configurations of a sweep; more are a slip of the pen."""

MOST_SIZES = 64
"""Of an array; NumPy takes no more (since 2.0)."""

MOST_BITS = 64
"""Of a whole number; no size, and no number of a kernel, has more."""

DEFAULTS: dict[str, Any] = {
    "gpu": "h100-sxm",
    "sms": None,
    "grid": None,
    "block": None,
    "registers": None,
    "shared": 0,
    "policy": None,
    "caches": "on",
    "engine": "auto",
    "sample": None,
}
"""Axes beside parameters of the GPU and arguments of the kernel, with what they are where nothing is said."""

CHOICES = {"policy": SCHEDULER_POLICIES, "caches": get_args(Caches), "engine": get_args(Engine)}
"""Axes that have few values."""


class Planned(NamedTuple):
    """A configuration, and the columns of its row that say which it is."""

    columns: dict[str, Any]
    configuration: Configuration


def plan(
    axes: Mapping[str, Any], args: Mapping[str, Any], parameters: Mapping[str, Any] | None = None
) -> list[Planned]:
    """Combine all axes, the last one varying fastest.

    Parameters
    ----------
    axes
        By the names in `DEFAULTS`: a value, or a list, a range or an array of them.
    args
        Arguments of the kernel, the same way, but for arrays, which are arguments; texts are read as the command line
        reads them.
    parameters
        Of the GPU, by the names that `GPU.replace` takes, a value or several.

    Raises
    ------
    SweepError
        For a name that is no axis or no parameter, an empty axis, no grid or block, or too many combinations.
    UsageError, ModelError
        For an argument or a GPU that cannot be read.

    Examples
    --------
    >>> rows = plan({"gpu": "tiny", "grid": "n", "block": [32, 64]}, {"n": [1, 2], "x": "f32[n]"})
    >>> [(row.columns["block"], row.columns["arg_n"]) for row in rows]
    [(32, 1), (32, 2), (64, 1), (64, 2)]
    """
    unknown = next((name for name in axes if name not in DEFAULTS), None)
    if unknown is not None:
        raise SweepError(
            f"a sweep has no axis {unknown!r}: {suggest(unknown, DEFAULTS)}; arguments of the kernel go to args, "
            "parameters of the GPU to parameters"
        )
    chosen = {**DEFAULTS, **axes}
    for name in ("grid", "block"):
        if chosen[name] is None:
            raise SweepError(f"{name} is missing: a number, a tuple, an expression such as 'cdiv(n, block)', or a list")
    _check_parameters(parameters or {}, chosen["policy"])
    values = {name: _values(name, value) for name, value in chosen.items()}
    values |= {f"gpu_{name}": _values(f"parameters[{name!r}]", value) for name, value in (parameters or {}).items()}
    values |= {f"arg_{name}": _values(f"args[{name!r}]", value) for name, value in args.items()}
    combinations = 1
    for several in values.values():
        combinations *= len(several)
    if combinations > MOST:
        raise SweepError(
            f"{combinations:,} combinations: at most {MOST:,}; shorten some axes, or sweep one part at a time"
        )
    columns = {name: _column(name, several) for name, several in values.items()}
    _check_expressions({name: [value for _, value in several] for name, several in columns.items()})
    return _combined(columns)


def _check_parameters(parameters: Mapping[str, Any], policy: Any) -> None:
    """Refuse names that are none, and two for one thing."""
    fields: dict[str, str] = {} if policy is None else {"scheduler_policy": "policy"}
    for name in parameters:
        if name not in PARAMETERS:
            raise SweepError(f"parameters: a GPU has no parameter {name!r}: {suggest(str(name), PARAMETERS)}")
        if PARAMETERS[name] in fields:
            raise SweepError(
                f"parameters: {name!r} and {fields[PARAMETERS[name]]!r} are two names of one thing: leave one out"
            )
        fields[PARAMETERS[name]] = name


def _check_expressions(values: Mapping[str, Sequence[Any]]) -> None:
    """Refuse texts that are no sizes in any combination, before anything is measured."""
    whole: list[str] = []
    for name in (name for name in values if name.startswith("arg_")):
        own = name.removeprefix("arg_")
        for value in values[name]:
            if isinstance(value, str):
                check_expression(value, whole, own, 1)
            elif isinstance(value, ArraySpec):
                check_expression(value.shape, whole, f"size of {own}", MOST_SIZES)
        if any(isinstance(value, str) or is_whole(value) for value in values[name]):
            whole.append(own)
    for name, more in (("block", ()), ("grid", ("block", "block_x", "block_y", "block_z"))):
        for value in values[name]:
            if isinstance(value, str):
                check_expression(value, [*whole, *more], name, 3)


def _values(name: str, value: Any) -> Sequence[Any]:
    """All values of an axis: what is no list, range or array is one value."""
    if isinstance(value, np.ndarray) and value.ndim == 1 and not name.startswith("args["):
        value = value.tolist()
    if isinstance(value, list | range):
        if not value:
            raise SweepError(f"{name} = {value!r}: an axis has at least one value")
        return value
    single = str | bytes | np.ndarray if name.startswith("args[") else str | tuple
    if isinstance(value, Iterable) and not isinstance(value, single):
        raise SweepError(f"{name} = {value!r}: several values are a list, a range or an array with one dimension")
    return [value]


def _column(name: str, several: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Values of an axis as rows show them, and as a configuration takes them."""
    read = [_read(name, value) for value in several]
    shown = gpu_labels(several, read) if name == "gpu" else map(_shown, several)
    return list(zip(shown, read, strict=True))


def _read(name: str, value: Any) -> Any:
    """Value that a configuration takes, from what was written."""
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        raise SweepError(f"{name.replace('_', ' ', 1)}: a whole number of {value.bit_length():,} bits: at most 64")
    if name.startswith("arg_"):
        return parse_argument(name.removeprefix("arg_"), value) if isinstance(value, str) else _plain(name, value)
    if name == "gpu":
        return _gpu(value)
    if isinstance(value, np.generic):  # of an array: JSON knows Python's numbers only
        value = value.item()
    if isinstance(value, tuple) and name not in ("grid", "block") and not name.startswith("gpu_"):
        raise SweepError(f"{name} = {value!r}: several values are a list, {list(value)!r}")
    if name in ("grid", "block"):
        _check_size(name, value)
    if name == "sample" and value is not None:
        checked(value)
    _check_value(name, value)
    return value


def _gpu(value: Any) -> GPU:
    if not isinstance(value, str | PathLike | GPU):
        raise SweepError(f"gpu = {value!r}: a name, the path of a .toml file, or a GPU")
    return load_gpu(value)


def _check_size(name: str, value: Any) -> None:
    parts = value if isinstance(value, tuple) else (value,)
    if not isinstance(value, str) and not all(map(is_whole, parts)):
        raise SweepError(f"{name} = {value!r}: whole numbers, or an expression such as 'cdiv(n, block)'")


def _check_value(name: str, value: Any) -> None:
    if name in CHOICES and value not in (*CHOICES[name], DEFAULTS[name]):
        raise SweepError(f"{name} = {value!r}: possible are {', '.join(CHOICES[name])}")
    if name in ("registers", "shared", "sms") and not is_whole(value) and value is not DEFAULTS[name]:
        raise SweepError(f"{name} = {value!r}: must be a whole number")
    if name.startswith("gpu_") and not isinstance(value, str | int | float | tuple):
        raise SweepError(f"parameters[{name.removeprefix('gpu_')!r}] = {value!r}: a number, or a text such as '3 TB/s'")


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.dtype.hasobject:
        raise SweepError(
            f"{name.replace('_', ' ', 1)}: an array of Python objects ({value.dtype}): a kernel takes numbers; give it "
            "a type, np.asarray(..., dtype=np.float32)"
        )
    if isinstance(value, np.ndarray) and not value.ndim:  # a number in an array's clothes
        return value[()]
    if isinstance(value, np.ndarray | np.generic | int | float | complex | bool | ArraySpec):
        return value
    raise SweepError(
        f"{name.replace('_', ' ', 1)} = {value!r}: a number, a NumPy array, a text such as 'f32[n]:random', or a list"
    )


def _shown(value: Any) -> Any:
    """Value as a row has it: numbers and texts as they are, others as a text."""
    if isinstance(value, np.ndarray) and value.ndim:
        return f"{value.dtype}[{', '.join(map(str, value.shape))}]"
    if isinstance(value, np.generic | np.ndarray):
        value = value.item()
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    if value is None or isinstance(value, str | int) or (isinstance(value, float) and isfinite(value)):
        return value
    return str(value)  # JSON has no nan


def _combined(axes: Mapping[str, Sequence[tuple[Any, Any]]]) -> list[Planned]:
    """All combinations of the axes' values, each as rows show it and as a configuration takes it."""
    places = {name: place for place, name in enumerate(axes)}
    own = [(name, places[name]) for name in DEFAULTS]
    of_gpu, of_kernel = (
        [(name.removeprefix(start), place) for name, place in places.items() if name.startswith(start)]
        for start in ("gpu_", "arg_")
    )
    planned = []
    for chosen in product(*axes.values()):
        args, parameters, rest = ({n: chosen[k][1] for n, k in several} for several in (of_kernel, of_gpu, own))
        columns = dict(zip(axes, (shown for shown, _ in chosen), strict=True))
        planned.append(Planned(columns, Configuration(args=args, parameters=parameters, **rest)))
    return planned

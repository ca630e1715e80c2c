"""What a sweep varies: a list is an axis, everything else is one value, and all axes are combined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple, get_args

import numpy as np

from gpusim_des.errors import SweepError
from gpusim_des.gpu import GPU, load_gpu
from gpusim_des.gpu.schema import suggest
from gpusim_des.sweeps.argument import ArraySpec, parse_argument
from gpusim_des.sweeps.configuration import Configuration
from gpusim_des.timing.choice import Engine
from gpusim_des.timing.simulate import Caches

MOST = 1_000_000
"""Configurations of a sweep; more are a slip of the pen."""

DEFAULTS: dict[str, Any] = {
    "gpu": "h100-sxm",
    "sms": None,
    "grid": None,
    "block": None,
    "registers": None,
    "shared": 0,
    "caches": "on",
    "engine": "auto",
    "sample": None,
}
"""Axes beside the kernel's arguments, with what they are where nothing is said."""


class Planned(NamedTuple):
    """A configuration, and the columns of its row that say which it is."""

    columns: dict[str, Any]
    configuration: Configuration


def plan(axes: Mapping[str, Any], args: Mapping[str, Any]) -> list[Planned]:
    """Combine all axes, the last one varying fastest.

    Parameters
    ----------
    axes
        By the names in `DEFAULTS`: a value, or a list of them.
    args
        Arguments of the kernel, the same way; texts are read as the command line reads them.

    Raises
    ------
    SweepError
        For a name that is no axis, an empty axis, no grid or block, or too many combinations.
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
            f"a sweep has no axis {unknown!r}: {suggest(unknown, DEFAULTS)}; arguments of the kernel go to args"
        )
    chosen = {**DEFAULTS, **axes}
    for name in ("grid", "block"):
        if chosen[name] is None:
            raise SweepError(f"{name} is missing: a number, a tuple, an expression such as 'cdiv(n, block)', or a list")
    values = {name: _values(name, value) for name, value in chosen.items()}
    values |= {f"arg_{name}": _values(f"args[{name!r}]", value) for name, value in args.items()}
    combinations = 1
    for several in values.values():
        combinations *= len(several)
    if combinations > MOST:
        raise SweepError(
            f"{combinations:,} combinations: at most {MOST:,}; shorten some axes, or sweep one part at a time"
        )
    read = [[(_shown(value), _read(name, value)) for value in several] for name, several in values.items()]
    return [_planned(dict(zip(values, combination, strict=True))) for combination in product(*read)]


def _values(name: str, value: Any) -> Sequence[Any]:
    if not isinstance(value, list):
        return [value]
    if not value:
        raise SweepError(f"{name} = []: an axis has at least one value")
    return value


def _read(name: str, value: Any) -> Any:
    """Value that a configuration takes, from what was written."""
    if name.startswith("arg_"):
        return parse_argument(name.removeprefix("arg_"), value) if isinstance(value, str) else _plain(name, value)
    if name == "gpu":
        return load_gpu(value)
    if name in ("caches", "engine") and value not in get_args(Caches if name == "caches" else Engine):
        raise SweepError(
            f"{name} = {value!r}: possible are {', '.join(get_args(Caches if name == 'caches' else Engine))}"
        )
    if name in ("registers", "shared", "sms") and not (value is None or _is_whole(value)):
        raise SweepError(f"{name} = {value!r}: must be a whole number")
    return value


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic | int | float | complex | bool | ArraySpec):
        return value
    raise SweepError(
        f"{name.replace('_', ' ', 1)} = {value!r}: a number, a NumPy array, a text such as 'f32[n]:random', or a list"
    )


def _is_whole(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _shown(value: Any) -> Any:
    """Value as a row has it: numbers and texts as they are, others as a text."""
    if isinstance(value, GPU):
        return value.title if value.changed or value.slice_of else value.name
    if isinstance(value, np.ndarray):
        return f"{value.dtype}[{', '.join(map(str, value.shape))}]"
    if isinstance(value, np.generic):
        return value.item()
    return (
        value
        if value is None or isinstance(value, str | int | float)
        else ",".join(map(str, value))
        if isinstance(value, tuple)
        else str(value)
    )


def _planned(chosen: Mapping[str, tuple[Any, Any]]) -> Planned:
    value = {name: read for name, (_, read) in chosen.items()}
    args = {name.removeprefix("arg_"): read for name, read in value.items() if name.startswith("arg_")}
    rest = {name: value[name] for name in DEFAULTS}
    return Planned({name: shown for name, (shown, _) in chosen.items()}, Configuration(args=args, **rest))

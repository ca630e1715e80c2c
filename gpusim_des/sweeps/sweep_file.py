"""Sweeps in TOML files: the same axes as `gpusim_des.sweep`, and the kernel's place."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

from gpusim_des.errors import SimError, UsageError
from gpusim_des.functional.block_kernel import KernelFunction
from gpusim_des.gpu.schema import suggest
from gpusim_des.sweeps.argument import finite
from gpusim_des.sweeps.axes import DEFAULTS, Planned, plan
from gpusim_des.sweeps.configuration import check_arguments
from gpusim_des.sweeps.kernel_file import load_kernel

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

KEYS = ("kernel", *DEFAULTS, "parameters", "args")


class SweepFile(NamedTuple):
    """What a file asks for."""

    kernel: KernelFunction
    planned: list[Planned]


def read_sweep_file(path: Path) -> SweepFile:
    """Read a sweep from a file; paths in it begin at its folder.

    Raises
    ------
    UsageError
        If it is no TOML, has an unknown key, or lacks one.
    SweepError, UsageError, ModelError, LaunchError
        As `gpusim_des.sweep`, with the file and the line.
    """
    text = _text(path)
    document = _document(text, path)
    unknown = next((key for key in document if key not in KEYS), None)
    if unknown is not None:
        raise UsageError(
            f"{path}: unknown key {unknown!r}: {suggest(unknown, KEYS)}; arguments of the kernel go to [args], "
            "parameters of the GPU to [parameters]"
        )
    for key in ("kernel", "grid", "block"):
        if key not in document:
            raise UsageError(f"{path}: the key {key} is missing, for example {_EXAMPLES[key]}")
    kernel = document.pop("kernel")
    tables = {name: document.pop(name, {}) for name in ("args", "parameters")}
    if not isinstance(kernel, str):
        raise UsageError(f"{path}: kernel = {kernel!r}: write {_EXAMPLES['kernel']}")
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise UsageError(f"{path}: {name} = {table!r}: must be a table, [{name}]")
    axes = {name: _axis(name, value, path) for name, value in document.items()}
    args = {name: _argument(name, value, path) for name, value in tables["args"].items()}
    parameters = {name: _axis(name, value, path) for name, value in tables["parameters"].items()}
    loaded = load_kernel(kernel, path.parent)
    try:
        check_arguments(loaded, args)
        return SweepFile(loaded, plan(axes, args, parameters))
    except SimError as error:
        raise type(error)(f"{path}{_line(text, str(error))}: {error}") from None


_NAMED = re.compile(
    r"(?:size of |arg |args\['|parameters\['|parameters: a GPU has no parameter '|.* has no argument ')?(\w+)"
)
"""What a message is about: its first word, or the one behind these."""


def _line(text: str, message: str) -> str:
    """Where in a file that is which a message is about, as far as it shows."""
    named = _NAMED.match(message)
    name = "gpu" if "GPU model" in message[:25] else named and named[1]
    key = re.compile(rf"\s*[\"']?{name}[\"']?\s*=")
    return next((f", line {number}" for number, line in enumerate(text.splitlines(), 1) if key.match(line)), "")


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UsageError(f"there is no sweep file {path}") from None
    except IsADirectoryError:
        raise UsageError(f"{path}: this is a folder; name a sweep's file in it, FILE.toml") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not a TOML file: {error}") from None


def _document(text: str, path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(text, parse_float=finite)
    except UsageError as error:
        number = str(error).partition(":")[0]
        lines = (n for n, line in enumerate(text.splitlines(), 1) if number in line)
        raise UsageError(f"{path}, line {next(lines)}: {error}") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"{path}: not a TOML file: {error}") from None
    except ValueError:  # Python's own limit
        raise UsageError(f"{path}: a whole number of thousands of digits: at most 64 bits are possible") from None


_EXAMPLES = {
    "kernel": 'kernel = "kernels.py:vector_add"',
    "grid": 'grid = "cdiv(n, block)"',
    "block": "block = [64, 128, 256]",
}


def _axis(name: str, value: Any, path: Path) -> Any:
    """A list is an axis; a list in it is the sizes in x, y and z."""
    if isinstance(value, dict):
        raise UsageError(f"{path}: [{name}] is a table: {name} takes a value or a list of values")
    if not isinstance(value, list):
        return _gpu_path(value, path) if name == "gpu" else value
    several = [tuple(v) if isinstance(v, list) else v for v in value]
    return [_gpu_path(v, path) for v in several] if name == "gpu" else several


def _gpu_path(value: Any, path: Path) -> Any:
    return str(path.parent / value) if isinstance(value, str) and value.endswith(".toml") else value


def _argument(name: str, value: Any, path: Path) -> Any:
    if isinstance(value, dict) or (isinstance(value, list) and any(isinstance(v, list | dict) for v in value)):
        raise UsageError(
            f'{path}: args.{name} = {value!r}: a number, a text such as "f32[n]:random", or a list of them'
        )
    if isinstance(value, list):
        return [_argument(name, v, path) for v in value]
    return str(path.parent / value) if isinstance(value, str) and value.endswith(".npy") else value

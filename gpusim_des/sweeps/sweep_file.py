"""Sweeps in TOML files: the same axes as `gpusim_des.sweep`, and the kernel's place."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NamedTuple

from gpusim_des.errors import UsageError
from gpusim_des.functional.block_kernel import KernelFunction
from gpusim_des.gpu.schema import suggest
from gpusim_des.sweeps.axes import DEFAULTS
from gpusim_des.sweeps.kernel_file import load_kernel

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

KEYS = ("kernel", *DEFAULTS, "parameters", "args")


class SweepFile(NamedTuple):
    """What a file asks for."""

    kernel: KernelFunction
    axes: dict[str, Any]
    args: dict[str, Any]
    parameters: dict[str, Any]


def read_sweep_file(path: Path) -> SweepFile:
    """Read a sweep from a file; paths in it begin at its folder.

    Raises
    ------
    UsageError
        If it is no TOML, has an unknown key, or lacks one.
    """
    document = _document(path)
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
    return SweepFile(load_kernel(kernel, path.parent), axes, args, parameters)


def _document(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"there is no sweep file {path}") from None
    except IsADirectoryError:
        raise UsageError(f"{path}: this is a folder; name a sweep's file in it, FILE.toml") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
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

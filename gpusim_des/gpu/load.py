"""Reads GPU models from TOML files and finds those that are shipped."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple, Union

from gpusim_des.errors import ModelError
from gpusim_des.gpu.model import GPU
from gpusim_des.gpu.parameters import Pipe
from gpusim_des.gpu.schema import ALL_KEYS, KEYS, PIPE_KEYS, SECTIONS, Key, suggest
from gpusim_des.gpu.values import FieldValue, Written, example, read_value
from gpusim_des.units import exact

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Entries = dict[str, tuple[object, str, Path]]
"""Key label → raw value, source and the file that says so."""

GPULike = Union[str, "os.PathLike[str]", GPU]
"""A name, a path or a model."""


def models_folder() -> Path:
    """Folder of the shipped models.

    A wheel has them inside the package; in a checkout and an editable install they lie beside it.
    """
    package = Path(__file__).resolve().parent.parent
    for folder in (package / "models", package.parent / "models"):
        if (folder / "compute_capability").is_dir():
            return folder
    raise ModelError(f"no folder of GPU models in {package} or beside it: the installation is incomplete")


def list_gpus() -> tuple[str, ...]:
    """Names of the shipped GPU models, sorted.

    >>> "tiny" in list_gpus()
    True
    """
    return tuple(sorted(path.stem for path in models_folder().glob("*.toml")))


def load_gpu(name_or_path: GPULike) -> GPU:
    """Load a GPU model.

    Parameters
    ----------
    name_or_path
        A name from `list_gpus`, the path of a ``.toml`` file, or a GPU, which is returned as it is.

    Raises
    ------
    ModelError
        If there is no such model, or if the file breaks a rule; the message names file, key, value and rule.

    Examples
    --------
    >>> load_gpu("tiny").sms
    2
    """
    return name_or_path if isinstance(name_or_path, GPU) else _load_file(model_file(name_or_path))


def model_file(name_or_path: str | os.PathLike[str]) -> Path:
    """File of a GPU model: of a shipped one by its name, or a ``.toml`` file; raises `ModelError` if there is none."""
    if not isinstance(name_or_path, (str, os.PathLike)):
        raise ModelError(f"load_gpu({name_or_path!r}): give a name, the path of a .toml file or a GPU")
    text = os.fspath(name_or_path)
    if isinstance(name_or_path, os.PathLike) or text.endswith(".toml") or "/" in text or os.sep in text:
        path = Path(text)
        if not path.is_file():
            raise ModelError(f"there is no GPU model file {text!r}; shipped models: {', '.join(list_gpus())}")
        return path
    names = list_gpus()
    if text not in names:
        hint = suggest(text, names)
        known = "" if hint.startswith("known") else f"; known: {', '.join(names)}"
        raise ModelError(
            f"there is no GPU model {text!r}: {hint}{known}; a file of your own is given by a path that ends in .toml"
        )
    return models_folder() / f"{text}.toml"


class WrittenEntry(NamedTuple):
    """A parameter as its file says it."""

    label: str
    """Key with its table, ``memory.l2_size``."""
    value: str
    source: str
    """Where the number comes from; empty where the file does not say."""
    file: Path


def written_entries(name_or_path: str | os.PathLike[str]) -> tuple[WrittenEntry, ...]:
    """Return every parameter of a model as it is written, with its source; those of its architecture included.

    Raises
    ------
    ModelError
        As `load_gpu`.

    Examples
    --------
    >>> entries = {entry.label: entry for entry in written_entries("h100-sxm")}
    >>> entries["sm_clock"].value, entries["memory.dram_latency"].source.startswith("markdewing/AI_kernels")
    ('1.98 GHz', True)
    >>> entries["sm.max_warps_per_sm"].file.name
    '9.0.toml'
    """
    path = model_file(name_or_path)
    _load_file(path)  # refuses a file that breaks a rule
    own = read_entries(path)
    inherited = {label: entry for label, entry in _inherited(own, path).items() if label not in own}
    return tuple(
        WrittenEntry(label, _as_written(raw), source, file)
        for label, (raw, source, file) in {**own, **inherited}.items()
    )


def _load_file(path: Path) -> GPU:
    own = read_entries(path)
    inherited = _inherited(own, path)
    entries: Entries = {**inherited, **own}  # keys in the GPU's own file win
    missing = next((key for key in ALL_KEYS if not key.optional and key.label not in entries), None)
    if missing is not None:
        known = ", ".join(capabilities())
        table = "" if inherited else f"; there is no table for its compute capability, known: {known}"
        raise ModelError(f"{path}: the key {_missing(missing)}{table}")
    clock = field_value(_KEYS["sm_clock"], *entries["sm_clock"])
    assert isinstance(clock, int)
    values: dict[str, Any] = {label: field_value(_KEYS[label], *entry, clock) for label, entry in entries.items()}
    try:
        gpu = GPU(
            name=path.stem,
            **{key.field: values[key.label] for key in KEYS if key.field and key.label in values},
            pipes=tuple(_pipe(pipe, values) for pipe in PIPE_KEYS),
            source_notes=tuple((_KEYS[label].field, entries[label][1]) for label in entries if entries[label][1]),
        )
        _check_channel_bandwidth(gpu, values, entries)
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None
    return gpu


def _as_written(raw: object) -> str:
    if isinstance(raw, list):
        return ", ".join(map(_as_written, raw))
    return repr(raw) if isinstance(raw, Written) else str(raw)


_KEYS: dict[str, Key] = {key.label: key for key in ALL_KEYS}


def _missing(key: Key) -> str:
    place = f" under [{key.section}]" if key.section else " at the top"
    return f"{key.label} is missing, for example {example(key)}{place}"


def capabilities() -> tuple[str, ...]:
    """Compute capabilities that there is a table for, from the oldest to the newest.

    >>> capabilities()[0], capabilities()[-1]
    ('3.5', '12.1')
    """
    folder = models_folder() / "compute_capability"
    # By number, so that 10.0 comes after 9.0.
    return tuple(sorted((path.stem for path in folder.glob("*.toml")), key=lambda name: [*map(int, name.split("."))]))


def _inherited(own: Entries, path: Path) -> Entries:
    if "compute_capability" not in own:
        raise ModelError(f"{path}: the key {_missing(_KEYS['compute_capability'])}")
    capability = field_value(_KEYS["compute_capability"], *own["compute_capability"])
    if capability not in capabilities():
        return {}
    return read_entries(models_folder() / "compute_capability" / f"{capability}.toml")


def read_entries(path: Path) -> Entries:
    """Read the keys of a file as they stand there; raises `ModelError` for a key that nobody knows."""
    text = ""
    try:
        text = path.read_text(encoding="utf-8")
        document = tomllib.loads(text, parse_float=_exact_number)
    except ModelError as error:
        number = str(error).partition(":")[0]
        line = next(n for n, line in enumerate(text.splitlines(), 1) if number in line)
        raise ModelError(f"{path}, line {line}: {error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ModelError(f"{path}: not a TOML file: {error}") from None
    except ValueError:  # Python's own limit
        raise ModelError(f"{path}: a whole number of thousands of digits: at most 64 bits are possible") from None
    entries: Entries = {}
    _collect(document, "", path, entries)
    return entries


def _exact_number(text: str) -> Fraction | float:
    if text.lstrip("+-") in ("inf", "nan"):  # which the schema then refuses
        return float(text)
    try:
        return Written(text, exact(text))
    except ValueError as error:
        raise ModelError(str(error)) from None


def _collect(table: Mapping[str, Any], section: str, path: Path, entries: Entries) -> None:
    for name, raw in table.items():
        label = f"{section}.{name}" if section else name
        number = raw.get("value") if isinstance(raw, dict) else raw
        if isinstance(number, int) and number.bit_length() > 64:  # perhaps too long to be written in a message
            raise ModelError(f"{path}: {label}: a whole number of {number.bit_length():,} bits: at most 64")
        if isinstance(raw, dict) and (label in SECTIONS or label == "pipes"):
            _collect(raw, label, path, entries)
        elif label not in _KEYS:
            raise ModelError(f"{path}: unknown {_shown(label, raw)}: {_nearest(label, section)}")
        else:
            entries[label] = (*_value_and_source(raw, label, path), path)


def _shown(label: str, raw: object) -> str:
    """Name what is unknown, with its value; the contents of a whole table would only hide the rest of the message."""
    if isinstance(raw, dict) and "value" not in raw:
        return f"table [{label}]"
    raw = raw["value"] if isinstance(raw, dict) else raw
    return f"key {label} = {raw!r}"


def _nearest(label: str, section: str) -> str:
    within = [known for known in (*_KEYS, *filter(None, SECTIONS)) if known.rpartition(".")[0] == section]
    everywhere = suggest(label, [*_KEYS, *filter(None, SECTIONS)])
    return everywhere if everywhere.startswith("did you mean") else suggest(label, within)


def _value_and_source(raw: object, label: str, path: Path) -> tuple[object, str]:
    if not isinstance(raw, dict):
        return raw, ""
    unknown = next((name for name in raw if name not in ("value", "source")), None)
    if unknown is not None:
        raise ModelError(f"{path}: {label} has the unknown entry {unknown!r}: {suggest(unknown, ('value', 'source'))}")
    if "value" not in raw:
        raise ModelError(f'{path}: {label} has no value: write it bare or as {{ value = ..., source = "..." }}')
    source = raw.get("source", "")
    if not isinstance(source, str):
        raise ModelError(f"{path}: {label} has the source {source!r}: must be a text")
    return raw["value"], source


def field_value(key: Key, raw: object, _source: str, path: Path, sm_clock_hz: int | None = None) -> FieldValue:
    """Read what stands behind a key; the message of a `ModelError` names the file."""
    try:
        return read_value(key, raw, sm_clock_hz)
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None


def _pipe(name: str, values: Mapping[str, Any]) -> Pipe:
    section = f"pipes.{name}"
    return Pipe(
        name=name,
        lanes=values[f"{section}.lanes"],
        shared_by_sm=values[f"{section}.scope"] == "sm",
        sustained=values.get(f"{section}.sustained", Fraction(1)),
        latency_cycles=values["front_end.branch_latency" if name == "branch" else f"{section}.latency"],
    )


def _check_channel_bandwidth(gpu: GPU, values: Mapping[str, Any], entries: Entries) -> None:
    stated = values.get("memory.dram_channel_bandwidth")
    if stated is None:
        return
    total = stated * gpu.dram_channels
    # Data sheets round: 0.1 % is less than any real difference between two products.
    if abs(total - gpu.dram_bandwidth_bytes_per_s) * 1000 > gpu.dram_bandwidth_bytes_per_s:
        raise ModelError(
            f"memory.dram_channels = {gpu.dram_channels} times memory.dram_channel_bandwidth = "
            f"{entries['memory.dram_channel_bandwidth'][0]!r} is {total} B/s, which contradicts memory.dram_bandwidth "
            f"= {entries['memory.dram_bandwidth'][0]!r}: they must agree within 0.1 %"
        )

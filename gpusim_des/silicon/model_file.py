"""Writes a model file: that of a base with some parameters changed, and a source beside every number."""

from __future__ import annotations

import json
from collections.abc import Sequence
from fractions import Fraction
from os import PathLike
from pathlib import Path

from gpusim_des.gpu import GPU, load_gpu
from gpusim_des.gpu.load import models_folder, read_entries
from gpusim_des.gpu.schema import ALL_KEYS
from gpusim_des.silicon.calibrate import Taken
from gpusim_des.whole_file import whole_file


def base_path(name_or_path: str) -> Path:
    """Path of a model's file.

    >>> base_path("tiny").name
    'tiny.toml'
    """
    load_gpu(name_or_path)  # says what is wrong with it
    return Path(name_or_path) if name_or_path.endswith(".toml") else models_folder() / f"{name_or_path}.toml"


def write_model(path: str | PathLike[str], base: Path, taken: Sequence[Taken], title: str, origin: str) -> GPU:
    """Write a model and read it back.

    Parameters
    ----------
    path
        File to write, whole or not at all.
    base
        File of the model that the rest comes from.
    taken
        What is changed.
    title
        Of the new model.
    origin
        What the sources of changed parameters begin with: whose measurement it is.

    Raises
    ------
    ModelError
        If the parameters contradict each other; the file is then not written.
    """
    entries = {label: (raw, source) for label, (raw, source, _) in read_entries(base).items()}
    entries["title"] = title, ""
    if any(change.label == "memory.dram_bandwidth" for change in taken):
        entries.pop("memory.dram_channel_bandwidth", None)  # said the same of the base
    entries.update({change.label: (change.value, f"{origin}, {change.source}") for change in taken})
    lines = [f"# {title}. Made by gpusim-des calibrate from {origin} and the model {base.stem}.", ""]
    section = ""
    for key in ALL_KEYS:
        if key.label not in entries:
            continue
        raw, source = entries[key.label]
        if key.section != section:
            section = key.section
            lines += ["", f"[{section}]"]
        value = _written(raw)
        lines.append(
            f"{key.name} = {{ value = {value}, source = {_text(source)} }}" if source else f"{key.name} = {value}"
        )
    with whole_file(path) as draft:
        renamed = draft.with_suffix(".toml")
        try:
            renamed.write_text("\n".join(lines) + "\n", encoding="utf-8")
            load_gpu(renamed)
            renamed.replace(draft)
        finally:
            renamed.unlink(missing_ok=True)
    return load_gpu(Path(path))


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _written(raw: object) -> str:
    """A value as TOML has it."""
    if isinstance(raw, list):
        return f"[{', '.join(_written(item) for item in raw)}]"
    if isinstance(raw, Fraction):
        return str(getattr(raw, "text", raw))
    return _text(raw) if isinstance(raw, str) else str(raw)

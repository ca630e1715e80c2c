"""Kernels in thread style from text: they are read from their source, so the text becomes a module in a file."""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path
from types import ModuleType


def module_of(source: str, folder: Path) -> ModuleType:
    """Write the source to a file in `folder` and import it."""
    name = "kernels_" + hashlib.sha1(source.encode()).hexdigest()[:16]
    path = folder / f"{name}.py"
    path.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

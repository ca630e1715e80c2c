"""Kernels in files: ``FILE.py:KERNEL``."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType

from gpusim_des.errors import UsageError
from gpusim_des.functional.block_kernel import KernelFunction
from gpusim_des.gpu.schema import suggest


def load_kernel(place: str, folder: Path | None = None) -> KernelFunction:
    """Load a kernel from a file.

    Parameters
    ----------
    place
        ``FILE.py:KERNEL``; with ``FILE.py`` alone, the only kernel of the file.
    folder
        Where relative paths begin; the working directory where not given.

    Raises
    ------
    UsageError
        If there is no such file or kernel, or the file cannot be run.
    """
    path_text, _, name = place.rpartition(":") if not place.endswith(".py") else (place, "", "")
    if not path_text.endswith(".py"):
        raise UsageError(f"kernel {place!r}: write FILE.py:KERNEL, for example kernels.py:vector_add")
    path = (folder or Path()) / path_text
    if not path.is_file():
        raise UsageError(f"kernel {place!r}: there is no file {path}")
    module = load_module(path)
    kernels = {k: v for k, v in vars(module).items() if isinstance(v, KernelFunction)}
    if not kernels:
        raise UsageError(f"{path} has no kernel: mark a function with @gs.kernel or @gs.block_kernel")
    if name in kernels:
        return kernels[name]
    if not name and len(kernels) == 1:
        return next(iter(kernels.values()))
    if not name:
        raise UsageError(
            f"{path} has several kernels: say which, {path_text}:{next(iter(kernels))}; {', '.join(kernels)}"
        )
    what = "is no kernel: mark it with @gs.kernel or @gs.block_kernel" if hasattr(module, name) else "is not there"
    raise UsageError(f"{path}: {name!r} {what}: {suggest(name, list(kernels))}")


def load_module(path: Path) -> ModuleType:
    """Run a file of the user's as a module, which may import its neighbours.

    Raises
    ------
    UsageError
        If it raises anything; the message names the line.
    """
    whole = path.resolve()
    if str(whole.parent) not in sys.path:
        sys.path.insert(0, str(whole.parent))
    name = f"gpusim_des_file_{whole.stem}"
    spec = importlib.util.spec_from_file_location(name, whole)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise UsageError(f"{error.filename}, line {error.lineno}: {error.msg}") from None
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a user's file raises is told, not thrown
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(whole)]
        where = f", line {lines[-1]}" if lines else ""
        raise UsageError(f"{path}{where}: {type(error).__name__}: {error}") from None
    return module

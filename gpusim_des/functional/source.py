"""Where in the user's kernel an operation stands."""

from __future__ import annotations

import linecache
import os
import sys
from functools import lru_cache
from itertools import islice
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple

import numpy as np

_OURS = str(Path(__file__).resolve().parent) + os.sep
_FACE = {
    str(Path(__file__).resolve().parent.parent / f"{name}.py")
    for name in (
        *("device", "device_memory", "device_streams", "device_work", "launch_on_arrays"),
        *("streams", "graph", "capture", "host_side"),
    )
}
_CUDA = str(Path(__file__).resolve().parent.parent / "cuda") + os.sep
_NUMPY = str(Path(np.__file__).resolve().parent) + os.sep


class Site(NamedTuple):
    """A source position; line 0 means unknown."""

    filename: str
    line: int
    column: int = 0
    """1 for the first character of the line, 0 where Python does not know it (3.10)."""

    def __str__(self) -> str:
        return f"line {self.line} of {Path(self.filename).name}" if self.line else "an unknown line"


UNKNOWN = Site("", 0)


def text_of(site: Site) -> str:
    """Text of a source line without its indentation; empty if it is not known."""
    return linecache.getline(site.filename, site.line).strip() if site.line else ""


@lru_cache(maxsize=256)
def is_user_code(filename: str) -> bool:
    """Tell whether a file belongs neither to the executor, nor to the device's face, nor to NumPy."""
    return filename not in _FACE and not filename.startswith((_OURS, _CUDA, _NUMPY))


@lru_cache(maxsize=4096)
def _column(code: CodeType, instruction: int) -> int:
    """Column of a bytecode instruction: two accesses on one line are two places."""
    positions = getattr(code, "co_positions", None)
    if positions is None:
        return 0
    column = next(islice(positions(), instruction // 2, None))[2]
    return 0 if column is None else column + 1


def caller() -> Site:
    """Position of the innermost caller that belongs neither to this package's executor nor to NumPy."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if is_user_code(frame.f_code.co_filename):
            return Site(frame.f_code.co_filename, frame.f_lineno, _column(frame.f_code, frame.f_lasti))
        frame = frame.f_back
    return UNKNOWN

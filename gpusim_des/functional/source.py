"""Where in the user's kernel an operation stands."""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import numpy as np

_OURS = str(Path(__file__).resolve().parent) + os.sep
_NUMPY = str(Path(np.__file__).resolve().parent) + os.sep


class Site(NamedTuple):
    """A source position; line 0 means unknown."""

    filename: str
    line: int

    def __str__(self) -> str:
        return f"line {self.line} of {Path(self.filename).name}" if self.line else "an unknown line"


UNKNOWN = Site("", 0)


@lru_cache(maxsize=256)
def _is_user_code(filename: str) -> bool:
    return not filename.startswith((_OURS, _NUMPY))


def caller() -> Site:
    """Position of the innermost caller that belongs neither to this package's executor nor to NumPy."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if _is_user_code(frame.f_code.co_filename):
            return Site(frame.f_code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return UNKNOWN

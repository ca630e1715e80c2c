"""A line of a source file: what counters, stalls and advice are told by."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class LineSite(NamedTuple):
    """A line of a source file; line 0 stands for instructions that belong to no line, such as a warp's exit.

    Examples
    --------
    >>> print(LineSite("src/kernels.py", 7))
    line 7 of kernels.py
    """

    filename: str
    line: int

    def __str__(self) -> str:
        return f"line {self.line}" + (f" of {Path(self.filename).name}" if self.filename else "")


NO_SITE = LineSite("", 0)
"""Where instructions belong that stand in no source."""

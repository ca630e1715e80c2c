"""Formatted texts of kernels: what ``f"{x:.2f}"`` is for one thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_CONVERSIONS: dict[int, Callable[[Any], Any]] = {ord("r"): repr, ord("s"): str, ord("a"): ascii}


class Text:
    """A text with values that differ from thread to thread.

    Attributes
    ----------
    parts
        Texts, and values with their conversion (-1: none) and format, which is a text, too.
    """

    def __init__(self, parts: tuple[Any, ...]) -> None:
        self.parts = parts

    def of(self, plain: Callable[[Any], Any]) -> str:
        """Text of one thread; `plain` gives its numbers.

        >>> Text(("x = ", (2.5, -1, ".2f"), (7, ord("r"), ""))).of(lambda x: x)
        'x = 2.507'
        """
        done = []
        for part in self.parts:
            if isinstance(part, str):
                done.append(part)
            else:
                value, conversion, how = part
                number = plain(value)
                shown = _CONVERSIONS[conversion](number) if conversion in _CONVERSIONS else number
                done.append(format(shown, plain(how)))
        return "".join(done)

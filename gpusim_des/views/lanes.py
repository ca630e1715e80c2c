"""Rows for spans that may overlap: those of one row follow each other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar


class HasTimes(Protocol):
    """Anything with a start and an end."""

    @property
    def start_fs(self) -> int:
        """Start in femtoseconds."""

    @property
    def end_fs(self) -> int:
        """End in femtoseconds."""


_Span = TypeVar("_Span", bound=HasTimes)


def lanes(spans: Iterable[_Span]) -> list[list[_Span]]:
    """Distribute spans over rows, each to the first row that is free when it starts.

    Examples
    --------
    >>> from gpusim_des.timeline import HostSpan
    >>> found = lanes([HostSpan("a", 0, 10), HostSpan("b", 5, 15), HostSpan("c", 10, 20)])
    >>> [[span.name for span in lane] for lane in found]
    [['a', 'c'], ['b']]
    """
    found: list[list[_Span]] = []
    for span in sorted(spans, key=lambda s: (s.start_fs, s.end_fs)):  # stable: equal ones keep their order
        free = next((lane for lane in found if lane[-1].end_fs <= span.start_fs), None)
        if free is None:
            found.append([span])
        else:
            free.append(span)
    return found

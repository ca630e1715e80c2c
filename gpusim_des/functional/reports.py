"""Reports of mistakes, and what they have in common: of those that are alike one is kept, all are counted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Generic, TypeVar

from gpusim_des.functional.source import Site, text_of
from gpusim_des.grid import Dim3

MOST_REPORTS = 100
"""Reports that are kept of a launch; more are only counted."""


@dataclass(frozen=True, kw_only=True)
class Report(ABC):
    """What is told of a mistake, with an example of it."""

    count: int
    """How often it happened."""

    @property
    @abstractmethod
    def key(self) -> tuple[object, ...]:
        """What is the same for all that are counted together."""

    @property
    @abstractmethod
    def where(self) -> tuple[int, ...]:
        """The block of the example, by which one is chosen; empty where the first is."""

    @property
    @abstractmethod
    def sites(self) -> tuple[Site, ...]:
        """Where it is in the source."""

    @property
    @abstractmethod
    def finding(self) -> str:
        """What is wrong in the example."""

    @property
    @abstractmethod
    def remedy(self) -> str:
        """What to do about it."""

    @property
    def rank(self) -> int:
        """How harmless it is beside others of its kind, 0 for the worst: mostly all are equally bad."""
        return 0

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain data that JSON can hold: what it says, its remedy, and all that it knows."""
        known = {field.name: _plain(getattr(self, field.name)) for field in fields(self) if field.repr}
        return {"mistake": type(self).__name__, "finding": self.finding, "remedy": self.remedy, **known}

    def __str__(self) -> str:
        often = f" ({self.count:,} times)" if self.count > 1 else ""
        lines = {(site.filename, site.line): text_of(site) for site in self.sites}
        shown = [f"  line {line}: {text}" for (_, line), text in lines.items() if text]
        return "\n".join([f"{self.finding}{often}; {self.remedy}", *shown])


def _plain(value: Any) -> Any:
    """A part of a report as plain data.

    >>> _plain((Dim3(1, 2, 3), Site("/home/me/k.py", 9)))
    [[1, 2, 3], {'file': '/home/me/k.py', 'line': 9, 'column': 0}]
    """
    if isinstance(value, Site):
        return {"file": value.filename, "line": value.line, "column": value.column}
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    return [_plain(one) for one in value] if isinstance(value, tuple) else value


@dataclass(frozen=True, kw_only=True)
class KernelReport(Report):
    """A report of one place in a kernel."""

    kernel: str
    """Its name."""
    site: Site
    """The place."""
    block: Dim3
    """The block of the example."""

    @property
    def where(self) -> Dim3:
        """The block of the example."""
        return self.block

    @property
    def sites(self) -> tuple[Site, ...]:
        """The place alone."""
        return (self.site,)

    @property
    def line(self) -> int:
        """Source line of the place, 0 if unknown."""
        return self.site.line


R = TypeVar("R", bound=Report)


class Reports(Generic[R]):
    """A limited number of reports, with counts that have no limit; where there is no room, the worst are kept.

    Attributes
    ----------
    left_out
        How often something happened for which there was no room, by rank.
    """

    def __init__(self) -> None:
        self.left_out: Counter[int] = Counter()
        self._found: dict[tuple[object, ...], R] = {}
        self._mildest = 0
        """Highest rank of all that are kept."""

    def __iter__(self) -> Iterator[R]:
        return iter(self._found.values())

    def add(self, report: R) -> bool:
        """Count it, and keep it if it is the first of its kind, of the lowest block; tell whether its kind is new."""
        known = self._found.get(report.key)
        if known is not None:  # of blocks that run at once, another may be the first to get there
            example = known if known.where[::-1] <= report.where[::-1] else report
            self._found[report.key] = replace(example, count=known.count + report.count)
            return False
        if len(self._found) < MOST_REPORTS:
            self._found[report.key] = report
            self._mildest = max(self._mildest, report.rank)
            return True
        if report.rank < self._mildest:
            self._make_room()
            return self.add(report)
        self.left_out[report.rank] += report.count
        return False

    def _make_room(self) -> None:
        """Leave out the latest of the most harmless: none of its kind comes in again, since all others are worse."""
        dropped = next(report for report in reversed(self._found.values()) if report.rank == self._mildest)
        del self._found[dropped.key]
        self.left_out[dropped.rank] += dropped.count
        self._mildest = max(report.rank for report in self)

    def join(self, other: Reports[R]) -> None:
        """Add what other blocks reported."""
        for report in other:
            self.add(report)
        if other.left_out:
            self.left_out.update(other.left_out)

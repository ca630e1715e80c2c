"""What is left out of a trace that would hold too many events: the finest rows first, each for the whole run.

A trace that simply ended when it is full would show how a run begins. Here every part of the time is seen: kernels,
copies and calls of the host stay longest; then come counters, then blocks, then warps, both SM by SM.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from gpusim_des.views.trace_events import Counter, Slices

MOST_NAMED = 4
"""Counters that a notice names; of the rest it tells the number."""

Place = tuple[int, ...]
"""Where a block or a warp is: its SM, the slot of its block there and, of a warp, its number in the block."""


class Room:
    """Events that still have room, and what had none."""

    def __init__(self, most: int) -> None:
        self._left = most
        self._offered = self._kept = 0
        self._left_out: list[str] = []

    def longest(self, tables: Sequence[Slices]) -> list[Slices]:
        """Take slices of calls, copies and kernels: if not all, the longest ones, which cover most of the time."""
        count = sum(map(len, tables))
        self._offered += count
        if count > self._left:
            self._left_out.append(f"all but the {self._left:,} longest of {count:,} calls, copies and kernels")
            lengths = np.concatenate([table.end_ns - table.start_ns for table in tables])
            kept = np.zeros(count, np.bool_)
            kept[np.argsort(-lengths, kind="stable")[: self._left]] = True
            ends = np.cumsum([len(table) for table in tables])
            parts = np.split(kept, ends[:-1])
            tables = [table.only(part) for table, part in zip(tables, parts, strict=True)]
        self._keep(sum(map(len, tables)))
        return [table for table in tables if len(table)]

    def counters(self, counters: Iterable[Counter]) -> list[Counter]:
        """Take those counters that fit."""
        kept, missing = [], []
        for counter in counters:
            count = len(counter.moments_ns)
            self._offered += count
            if count > self._left:
                missing.append(counter.name)
            elif count:
                kept.append(counter)
                self._keep(count)
        if missing:
            names = ", ".join(missing[:MOST_NAMED])
            more = f" and {len(missing) - MOST_NAMED:,} more" if len(missing) > MOST_NAMED else ""
            self._left_out.append(f"counter{'s' if len(missing) > 1 else ''} {names}{more}")
        return kept

    def rows(self, what: str, counts: Mapping[Place, int]) -> set[Place]:
        """Take rows of blocks or warps, of which `counts` are the slices, and return their places.

        As many SMs as fit, in their order. If not even the first one fits, as many of its slots, or of the warps in
        its first slot.
        """
        count = sum(counts.values())
        self._offered += count
        if count <= self._left:
            self._keep(count)
            return set(counts)
        kept = fitting(counts, self._left)
        self._left_out.append(_missing(what, counts, kept))
        taken = {place for place in counts if place[: len(kept[0])] in kept} if kept else set()
        self._keep(sum(counts[place] for place in taken))
        self._left = 0  # what is finer than what has no room has none either
        return taken

    def notice(self) -> str:
        """Say what had no room; empty if all had."""
        if not self._left_out:
            return ""
        return f"trace cut to {self._kept:,} of {self._offered:,} events, left out: {'; '.join(self._left_out)}"

    def _keep(self, count: int) -> None:
        self._left -= count
        self._kept += count


def fitting(counts: Mapping[Place, int], room: int) -> list[Place]:
    """Return beginnings of places, all equally long and as short as possible, that have room together.

    Examples
    --------
    >>> counts = {(0, 0, 0): 5, (0, 0, 1): 5, (0, 1, 0): 9, (3, 0, 0): 7}
    >>> [fitting(counts, room) for room in (27, 20, 18, 9, 4)]
    [[(0,), (3,)], [(0,)], [(0, 0)], [(0, 0, 0)], []]
    """
    for depth in range(1, 1 + max(map(len, counts), default=0)):
        sums: dict[Place, int] = defaultdict(int)
        for place, count in counts.items():
            sums[place[:depth]] += count
        kept = []
        left = room
        for place in sorted(sums):
            left -= sums[place]
            if left < 0:
                break
            kept.append(place)
        if kept:
            return kept
    return []


def _missing(what: str, counts: Mapping[Place, int], kept: Sequence[Place]) -> str:
    """Say which of the blocks or warps are left out."""
    if not kept:
        return f"all {what}"
    numbers = [place[-1] for place in kept]
    if len(kept[0]) == 1:
        return f"{what} of {_from_to('SM', sorted({place[0] for place in counts} - set(numbers)))}"
    slots = "block slot" if len(kept[0]) == 2 else f"{_from_to('warp', numbers)} in block slot"
    of_slots = _from_to(slots, numbers if len(kept[0]) == 2 else [kept[0][1]])
    return f"all {what} but those of {of_slots} of SM {kept[0][0]}"


def _from_to(what: str, numbers: Sequence[int]) -> str:
    first, last = numbers[0], numbers[-1]
    return f"{what} {first}" if first == last else f"{what} {first} to {last}"

"""Warps in a trace: a slice for each state, and arrows from the instruction that ended a wait to the end of the wait.

States of a warp that begin and end within the same nanosecond have no slice: it would be drawn inside of the next one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import compress
from typing import NamedTuple

import numpy as np

from gpusim_des.timeline import StateSpan, Timeline, WarpHistory, WarpState
from gpusim_des.views.gpu_trace import sm_pid
from gpusim_des.views.trace_events import FS_PER_NS, Arrow, Slices, Track

FIRST_WARP_TID = 1001
"""Thread number of an SM's first warp; block slots stand below."""

AT_ONCE = 20_000
"""States in a table, about: few enough to need no memory, so many that arrays are worth their while."""

_NAMES = [state.suffix for state in WarpState]

_DRAWN = [
    state
    in (
        WarpState.BARRIER,
        WarpState.MEMBAR,
        WarpState.DRAIN,
        WarpState.LONG_SCOREBOARD,
        WarpState.SHORT_SCOREBOARD,
    )
    for state in WarpState
]
"""Whether waits get an arrow: those of a few cycles for arithmetic would only cover the others."""


class WarpRow(NamedTuple):
    """A warp and its row."""

    warp: WarpHistory
    track: Track
    slices: int
    """States that have a slice."""


def warp_rows(timeline: Timeline) -> list[WarpRow]:
    """All recorded warps: those of one SM follow each other by kernel, block and warp."""
    found = []
    used = [0] * timeline.sms
    period = timeline.sm_period_fs
    for w in sorted(timeline.warps, key=lambda w: (w.sm, w.kernel, w.block, w.warp)):
        name = f"{timeline.kernels[w.kernel].name} ({w.kernel}) block {w.block} warp {w.warp}"
        shown = sum(s.end_cycle * period // FS_PER_NS > s.start_cycle * period // FS_PER_NS for s in w.states)
        found.append(WarpRow(w, Track(sm_pid(w.sm), FIRST_WARP_TID + used[w.sm], name), shown))
        used[w.sm] += 1
    return found


class Longest:
    """Chooses the longest of many waits, and of equally long ones those that it is asked about first."""

    def __init__(self, lengths: Sequence[int], most: int) -> None:
        self.total = len(lengths)
        self._shortest, self._equal = 0, self.total
        if self.total > most:
            ordered = sorted(lengths, reverse=True)
            self._shortest = ordered[most]
            self._equal = most - bisect_right(ordered, -self._shortest - 1, key=lambda length: -length)

    def takes(self, length: int) -> bool:
        """Whether a wait of this length is among them; to be asked once for each.

        Examples
        --------
        >>> longest = Longest([3, 1, 2, 2, 3, 1], most=3)
        >>> [longest.takes(length) for length in (3, 1, 2, 2, 3, 1)]
        [True, False, True, False, True, False]
        """
        if length == self._shortest:
            self._equal -= 1
            return self._equal >= 0
        return length > self._shortest


def longest_waits(rows: Sequence[WarpRow], most: int) -> Longest:
    """Return a choice of those waits of the warps that an instruction ended."""
    return Longest([s.end_cycle - s.start_cycle for row in rows for s in _waits(row.warp)], most)


def _waits(warp: WarpHistory) -> Iterator[StateSpan]:
    return (s for s in warp.states if _DRAWN[s.state] and s.cause is not None and s.cause.instruction is not None)


def warp_slices(timeline: Timeline, rows: Sequence[WarpRow], longest: Longest) -> Iterator[Slices]:
    """Tables of whole blocks, with the arrows of the waits that `longest` takes."""
    number = max((o.number for o in timeline.operations), default=-1) + 1  # arrows of operations have the others
    batch: list[WarpRow] = []
    states = 0
    for row in rows:
        if states >= AT_ONCE and _block(row) != _block(batch[-1]):
            yield (table := _table(timeline, batch, longest, number))
            number += len(table.arrows)
            batch, states = [], 0
        batch.append(row)
        states += len(row.warp.states)
    if batch:
        yield _table(timeline, batch, longest, number)


def _block(row: WarpRow) -> tuple[int, int]:
    return row.warp.kernel, row.warp.block


def _table(timeline: Timeline, batch: Sequence[WarpRow], longest: Longest, number: int) -> Slices:
    spans = [span for row in batch for span in row.warp.states]
    start = np.array([span.start_cycle for span in spans], np.int64)
    end = np.array([span.end_cycle for span in spans], np.int64)
    start_ns, end_ns = (cycles * timeline.sm_period_fs // FS_PER_NS for cycles in (start, end))
    shown = end_ns > start_ns
    chosen = shown.tolist()
    places = np.repeat(np.arange(len(batch)), [len(row.warp.states) for row in batch])[shown]
    start_ns, end_ns = start_ns[shown], end_ns[shown]
    return Slices(
        category="warp",
        tracks=[row.track for row in batch],
        rows=places.tolist(),
        names=list(compress([_NAMES[span.state] for span in spans], chosen)),
        start_ns=start_ns,
        end_ns=end_ns,
        notes={
            "cycle": start[shown].tolist(),
            "cycles": (end - start)[shown].tolist(),
            "sub-partition": np.array([row.warp.sub_partition for row in batch])[places].tolist(),
            "issued": list(compress(_issued(batch, end.tolist()), chosen)),
        },
        arrow_category="warp wait",
        arrows=list(_arrows(timeline, batch, start_ns.tolist(), longest, number)),
    )


def _issued(batch: Sequence[WarpRow], ends: Sequence[int]) -> list[tuple[str, ...] | None]:
    """Of each state, of which `ends` are the ends in cycles: the instructions that were issued in it."""
    found: list[tuple[str, ...] | None] = [None] * len(ends)
    low = 0
    for row in batch:
        high = low + len(row.warp.states)
        for issue in row.warp.issues:
            place = bisect_right(ends, issue.cycle, low, high)
            if place < high:
                found[place] = (*(found[place] or ()), issue.op)
        low = high
    return found


def _arrows(
    timeline: Timeline, batch: Sequence[WarpRow], starts_ns: Sequence[int], longest: Longest, number: int
) -> Iterator[Arrow]:
    """Arrows for waits that an instruction of a warp in the same batch ended."""
    first = np.cumsum([0, *(row.slices for row in batch)]).tolist()
    numbers = {(*_block(row), row.warp.warp): n for n, row in enumerate(batch)}

    def slice_at(warp: int, cycle: int) -> tuple[int, int]:
        """Nanosecond of a cycle, and the slice of a warp that lasts then."""
        moment = cycle * timeline.sm_period_fs // FS_PER_NS
        return moment, bisect_right(starts_ns, moment, first[warp], first[warp + 1]) - 1

    for target, row in enumerate(batch):
        for span in _waits(row.warp):
            taken = longest.takes(span.end_cycle - span.start_cycle)
            cause = span.cause
            if not taken or cause is None or cause.warp is None or cause.instruction is None:
                continue
            source = numbers.get((*_block(row), cause.warp))
            issued = None if source is None else _cycle_of(batch[source].warp, cause.instruction)
            # The arrow ends in the slice after the wait; after the last one there is none.
            after = span.end_cycle if span.end_cycle < row.warp.end_cycle else span.end_cycle - 1
            if source is None or issued is None or issued > after:
                continue
            leaves_ns, left = slice_at(source, issued)
            arrives_ns, entered = slice_at(target, after)
            if left >= first[source] and entered >= first[target]:
                yield Arrow(number, _NAMES[span.state], left, leaves_ns, entered, arrives_ns)
                number += 1


def _cycle_of(warp: WarpHistory, instruction: int) -> int | None:
    """Cycle in which a warp issued an instruction of its stream; ``None`` if it is not recorded."""
    place = bisect_right(warp.issues, instruction, key=lambda issue: issue.index) - 1
    found = warp.issues[place] if place >= 0 else None
    return found.cycle if found is not None and found.index == instruction else None

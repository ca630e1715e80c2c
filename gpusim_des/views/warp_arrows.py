"""Arrows between warps in a Chrome trace: from the instruction that ended a wait to the end of the wait."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

from gpusim_des.timeline import Timeline, WarpHistory, WarpState
from gpusim_des.views.trace_events import us

DRAWN = frozenset(
    {
        WarpState.BARRIER,
        WarpState.MEMBAR,
        WarpState.DRAIN,
        WarpState.LONG_SCOREBOARD,
        WarpState.SHORT_SCOREBOARD,
    }
)
"""Waits that get an arrow: those of a few cycles for arithmetic would only cover the others."""


def warp_arrows(
    timeline: Timeline, threads: dict[tuple[int, int, int], tuple[int, int]], until_fs: int
) -> Iterator[dict[str, Any]]:
    """Two flow events for each wait that an instruction ended.

    Parameters
    ----------
    timeline
        With warps.
    threads
        Kernel, block and warp → process and thread of its slices.
    until_fs
        Start of the last slice that is there; arrows that end later are left out.
    """
    warps = {(w.kernel, w.block, w.warp): w for w in timeline.warps}
    period = timeline.sm_period_fs
    number = len(timeline.operations)  # arrows of operations have the numbers below
    for (kernel, block, warp), history in warps.items():
        for span in history.states:
            cause = span.cause
            if span.state not in DRAWN or cause is None or cause.warp is None or cause.instruction is None:
                continue
            source = warps.get((kernel, block, cause.warp))
            issued = None if source is None else _issued(source, cause.instruction)
            # The arrow ends in the slice after the wait; after the last one there is none.
            after = span.end_cycle if span.end_cycle < history.end_cycle else span.end_cycle - 1
            if issued is None or issued > after or after * period > until_fs:
                continue
            common = {"name": span.state.suffix, "cat": "warp wait", "id": number}
            places = (threads[kernel, block, cause.warp], threads[kernel, block, warp])
            (pid, tid), (to_pid, to_tid) = places
            yield {**common, "ph": "s", "ts": us(issued * period), "pid": pid, "tid": tid}
            yield {**common, "ph": "f", "bp": "e", "ts": us(after * period), "pid": to_pid, "tid": to_tid}
            number += 1


def _issued(warp: WarpHistory, index: int) -> int | None:
    """Cycle in which a warp issued an instruction of its stream; ``None`` if it is not recorded."""
    place = bisect_right(warp.issues, index, key=lambda issue: issue.index) - 1
    found = warp.issues[place] if place >= 0 else None
    return found.cycle if found is not None and found.index == index else None


def warp_threads(timeline: Timeline, first_tid: int) -> dict[tuple[int, int, int], tuple[int, int]]:
    """Process and thread of every warp: those of one SM follow each other by kernel, block and warp."""
    found: dict[tuple[int, int, int], tuple[int, int]] = {}
    used = [0] * timeline.sms
    for w in sorted(timeline.warps, key=lambda w: (w.sm, w.kernel, w.block, w.warp)):
        found[w.kernel, w.block, w.warp] = w.sm + 1, first_tid + used[w.sm]
        used[w.sm] += 1
    return found

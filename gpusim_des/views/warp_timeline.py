"""Warps of one SM, cycle by cycle: what each did, and why it waited."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from gpusim_des.timeline import HasTimeline, Timeline, WarpHistory, WarpState
from gpusim_des.views import figure, palette
from gpusim_des.views.figure import Bar, Unit
from gpusim_des.views.residency import mean_running

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROW_FILL = 0.84
"""Share of a warp's row that is filled; the rest separates rows."""

MOST_NAMED_ISSUES = 4000
"""Above this many instructions in the picture no names are written: none would fit."""

MOST_STATES = 4000
"""States in a warp's row above which columns are drawn, each in the colour of the state that took most of it."""

COLUMNS = 2000
"""Such columns: more than a picture has pixels for."""

OP_FONT = 7.0
"""Points of an instruction's name."""


def warp_timeline(
    sim: HasTimeline | Timeline,
    *,
    ax: Axes | None = None,
    unit: Unit = "cycles",
    kernel: int | str | None = None,
    sm: int | None = None,
    warps: int | Iterable[int] | None = None,
    start: float | None = None,
    end: float | None = None,
) -> Axes:
    """Draw the state of each warp of one SM over time.

    A row is a warp, named ``block.warp``; its colour is its state in that cycle. Dark is an issued instruction. Its
    name stands on it or, where that is too narrow, before it, in the time in which the warp waits to issue it; names
    that do not fit are left out: zoom in with `start` and `end`. Of rows with more states than a picture can show, each
    column has the colour of the state that took most of it, and the title says so.

    Parameters
    ----------
    sim
        What ``simulate(detail="warp")`` returned, or its timeline.
    ax
        Axes to draw on. Without it a new figure is made, unknown to pyplot; save it with ``ax.figure.savefig(…)``.
    unit
        ``"cycles"`` (SM clock) or ``"us"``; `start` and `end` are in this unit too.
    kernel
        Number or name of the only kernel to show.
    sm
        SM to show; the first one that has warps without it.
    warps
        How many of the SM's warps to show, or their positions, counted from 0 in the order of kernel, block, warp.
    start, end
        First and last moment to show.

    Raises
    ------
    ValueError
        If the timeline holds no warps, or if there is no such kernel, SM, warp, unit or moment.
    """
    record = figure.timeline_of(sim)
    scale = figure.fs_per_unit(record, unit)
    kernels = figure.kernels_shown(record, kernel)
    if not record.warps:
        raise ValueError('the timeline holds no warps: simulate with detail="warp"')
    rows = _rows(record, set(kernels), sm, warps)
    period = record.sm_period_fs
    low = min(w.start_cycle for w in rows) * period / scale if start is None else start
    high = max(w.end_cycle for w in rows) * period / scale if end is None else end
    if high <= low:
        raise ValueError(f"start = {low:g}, end = {high:g}: the end must come after the start")
    rows = [w for w in rows if w.start_cycle * period / scale < high and w.end_cycle * period / scale > low]
    if not rows:
        raise ValueError(f"no warp was resident on the SM from {low:g} to {high:g}: choose another start and end")

    ax = figure.new_axes(ax, 11.0, figure.height(len(rows), row=0.24, entries=len(WarpState)))
    figure.time_axis(ax, unit, low, high)
    several = len({w.kernel for w in rows}) > 1
    _warp_axis(ax, rows, several)
    states = _draw(ax, rows, period, scale)
    summary = any(len(warp.states) > MOST_STATES for warp in rows)
    named = _name_issues(ax, rows, period, scale)
    entries = [figure.patch(palette.STATE_STYLES[state], state.suffix) for state in sorted(states)]
    title = "state of the warp" + "\n(names: the instruction\nthat it waits to issue,\nor issues)" * named
    figure.outside_legend(ax, entries, title=title)
    shown = sorted({w.kernel for w in rows})
    ax.set_title(f"Warps on SM {rows[0].sm}: {figure.where(record, shown)}" + "\n(longest states)" * summary)
    return ax


def _rows(record: Timeline, kernels: set[int], sm: int | None, warps: int | Iterable[int] | None) -> list[WarpHistory]:
    """Return the warps to show, in the order of kernel, block and warp."""
    found = [w for w in record.warps if w.kernel in kernels]
    present = sorted({w.sm for w in found})
    if not present:
        raise ValueError('the timeline holds no warps of this kernel: simulate with detail="warp"')
    place = present[0] if sm is None else sm
    if place not in present:
        raise ValueError(f"sm = {place}: warps were recorded on SMs {', '.join(map(str, present))}")
    rows = sorted((w for w in found if w.sm == place), key=lambda w: (w.kernel, w.block, w.warp, w.start_cycle))
    if warps is None:
        return rows
    positions = list(range(min(warps, len(rows)))) if isinstance(warps, int) else list(warps)
    if not positions or min(positions) < 0 or max(positions) >= len(rows):
        raise ValueError(f"warps = {warps!r}: SM {place} has {len(rows)} warps, numbered from 0; show at least one")
    return [rows[p] for p in positions]


def _warp_axis(ax: Axes, rows: Sequence[WarpHistory], several: bool) -> None:
    """Name the rows, the first on top; of many rows only every second, fourth, eighth."""
    step = next((s for s in (1, 2, 4, 8, 16, 32, 64) if len(rows) <= 32 * s), 128)
    names = [f"{w.kernel}:{w.block}.{w.warp}" if several else f"{w.block}.{w.warp}" for w in rows]
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.set_yticks(range(0, len(rows), step), names[::step])
    ax.tick_params(axis="y", length=0, labelsize="small")
    ax.set_ylabel("kernel:block.warp" if several else "block.warp")
    figure.open_frame(ax)


def _draw(ax: Axes, rows: Sequence[WarpHistory], period: int, scale: int) -> set[WarpState]:
    """Draw the states in the picture's window, one collection for each state; return the states."""
    low, high = ax.get_xlim()
    groups: dict[WarpState, list[Bar]] = defaultdict(list)
    for row, warp in enumerate(rows):
        spans = [
            (span.start_cycle * period / scale, span.end_cycle * period / scale, span.state) for span in warp.states
        ]
        seen = [span for span in spans if span[1] > low and span[0] < high]
        for left, right, state in seen if len(seen) <= MOST_STATES else summarized(seen, low, high):
            groups[state].append(Bar(left, right, row - ROW_FILL / 2, row + ROW_FILL / 2))
    for state, bars in sorted(groups.items()):
        figure.add_bars(ax, bars, palette.STATE_STYLES[state], label=state.suffix)
    return set(groups)


def summarized(
    spans: Sequence[tuple[float, float, WarpState]], low: float, high: float
) -> Iterator[tuple[float, float, WarpState]]:
    """Yield few spans for many: in each of equal columns of time, the state that took most of it.

    >>> wait, selected = WarpState.WAIT, WarpState.SELECTED
    >>> many = [(n, n + 0.7, wait) for n in range(4000)] + [(n + 0.7, n + 1.0, selected) for n in range(4000)]
    >>> [(start, end, state.suffix) for start, end, state in summarized(many, 0.0, 4000.0)]
    [(0.0, 4000.0, 'wait')]
    """
    edges = np.linspace(low, high, COLUMNS + 1)
    states = sorted({state for *_, state in spans})
    shares = [mean_running([(a, b) for a, b, s in spans if s is state], edges) for state in states]
    most, covered = np.argmax(shares, axis=0), np.sum(shares, axis=0) > 0
    change = np.flatnonzero((np.diff(most) != 0) | (np.diff(covered.astype(int)) != 0)) + 1
    for first, last in pairwise([0, *change.tolist(), COLUMNS]):
        if covered[first]:
            yield float(edges[first]), float(edges[last]), states[most[first]]


def _name_issues(ax: Axes, rows: Sequence[WarpHistory], period: int, scale: int) -> bool:
    """Write the name of each instruction on its cycle, or before it back to the warp's last issue, if it fits.

    Returns whether any name was written.
    """
    low, high = ax.get_xlim()
    shown = [
        (row, issue, last.cycle + 1 if last else warp.start_cycle)
        for row, warp in enumerate(rows)
        for last, issue in zip([None, *warp.issues], warp.issues, strict=False)
        if low <= issue.cycle * period / scale < high
    ]
    width, height = figure.size_in_points(ax)
    if len(shown) > MOST_NAMED_ISSUES or height / len(rows) < OP_FONT:
        return False
    halo = figure.halo()
    per_cycle = width * period / scale / (high - low)
    for row, issue, since in shown:
        wide = OP_FONT * (0.62 * len(issue.op) + 0.5)
        free = issue.cycle - max(since, math.ceil(low * scale / period))
        if wide <= per_cycle:
            x = (issue.cycle + 0.5) * period / scale
            ax.text(x, row, issue.op, fontsize=OP_FONT, color="white", ha="center", va="center", clip_on=True)
        elif wide <= per_cycle * free:
            x = issue.cycle * period / scale - 0.25 * OP_FONT * (high - low) / width
            ax.text(x, row, issue.op, fontsize=OP_FONT, ha="right", va="center", clip_on=True, path_effects=halo)
    return bool(ax.texts)

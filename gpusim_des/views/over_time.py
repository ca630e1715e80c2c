"""Quantities over time: resident and eligible warps, use of the issue slots, bandwidth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gpusim_des.timeline import HasTimeline, Timeline, WarpHistory, WarpState
from gpusim_des.views import figure, palette
from gpusim_des.views.figure import Unit
from gpusim_des.views.residency import mean_running

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = 240
"""Columns of time: each figure shows means over a 240th of its axis."""

ELIGIBLE = (WarpState.SELECTED, WarpState.NOT_SELECTED)
"""States in which a warp could issue."""


class _Line(NamedTuple):
    label: str
    color: str
    spans: Sequence[tuple[int, int]]
    weights: Sequence[float]


def active_warps(
    sim: HasTimeline | Timeline, *, ax: Axes | None = None, unit: Unit = "us", kernel: int | str | None = None
) -> Axes:
    """Draw resident warps over time and, with ``detail="warp"``, those that could have issued: means of an SM.

    Where eligible warps go below the number of schedulers, issue slots stay empty: more resident warps, or more
    independent instructions in each, would fill them.

    Parameters
    ----------
    sim
        What ``simulate()`` returned, or its timeline.
    ax
        Axes to draw on. Without it a new figure is made, unknown to pyplot; save it with ``ax.figure.savefig(…)``.
    unit
        ``"us"`` or ``"cycles"`` (SM clock).
    kernel
        Number or name of the only kernel to show.

    Raises
    ------
    ValueError
        If the timeline holds neither blocks nor warps, or for an unknown kernel or unit.
    """
    record = figure.timeline_of(sim)
    kernels = figure.kernels_shown(record, kernel)
    warps = [w for w in record.warps if w.kernel in kernels]
    blocks = [b for b in record.blocks if b.kernel in kernels]
    if not warps and not blocks:
        raise ValueError('the timeline holds no blocks: simulate with detail="sm" or detail="warp"')
    # Warps may be recorded on some SMs only; then both curves are theirs.
    sms = len({w.sm for w in warps}) if warps else record.sms
    period = record.sm_period_fs
    if warps:
        resident = [(w.start_cycle * period, w.end_cycle * period) for w in warps]
        weights = [1.0 / sms] * len(resident)
    else:
        resident = [(b.start_fs, b.end_fs) for b in blocks]
        weights = [record.kernels[b.kernel].warps_per_block / sms for b in blocks]
    lines = [_Line("resident", "#0072b2", resident, weights)]
    if warps:
        eligible = _state_spans(warps, ELIGIBLE, period)
        lines.append(_Line("eligible", "#d55e00", eligible, [1.0 / sms] * len(eligible)))
    ax = _draw(record, kernels, lines, ax, unit)
    schedulers = record.kernels[kernels[0]].sub_partitions
    if warps:
        label = f"schedulers ({schedulers})"
        ax.axhline(schedulers, color="#333333", linewidth=1.0, linestyle="--", label=label, zorder=1)
    ax.set_ylabel("warps on an SM, mean")
    return _finished(ax, record, kernels, f"Warps on {_sms(sms, record)}")


def issue_utilization(
    sim: HasTimeline | Timeline, *, ax: Axes | None = None, unit: Unit = "us", kernel: int | str | None = None
) -> Axes:
    """Draw which share of the issue slots was used over time, mean over the SMs that were recorded.

    Parameters and errors are those of `active_warps`; it needs ``detail="warp"``.
    """
    record = figure.timeline_of(sim)
    kernels = figure.kernels_shown(record, kernel)
    warps = [w for w in record.warps if w.kernel in kernels]
    if not warps:
        raise ValueError('the timeline holds no warps: simulate with detail="warp"')
    sms = len({w.sm for w in warps})
    slots = sms * record.kernels[kernels[0]].sub_partitions
    issued = _state_spans(warps, (WarpState.SELECTED,), record.sm_period_fs)
    lines = [_Line("issue slots", "#0a2540", issued, [100.0 / slots] * len(issued))]
    ax = _draw(record, kernels, lines, ax, unit)
    ax.set_ylim(0.0, 100.0)
    ax.set_ylabel("issue slots used (%)")
    return _finished(ax, record, kernels, f"Issue utilisation of {_sms(sms, record)}")


def bandwidth(sim: HasTimeline | Timeline, *, ax: Axes | None = None, unit: Unit = "us") -> Axes:
    """Draw bytes per second over time: of DRAM, and of copies from and to the host.

    A kernel, a copy and a memset count with their mean rate from start to end; what ran at once is added up.

    Parameters
    ----------
    sim
        What ``simulate()`` returned, or its timeline; any ``detail`` will do.
    ax
        Axes to draw on. Without it a new figure is made, unknown to pyplot; save it with ``ax.figure.savefig(…)``.
    unit
        ``"us"`` or ``"cycles"`` (SM clock).

    Raises
    ------
    ValueError
        If nothing ran, or for an unknown unit.
    """
    record = figure.timeline_of(sim)
    moved = [(k.start_fs, k.end_fs, k.dram_bytes) for k in record.kernels]
    moved += [(o.start_fs, o.end_fs, o.dram_bytes) for o in record.operations if o.kernel < 0]
    if not moved:
        raise ValueError("the timeline holds nothing that moves bytes: launch or copy something before simulate()")
    lines = [_rates("DRAM", "#d55e00", moved)]
    for kind, label in (("h2d", "host to device"), ("d2h", "device to host")):
        copies = [(o.start_fs, o.end_fs, o.nbytes) for o in record.operations if o.kind == kind]
        lines.append(_rates(label, palette.OPERATION_STYLES[kind].color, copies))
    ax = _draw(record, (), [line for line in lines if line.spans], ax, unit)
    ax.set_ylabel("GB/s")
    return _finished(ax, record, range(len(record.kernels)), "Bandwidth")


def _rates(label: str, color: str, moved: Sequence[tuple[int, int, int]]) -> _Line:
    """Rates in GB/s, that is bytes per nanosecond, of all that took any time and moved anything."""
    kept = [(start, end, 1e6 * nbytes / (end - start)) for start, end, nbytes in moved if end > start and nbytes]
    return _Line(label, color, [(start, end) for start, end, _ in kept], [rate for *_, rate in kept])


def _state_spans(warps: Sequence[WarpHistory], states: Sequence[WarpState], period: int) -> list[tuple[int, int]]:
    """Spans of all warps in one of the states, femtoseconds."""
    return [
        (span.start_cycle * period, span.end_cycle * period)
        for warp in warps
        for span in warp.states
        if span.state in states
    ]


def _sms(count: int, record: Timeline) -> str:
    return f"{count} of {record.sms} SMs" if count < record.sms else f"all {count} SMs" if count > 1 else "the SM"


def _draw(record: Timeline, kernels: Sequence[int], lines: Sequence[_Line], ax: Axes | None, unit: Unit) -> Axes:
    """Draw means over columns of time as steps, filled: of the kernels' time, or of the whole run without any."""
    scale = figure.fs_per_unit(record, unit)
    start = min((record.kernels[k].start_fs for k in kernels), default=0)
    end = max((record.kernels[k].end_fs for k in kernels), default=record.end_fs)
    edges = np.linspace(start, max(end, start + 1), COLUMNS + 1)
    ax = figure.new_axes(ax, 10.0, 4.2)
    highest = 0.0
    for line in lines:
        means = mean_running(line.spans, edges, line.weights) if line.spans else np.zeros(COLUMNS)
        highest = max(highest, float(means.max()))
        ax.stairs(means, edges / scale, color=line.color, linewidth=1.6, label=line.label, zorder=3)
        ax.stairs(means, edges / scale, color=line.color, fill=True, alpha=0.15, zorder=2)
    ax.set_ylim(0.0, 1.08 * highest or 1.0)
    ax.grid(axis="y", color="#e6e6e6", linewidth=0.8, zorder=0)
    ax.set_axisbelow(True)
    figure.time_axis(ax, unit, start / scale, end / scale)
    figure.open_frame(ax)
    return ax


def _finished(ax: Axes, record: Timeline, kernels: Sequence[int], title: str) -> Axes:
    handles = list(ax.get_legend_handles_labels()[0])
    if len(handles) > 1:
        figure.outside_legend(ax, handles)
    place = figure.where(record, kernels) if len(kernels) else f"on {figure.plain(record.gpu_name)}"
    ax.set_title(f"{title}: {place}")
    return ax

"""Quantities over time: resident and eligible warps, use of the issue slots, bandwidth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpusim_des.timeline import HasTimeline, Timeline
from gpusim_des.views import figure
from gpusim_des.views.figure import Unit
from gpusim_des.views.quantities import Quantity, bandwidths, issue_slots, recorded_sms, steps, warps_per_sm
from gpusim_des.views.residency import mean_running

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = 240
"""Columns of time: each figure shows means over a 240th of its axis."""


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
    sms = recorded_sms(record) if warps else record.sms
    lines = warps_per_sm(record, kernels)
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
    ax = _draw(record, kernels, [issue_slots(record, kernels)], ax, unit)
    ax.set_ylim(0.0, 100.0)
    ax.set_ylabel("issue slots used (%)")
    return _finished(ax, record, kernels, f"Issue utilisation of {_sms(recorded_sms(record), record)}")


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
    if not record.kernels and not record.operations:
        raise ValueError("the timeline holds nothing that moves bytes: launch or copy something before simulate()")
    scale = figure.fs_per_unit(record, unit)
    ax = figure.new_axes(ax, 10.0, 4.2)
    highest = 0.0
    for line in bandwidths(record):
        moments, values = zip((0, 0.0), *steps(line.spans, line.weights), (record.end_fs, 0.0), strict=True)
        edges = np.array(moments) / scale
        highest = max(highest, *values)
        ax.stairs(values[:-1], edges, color=line.color, linewidth=1.6, label=line.label, zorder=3)
        ax.stairs(values[:-1], edges, color=line.color, fill=True, alpha=0.15, zorder=2)
    _frame(ax, highest)
    figure.time_axis(ax, unit, 0.0, max(record.end_fs, 1) / scale)
    ax.set_ylabel("GB/s")
    return _finished(ax, record, range(len(record.kernels)), "Bandwidth")


def _sms(count: int, record: Timeline) -> str:
    return f"{count} of {record.sms} SMs" if count < record.sms else f"all {count} SMs" if count > 1 else "the SM"


def _draw(record: Timeline, kernels: Sequence[int], lines: Sequence[Quantity], ax: Axes | None, unit: Unit) -> Axes:
    """Draw means over columns of the kernels' time as steps, filled."""
    scale = figure.fs_per_unit(record, unit)
    start = min(record.kernels[k].start_fs for k in kernels)
    end = max(record.kernels[k].end_fs for k in kernels)
    edges = np.linspace(start, max(end, start + 1), COLUMNS + 1)
    ax = figure.new_axes(ax, 10.0, 4.2)
    highest = 0.0
    for line in lines:
        means = mean_running(line.spans, edges, line.weights) if line.spans else np.zeros(COLUMNS)
        highest = max(highest, float(means.max()))
        ax.stairs(means, edges / scale, color=line.color, linewidth=1.6, label=line.label, zorder=3)
        ax.stairs(means, edges / scale, color=line.color, fill=True, alpha=0.15, zorder=2)
    _frame(ax, highest)
    figure.time_axis(ax, unit, start / scale, end / scale)
    return ax


def _frame(ax: Axes, highest: float) -> None:
    """Let an axis begin at zero, with lines to read heights from."""
    ax.set_ylim(0.0, 1.08 * highest or 1.0)
    ax.grid(axis="y", color="#e6e6e6", linewidth=0.8, zorder=0)
    ax.set_axisbelow(True)
    figure.open_frame(ax)


def _finished(ax: Axes, record: Timeline, kernels: Sequence[int], title: str) -> Axes:
    handles = list(ax.get_legend_handles_labels()[0])
    if len(handles) > 1 or title == "Bandwidth":
        figure.outside_legend(ax, handles)
    place = figure.where(record, kernels) if len(kernels) else f"on {figure.plain(record.gpu_name)}"
    ax.set_title(f"{title}: {place}")
    return ax

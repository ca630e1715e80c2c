"""Simulated against measured: one mark for each figure, and the line on which they would be equal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpusim_des.views import figure, palette

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKERS = ("o", "s", "^", "D", "v", "P")
"""With the colours they repeat after six; filled ones are predictions, hollow ones are not."""

BAND = 0.20
"""Error at which the band around the line ends."""


@dataclass(frozen=True)
class Measured:
    """A figure in whatever unit it has, measured and simulated."""

    group: str
    measured: float
    simulated: float
    predicted: bool = True
    """Whether the model knew nothing of it; else it was calibrated with it, or only its ratio counts."""


def measured(points: Sequence[Measured], *, ax: Axes | None = None, title: str) -> Axes:
    """Draw simulated over measured figures, both logarithmic, with a band of 20 % around equality.

    Parameters
    ----------
    points
        The figures; those of one group have one colour.
    ax
        Axes to draw on. Without it a new figure is made, unknown to pyplot; save it with ``ax.figure.savefig(…)``.
    title
        Of the figure.

    Raises
    ------
    ValueError
        If there is nothing to draw, or a figure is not positive.
    """
    if not points:
        raise ValueError("nothing to draw: pass at least one figure")
    wrong = [value for point in points for value in (point.measured, point.simulated) if not value > 0]
    if wrong:
        raise ValueError(f"{wrong[0]} on a logarithmic axis: must be positive")
    ax = figure.new_axes(ax, 9.5, 7.0)
    low = min(min(point.measured, point.simulated) for point in points) / 1.5
    high = max(max(point.measured, point.simulated) for point in points) * 1.5
    ends = [low, high]
    ax.fill_between(ends, [x * (1 - BAND) for x in ends], [x * (1 + BAND) for x in ends], color="#eeeeee", zorder=0)
    ax.plot(ends, ends, color="#555555", linewidth=1.0, zorder=1)
    for number, group in enumerate(dict.fromkeys(point.group for point in points)):
        color, marker = palette.kernel_color(number), MARKERS[number // 6 % len(MARKERS)]
        named = False
        for predicted in (True, False):
            members = [point for point in points if point.group == group and point.predicted == predicted]
            if members:
                ax.scatter(
                    [point.measured for point in members],
                    [point.simulated for point in members],
                    s=22,
                    marker=marker,
                    facecolors=color if predicted else "none",
                    edgecolors=color,
                    linewidths=0.9,
                    label=None if named else figure.plain(group),
                    zorder=3,
                )
                named = True
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(low, high)
    ax.set_ylim(low, high)
    ax.set_xlabel("measured (each figure in its own unit)")
    ax.set_ylabel("simulated (band: 20 % off)")
    figure.open_frame(ax)
    handles = list(ax.get_legend_handles_labels()[0])
    if not all(point.predicted for point in points):
        handles.append(ax.scatter([], [], s=22, facecolors="none", edgecolors="#555555", label="hollow: no prediction"))
    figure.outside_legend(ax, handles)
    ax.set_title(title)
    return ax

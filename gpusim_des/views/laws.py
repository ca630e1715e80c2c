"""Simulated points beside the laws that predict them, each a line over values of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from gpusim_des.views import figure, palette

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GREY = "#888888"


@dataclass(frozen=True)
class Law:
    """A formula as a line."""

    label: str
    """For the legend; empty: none."""
    x: npt.ArrayLike
    y: npt.ArrayLike
    color: int | None
    """Number in the palette; None: grey."""
    style: Literal["-", "--", ":"] = "-"


@dataclass(frozen=True)
class Simulated:
    """Runs as points."""

    label: str
    x: npt.ArrayLike
    y: npt.ArrayLike
    color: int = 0
    """Number in the palette."""
    marker: str = "o"
    """Matplotlib's."""


def laws(
    points: Sequence[Simulated],
    lines: Sequence[Law],
    *,
    ax: Axes | None = None,
    xlabel: str,
    ylabel: str,
    title: str,
    right: float | None = None,
    top: float | None = None,
    ticks: Sequence[int] = (),
) -> Axes:
    """Draw points and lines, which may have different values of x.

    Parameters
    ----------
    points, lines
        What was simulated, and what formulas say. Points without any are left out, a line without numbers is an entry
        of the legend.
    ax
        Axes to draw on. Without it a new figure is made, unknown to pyplot; save it with ``ax.figure.savefig(…)``.
    xlabel, ylabel, title
        Texts; the unit belongs to the labels.
    right, top
        Ends of the axes, which begin at 0; where nothing is said, as far as the data go.
    ticks
        Powers of two: both axes are logarithmic, and show these numbers.

    Raises
    ------
    ValueError
        If there is nothing to draw, or a line or points have not one y for each x.

    Examples
    --------
    >>> ax = laws([Simulated("simulated", [1, 2], [10, 19])], [Law("law", [0, 3], [0, 30], color=1)],
    ...           xlabel="warps", ylabel="bandwidth (GB/s)", title="Little's law")
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['simulated', 'law']
    """
    if not points and not lines:
        raise ValueError("nothing to draw: pass at least one line, or points")
    for label, x, y in [*((p.label, p.x, p.y) for p in points), *((line.label, line.x, line.y) for line in lines)]:
        if np.size(x) != np.size(y):
            raise ValueError(f"{label!r}: {np.size(y)} numbers for {np.size(x)} values of x: pass one for each")
    ax = figure.new_axes(ax, 9.5, 5.0)
    for p in (p for p in points if np.size(p.x)):
        color, label = palette.kernel_color(p.color), figure.plain(p.label)
        ax.plot(p.x, p.y, p.marker, color=color, markersize=8, markeredgewidth=1.6, label=label, zorder=3)
    for line in lines:
        color = GREY if line.color is None else palette.kernel_color(line.color)
        label = figure.plain(line.label) if line.label else "_"
        ax.plot(line.x, line.y, line.style, color=color, linewidth=1.8, label=label, zorder=2)
    if ticks:
        ax.set_xscale("log", base=2)
        ax.set_yscale("log", base=2)
        ax.set_xticks(ticks, [str(tick) for tick in ticks])
        ax.set_yticks(ticks, [str(tick) for tick in ticks])
    else:
        ax.set_xlim(0, right)
        ax.set_ylim(0, top)
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    ax.grid(color="#e6e6e6", linewidth=0.8)
    ax.set_axisbelow(True)
    figure.open_frame(ax)
    figure.outside_legend(ax, ax.get_legend_handles_labels()[0])
    ax.set_title(title)
    return ax

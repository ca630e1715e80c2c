"""Simulated numbers over one parameter, each with the formula that predicts it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from gpusim_des.views import figure, palette

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKERS = ("o", "s", "^", "D", "v", "P")
"""Markers of the curves: with their colours they repeat after six, but never depend on colour alone."""


@dataclass(frozen=True)
class Curve:
    """One simulated curve; the numbers belong to the figure's x values, one by one."""

    label: str
    simulated: Sequence[float]
    formula: Sequence[float] = ()
    """Prediction for each point; empty: none."""


def curves(
    x: Sequence[float],
    lines: Sequence[Curve],
    *,
    ax: Axes | None = None,
    xlabel: str,
    ylabel: str,
    title: str,
    logarithmic: bool = False,
    powers_of_two: bool = False,
    top: float | None = None,
) -> Axes:
    """Draw simulated points and, as thin lines of the same colour, what the formula predicts.

    Parameters
    ----------
    x
        Values of the parameter, in rising order.
    lines
        The curves.
    ax
        Axes to draw on. Without it a new figure is made, unknown to pyplot; save it with ``ax.figure.savefig(…)``.
    xlabel, ylabel, title
        Texts; the unit belongs to the labels.
    logarithmic
        The x axis is logarithmic; it shows all values of `x` if they are at most eight.
    powers_of_two
        The y axis is logarithmic, and shows the powers of two; numbers must be positive.
    top
        Upper end of the y axis; a little above the highest number without it.

    Raises
    ------
    ValueError
        If there is nothing to draw, the numbers do not match, `x` does not rise, or a number is not positive where the
        axis is logarithmic.
    """
    _check(x, lines)
    ax = figure.new_axes(ax, 9.5, 5.0)
    for number, line in enumerate(lines):
        color, marker = palette.kernel_color(number), MARKERS[number % len(MARKERS)]
        if line.formula:
            ax.plot(x, line.formula, color=color, linewidth=1.4, zorder=2)
        points = "none" if line.formula else "-"
        label = figure.plain(line.label)
        ax.plot(x, line.simulated, color=color, marker=marker, markersize=7, linestyle=points, label=label, zorder=3)
    handles = list(ax.get_legend_handles_labels()[0])
    if any(line.formula for line in lines):
        handles += ax.plot([], [], color="#555555", linewidth=1.4, label="lines: formula")
    if logarithmic:
        ax.set_xscale("log")
        if len(x) <= 8:
            ax.set_xticks(x, [f"{value:,.0f}" if value == round(value) else f"{value:.3g}" for value in x])
            ax.set_xticks([], minor=True)
    numbers = [number for line in lines for number in (*line.simulated, *line.formula)]
    if powers_of_two:
        _powers_of_two(ax, min(numbers), max(numbers))
    else:
        ax.set_ylim(0, top if top is not None else 1.08 * max(numbers) or 1.0)
        ax.yaxis.set_major_formatter("{x:,.10g}")
    ax.grid(axis="y", color="#e6e6e6", linewidth=0.8, zorder=0)
    ax.set_axisbelow(True)
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    figure.open_frame(ax)
    figure.outside_legend(ax, handles)
    ax.set_title(title)
    return ax


def _check(x: Sequence[float], lines: Sequence[Curve]) -> None:
    if not x or not lines:
        raise ValueError("nothing to draw: pass at least one value of x and one curve")
    if any(b <= a for a, b in pairwise(x)):
        raise ValueError("x must rise from one entry to the next: sort the runs by their parameter")
    for line in lines:
        if len(line.simulated) != len(x) or len(line.formula) not in (0, len(x)):
            raise ValueError(
                f"curve {line.label!r}: {len(line.simulated)} simulated and {len(line.formula)} predicted numbers for "
                f"{len(x)} values of x: pass one for each"
            )


def _powers_of_two(ax: Axes, lowest: float, highest: float) -> None:
    if lowest <= 0:
        raise ValueError(f"{lowest:g} on a logarithmic axis: must be positive")
    ticks = [2.0**power for power in range(math.ceil(math.log2(lowest)), math.floor(math.log2(highest)) + 1)]
    ax.set_yscale("log", base=2)
    ax.set_ylim(0.8 * lowest, 1.25 * highest)
    ax.set_yticks(ticks, [f"{tick:,.10g}" for tick in ticks])

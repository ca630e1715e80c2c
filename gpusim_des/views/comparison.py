"""Several ways to do one thing: a row for each, its number joined to what the formula says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpusim_des.views import figure, palette

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMULA_COLOR = "#d55e00"
"""Of the formula's marks and of the lines that lead from them to the simulation."""


@dataclass(frozen=True)
class Panel:
    """One number of every row, on a logarithmic axis of its own: equal steps are equal factors."""

    xlabel: str
    simulated: Sequence[float]
    formula: Sequence[float]
    simulated_label: str = "simulated"
    formula_label: str = "formula"
    notes: Sequence[str] = ()
    """A text for each row, to the right of the data; empty: none."""
    notes_title: str = ""


def comparison(labels: Sequence[str], panels: Sequence[Panel], *, title: str) -> Axes:
    """Draw a row for each label: a point for its number, a mark for the formula, and a line from one to the other.

    Parameters
    ----------
    labels
        Names of the rows, from the top.
    panels
        What is compared, side by side.
    title
        Of the whole figure.

    Returns
    -------
    Axes
        The one on the left; ``ax.figure`` is the whole figure.

    Raises
    ------
    ValueError
        If there is nothing to draw, the numbers do not match the labels, or one is not positive.
    """
    from matplotlib.figure import Figure  # noqa: PLC0415 - Matplotlib is imported with the first figure

    _check(labels, panels)
    whole = Figure(figsize=(3.0 + 4.0 * len(panels), 1.8 + 0.38 * len(labels)), layout="constrained", dpi=150)
    axes = whole.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for ax, panel in zip(axes, panels, strict=True):
        _draw(ax, panel)
    axes[0].set_yticks(range(len(labels)), [figure.plain(label) for label in labels])
    axes[0].set_ylim(len(labels) - 0.4, -0.6)
    whole.suptitle(title)
    first: Axes = axes[0]
    return first


def _check(labels: Sequence[str], panels: Sequence[Panel]) -> None:
    if not labels or not panels:
        raise ValueError("nothing to draw: pass at least one label and one panel")
    for panel in panels:
        for what, values in (("simulated", panel.simulated), ("formula", panel.formula), ("notes", panel.notes)):
            if len(values) != len(labels) and not (what == "notes" and not values):
                raise ValueError(f"panel {panel.xlabel!r}: {len(values)} {what} for {len(labels)} labels: one for each")
        wrong = [value for value in (*panel.simulated, *panel.formula) if not 0 < value < math.inf]
        if wrong:
            raise ValueError(f"panel {panel.xlabel!r}: {wrong[0]} on a logarithmic axis: must be positive and finite")


def _draw(ax: Axes, panel: Panel) -> None:
    from matplotlib.ticker import LogLocator, NullLocator  # noqa: PLC0415

    rows = range(len(panel.simulated))
    for row, simulated, formula in zip(rows, panel.simulated, panel.formula, strict=True):
        ax.plot([formula, simulated], [row, row], color=palette.lighter(FORMULA_COLOR, 0.4), linewidth=3.0, zorder=2)
    marks = ax.plot(panel.formula, rows, "|", color=FORMULA_COLOR, label=panel.formula_label, zorder=3)
    marks[0].set(markersize=17, markeredgewidth=2.6)
    color = palette.kernel_color(0)
    points = ax.plot(panel.simulated, rows, "o", color=color, markersize=8.5, label=panel.simulated_label, zorder=4)
    ax.set_xscale("log")
    values = (*panel.simulated, *panel.formula)
    ax.set_xlim(min(values) / 1.4, max(values) * 1.4)
    ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter("{x:,.10g}")
    ax.set_xlabel(panel.xlabel)
    ax.grid(color="#e6e6e6", linewidth=0.8)
    ax.set_axisbelow(True)
    ax.tick_params(axis="y", length=0)
    figure.open_frame(ax)
    _write_notes(ax, panel)
    figure.outside_legend(ax, [*points, *marks], below=True)


def _write_notes(ax: Axes, panel: Panel) -> None:
    """Write a column of texts beside the data, where none can meet a point."""
    beside = ax.get_yaxis_transform()
    for row, note in enumerate(panel.notes):
        ax.text(1.02, row, figure.plain(note), transform=beside, va="center", fontsize="small")
    if panel.notes_title:
        heading = panel.notes_title
        ax.text(1.02, -0.75, heading, transform=beside, va="center", fontsize="small", fontweight="bold")

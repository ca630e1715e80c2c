"""Several ways to do one thing as horizontal bars from zero, each with a mark where the formula is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpusim_des.views import figure, palette

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def bars(
    labels: Sequence[str],
    simulated: Sequence[float],
    formula: Sequence[float] = (),
    *,
    ax: Axes | None = None,
    xlabel: str,
    title: str,
    notes: Sequence[str] = (),
    formula_label: str = "formula",
) -> Axes:
    """Draw a bar for each label, and a mark where the formula has its end.

    Parameters
    ----------
    labels
        Names of the bars, from the top.
    simulated, formula
        A number for each; `formula` may be empty, and nan where the formula says nothing.
    ax
        Axes to draw on. Without it a new figure is made, unknown to pyplot; save it with ``ax.figure.savefig(…)``.
    xlabel, title
        Texts; the unit belongs to the label.
    notes
        A text for each bar, at its end; without them the number itself.
    formula_label
        What the marks stand for.

    Returns
    -------
    Axes
        With the bars.

    Raises
    ------
    ValueError
        If there is nothing to draw, the numbers do not match the labels, or a bar has no length.

    Examples
    --------
    >>> ax = bars(["naive", "tiled"], [8.0, 2.0], [8.0, 1.9], xlabel="time (µs)", title="matrices")
    >>> [text.get_text() for text in ax.texts]
    ['8', '2']
    """
    if not labels:
        raise ValueError("nothing to draw: pass at least one label")
    for what, values in (("simulated", simulated), ("formula", formula), ("notes", notes)):
        if len(values) != len(labels) and (what == "simulated" or values):
            raise ValueError(f"{len(values)} {what} for {len(labels)} labels: pass one for each")
    wrong = [value for value in simulated if not 0 <= value < math.inf]
    if wrong:
        raise ValueError(f"{wrong[0]} as the length of a bar: must be finite, at least 0")
    ax = figure.new_axes(ax, 9.5, 1.6 + 0.42 * len(labels))
    rows = range(len(labels))
    color = palette.lighter(palette.kernel_color(0), 0.35)
    handles = [*ax.barh(rows, simulated, height=0.62, color=color, label="simulated", zorder=2)][:1]
    handles[0].set_label("simulated")
    if formula:
        marks = ax.plot(formula, rows, "|", color=palette.kernel_color(1), label=formula_label, zorder=4)
        marks[0].set(markersize=21, markeredgewidth=3.0)
    shown = notes or [f"{value:,.3g}" if value < 1000 else f"{value:,.0f}" for value in simulated]
    ends = [s if math.isnan(f) else max(s, f) for s, f in zip(simulated, formula or simulated, strict=True)]
    for row, (end, note) in enumerate(zip(ends, shown, strict=True)):
        place = {"xytext": (7, 0), "textcoords": "offset points", "va": "center"}
        ax.annotate(figure.plain(note), (end, row), **place, zorder=5)  # type: ignore[arg-type]
    longest = max((len(note) for note in shown), default=0)
    room = min(0.6, 6.2 * (longest + 2) / figure.size_in_points(ax)[0])  # that the texts at the ends take
    ax.set_xlim(0, (max(ends) or 1.0) / (1.0 - room))
    ax.set_ylim(len(labels) - 0.4, -0.6)
    ax.set_yticks(rows, [figure.plain(label) for label in labels])
    ax.tick_params(axis="y", length=0)
    ax.xaxis.set_major_formatter("{x:,.10g}")
    ax.grid(axis="x", color="#e6e6e6", linewidth=0.8, zorder=0)
    ax.set_axisbelow(True)
    ax.set_xlabel(xlabel)
    figure.open_frame(ax)
    if formula:
        figure.outside_legend(ax, [handles[0], *marks], below=True)
    ax.set_title(title)
    return ax

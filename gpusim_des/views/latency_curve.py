"""Latency hiding: bandwidth against the number of active warps, and where Little's law says it must bend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from gpusim_des.views import figure, palette

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_POINT_LABELS = 12
"""Above this many points their labels are left out."""

LABEL_ROOM = 9.0
"""Points that a label needs from line to line."""

CHARACTER_WIDTH = 4.9
"""Points that a character of a small label takes, roughly."""


class LatencyRow(Protocol):
    """One run of a latency-hiding experiment."""

    @property
    def warps_per_sm(self) -> float:
        """Active warps on each SM."""

    @property
    def occupancy(self) -> float:
        """Active warps over the warp slots of an SM, 0…1."""

    @property
    def gbs(self) -> float:
        """Bandwidth of the run, GB/s."""

    @property
    def littles_law_gbs(self) -> float:
        """Bytes in flight over latency, GB/s: what Little's law predicts for this many warps."""

    @property
    def label(self) -> str:
        """Name of the point, or of the curve if several rows share it."""


def latency_curve(
    rows: Sequence[LatencyRow],
    *,
    ax: Axes | None = None,
    peak_gbs: float | None = None,
    peak_label: str = "peak",
    more_laws: Mapping[str, Sequence[float]] | None = None,
    title: str = "Bandwidth against active warps",
) -> Axes:
    """Draw bandwidth against active warps, with Little's law, the peak, and the knee where the two meet.

    Parameters
    ----------
    rows
        One object for each run, see `LatencyRow`. Rows with the same label form a curve; if all labels differ, there
        is one curve and the labels name its points.
    ax
        Axes to draw on. Without it a new figure is made, unknown to pyplot; save it with ``ax.figure.savefig(…)``.
    peak_gbs
        Peak bandwidth; without it the knee is where Little's law reaches the highest bandwidth of the rows.
    peak_label
        What the peak is of, for the legend.
    more_laws
        Further predictions by their names, GB/s for each row; they are drawn as lines without a knee.
    title
        Title; name GPU and kernel here, for the rows do not know them.

    Raises
    ------
    ValueError
        If there are no rows, a row has no active warps, or a law has not one number for each row.
    """
    if not rows:
        raise ValueError("rows is empty: pass one row for each run")
    for row in rows:
        if row.warps_per_sm <= 0:
            raise ValueError(f"row {row.label!r}: warps_per_sm = {row.warps_per_sm:g} must be positive")
    for name, values in (more_laws or {}).items():
        if len(values) != len(rows):
            raise ValueError(f"law {name!r} has {len(values)} numbers for {len(rows)} rows: pass one for each row")
    curves = _curves(rows)
    ceiling = max(r.gbs for r in rows) if peak_gbs is None else peak_gbs

    ax = figure.new_axes(ax, 9.5, 5.0)
    right = 1.06 * max(r.warps_per_sm for r in rows)
    ax.set_xlim(0.0, right)
    if peak_gbs is not None:
        label = f"{peak_label}, {peak_gbs:,.0f} GB/s"
        ax.axhline(peak_gbs, color="#555555", linewidth=1.2, linestyle=":", label=label)
    _draw_curves(ax, curves, ceiling)
    for number, (name, values) in enumerate((more_laws or {}).items(), start=len(curves)):
        slope = max(value / row.warps_per_sm for value, row in zip(values, rows, strict=True))
        _draw_law(ax, slope, ceiling, palette.kernel_color(number), figure.plain(name))
    levels = _mark_knees(ax, curves, ceiling)
    room = 0.75 * figure.size_in_points(ax)[1]  # what a title and a legend may leave of the height
    ax.set_ylim(0.0, max(1.18 * max(r.gbs for r in rows), ceiling * max(1.18, 1 / (1 - min(0.6, levels / room)))))
    if len(curves) == 1:
        _name_points(ax, next(iter(curves.values())))
    _occupancy_axis(ax, rows)
    ax.set_xlabel("active warps per SM")
    ax.set_ylabel("bandwidth (GB/s)")
    ax.yaxis.set_major_formatter("{x:,.0f}")
    ax.grid(color="#e5e5e5", linewidth=0.7)
    ax.set_axisbelow(True)
    figure.outside_legend(ax, ax.get_legend_handles_labels()[0])
    ax.set_title(title)
    return ax


def _curves(rows: Sequence[LatencyRow]) -> dict[str, list[LatencyRow]]:
    """Rows by label and sorted by warps; one curve if no label occurs twice."""
    ordered = sorted(rows, key=lambda r: r.warps_per_sm)
    if len({r.label for r in rows}) == len(rows):
        return {"": ordered}
    curves: dict[str, list[LatencyRow]] = {r.label: [] for r in rows}
    for row in ordered:
        curves[row.label].append(row)
    return curves


def _slope(points: Sequence[LatencyRow]) -> float:
    """GB/s that each warp asks for by Little's law."""
    return max(p.littles_law_gbs / p.warps_per_sm for p in points)


def _draw_curves(ax: Axes, curves: Mapping[str, Sequence[LatencyRow]], ceiling: float) -> None:
    """Draw the simulated curves and their laws; curves of the same law share its line."""
    laws: dict[float, list[int]] = {}
    for number, (name, points) in enumerate(curves.items()):
        ax.plot(
            [p.warps_per_sm for p in points],
            [p.gbs for p in points],
            color=palette.kernel_color(number),
            marker="o",
            linewidth=2.0,
            zorder=3,
            label=f"simulated{f', {figure.plain(name)}' if name else ''}",
        )
        laws.setdefault(float(f"{_slope(points):.9g}"), []).append(number)
    names = list(curves)
    for slope, numbers in laws.items():
        of = " / ".join(figure.plain(names[n]) for n in numbers if names[n])
        _draw_law(ax, slope, ceiling, palette.kernel_color(numbers[0]), f"Little's law{f', {of}' if of else ''}")


def _draw_law(ax: Axes, slope: float, ceiling: float, color: str, label: str) -> None:
    """Draw a line of a law up to the ceiling and along it."""
    right = ax.get_xlim()[1]
    knee = ceiling / slope if slope > 0 else right
    reach = min(right, knee)
    ax.plot(
        [0.0, reach, *([right] if knee < right else [])],
        [0.0, slope * reach, *([ceiling] if knee < right else [])],
        color=palette.lighter(color, 0.25),
        linestyle="--",
        linewidth=1.4,
        label=label,
    )


def _mark_knees(ax: Axes, curves: Mapping[str, Sequence[LatencyRow]], ceiling: float) -> float:
    """Mark where each law meets the ceiling, labels one above the other; return the points of height they need."""
    right, width = ax.get_xlim()[1], figure.size_in_points(ax)[0]
    knees: dict[str, tuple[float, str]] = {}
    for number, points in enumerate(curves.values()):
        slope = _slope(points)
        knee = ceiling / slope if slope > 0 else 2 * right
        if knee <= right:
            occupancy = points[0].occupancy / points[0].warps_per_sm * knee
            knees.setdefault(f"knee: {knee:.3g} warps ({occupancy:.0%})", (knee, palette.kernel_color(number)))
    ends: list[float] = []  # of the last label in each line of labels
    for text, (knee, color) in sorted(knees.items(), key=lambda k: k[1][0]):
        ax.plot([knee], [ceiling], color=color, marker="D", markersize=7, markerfacecolor="white", zorder=4)
        half = CHARACTER_WIDTH * len(text) / 2
        # Centred, but not over the edge of the data.
        middle = min(max(knee / right * width, half), width - half)
        line = next((n for n, end in enumerate(ends) if end < middle - half), len(ends))
        ends[line : line + 1] = [middle + half + CHARACTER_WIDTH]
        ax.annotate(
            text,
            (knee, ceiling),
            xytext=(middle - knee / right * width, 9 + LABEL_ROOM * 1.3 * line),
            textcoords="offset points",
            ha="center",
            color=color,
            fontsize="small",
        )
    return 12 + LABEL_ROOM * 1.3 * len(ends)


def _name_points(ax: Axes, points: Sequence[LatencyRow]) -> None:
    """Write the labels below the points, save those that would cover the axis or the label before."""
    if len(points) > MOST_POINT_LABELS or len(points) < 2:
        return
    width, height = figure.size_in_points(ax)
    right, top = ax.get_xlim()[1], ax.get_ylim()[1]
    free = 0.0, 0.0
    for point in points:
        x, y = point.warps_per_sm / right * width, point.gbs / top * height
        if y < LABEL_ROOM + 5 or (x < free[0] and y < free[1]):
            continue
        free = x + LABEL_ROOM * 0.5 * len(point.label), y + LABEL_ROOM
        ax.annotate(
            figure.plain(point.label),
            (point.warps_per_sm, point.gbs),
            xytext=(5, -5) if point.warps_per_sm < 0.9 * right else (0, -8),
            textcoords="offset points",
            ha="left" if point.warps_per_sm < 0.9 * right else "center",
            va="top",
            fontsize="x-small",
            color="#444444",
        )


def _occupancy_axis(ax: Axes, rows: Sequence[LatencyRow]) -> None:
    """Add an occupancy scale on top; occupancy is proportional to active warps."""
    slots = max((r.warps_per_sm / r.occupancy for r in rows if r.occupancy > 0), default=0.0)
    if slots:

        def percent(warps: Any) -> Any:
            return warps / slots * 100

        def warps(percent: Any) -> Any:
            return percent * slots / 100

        top = ax.secondary_xaxis("top", functions=(percent, warps))
        top.set_xlabel("occupancy (%)")

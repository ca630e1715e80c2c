"""A figure over two axes of a sweep, as colours with numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from math import isnan
from typing import TYPE_CHECKING, Any

from gpusim_des.gpu.schema import suggest
from gpusim_des.views import figure
from gpusim_des.views.palette import HATCH_COLOR

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLORS = "viridis"
"""Colour map: as bright as the value is large, also for colour-blind readers and in grey print."""

MOST_NAMED = 24
"""Columns that a message names: those of the axes come first."""

Rows = Iterable[Mapping[str, Any]]


def heat_map(
    rows: Rows,
    x: str,
    y: str,
    value: str = "seconds",
    *,
    where: Mapping[str, object] | None = None,
    scale: float = 1.0,
    label: str = "",
    title: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Draw a figure over two of the things that a sweep varied.

    Parameters
    ----------
    rows
        A table of `sweep`, or any rows with these columns.
    x, y
        Columns of the axes, for example ``"registers"`` and ``"shared"``; values keep the order of the rows.
    value
        Column of the numbers.
    where
        Values of other columns, to choose rows where more than two things were varied.
    scale
        Factor of the numbers that are shown: 1e6 shows seconds in µs.
    label, title
        Of the colours and the figure; a `label` should name the unit. Without it, it is made from the column's name.
    ax
        Axes to draw on. Without it a new figure is made, unknown to pyplot; save it with ``views.save``.

    Returns
    -------
    Axes
        With a cell for each pair of values; hatched where there is no number, as for a launch that is impossible.

    Raises
    ------
    ValueError
        For a column that is not there, a `value` that is a text, no rows, or several rows for one cell.

    Examples
    --------
    >>> rows = [{"block": b, "n": n, "seconds": b * n * 1e-6} for b in (32, 64) for n in (1, 2)]
    >>> ax = heat_map(rows, "n", "block", scale=1e6, label="time (µs)")
    >>> [text.get_text() for text in ax.texts]
    ['32', '64', '64', '128']
    """
    rows = list(rows)
    for name in (x, y, value, *(where or {})) if rows else ():
        if not any(name in row for row in rows):
            raise ValueError(missing_column(name, list(rows[0])))
    chosen = [row for row in rows if all(str(row.get(k)) == str(v) for k, v in (where or {}).items())]
    if not chosen:
        asked = " and ".join(f"{name} = {wanted}" for name, wanted in (where or {}).items())
        raise ValueError(f"no rows to draw{asked and f' where {asked}'}")
    text = next((row[value] for row in chosen if isinstance(row.get(value), str)), None)
    if text is not None:
        raise ValueError(f"{value} is a text, {text!r} for example: choose a number")
    columns, lines = ({row[name]: None for row in chosen} for name in (x, y))
    cells: dict[tuple[object, object], Mapping[str, Any]] = {}
    for row in chosen:
        place = row[x], row[y]
        if place in cells:
            other = differing(cells[place], row)
            remedy = (
                f"choose one {other} with where, {cells[place][other]} or {row[other]}" if other else "leave one out"
            )
            raise ValueError(f"several rows have {x} = {place[0]} and {y} = {place[1]}: {remedy}")
        cells[place] = row
    numbers = [[_number(cells.get((column, line), {}).get(value), scale) for column in columns] for line in lines]
    names = label_of(x), label_of(y), label or label_of(value)
    return _draw(numbers, [*map(str, columns)], [*map(str, lines)], names, title, ax)


UNITS = {
    "shared": "bytes per block",
    "registers": "per thread",
    "block": "threads",
    "grid": "blocks",
    "seconds": "s",
    "took_s": "s",
    "cycles": "SM clock",
}
"""Units of columns by name."""

UNITS_BY_END = {
    "_fs": "fs",
    "_bytes": "bytes",
    "_bytes_per_second": "bytes/s",
    "_bytes_per_s": "bytes/s",
    "_cycles": "cycles",
    "_occupancy": "share of warp slots",
    "_utilization": "share of peak",
    "_hit_rate": "share of sectors",
}
"""Units of columns by the end of their names."""


def label_of(column: str) -> str:
    """Words for a column of a sweep, with its unit where there is one.

    >>> label_of("shared"), label_of("achieved_occupancy"), label_of("counted_races"), label_of("arg_n")
    ('shared (bytes per block)', 'achieved occupancy (share of warp slots)', 'counted races', 'n')
    """
    if column.startswith("arg_"):
        return column.removeprefix("arg_")
    unit = UNITS.get(column) or next((unit for end, unit in UNITS_BY_END.items() if column.endswith(end)), "")
    return column.replace("_", " ") + (f" ({unit})" if unit else "")


def missing_column(name: str, columns: Sequence[str]) -> str:
    """Say that there is no such column, and which it may have been.

    >>> missing_column("secnds", ["block", "seconds"]), missing_column("q", ["block", "seconds"])
    ("no column 'secnds': did you mean 'seconds'?", "no column 'q': there are block, seconds")
    """
    guess = suggest(name, columns)
    if guess.startswith("did you mean"):
        return f"no column {name!r}: {guess}"
    more = f" and {len(columns) - MOST_NAMED} more" if len(columns) > MOST_NAMED else ""
    return f"no column {name!r}: there are {', '.join(columns[:MOST_NAMED])}{more}"


def differing(a: Mapping[str, Any], b: Mapping[str, Any]) -> str:
    """First column in which two rows differ, of what was varied, which ends at ``error``; empty where they are alike.

    >>> differing({"n": 1, "m": 2}, {"n": 1, "m": 3})
    'm'
    """
    varied = takewhile(lambda name: name != "error", a)
    return next((name for name in varied if a[name] != b.get(name)), "")


def _number(value: Any, scale: float) -> float:
    return float(value) * scale if isinstance(value, int | float) else float("nan")


def _two_lines(label: str) -> str:
    r"""A long label with its unit on a line of its own.

    >>> _two_lines("theoretical occupancy (share of warp slots)")
    'theoretical occupancy\n(share of warp slots)'
    """
    name, bracket, unit = label.rpartition(" (")
    if not bracket or len(label) <= figure.LONGEST_NAME:
        return figure.plain(label)
    return f"{figure.plain(name)}\n{figure.plain(f'({unit}')}"


def _draw(
    numbers: list[list[float]],
    columns: list[str],
    lines: list[str],
    names: tuple[str, str, str],
    title: str,
    ax: Axes | None,
) -> Axes:
    from matplotlib import colormaps  # noqa: PLC0415 - Matplotlib is imported with the first figure
    from matplotlib.patches import Rectangle  # noqa: PLC0415

    ax = figure.new_axes(ax, 2.6 + 0.75 * len(columns), 1.6 + 0.5 * len(lines))
    ax.set_facecolor("#f4f4f4")
    ax.add_patch(
        Rectangle(
            (0, 0), 1, 1, transform=ax.transAxes, facecolor="none", edgecolor=HATCH_COLOR, hatch="///", lw=0, zorder=0
        )
    )
    image = ax.imshow(numbers, cmap=colormaps[COLORS], aspect="auto", zorder=1)
    known = [v for line in numbers for v in line if not isnan(v)]
    if known:
        bar = ax.figure.colorbar(image, ax=ax)
        bar.set_label(_two_lines(names[2]))
    low, high = min(known, default=0.0), max(known, default=1.0)
    for row, line in enumerate(numbers):
        for column, number in enumerate(line):
            if not isnan(number):
                bright = high > low and (number - low) / (high - low) > 0.6
                ax.text(
                    column,
                    row,
                    f"{number:,.3g}",
                    ha="center",
                    va="center",
                    color="black" if bright else "white",
                    fontsize=9,
                )
    ax.set_xticks(
        range(len(columns)), [figure.plain(c) for c in columns], rotation=45 if len(max(columns, key=len)) > 6 else 0
    )
    ax.set_yticks(range(len(lines)), [figure.plain(c) for c in lines])
    ax.tick_params(length=0)
    hatched = "\nhatched: no number; the row's error says why" if len(known) < len(lines) * len(columns) else ""
    ax.set_xlabel(_two_lines(names[0]) + hatched)
    ax.set_ylabel(_two_lines(names[1]))
    ax.set_title(figure.plain(title))
    return ax

# ruff: noqa: PLC0415
# Importing Matplotlib takes longer than most simulations: it is imported when the first figure is drawn, and here only.
"""What all figures share: axes, bars, units of time, the choice of kernels, titles and legends.

Without ``ax`` a figure function makes a `matplotlib.figure.Figure` of its own that pyplot does not know: it needs no
display and is freed with its Axes. Save it with ``ax.figure.savefig(…)``; in a notebook, end the cell with
``ax.figure``. For a window, pass the Axes of ``plt.subplots(layout="constrained")``, which leaves room for the legend
beside the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from gpusim_des.timeline import HasTimeline, Timeline
from gpusim_des.views.palette import HATCH_COLOR, Style
from gpusim_des.whole_file import whole_file

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.patches import Patch
    from matplotlib.patheffects import AbstractPathEffect

Unit = Literal["us", "cycles"]
"""Unit of a time axis: microseconds or SM clock cycles."""

FS_PER_US = 10**9
"""Femtoseconds in a microsecond."""


class Bar(NamedTuple):
    """A rectangle in data coordinates; `top` is above `bottom` on an inverted axis."""

    left: float
    right: float
    top: float
    bottom: float


LONGEST_NAME = 40
"""Characters of a kernel's name that are shown; compiled names can have hundreds."""

LONGEST_LINE = 70
"""Characters of a title's line, after which the GPU goes to the next one."""

MOST_BELOW = 8
"""Entries of a legend below the data; more would take its height."""

WIDEST_LEGEND = 0.22
"""Share of the width that a legend may take beside the data; a wider one goes below."""

LEGEND_ROWS = 16
"""Entries of a legend beside a figure; the rest is counted in the last one."""


def timeline_of(sim: HasTimeline | Timeline) -> Timeline:
    """Return the timeline of a simulation, or `sim` itself if it is one.

    Raises
    ------
    TypeError
        If `sim` is neither.
    """
    found = sim if isinstance(sim, Timeline) else getattr(sim, "timeline", None)
    if not isinstance(found, Timeline):
        raise TypeError(f"{type(sim).__name__} has no timeline: pass what simulate() returned, or its .timeline")
    return found


def new_axes(ax: Axes | None, width: float, height: float) -> Axes:
    """Return `ax`, or the Axes of a new figure of `width` × `height` inches that pyplot does not keep alive."""
    if ax is not None:
        return ax
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained", dpi=150).add_subplot()


def save(ax: Axes, path: str | PathLike[str], *, dpi: float = 150) -> None:
    """Write the figure that `ax` belongs to; the ending of `path` chooses the format (.png, .svg, .pdf).

    The file appears whole or not at all. Without an ending it is a PNG.

    Raises
    ------
    FileNotFoundError
        If the folder does not exist.
    """
    root = ax.figure.figure  # a sub-figure leads to its figure
    with whole_file(path) as draft, draft.open("xb") as file:  # the draft's own ending would mean another format
        root.savefig(file, dpi=dpi, format=Path(path).suffix[1:] or "png")


def height(rows: int, *, row: float, entries: int, most: float = 8.0) -> float:
    """Height of a new figure in inches: `rows` of `row` inches each, but never less than its legend needs."""
    return max(1.3 + row * min(rows, (most - 1.3) / row), 0.9 + 0.24 * min(entries, LEGEND_ROWS), 2.6)


def fs_per_unit(timeline: Timeline, unit: Unit) -> int:
    """Femtoseconds in one `unit` of a time axis.

    Examples
    --------
    >>> fs_per_unit(Timeline("tiny", sms=2, sm_period_fs=500_000), "cycles")
    500000
    """
    if unit == "us":
        return FS_PER_US
    if unit == "cycles":
        return timeline.sm_period_fs
    raise ValueError(f'unit = {unit!r}: choose "us" (microseconds) or "cycles" (SM clock cycles)')


def kernels_shown(timeline: Timeline, kernel: int | str | None) -> list[int]:
    """Numbers of the kernels that `kernel` means: a number, a name (all launches of it), or ``None`` for all.

    Raises
    ------
    ValueError
        If there is no such kernel, or no kernel at all.
    """
    names = [k.name for k in timeline.kernels]
    if not names:
        raise ValueError("the simulation ran no kernel: launch one before simulate()")
    if kernel is None:
        return list(range(len(names)))
    if isinstance(kernel, str):
        found = [i for i, name in enumerate(names) if name == kernel]
        if not found:
            raise ValueError(f"kernel = {kernel!r}: the simulation ran {', '.join(dict.fromkeys(names))}")
        return found
    if not 0 <= kernel < len(names):
        raise ValueError(f"kernel = {kernel}: the simulation ran {len(names)} kernels, numbered from 0")
    return [kernel]


def plain(name: str) -> str:
    r"""Return `name` as Matplotlib shows it: shortened, and with ``$`` as a mere character.

    Examples
    --------
    >>> plain("add"), plain("f$1"), len(plain("x" * 100))
    ('add', 'f\\$1', 40)
    """
    short = name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"
    return short.replace("$", r"\$")


def kernel_labels(timeline: Timeline) -> list[str]:
    """Names of all kernels, with a number where a name occurs more than once."""
    names = [k.name for k in timeline.kernels]
    labels, seen = [], dict.fromkeys(names, 0)
    for name in names:
        seen[name] += 1
        labels.append(plain(name) + (f" #{seen[name]}" if names.count(name) > 1 else ""))
    return labels


def where(timeline: Timeline, kernels: Sequence[int]) -> str:
    """Kernel and GPU for a title, for example ``vector_add on H100 SXM``; says when other kernels are left out."""
    count = len(timeline.kernels)
    if len(set(kernels)) < count:  # of several launches of one name, say which
        labels = kernel_labels(timeline)
        names = [labels[k] for k in kernels]
        part = f" ({len(names)} of {count} kernels)"
    else:
        names = list(dict.fromkeys(plain(timeline.kernels[k].name) for k in kernels))
        part = ""
    text = (", ".join(names) if len(names) <= 3 else f"{len(names)} kernels") + part
    # A changed GPU says so at the end of its name, which must not be cut off.
    gpu = timeline.gpu_name.replace("$", r"\$")
    return f"{text}{' ' if len(text) + len(gpu) <= LONGEST_LINE else chr(10)}on {gpu}"


def time_axis(ax: Axes, unit: Unit, start: float, end: float) -> None:
    """Label the x axis as time in `unit`, from `start` to `end`, with whole numbers instead of powers of ten."""
    from matplotlib.ticker import FuncFormatter

    ax.set_xlim(start, end if end > start else start + 1)
    ax.set_xlabel("time (µs)" if unit == "us" else "time (SM cycles)")
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.10g}"))


def size_in_points(ax: Axes) -> tuple[float, float]:
    """Width and height of the data area in points, to decide whether text fits; estimated before the first drawing."""
    room = ax.get_window_extent()
    return room.width * 72.0 / ax.figure.dpi, room.height * 72.0 / ax.figure.dpi


def add_bars(ax: Axes, bars: Sequence[Bar], style: Style, *, edge: float = 0.0, label: str = "") -> None:
    """Draw all `bars` as one collection, so that tens of thousands stay fast; `edge` is the width of white edges."""
    from matplotlib.collections import PolyCollection

    corners = [[(b.left, b.top), (b.right, b.top), (b.right, b.bottom), (b.left, b.bottom)] for b in bars]
    collection = PolyCollection(
        corners,
        facecolors=style.color,
        hatch=style.hatch or None,
        edgecolors=HATCH_COLOR if style.hatch else "white" if edge else "none",
        linewidths=edge,
        label=label,
        zorder=2,
    )
    ax.add_collection(collection, autolim=False)


def patch(style: Style, label: str) -> Patch:
    """Return a legend entry that looks like the bars of `style`.

    A legend leaves out labels that begin with an underscore; a space before it keeps kernels of such names.
    """
    from matplotlib.patches import Patch

    text = "\N{NO-BREAK SPACE}" + label if label.startswith("_") else label
    return Patch(facecolor=style.color, hatch=style.hatch or None, edgecolor=HATCH_COLOR, linewidth=0.0, label=text)


def halo() -> list[AbstractPathEffect]:
    """Path effect that keeps small text legible on any colour."""
    from matplotlib.patheffects import withStroke

    return [withStroke(linewidth=1.8, foreground="white")]


def open_frame(ax: Axes) -> None:
    """Take away the frame's upper and right line, which carry no scale."""
    ax.spines[["top", "right"]].set_visible(False)


def outside_legend(ax: Axes, handles: Sequence[Artist], title: str | None = None, *, below: bool = False) -> None:
    """Put a legend to the right of the data, where it covers nothing, or below: if its labels are long, or if asked."""
    from matplotlib.transforms import ScaledTranslation

    shown = list(handles)
    width = size_in_points(ax)[0]
    widest = 34 + 5.6 * max((len(str(h.get_label())) for h in shown), default=0)  # of ten points, with its handle
    if below or (widest > WIDEST_LEGEND * width / 0.775 and len(shown) <= MOST_BELOW):
        lower = ScaledTranslation(0, -38 / 72, ax.figure.dpi_scale_trans)  # leaves room for the axis
        ax.legend(
            handles=shown,
            title=title,
            loc="upper center",
            bbox_to_anchor=(0.5, 0.0),
            bbox_transform=ax.transAxes + lower,
            borderaxespad=0.0,
            frameon=False,
            ncols=max(1, min(len(shown), int(width / 0.775 / widest))),
        )
        return
    if len(shown) > LEGEND_ROWS:
        left = len(shown) - (LEGEND_ROWS - 1)
        shown = [*shown[: LEGEND_ROWS - 1], patch(Style("none"), f"… and {left} more")]
    ax.legend(
        handles=shown,
        title=title,
        loc="upper left",
        bbox_to_anchor=(1.01, 1.0),
        borderaxespad=0.0,
        frameon=False,
        alignment="left",
    )

"""The roofline: what kernels reach, under the roofs of the memories and of the pipes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from gpusim_des.analytic import Roofs
from gpusim_des.views import figure, palette
from gpusim_des.views.curves import MARKERS

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

LINES = ("-", "--", ":", "-.")
"""Styles of roofs: the first memory and the first pipe are solid."""

GIGA = 1e9

MARKER_SIZE = 15


@dataclass(frozen=True)
class RooflinePoint:
    """A kernel on the chart."""

    label: str
    intensity: float
    """Operations per byte."""
    per_second: float
    """Operations per second that it reached."""
    compute: str = "fp32"
    """Pipe that it uses, under whose roof it stands."""
    memory: str = ""
    """Memory that the bytes are of, whose roof limits it; the first one drawn if empty."""


def roofline(
    roofs: Roofs,
    points: Sequence[RooflinePoint],
    *,
    ax: Axes | None = None,
    compute: Sequence[str] = ("fp32",),
    memory: Sequence[str] = ("DRAM",),
    title: str = "Roofline",
) -> Axes:
    """Draw the roofs of a chip, and kernels under them, numbered as in the legend.

    A thin line leads from each kernel up to the roof over it, that of its own pipe and memory: its length, on a
    logarithmic scale, is the factor that is missing. Points with one label have one number: the same kernel by the
    bytes of several memories, which their shapes tell.

    Parameters
    ----------
    roofs
        Of the chip, from `gpusim_des.analytic.roofs`.
    points
        The kernels.
    ax
        Axes to draw on. Without it a new figure is made, unknown to pyplot; save it with ``ax.figure.savefig(…)``.
    compute, memory
        Roofs to draw: names in ``roofs.compute`` and ``roofs.memory``, the most important ones first.
    title
        Title; name the GPU here.

    Raises
    ------
    ValueError
        If there are no points or no roofs to draw, a roof is unknown, or a number is not positive.
    """
    _check(points, compute, memory)
    ax = figure.new_axes(ax, 10.5, 5.6)
    ridges = [roofs.ridge(pipe, level) for pipe in compute for level in memory]
    left = min(*ridges, *(p.intensity for p in points)) / 2.5
    right = max(*ridges, *(p.intensity for p in points)) * 2.5
    handles: list[Artist] = []
    for number, level in enumerate(memory):
        peak = max(roofs.compute[pipe] for pipe in compute)
        bandwidth = roofs.memory[level]
        end = min(right, peak / bandwidth)
        label = f"{level}: {bandwidth / GIGA:,.4g} GB/s"
        style = LINES[number % len(LINES)]
        y = left * bandwidth / GIGA, end * bandwidth / GIGA
        handles += ax.plot((left, end), y, color="#333333", linestyle=style, linewidth=1.8, label=label, zorder=2)
    for number, pipe in enumerate(compute):
        peak = roofs.compute[pipe]
        start = min(peak / roofs.memory[level] for level in memory)
        label = f"{pipe}: {peak / GIGA:,.4g} GFLOP/s"
        style, color = LINES[number % len(LINES)], palette.kernel_color(number)
        y = peak / GIGA, peak / GIGA
        handles += ax.plot((start, right), y, color=color, linestyle=style, linewidth=1.8, label=label, zorder=2)
    numbers: dict[str, int] = {}
    for point in points:
        new = point.label not in numbers
        number = numbers.setdefault(point.label, len(numbers) + 1)
        shape = list(memory).index(point.memory) if point.memory else None
        handle = _draw_point(ax, roofs, number, point, compute, point.memory or memory[0], shape)
        handles += [handle] * new
    for shape, level in enumerate(memory):
        if any(point.memory == level for point in points):
            marker = MARKERS[shape % len(MARKERS)]
            handles += ax.plot([], [], marker, color="#888888", markersize=6, label=f"by the bytes of {level}")
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(left, right)
    ax.xaxis.set_major_formatter("{x:,.10g}")
    ax.yaxis.set_major_formatter("{x:,.10g}")
    ax.set_xlabel("operations per byte")
    ax.set_ylabel("operations per second (GFLOP/s)")
    ax.grid(color="#e6e6e6", linewidth=0.8)
    ax.set_axisbelow(True)
    figure.open_frame(ax)
    figure.outside_legend(ax, handles)
    ax.set_title(title)
    return ax


def _draw_point(
    ax: Axes, roofs: Roofs, number: int, point: RooflinePoint, compute: Sequence[str], memory: str, shape: int | None
) -> Artist:
    """Draw a number on a marker in the colour of its pipe, and in the shape of its memory if it has one.

    Those of memories further down are larger and below: a kernel may move as much there. Returns the legend's entry.
    """
    pipe = list(compute).index(point.compute)
    color, marker = palette.kernel_color(pipe), MARKERS[(pipe if shape is None else shape) % len(MARKERS)]
    larger = shape or 0
    y = point.per_second / GIGA
    roof = roofs.attainable(point.intensity, point.compute, memory) / GIGA
    ax.plot((point.intensity, point.intensity), (y, roof), color=palette.lighter(color, 0.5), linewidth=1.0, zorder=1)
    size = MARKER_SIZE + 6 * larger
    zorder = 3 - 0.1 * larger
    ax.plot([point.intensity], [y], marker, color=color, markersize=size, markeredgecolor="white", zorder=zorder)
    text = palette.text_color(color)
    ax.annotate(str(number), (point.intensity, y), ha="center", va="center", fontsize="small", color=text, zorder=4)
    label = f"{number}  {figure.plain(point.label)}"
    handle: Artist = ax.plot([], [], marker if shape is None else "o", color=color, markersize=6, label=label)[0]
    return handle


def _check(points: Sequence[RooflinePoint], compute: Sequence[str], memory: Sequence[str]) -> None:
    if not points or not compute or not memory:
        raise ValueError("nothing to draw: pass at least one kernel, one pipe and one memory")
    for point in points:
        for what, value in (("intensity", point.intensity), ("per_second", point.per_second)):
            if not 0 < value < inf:
                raise ValueError(f"{point.label}: {what} = {value} on a logarithmic axis: must be positive and finite")
        if point.compute not in compute:
            raise ValueError(
                f"{point.label} uses the pipe {point.compute!r}, whose roof is not drawn: add it to compute"
            )
        if point.memory and point.memory not in memory:
            raise ValueError(f"{point.label} uses {point.memory!r}, whose roof is not drawn: add it to memory")

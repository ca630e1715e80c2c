"""The staircase of waves: time against the number of blocks, simulated and by formula."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from gpusim_des.views import figure, palette

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_WAVE_LINES = 12
"""Most waves that are marked one by one; with more, every second, third … is."""

MOST_MARKERS = 80
"""Above this many points the simulated ones are drawn without markers of their own."""


def waves_curve(
    blocks: Sequence[int],
    simulated_us: Sequence[float],
    formula_us: Sequence[float],
    *,
    ax: Axes | None = None,
    capacity: int | None = None,
    title: str = "Time against number of blocks",
) -> Axes:
    """Draw how time grows in steps with the number of blocks: a block more than fits starts a wave of its own.

    Parameters
    ----------
    blocks
        Numbers of blocks, in rising order.
    simulated_us, formula_us
        Time by simulation and by formula for each of them, µs.
    ax
        Axes to draw on. Without it a new figure is made, unknown to pyplot; save it with ``ax.figure.savefig(…)``.
    capacity
        Blocks that the GPU holds at once, to mark where full waves end.
    title
        Title; name GPU and kernel here, for the numbers do not know them.

    Raises
    ------
    ValueError
        If the sequences are empty, differ in length or are out of order, or if `capacity` is not positive.
    """
    if not blocks:
        raise ValueError("blocks is empty: pass at least one number of blocks")
    if not len(blocks) == len(simulated_us) == len(formula_us):
        raise ValueError(
            f"{len(blocks)} numbers of blocks, {len(simulated_us)} simulated and {len(formula_us)} formula times: "
            "pass one time of each kind for each number of blocks"
        )
    if any(b <= a for a, b in pairwise(blocks)):
        raise ValueError("blocks must rise from one entry to the next: sort the runs by their number of blocks")
    if capacity is not None and capacity < 1:
        raise ValueError(f"capacity = {capacity}: the number of blocks that are resident at once is at least 1")

    ax = figure.new_axes(ax, 9.5, 4.8)
    simulated, formula = palette.KERNEL_COLORS[0], palette.KERNEL_COLORS[1]
    stairs = _stairs(blocks, formula_us, capacity)
    ax.plot(*stairs, color=formula, linewidth=3.0, alpha=0.75, label="formula", zorder=2)
    stairs = _stairs(blocks, simulated_us, capacity)
    (line,) = ax.plot(*stairs, color=simulated, linewidth=1.2, label="simulated", zorder=3)
    if len(blocks) <= MOST_MARKERS:
        line.set(marker="o", markersize=5.0 if len(blocks) <= 30 else 3.0, markevery=3)
    ax.set_xlim(0, blocks[-1] * 1.02 + 0.5)
    ax.set_ylim(0, 1.12 * max(*simulated_us, *formula_us) or 1.0)
    if capacity is not None:
        _mark_waves(ax, blocks[-1], capacity)
    ax.set_xlabel("blocks in the grid")
    ax.set_ylabel("time (µs)")
    ax.locator_params(axis="x", integer=True)
    ax.xaxis.set_major_formatter("{x:,.0f}")
    figure.open_frame(ax)
    figure.outside_legend(ax, list(ax.get_legend_handles_labels()[0])[::-1])
    ax.set_title(title)
    return ax


def _stairs(blocks: Sequence[int], times: Sequence[float], capacity: int | None) -> tuple[list[float], list[float]]:
    """Corners of a staircase through the points; each third corner is a point.

    A step lies where a wave ends between two points, otherwise half-way.
    """
    xs, ys = [float(blocks[0])], [times[0]]
    for (last, before), (number, time) in pairwise(zip(blocks, times, strict=True)):
        full = (number - 1) // capacity * capacity if capacity is not None else 0
        edge = full + 0.5 if full >= last else (last + number) / 2
        xs += [edge, edge, float(number)]
        ys += [before, time, time]
    return xs, ys


def _mark_waves(ax: Axes, last: int, capacity: int) -> None:
    """Draw a line after each full wave, with the number of waves on top."""
    full = last // capacity
    step = max(1, -(-full // MOST_WAVE_LINES))
    ax.plot([], [], color="#999999", linewidth=0.9, linestyle=":", label=f"full waves of {capacity:,} blocks")
    for wave in range(step, full + 1, step):
        x = wave * capacity + 0.5
        ax.axvline(x, color="#999999", linewidth=0.9, linestyle=":", zorder=1)
        ax.annotate(
            str(wave),
            (x, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(0, -3),
            textcoords="offset points",
            ha="center",
            va="top",
            fontsize="small",
            color="#555555",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0},
        )

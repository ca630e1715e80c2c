"""How many blocks were resident on each SM, as rows of shades: for pictures with more blocks than pixels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gpusim_des.timeline import BlockSpan, Timeline
from gpusim_des.views import figure, palette
from gpusim_des.views.palette import Style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.patches import Patch

COLUMNS = 800
"""Columns of time, about as many as a figure has pixels for them."""

GAMMA = 0.6
"""Below 1: one block of many can still be told from none."""


def mean_blocks(spans: Sequence[BlockSpan], rows: Mapping[int, int], edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean number of resident blocks in each row (SM) and column of time, exact up to rounding.

    Columns lie between neighbouring `edges` (femtoseconds), which are equally far apart. A span that covers a part of a
    column counts by that part, so that nothing depends on where the columns happen to lie.

    Examples
    --------
    >>> spans = [BlockSpan(0, 0, 0, 0, 0, 15), BlockSpan(0, 1, 0, 1, 10, 20)]
    >>> mean_blocks(spans, {0: 0}, np.array([0.0, 10.0, 20.0]))
    array([[1. , 1.5]])
    """
    means = np.zeros((len(rows), len(edges) - 1))
    for sm, row in rows.items():
        means[row] = mean_running([(s.start_fs, s.end_fs) for s in spans if s.sm == sm], edges)
    return means


def mean_running(
    spans: Sequence[tuple[float, float]] | NDArray[np.int64],
    edges: NDArray[np.float64],
    weights: Sequence[float] | NDArray[np.float64] = (),
) -> NDArray[np.float64]:
    """Mean number of `spans` (start and end) in each column of time, each counted `weights` times; once without them.

    Examples
    --------
    >>> mean_running([(0, 15), (10, 20)], np.array([0.0, 10.0, 20.0]))
    array([1. , 1.5])
    >>> mean_running([(0, 15), (10, 20)], np.array([0.0, 10.0, 20.0]), [2.0, 3.0])
    array([2., 4.])
    """
    # The integral over time of the number of spans grows by (t - start) from each start on and stops at each end.
    integral = np.zeros(len(edges))
    ends = np.asarray(spans, dtype=np.float64).reshape(-1, 2)
    heights = np.asarray(weights, dtype=np.float64) if len(weights) else np.ones(len(ends))
    for moments, sign in ((ends[:, 0], 1.0), (ends[:, 1], -1.0)):
        order = np.argsort(moments, kind="stable")
        sorted_moments, sorted_heights = moments[order], heights[order]
        before = np.searchsorted(sorted_moments, edges, side="right")
        numbers = np.concatenate([[0.0], np.cumsum(sorted_heights)])
        sums = np.concatenate([[0.0], np.cumsum(sorted_heights * sorted_moments)])
        integral += sign * (numbers[before] * edges - sums[before])
    means: NDArray[np.float64] = np.clip(np.diff(integral) / (edges[1] - edges[0]), 0.0, None)
    return means


def draw_residency(ax: Axes, spans: Sequence[BlockSpan], rows: Mapping[int, int], scale: int) -> int:
    """Shade each SM's row by its resident blocks over time, kernels in their colours; return the most blocks.

    Where blocks of several kernels are resident, their colours mix.
    """
    low, high = ax.get_xlim()
    edges = np.linspace(low * scale, high * scale, COLUMNS + 1)
    kernels = sorted({s.kernel for s in spans})
    means = {k: mean_blocks([s for s in spans if s.kernel == k], rows, edges) for k in kernels}
    together = np.sum(list(means.values()), axis=0)
    most = max(1, round(float(together.max())))
    image = np.ones((len(rows), COLUMNS, 3))
    depth = np.clip(together / most, 0.0, 1.0) ** GAMMA
    for kernel, mean in means.items():
        share = np.divide(mean, together, out=np.zeros_like(mean), where=together > 0) * depth
        image -= share[:, :, None] * (1.0 - _rgb(kernel))
    ax.imshow(
        np.clip(image, 0.0, 1.0),
        extent=(low, high, len(rows) - 0.5, -0.5),
        aspect="auto",
        interpolation="nearest",
        zorder=2,
    )
    return most


def residency_legend(record: Timeline, kernels: Sequence[int], most: int) -> list[Patch]:
    """Return entries for each kernel in full, and for one block and half of the blocks in the first one's colour."""
    names = figure.kernel_labels(record)
    entries = [
        figure.patch(Style(palette.kernel_color(k)), f"{names[k]}, {most} blocks" if most > 1 else names[k])
        for k in kernels
    ]
    for blocks in sorted({1, most // 2} - {0, most}, reverse=True):
        color = palette.lighter(palette.kernel_color(kernels[0]), 1 - (blocks / most) ** GAMMA)
        entries.append(figure.patch(Style(color), f"{blocks} block{'s' if blocks > 1 else ''}"))
    return entries


def _rgb(kernel: int) -> NDArray[np.float64]:
    color = palette.kernel_color(kernel)
    return np.array([int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)])

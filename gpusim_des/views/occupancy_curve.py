"""What-if picture of the occupancy: over block size, registers or shared memory, coloured by what limits it."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gpusim_des.analytic import OccupancyCurve
from gpusim_des.views import figure, palette
from gpusim_des.views.palette import Style

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

LIMITER_STYLES: dict[str, Style] = {
    "warps": Style("#009e73"),
    "registers": Style("#d55e00", "///"),
    "shared_mem": Style("#0072b2", "\\\\\\"),
    "blocks": Style("#cc79a7", "..."),
    "barriers": Style("#56b4e9", "xxx"),
    "several": Style("#c6c6c6"),
}
"""Fill of the area under the curve by what limits the occupancy there; full warp slots are the aim, so plain green."""

_NAMES = {
    "warps": "warp slots",
    "registers": "registers",
    "shared_mem": "shared memory",
    "blocks": "block slots",
    "barriers": "barriers",
    "several": "several at once",
}
_UNITS = {"block": "threads", "registers": "registers", "shared": "KiB"}
_LABELS = {
    "block": "threads per block",
    "registers": "registers per thread",
    "shared": "shared memory per block (KiB)",
}


def occupancy_curve(curve: OccupancyCurve, *, ax: Axes | None = None, title: str | None = None) -> Axes:
    """Draw how the occupancy changes with block size, registers or shared memory, and what limits it where.

    The launch that was asked about is marked. Right of the picture the resident warps stand beside the percentages.

    Parameters
    ----------
    curve
        What `gpusim_des.analytic.what_if` returned.
    ax
        Axes to draw on. Without it a new figure is made, unknown to pyplot.
    title
        Title; by default the GPU and what is held.
    """
    ax = figure.new_axes(ax, 9.5, 4.6)
    scale = 1024.0 if curve.axis == "shared" else 1.0
    x, percent = curve.values / scale, 100.0 * curve.occupancy
    # Each point stands for what lies between it and its neighbours: registers and shared memory are rounded up to it.
    edges = _edges(x, centred=curve.axis == "block")
    slots = curve.limits.max_warps_per_sm
    drawn: dict[str, Artist] = {}
    runs = _runs(curve.limiter)
    for start, end, limiter in runs:
        name = _family(limiter)
        style = LIMITER_STYLES[name]
        ax.fill_between(
            edges[start : end + 2],
            np.append(percent[start : end + 1], percent[end]),
            step="post",
            facecolor=palette.lighter(style.color, 0.45),
            hatch=style.hatch or None,
            edgecolor=style.color,
            linewidth=0.0,
            zorder=2,
        )
        drawn.setdefault(name, figure.patch(Style(palette.lighter(style.color, 0.45), style.hatch), _NAMES[name]))
    ax.stairs(percent, edges, color="#333333", linewidth=1.3, zorder=3, baseline=None)
    _mark_chosen(ax, curve, scale)
    ax.set_xlim(edges[0], edges[-1])
    ax.set_ylim(0, 112)
    ax.set_yticks(range(0, 101, 25))
    ax.set_xlabel(_LABELS[curve.axis])
    ax.set_ylabel("occupancy (%)")
    if curve.axis == "block":
        ax.set_xticks([32, *range(128, int(x[-1]) + 1, 128)])
    if curve.axis == "shared":
        ax.set_xticks(range(0, int(x[-1]) + 1, 16 if x[-1] <= 128 else 32))
    figure.open_frame(ax)
    warps = ax.secondary_yaxis("right", functions=(partial(_scaled, slots / 100), partial(_scaled, 100 / slots)))
    warps.set_ylabel("resident warps per SM")
    warps.set_yticks([slots * part // 4 for part in range(5)])
    handles = [drawn[name] for name in LIMITER_STYLES if name in drawn]
    ax.legend(
        handles=handles,
        title="limited by",
        loc="upper left",
        bbox_to_anchor=(1.09, 1.0),
        borderaxespad=0.0,
        frameon=False,
        alignment="left",
    )
    ax.set_title(title if title is not None else _title(curve), loc="left")
    return ax


def _scaled(factor: float, values: Any) -> Any:
    return factor * values


def _edges(x: NDArray[Any], *, centred: bool) -> NDArray[Any]:
    if len(x) == 1:
        return np.array([x[0] - 0.5, x[0] + 0.5])
    if centred:
        middle = (x[1:] + x[:-1]) / 2
        return np.concatenate([[x[0] - (middle[0] - x[0])], middle, [x[-1] + (x[-1] - middle[-1])]])
    # A value is worse than the one below it from just above that one on.
    return np.concatenate([[x[0] - (x[1] - x[0])], x])


def _runs(limiters: NDArray[Any]) -> list[tuple[int, int, str]]:
    families = [_family(str(limiter)) for limiter in limiters]
    starts = [0, *(i + 1 for i, (a, b) in enumerate(pairwise(families)) if a != b)]
    return [(a, b - 1, str(limiters[a])) for a, b in pairwise([*starts, len(families)])]


def _family(limiter: str) -> str:
    parts = limiter.split("+")
    if "warps" in parts:  # all slots that the block size can fill are full
        return "warps"
    parts = [part for part in parts if part != "barriers" or len(parts) == 1]
    return parts[0] if len(parts) == 1 else "several"


def _mark_chosen(ax: Axes, curve: OccupancyCurve, scale: float) -> None:
    if curve.chosen is None:
        return
    at = int(np.flatnonzero(curve.values == curve.chosen)[0])
    x, y = curve.chosen / scale, 100.0 * float(curve.occupancy[at])
    ax.plot([x, x], [0, y], color="black", linewidth=1.2, linestyle=(0, (4, 2)), zorder=4)
    ax.plot([x], [y], "o", color="black", markersize=6, zorder=5, clip_on=False)
    right = x > (curve.values[0] + curve.values[-1]) / scale / 2
    blocks = int(curve.blocks_per_sm[at])
    ax.annotate(
        f"{x:,.4g} {_UNITS[curve.axis]}: {y:.4g}%, {blocks} block{'s' * (blocks != 1)} per SM",
        (x, y),
        (-7 if right else 7, 5),
        textcoords="offset points",
        ha="right" if right else "left",
        va="bottom",
        fontweight="bold",
        path_effects=figure.halo(),
        zorder=6,
    )


def _title(curve: OccupancyCurve) -> str:
    held = {
        "block": f"{curve.threads[0]} threads per block",
        "registers": f"{curve.registers[0]} registers per thread",
        "shared": f"{curve.shared_bytes[0] / 1024:,.4g} KiB of shared memory per block"
        if curve.shared_bytes[0]
        else "no shared memory",
    }
    return f"Occupancy on {curve.limits.name}: " + ", ".join(text for name, text in held.items() if name != curve.axis)

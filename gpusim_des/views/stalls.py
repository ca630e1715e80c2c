"""Where the warp-cycles went: the share of every warp state, one bar for each kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpusim_des.timeline import HasTimeline, KernelTiming, Timeline, WarpState
from gpusim_des.views import figure, palette

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROOM_PER_CHARACTER = 0.017
"""Share of the axis that a character needs: a segment too short for its number goes without."""


def stalls(
    sim: HasTimeline | Timeline,
    *,
    ax: Axes | None = None,
    kernel: int | str | None = None,
    percent: bool = True,
) -> Axes:
    """Draw how the resident warp-cycles of each kernel divide into issuing and the reasons for waiting.

    The states stand in the priority order of rule I7, ``selected`` first. Every state that occurred is drawn to scale
    and listed in the legend, however small; with a single kernel the legend says how much it was.

    Parameters
    ----------
    sim
        What ``simulate()`` returned, or its timeline; any ``detail`` will do.
    ax
        Axes to draw on. Without it a new figure is made, unknown to pyplot; save it with ``ax.figure.savefig(…)``.
    kernel
        Number or name of the only kernel to show.
    percent
        Show shares of each kernel's resident warp-cycles; ``False`` shows the warp-cycles themselves.

    Raises
    ------
    ValueError
        If no kernel ran, or no such kernel.
    """
    record = figure.timeline_of(sim)
    shown = figure.kernels_shown(record, kernel)
    names = figure.kernel_labels(record)
    timings = [record.kernels[k] for k in shown]
    states = [s for s in WarpState if any(t.stalls.get(s.suffix, 0) for t in timings)]

    ax = figure.new_axes(ax, 10.0, figure.height(len(shown), row=0.55, entries=len(states) + 1))
    full = 100.0 if percent else float(max(1, *(t.resident_warp_cycles for t in timings)))
    left = [0.0] * len(shown)
    for state in states:
        widths = [_width(t, state, percent) for t in timings]
        style = palette.STATE_STYLES[state]
        ax.barh(
            range(len(shown)),
            widths,
            left=left,
            height=0.62 if len(shown) > 1 else 0.4,
            color=style.color,
            hatch=style.hatch,
            edgecolor=palette.HATCH_COLOR if style.hatch else style.color,
            linewidth=0.0,
            label=_label(timings, state),
        )
        for row, width in enumerate(widths):
            text = f"{width:.0f}%" if percent else f"{width:,.0f}"
            if width >= ROOM_PER_CHARACTER * len(text) * full:
                _write(ax, left[row] + width / 2, row, text, style)
            left[row] += width
    ax.set_yticks(range(len(shown)), [f"{names[k]}\n{_duration(record.kernels[k])}" for k in shown])
    ax.set_ylim(len(shown) - 0.5, -0.5)
    ax.set_xlim(0.0, full)
    ax.set_xlabel("share of resident warp-cycles (%)" if percent else "resident warp-cycles")
    if not percent:
        ax.xaxis.set_major_formatter("{x:,.0f}")
    figure.open_frame(ax)
    figure.outside_legend(ax, list(ax.containers), title="state of the warp")  # type: ignore[arg-type]
    ax.set_title(f"Where the warps' time went: {figure.where(record, shown)}")
    return ax


def _width(timing: KernelTiming, state: WarpState, percent: bool) -> float:
    """Length of a segment; a kernel without a resident cycle has none."""
    cycles = timing.stalls.get(state.suffix, 0)
    return cycles * 100 / max(1, timing.resident_warp_cycles) if percent else float(cycles)


def _label(timings: list[KernelTiming], state: WarpState) -> str:
    """Name of the state and, of a single kernel, its share."""
    if len(timings) > 1:
        return state.suffix
    share = timings[0].stalls[state.suffix] * 100 / max(1, timings[0].resident_warp_cycles)
    return f"{state.suffix}  {share:.1f}%" if share >= 0.05 else f"{state.suffix}  < 0.1%"


def _write(ax: Axes, x: float, row: int, text: str, style: palette.Style) -> None:
    """Write a segment's number on it, on a plain patch where a hatch would run through it."""
    patch = {"facecolor": style.color, "edgecolor": "none", "pad": 1.5} if style.hatch else None
    color = palette.text_color(style.color)
    ax.text(x, row, text, color=color, bbox=patch, ha="center", va="center", fontsize="small", clip_on=True)


def _duration(timing: KernelTiming) -> str:
    """Duration in µs and cycles, for example ``12.3 µs, 21,700 cycles``."""
    return f"{(timing.end_fs - timing.start_fs) / figure.FS_PER_US:,.4g} µs, {timing.cycles:,} cycles"

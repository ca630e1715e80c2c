"""Who was where when: blocks on SMs, and warps cycle by cycle."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal

from gpusim_des.timeline import BlockSpan, HasTimeline, Timeline
from gpusim_des.views import figure, palette
from gpusim_des.views.figure import Bar, Unit
from gpusim_des.views.palette import Style
from gpusim_des.views.residency import draw_residency, residency_legend
from gpusim_des.views.warp_timeline import warp_timeline

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.patches import Patch

ROW_FILL = 0.86
"""Share of an SM's row that its blocks fill; the rest separates rows."""

MOST_SEPARATED_ROWS = 40
"""With more SMs their rows touch: gaps of less than a pixel would only make a pattern."""

THINNEST_BAR = 1.0
"""Points, two pixels of a new figure: thinner bars would only make a pattern with the pixels."""

MOST_NUMBERED_BLOCKS = 600
"""Above this many blocks no numbers are written on them."""

BLOCK_FONT = 8.0
"""Points of a block's number."""

Placed = tuple[BlockSpan, int]
"""A block and its wave, counted from 0."""


def timeline(
    sim: HasTimeline | Timeline,
    *,
    ax: Axes | None = None,
    unit: Unit = "us",
    kernel: int | str | None = None,
    sms: Iterable[int] | None = None,
    zoom: Literal["blocks", "warps"] = "blocks",
) -> Axes:
    """Draw which blocks were resident on which SM when.

    A row is an SM, a bar a block from its dispatch to the moment its slot is free again; blocks that are resident at
    the same time lie below each other. Each kernel has its colour, and a block that follows another in the same slot
    the other shade of it: a column of one shade is a wave. Where bars would be too thin to see, an SM's row is
    darker the more blocks are resident.

    Parameters
    ----------
    sim
        What ``simulate()`` returned, or its timeline.
    ax
        Axes to draw on. Without it a new figure is made, unknown to pyplot; save it with ``ax.figure.savefig(…)``.
    unit
        ``"us"`` or ``"cycles"`` (SM clock).
    kernel
        Number or name of the only kernel to show.
    sms
        Numbers of the SMs to show, in this order; all without it.
    zoom
        ``"warps"`` shows the warps of one SM instead, see `warp_timeline`.

    Raises
    ------
    ValueError
        If the timeline holds no blocks, or if there is no such kernel, SM or unit.
    """
    if zoom not in ("blocks", "warps"):
        raise ValueError(f'zoom = {zoom!r}: choose "blocks" or "warps"')
    record = figure.timeline_of(sim)
    if zoom == "warps":
        only = None if sms is None else list(sms)
        if only is not None and len(only) != 1:
            raise ValueError(f'zoom="warps" shows one SM, but sms names {len(only)}: pass for example sms=[0]')
        return warp_timeline(record, ax=ax, unit=unit, kernel=kernel, sm=only[0] if only else None)
    scale = figure.fs_per_unit(record, unit)
    kernels = figure.kernels_shown(record, kernel)
    if not record.blocks:
        raise ValueError('the timeline holds no blocks: simulate with detail="sm" or detail="warp"')
    rows = _rows(record, sms)
    bars = _bars(record, kernels, rows)
    entries = _legend(record, bars)
    slots = 1 + max((b.slot for b, _ in bars), default=0)

    ax = figure.new_axes(ax, 11.0, figure.height(len(rows), row=0.42, entries=len(entries)))
    low, high = _extent(record, kernels, bars)
    figure.time_axis(ax, unit, low / scale, high / scale)
    _sm_axis(ax, list(rows))
    if figure.size_in_points(ax)[1] / len(rows) / slots < THINNEST_BAR:
        most = draw_residency(ax, [b for b, _ in bars], rows, scale)
        figure.outside_legend(ax, residency_legend(record, kernels, most), title="shade: resident blocks")
    else:
        _draw(ax, bars, rows, slots, scale)
        _number(ax, bars, rows, slots, scale)
        figure.outside_legend(ax, entries)
    _mark_extrapolated(ax, record, kernels, scale)
    ax.set_title(f"Resident blocks: {figure.where(record, kernels)}")
    return ax


def _rows(record: Timeline, sms: Iterable[int] | None) -> dict[int, int]:
    """Map SM number to row, for the SMs to show."""
    chosen = range(record.sms) if sms is None else list(dict.fromkeys(sms))
    if not chosen:
        raise ValueError("sms is empty: name at least one SM")
    for sm in chosen:
        if not 0 <= sm < record.sms:
            raise ValueError(f"sms contains {sm}: {record.gpu_name} has SMs 0 to {record.sms - 1}")
    return {sm: row for row, sm in enumerate(chosen)}


def _bars(record: Timeline, kernels: Sequence[int], rows: dict[int, int]) -> list[Placed]:
    """Return the blocks to show; a block's wave is its rank among its kernel's blocks in its slot."""
    wanted = set(kernels)
    ranks: dict[tuple[int, int, int], int] = defaultdict(int)
    bars = []
    for span in sorted(record.blocks, key=lambda b: (b.start_fs, b.end_fs)):
        if span.kernel in wanted and span.sm in rows:
            place = (span.kernel, span.sm, span.slot)
            bars.append((span, ranks[place]))
            ranks[place] += 1
    return bars


def _extent(record: Timeline, kernels: Sequence[int], bars: Sequence[Placed]) -> tuple[int, int]:
    """First and last femtosecond of what is shown."""
    low = min([record.kernels[k].start_fs for k in kernels] + [b.start_fs for b, _ in bars])
    high = max([record.kernels[k].end_fs for k in kernels] + [b.end_fs for b, _ in bars])
    return low, high


def _mark_extrapolated(ax: Axes, record: Timeline, kernels: Sequence[int], scale: int) -> None:
    """Hatch the time of sampled kernels that was not simulated: no block is recorded there."""
    for number in kernels:
        sampled = record.kernels[number].sampled
        if sampled is not None:
            begin, end = sampled.simulated_end_fs / scale, record.kernels[number].end_fs / scale
            ax.axvspan(begin, end, facecolor="none", hatch="//", edgecolor="#dddddd", linewidth=0.0, zorder=0)
            text = "extrapolated"
            ax.text((begin + end) / 2, 0.5, text, transform=ax.get_xaxis_transform(), ha="center", va="center")


def _sm_axis(ax: Axes, sms: Sequence[int]) -> None:
    """Number the rows, the first on top; of many rows only every second, fourth, eighth."""
    step = next((s for s in (1, 2, 4, 8, 16, 32, 64) if len(sms) <= 24 * s), 128)
    ax.set_ylim(len(sms) - 0.5, -0.5)
    ax.set_yticks(range(0, len(sms), step), [str(sm) for sm in sms[::step]])
    ax.set_ylabel("SM")
    if len(sms) <= MOST_SEPARATED_ROWS:
        for row in range(1, len(sms)):
            ax.axhline(row - 0.5, color="#dddddd", linewidth=0.6, zorder=0)
    figure.open_frame(ax)


def _place(span: BlockSpan, rows: dict[int, int], slots: int) -> tuple[float, float]:
    """Upper edge and height of a block's bar in data coordinates."""
    fill = ROW_FILL if len(rows) <= MOST_SEPARATED_ROWS else 1.0
    return rows[span.sm] - fill / 2 + span.slot * fill / slots, fill / slots


def _draw(ax: Axes, bars: Sequence[Placed], rows: dict[int, int], slots: int, scale: int) -> None:
    """Draw all bars, one collection for each colour, so that tens of thousands of blocks stay fast."""
    groups: dict[tuple[int, int], list[Bar]] = defaultdict(list)
    for span, wave in bars:
        top, height = _place(span, rows, slots)
        groups[span.kernel, wave % 2].append(Bar(span.start_fs / scale, span.end_fs / scale, top, top + height))
    edge = 0.6 if len(bars) <= 1000 else 0.0
    for (number, parity), group in sorted(groups.items()):
        figure.add_bars(ax, group, Style(palette.kernel_color(number, parity)), edge=edge)


def _number(ax: Axes, bars: Sequence[Placed], rows: dict[int, int], slots: int, scale: int) -> None:
    """Write block numbers on the bars if all of them fit."""
    if len(bars) > MOST_NUMBERED_BLOCKS or not bars:
        return
    width, height = figure.size_in_points(ax)
    low, high = ax.get_xlim()
    if height / len(rows) * ROW_FILL / slots < BLOCK_FONT:
        return
    for span, _ in bars:
        room = (span.end_fs - span.start_fs) / scale / (high - low) * width
        if room < BLOCK_FONT * (0.65 * len(str(span.block)) + 0.4):
            return
    for span, wave in bars:
        top, thick = _place(span, rows, slots)
        ax.text(
            (span.start_fs + span.end_fs) / 2 / scale,
            top + thick / 2,
            str(span.block),
            color=palette.text_color(palette.kernel_color(span.kernel, wave)),
            fontsize=BLOCK_FONT,
            ha="center",
            va="center_baseline",
            clip_on=True,
        )


def _legend(record: Timeline, bars: Sequence[Placed]) -> list[Patch]:
    """One entry for each kernel and shade that occurs."""
    waves: dict[int, int] = defaultdict(int)
    for span, wave in bars:
        waves[span.kernel] = max(waves[span.kernel], wave + 1)
    names = figure.kernel_labels(record)
    handles = []
    for number in sorted(waves):
        for parity in range(min(2, waves[number])):
            label = names[number] + (f", {_wave_label(parity, waves[number])}" if waves[number] > 1 else "")
            handles.append(figure.patch(Style(palette.kernel_color(number, parity)), label))
    return handles


def _wave_label(parity: int, waves: int) -> str:
    """Name the waves of one shade, counted from 1: ``wave 1``, ``waves 1, 3``, ``waves 1, 3, …``."""
    numbers = [str(n) for n in range(parity + 1, waves + 1, 2)]
    shown = numbers if len(numbers) <= 2 else [*numbers[:2], "…"]
    return ("wave " if len(numbers) == 1 else "waves ") + ", ".join(shown)

"""What a host program did when: its thread, its streams, and the engines that served them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gpusim_des.timeline import FS_PER_S, HasTimeline, HostSpan, Operation, Timeline
from gpusim_des.units import duration, size
from gpusim_des.views import figure, palette
from gpusim_des.views.figure import Bar, Unit
from gpusim_des.views.palette import HOST_STYLES, OPERATION_STYLES, Style
from gpusim_des.views.residency import mean_running
from gpusim_des.views.sm_groups import sm_groups

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.patches import Patch

ROW_FILL = 0.8
"""Share of a row that is filled; the rest separates rows."""

WAIT_FILL = 0.42
"""Share of a row that the wait before an operation fills."""

WAITING = Style("#dcdcdc")
"""Fill of the time in which an operation was issued but had to wait."""

SECTION_GAP = 0.45
"""Rows between the host, the streams and the engines."""

FONT = 8.0
"""Points of text on bars."""

MOST_LABELS = 400
"""Labels of the longest bars are written; more would take their time and help nobody."""

THIN = 1.5
"""Points: rows whose bars are mostly thinner show shares of time instead."""

COLUMNS = 400
"""Most columns of time in such a row."""

BARS_PER_COLUMN = 16
"""At least as many bars share a column, so that its heights are means and no pattern."""

KIND_NAMES = {
    "h2d": "copy to device",
    "kernel": "kernel",
    "d2h": "copy to host",
    "d2d": "copy on device",
    "memset": "memset",
}


class _Box(NamedTuple):
    """Something on a row, times in femtoseconds; the labels are tried from the longest to the shortest."""

    start_fs: int
    end_fs: int
    style: Style
    labels: tuple[str, ...] = ()
    lane: int = 0
    wait: bool = False


@dataclass
class _Row:
    name: str
    section: int
    boxes: list[_Box] = field(default_factory=list)
    lanes: int = 1
    top: float = 0.0

    @property
    def height(self) -> float:
        """One for a single lane, and a little less for each further one."""
        return min(1.0 + 0.6 * (self.lanes - 1), 4.0)

    @property
    def middle(self) -> float:
        return self.top + self.height / 2

    def place(self, box: _Box) -> tuple[float, float]:
        """Top and bottom of a box."""
        lane = self.height * ROW_FILL / self.lanes
        middle = self.top + self.height * (1 - ROW_FILL) / 2 + lane * (box.lane + 0.5)
        half = lane / 2 * (WAIT_FILL / ROW_FILL if box.wait else 1.0)
        return middle - half, middle + half


def stream_timeline(
    sim: HasTimeline | Timeline, *, ax: Axes | None = None, unit: Unit = "us", end: float | None = None
) -> Axes:
    """Draw the host thread, the streams and the engines over one axis of time.

    The first row is the host thread: its calls, and hatched the time in which it was blocked. Then a row for each
    stream, with its operations; a thin grey bar before one is the time in which it had been issued and was next in its
    stream, but had to wait, with the reason where there is room. Below are the copy engines and the SMs, in up to four
    groups, on which the same operations meet; a group shows when it held blocks of a kernel. Rows with too many
    operations to see show how the time is shared between their kinds.

    Parameters
    ----------
    sim
        What ``simulate()`` returned, or its timeline.
    ax
        Axes to draw on. Without it a new figure is made, unknown to pyplot; save it with ``ax.figure.savefig(…)``.
    unit
        ``"us"`` or ``"cycles"`` (SM clock); `end` is in this unit, too.
    end
        Last moment to show; the end of the run without it.

    Raises
    ------
    ValueError
        If the timeline holds no operations, or for an unknown unit.
    """
    record = figure.timeline_of(sim)
    scale = figure.fs_per_unit(record, unit)
    if not record.operations:
        raise ValueError("the timeline holds no operations: launch or copy something before simulate()")
    rows = _rows(record)
    entries = _legend(record, rows)

    ax = figure.new_axes(ax, 11.0, figure.height(round(_extent(rows)), row=0.46, entries=len(entries)))
    figure.time_axis(ax, unit, 0, record.end_fs / scale if end is None else end)
    _row_axis(ax, rows)
    crowded = _draw(ax, rows, scale)
    figure.outside_legend(ax, entries, title="dense rows: the height\nis the share of time" if crowded else None)
    number = len(record.operations)
    what = f"{number:,} operation{'s' * (number > 1)} in {duration(record.end_fs / FS_PER_S)}"
    ax.set_title(f"Streams: {what} on {figure.plain(record.gpu_name)}")
    return ax


def compare_streams(sims: Mapping[str, HasTimeline | Timeline], *, unit: Unit = "us") -> Axes:
    """Draw the streams of several runs below each other, on one scale, so that the shorter run is the shorter picture.

    Parameters
    ----------
    sims
        Title of each run → what ``simulate()`` returned, or its timeline.
    unit
        ``"us"`` or ``"cycles"`` (SM clock of the first run).

    Returns
    -------
    Axes
        The uppermost; ``ax.figure`` is the whole figure.

    Raises
    ------
    ValueError
        If there are no runs; otherwise see `stream_timeline`.
    """
    from matplotlib.figure import Figure  # noqa: PLC0415 - Matplotlib is imported with the first figure

    records = {title: figure.timeline_of(sim) for title, sim in sims.items()}
    if not records:
        raise ValueError("sims is empty: pass at least one run")
    heights = [_extent(_rows(record)) + 1.2 for record in records.values()]
    size_in = (11.0, min(0.9 + 0.36 * sum(heights), 16.0))
    whole = Figure(figsize=size_in, layout="constrained", dpi=150)
    axes = whole.subplots(len(records), sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    last = max(record.end_fs for record in records.values()) / figure.fs_per_unit(next(iter(records.values())), unit)
    for ax, (title, record) in zip(axes, records.items(), strict=True):
        stream_timeline(record, ax=ax, unit=unit, end=last)
        ax.set_title("")
        ax.set_title(f"{title}: {duration(record.end_fs / FS_PER_S)}", loc="left")
        ax.axvline(record.end_fs / figure.fs_per_unit(record, unit), color="#000000", linewidth=1.2, zorder=3)
        if ax is not axes[-1]:
            ax.set_xlabel("")
    shown = {entry.get_label(): entry for record in records.values() for entry in _legend(record, _rows(record))}
    for ax in axes:
        ax.get_legend().remove()
    figure.outside_legend(axes[0], list(shown.values()))
    first: Axes = axes[0]
    return first


# Rows ---------------------------------------------------------------------------------------------------------------


def _rows(record: Timeline) -> list[_Row]:
    rows = [_Row("host thread", 0, list(_host_boxes(record.host)))] if record.host else []
    streams: dict[int, list[Operation]] = defaultdict(list)
    engines: dict[str, list[Operation]] = defaultdict(list)
    for operation in record.operations:
        streams[operation.stream].append(operation)
        engines[operation.engine or KIND_NAMES[operation.kind]].append(operation)
    for number, operations in sorted(streams.items()):
        rows.append(_stacked(record, figure.plain(record.stream_name(number)), operations, section=1))
    for name, operations in sorted(engines.items(), key=lambda pair: (pair[0] == "HBM", pair[0] == "compute", pair[0])):
        parts = [(_engine_name(name, operations), operations)]
        rows += [_stacked(record, *part) for part in (sm_groups(record, operations) if name == "compute" else parts)]
    top = 0.0
    for before, row in zip([None, *rows[:-1]], rows, strict=True):
        top += before.height + SECTION_GAP * (before.section != row.section) if before else 0.0
        row.top = top
    return rows


def _extent(rows: Sequence[_Row]) -> float:
    return rows[-1].top + rows[-1].height


def _engine_name(name: str, operations: Sequence[Operation]) -> str:
    directions = sorted({KIND_NAMES[o.kind].removeprefix("copy ") for o in operations}, reverse=True)
    return f"{name}\n{', '.join(directions)}" if name.startswith("copy engine") else name


def _host_boxes(spans: Iterable[HostSpan]) -> Iterator[_Box]:
    for span in spans:
        time = duration((span.end_fs - span.start_fs) / FS_PER_S)
        name = figure.plain(span.name)
        labels: tuple[str, ...] = (f"{name}\n{time}", name)
        if span.waits:
            labels = (f"blocked: {name}\n{time}", f"blocked\n{time}", "blocked")
        yield _Box(span.start_fs, span.end_fs, HOST_STYLES["waits" if span.waits else "calls"], labels)


def _stacked(record: Timeline, name: str, operations: Iterable[Operation], section: int = 2) -> _Row:
    """Put each operation of a stream or an engine into the first lane that is free."""
    row = _Row(name, section)
    in_stream = section == 1
    ends: list[int] = []
    for o in sorted(operations, key=lambda o: (o.start_fs, o.end_fs, o.number)):
        lane = next((number for number, end in enumerate(ends) if end <= o.start_fs), len(ends))
        free = ends[lane] if lane < len(ends) else 0
        ends[lane : lane + 1] = [o.end_fs]
        if in_stream and o.issued_fs < o.start_fs > free:
            labels = _wait_labels(o)
            row.boxes.append(_Box(max(o.issued_fs, free), o.start_fs, WAITING, labels, lane, wait=True))
        labels = _labels(o) if in_stream else _stream_labels(record, o)
        row.boxes.append(_Box(o.start_fs, o.end_fs, _style(o), labels, lane))
    row.lanes = max(1, len(ends))
    return row


def _style(operation: Operation) -> Style:
    style = OPERATION_STYLES[operation.kind]
    return Style(style.color, "///") if operation.pageable else style


def _labels(o: Operation) -> tuple[str, ...]:
    name, time = figure.plain(o.name), duration(o.seconds)
    second = f"{size(o.nbytes)}, {time}" if o.nbytes else time
    return f"{name}\n{second}", f"{name}\n{time}", name


def _stream_labels(record: Timeline, o: Operation) -> tuple[str, ...]:
    name = figure.plain(record.stream_name(o.stream))
    return (name, name.replace("stream ", "s") if o.stream else "default")


def _wait_labels(o: Operation) -> tuple[str, ...]:
    """Say what an operation waited for last."""
    if o.wait_reason in ("none", "launch latency"):
        return () if o.wait_reason == "none" else ("launch latency", "latency")
    other = figure.plain(o.waited_for)
    if o.wait_reason in ("stream order", "graph order"):
        if o.kind != "kernel" and o.wait_reason == "stream order" and other:
            # The operation before is over: chips that signal late have not told so yet.
            return f"waits for the signal of {other}", f"signal of {other}"
        return (f"waits for {other}", "waits") if other else ("waits",)
    what = o.engine if o.wait_reason == "copy engine" else o.wait_reason
    if what == "default stream" and not o.stream:
        what = "other streams"
    full = (f"waits for {what} ({other})",) if other else ()
    return (*full, f"waits for {what}", what, "waits")


# Drawing ------------------------------------------------------------------------------------------------------------


def _row_axis(ax: Axes, rows: Sequence[_Row]) -> None:
    """Name the rows, the first on top, and separate the sections."""
    ax.set_ylim(_extent(rows), rows[0].top)
    room = figure.size_in_points(ax)[1] / _extent(rows)
    step = next((s for s in (1, 2, 4, 8, 16, 32) if room * s >= 9 or s >= len(rows)), 64)
    shown = [row for n, row in enumerate(rows) if row.section != 1 or n % step == 0]
    # The second line, an engine's directions, needs room for two.
    ax.set_yticks([row.middle for row in shown], [row.name if room > 24 else row.name.split("\n")[0] for row in shown])
    ax.tick_params(axis="y", length=0)
    for before, row in pairwise(rows):
        if before.section != row.section:
            ax.axhline(row.top - SECTION_GAP / 2, color="#bbbbbb", linewidth=0.8, zorder=1)
    ax.grid(axis="x", color="#e6e6e6", linewidth=0.8, zorder=0)
    ax.set_axisbelow(True)
    figure.open_frame(ax)


def _draw(ax: Axes, rows: Sequence[_Row], scale: int) -> bool:
    """Draw all bars, one collection for each style, and the labels that fit; return whether any row is too dense."""
    low, high = ax.get_xlim()
    width, height = figure.size_in_points(ax)
    per_fs = width / ((high - low) * scale)
    per_row = height / _extent(rows)
    groups: dict[tuple[Style, bool], list[Bar]] = defaultdict(list)
    labelled: list[tuple[_Row, _Box]] = []
    dense = [row.name for row in rows if _is_dense(row, per_fs)]
    for row in rows:
        if row.name in dense:
            _draw_shares(ax, row, scale)
            continue
        for box in row.boxes:
            if box.end_fs > box.start_fs:
                top, bottom = row.place(box)
                groups[box.style, box.wait].append(Bar(box.start_fs / scale, box.end_fs / scale, top, bottom))
                labelled.append((row, box))
    for (style, wait), group in groups.items():
        # White edges would hide bars that are hardly wider.
        wide = min(bar.right - bar.left for bar in group) * scale * per_fs > 3
        figure.add_bars(ax, group, style, edge=0.5 if style.hatch or (wide and not wait) else 0.0)
    labelled.sort(key=lambda pair: pair[1].start_fs - pair[1].end_fs)
    for row, box in labelled[:MOST_LABELS]:
        _write(ax, row, box, scale, per_fs, per_row)
    return bool(dense)


def _is_dense(row: _Row, per_fs: float) -> bool:
    thin = sum(1 for box in row.boxes if (box.end_fs - box.start_fs) * per_fs < THIN and not box.wait)
    return thin > 150 and 2 * thin > sum(1 for box in row.boxes if not box.wait)


def _draw_shares(ax: Axes, row: _Row, scale: int) -> None:
    """Stack, in each column of time, the shares of the styles."""
    low, high = ax.get_xlim()
    columns = max(1, min(COLUMNS, len(row.boxes) // BARS_PER_COLUMN))
    edges = np.linspace(low * scale, high * scale, columns + 1)
    top, bottom = row.top + row.height * (1 - ROW_FILL) / 2, row.top + row.height * (1 + ROW_FILL) / 2
    level = np.full(columns, bottom)
    for style in dict.fromkeys(box.style for box in row.boxes if not box.wait):
        spans = [(box.start_fs, box.end_fs) for box in row.boxes if box.style == style and not box.wait]
        above = level - np.clip(mean_running(spans, edges) / row.lanes, 0.0, 1.0) * (bottom - top)
        ax.fill_between(
            edges / scale,
            np.append(level, level[-1]),
            np.append(above, above[-1]),
            step="post",
            facecolor=style.color,
            hatch=style.hatch or None,
            edgecolor=palette.HATCH_COLOR if style.hatch else "none",
            linewidth=0.0,
            zorder=2,
        )
        level = above


def _write(ax: Axes, row: _Row, box: _Box, scale: int, per_fs: float, per_row: float) -> None:
    """Write the longest label that fits on a bar."""
    top, bottom = row.place(box)
    room, tall = (box.end_fs - box.start_fs) * per_fs - 0.3 * FONT, (bottom - top) * per_row
    for label in box.labels:
        lines = label.split("\n")
        if 0.56 * FONT * max(map(len, lines)) <= room and 1.15 * FONT * len(lines) <= tall:
            break
    else:
        return
    backdrop = {"facecolor": box.style.color, "edgecolor": "none", "pad": 1.0} if box.style.hatch else None
    ax.text(
        (box.start_fs + box.end_fs) / 2 / scale,
        (top + bottom) / 2,
        label,
        color=palette.text_color(box.style.color),
        fontsize=FONT,
        linespacing=1.05,
        ha="center",
        va="center",
        clip_on=True,
        bbox=backdrop,
    )


def _legend(record: Timeline, rows: Sequence[_Row]) -> list[Patch]:
    """One entry for everything that occurs."""
    kinds = {o.kind for o in record.operations}
    entries = [figure.patch(OPERATION_STYLES[k], name) for k, name in KIND_NAMES.items() if k in kinds]
    if any(o.pageable for o in record.operations):
        entries.append(figure.patch(Style("#ffffff", "///"), "pageable copy"))
    if any(box.wait for row in rows for box in row.boxes):
        entries.append(figure.patch(WAITING, "issued, has to wait"))
    if any(not h.waits for h in record.host):
        entries.append(figure.patch(HOST_STYLES["calls"], "host: call or work"))
    if any(h.waits for h in record.host):
        entries.append(figure.patch(HOST_STYLES["waits"], "host: blocked"))
    return entries

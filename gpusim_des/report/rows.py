"""Rows of the report's timeline: from the host's calls and copies down to the states of warps.

A row knows how many spans it has and yields them when asked, so that a run with millions of them is never held twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeVar

from gpusim_des.timeline import BlockSpan, HostSpan, KernelTiming, Operation, Timeline, WarpHistory, WarpState
from gpusim_des.units import size
from gpusim_des.views.lanes import lanes
from gpusim_des.views.palette import HOST_STYLES, OPERATION_STYLES, STATE_STYLES, Style, kernel_color

_Timed = TypeVar("_Timed", HostSpan, Operation, KernelTiming)


class Span(NamedTuple):
    """A bar of the timeline; times in femtoseconds."""

    start: int
    end: int
    style: Style
    name: str
    owner: str = ""
    """Whose it is, for example ``block 3, warp 1``."""
    detail: str = ""


@dataclass(frozen=True)
class Row:
    """Bars that follow each other."""

    group: str
    """The rows of a group open and close together."""
    name: str
    level: str
    """``host``, ``gpu``, ``block`` or ``warp``: a closed group shows all but its warps."""
    count: int
    start: int
    """Start of the first bar, femtoseconds."""
    end: int
    spans: Callable[[], Iterator[Span]]


def rows(timeline: Timeline) -> list[Row]:
    """Return all rows, from top to bottom: host, streams, copy engines, kernels, then the SMs with slots and warps.

    Examples
    --------
    >>> from gpusim_des.timeline import HostSpan
    >>> record = Timeline("tiny", sms=2, sm_period_fs=500_000, host=(HostSpan("synchronize", 0, 8, waits=True),))
    >>> [(row.group, row.name, row.count) for row in rows(record)]
    [('Host', 'host thread', 1)]
    """
    found: list[Row] = []
    if timeline.host:
        found += _rows("Host", "host thread", "host", lanes(timeline.host), _host_spans)
    streams: dict[int, list[Operation]] = defaultdict(list)
    engines: dict[str, list[Operation]] = defaultdict(list)
    for operation in timeline.operations:
        streams[operation.stream].append(operation)
        if operation.engine.startswith("copy engine"):
            engines[operation.engine].append(operation)
    spans_of = partial(_operation_spans, timeline)
    for number in sorted(streams):
        found += _rows("Streams", timeline.stream_name(number), "host", lanes(streams[number]), spans_of)
    for name in sorted(engines):
        found += _rows("Copy engines", name, "host", lanes(engines[name]), spans_of)
    if timeline.kernels:
        colors = {id(k): kernel_color(number) for number, k in enumerate(timeline.kernels)}
        found += _rows("Kernels", "kernels", "gpu", lanes(timeline.kernels), partial(_kernel_spans, colors))
    return [*found, *_sm_rows(timeline)]


def _rows(
    group: str,
    name: str,
    level: str,
    members: Sequence[Sequence[_Timed]],
    spans: Callable[[Sequence[_Timed]], Iterator[Span]],
) -> Iterator[Row]:
    """One row for each lane; those behind the first say that they run at the same time."""
    for number, lane in enumerate(members):
        label = name + (f", concurrent {number}" if number else "")
        yield Row(group, label, level, len(lane), lane[0].start_fs, lane[-1].end_fs, partial(spans, lane))


def _host_spans(lane: Sequence[HostSpan]) -> Iterator[Span]:
    for span in lane:
        style = HOST_STYLES["waits" if span.waits else "calls"]
        line = f"line {span.line}" if span.line else ""
        yield Span(
            span.start_fs, span.end_fs, style, span.name, line, "blocked: waits for the device" if span.waits else ""
        )


def _operation_spans(timeline: Timeline, lane: Sequence[Operation]) -> Iterator[Span]:
    for o in lane:
        said = []
        if o.nbytes:
            rate = f", {o.nbytes / o.seconds / 1e9:.3g} GB/s" if o.end_fs > o.start_fs else ""
            said.append(f"{size(o.nbytes)}{rate}")
        if o.kind in ("h2d", "d2h"):
            said.append("pageable host memory" if o.pageable else "pinned host memory")
        if o.wait_reason != "none":
            whom = f" ({o.waited_for})" if o.waited_for else ""
            said.append(f"waited {o.last_wait_s * 1e6:.4g} µs: {o.wait_reason}{whom}")
        owner = f"{timeline.stream_name(o.stream)}, operation {o.number}"
        yield Span(o.start_fs, o.end_fs, OPERATION_STYLES[o.kind], o.name, owner, "; ".join(said))


def _kernel_spans(colors: dict[int, str], lane: Sequence[KernelTiming]) -> Iterator[Span]:
    for k in lane:
        detail = (
            f"{k.blocks:,} blocks, {k.cycles:,} cycles, achieved occupancy {k.achieved_occupancy:.0%}, "
            f"main stall {k.main_stall}"
        )
        if k.sampled is not None:
            detail += "; " + k.sampled.sentence(k.end_fs - k.start_fs, k.dram_bytes)
        yield Span(k.start_fs, k.end_fs, Style(colors[id(k)]), k.name, f"launch {k.number}", detail)


def _sm_rows(timeline: Timeline) -> Iterator[Row]:
    """Slots and warps of every SM; a slot's neighbouring blocks differ in shade, so that waves can be seen."""
    slots: dict[tuple[int, int], list[BlockSpan]] = defaultdict(list)
    for block in timeline.blocks:
        slots[block.sm, block.slot].append(block)
    warps: dict[int, list[_Warp]] = defaultdict(list)
    for history in timeline.warps:
        warps[history.sm].append(_Warp(history, timeline.sm_period_fs))
    of_sm: dict[int, list[int]] = defaultdict(list)
    for sm, slot in sorted(slots):
        of_sm[sm].append(slot)
    for sm in sorted(of_sm.keys() | warps.keys()):
        for slot in of_sm[sm]:
            members = sorted(slots[sm, slot], key=lambda b: b.start_fs)
            bounds = members[0].start_fs, members[-1].end_fs
            spans = partial(_block_spans, timeline, members)
            yield Row(f"SM {sm}", f"block slot {slot}", "block", len(members), *bounds, spans)
        for number, lane in enumerate(lanes(warps[sm])):
            count = sum(len(w.history.states) for w in lane)
            spans = partial(_warp_spans, timeline, lane)
            yield Row(f"SM {sm}", f"warp row {number}", "warp", count, lane[0].start_fs, lane[-1].end_fs, spans)


def _block_spans(timeline: Timeline, members: Sequence[BlockSpan]) -> Iterator[Span]:
    shades: dict[int, int] = defaultdict(int)
    for b in members:
        style = Style(kernel_color(b.kernel, shades[b.kernel]))
        shades[b.kernel] += 1
        yield Span(b.start_fs, b.end_fs, style, timeline.kernels[b.kernel].name, f"block {b.block}")


class _Warp(NamedTuple):
    """A warp's history with times in femtoseconds."""

    history: WarpHistory
    period_fs: int

    @property
    def start_fs(self) -> int:
        return self.history.start_cycle * self.period_fs

    @property
    def end_fs(self) -> int:
        return self.history.end_cycle * self.period_fs


def _warp_spans(timeline: Timeline, lane: Sequence[_Warp]) -> Iterator[Span]:
    period = timeline.sm_period_fs
    for warp in lane:
        w = warp.history
        owner = f"{timeline.kernels[w.kernel].name}, block {w.block}, warp {w.warp}"
        causes = iter(w.states)
        for start, end, state, ops in _issued_states(w):
            cause = next(causes).cause
            detail = ", ".join(ops) if ops else f"until {cause.what.replace('_', ' ')}" if cause else ""
            yield Span(start * period, end * period, STATE_STYLES[state], state.suffix, owner, detail)


def _issued_states(warp: WarpHistory) -> Iterator[tuple[int, int, WarpState, list[str]]]:
    """Start, end and state of each span of a warp, and the instructions issued in it."""
    issues = iter(sorted(warp.issues, key=lambda i: i.cycle))
    issue = next(issues, None)
    for span in warp.states:
        ops = []
        while issue is not None and issue.cycle < span.end_cycle:
            ops.append(issue.op)
            issue = next(issues, None)
        yield span.start_cycle, span.end_cycle, span.state, ops

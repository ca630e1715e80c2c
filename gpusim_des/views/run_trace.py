"""What of a run a trace holds, whatever its format: rows, counters, slices and arrows, and notices of the rest."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gpusim_des.timeline import BlockSpan, HasTimeline, Timeline
from gpusim_des.views.figure import timeline_of
from gpusim_des.views.gpu_trace import GPU, block_slices, gpu_pid, kernel_slices, slot_track, sm_pid
from gpusim_des.views.host_trace import PROCESSES, host_slices, pid_of
from gpusim_des.views.trace_counters import counters
from gpusim_des.views.trace_events import Counter, Mark, Slices, Track
from gpusim_des.views.trace_room import Room
from gpusim_des.views.warp_trace import Longest, WarpRow, longest_waits, warp_rows, warp_slices

MOST_EVENTS = 1_000_000
"""Slices and values of counters in a trace: viewers become slow with more."""

MOST_ARROWS = 200_000
"""Arrows of warps in a file: more would double its size, and no picture shows as many."""


class Process(NamedTuple):
    """Rows that belong together."""

    pid: int
    name: str
    place: int
    """The less, the higher it stands: those of the host are negative, that of the GPU is 0."""
    tracks: Sequence[Track]


@dataclass(frozen=True)
class Trace:
    """A run, ready to be written."""

    gpu_name: str
    processes: Sequence[Process]
    """From the top. The one in place 0, the GPU, has the counters."""
    counters: Sequence[Counter]
    marks: Sequence[Mark]
    notices: Mapping[str, str]
    tables: Iterator[Slices]
    """All slices, to be gone through once: those of warps are made on the way, since no memory would hold them all."""

    @property
    def gpu(self) -> Process:
        """The process of the GPU."""
        return next(process for process in self.processes if not process.place)


def run_trace(sim: HasTimeline | Timeline, max_events: int) -> Trace:
    """Return what of a run a trace holds.

    Raises
    ------
    ValueError
        If `max_events` is not positive.
    """
    if max_events < 1:
        raise ValueError(f"max_events = {max_events}: must be at least 1; leave it out for a million")
    timeline = timeline_of(sim)
    room = Room(max_events)
    tables = room.longest([table for table in (*host_slices(timeline), kernel_slices(timeline)) if len(table)])
    shown = room.counters(counters(timeline))
    blocks = _kept_blocks(timeline, room)
    rows = warp_rows(timeline)
    brief = sum(len(row.warp.states) - row.slices for row in rows)
    rows = _kept_warps(timeline, rows, room)
    longest = longest_waits(rows, MOST_ARROWS)

    notices: dict[str, str] = {}
    if brief:
        notices["brief"] = f"{brief:,} states of warps that begin and end within one nanosecond are left out"
    if longest.total > MOST_ARROWS:
        notices["arrows"] = (
            f"arrows for the {MOST_ARROWS:,} longest of {longest.total:,} waits of warps; "
            "record fewer SMs with watch= to see all"
        )
    if room.notice():
        notices["notice"] = f"{room.notice()}. Raise max_events to see more."
    start = min((int(table.start_ns.min()) for table in tables), default=0)
    tracks = [track for table in tables for track in table.used()]
    tracks += [slot_track(sm, slot) for sm, slot in sorted({(b.sm, b.slot) for b in blocks})]
    tracks += [row.track for row in rows]
    return Trace(
        gpu_name=timeline.gpu_name,
        processes=_processes(timeline, tracks),
        counters=shown,
        marks=[Mark(notices[name], start) for name in ("arrows", "notice") if name in notices],
        notices=notices,
        tables=_tables(timeline, tables, blocks, rows, longest),
    )


def _kept_blocks(timeline: Timeline, room: Room) -> Sequence[BlockSpan]:
    counts: dict[tuple[int, ...], int] = defaultdict(int)
    for b in timeline.blocks:
        counts[b.sm, b.slot] += 1
    places = room.rows("blocks", counts)
    return timeline.blocks if len(places) == len(counts) else [b for b in timeline.blocks if (b.sm, b.slot) in places]


def _kept_warps(timeline: Timeline, rows: Sequence[WarpRow], room: Room) -> list[WarpRow]:
    """Warps that have slices, and room for them."""
    rows = [row for row in rows if row.slices]
    slots = {(b.kernel, b.block): b.slot for b in timeline.blocks}
    places = [(r.warp.sm, slots.get((r.warp.kernel, r.warp.block), 0), r.warp.warp) for r in rows]
    counts: dict[tuple[int, ...], int] = defaultdict(int)
    for place, row in zip(places, rows, strict=True):
        counts[place] += row.slices
    kept = room.rows("warps", counts)
    return [row for place, row in zip(places, rows, strict=True) if place in kept]


def _tables(
    timeline: Timeline,
    tables: Iterable[Slices],
    blocks: Iterable[BlockSpan],
    rows: Sequence[WarpRow],
    longest: Longest,
) -> Iterator[Slices]:
    yield from tables
    yield from block_slices(timeline, blocks)
    yield from warp_slices(timeline, rows, longest)


def _processes(timeline: Timeline, tracks: Iterable[Track]) -> list[Process]:
    """Processes of the tracks, from the top: the host, streams, engines, the GPU, its SMs."""
    members: dict[int, list[Track]] = defaultdict(list)
    for track in tracks:
        members[track.pid].append(track)
    gpu = gpu_pid(timeline)
    known = [(pid_of(timeline, name), name) for name in PROCESSES] + [(gpu, f"{GPU} {timeline.gpu_name}")]
    known += [(sm_pid(sm), f"SM {sm}") for sm in range(timeline.sms)]
    return [
        Process(pid, name, place, sorted(members[pid], key=lambda track: track.tid))
        for place, (pid, name) in enumerate(known, -len(PROCESSES))
        if pid in members or pid == gpu
    ]

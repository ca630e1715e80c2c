"""A timeline as Chrome Trace Event JSON, for Perfetto (ui.perfetto.dev) and ``chrome://tracing``.

Tracks: processes for the host thread, the streams and the copy engines (`gpusim_des.views.host_trace`); the process
``GPU`` holds the kernels and counters (`gpusim_des.views.trace_counters`); a process for each SM holds one thread for
each block slot, and, if warps were recorded, one for each warp.

Times are microseconds, as the format demands, and whole nanoseconds, as Perfetto counts. States of warps that begin and
end within the same nanosecond would be drawn inside of the next one: they are left out, and ``otherData`` says so.
Clicks tell cycles exactly.
"""

from __future__ import annotations

import gzip
import heapq
import io
import os
from collections.abc import Iterator
from itertools import islice
from json import JSONEncoder
from pathlib import Path
from typing import Any

from gpusim_des.timeline import HasTimeline, KernelTiming, Timeline, WarpHistory, WarpState
from gpusim_des.views.figure import timeline_of
from gpusim_des.views.host_trace import PROCESSES, arrows, host_events, pid_of
from gpusim_des.views.lanes import lanes
from gpusim_des.views.trace_counters import counter_events
from gpusim_des.views.trace_events import Event, Track, us
from gpusim_des.views.warp_arrows import warp_arrows, warp_threads
from gpusim_des.whole_file import whole_file

GPU = "GPU"
"""Name of the process that holds the kernels."""

FIRST_WARP_TID = 1001
"""Thread number of an SM's first warp; block slots stand below."""

MOST_ARROWS = 200_000
"""Arrows of warps in a file: more would double its size, and no picture shows as many."""

_encode = JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


def chrome_trace(sim: HasTimeline | Timeline, *, max_events: int = 1_000_000) -> dict[str, Any]:
    """Return the timeline as a Chrome trace: a dictionary that ``json.dump`` can write.

    Parameters
    ----------
    sim
        What ``simulate()`` returned, or its timeline. Blocks need ``detail="sm"``, warps ``detail="warp"``.
    max_events
        Most events to keep, arrows and names of processes and threads aside. If there are more, the earliest are kept;
        then ``otherData["notice"]`` and a mark on the time axis say how many are missing.

    Raises
    ------
    ValueError
        If `max_events` is not positive.
    """
    if max_events < 1:
        raise ValueError(f"max_events = {max_events}: must be at least 1; leave it out for a million")
    timeline = timeline_of(sim)
    total = brief = 0

    def counted() -> Iterator[Event]:
        nonlocal total, brief
        for event in _events(timeline):
            if event.fields.get("cat") == "warp" and not event.fields["dur"]:
                brief += 1
                continue
            total += 1
            yield event

    kept = heapq.nsmallest(max_events, counted(), key=lambda e: e.start_fs)
    other: dict[str, Any] = {"generator": "gpusim_des", "gpu": timeline.gpu_name}
    if brief:
        other["brief"] = f"{brief:,} states of warps that begin and end within one nanosecond are left out"
    events = _names(timeline, kept) + [e.fields for e in kept] + list(arrows(timeline, kept))
    if timeline.warps and kept:
        # Of the slices that start when the last one does, some may have been cut.
        until = kept[-1].start_fs - (total > len(kept))
        drawn = warp_arrows(timeline, warp_threads(timeline, FIRST_WARP_TID), until)
        events += islice(drawn, 2 * MOST_ARROWS)
        if next(drawn, None) is not None:
            other["arrows"] = f"the first {MOST_ARROWS:,} arrows of warps; record fewer SMs with watch= to see all"
            events.append(_mark(timeline, other["arrows"], kept[-1].start_fs))
    if total > len(kept):
        notice = f"trace cut: the earliest {len(kept):,} of {total:,} events; raise max_events to see the rest"
        other["notice"] = notice
        events.append(_mark(timeline, notice, kept[-1].start_fs))
    return {"displayTimeUnit": "ns", "otherData": other, "traceEvents": events}


def save_chrome_trace(
    sim: HasTimeline | Timeline, path: str | os.PathLike[str], *, max_events: int = 1_000_000
) -> None:
    """Write `chrome_trace` to `path`, compressed if the name ends in ``.gz``; both viewers open either.

    The file appears whole or not at all: it is written under another name and renamed at the end.

    Raises
    ------
    FileNotFoundError
        If the folder does not exist.
    """
    with whole_file(path) as draft, draft.open("xb") as raw:
        trace = chrome_trace(sim, max_events=max_events)
        if Path(path).suffix == ".gz":
            with gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=6, mtime=0) as packed:
                _write(trace, io.TextIOWrapper(packed, encoding="utf-8", newline="\n"))
        else:
            _write(trace, io.TextIOWrapper(raw, encoding="utf-8", newline="\n"))


def _write(trace: dict[str, Any], text: io.TextIOWrapper) -> None:
    """Write one event on a line, so that text tools can read the file and memory holds one line at a time."""
    with text:
        text.write(_encode({k: v for k, v in trace.items() if k != "traceEvents"})[:-1] + ',"traceEvents":[\n')
        for number, event in enumerate(trace["traceEvents"]):
            text.write((",\n" if number else "") + _encode(event))
        text.write("\n]}\n")


def _mark(timeline: Timeline, text: str, fs: int) -> dict[str, Any]:
    """A mark on the axis of time."""
    return {"name": text, "ph": "i", "s": "g", "ts": us(fs), "pid": _gpu_pid(timeline), "tid": 1}


def _gpu_pid(timeline: Timeline) -> int:
    """Return the process number after the last SM; number 0 means the idle process to viewers."""
    return timeline.sms + 1


def _cycles(timeline: Timeline, fs: int) -> int | float:
    """Duration in SM cycles, an integer where it is whole."""
    whole, rest = divmod(fs, timeline.sm_period_fs)
    return round(fs / timeline.sm_period_fs, 3) if rest else whole


def _events(timeline: Timeline) -> Iterator[Event]:
    """All events, track by track."""
    yield from host_events(timeline)
    yield from _kernel_events(timeline)
    yield from counter_events(timeline, _gpu_pid(timeline))
    yield from _block_events(timeline)
    yield from _warp_events(timeline)


def _kernel_events(timeline: Timeline) -> Iterator[Event]:
    """One slice for each kernel, on the first row where no other is still running; within it, what is extrapolated."""
    numbers = {id(kernel): number for number, kernel in enumerate(timeline.kernels)}
    for row, members in enumerate(lanes(timeline.kernels)):
        track = Track(_gpu_pid(timeline), row + 1, "kernels" if row == 0 else f"kernels, concurrent {row}")
        for kernel in members:
            args = _kernel_args(numbers[id(kernel)], kernel)
            yield track.slice(kernel.name, kernel.start_fs, kernel.end_fs, cat="kernel", args=args)
            if kernel.sampled is not None:
                said = {"note": kernel.sampled.sentence(kernel.end_fs - kernel.start_fs, kernel.dram_bytes)}
                start = kernel.sampled.simulated_end_fs
                yield track.slice("extrapolated", start, kernel.end_fs, cat="kernel", args=said)


def _kernel_args(number: int, kernel: KernelTiming) -> dict[str, Any]:
    """Return what a click on a kernel shows; the first three names and meanings are those of PyTorch's profiler."""
    blocks_per_sm = kernel.blocks / kernel.sms
    return {
        "blocks per SM": round(blocks_per_sm, 6),
        "warps per SM": round(blocks_per_sm * kernel.warps_per_block, 6),
        "est. achieved occupancy %": round(100 * kernel.achieved_occupancy, 3),
        "theoretical occupancy %": round(100 * kernel.theoretical_occupancy, 3),
        "occupancy limiter": kernel.occupancy_limiter,
        "kernel": number,
        "blocks": kernel.blocks,
        "warps per block": kernel.warps_per_block,
        "blocks that fit per SM": kernel.blocks_per_sm,
        "cycles": kernel.cycles,
        "warp instructions": kernel.warp_instructions,
        "DRAM bytes": kernel.dram_bytes,
        "main stall": kernel.main_stall,
    }


def _block_events(timeline: Timeline) -> Iterator[Event]:
    """One slice for each block, in the thread of its slot."""
    for span in timeline.blocks:
        name = timeline.kernels[span.kernel].name
        args = {
            "kernel": span.kernel,
            "block": span.block,
            "cycles": _cycles(timeline, span.end_fs - span.start_fs),
        }
        track = Track(span.sm + 1, span.slot + 1, f"block slot {span.slot}")
        yield track.slice(f"{name} block {span.block}", span.start_fs, span.end_fs, cat="block", args=args)


def _warp_events(timeline: Timeline) -> Iterator[Event]:
    """One slice for each state of each warp, in a thread of its own."""
    period = timeline.sm_period_fs
    warps = {(w.kernel, w.block, w.warp): w for w in timeline.warps}
    for key, (pid, tid) in warp_threads(timeline, FIRST_WARP_TID).items():
        warp = warps[key]
        kernel = timeline.kernels[warp.kernel].name
        track = Track(pid, tid, f"{kernel} ({warp.kernel}) block {warp.block} warp {warp.warp}")
        for start, end, state, ops in issued_states(warp):
            args: dict[str, Any] = {"cycle": start, "cycles": end - start, "sub-partition": warp.sub_partition}
            if ops:
                args["issued"] = ops
            yield track.slice(state.suffix, start * period, end * period, cat="warp", args=args)


def issued_states(warp: WarpHistory) -> Iterator[tuple[int, int, WarpState, list[str]]]:
    """Start, end and state of each span of a warp, and the instructions issued in it."""
    issues = iter(sorted(warp.issues, key=lambda i: i.cycle))
    issue = next(issues, None)
    for span in warp.states:
        ops = []
        while issue is not None and issue.cycle < span.end_cycle:
            ops.append(issue.op)
            issue = next(issues, None)
        yield span.start_cycle, span.end_cycle, span.state, ops


def _names(timeline: Timeline, events: list[Event]) -> list[dict[str, Any]]:
    """Names and order of all processes and threads that the events use: host, streams, engines, the GPU, its SMs."""
    host = {pid_of(timeline, name): (name, number - len(PROCESSES)) for number, name in enumerate(PROCESSES)}
    threads = {(e.fields["pid"], e.fields["tid"]): e.thread for e in events if e.thread}
    gpu = _gpu_pid(timeline)
    named: list[dict[str, Any]] = []

    def add(what: str, pid: int, tid: int, **args: str | int) -> None:
        named.append({"name": what, "ph": "M", "pid": pid, "tid": tid, "args": args})

    for pid in [gpu, *sorted({p for p, _ in threads} - {gpu})]:
        label, place = host.get(pid, (f"SM {pid - 1}", pid))
        if pid == gpu:
            label, place = f"{GPU} {timeline.gpu_name}", 0
        add("process_name", pid, 0, name=label)
        add("process_sort_index", pid, 0, sort_index=place)
    for (pid, tid), name in sorted(threads.items()):
        add("thread_name", pid, tid, name=name)
        add("thread_sort_index", pid, tid, sort_index=tid)
    return named

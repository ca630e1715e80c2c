"""Counters of a Chrome trace: resident blocks, warps, issue slots and bandwidth over time."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from gpusim_des.timeline import Timeline
from gpusim_des.views.quantities import Quantity, bandwidths, issue_slots, steps, warps_per_sm
from gpusim_des.views.residency import mean_running
from gpusim_des.views.trace_events import Event, us

COLUMNS = 240
"""Points of a curve in a stretch of time in which kernels run: warps change their states in every cycle."""

MOST_POINTS = 24_000
"""Points of a curve in all: many kernels get fewer each."""

LEAST_COLUMNS = 4


def counter_events(timeline: Timeline, pid: int) -> Iterator[Event]:
    """All counters, in the process that holds the kernels."""
    yield from _resident_blocks(timeline, pid)
    for quantity in bandwidths(timeline):
        yield from _steps(f"{quantity.label} GB/s", "GB/s", quantity, pid)
    if timeline.warps:
        kernels = range(len(timeline.kernels))
        for quantity in warps_per_sm(timeline, kernels):
            yield from _curve(timeline, f"{quantity.label} warps per SM", "warps", quantity, pid)
        yield from _curve(timeline, "issue slots used %", "%", issue_slots(timeline, kernels), pid)


def _resident_blocks(timeline: Timeline, pid: int) -> Iterator[Event]:
    """Resident blocks of all launches of each kernel."""
    spans: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for span in timeline.blocks:
        spans[timeline.kernels[span.kernel].name].append((span.start_fs, span.end_fs))
    for name, of_kernel in spans.items():
        quantity = Quantity(f"resident blocks: {name}", "", of_kernel, [1] * len(of_kernel))
        yield from _steps(quantity.label, "blocks", quantity, pid)


def _steps(name: str, unit: str, quantity: Quantity, pid: int) -> Iterator[Event]:
    """Values at the moments at which they change."""
    for moment, value in steps(quantity.spans, quantity.weights):
        yield _counter(moment, name, unit, value if isinstance(value, int) else round(value, 3), pid)


def _curve(timeline: Timeline, name: str, unit: str, quantity: Quantity, pid: int) -> Iterator[Event]:
    """Means over columns of the time in which kernels run."""
    stretches = _busy(timeline)
    most = max(LEAST_COLUMNS, min(COLUMNS, MOST_POINTS // max(1, len(stretches))))
    ordered = sorted(zip(quantity.spans, quantity.weights, strict=True))
    starts = [start for (start, _), _ in ordered]
    for start, end in stretches:
        # What runs in a stretch starts and ends in it: between two stretches nothing runs.
        inside = ordered[bisect_left(starts, start) : bisect_left(starts, end)]
        if not inside:
            continue
        spans, weights = zip(*inside, strict=True)
        edges = np.linspace(start, end, min(most, max(1, (end - start) // timeline.sm_period_fs)) + 1)
        last = 0.0
        for moment, mean in zip(edges.tolist(), mean_running(spans, edges, weights).tolist(), strict=False):
            value = round(mean, 3)
            if value != last:
                yield _counter(round(moment), name, unit, value, pid)
            last = value
        if last:
            yield _counter(end, name, unit, 0, pid)


def _busy(timeline: Timeline) -> list[tuple[int, int]]:
    """Stretches of time in which kernels run, apart from each other."""
    found: list[tuple[int, int]] = []
    for kernel in sorted(timeline.kernels, key=lambda k: k.start_fs):
        if kernel.end_fs <= kernel.start_fs:
            continue
        if found and kernel.start_fs <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], kernel.end_fs)
        else:
            found.append((kernel.start_fs, kernel.end_fs))
    return found


def _counter(moment: int, name: str, unit: str, value: float, pid: int) -> Event:
    return Event(moment, "", {"name": name, "ph": "C", "ts": us(moment), "pid": pid, "args": {unit: value}})

"""Counters of a trace: resident blocks, warps, issue slots and bandwidth over time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from gpusim_des.timeline import Timeline
from gpusim_des.views.quantities import Quantity, bandwidths, issue_slots, steps, warps_per_sm
from gpusim_des.views.residency import mean_running
from gpusim_des.views.trace_events import Counter, ns

COLUMNS = 240
"""Points of a curve in a stretch of time in which kernels run: warps change their states in every cycle."""

MOST_POINTS = 24_000
"""Points of a curve in all: many kernels get fewer each."""

LEAST_COLUMNS = 4


def counters(timeline: Timeline) -> Iterator[Counter]:
    """All counters that the run has data for."""
    yield from _resident_blocks(timeline)
    for quantity in bandwidths(timeline):
        yield _steps(f"{quantity.label} GB/s", "GB/s", quantity)
    if timeline.warps:
        kernels = range(len(timeline.kernels))
        for quantity in warps_per_sm(timeline, kernels):
            yield _curve(timeline, f"{quantity.label} warps per SM", "warps", quantity)
        yield _curve(timeline, "issue slots used %", "%", issue_slots(timeline, kernels))


def _resident_blocks(timeline: Timeline) -> Iterator[Counter]:
    """Resident blocks of all launches of each kernel."""
    spans: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for span in timeline.blocks:
        spans[timeline.kernels[span.kernel].name].append((span.start_fs, span.end_fs))
    for name, of_kernel in spans.items():
        yield _steps(f"resident blocks: {name}", "blocks", Quantity(name, "", of_kernel, [1] * len(of_kernel)))


def _steps(name: str, unit: str, quantity: Quantity) -> Counter:
    """Values at the moments at which they change."""
    found = steps(quantity.spans, quantity.weights)
    values = [value if isinstance(value, int) else round(value, 3) for _, value in found]
    return Counter(name, unit, [ns(moment) for moment, _ in found], values)


def _curve(timeline: Timeline, name: str, unit: str, quantity: Quantity) -> Counter:
    """Means over columns of the time in which kernels run."""
    stretches = _busy(timeline)
    most = max(LEAST_COLUMNS, min(COLUMNS, MOST_POINTS // max(1, len(stretches))))
    spans, weights = np.array(quantity.spans, np.int64).reshape(-1, 2), np.array(quantity.weights)
    order = np.lexsort((weights, spans[:, 1], spans[:, 0]))
    spans, weights = spans[order], weights[order]
    moments: list[int] = []
    values: list[float] = []
    for start, end in stretches:
        # What runs in a stretch starts and ends in it: between two stretches nothing runs.
        low, high = np.searchsorted(spans[:, 0], (start, end))
        if low == high:
            continue
        edges = np.linspace(start, end, min(most, max(1, (end - start) // timeline.sm_period_fs)) + 1)
        means = [round(mean, 3) for mean in mean_running(spans[low:high], edges, weights[low:high]).tolist()]
        last = 0.0
        for moment, value in [*zip(edges.tolist(), means, strict=False), (end, 0)]:
            if value != last:
                moments.append(ns(round(moment)))
                values.append(value)
            last = value
    return Counter(name, unit, moments, values)


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

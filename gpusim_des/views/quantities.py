"""What figures and traces show over time: warps, issue slots and bandwidth, each as a sum of weighted spans."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gpusim_des.timeline import Timeline, WarpHistory, WarpState
from gpusim_des.views import palette

ELIGIBLE = (WarpState.SELECTED, WarpState.NOT_SELECTED)
"""States in which a warp could issue."""


class Quantity(NamedTuple):
    """At each moment, the sum of the weights of the spans around it."""

    label: str
    color: str
    spans: Sequence[tuple[int, int]]
    """Start and end, femtoseconds."""
    weights: Sequence[float]


def warps_per_sm(record: Timeline, kernels: Sequence[int]) -> list[Quantity]:
    """Resident warps of some kernels, and eligible ones if warps were recorded: means of the SMs that were recorded."""
    warps = [w for w in record.warps if w.kernel in kernels]
    if not warps:
        blocks = [b for b in record.blocks if b.kernel in kernels]
        spans = [(b.start_fs, b.end_fs) for b in blocks]
        weights = [record.kernels[b.kernel].warps_per_block / record.sms for b in blocks]
        return [Quantity("resident", "#0072b2", spans, weights)]
    share, period = 1.0 / recorded_sms(record), record.sm_period_fs
    resident = [(w.start_cycle * period, w.end_cycle * period) for w in warps]
    eligible = _in_states(warps, ELIGIBLE, period)
    return [
        Quantity("resident", "#0072b2", resident, [share] * len(resident)),
        Quantity("eligible", "#d55e00", eligible, [share] * len(eligible)),
    ]


def issue_slots(record: Timeline, kernels: Sequence[int]) -> Quantity:
    """Share of the issue slots that some kernels use, per cent, mean of the SMs whose warps were recorded."""
    warps = [w for w in record.warps if w.kernel in kernels]
    slots = recorded_sms(record) * record.kernels[kernels[0]].sub_partitions
    issued = _in_states(warps, (WarpState.SELECTED,), record.sm_period_fs)
    return Quantity("issue slots", "#0a2540", issued, [100.0 / slots] * len(issued))


def bandwidths(record: Timeline) -> list[Quantity]:
    """GB/s of DRAM and of copies from and to the host, those that moved anything.

    A kernel, a copy and a memset count with their mean rate from start to end.
    """
    moved = [(k.start_fs, k.end_fs, k.dram_bytes) for k in record.kernels]
    moved += [(o.start_fs, o.end_fs, o.dram_bytes) for o in record.operations if o.kernel < 0]
    found = [_rates("DRAM", "#d55e00", moved)]
    for kind, label in (("h2d", "host to device"), ("d2h", "device to host")):
        copies = [(o.start_fs, o.end_fs, o.nbytes) for o in record.operations if o.kind == kind]
        found.append(_rates(label, palette.OPERATION_STYLES[kind].color, copies))
    return [quantity for quantity in found if quantity.spans]


def steps(spans: Iterable[tuple[int, int]], weights: Iterable[float]) -> list[tuple[int, float]]:
    """Every moment at which the sum of weights changes, with the new sum; exact zeros where nothing runs.

    >>> steps([(0, 30), (20, 50)], [1, 2])
    [(0, 1), (20, 3), (30, 2), (50, 0)]
    """
    changes: dict[int, list[tuple[float, int]]] = defaultdict(list)
    for (start, end), weight in zip(spans, weights, strict=True):
        changes[start].append((weight, 1))
        changes[end].append((-weight, -1))
    found: list[tuple[int, float]] = []
    value: float = 0
    running = 0
    for moment in sorted(changes):
        before = value
        running += sum(number for _, number in changes[moment])
        value = value + sum(change for change, _ in changes[moment]) if running else 0
        if value != before:
            found.append((moment, value))
    return found


def recorded_sms(record: Timeline) -> int:
    """SMs whose warps were recorded: all, or those that ``watch=`` names and that had any."""
    with_warps, with_blocks = {w.sm for w in record.warps}, {b.sm for b in record.blocks}
    return len(with_warps) if with_blocks - with_warps else record.sms


def _rates(label: str, color: str, moved: Sequence[tuple[int, int, int]]) -> Quantity:
    """Rates in GB/s, that is bytes per nanosecond, of all that took any time and moved anything."""
    kept = [(start, end, 1e6 * nbytes / (end - start)) for start, end, nbytes in moved if end > start and nbytes]
    return Quantity(label, color, [(start, end) for start, end, _ in kept], [rate for *_, rate in kept])


def _in_states(warps: Sequence[WarpHistory], states: Sequence[WarpState], period: int) -> list[tuple[int, int]]:
    """Spans of all warps in one of the states, femtoseconds."""
    return [
        (span.start_cycle * period, span.end_cycle * period)
        for warp in warps
        for span in warp.states
        if span.state in states
    ]

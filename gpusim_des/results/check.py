"""What must hold in a timeline that was read from a file, so that no view, sum or sentence trips over it.

A simulation keeps these rules by itself; a file may have been cut, mended or made by anybody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from itertools import pairwise
from math import prod
from typing import Any

from gpusim_des.errors import ReadError
from gpusim_des.grid import WARP_SIZE, cdiv
from gpusim_des.timeline import KernelTiming, Timeline, WarpHistory, WarpState

MOST_SMS = 65_535
"""SMs of the largest GPU model (gpusim_des.gpu.check)."""

ROUNDING = 1e-9
"""By which a share may be above 1: it is a quotient of sums."""

STATES = [state.suffix for state in WarpState]


def check_timeline(timeline: Timeline, where: str) -> None:
    """Refuse a timeline that contradicts itself.

    Raises
    ------
    ReadError
        With the record, the value and the rule.

    Examples
    --------
    >>> check_timeline(Timeline("tiny", 0, 500_000), "timeline")
    Traceback (most recent call last):
        ...
    gpusim_des.errors.ReadError: timeline.sms = 0: must lie between 1 and 65,535; the file was edited or damaged
    """
    for name, value, rule in _wrong_things(timeline):
        raise ReadError(f"{where}.{name} = {value!r}: {rule}; the file was edited or damaged")


_Wrong = tuple[str, Any, str]
"""Place, value and the rule that it breaks."""


def _wrong_things(t: Timeline) -> Iterator[_Wrong]:
    if not 1 <= t.sms <= MOST_SMS:
        yield "sms", t.sms, f"must lie between 1 and {MOST_SMS:,}"
    if t.sm_period_fs < 1:
        yield "sm_period_fs", t.sm_period_fs, "must be at least 1"
    for n, kernel in enumerate(t.kernels):
        yield from ((f"kernels[{n}].{name}", value, rule) for name, value, rule in _kernel(kernel))
    kernels = len(t.kernels)
    yield from _each("blocks", t.blocks, "kernel", lambda b: 0 <= b.kernel < kernels, f"there are {kernels} kernels")
    yield from _each("warps", t.warps, "kernel", lambda w: 0 <= w.kernel < kernels, f"there are {kernels} kernels")
    for name in ("blocks", "warps"):
        records: tuple[Any, ...] = getattr(t, name)
        yield from _each(name, records, "sm", lambda r: 0 <= r.sm < t.sms, f"there are {t.sms} SMs")
        yield from _each(name, records, "block", lambda r: r.block >= 0, "must be at least 0")
    yield from _each("blocks", t.blocks, "slot", lambda b: 0 <= b.slot < MOST_SMS, "must be a row of an SM")
    yield from _each("operations", t.operations, "kernel", lambda o: o.kernel >= -1, "a number, or -1")
    for name in ("kernels", "blocks", "operations", "host"):
        spans: tuple[Any, ...] = getattr(t, name)
        yield from _each(name, spans, "start_fs", lambda s: s.start_fs >= 0, "must be at least 0")
        yield from _each(name, spans, "end_fs", lambda s: s.end_fs >= s.start_fs, "must not lie before start_fs")
    for n, warp in enumerate(t.warps):
        yield from ((f"warps[{n}].{name}", value, rule) for name, value, rule in _warp(warp))


def _each(name: str, records: Iterable[Any], field: str, rule: Callable[[Any], bool], said: str) -> Iterator[_Wrong]:
    return ((f"{name}[{n}].{field}", getattr(r, field), said) for n, r in enumerate(records) if not rule(r))


MAY_BE_NEGATIVE = ("start_fs", "end_fs")
"""Checked with the other spans."""


def _kernel(k: KernelTiming) -> Iterator[_Wrong]:
    if list(k.stalls) != STATES:
        yield "stalls", list(k.stalls), f"must have the states {', '.join(STATES)}"
    for name in ("blocks", "warps_per_block", "blocks_per_sm", "sms", "sub_partitions"):
        if getattr(k, name) < 1:
            yield name, getattr(k, name), "must be at least 1"
    for f in fields(k):
        value = getattr(k, f.name)
        numbers = value.items() if isinstance(value, dict) else [("", value)]
        for key, number in numbers:
            if isinstance(number, int | float) and number < 0 and f.name not in MAY_BE_NEGATIVE:
                yield f"{f.name}{key and f'.{key}'}", number, "must be at least 0"
    for name in ("achieved_occupancy", "theoretical_occupancy"):
        if getattr(k, name) > 1 + ROUNDING:
            yield name, getattr(k, name), "must lie between 0 and 1"
    yield from _sizes(k)
    if sum(k.stalls.values()) != k.resident_warp_cycles:
        yield "resident_warp_cycles", k.resident_warp_cycles, f"must be the sum of stalls, {sum(k.stalls.values()):,}"


def _sizes(k: KernelTiming) -> Iterator[_Wrong]:
    for name, size in (("grid", k.grid), ("block", k.block)):
        if size is not None and min(size) < 1:
            yield name, size, "must be at least 1 in x, y and z"
    if k.grid is not None and prod(k.grid) != k.blocks:
        yield "grid", k.grid, f"must have {k.blocks:,} blocks"
    if k.block is not None and cdiv(prod(k.block), WARP_SIZE) != k.warps_per_block:
        yield "block", k.block, f"must have {k.warps_per_block} warps"


def _warp(w: WarpHistory) -> Iterator[_Wrong]:
    edges = [(s.start_cycle, s.end_cycle) for s in w.states]
    if any(end < start for start, end in edges) or any(a[1] != b[0] for a, b in pairwise(edges)):
        yield "states", "…", "each must start where the one before ends"
    if w.warp < 0 or w.start_cycle < 0 or w.end_cycle < w.start_cycle:
        yield "start_cycle", w.start_cycle, f"warp {w.warp} must not end before it starts, at {w.end_cycle}"

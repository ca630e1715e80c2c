"""Checks of memory accesses: coalescing, bank conflicts, hot atomics."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from gpusim_des.advice.advice import Advice, number, percent
from gpusim_des.advice.cost import serial_cycles
from gpusim_des.advice.kernel_facts import KernelFacts
from gpusim_des.functional.coalescing import BANK_BYTES, BANKS
from gpusim_des.functional.counters import AccessCounts, AccessSite
from gpusim_des.functional.line_counts import AccessPattern
from gpusim_des.trace import LINE_BYTES

SCATTERED = 1.5
"""Sectors over the ideal number from which on an access counts as uncoalesced: more than a start between sectors."""

CONFLICTING = 1.5
"""Wavefronts over the ideal number, likewise."""

HOT = 4
"""Passes of an atomic request, mean, from which on its address counts as hot."""


class _Place(NamedTuple):
    """An array on one line of the source."""

    filename: str
    line: int
    array: str


_Group = list[tuple[AccessSite, AccessCounts]]


def _by_place(facts: KernelFacts, is_costly: Callable[[AccessSite, AccessCounts], bool]) -> dict[_Place, _Group]:
    """Costly accesses, those of one array on one line together: one change mends them all."""
    groups: dict[_Place, _Group] = defaultdict(list)
    for site, counts in facts.counters.accesses.items():
        if is_costly(site, counts):
            groups[_Place(site.filename, site.line, site.array)].append((site, counts))
    return groups


def _total(group: _Group) -> AccessCounts:
    total = AccessCounts()
    for _, counts in group:
        total.add(counts)
    return total


def _stride(facts: KernelFacts, group: _Group) -> int | None:
    total = AccessPattern()
    for site, _ in group:
        total.add(facts.counters.patterns.get(site, AccessPattern()))
    return total.stride


def uncoalesced(facts: KernelFacts) -> Iterator[Advice]:
    """Find global accesses that touch far more sectors than their bytes would fill."""
    cost = facts.cost
    groups = _by_place(facts, lambda s, c: s.memory == "global" and c.sectors >= SCATTERED * c.ideal_sectors)
    for place, group in groups.items():
        counts = _total(group)
        each, ideal = counts.sectors / counts.requests, counts.ideal_sectors / counts.requests
        extra_passes = max(0, counts.wavefronts - counts.requests)
        cycles = cost.without_sectors(counts.sectors - counts.ideal_sectors) + cost.wavefronts(extra_passes)
        distance, remedy = _far_apart(_stride(facts, group))
        if all(site.operation == "atomic" for site, _ in group):
            remedy = "collect in shared memory first, and add up a copy per block"
        yield Advice(
            "uncoalesced",
            f"{_what(facts, group)}: {number(each)} sectors per request (ideal {number(ideal)}); {distance}",
            remedy,
            each,
            ideal,
            cost.share(cycles),
            place.line,
            facts.code(group[0][0]),
            facts.name,
            place.array,
            place.filename,
        )


def _far_apart(stride: int | None) -> tuple[str, str]:
    """How far apart lanes lie, and what to do about it."""
    if stride is None:
        return (
            "lanes lie at irregular distances",
            "sort the indices, or stage the part that is needed through shared memory",
        )
    distance = f"neighbouring lanes are {abs(stride):,} bytes apart"
    if abs(stride) >= LINE_BYTES:
        return distance, "swap the roles of x and y, or stage through shared memory"
    return distance, "keep what neighbouring lanes read side by side: an array for each field, not one of records"


def bank_conflicts(facts: KernelFacts) -> Iterator[Advice]:
    """Find shared accesses that take more passes than their width needs; atomics have their own check."""

    def conflicting(site: AccessSite, counts: AccessCounts) -> bool:
        plain = site.memory == "shared" and site.operation != "atomic"
        return plain and counts.wavefronts >= CONFLICTING * counts.ideal_wavefronts

    for place, group in _by_place(facts, conflicting).items():
        counts = _total(group)
        passes, ideal = counts.wavefronts / counts.requests, counts.ideal_wavefronts / counts.requests
        stride, remedy = _in_banks(facts, place.array, _stride(facts, group))
        yield Advice(
            "bank_conflicts",
            f"{_what(facts, group)}: {number(passes)} passes (ideal {number(ideal)}{_width(counts)}), {stride}",
            remedy,
            passes,
            ideal,
            facts.cost.share(facts.cost.wavefronts(counts.wavefronts - counts.ideal_wavefronts)),
            place.line,
            facts.code(group[0][0]),
            facts.name,
            place.array,
            place.filename,
        )


def _width(counts: AccessCounts) -> str:
    """Say where wide accesses need several passes in any case."""
    nbytes = counts.nbytes // max(1, counts.threads)
    return f" for {nbytes} bytes per lane" if nbytes > BANK_BYTES else ""


def _in_banks(facts: KernelFacts, array: str, stride: int | None) -> tuple[str, str]:
    """How far apart lanes lie in words, and what to do about it."""
    if stride is None:
        return "lanes lie at irregular distances", "reorder the work so that neighbouring lanes use neighbouring words"
    words = f"lane stride {number(abs(stride) / BANK_BYTES)} words"
    shape, dtype = facts.counters.shared_arrays.get(array, ((), "float32"))
    row = shape[-1] * np.dtype(dtype).itemsize if len(shape) > 1 else 0
    # A pad helps where lanes walk down a column; elsewhere the index itself must change.
    if row and stride % row == 0 and stride:
        columns = shape[-1]
        return words, f"pad the row to {columns + 1}"
    if row == 0 and stride % (BANKS * BANK_BYTES) == 0 and stride:
        elements = abs(stride) // np.dtype(dtype).itemsize
        return words, f"use a row pitch of {elements + 1} elements in place of {elements}"
    return words, "let neighbouring lanes use neighbouring words"


def hot_atomics(facts: KernelFacts) -> Iterator[Advice]:
    """Find atomic operations in which the lanes of a warp meet at one address."""
    counters, cost = facts.counters, facts.cost
    for site, counts in counters.accesses.items():
        if site.operation != "atomic" or counts.serial_passes < HOT * counts.requests:
            continue
        passes = counts.serial_passes / counts.requests
        if site.memory == "global":
            cycles = serial_cycles(counters, site, facts.gpu) * (1 - 1 / passes)
        else:
            cycles = cost.wavefronts(counts.serial_passes - counts.requests)
        yield Advice(
            "hot_atomics",
            f"Atomic on {site.array} at {facts.place(site)}: {_where_to(facts, site)}{number(passes)} serial passes "
            "per warp (ideal 1)",
            "use per-block copies or aggregate per warp",
            passes,
            1,
            cost.share(cycles),
            site.line,
            facts.code(site),
            facts.name,
            site.array,
            site.filename,
        )


def _where_to(facts: KernelFacts, site: AccessSite) -> str:
    """Share of the busiest address among all operations; empty where elements were not counted one by one."""
    pattern = facts.counters.patterns.get(site)
    if pattern is None or pattern.hits is None:
        return ""
    most = int(pattern.hits.max()) / int(pattern.hits.sum())
    return f"{percent(most)} of atomics go to 1 address, "


_VERBS = {"load": "Load of", "store": "Store to", "atomic": "Atomic on"}


def _what(facts: KernelFacts, group: _Group) -> str:
    """Name an access, or several of one array on one line."""
    site, _ = group[0]
    verb = _VERBS[site.operation] if len({s.operation for s, _ in group}) == 1 else "Loads of and stores to"
    return f"{verb} {site.array} at {facts.place(site)}"

"""Checks of what warps do: divergence, warps that idle, barriers of a single warp, bookkeeping of loops."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gpusim_des.advice.advice import Advice, number, percent, plural
from gpusim_des.advice.kernel_facts import KernelFacts
from gpusim_des.functional.line_counts import LineCounts
from gpusim_des.functional.source_text import Statement, source_text
from gpusim_des.grid import WARP_SIZE
from gpusim_des.line_site import LineSite

FEW_LANES = 0.75
"""Active lanes over threads, in the code behind a branch, below which divergence is worth a word."""

BOOKKEEPING = 0.08
"""Share of the instructions from which on the counting and testing of a loop is worth a word."""


def divergence(facts: KernelFacts) -> Iterator[Advice]:
    """Find branches at which the lanes of warps part, and what the code behind them loses by it."""
    for branch, lines in _guarded(facts).items():
        counts, cost = facts.counters.lines[branch], facts.cost
        code = [facts.counters.lines[site] for site in lines]
        instructions = sum(line.instructions for line in code)
        active, threads = sum(line.active_lanes for line in code), sum(line.thread_slots for line in code)
        if not instructions or active > FEW_LANES * threads:
            continue
        wasted = cost.instructions((threads - active) / WARP_SIZE)
        for site, accesses in facts.counters.accesses.items():
            place = LineSite(site.filename, site.line)
            if place in lines:
                line = facts.counters.lines[place]
                wasted += cost.wavefronts(accesses.wavefronts * (1 - line.active_lanes / max(1, line.thread_slots)))
        lanes, ideal = active / instructions, f"mean (ideal {number(threads / instructions)})"
        if counts.divergent_branches:
            finding = (
                f"Branch at {facts.place(branch)}: the lanes of {counts.divergent_branches:,} of "
                f"{plural(counts.branches, 'warp')} part here; {number(lanes)} lanes are active in the code behind it, "
            )
        else:
            finding = f"Mask at {facts.place(branch)}: {number(lanes)} lanes are active, "
        yield Advice(
            "divergence",
            finding + ideal,
            "let whole warps take the same way: choose by warp, or let the first threads do the work side by side",
            lanes,
            threads / instructions,
            cost.share(wasted),
            branch.line,
            facts.code(branch),
            facts.name,
            filename=branch.filename,
        )


def _guarded(facts: KernelFacts) -> dict[LineSite, list[LineSite]]:
    """Lines that lose lanes, by the divergent branch that they stand behind: the innermost statement around them.

    A line in no such statement belongs to the last divergent branch before it, as where threads left the kernel;
    without one to itself: a mask keeps lanes out.
    """
    lines = facts.counters.lines
    branches = [site for site, counts in lines.items() if counts.divergent_branches]
    found: dict[LineSite, list[LineSite]] = defaultdict(list)
    for site, counts in lines.items():
        if counts.active_lanes == counts.thread_slots:
            continue
        around = [LineSite(site.filename, s.first) for s in source_text(site.filename).guarded_by(site.line)]
        owner = next((branch for branch in around if branch in branches and branch != site), None)
        if owner is None:
            before = [branch for branch in branches if branch.filename == site.filename and branch.line <= site.line]
            owner = max(before, default=site)
        found[owner].append(site)
    return found


def idle_warps(facts: KernelFacts) -> Iterator[Advice]:
    """Find blocks of which some warps only load what others compute with."""
    counters, config = facts.counters, facts.config
    if not counters.idle_warps:
        return
    warps = config.blocks * config.warps_per_block
    share = facts.cost.share(facts.cost.instructions(counters.idle_warp_instructions))
    site = _first_load(facts)
    yield Advice(
        "idle_threads",
        f"Idle threads: {counters.idle_warps:,} of {plural(warps, 'warp')} only load a value"
        f"{f' ({facts.place(site)})' if site else ''} and never compute with one",
        "let each thread load several values and combine them at once, in fewer blocks",
        counters.idle_warps / warps,
        0,
        share,
        site.line if site else 0,
        facts.code(site) if site else "",
        facts.name,
        filename=site.filename if site else "",
    )


def _first_load(facts: KernelFacts) -> LineSite | None:
    loads = [s for s in facts.counters.accesses if (s.memory, s.operation) == ("global", "load")]
    first = min(loads, key=lambda s: (s.filename, s.line), default=None)
    return LineSite(first.filename, first.line) if first else None


def lone_warps(facts: KernelFacts) -> Iterator[Advice]:
    """Find barriers at which all warps of a block wait for the only one that works."""
    counters = facts.counters
    alone = {site: counts for site, counts in counters.lines.items() if counts.lone_barriers}
    if not alone or not counters.lone_warp_instructions:
        return
    site = max(alone, key=lambda s: alone[s].lone_barriers)
    lone, every = alone[site].lone_barriers, counters.barriers
    yield Advice(
        "lone_warp",
        f"Barrier at {facts.place(site)}: at {lone:,} of {plural(every, 'barrier')} the block waits for the only warp "
        "that works",
        "unroll the last warp: let it finish alone, with syncwarp in place of block barriers",
        lone / every,
        0,
        facts.cost.share(facts.cost.instructions(counters.lone_warp_instructions)),
        site.line,
        facts.code(site),
        facts.name,
        filename=site.filename,
    )


def loop_bookkeeping(facts: KernelFacts) -> Iterator[Advice]:
    """Find loops that count and test for a good part of all instructions."""
    counters = facts.counters
    lines = counters.lines
    # What idle and waiting warps execute is told of those already.
    elsewhere = counters.idle_warp_instructions + counters.lone_warp_instructions
    own = 1 - elsewhere / counters.warp_instructions if counters.warp_instructions else 0.0
    for filename in {site.filename for site in lines if site.filename}:
        for loop in source_text(filename).statements:
            if loop.kind not in ("while", "for"):
                continue
            count = own * sum(line.instructions for line in _head(lines, filename, loop))
            if not count or count < BOOKKEEPING * counters.warp_instructions:
                continue
            site = LineSite(filename, loop.first)
            share = count / counters.warp_instructions
            yield Advice(
                "loop_bookkeeping",
                f"Loop at {facts.place(site)}: {percent(share)} of all instructions only count and test",
                "unroll it: make its bounds constants, or do several steps per iteration",
                share,
                0,
                facts.cost.share(facts.cost.instructions(count)),
                loop.first,
                facts.code(site),
                facts.name,
                filename=filename,
            )


def _head(lines: dict[LineSite, LineCounts], filename: str, loop: Statement) -> list[LineCounts]:
    """Counts of the lines of a loop that only count and test; none for a loop that branches nowhere (unrolled)."""
    numbers = {*range(loop.first, loop.head + 1), *loop.updates}
    head = lines.get(LineSite(filename, loop.first))
    if head is None or not head.branches:
        return []
    return [lines[site] for site in (LineSite(filename, n) for n in sorted(numbers)) if site in lines]

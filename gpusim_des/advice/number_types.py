"""Checks of number types: double precision that nobody asked for, or that the GPU is slow at."""

from __future__ import annotations

from collections.abc import Iterator

from gpusim_des.advice.advice import Advice, number, plural
from gpusim_des.advice.cost import pipe_cycles
from gpusim_des.advice.kernel_facts import KernelFacts
from gpusim_des.line_site import LineSite

SLOW = 16
"""Lanes for float32 over lanes for float64 from which on a GPU counts as slow at double precision."""

DOUBLE = "fp64"


def accidental_double(facts: KernelFacts) -> Iterator[Advice]:
    """Find float64 arithmetic in a kernel whose arrays are all float32 or narrower."""
    lines = _lines(facts)
    types = {t for t in facts.types if t.startswith(("float", "complex"))}
    if not lines or types & {"float64", "complex128"} or not types:
        return
    count = sum(lines.values())
    site = max(lines, key=lambda s: lines[s])
    gpu = facts.gpu
    saved = pipe_cycles(gpu, DOUBLE, count) - pipe_cycles(gpu, "fp32", count)
    converted = facts.counters.instruction_mix["conversion"] / gpu.sub_partitions
    where = facts.place(site) + (f" and {plural(len(lines) - 1, 'other line')}" if len(lines) > 1 else "")
    yield Advice(
        "accidental_double",
        f"float64 by accident at {where}: {plural(count, 'fp64 instruction')} in a kernel whose arrays are "
        f"{' and '.join(sorted(types))}; a float64 constant or result makes all that it meets float64",
        "make it np.float32(…), or a plain Python number",
        count,
        0,
        facts.cost.share((saved + converted) / facts.cost.sms),
        site.line,
        facts.code(site),
        facts.name,
        filename=site.filename,
    )


def slow_double(facts: KernelFacts) -> Iterator[Advice]:
    """Find float64 arithmetic on a GPU that has few lanes for it."""
    gpu, lines = facts.gpu, _lines(facts)
    single, double = (_lanes(facts, name) for name in ("fp32", DOUBLE))
    if not lines or single < SLOW * double or "float64" not in facts.types:
        return
    count = sum(lines.values())
    site = max(lines, key=lambda s: lines[s])
    saved = pipe_cycles(gpu, DOUBLE, count) - pipe_cycles(gpu, "fp32", count)
    yield Advice(
        "slow_double",
        f"float64 at {facts.place(site)}: {gpu.title} does {number(single / double)} float32 operations in the time of "
        f"one float64 operation, and the kernel has {plural(count, 'fp64 instruction')}",
        "use float32 where its precision is enough",
        single / double,
        1,
        facts.cost.share(saved / facts.cost.sms),
        site.line,
        facts.code(site),
        facts.name,
        filename=site.filename,
    )


def _lines(facts: KernelFacts) -> dict[LineSite, int]:
    """Warp instructions of class fp64 by source line."""
    found = {site: counts.instruction_mix[DOUBLE] for site, counts in facts.counters.lines.items()}
    return {site: count for site, count in found.items() if count}


def _lanes(facts: KernelFacts, name: str) -> float:
    """Lanes of a pipe per SM."""
    pipe = facts.gpu.pipe(name)
    return pipe.lanes * (1 if pipe.shared_by_sm else facts.gpu.sub_partitions)

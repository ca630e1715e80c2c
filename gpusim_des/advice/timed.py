"""Advice on a kernel whose time is known: what counters cost of it, and occupancy where latency limits it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gpusim_des.advice.advice import LEAST, Advice, percent, worst_first
from gpusim_des.advice.kernel_facts import KernelFacts
from gpusim_des.advice.launch import launch_advice
from gpusim_des.analytic import next_better
from gpusim_des.timeline import KernelTiming
from gpusim_des.timeline.explain import BUSY, limits_of

LOW = 0.5
"""Occupancy below which it is worth a word where latency limits a kernel."""

_LATENCY = ("long_scoreboard", "short_scoreboard", "wait")
"""States of warps that other warps could hide."""


def kernel_advice(facts: KernelFacts, timing: KernelTiming) -> list[Advice]:
    """Find what costs a kernel time, worst first; shares are of the kernel's own time."""
    found = []
    for advice in launch_advice(facts):
        share = advice.share
        if advice.check == "tiny_blocks":
            # Warps that are missing cost nothing while some unit is busy with those that are there.
            share = _gain(timing, timing.theoretical_occupancy)
        elif advice.check in ("small_grid", "tail_wave"):
            share = min(share, 1 - timing.active_share)  # SMs without work, however long blocks took
        if share >= LEAST:
            found.append(replace(advice, share=share))
    return worst_first([*found, *low_occupancy(facts, timing)])


def _gain(timing: KernelTiming, occupancy_ratio: float) -> float:
    """Share of the time that more warps would save, if it shrank with their number until a unit is always busy."""
    return max(0.0, 1 - max(occupancy_ratio, _busiest(timing)))


def _busiest(timing: KernelTiming) -> float:
    return max((limit.share for limit in limits_of(timing)), default=0.0)


def low_occupancy(facts: KernelFacts, timing: KernelTiming) -> Iterator[Advice]:
    """Find kernels that wait for latency while registers or shared memory keep more warps from the SMs."""
    fit, main = facts.occupancy, timing.main_stall
    held = set(fit.limiters) & {"registers", "shared_mem"}
    if fit.occupancy >= LOW or not held or timing.waves <= 1 or main not in _LATENCY or _busiest(timing) >= BUSY:
        return
    better = next_better(facts.gpu, facts.config.threads_per_block, facts.registers, facts.shared_bytes)
    change = next((c for c in better if held & set(c.what.split("+"))), None)
    if change is None:
        return
    share = _gain(timing, fit.occupancy / change.occupancy.occupancy)
    if share < LEAST:
        return
    stalled = timing.stalls[main] / timing.resident_warp_cycles
    yield Advice(
        "low_occupancy",
        f"Occupancy {percent(fit.occupancy)} ({fit.blocks_per_sm} blocks of {facts.config.threads_per_block} threads "
        f"per SM, limiter: {fit.limiter}): warps spend {percent(stalled)} of their time in {main}, which more warps "
        "would hide",
        f"use {change}",
        fit.occupancy,
        change.occupancy.occupancy,
        share,
        kernel=facts.name,
    )

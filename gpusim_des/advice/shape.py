"""Checks of the launch's shape: block size, grid size, the last wave, and how much each thread does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil

from gpusim_des.advice.advice import LEAST, Advice, number, percent, plural
from gpusim_des.advice.kernel_facts import KernelFacts
from gpusim_des.gpu import occupancy
from gpusim_des.grid import WARP_SIZE

UNEVEN = 0.1
"""Share of the time that a last wave must waste to be worth a word, if it is not nearly empty."""

NEARLY_EMPTY = 0.1
"""Part of a wave up to which a last one is nearly empty: without it, the grid would take a wave less."""

FULL = 0.75
"""Occupancy from which on block slots are no bottleneck: latency is hidden well before all warp slots are full."""

SIMPLE = 0.015
"""Share of the time from which on a mistake comes before the proposal to change the whole kernel."""


def partial_warps(facts: KernelFacts) -> Iterator[Advice]:
    """Find blocks whose last warp has lanes without a thread."""
    threads = facts.config.threads_per_block
    if threads % WARP_SIZE == 0:
        return
    lines = facts.counters.lines.values()
    instructions = sum(line.instructions for line in lines)
    empty = WARP_SIZE * instructions - sum(line.thread_slots for line in lines)
    share = empty / (WARP_SIZE * instructions) if instructions else 0.0
    better = ceil(threads / WARP_SIZE) * WARP_SIZE
    idle = better - threads
    yield Advice(
        "partial_warps",
        f"Block of {threads} threads: the last of its {plural(better // WARP_SIZE, 'warp')} has {idle} idle lanes, "
        f"{percent(idle / better)} of all",
        f"make the block size a multiple of {WARP_SIZE}, for example {better}",
        idle,
        0,
        facts.cost.share(share * (facts.cost.compute + facts.cost.load_store + facts.cost.blocks)),
        kernel=facts.name,
    )


def tiny_blocks(facts: KernelFacts) -> Iterator[Advice]:
    """Find blocks so small that an SM's block slots run out before its warp slots."""
    fit = facts.occupancy
    if "blocks" not in fit.limiters or fit.occupancy >= FULL or facts.config.blocks <= facts.wave:
        return
    threads = facts.config.threads_per_block
    slots = facts.gpu.max_warps_per_sm
    better = threads
    for candidate in range(WARP_SIZE * ceil(threads / WARP_SIZE), facts.gpu.max_threads_per_block + 1, WARP_SIZE):
        better = candidate
        if occupancy(facts.gpu, candidate, facts.registers, facts.shared_bytes).limiter != "blocks":
            break
    yield Advice(
        "tiny_blocks",
        f"Block of {plural(threads, 'thread')}: an SM holds at most {fit.blocks_per_sm} blocks, so {fit.active_warps} "
        f"of its {slots} warp slots are used (occupancy {percent(fit.occupancy)}, limiter: {fit.limiter})",
        f"use at least {better} threads per block",
        fit.occupancy,
        1,
        1 - fit.occupancy,
        kernel=facts.name,
    )


def small_grid(facts: KernelFacts) -> Iterator[Advice]:
    """Find grids with fewer blocks than the GPU has SMs."""
    blocks, sms = facts.config.blocks, facts.gpu.sms
    if blocks >= sms:
        return
    yield Advice(
        "small_grid",
        f"Grid of {plural(blocks, 'block')}: {sms - blocks:,} of {sms:,} SMs have nothing to do",
        f"launch at least {sms:,} blocks, smaller ones if need be",
        blocks,
        sms,
        1 - blocks / sms,
        kernel=facts.name,
    )


def tail_wave(facts: KernelFacts) -> Iterator[Advice]:
    """Find grids whose last wave is nearly empty."""
    blocks, wave, fit = facts.config.blocks, facts.wave, facts.occupancy
    whole, left = divmod(blocks, wave)
    if not whole or not left:
        return
    share = 1 - blocks / wave / (whole + 1)
    if share < (LEAST if left <= NEARLY_EMPTY * wave else UNEVEN):
        return
    yield Advice(
        "tail_wave",
        f"Grid of {blocks:,} blocks: {plural(whole, 'wave')} of {wave:,} ({fit.blocks_per_sm} per SM, limiter: "
        f"{fit.limiter}), and a last wave of only {plural(left, 'block')}",
        f"launch a multiple of {wave:,} blocks, or let that many blocks stride over the data",
        left,
        wave,
        share,
        kernel=facts.name,
    )


def little_work(facts: KernelFacts, others: Sequence[Advice]) -> Iterator[Advice]:
    """Find kernels that repeat in every block what few blocks could do: a tree over few values per thread.

    It asks for another kernel, so it is proposed only where no simpler remedy gains anything.
    """
    counters, blocks, wave = facts.counters, facts.config.blocks, facts.wave
    warps = facts.config.blocks * facts.config.warps_per_block
    reduces = counters.thread_stores + counters.thread_atomics <= warps  # a block hands on a value per warp at most
    if blocks <= wave or not counters.barriers or not reduces or any(a.share >= SIMPLE for a in others):
        return
    behind = counters.behind_barrier_instructions / counters.warp_instructions
    each = counters.thread_loads / counters.threads
    saved = facts.cost.instructions(counters.behind_barrier_instructions) + facts.cost.blocks
    yield Advice(
        "little_work",
        f"Few values per thread: each loads {number(each)}; what follows the first barrier, {percent(behind)} of all "
        f"instructions, is repeated in each of {plural(blocks, 'block')}, while the GPU holds {wave:,} at a time",
        f"launch {wave:,} blocks that stride over the data: each thread combines many values before the first barrier",
        each,
        each * blocks / wave,
        facts.cost.share(saved * (1 - wave / blocks)),
        kernel=facts.name,
    )

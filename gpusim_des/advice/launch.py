"""All advice on one launch, from what it counted."""

from __future__ import annotations

from gpusim_des.advice import memory, number_types, shape, warps
from gpusim_des.advice.advice import LEAST, Advice, worst_first
from gpusim_des.advice.kernel_facts import KernelFacts

_LINES = (
    memory.uncoalesced,
    memory.bank_conflicts,
    memory.hot_atomics,
    warps.divergence,
    warps.idle_warps,
    warps.lone_warps,
    warps.loop_bookkeeping,
    number_types.accidental_double,
    number_types.slow_double,
)
_SHAPE = (shape.partial_warps, shape.tiny_blocks, shape.small_grid, shape.tail_wave)


def launch_advice(facts: KernelFacts) -> list[Advice]:
    """Find what costs a launch time, worst first.

    Parameters
    ----------
    facts
        What the launch counted, its shape and the GPU.

    Returns
    -------
    list of Advice
        Empty where nothing is worth a word, and for a launch that has not run.
    """
    if not facts.counters.warp_instructions:
        return []
    found = [advice for check in _LINES for advice in check(facts) if advice.share >= LEAST]
    found += [advice for check in _SHAPE for advice in check(facts)]
    found += shape.little_work(facts, found)
    return worst_first(found)

"""Rule E3: which engine plays a piece of work. Both come to the same timeline (E2), so only time is at stake."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, get_args

from gpusim_des.trace import KernelTrace

Engine = Literal["auto", "simpy", "compiled"]
Played = Literal["simpy", "compiled"]

LARGE_WARP_INSTRUCTIONS = 250_000
"""Work from which on the compiled engine is taken: about four seconds of the SimPy engine.

The compiled engine needs a second to be loaded, and half a minute to be compiled once for a machine.
"""


def choose_engine(engine: Engine, traces: Iterable[KernelTrace]) -> Played:
    """Return the engine that plays these kernels: the one that is asked for, or with ``"auto"`` the quicker one.

    Raises
    ------
    ValueError
        For an engine that does not exist.

    Examples
    --------
    >>> from gpusim_des.trace import Instruction, OpClass, WarpTrace
    >>> warp = WarpTrace.of([Instruction(OpClass.FP32)])
    >>> kernel = KernelTrace.of_blocks("k", [[warp]] * 10)
    >>> choose_engine("auto", [kernel]), choose_engine("compiled", [kernel])
    ('simpy', 'compiled')
    """
    if engine not in get_args(Engine):
        raise ValueError(f"engine = {engine!r}: possible are {', '.join(map(repr, get_args(Engine)))}")
    if engine != "auto":
        return engine
    work = 0
    for trace in traces:
        work += trace.warp_instructions
        if work >= LARGE_WARP_INSTRUCTIONS:
            return "compiled"
    return "simpy"

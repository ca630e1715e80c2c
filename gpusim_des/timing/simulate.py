"""The door to the timing model: checks what is asked for, chooses an engine and runs it."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from importlib import import_module
from typing import Literal, cast, get_args

import numpy as np

from gpusim_des.gpu import GPU
from gpusim_des.timeline import Timeline
from gpusim_des.timing.choice import Engine, choose_engine
from gpusim_des.timing.probe import Detail
from gpusim_des.timing.simpy_engine import Progress, SimpyEngine
from gpusim_des.trace import HostProgram, KernelTrace, check_host

Caches = Literal["on", "off"]


def simulate(
    gpu: GPU,
    traces: Sequence[KernelTrace] = (),
    *,
    program: HostProgram | None = None,
    engine: Engine = "auto",
    caches: Caches = "on",
    detail: Detail = "sm",
    watch: Collection[int] | None = None,
    streams: Sequence[Hashable] | None = None,
    max_cycles: int | None = None,
    progress: Progress | None = None,
) -> Timeline:
    """Play the traces of some kernels on a GPU, one kernel after another where `streams` does not say otherwise.

    With `program`, a whole host program in their place: its launches, copies, waits and calls (H1 to H3).

    Parameters
    ----------
    program
        What a host program asked for; `traces` and `streams` are not given then.
    engine
        ``"simpy"``, the readable engine; ``"compiled"``, the fast one, which comes to the same timeline and compiles
        itself at its first use, which takes about half a minute once. ``"auto"`` chooses by the size of the work, as
        `choose_engine` does (E3).
    caches
        ``"on"``: L1 and L2 as on the chip. ``"off"``: every sector travels to HBM (M9), the idealisation in which the
        textbook's formulas are exact.
    detail
        ``"kernel"`` records totals, ``"sm"`` spans of blocks as well, ``"warp"`` all states and instructions as well.
    watch
        SMs whose warps are recorded with ``detail="warp"``; all of them where it is not given.
    streams
        Stream of every kernel: kernels of one stream follow each other, kernels of different streams run at once (G2).
    max_cycles
        SM clock cycles after which the simulation is given up.
    progress
        Called with the kernel's name, the blocks retired and the blocks in all.

    Raises
    ------
    ValueError
        For an unknown engine, cache mode or level of detail, SMs that the GPU does not have, or streams that do not
        match the kernels.
    TraceError, LaunchError, DeadlockError, CycleLimitError, SimulationInterrupted
        See `SimpyEngine.play`.

    Examples
    --------
    >>> from gpusim_des.gpu import load_gpu
    >>> from gpusim_des.trace import Instruction, OpClass, WarpTrace
    >>> chain = WarpTrace.of([Instruction(OpClass.FP32), Instruction(OpClass.FP32, deps=(0,))])
    >>> simulate(load_gpu("tiny"), [KernelTrace.of_blocks("chain", [[chain]])]).kernels[0].cycles
    8
    """
    asked: tuple[tuple[str, str, tuple[str, ...]], ...] = (
        ("caches", caches, get_args(Caches)),
        ("detail", detail, get_args(Detail)),
    )
    for what, value, possible in asked:
        if value not in possible:
            raise ValueError(f"{what} = {value!r}: possible are {', '.join(map(repr, possible))}")
    _check_watch(gpu, watch, detail)
    if streams is not None and len(streams) != len(traces):
        raise ValueError(f"streams = {streams!r}: give one stream for each of the {len(traces)} kernels")
    if max_cycles is not None and (not isinstance(max_cycles, int | np.integer) or max_cycles < 1):
        raise ValueError(f"max_cycles = {max_cycles!r}: must be a whole number of SM cycles, at least 1")
    limit = None if max_cycles is None else int(max_cycles)
    if program is not None and (traces or streams is not None):
        raise ValueError("program = … holds the kernels and their streams: leave traces and streams out")
    if program is not None:
        check_host(program)  # before anything is read from it
        traces = tuple(program.traces())
    # What is no trace is refused by either engine.
    work = [trace for trace in traces if isinstance(trace, KernelTrace)]
    kind = _compiled_engine() if choose_engine(engine, work) == "compiled" else SimpyEngine
    player = kind(gpu, detail, progress, caches=caches == "on", watch=watch)
    return player.run(traces, streams, limit) if program is None else player.play(program, limit)


def _compiled_engine() -> type[SimpyEngine]:
    """Load the compiled engine: only who asks for it has to wait for Numba."""
    module = import_module("gpusim_des.timing.compiled_engine")
    return cast("type[SimpyEngine]", module.CompiledEngine)


def _check_watch(gpu: GPU, watch: Collection[int] | None, detail: Detail) -> None:
    if watch is None:
        return
    if not isinstance(watch, Collection) or isinstance(watch, str):
        raise ValueError(f"watch = {watch!r}: give the numbers of the SMs to record, for example watch=[0]")
    if not all(isinstance(sm, int | np.integer) and 0 <= sm < gpu.sms for sm in watch):
        raise ValueError(f"watch = {watch!r}: {gpu.title} has the SMs 0 to {gpu.sms - 1}")
    if detail != "warp":
        raise ValueError(f'watch = {watch!r} with detail = {detail!r}: warps are recorded with detail="warp" only')

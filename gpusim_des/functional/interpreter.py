"""The per-thread interpreter: runs the threads of a block one by one and puts their steps together.

The reference for masked execution. A thread runs until it meets others: at a barrier, or at an operation of the lanes
of its warp. When all threads have stopped or ended, those with the smallest key go on.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from itertools import groupby
from typing import Any

import numpy as np

from gpusim_des.errors import KernelError
from gpusim_des.functional import barriers, complaints
from gpusim_des.functional.bulk_copies import Started
from gpusim_des.functional.copy_rules import Ends
from gpusim_des.functional.kernel_source import Compiled
from gpusim_des.functional.launch_context import LaunchContext
from gpusim_des.functional.machine import Machine
from gpusim_des.functional.memory import DeviceArray, SharedArray
from gpusim_des.functional.neighbours import BlockState, Neighbours
from gpusim_des.functional.operations import Dim, Thread
from gpusim_des.functional.scalar_copies import BULK, Waited, count, meet
from gpusim_des.functional.scalar_cuda import barrier_answer
from gpusim_des.functional.scalar_meetings import meet_lanes
from gpusim_des.functional.scalar_runtime import ScalarRuntime
from gpusim_des.functional.scalar_steps import Key, Meeting, Step
from gpusim_des.functional.source import UNKNOWN
from gpusim_des.grid import WARP_SIZE
from gpusim_des.trace import OpClass

Copies = dict[tuple[Key, int], tuple[SharedArray, int]]
"""Where asynchronous copies go that are under way, by the step that started them and its thread."""


class _Running:
    """A thread under way."""

    def __init__(self, number: int, runtime: ScalarRuntime, steps: Generator[Meeting, Any, Any]) -> None:
        self.number = number
        self.runtime = runtime
        self.steps = steps
        self.waits: Meeting | None = None
        self.ended = False

    def go_on(self, result: Any = None) -> None:
        """Run to the next meeting or to the end."""
        try:
            self.waits = self.steps.send(result)
        except StopIteration as end:
            self.waits, self.ended = None, True
            if end.value is not None:
                raise KernelError(
                    f"kernel {self.runtime.kernel_name!r} returned {end.value!r}: a kernel returns nothing, "
                    "it writes its results to arrays"
                ) from None


def interpret(
    machine: Machine,
    compiled: Compiled,
    arguments: tuple[Any, ...],
    context: LaunchContext,
    compile_function: Callable[[Callable[..., Any]], Compiled],
    *,
    takes_thread: bool,
) -> None:
    """Run the one block of `machine` thread by thread, and record what its warps did.

    `takes_thread`: the kernel's first parameter is the thread.
    """
    state = BlockState(machine, context.names)
    threads = []
    for number in range(machine.shape[1]):
        block = Neighbours(state, number)
        runtime = ScalarRuntime(machine.kernel_name, context, compile_function, machine.counting, block)
        runtime.thread = _thread(machine, number, runtime)
        first = (runtime.thread,) if takes_thread else ()
        steps = runtime.run(compiled, (*first, *arguments))
        threads.append(_Running(number, runtime, steps))
    bulk = _run_all(threads, machine)
    for name in sorted(state.barriers, key=lambda name: state.barriers[name]):
        machine.bulk_copies.number(machine.bulk_copies.barrier(name, UNKNOWN), None)
    _replay(threads, machine, bulk)


def _thread(machine: Machine, number: int, runtime: ScalarRuntime) -> Thread:
    config = machine.config

    def special(values: Iterable[int]) -> list[Any]:
        return [runtime.constant(v, np.dtype(np.int32)) for v in values]

    thread = Dim(*special(config.block.at(number)))
    block = Dim(*special(config.grid.at(int(machine.blocks[0]))))
    linear, warp, lane = special((number, number // WARP_SIZE, number % WARP_SIZE))
    return Thread(thread, block, Dim(*config.block), Dim(*config.grid), (linear, warp, lane))


def _run_all(threads: list[_Running], machine: Machine) -> dict[Key, Started | Waited]:
    """Run all threads to their ends; where all have stopped, those with the smallest key go on, as in lockstep.

    Returns the bulk copies and the waits for them, which are counted later.
    """
    bulk: dict[Key, Started | Waited] = {}
    for thread in threads:
        thread.go_on()
    while waiting := [(t, t.waits) for t in threads if t.waits is not None]:
        first = min(meeting.key for _, meeting in waiting)
        together = [t for t, meeting in waiting if meeting.key == first]
        meeting = next(meeting for _, meeting in waiting if meeting.key == first)
        results: list[Any] = [None for _ in together]
        if meeting.name == "barrier":
            _check_barrier(threads, together, machine, meeting)
            answer = barrier_answer([t.waits for t in together if t.waits is not None])
            results = [answer for _ in together]
        elif meeting.name in BULK:
            bulk[first] = meet(machine, meeting, _who([t.number for t in together], machine))
        else:
            warps = groupby(together, lambda t: t.number // WARP_SIZE)
            results = [result for _, warp in warps for result in _met(list(warp))]
        for thread, result in zip(together, results, strict=True):
            thread.go_on(result)
    return bulk


def _check_barrier(threads: list[_Running], together: list[_Running], machine: Machine, barrier: Meeting) -> None:
    """Refuse a barrier that a part of the block reaches; threads that have returned may be missing."""
    away = {t.number for t in threads if not (t.ended and t.runtime.left)} - {t.number for t in together}
    if away:
        waiting = [(t.number, t.waits.site, t.waits) for t in threads if t.waits is not None]
        places = [(n, site, site == barrier.site and w.key != barrier.key) for n, site, w in waiting]
        elsewhere = complaints.places_of(places, [t.number for t in threads if t.ended])
        there, block = _who([t.number for t in together], machine)[0], int(machine.blocks[0])
        raise complaints.barrier_not_reached(machine.kernel_name, barrier.site, there, machine.config, block, elsewhere)


def _who(numbers: list[int], machine: Machine) -> np.ndarray[Any, Any]:
    """Mask of the threads with these numbers."""
    mask = np.zeros((1, machine.shape[1]), bool)
    mask[0, numbers] = True
    return mask


def _met(lanes: list[_Running]) -> list[Any]:
    """Results of a shuffle or a vote of these lanes."""
    return meet_lanes({t.number % WARP_SIZE: t.waits for t in lanes if t.waits is not None})


# Putting the steps together -----------------------------------------------------------------------------------------


def _replay(threads: list[_Running], machine: Machine, bulk: dict[Key, Started | Waited]) -> None:
    """Record the steps of all threads in the order of their keys, those with one key as one instruction."""
    together: dict[Key, list[tuple[int, Step]]] = {}
    for thread in threads:
        for step in thread.runtime.steps:
            together.setdefault(step.key, []).append((thread.number, step))
    events: dict[Key, int] = {}
    machine.watch.replayed = {}
    copies: Copies = {}
    for key in sorted(together):
        parts = together[key]
        numbers = [number for number, _ in parts]
        step = parts[0][1]
        mask = _who(numbers, machine)
        width = max(len(s.producers) for _, s in parts)
        producers = []
        for column in range(width):
            made = np.full((1, machine.shape[1]), -1, np.int32)
            for number, s in parts:
                if column < len(s.producers):
                    made[0, number] = events[s.producers[column]]
            producers.append(made)
        if key in bulk:
            count(machine, bulk[key], mask, tuple(producers), step.site)
        else:
            if step.op is OpClass.ASYNC_WAIT:
                _arrive(machine, parts, copies)
            elif step.target is not None:
                copies.update({(key, number): (s.target, s.target_flat) for number, s in parts if s.target is not None})
            events[key] = _record(machine, step, parts, mask, tuple(producers))


def _arrive(machine: Machine, parts: list[tuple[int, Step]], copies: Copies) -> None:
    """Tell the machine's watch which copies have arrived when these threads have waited."""
    arrived: dict[int, tuple[SharedArray, list[int], list[int]]] = {}
    for number, step in parts:
        for key in step.producers:
            target, element = copies.pop((key, number))
            _, elements, threads = arrived.setdefault(id(target), (target, [], []))
            elements.append(element)
            threads.append(number)
    for target, elements, threads in arrived.values():
        machine.watch.finish_copy(target, np.zeros(len(elements)), elements, threads)


def _record(
    machine: Machine, step: Step, parts: list[tuple[int, Step]], mask: np.ndarray[Any, Any], producers: tuple[Any, ...]
) -> int:
    if step.op is None:
        return machine.line(mask, step.site)
    if step.op is OpClass.BRANCH:
        taken = np.zeros(mask.shape, bool)
        taken[0, [number for number, s in parts if s.taken]] = True
        return machine.branch(taken, mask, producers, step.site)
    if step.op in {OpClass.BARRIER, OpClass.FENCE} or (step.op is OpClass.VOTE and step.value is not None):
        return _order(machine, step, parts, mask, producers)
    if step.array is not None:
        return _access(machine, step, parts, mask, producers)
    if step.op is OpClass.SHUFFLE:
        return machine.count_shuffle(mask, producers, step.site)
    return machine.instruction(step.op, mask, producers, step.site)


def _order(
    machine: Machine, step: Step, parts: list[tuple[int, Step]], mask: np.ndarray[Any, Any], producers: tuple[Any, ...]
) -> int:
    """Record what puts threads in order."""
    if step.op is OpClass.BARRIER:
        machine.left = ~mask  # that they are not waiting elsewhere was checked when they ran
        return barriers.meet(machine, mask, producers, step.site)
    if step.op is OpClass.FENCE:
        return barriers.fence(machine, mask, producers, step.site, step.value)
    members = np.zeros(mask.shape, np.uint32)
    for number, s in parts:
        members[0, number] = s.value
    return barriers.meet_in_warps(machine, mask, producers, step.site, members)


def _access(
    machine: Machine, step: Step, parts: list[tuple[int, Step]], mask: np.ndarray[Any, Any], producers: tuple[Any, ...]
) -> int:
    assert step.op is not None
    assert step.array is not None
    index, to = np.zeros(mask.shape, np.int64), np.zeros(mask.shape, np.int64)
    for number, s in parts:
        index[0, number], to[0, number] = s.flat, s.target_flat
    if step.target is None:
        values = step.value
        if values is not None and step.op in {OpClass.GLOBAL_STORE, OpClass.SHARED_STORE}:
            values = np.zeros(mask.shape, step.array.dtype)
            for number, s in parts:
                values[0, number] = s.value
        return machine.access(step.op, step.array, index, mask, producers, step.site, values=values)
    assert isinstance(step.array, DeviceArray)
    ends = Ends(step.target, to, step.array, index)
    return machine.async_copies.count_copy(ends, mask, producers, step.site)

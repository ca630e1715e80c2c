"""Looks for the smallest case that still fails: leaves parts out, one after another, as long as it does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from gpusim_des.errors import SimError
from gpusim_des.gpu import GPU
from tests.programs import TINY, Part
from tests.random_host_programs import Graph, HostPrograms, Launch
from tests.random_programs import Kernel, Programs

AnyCase = Programs | HostPrograms
T = TypeVar("T")

MOST_TRIES = 3000
"""Cases that are tried at most."""


def smallest(case: AnyCase, fails: Callable[[AnyCase], bool]) -> AnyCase:
    """Return a case like `case`, which fails, that fails as well, and of which nothing can be left out."""
    tries = 0
    going_on = True
    while going_on:
        going_on = False
        for smaller in _smaller(case):
            tries += 1
            if tries > MOST_TRIES:
                return case
            if _still(fails, smaller):
                case, going_on = smaller, True
                break
    return case


def _still(fails: Callable[[Any], bool], case: Any) -> bool:
    try:
        return fails(case)
    except (SimError, IndexError, KeyError):
        return False  # what was left out was needed to make a case at all


def _smaller(case: Any) -> Iterator[Any]:
    """Cases that lack a part of this one, large parts first."""
    if isinstance(case, HostPrograms):
        yield from _fewer_calls(case)
    else:
        for keep in _without(list(range(len(case.kernels)))):
            if keep:
                yield case._replace(kernels=[case.kernels[k] for k in keep], streams=[case.streams[k] for k in keep])
    for usual in ({"max_cycles": None}, {"caches": False}, {"per_thread_default": False}):
        ((field, value),) = usual.items()
        if getattr(case, field, value) != value:
            yield case._replace(**usual)
    for number, kernel in enumerate(case.kernels):
        for less in _smaller_kernels(kernel):
            yield case._replace(kernels=_with(case.kernels, number, less))
    for gpu in _plainer(case.gpu):
        yield case._replace(gpu=gpu)


def _with(items: Sequence[T], number: int, other: T) -> list[T]:
    """Replace one item."""
    return [*items[:number], other, *items[number + 1 :]]


def _without(items: Sequence[T]) -> Iterator[list[T]]:
    """Leave out halves, quarters, and so on down to single items."""
    size = len(items) // 2
    while size:
        for first in range(0, len(items), size):
            yield [*items[:first], *items[first + size :]]
        size //= 2
    if len(items) == 1:
        yield []


def _fewer_calls(case: HostPrograms) -> Iterator[HostPrograms]:
    for calls in _without(case.calls):
        yield case._replace(calls=calls)
    for number, call in enumerate(case.calls):
        if isinstance(call, Graph) and call.nodes:
            for nodes in (call.nodes[:-1], tuple((node, ()) for node, _ in call.nodes)):
                if nodes != call.nodes:
                    fewer = Graph(call.stream, nodes=nodes, number=call.number)
                    yield case._replace(calls=_with(case.calls, number, fewer))
    nodes_of_all = [node for call in case.calls if isinstance(call, Graph) for node, _ in call.nodes]
    used = {call.kernel for call in [*case.calls, *nodes_of_all] if isinstance(call, Launch)}
    if len(case.kernels) - 1 not in {-1, *used}:
        yield case._replace(kernels=case.kernels[:-1])


def _smaller_kernels(kernel: Kernel) -> Iterator[Kernel]:
    yield from (kernel._replace(blocks=blocks) for blocks in _without(kernel.blocks) if blocks)
    if len(kernel.blocks[0]) > 1:
        yield kernel._replace(blocks=[block[1:] for block in kernel.blocks])
        yield kernel._replace(blocks=[block[:-1] for block in kernel.blocks])
    for number, program in enumerate(kernel.programs):
        for less in _smaller_programs(program):
            yield kernel._replace(programs=_with(kernel.programs, number, less))
    used = {program for block in kernel.blocks for program, _ in block}
    if len(kernel.programs) - 1 not in used and len(kernel.programs) > 1:
        yield kernel._replace(programs=kernel.programs[:-1])
    yield from _plainer_kernels(kernel)


def _plainer_kernels(kernel: Kernel) -> Iterator[Kernel]:
    """Kernels of the same size with less that is special."""
    for b, block in enumerate(kernel.blocks):
        for w, warp in enumerate(block):
            for plainer in ((0, warp[1]), (warp[0], 0)):
                if plainer != warp:
                    yield kernel._replace(blocks=_with(kernel.blocks, b, _with(block, w, plainer)))
    usual = Kernel([], [])
    for field in ("registers", "shared_bytes", "together", "spilled"):
        if getattr(kernel, field) != getattr(usual, field):
            yield kernel._replace(**{field: getattr(usual, field)})


def _smaller_programs(program: list[Part]) -> Iterator[list[Part]]:
    for keep in _without(list(range(len(program)))):
        place = {old: new for new, old in enumerate(keep)}
        yield [program[k]._replace(deps=tuple(place[d] for d in program[k].deps if d in place)) for k in keep]
    for number, part in enumerate(program):
        plainer = [part._replace(deps=()), part._replace(quarters=4), part._replace(lanes=32), part._replace(passes=())]
        if len(part.sectors) > 1:
            plainer.append(part._replace(sectors=part.sectors[:1], passes=part.passes[:1]))
        yield from (_with(program, number, less) for less in plainer if less != part)


def _plainer(gpu: GPU) -> Iterator[GPU]:
    """GPUs with one number as the tiny one has it."""
    for field in gpu.changed:
        pipe = next((p for p in TINY.pipes if field.startswith(f"{p.name}_") and not hasattr(TINY, field)), None)
        if pipe is None:
            usual: Any = getattr(TINY, field)
        else:
            usual = {"lanes": pipe.lanes, "latency_cycles": pipe.latency_cycles, "sustained": pipe.sustained}.get(
                field.removeprefix(f"{pipe.name}_"), "sm" if pipe.shared_by_sm else "sub-partition"
            )
        try:
            plainer = gpu.replace(**{field: usual})
        except SimError:
            continue
        if plainer != gpu:
            yield plainer

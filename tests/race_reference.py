"""Races by definition: every pair of accesses, a vector clock per thread. Slow, and short enough to be believed."""

from __future__ import annotations

from typing import Any, NamedTuple

WARP = 32


class Access(NamedTuple):
    """What some threads do at once: thread → element."""

    kind: str
    """``read``, ``write`` or ``atomic``."""
    elements: dict[int, int]
    value: int | None = None
    """What is written; ``None``: the number of the thread."""


class Meet(NamedTuple):
    """Threads that put each other in order: all of a block (a barrier), or the given lanes warp by warp."""

    lanes: tuple[int, ...] | None
    block: int | None = None
    """In which block; ``None``: in each one."""


Event = Access | Meet


def racing_accesses(program: list[Event], threads: int, blocks: int = 1) -> int:
    """Count the accesses that race with an access before them, or, of one store, with one by others.

    Of several threads that store to an element at once all but the last race. The threads of a block follow those of
    the block before it; no block is in order with another.
    """
    size = threads * blocks
    seen = [[-1] * size for _ in range(size)]  # seen[t][u]: time up to which t is behind what u did
    history: dict[int, list[tuple[int, int, str]]] = {}  # by element: time, thread, kind
    count = 0
    for time, event in enumerate(program):
        if isinstance(event, Meet):
            for block in range(blocks) if event.block is None else [event.block]:
                _meet(seen, event, time, range(block * threads, (block + 1) * threads))
            continue
        for thread, element in event.elements.items():
            before = any(
                other != thread and _clash(kind, event.kind) and seen[thread][other] < then
                for then, other, kind in history.get(element, ())
            )
            once_more = event.kind == "write" and any(
                other > thread and where == element for other, where in event.elements.items()
            )
            count += before or once_more
        for thread, element in event.elements.items():
            history.setdefault(element, []).append((time, thread, event.kind))
    return count


def harm(program: list[Event], threads: int, blocks: int = 1) -> tuple[bool, bool]:
    """Tell whether accesses race that are not writes of one value, and whether some do that must be told.

    That is unless the first of the two is a write that another one behind it has replaced when the second comes: then
    the element ends with the same value in every order.
    """
    size = threads * blocks
    seen = [[-1] * size for _ in range(size)]
    history: list[
        tuple[int, int, int, str, int, list[int]]
    ] = []  # time, thread, element, kind, value, what it has seen
    some = certain = False
    for time, event in enumerate(program):
        if isinstance(event, Meet):
            for block in range(blocks) if event.block is None else [event.block]:
                _meet(seen, event, time, range(block * threads, (block + 1) * threads))
            continue
        for thread, element in event.elements.items():
            value = thread if event.value is None else event.value
            for then, other, where, kind, old, _ in history:
                at_once = then == time
                if where != element or other == thread or not _clash(kind, event.kind):
                    continue
                if (at_once and event.kind != "write") or (not at_once and seen[thread][other] >= then):
                    continue
                writes = kind == event.kind == "write"
                if writes and value == old:
                    continue
                some = True
                certain |= not (writes and _replaced(history, other, element, then, time))
            history.append((time, thread, element, event.kind, value, list(seen[thread])))
    return some, certain


def _replaced(history: list[Any], thread: int, element: int, then: int, until: int) -> bool:
    return any(
        then < time < until and where == element and kind == "write" and (other == thread or seen[thread] >= then)
        for time, other, where, kind, _, seen in history
    )


def _clash(one: str, other: str) -> bool:
    return one != other or one == "write"


def _meet(seen: list[list[int]], event: Meet, time: int, threads: range) -> None:
    groups = [list(threads)]
    if event.lanes is not None:
        warps = range(-(-len(threads) // WARP))
        groups = [[threads[lane] for lane in event.lanes if lane // WARP == warp] for warp in warps]
    for group in groups:
        joint = [max((seen[t][u] for t in group), default=-1) for u in range(len(seen))]
        for u in group:
            joint[u] = time
        for t in group:
            seen[t] = list(joint)

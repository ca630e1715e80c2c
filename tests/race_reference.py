"""Races by definition: every pair of accesses, a vector clock per thread. Slow, and short enough to be believed."""

from __future__ import annotations

from typing import NamedTuple

WARP = 32


class Access(NamedTuple):
    """What some threads of a block do at once: thread → element."""

    kind: str
    """``read``, ``write`` or ``atomic``."""
    elements: dict[int, int]


class Meet(NamedTuple):
    """Threads that put each other in order: all of a block (a barrier), or the given lanes warp by warp."""

    lanes: tuple[int, ...] | None


Event = Access | Meet


def racing_accesses(program: list[Event], threads: int) -> int:
    """Count the accesses of one block that race with an access before them, or, of one store, with one by others.

    Of several threads that store to an element at once all but the last race.
    """
    seen = [[-1] * threads for _ in range(threads)]  # seen[t][u]: time up to which t is behind what u did
    history: list[tuple[int, int, int, str]] = []  # time, thread, element, kind
    count = 0
    for time, event in enumerate(program):
        if isinstance(event, Meet):
            _meet(seen, event, time, threads)
            continue
        for thread, element in event.elements.items():
            before = any(
                other != thread and where == element and _clash(kind, event.kind) and seen[thread][other] < then
                for then, other, where, kind in history
            )
            once_more = event.kind == "write" and any(
                other > thread and where == element for other, where in event.elements.items()
            )
            count += before or once_more
        history += [(time, thread, element, event.kind) for thread, element in event.elements.items()]
    return count


def _clash(one: str, other: str) -> bool:
    return one != other or one == "write"


def _meet(seen: list[list[int]], event: Meet, time: int, threads: int) -> None:
    groups = [list(range(threads))]
    if event.lanes is not None:
        groups = [[t for t in event.lanes if t // WARP == warp] for warp in range(-(-threads // WARP))]
    for group in groups:
        joint = [max((seen[t][u] for t in group), default=-1) for u in range(threads)]
        for u in group:
            joint[u] = time
        for t in group:
            seen[t] = list(joint)

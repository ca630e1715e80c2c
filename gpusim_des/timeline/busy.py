"""How long operations keep the device busy, together and one after the other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise

from gpusim_des.timeline.operations import Operation


def times(operations: Iterable[Operation]) -> dict[frozenset[str], int]:
    """Femtoseconds for every set of kinds that ran at once."""
    changes: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for operation in operations:
        changes[operation.start_fs][operation.kind] += 1
        changes[operation.end_fs][operation.kind] -= 1
    running: dict[str, int] = defaultdict(int)
    found: dict[frozenset[str], int] = defaultdict(int)
    for start, end in pairwise(sorted(changes)):
        for kind, change in changes[start].items():
            running[kind] += change
        kinds = frozenset(kind for kind, number in running.items() if number)
        if kinds:
            found[kinds] += end - start
    return found


def busy_fs(operations: Iterable[Operation]) -> int:
    """Femtoseconds in which at least one of them ran."""
    return sum(times(operations).values())


def serial_fs(operations: Iterable[Operation]) -> int:
    """Their durations, one after the other."""
    return sum(o.end_fs - o.start_fs for o in operations)

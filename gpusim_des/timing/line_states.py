"""Warp-cycles by source line and state, made to add up where only a sample of the blocks was played."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

NO_LINE = 0
"""Line of instructions that stand in no source."""


def scaled_states(by_line: Mapping[int, Sequence[int]], totals: Sequence[int]) -> dict[int, list[int]]:
    """Divide estimated totals among lines as what was played divides them, to the last cycle; lines ascending.

    Where the lines add up to the totals they stay as they are. Cycles that rounding down leaves over go to the lines
    that lost most by it, of equal ones to the first; a state that was never played goes to no line.

    Examples
    --------
    >>> scaled_states({7: [3, 0], 9: [1, 0]}, [6, 2])
    {0: [0, 2], 7: [5, 0], 9: [1, 0]}
    >>> scaled_states({9: [1, 4]}, [1, 4])
    {9: [1, 4]}
    """
    result = {line: list(by_line[line]) for line in sorted(by_line)}
    for state, total in enumerate(totals):
        played = sum(states[state] for states in result.values())
        if played == total:
            continue
        if not played:
            result.setdefault(NO_LINE, [0] * len(totals))[state] = total
            continue
        rest = {}
        for line, states in result.items():
            states[state], rest[line] = divmod(states[state] * total, played)
        missing = total - sum(states[state] for states in result.values())
        for line in sorted(rest, key=lambda n: (-rest[n], n))[:missing]:
            result[line][state] += 1
    return dict(sorted(result.items()))

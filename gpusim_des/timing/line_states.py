"""Warp-cycles by source line and state, made to add up where only a sample of the blocks was played."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpusim_des.line_site import NO_SITE, LineSite


def scaled_states(by_line: Mapping[LineSite, Sequence[int]], totals: Sequence[int]) -> dict[LineSite, list[int]]:
    """Divide estimated totals among lines as what was played divides them, to the last cycle; lines ascending.

    Where the lines add up to the totals they stay as they are. Cycles that rounding down leaves over go to the lines
    that lost most by it, of equal ones to the first; a state that was never played goes to no line.

    Examples
    --------
    >>> a, b = LineSite("k.py", 7), LineSite("k.py", 9)
    >>> scaled_states({a: [3, 0], b: [1, 0]}, [6, 2]) == {NO_SITE: [0, 2], a: [5, 0], b: [1, 0]}
    True
    >>> list(scaled_states({b: [1, 4]}, [1, 4]).values())
    [[1, 4]]
    """
    result = {line: list(by_line[line]) for line in sorted(by_line)}
    for state, total in enumerate(totals):
        played = sum(states[state] for states in result.values())
        if played == total:
            continue
        if not played:
            result.setdefault(NO_SITE, [0] * len(totals))[state] = total
            continue
        rest = {}
        for line, states in result.items():
            states[state], rest[line] = divmod(states[state] * total, played)
        missing = total - sum(states[state] for states in result.values())
        for line in sorted(rest, key=lambda n: (-rest[n], n))[:missing]:
            result[line][state] += 1
    return dict(sorted(result.items()))

"""A piece of advice: what costs time, how much, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

LEAST = 0.01
"""Share of the time below which a mistake is not worth a word."""


@dataclass(frozen=True)
class Advice:
    """One performance mistake, with its figure and one remedy; ``str()`` says it in one line.

    Examples
    --------
    >>> print(Advice("bank_conflicts", "Store to tile at line 8: 32 passes (ideal 1), lane stride 32 words",
    ...              "pad the row to 33", figure=32, ideal=1, share=0.4, line=8))
    Store to tile at line 8: 32 passes (ideal 1), lane stride 32 words; pad the row to 33 (about 40 % of the time)
    """

    check: str
    """Name of the check that found it, for example ``uncoalesced``."""
    finding: str
    """What is wrong, with the figure."""
    remedy: str
    """What to do."""
    figure: float
    """What was counted, in the unit that the finding names."""
    ideal: float
    """What it would be without the mistake."""
    share: float
    """Estimated share of the time that it costs, 0…1; of ``unsynchronized`` the share that a clock misses."""
    line: int = 0
    """Source line; 0 where it concerns the whole launch or program."""
    code: str = ""
    """Text of that line."""
    kernel: str = ""
    """The kernel that it concerns; empty where it concerns the whole program."""
    array: str = ""
    """The array that it concerns; empty where it concerns none, or several."""
    filename: str = ""
    """Source file of `line`; empty where it is not known."""

    def __str__(self) -> str:
        return f"{self.finding}; {self.remedy} (about {percent(self.share)} of the time)"


def worst_first(found: Iterable[Advice]) -> list[Advice]:
    """Sort by the estimated share of the time, largest first; of equal ones the earlier line first.

    >>> [a.check for a in worst_first(Advice(n, "", "", 1, 0, s) for n, s in (("a", 0.1), ("b", 0.2)))]
    ['b', 'a']
    """
    return sorted(found, key=lambda a: (-a.share, a.line, a.check, a.filename, a.array))


def plural(number: int, noun: str) -> str:
    """Number and noun, with thousands separators.

    >>> plural(1, "block"), plural(1200, "block")
    ('1 block', '1,200 blocks')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def percent(share: float) -> str:
    """Share as whole percent, with one digit behind the point below ten.

    >>> percent(0.4), percent(0.034)
    ('40 %', '3.4 %')
    """
    return f"{100 * share:.0f} %" if share >= 0.0995 or not share else f"{100 * share:.1f} %"


def number(value: float) -> str:
    """Two digits that count; whole numbers whole.

    >>> number(32.0), number(4.24), number(0.333)
    ('32', '4.2', '0.33')
    """
    return f"{value:,.0f}" if value >= 10 or value == round(value) else f"{value:.2g}"

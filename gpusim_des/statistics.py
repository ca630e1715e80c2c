"""Student's t, for bounds of errors that are estimated from few numbers."""

from __future__ import annotations

from functools import lru_cache
from math import atan, cos, pi, sin, sqrt

CONFIDENCE = 0.95
"""How often the truth is to lie within a bound that is reported."""


@lru_cache(maxsize=256)
def student(freedom: int, confidence: float = CONFIDENCE) -> float:
    """How many standard errors a bound is wide, for a mean of ``freedom + 1`` normally distributed numbers.

    Parameters
    ----------
    freedom
        Degrees of freedom, at least 1.
    confidence
        Probability that the truth lies within the bound, between 0 and 1.

    Raises
    ------
    ValueError
        For fewer degrees of freedom, or a confidence that no bound has.

    Examples
    --------
    >>> [round(student(freedom), 3) for freedom in (1, 2, 5, 10, 100)]
    [12.706, 4.303, 2.571, 2.228, 1.984]
    """
    if freedom < 1 or not 0 < confidence < 1:
        raise ValueError(f"student({freedom}, {confidence}): at least 1 degree of freedom, confidence between 0 and 1")
    low, high = 0.0, 1.0
    while _within(high, freedom) < confidence:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        if _within(middle, freedom) < confidence:
            low = middle
        else:
            high = middle
    return high


def _within(t: float, freedom: int) -> float:
    """Probability of a value between -t and t (Abramowitz and Stegun, 26.7.3 and 26.7.4)."""
    theta = atan(t / sqrt(freedom))
    odd = freedom % 2
    term = cos(theta) if odd else 1.0
    total = 0.0
    for k in range(freedom // 2):
        total += term
        term *= cos(theta) ** 2 * (2 * k + 2 if odd else 2 * k + 1) / (2 * k + 3 if odd else 2 * k + 2)
    return 2 / pi * (theta + sin(theta) * total) if odd else sin(theta) * total

"""Scaling: how much n processors gain where a part of the work has to be done by one."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from gpusim_des.analytic.arguments import Curve, curve, require, require_fraction, require_positive


@curve
def amdahl(serial_fraction: Curve, processors: Curve) -> float:
    """Speed-up of one problem by Amdahl's law: ``1 / (s + (1 - s) / n)``.

    Parameters
    ----------
    serial_fraction
        Share s of the time on one processor that cannot be divided, 0…1.
    processors
        Their number n, at least 1; not necessarily whole.

    Returns
    -------
    float or array
        Time on one processor over time on n; never above ``1 / s``.

    Raises
    ------
    ValueError
        If the fraction is not from 0 to 1, or the number below 1.

    References
    ----------
    Amdahl, G. (1967). Validity of the Single Processor Approach to Achieving Large Scale Computing Capabilities.
    AFIPS Spring Joint Computer Conference.

    Examples
    --------
    >>> amdahl(0.1, 16), amdahl(0.5, [1, 2, 8])
    (6.4, array([1.        , 1.33333333, 1.77777778]))
    """
    _check(serial_fraction, processors)
    return float(1 / (serial_fraction + (1 - serial_fraction) / processors))


@curve
def gustafson(serial_fraction: Curve, processors: Curve) -> float:
    """Speed-up of a problem that grows with the processors, by Gustafson's law: ``s + n (1 - s)``.

    Parameters
    ----------
    serial_fraction
        Share s of the time on n processors in which one of them works, 0…1.
    processors
        Their number n, at least 1.

    Returns
    -------
    float or array
        Time that one processor would need for the large problem over the time on n; never below Amdahl's.

    Raises
    ------
    ValueError
        If the fraction is not from 0 to 1, or the number below 1.

    References
    ----------
    Gustafson, J. (1988). Reevaluating Amdahl's Law. Communications of the ACM 31 (5).

    Examples
    --------
    >>> gustafson(0.1, 16)
    14.5
    """
    _check(serial_fraction, processors)
    return float(processors - serial_fraction * (processors - 1))


@curve
def karp_flatt(speedup: Curve, processors: Curve) -> float:
    """Serial fraction that a measured speed-up shows: ``(1/S - 1/n) / (1 - 1/n)``.

    It is Amdahl's s, solved for. Where it grows with n, something else than serial work limits the scaling, for example
    communication. It is negative where n processors are more than n times as fast.

    Parameters
    ----------
    speedup
        Time on one processor over time on n.
    processors
        Their number n, above 1.

    Raises
    ------
    ValueError
        If the speed-up is not positive, or the number not above 1.

    References
    ----------
    Karp, A. and Flatt, H. (1990). Measuring Parallel Processor Performance. Communications of the ACM 33 (5).

    Examples
    --------
    >>> round(karp_flatt(6.4, 16), 12)
    0.1
    """
    require_positive(speedup=speedup)
    require("a finite number above 1: one processor shows nothing", lambda n: n > 1, processors=processors)
    return float((1 / speedup - 1 / processors) / (1 - 1 / processors))


def fit_serial_fraction(
    processors: Sequence[float] | npt.ArrayLike, speedups: Sequence[float] | npt.ArrayLike
) -> float:
    """Serial fraction that fits several measured speed-ups best.

    Amdahl's law is a straight line in s: ``1/S - 1/n = s (1 - 1/n)``. The fit takes the least squares of what ``1/S``,
    the time as a fraction of that on one processor, differs by. Measurements on one processor add nothing.

    Parameters
    ----------
    processors
        Numbers n.
    speedups
        Measured with each of them.

    Returns
    -------
    float
        s; negative where the speed-ups are larger than the numbers of processors.

    Raises
    ------
    ValueError
        If the lists do not match, a number is out of range, or all were measured on one processor.

    Examples
    --------
    >>> n = [1, 2, 4, 8]
    >>> round(fit_serial_fraction(n, amdahl(0.05, n)), 12)
    0.05
    """
    numbers, measured = np.atleast_1d(np.asarray(processors)), np.atleast_1d(np.asarray(speedups))
    if numbers.shape != measured.shape or numbers.ndim != 1:
        raise ValueError(
            f"{numbers.size} numbers of processors and {measured.size} speed-ups: give one speed-up for each number"
        )
    for n, s in zip(numbers.tolist(), measured.tolist(), strict=True):
        _check(0, n)
        require_positive(speedup=s)
    x = 1 - 1 / numbers
    weight = float(x @ x)
    if math.isclose(weight, 0):
        raise ValueError("all speed-ups were measured on one processor, which shows no serial part: measure with more")
    return float(x @ (1 / measured - 1 / numbers)) / weight


def _check(serial_fraction: float, processors: float) -> None:
    require_fraction(serial_fraction=serial_fraction)
    require("a finite number, at least 1", lambda n: n >= 1, processors=processors)

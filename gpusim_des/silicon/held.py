"""Points that are held to a bound one by one: occupancy curves, plateaus of latency, counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from gpusim_des.gpu import load_gpu
from gpusim_des.silicon.chases import plateaus
from gpusim_des.silicon.target import Point, Target
from gpusim_des.silicon.validation import Result


class Held(NamedTuple):
    """Points of one kind, and the one that is farthest off."""

    name: str
    points: int
    bound: float
    """What the error of each must not exceed, as a fraction."""
    worst: float
    """With its sign."""


def occupied_points(target: Target) -> tuple[Point, ...]:
    """Points of an occupancy curve with more than a tenth of the threads that an SM holds.

    >>> from gpusim_des.silicon.target import load_target
    >>> curve = load_target("occupancy_curve_l40")  # an SM holds 1536
    >>> len(curve.points), len(occupied_points(curve)), min(p.inputs["threads"] for p in occupied_points(curve))
    (60, 48, 96)
    """
    most = load_gpu(target.gpu).max_threads_per_sm
    return tuple(p for p in target.points if 10 * p.inputs["threads"] * p.inputs["blocks"] > most)


def plateau_points(target: Target) -> tuple[Point, ...]:
    """Points of a pointer chase that lie on plateaus.

    >>> from gpusim_des.silicon.target import load_target
    >>> chase = load_target("pchase_a100_80")
    >>> len(chase.points), len(plateau_points(chase))
    (19, 14)
    """
    found = plateaus([point.measured for point in target.points])
    return tuple(target.points[n] for plateau in found for n in plateau)


def _all(target: Target) -> tuple[Point, ...]:
    return target.points


KINDS: tuple[tuple[str, float, Callable[[Target], bool], Callable[[Target], tuple[Point, ...]]], ...] = (
    (
        "bandwidth against occupancy, above 10 % of it",
        0.15,
        lambda target: target.reproduction == "bandwidth_of_one_element",
        occupied_points,
    ),
    ("plateaus of latency", 0.05, lambda target: target.reproduction == "cycles_per_hop", plateau_points),
    ("counts", 0.0, lambda target: target.kind == "count", _all),
)
"""Name, bound, which targets, and which of their points."""


def held(results: Sequence[Result]) -> list[Held]:
    """Return the kinds of which results have points.

    Examples
    --------
    >>> from gpusim_des.silicon import load_target, run
    >>> held([run(load_target("blocks_on_an_sm"))])
    [Held(name='counts', points=10, bound=0.0, worst=0.0)]
    """
    found = []
    for name, bound, belongs, points_of in KINDS:
        errors = []
        for result in results:
            if belongs(result.target):
                points = points_of(result.target)
                errors += [outcome.error for outcome in result.outcomes if outcome.point in points]
        if errors:
            found.append(Held(name, len(errors), bound, max(errors, key=abs)))
    return found

"""Runs targets and says how far the simulation is from what was measured."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import mean, median

import numpy as np

from gpusim_des.gpu import load_gpu
from gpusim_des.silicon.reproductions import REPRODUCTIONS
from gpusim_des.silicon.target import Point, Target

LARGE = 0.20
"""An error from which on a target must say what the model lacks."""

SECTIONS = ("predictions", "calibration", "counts", "order and ratio")
"""What the headline is made of, and what is listed apart from it."""


@dataclass(frozen=True)
class Outcome:
    """One point, measured and simulated, in the target's unit."""

    point: Point
    simulated: float

    @property
    def error(self) -> float:
        """Simulated over measured, less one."""
        return self.simulated / self.point.measured - 1


@dataclass(frozen=True)
class Result:
    """One target with its points.

    Of an ``"order"`` target the simulated figures are scaled to the first one measured, which is then left out of the
    error: only ratios are compared.
    """

    target: Target
    outcomes: tuple[Outcome, ...]
    seconds: float
    """How long the simulation took."""

    @property
    def compared(self) -> tuple[Outcome, ...]:
        """The outcomes that count."""
        return self.outcomes[1:] if self.target.kind == "order" and len(self.outcomes) > 1 else self.outcomes

    @property
    def error(self) -> float:
        """Mean of the points' errors, without their signs."""
        return mean(abs(outcome.error) for outcome in self.compared)

    @property
    def bias(self) -> float:
        """Mean of the points' errors with their signs: above zero, the simulation's figures are larger."""
        return mean(outcome.error for outcome in self.compared)

    @property
    def worst(self) -> Outcome:
        """The outcome that is farthest off."""
        return max(self.compared, key=lambda outcome: abs(outcome.error))

    @property
    def section(self) -> str:
        """Where the table has it, one of `SECTIONS`."""
        if self.target.kind == "count":
            return "counts"
        if self.target.kind == "order":
            return "order and ratio"
        return "calibration" if self.target.calibrates else "predictions"


@dataclass(frozen=True)
class Errors:
    """Errors of several targets, one figure each, as fractions."""

    count: int
    mean: float
    median: float
    p90: float
    worst: float

    @classmethod
    def of(cls, results: Iterable[Result]) -> Errors:
        """Sum up; the 90th percentile is interpolated between neighbours.

        Raises
        ------
        ValueError
            If there are none.
        """
        errors = [result.error for result in results]
        if not errors:
            raise ValueError("errors of no targets: pass at least one")
        return cls(len(errors), mean(errors), median(errors), float(np.percentile(errors, 90)), max(errors))


def run(target: Target, *, quick: bool = False) -> Result:
    """Simulate a target's points.

    Parameters
    ----------
    target
        What was measured.
    quick
        Only the points of a quick validation.

    Raises
    ------
    SimError
        What the simulation raises.
    ValueError
        If a quick validation has none of its points.

    Examples
    --------
    >>> from gpusim_des.silicon.target import load_target
    >>> result = run(load_target("shared_latency_2070"))
    >>> result.outcomes[0].simulated, result.error
    (23.0, 0.0)
    """
    points = target.quick_points if quick else target.points
    if not points:
        raise ValueError(f"target {target.name!r} has no quick points: leave out quick")
    gpu, simulate = load_gpu(target.gpu), REPRODUCTIONS[target.reproduction]
    began = time.monotonic()
    simulated = [simulate(gpu, point.inputs) for point in points]
    scale = points[0].measured / simulated[0] if target.kind == "order" else 1.0
    outcomes = tuple(Outcome(point, value * scale) for point, value in zip(points, simulated, strict=True))
    return Result(target, outcomes, time.monotonic() - began)


def validate(
    targets: Sequence[Target], *, quick: bool = False, progress: Callable[[Result], None] | None = None
) -> tuple[Result, ...]:
    """Run targets one after another; a quick validation leaves out those without quick points.

    `progress` is called with each result as it comes.
    """
    results = []
    for target in targets:
        if quick and not target.quick_points:
            continue
        results.append(run(target, quick=quick))
        if progress is not None:
            progress(results[-1])
    return tuple(results)

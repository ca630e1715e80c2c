"""Published measurements of real GPUs, as data: what was measured on which chip, by whom, and how it is reproduced."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from gpusim_des.errors import SimError
from gpusim_des.gpu import GPU, load_gpu
from gpusim_des.gpu.schema import suggest

Kind = Literal["time", "count", "order"]
"""What a target is good for.

``"time"``: its figures are met or missed. ``"count"``: blocks, passes, sectors, which must be exact. ``"order"``: the
chip is not modelled, older than Volta, not named, or the figures are doubtful, so that only ratios to the first point
are compared.
"""

DATA = Path(__file__).with_name("targets.json")


@dataclass(frozen=True)
class Point:
    """One measured figure."""

    inputs: Mapping[str, Any]
    """What varies from point to point, by name."""
    measured: float
    """In the target's unit."""
    quick: bool
    """Whether a quick validation runs it."""

    @property
    def label(self) -> str:
        """The inputs, for a table."""
        return ", ".join(f"{name} {value}" for name, value in self.inputs.items())


@dataclass(frozen=True)
class Target:
    """One published measurement: a figure, a curve or a table.

    Attributes
    ----------
    name, group, title
        Name for the command line, kind of phenomenon, and what was measured.
    gpu
        The GPU model that reproduces it.
    chip
        The chip that was measured, where the model is that of another one; else empty.
    source
        Who measured it.
    unit
        Of the figures.
    kind
        What is compared.
    reproduction
        Name of the function that simulates a point; see `gpusim_des.silicon.reproductions`.
    cited
        Texts by which GPU models cite this measurement.
    rule
        The rule of the timing model, or what of the reproduction, was read from this measurement; empty where
        nothing was.
    why
        What the model lacks, where the error is large.
    """

    name: str
    group: str
    title: str
    gpu: str
    chip: str
    source: str
    unit: str
    kind: Kind
    reproduction: str
    cited: tuple[str, ...]
    rule: str
    why: str
    points: tuple[Point, ...]

    def inputs_of(self, gpu: GPU) -> dict[str, str]:
        """Parameters of a GPU model that were read from this measurement, with their sources.

        Examples
        --------
        >>> from gpusim_des.gpu import load_gpu
        >>> sorted(load_target("pchase_v100").inputs_of(load_gpu("v100-pcie")))
        ['dram_latency_cycles', 'l1_latency_cycles', 'l2_latency_cycles']
        """
        return {
            field: source for field, source in sorted(gpu.sources.items()) if any(text in source for text in self.cited)
        }

    @property
    def calibrates(self) -> bool:
        """Whether its GPU model or a rule took anything from it: then its error is no prediction."""
        return bool(self.rule) or bool(self.inputs_of(load_gpu(self.gpu)))

    @property
    def quick_points(self) -> tuple[Point, ...]:
        """The points of a quick validation."""
        return tuple(point for point in self.points if point.quick)


@cache
def list_targets() -> tuple[Target, ...]:
    """All targets, in the order of the table.

    Examples
    --------
    >>> len({target.name for target in list_targets()}) == len(list_targets())
    True
    """
    return tuple(_target(entry) for entry in json.loads(DATA.read_text(encoding="utf-8")))


def load_target(name: str) -> Target:
    """Return the target of this name.

    Raises
    ------
    SimError
        If there is none; names the nearest.

    Examples
    --------
    >>> load_target("pchase_v100").points[0].measured
    27.9
    """
    known = {target.name: target for target in list_targets()}
    if name not in known:
        raise SimError(f"there is no target {name!r}: {suggest(name, tuple(known))}")
    return known[name]


def choose(names: Sequence[str] = (), gpu: str | None = None) -> tuple[Target, ...]:
    """Return the targets with these names, all where none is given, that a GPU model reproduces.

    Raises
    ------
    SimError
        If a name is unknown, or nothing is left.
    """
    chosen = tuple(load_target(name) for name in names) or list_targets()
    left = tuple(target for target in chosen if gpu in (None, target.gpu))
    if not left:
        with_targets = sorted({target.gpu for target in chosen})
        raise SimError(f"no target of {gpu!r}: {suggest(str(gpu), with_targets)}; there are some of {with_targets}")
    return left


def _target(entry: dict[str, Any]) -> Target:
    """Read one entry: a table whose last column is what was measured."""
    columns, quick = entry.pop("columns"), set(entry.pop("quick"))
    rows = entry.pop("rows")
    points = tuple(
        Point(dict(zip(columns, row, strict=False)), float(row[-1]), number in quick) for number, row in enumerate(rows)
    )
    cited = tuple(entry.pop("cited"))
    return Target(**entry, cited=cited, points=points)

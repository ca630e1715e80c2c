"""A formula beside the simulation for a list of points: numbers, labels and explanations as functions of a point."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TypeVar

from gpusim_des.comparison import Comparison, compare

P = TypeVar("P")
Reason = tuple[str, float]
"""Why a difference is right, and the largest one that this covers: `explain` and `explained_up_to` of `compare`."""


def compare_points(
    points: Sequence[P],
    formula: Callable[[P], float],
    simulated: Callable[[P], float],
    *,
    name: str,
    quantity: str,
    tolerance: float = 0.02,
    because: Callable[[P], Reason | None] = lambda _: None,
    assumes: str = "",
    label: Callable[[P], str] = attrgetter("label"),
) -> Comparison:
    """Set what a formula says of each point beside what was simulated there.

    Parameters
    ----------
    points
        Of an experiment, in any form; without any the table is empty, to be joined with others by ``+``.
    formula, simulated
        The numbers of a point, in the same unit.
    name, quantity, tolerance, assumes
        As in `gs.compare`.
    because
        Why a difference beyond the tolerance is right at a point, and the largest one that this covers, with its sign;
        `gs.experiment.reach` makes one of what a better formula comes to. None: nothing explains a difference there.
    label
        Name of a point; its attribute ``label`` if nothing else is said.

    Raises
    ------
    ValueError
        What `gs.compare` refuses.

    Examples
    --------
    >>> waits = {"4 warps": (100, 99), "8 warps": (200, 150)}
    >>> print(compare_points(list(waits), lambda p: waits[p][0], lambda p: waits[p][1], label=str,
    ...                      name="Little's law", quantity="bandwidth (GB/s)",
    ...                      because=lambda p: ("the DRAM queues near saturation", -0.3)))
    Little's law: bandwidth (GB/s)
            | formula | simulated | difference
    4 warps |     100 |        99 |     -1.00%
    8 warps |     200 |       150 |    -25.00% *
    * 8 warps: the DRAM queues near saturation
    """
    if not points:
        return Comparison(())
    reasons = {label(p): because(p) for p in points}
    return compare(
        [formula(p) for p in points],
        [simulated(p) for p in points],
        name=name,
        quantity=quantity,
        labels=[label(p) for p in points],
        tolerance=tolerance,
        explain={of: reason[0] for of, reason in reasons.items() if reason},
        explained_up_to={of: reason[1] for of, reason in reasons.items() if reason},
        assumes=assumes,
    )

"""What a block costs of a kernel's time, read from its work: how blocks that are not played are judged (S2)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

ALIKE = 1e-9
"""Squared relative spread of a measure below which all blocks have the same of it."""


class BlockCost(NamedTuple):
    """A straight line through the cost of blocks over the measure of their work that tells it best.

    Costs are shares of the kernel's time (`shares`), in femtoseconds.
    """

    measure: int | None
    """Column of `gpusim_des.trace.work`; ``None`` where all blocks are alike, or no measure tells the cost."""
    mean_cost: float
    mean_work: float
    slope: float

    @classmethod
    def of(cls, work: Floats, cost: Floats) -> BlockCost:
        """Fit the line to measured blocks, one row of `work` for each.

        Examples
        --------
        >>> line = BlockCost.of(np.array([[5.0, 1.0], [5.0, 3.0]]), np.array([20.0, 40.0]))
        >>> line.measure, line(np.array([[9.0, 2.0], [0.0, 4.0]])).tolist()
        (1, [30.0, 50.0])
        """
        best = cls(None, float(cost.mean()), 0.0, 0.0)
        least = float(cost.var())
        for number in range(work.shape[1]):
            amounts = work[:, number]
            mean, spread = float(amounts.mean()), float(amounts.var())
            if spread <= ALIKE * mean**2:
                continue
            slope = float(((amounts - mean) * (cost - cost.mean())).mean()) / spread
            left = float((cost - cost.mean() - slope * (amounts - mean)).var())
            if slope > 0 and left < least:
                best, least = cls(number, float(cost.mean()), mean, slope), left
        return best

    def __call__(self, work: Floats) -> Floats:
        """Costs of blocks with this work."""
        costs: Floats = self.mean_cost + self.slope * (self.amounts(work) - self.mean_work)
        return costs

    def amounts(self, work: Floats) -> Floats:
        """The measure of blocks with this work; 1 where no measure tells the cost."""
        amounts: Floats = np.ones(len(work)) if self.measure is None else work[:, self.measure]
        return amounts

"""What an explanation of a difference must not cover."""

from __future__ import annotations

from dataclasses import replace

import gpusim_des as gs


def check_bounds(table: gs.Comparison, times: float = 3) -> None:
    """Where a difference is explained, one that takes the simulated figure `times` as far away is not."""
    for row in table.rows:
        if row.verdict == "explained":
            wrong = row.simulated * times if row.difference > 0 else row.simulated / times
            assert replace(row, simulated=wrong).verdict == "unexplained", row

"""What is estimated about a kernel of which only a sample of blocks was simulated, and how well."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

REASONS = {
    "spread": "blocks and waves differ",
    "trend": "waves were still changing where they were measured",
    "work": "blocks have more or less work than those that were simulated",
    "end": "blocks may be more or less in step at the end",
    "writes": "writes queue up",
    "caches": "caches hold something else than they would",
    "copies": "copies ran at the same time",
}
"""What a part of the bound is for."""

UNSURE = 0.1
"""Relative bound of the traffic from which on it is mentioned."""


@dataclass(frozen=True)
class SampledTime:
    """The sample behind a kernel's figures, and the bound of the error of its duration.

    The timeline shows the blocks that were simulated, one after another without the gaps between them, up to
    ``simulated_end_fs``. From there to the kernel's end nothing is recorded: that time is extrapolated.
    """

    blocks_simulated: int
    blocks_executed: int
    """Simulated ones and those that were only executed, to see how much work lies elsewhere."""
    blocks: int
    """Blocks of the grid."""
    simulated_end_fs: int
    bounds_fs: Mapping[str, int]
    """By reason (`REASONS`), how far the duration may be off, in femtoseconds; they add up."""
    count_bounds: Mapping[str, int] = field(default_factory=dict)
    """By name, how far the kernel's count of sectors or bytes may be off, either way: ``dram_bytes``, ``l2_sectors``, …

    Traffic depends on what caches hold, and only the blocks that are left out would show it: where the sample does not
    fill the L2, or blocks share more and more data, a bound may be as large as the count.
    """

    @property
    def bound_fs(self) -> int:
        """How far the duration may be off, either way, with a confidence of 95 %, in femtoseconds."""
        return sum(self.bounds_fs.values())

    def sentence(self, duration_fs: int, dram_bytes: int = 0) -> str:
        """Say what the figures of a kernel of this duration and with this much traffic are worth.

        >>> sampled = SampledTime(60, 70, 1000, 5, {"spread": 2, "end": 1})
        >>> sampled.sentence(100)
        'Estimated from 70 of 1,000 blocks: the time is good to ±3 % (95 %), mostly because blocks and waves differ.'
        >>> SampledTime(60, 70, 1000, 5, {"spread": 2}, {"dram_bytes": 30}).sentence(100, 60).partition(". ")[2]
        'What DRAM moves is good to ±50 %.'
        """
        if not self.bounds_fs:
            return f"Only {self.blocks_simulated:,} of {self.blocks:,} blocks were to be simulated."
        main = max(self.bounds_fs, key=lambda reason: self.bounds_fs[reason])
        share = 100 * self.bound_fs / duration_fs if duration_fs else 0.0
        off = self.count_bounds.get("dram_bytes", 0)
        traffic = (
            f" What DRAM moves is good to ±{100 * off / dram_bytes:.2g} %." if off > UNSURE * dram_bytes > 0 else ""
        )
        return (
            f"Estimated from {self.blocks_executed:,} of {self.blocks:,} blocks: the time is good to ±{share:.2g} % "
            f"(95 %), mostly because {REASONS[main]}.{traffic}"
        )

"""Counters of a sampled launch: what was counted, and what that lets expect of the whole grid."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from math import sqrt
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from gpusim_des.functional.counters import AccessCounts, AccessSite, Counters
from gpusim_des.functional.executed_blocks import ExecutedBlocks
from gpusim_des.functional.line_counts import LineCounts
from gpusim_des.line_site import LineSite
from gpusim_des.statistics import student
from gpusim_des.trace import Sample

Site = TypeVar("Site", AccessSite, LineSite)
Counts = TypeVar("Counts", AccessCounts, LineCounts)


@dataclass
class EstimatedCounters(Counters):
    """Counters of a launch of which only some blocks were executed; sums over the grid, but estimates.

    ``blocks``, ``threads`` and ``idle_lanes`` are exact, and so is ``shared_bytes_per_block``, unless blocks declare
    different arrays.
    """

    executed: Counters = field(default_factory=Counters)
    """What the executed blocks counted, exactly."""
    bounds: dict[str, float] = field(default_factory=dict, repr=False)
    """By name: how far the estimate may be off with a confidence of 95 %. Classes of ``instruction_mix`` by theirs."""

    def relative_error(self, name: str) -> float:
        """Bound of a counter's error over its estimate, confidence 95 %; `name` may be a class of instructions.

        Raises
        ------
        KeyError
            For a name that is neither.
        """
        if name not in self.bounds:
            known = ", ".join(sorted(self.bounds))
            raise KeyError(f"{name!r} is no counter and no class of instructions of this launch; there are {known}")
        value = self.instruction_mix[name] if name in self.instruction_mix else getattr(self, name)
        return self.bounds[name] / value if value else 0.0

    def summary(self) -> str:
        """Readable table of the estimates, each with the bound of its error."""
        head = f"estimated from {self.executed.blocks:,} of {self.blocks:,} blocks; ±: bound of the error, 95 %"
        rows = []
        for line in super().summary().splitlines():
            label = line[:27].strip()
            name = label.replace(" ", "_") if not line.startswith("  ") else label
            known = {"ideal_shared_wavefronts": "shared_ideal_wavefronts"}.get(name, name)
            exact = known in ("blocks", "threads", "shared_bytes_per_block")
            bound = "" if exact or known not in self.bounds else f"  ± {100 * self.relative_error(known):.2g} %"
            rows.append(line + bound)
        return "\n".join([head, *rows])


def estimate(
    executed: ExecutedBlocks, sample: Sample, groups: Sequence[Counters], fresh: Sequence[float], spread: float
) -> EstimatedCounters:
    """Estimate the counters of the whole grid.

    Parameters
    ----------
    executed
        All blocks that were executed.
    sample
        Which those were.
    groups
        What groups of scouts counted, drawn independently from what is left out.
    fresh
        Of several stretches of blocks, the share of sectors that no block before had touched.
    spread
        Relative deviation of the work of a block from that of its neighbours.
    """
    exact, config = executed.counters, executed.trace.config
    left_out = sample.blocks - sample.executed
    result = EstimatedCounters(executed=exact)

    def bound(whole: int, counts: Sequence[int]) -> float:
        return _bound(left_out, whole / exact.blocks, counts, groups, spread)

    for f in fields(Counters):
        mine = getattr(exact, f.name)
        theirs = [getattr(group, f.name) for group in groups]
        if f.name in ("blocks", "threads", "idle_lanes", "shared_bytes_per_block", "distinct_sectors"):
            continue
        if f.name == "instruction_mix":
            mix: Counter[str] = Counter()
            for label in mine:
                counts = [group[label] for group in theirs]
                mix[label] = mine[label] + sample.left_out_count(sum(counts))
                result.bounds[label] = bound(mine[label], counts)
            result.instruction_mix = mix
        elif f.name == "accesses":
            result.accesses = {site: _scaled(site, mine[site], theirs, sample) for site in mine}
        elif f.name == "lines":
            result.lines = {site: _scaled(site, mine[site], theirs, sample) for site in mine}
        elif f.name in ("patterns", "shared_arrays"):
            setattr(result, f.name, mine)  # what the executed blocks look like
        else:
            setattr(result, f.name, mine + sample.left_out_count(sum(theirs)))
            result.bounds[f.name] = bound(mine, theirs)
    result.warp_instructions = result.instruction_mix.total()
    result.blocks, result.threads = config.blocks, config.blocks * config.threads_per_block
    result.idle_lanes = exact.idle_lanes // exact.blocks * config.blocks
    result.shared_bytes_per_block = exact.shared_bytes_per_block
    result.bounds.update(dict.fromkeys(("blocks", "threads", "idle_lanes", "shared_bytes_per_block"), 0.0))
    _distinct(result, fresh)
    return result


def _bound(left_out: int, mean: float, counts: Sequence[int], groups: Sequence[Counters], spread: float) -> float:
    """Bound of the error of what was left out, of a counter with this mean over all executed blocks.

    Student's t over the means of the groups; but at least what the spread of blocks lets expect, unless all count the
    same: few scouts may have missed the blocks that count most. The blocks that are left out vary themselves: the fewer
    they are, the less their own mean need be that of all from which the scouts were drawn.
    """
    blocks: NDArray[np.float64] = np.array([float(group.blocks) for group in groups])
    means = np.array(counts) / blocks
    if np.allclose(means, mean, rtol=1e-9, atol=0):
        return 0.0
    wider = sqrt(1 + blocks.sum() / max(1, left_out))
    by_groups = student(len(means) - 1) * float(means.std(ddof=1)) / sqrt(len(means))
    by_blocks = student(MANY) * spread * max(mean, float(means.mean())) / sqrt(blocks.sum())
    return left_out * wider * max(by_groups, by_blocks)


def _scaled(site: Site, mine: Counts, theirs: Sequence[dict[Site, Counts]], sample: Sample) -> Counts:
    """Estimate the counts of one place in the source, number by number."""
    result = type(mine)()
    seen = [group[site] for group in theirs if site in group]
    for f in fields(mine):
        own = getattr(mine, f.name)
        if isinstance(own, Counter):
            more = {key: sample.left_out_count(sum(getattr(counts, f.name)[key] for counts in seen)) for key in own}
            setattr(result, f.name, own + Counter(more))
        else:
            setattr(result, f.name, own + sample.left_out_count(sum(getattr(counts, f.name) for counts in seen)))
    return result


MANY = 1_000
"""Degrees of freedom of a spread that is known from many blocks."""

STREAMS = 0.05
"""Shares of fresh sectors that differ by less than this are those of a kernel that touches new memory all the time."""


def _distinct(result: EstimatedCounters, fresh: Sequence[float]) -> None:
    """Estimate how many different sectors the whole grid touches, from how much that is new each stretch met."""
    exact = result.executed

    def asked(counters: Counters) -> int:
        return counters.global_load_sectors + counters.global_store_sectors + counters.global_atomic_sectors

    more = asked(result) - asked(exact)
    spread = max(fresh) - min(fresh)
    likely = sum(fresh[:-1]) / (len(fresh) - 1)
    least = max(0.0, min(fresh) - spread) if spread <= STREAMS * max(fresh) else 0.0
    result.distinct_sectors = exact.distinct_sectors + round(more * likely)
    uncertain = sum(result.bounds[f"global_{kind}_sectors"] for kind in ("load", "store", "atomic"))
    result.bounds["distinct_sectors"] = more * max(max(fresh) - likely, likely - least) + uncertain * max(fresh)

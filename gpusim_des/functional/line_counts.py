"""What a launch counted line by line, and what its accesses look like: the facts behind advice and the source view."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields

import numpy as np
from numpy.typing import NDArray


@dataclass
class LineCounts:
    """What the warps of a launch did on one line of the source; sums over the grid."""

    instructions: int = 0
    """Warp instructions."""
    active_lanes: int = 0
    """Active lanes summed over warp instructions."""
    thread_slots: int = 0
    """Threads of the warps that executed them, summed over warp instructions: what `active_lanes` could be."""
    branches: int = 0
    """Warps that met a branch here."""
    divergent_branches: int = 0
    """Warps whose lanes went both ways."""
    divergent_lanes: int = 0
    """Lanes of those warps that met the branch."""
    taken_lanes: int = 0
    """Lanes of those warps for which the condition held."""
    barriers: int = 0
    """Block-wide barriers, counted once per block."""
    lone_barriers: int = 0
    """Those before which one warp of the block had computed something, and the others only waited."""
    instruction_mix: Counter[str] = field(default_factory=Counter)
    """Warp instructions by operation class."""

    def add(self, other: LineCounts) -> None:
        """Add the counts of other blocks."""
        for f in fields(self):
            if f.name == "instruction_mix":
                self.instruction_mix.update(other.instruction_mix)
            else:
                setattr(self, f.name, getattr(self, f.name) + getattr(other, f.name))

    @property
    def lanes_per_instruction(self) -> float:
        """Active lanes of an instruction, mean, 0…32; 0 without instructions."""
        return self.active_lanes / self.instructions if self.instructions else 0.0


MOST_ELEMENTS = 1 << 16
"""Elements of an array up to which atomic operations are counted one by one: counters and histograms are small."""


@dataclass(eq=False)
class AccessPattern:
    """What the addresses of one access of the kernel look like, where that costs something."""

    strides: Counter[int | None] = field(default_factory=Counter)
    """Bytes from lane to lane → sectors or wavefronts beyond the ideal that accesses with this stride cost.

    The stride of an access is that of its worst warp; ``None``: no distance is more frequent than all others.
    """
    hits: NDArray[np.int64] | None = None
    """Atomic operations on every element; ``None`` for arrays of more than `MOST_ELEMENTS`."""

    @property
    def stride(self) -> int | None:
        """The stride that costs most; ``None`` where lanes lie at irregular distances, or all accesses are ideal."""
        return max(self.strides, key=lambda s: (self.strides[s], -abs(s or 0)), default=None)

    def __eq__(self, other: object) -> bool:
        """Compare what does not depend on which blocks were looked at together."""
        if not isinstance(other, AccessPattern):
            return NotImplemented
        mine, theirs = self.hits, other.hits
        same = mine is theirs or (mine is not None and theirs is not None and np.array_equal(mine, theirs))
        return same and self.strides.total() == other.strides.total()

    __hash__ = None  # type: ignore[assignment] # it changes

    def add(self, other: AccessPattern) -> None:
        """Add what other blocks did."""
        self.strides.update(other.strides)
        if other.hits is not None:
            self.hits = other.hits.copy() if self.hits is None else self.hits + other.hits


def lane_stride(addresses: NDArray[np.int64], active: NDArray[np.bool_] | None) -> int | None:
    """Distance of neighbouring active lanes of one warp, in bytes, that is more frequent than all others together.

    ``None`` if there is none.

    >>> lane_stride(np.array([0, 128, 256, 300]), None), lane_stride(np.array([0, 4, 8]), np.array([True, False, True]))
    (128, 8)
    >>> lane_stride(np.array([0, 4, 96]), None)
    """
    steps = np.diff(addresses if active is None else addresses[active])
    if not len(steps):
        return None
    values, counts = np.unique(steps, return_counts=True)
    most = int(np.argmax(counts))
    return int(values[most]) if 2 * counts[most] > len(steps) else None

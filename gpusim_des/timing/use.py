"""How busy the servers of the memory system were in a stretch of time (M10)."""

from __future__ import annotations

from typing import NamedTuple

SERVERS = "slices", "atomic_units", "channels"
"""Kinds of servers of the memory system, as `Use` names them."""


class Use(NamedTuple):
    """Busy times of the L2 slices, their atomic units and the HBM channels up to a moment, in femtoseconds."""

    time_fs: int
    slices: list[int]
    atomic_units: list[int]
    channels: list[int]

    def since(self, before: Use) -> Use:
        """Busy times in the stretch from an earlier moment to this one."""

        def difference(now: list[int], then: list[int]) -> list[int]:
            return [b - a for a, b in zip(then, now, strict=True)]

        return Use(
            self.time_fs - before.time_fs,
            difference(self.slices, before.slices),
            difference(self.atomic_units, before.atomic_units),
            difference(self.channels, before.channels),
        )

    def plus(self, more: Use, share: float = 1.0) -> Use:
        """Add a share of the busy times of another stretch."""

        def total(now: list[int], then: list[int]) -> list[int]:
            return [a + round(share * b) for a, b in zip(now, then, strict=True)]

        return Use(
            self.time_fs + round(share * more.time_fs),
            total(self.slices, more.slices),
            total(self.atomic_units, more.atomic_units),
            total(self.channels, more.channels),
        )

    def mean(self, busy: list[int]) -> float:
        """Busy share of the stretch, mean over the servers."""
        return sum(busy) / (len(busy) * self.time_fs) if busy and self.time_fs else 0.0

    def most(self, busy: list[int]) -> float:
        """Busy share of the server that was busy longest."""
        return max(busy) / self.time_fs if busy and self.time_fs else 0.0

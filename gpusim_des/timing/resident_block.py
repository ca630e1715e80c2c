"""A block on an SM, from dispatch to retirement (rule I1), with its barriers."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from gpusim_des.timeline import Cause
from gpusim_des.timing.warp import NEVER, Warp

if TYPE_CHECKING:
    from gpusim_des.timing.kernel_run import KernelRun


class ResidentBlock:
    """What the warps of a block share while it is resident."""

    __slots__ = (
        "at_barrier",
        "block",
        "copies_missing",
        "dispatched_fs",
        "last_arrival",
        "last_exit",
        "opened_by",
        "phase_ended_by",
        "phase_ends",
        "run",
        "slot",
        "staying",
        "warps",
    )

    def __init__(self, run: KernelRun, block: int, slot: int, dispatched_fs: int) -> None:
        self.run = run
        self.block = block
        self.slot = slot
        self.dispatched_fs = dispatched_fs
        self.warps: list[Warp] = []
        self.staying = 0
        """Warps that have not exited."""
        self.at_barrier: list[Warp] = []
        self.last_arrival = 0
        self.last_exit = 0
        self.opened_by: Cause | None = None
        """Arrival or exit that released the last barrier."""
        self.copies_missing: Counter[int] = Counter()
        """Bulk copies that have not ended, by their barrier's phase."""
        self.phase_ends: dict[int, int] = {}
        """Cycle at which the last copy of a phase so far was complete."""
        self.phase_ended_by: dict[int, tuple[int, int]] = {}
        """Warp and instruction that started it."""

    def phase_end(self, phase: int) -> int:
        """Cycle at which all copies of a barrier's phase are complete; `NEVER` while that is not known."""
        return NEVER if self.copies_missing[phase] else self.phase_ends.get(phase, 0)

    def end_phases(self, cycle: int) -> None:
        """Count copies that are under way as complete at `cycle`, where the simulation ends."""
        for phase in +self.copies_missing:
            self.phase_ends[phase] = cycle
        self.copies_missing.clear()

    def copy_complete(self, warp: Warp, index: int, cycle: int) -> list[Warp]:
        """Note the end of a bulk copy; returns the warps that may wait for it and can go on."""
        phase = warp.program.operands[index]
        self.copies_missing[phase] -= 1
        if cycle >= self.phase_ends.get(phase, 0):
            self.phase_ends[phase] = cycle
            self.phase_ended_by[phase] = warp.number, index
        return [] if self.copies_missing[phase] else [w for w in self.warps if w.blocked]

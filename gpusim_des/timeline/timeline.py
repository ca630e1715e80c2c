"""Contract 2, the timeline: everything that a simulation recorded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from gpusim_des.timeline.kernel import KernelTiming
from gpusim_des.timeline.records import BlockSpan, WarpHistory


@dataclass(frozen=True)
class Timeline:
    """Everything that a simulation recorded, in the order of time.

    ``blocks`` is empty with ``detail="kernel"``, ``warps`` unless ``detail="warp"``.
    """

    gpu_name: str
    sms: int
    sm_period_fs: int
    kernels: tuple[KernelTiming, ...] = ()
    blocks: tuple[BlockSpan, ...] = ()
    warps: tuple[WarpHistory, ...] = field(default=(), repr=False)
    complete: bool = True
    """False if the simulation was stopped: what was under way is recorded up to that moment."""

    @property
    def end_fs(self) -> int:
        """End of the last kernel."""
        return max((k.end_fs for k in self.kernels), default=0)

    def blocks_of(self, kernel: int) -> Iterator[BlockSpan]:
        """Spans of one kernel's blocks."""
        return (b for b in self.blocks if b.kernel == kernel)


class HasTimeline(Protocol):
    """Anything that carries a timeline: a simulation, a loaded result."""

    @property
    def timeline(self) -> Timeline:
        """The record of the run."""

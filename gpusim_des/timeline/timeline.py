"""Contract 2, the timeline: everything that a simulation recorded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from gpusim_des.timeline.kernel import KernelTiming
from gpusim_des.timeline.operations import HostSpan, Operation
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

    operations: tuple[Operation, ...] = ()
    """Kernels, copies and memsets in their streams, in the order of issue."""
    host: tuple[HostSpan, ...] = field(default=(), repr=False)
    """What the host thread did."""
    event_times: Mapping[int, int] = field(default_factory=dict, repr=False)
    """Number of an event's record → femtoseconds at which it happened."""

    stream_names: Mapping[int, str] = field(default_factory=dict, repr=False)
    """Number of a stream → its name."""

    def stream_name(self, number: int) -> str:
        """Name of a stream for rows and sentences, for example ``stream 1``, ``copies`` or ``default stream``."""
        name = self.stream_names.get(number, f"stream {number}" if number else "default")
        return "default stream" if name == "default" else name

    @property
    def end_fs(self) -> int:
        """End of the last kernel, copy, memset or call of the host."""
        ends = [k.end_fs for k in self.kernels] + [o.end_fs for o in self.operations] + [h.end_fs for h in self.host]
        return max(ends, default=0)

    @property
    def copies(self) -> tuple[Operation, ...]:
        """Copies between host and device and within the device, in the order of issue."""
        return tuple(o for o in self.operations if o.kind in ("h2d", "d2h", "d2d"))

    def blocks_of(self, kernel: int) -> Iterator[BlockSpan]:
        """Spans of one kernel's blocks."""
        return (b for b in self.blocks if b.kernel == kernel)


class HasTimeline(Protocol):
    """Anything that carries a timeline: a simulation, a loaded result."""

    @property
    def timeline(self) -> Timeline:
        """The record of the run."""

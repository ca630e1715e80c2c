"""Contract 2, the timeline: who did what when, and why everybody else waited.

The timing model writes these records through its probe; views, traces and tests read them. Times are integer
femtoseconds (rule T1) or SM clock cycles; the unit stands in every name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Protocol

FS_PER_S = 10**15
"""Femtoseconds in a second."""


class WarpState(IntEnum):
    """What a resident warp does in one cycle, in the priority order of rule I7.

    The names are Nsight Compute's suffixes (``smsp__average_warps_issue_stalled_<suffix>``).
    """

    SELECTED = 0
    """The scheduler issued an instruction of this warp."""
    BARRIER = 1
    """Waiting for other warps of the block at a barrier."""
    MEMBAR = 2
    """Waiting for a memory fence."""
    DRAIN = 3
    """All instructions issued; memory operations are still under way."""
    BRANCH_RESOLVING = 4
    """Waiting for a branch target."""
    LONG_SCOREBOARD = 5
    """Waiting for a global or local load."""
    SHORT_SCOREBOARD = 6
    """Waiting for shared memory, the special function unit or a shuffle."""
    WAIT = 7
    """Waiting for a dependency of fixed latency."""
    LG_THROTTLE = 8
    """The queue for global and local memory instructions is full."""
    MIO_THROTTLE = 9
    """The queue for shared memory instructions is full."""
    MATH_PIPE_THROTTLE = 10
    """The arithmetic pipe is busy with another warp."""
    NOT_SELECTED = 11
    """Eligible, but the scheduler issued another warp."""
    NO_INSTRUCTION = 12
    """The block is starting up."""

    @property
    def suffix(self) -> str:
        """Nsight Compute's suffix of the state, for example ``long_scoreboard``."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class BlockSpan:
    """One block on one SM, from dispatch to the moment its slot is free again (rule I1)."""

    kernel: int
    """Number of the kernel in the simulation."""
    block: int
    """Linear block number."""
    sm: int
    slot: int
    """Row of the block on its SM: the lowest one that was free."""
    start_fs: int
    end_fs: int


@dataclass(frozen=True, slots=True)
class StateSpan:
    """A warp in one state for some cycles, ``start_cycle`` included and ``end_cycle`` excluded."""

    state: WarpState
    start_cycle: int
    end_cycle: int


@dataclass(frozen=True, slots=True)
class IssueEvent:
    """One issued warp instruction."""

    cycle: int
    index: int
    """Number of the instruction in the warp's stream."""
    op: str
    """Operation class, for example ``fp32``."""
    complete_cycle: int
    """Cycle at which the result can be used."""
    line: int
    """Source line, 0 if unknown."""


@dataclass(frozen=True, slots=True)
class WarpHistory:
    """All states and instructions of one warp; recorded with ``detail="warp"``.

    The states tile the residency: each starts where the one before ends.
    """

    kernel: int
    block: int
    warp: int
    """Number of the warp in its block."""
    sm: int
    sub_partition: int
    start_cycle: int
    end_cycle: int
    states: tuple[StateSpan, ...]
    issues: tuple[IssueEvent, ...]


@dataclass(frozen=True)
class KernelTiming:
    """What the timing model found out about one kernel.

    ``stalls`` maps Nsight's suffix of every state (``selected``, ``long_scoreboard``, …) to warp-cycles; the values
    add up to ``resident_warp_cycles`` exactly (rule I7).
    """

    name: str
    start_fs: int
    end_fs: int
    cycles: int
    """SM clock cycles from start to end, rounded up."""
    blocks: int
    warps_per_block: int
    blocks_per_sm: int
    """Blocks that fit on one SM by the allocation rules."""
    sms: int
    warp_instructions: int
    resident_warp_cycles: int
    """Cycles of all warps from the edge after their block's dispatch to their exit (``sm__warps_active.sum``)."""
    sm_active_cycles: int
    """Cycles in which an SM had at least one resident warp, summed over the SMs (``sm__cycles_active.sum``)."""
    stalls: dict[str, int]
    achieved_occupancy: float
    """Resident warp-cycles over an SM's warp slots times ``sm_active_cycles``, 0…1.

    It is Nsight Compute's ``sm__warps_active.avg.pct_of_peak_sustained_active`` as a fraction: the mean share of warp
    slots in use while an SM had any work. SMs without work, and the cycles before and after it, do not count.
    """
    theoretical_occupancy: float
    """Warps that fit on an SM over its warp slots, 0…1."""
    occupancy_limiter: str
    dram_bytes: int
    """Bytes that HBM moved, reads and writes, in whole granules."""
    dram_read_bytes: int
    dram_write_bytes: int
    l1_sectors: int | None = None
    """Sectors that loads asked the L1 for; ``None``: not modelled in this run (caches off)."""
    l1_hit_sectors: int | None = None
    """Of those, the ones that were there or on their way."""
    l2_sectors: int | None = None
    """Sectors that loads and atomics asked the L2 for."""
    l2_hit_sectors: int | None = None
    instructions: dict[str, int] = field(default_factory=dict)
    """Issued warp instructions by class, for example ``fp32``; classes without any are left out."""
    thread_instructions: int = 0
    """Active lanes of all issued instructions."""
    pipe_utilization: dict[str, float] = field(default_factory=dict)
    """Share of the active cycles in which a pipe of the class was busy, 0…1, by class; idle pipes are left out."""
    load_store_utilization: float = 0.0
    """Share of the active cycles in which the SMs' load/store units were busy, 0…1."""
    shared_utilization: float = 0.0
    """The part of it that shared memory and shuffles took."""
    l2_utilization: float | None = None
    """Share of the duration in which the L2 slices were busy, mean over the slices, 0…1."""
    dram_utilization: float = 0.0
    """Share of the duration in which the DRAM channels were busy, mean over the channels, 0…1."""
    busiest_channel: float = 0.0
    """The same of the channel that was busy longest: far above the mean, the kernel camps on few channels."""
    busiest_atomic_unit: float = 0.0
    """Share of the duration in which the slice with most atomic operations was busy with them, 0…1."""
    dram_peak_bytes_per_s: int = 0
    """Data sheet bandwidth of the GPU."""
    sub_partitions: int = 1
    """Warp schedulers of an SM."""
    complete: bool = True
    """False if the simulation was stopped before the kernel ended."""
    assumptions: tuple[str, ...] = ()
    """What was assumed because the launch did not say it."""

    @property
    def start_s(self) -> float:
        """Start in seconds."""
        return self.start_fs / FS_PER_S

    @property
    def end_s(self) -> float:
        """End in seconds."""
        return self.end_fs / FS_PER_S

    @property
    def seconds(self) -> float:
        """Duration in seconds."""
        return (self.end_fs - self.start_fs) / FS_PER_S

    @property
    def dram_bytes_per_second(self) -> float:
        """Mean DRAM throughput over the kernel, bytes per second."""
        return self.dram_bytes / self.seconds if self.end_fs > self.start_fs else 0.0

    @property
    def l1_hit_rate(self) -> float | None:
        """Sectors that loads found in the L1, 0…1; ``None`` where it is not modelled or nothing was loaded."""
        return self.l1_hit_sectors / self.l1_sectors if self.l1_sectors and self.l1_hit_sectors is not None else None

    @property
    def l2_hit_rate(self) -> float | None:
        """Sectors that loads and atomics found in the L2, 0…1; ``None`` where not modelled or nothing was asked for."""
        return self.l2_hit_sectors / self.l2_sectors if self.l2_sectors and self.l2_hit_sectors is not None else None

    @property
    def waves(self) -> float:
        """Blocks over the blocks that the GPU holds at a time."""
        return self.blocks / (self.blocks_per_sm * self.sms)

    @property
    def eligible_warps_per_scheduler(self) -> float:
        """Warps that could have issued, mean over the schedulers and their active cycles: selected and not selected."""
        cycles = self.sm_active_cycles * self.sub_partitions
        return (self.stalls["selected"] + self.stalls["not_selected"]) / cycles if cycles else 0.0

    @property
    def issue_slot_utilization(self) -> float:
        """Share of the schedulers' active cycles in which one issued, 0…1."""
        cycles = self.sm_active_cycles * self.sub_partitions
        return self.warp_instructions / cycles if cycles else 0.0

    @property
    def main_stall(self) -> str:
        """The state, ``selected`` aside, in which warps spent most cycles; ``none`` if they never waited."""
        waits = {k: v for k, v in self.stalls.items() if k != WarpState.SELECTED.suffix and v > 0}
        return max(waits, key=lambda k: waits[k]) if waits else "none"


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

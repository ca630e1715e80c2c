"""What the timing model found out about one kernel."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpusim_des.line_site import LineSite
from gpusim_des.timeline.explain import explain
from gpusim_des.timeline.metrics import Metric, metrics
from gpusim_des.timeline.sampled import SampledTime
from gpusim_des.timeline.states import WarpState

FS_PER_S = 10**15
"""Femtoseconds in a second."""


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
    stored_sectors: int = 0
    """Sectors of all stores, and of atomics whose result nobody reads."""
    ideal_load_sectors: int = 0
    """Sectors that all loads would touch if the lanes of each were neighbours; 0 where the trace does not say."""
    ideal_store_sectors: int = 0
    """The same for stores."""
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
    wavefronts_per_instruction: dict[str, float] = field(default_factory=dict)
    """Cycles in the load/store unit of a memory instruction, mean, by class: the passes of a shared one."""
    dispatch_utilization: float = 0.0
    """Share of the duration in which the block scheduler waited out its interval between two placements, 0…1."""
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
    """False if the simulation was stopped before the kernel ended.

    What counts work that units had accepted by then (sectors, instructions) is whole; shares of time are at most 1, and
    DRAM bytes at most what its channels had time to move.
    """
    assumptions: tuple[str, ...] = ()
    """What was assumed because the launch did not say it."""
    line_stalls: dict[LineSite, dict[str, int]] = field(default_factory=dict, repr=False)
    """File and line → Nsight's suffix of a state → warp-cycles in which a warp was in that state before it issued an
    instruction of the line; after its last one, of that one's line. Line 0: no line. They add up to ``stalls``.
    """
    number: int = field(default=0, compare=False)
    """Number of the kernel in the order of the launches; where the simulation was stopped, some may be missing."""
    sampled: SampledTime | None = None
    """The sample of blocks that was simulated, where it was not all of them: then the figures are estimates."""
    grid: tuple[int, int, int] | None = None
    """Blocks in x, y and z; ``None``: not known, in a file of an earlier version."""
    block: tuple[int, int, int] | None = None
    """Threads of a block in x, y and z; ``None`` as above."""

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
    def relative_error(self) -> float:
        """Bound of the error of the duration over the duration, confidence 95 %; 0 where all blocks were simulated."""
        if self.sampled is None or self.end_fs == self.start_fs:
            return 0.0
        return self.sampled.bound_fs / (self.end_fs - self.start_fs)

    def relative_error_of(self, name: str) -> float:
        """Bound of the error of a count of sectors or bytes over the count, confidence 95 %; `name` as in the record.

        0 where all blocks were simulated.

        Raises
        ------
        KeyError
            For what has no bound.
        """
        if self.sampled is None:
            return 0.0
        bounds = self.sampled.count_bounds
        if name not in bounds:
            raise KeyError(
                f"{name!r} has no bound in this sampled kernel; there are {', '.join(sorted(bounds)) or 'none'}"
            )
        value = getattr(self, name)
        return bounds[name] / value if value else float("inf") if bounds[name] else 0.0

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

    def metrics(self) -> dict[str, Metric]:
        """Return the kernel's figures under Nsight Compute's names; see `gpusim_des.timeline.metrics`."""
        return metrics(self)

    def explain(self) -> str:
        """Say in three sentences what limits the kernel, whether its main stall is hidden, and what to try next."""
        return explain(self)

    @property
    def active_share(self) -> float:
        """Share of the SMs' cycles, over the whole duration, in which an SM had work, 0…1."""
        return self.sm_active_cycles / (self.sms * self.cycles) if self.cycles else 0.0

    @property
    def main_stall(self) -> str:
        """The state, ``selected`` aside, in which warps spent most cycles; ``none`` if they never waited."""
        waits = {k: v for k, v in self.stalls.items() if k != WarpState.SELECTED.suffix and v > 0}
        return max(waits, key=lambda k: waits[k]) if waits else "none"

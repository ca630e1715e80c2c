"""Where the time of a launch is likely to go, from counters alone: the basis of the shares of advice."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpusim_des.functional.counters import AccessSite, Counters
from gpusim_des.gpu import GPU, PIPE_FRACTION
from gpusim_des.trace import SECTOR_BYTES


@dataclass(frozen=True)
class Cost:
    """SM clock cycles that each part of the GPU needs for a launch, all SMs at work at once.

    Shares of advice are cycles over the sum of all parts, as if no two of them worked at the same time: an estimate
    for comparing mistakes, not a prediction. Where a part hides another, what is hidden costs less than its share.
    """

    gpu: GPU
    sms: int
    """SMs that have a block at all."""
    compute: float
    """Issue slots, or the busiest pipe."""
    load_store: float
    """Wavefronts in the load/store units."""
    l2: float
    """Sectors between the SMs and the L2."""
    dram: float
    """Different sectors, once each."""
    sectors_once: float
    """All sectors, if DRAM moved each of them."""
    atomics: float
    """Atomic operations on the busiest address of global memory, one after the other."""
    blocks: float
    """Starting and ending blocks."""

    @classmethod
    def of(cls, counters: Counters, gpu: GPU, blocks: int, wave: int) -> Cost:
        """Count the cycles; `wave` is the number of blocks that the GPU holds at a time."""
        sms = max(1, min(gpu.sms, blocks))
        issue = counters.warp_instructions / gpu.sub_partitions
        pipes = [pipe_cycles(gpu, label, count) for label, count in counters.instruction_mix.items()]
        sectors = counters.global_load_sectors + counters.global_store_sectors + counters.global_atomic_sectors
        dram_rate = gpu.dram_bandwidth_bytes_per_s * float(gpu.dram_efficiency_read) / gpu.sm_clock_hz
        return cls(
            gpu,
            sms,
            compute=max(issue, *pipes, 0.0) / sms,
            load_store=sum(counts.wavefronts for counts in counters.accesses.values()) / sms,
            l2=sectors * l2_cycles(gpu),
            dram=counters.distinct_sectors * SECTOR_BYTES / dram_rate,
            sectors_once=sectors * SECTOR_BYTES / dram_rate,
            atomics=_serial_of_arrays(counters, gpu),
            blocks=blocks / max(1, wave) * (gpu.block_start_cycles + gpu.block_end_cycles),
        )

    @property
    def memory(self) -> float:
        """The slower of L2 and DRAM."""
        return max(self.l2, self.dram)

    @property
    def total(self) -> float:
        """All parts together."""
        return self.compute + self.load_store + self.memory + self.atomics + self.blocks

    def share(self, cycles: float) -> float:
        """Share of the time, 0…1."""
        return max(0.0, min(1.0, cycles / self.total)) if self.total else 0.0

    def instructions(self, count: float) -> float:
        """Cycles in which all SMs issue so many warp instructions."""
        return count / (self.gpu.sub_partitions * self.sms)

    def wavefronts(self, count: float) -> float:
        """Cycles in which all load/store units serve so many wavefronts."""
        return count / self.sms

    def without_sectors(self, count: float) -> float:
        """Cycles that the memory would save if so many sectors were not asked for.

        DRAM saves what would then be more different sectors than sectors in all.
        """
        left = 1 - count * l2_cycles(self.gpu) / self.l2 if self.l2 else 1.0
        return self.memory - max(left * self.l2, min(self.dram, left * self.sectors_once))


def pipe_cycles(gpu: GPU, label: str, count: int) -> float:
    """Cycles in which the pipes of one SM serve so many instructions of a class; 0 for classes without a pipe."""
    pipe = next((pipe for pipe in gpu.pipes if pipe.name == label), None)
    if pipe is None:
        return 0.0
    return count * pipe.sustained_interval / PIPE_FRACTION / (1 if pipe.shared_by_sm else gpu.sub_partitions)


def l2_cycles(gpu: GPU) -> float:
    """Cycles for a sector between all SMs and the L2."""
    return SECTOR_BYTES * gpu.sm_clock_hz / gpu.l2_bandwidth_bytes_per_s


def _serial_of_arrays(counters: Counters, gpu: GPU) -> float:
    """Cycles in which operations follow each other on the busiest address of global memory, from whatever line."""
    hits: dict[str, NDArray[np.int64]] = {}
    other = 0.0
    for site in counters.accesses:
        if (site.memory, site.operation) == ("global", "atomic"):
            pattern = counters.patterns.get(site)
            if pattern is not None and pattern.hits is not None:
                hits[site.array] = hits.get(site.array, 0) + pattern.hits
            else:
                other = max(other, serial_cycles(counters, site, gpu))
    busiest = max((int(array.max()) for array in hits.values()), default=0)
    return max(other, float(busiest * gpu.atomic_interval_cycles))


def serial_cycles(counters: Counters, site: AccessSite, gpu: GPU) -> float:
    """Cycles in which operations of one global atomic follow each other on its busiest address (M7)."""
    pattern = counters.patterns.get(site)
    if pattern is not None and pattern.hits is not None:
        busiest = int(np.max(pattern.hits))
    else:  # an array of many elements: at least as long as one request takes
        counts = counters.accesses[site]
        busiest = -(-counts.serial_passes // max(1, counts.requests))
    return float(busiest * gpu.atomic_interval_cycles)

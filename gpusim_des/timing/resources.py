"""Rules I1 and I2: what the resident blocks of an SM hold of it, whichever kernels they belong to."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import NamedTuple

from gpusim_des.gpu import GPU, Occupancy


class Demand(NamedTuple):
    """What one block takes of an SM."""

    warps: int
    registers_per_warp: int
    shared_bytes: int

    @classmethod
    def of(cls, warps: int, occupancy: Occupancy) -> Demand:
        """Read it from the allocation rules."""
        return cls(warps, occupancy.allocated_registers_per_block // warps, occupancy.allocated_shared_bytes_per_block)


class SmResources:
    """Block slots, warp slots, registers and shared memory; a warp's registers lie in its sub-partition."""

    __slots__ = ("_registers", "_shared", "_slots", "_warp_slots", "warps")

    def __init__(self, gpu: GPU) -> None:
        parts = gpu.sub_partitions
        self._slots = list(range(gpu.max_blocks_per_sm))
        self._shared = gpu.shared_bytes_per_sm
        self._warp_slots = min(gpu.max_warps_per_sm, gpu.max_threads_per_sm // gpu.warp_size)
        self._registers = [gpu.registers_per_sm // parts] * parts
        self.warps = [0] * parts
        """Resident warps of every sub-partition, exited ones included."""

    def fits(self, demand: Demand) -> bool:
        """Tell whether one more block has room."""
        if not self._slots or demand.shared_bytes > self._shared or demand.warps > self._warp_slots:
            return False
        if not demand.registers_per_warp:
            return True
        return sum(free // demand.registers_per_warp for free in self._registers) >= demand.warps

    def place(self, demand: Demand) -> tuple[int, list[int]]:
        """Take what a block needs; returns its slot, the lowest that is free, and the sub-partition of every warp.

        A warp goes to the sub-partition with the fewest resident warps that has registers for it, lowest number first.
        """
        self._shared -= demand.shared_bytes
        self._warp_slots -= demand.warps
        parts = []
        for _ in range(demand.warps):
            part = min(
                (p for p, free in enumerate(self._registers) if free >= demand.registers_per_warp),
                key=self.warps.__getitem__,
            )
            self._registers[part] -= demand.registers_per_warp
            self.warps[part] += 1
            parts.append(part)
        return heappop(self._slots), parts

    def give_back(self, demand: Demand, slot: int, parts: list[int]) -> None:
        """Take back what a block had."""
        heappush(self._slots, slot)
        self._shared += demand.shared_bytes
        self._warp_slots += demand.warps
        for part in parts:
            self._registers[part] += demand.registers_per_warp
            self.warps[part] -= 1

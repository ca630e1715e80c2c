"""Rules M5, M7 and M9: a slice of the L2 in front of its HBM channel; and the channel alone, with caches off."""

from __future__ import annotations

from typing import Protocol

from gpusim_des.gpu import GPU
from gpusim_des.timing.address_hash import Packet
from gpusim_des.timing.cache import SECTORS_IN, WHOLE_LINE, Line, SectoredCache
from gpusim_des.timing.hbm import Channel
from gpusim_des.timing.server import FifoServer


class Traffic(Protocol):
    """Where a slice counts what a kernel caused."""

    read_granules: int
    write_granules: int
    l2_sectors: int
    l2_hit_sectors: int


class HomeSlice(Protocol):
    """Where the requests for some addresses arrive; all times are femtoseconds."""

    channel: Channel
    server: FifoServer
    atomic_unit: FifoServer

    def read(self, arrival_fs: int, packet: Packet, partition: int, traffic: Traffic) -> int:
        """Accept a read that arrives now; returns when its last sector leaves."""

    def write(self, arrival_fs: int, packet: Packet, partition: int, traffic: Traffic) -> int:
        """Accept a write that arrives now; returns when it has been accepted."""

    def fetch(self, arrival_fs: int, packet: Packet, partition: int, traffic: Traffic) -> int:
        """Accept atomic operations that arrive now; returns when what they change is there."""

    def perform(self, ready_fs: int, packet: Packet) -> int:
        """Do atomic operations that are ready now; returns when the last one is done."""


class BareChannel:
    """With caches off: every sector goes to the channel, whatever was there before (M9)."""

    def __init__(self, gpu: GPU, *, history: bool = False) -> None:
        self.channel = Channel(gpu, history=history)
        self.server = FifoServer()
        self.atomic_unit = FifoServer(history=history)
        self._atomic_fs = gpu.atomic_interval_cycles * gpu.sm_period_fs

    def read(self, arrival_fs: int, packet: Packet, _partition: int, traffic: Traffic) -> int:
        """Read the packet's granules."""
        traffic.read_granules += packet.granules
        return self.channel.read(arrival_fs, packet.granules)

    def write(self, arrival_fs: int, packet: Packet, _partition: int, traffic: Traffic) -> int:
        """Write the packet's granules."""
        traffic.write_granules += packet.granules
        return self.channel.write(arrival_fs, packet.granules)

    def fetch(self, arrival_fs: int, packet: Packet, partition: int, traffic: Traffic) -> int:
        """Read the granules that atomic operations change, and have them written."""
        there = self.read(arrival_fs, packet, partition, traffic)
        self.write(arrival_fs, packet, partition, traffic)
        return there

    def perform(self, ready_fs: int, packet: Packet) -> int:
        """Do the operations one by one."""
        return self.atomic_unit.serve(ready_fs, packet.passes * self._atomic_fs)


class Slice:
    """The L2 slice of one HBM channel: sectored, write-back, least recently used line out first (M5).

    On a chip with two partitions, each partition keeps near copies of lines that its SMs asked for, half as many lines
    as the slice has; what is not near is found at home, farther away, or in DRAM.
    """

    def __init__(self, gpu: GPU, *, history: bool = False) -> None:
        self.channel = Channel(gpu, history=history)
        self.server = FifoServer(history=history)
        self.atomic_unit = FifoServer(history=history)
        self.home = SectoredCache(gpu.l2_slice_lines)
        halves = gpu.l2_partitions if gpu.l2_partitions > 1 else 0
        self.near = [SectoredCache(max(1, gpu.l2_slice_lines // 2)) for _ in range(halves)]
        self._sector_fs = gpu.l2_sector_fs
        self._write_fs = gpu.l2_sector_fs * gpu.l2_write_services
        self._part_fs = gpu.l2_sector_fs * gpu.l2_partial_write_services - self._write_fs
        self._atomic_fs = gpu.atomic_interval_cycles * gpu.sm_period_fs
        self._far_fs = gpu.l2_far_extra_fs
        self._to_dram_fs = gpu.dram_extra_fs // 2
        self._from_dram_fs = gpu.dram_extra_fs - self._to_dram_fs
        # By mask of missing sectors: what DRAM must move, and which sectors come with it (M6).
        pair = gpu.dram_granule_bytes == 64
        self._fetched = tuple(_paired(mask) if pair else mask for mask in range(WHOLE_LINE + 1))
        self._granules = tuple(SECTORS_IN[m] // (2 if pair else 1) for m in self._fetched)

    def read(self, arrival_fs: int, packet: Packet, partition: int, traffic: Traffic) -> int:
        """Find the packet's sectors near, at home, or in DRAM."""
        leaves = self.server.serve(arrival_fs, packet.sectors * self._sector_fs)
        traffic.l2_sectors += packet.sectors
        ready = leaves
        for number, mask in packet.lines:
            if self.near:
                there = self._read_near(self.near[partition], number, mask, leaves, traffic)
            else:
                there = self._read_home(number, mask, leaves, traffic)
            ready = max(ready, there)
        return ready

    def _read_near(self, near: SectoredCache, number: int, mask: int, leaves: int, traffic: Traffic) -> int:
        """Time at which the sectors are there, asked for at `leaves`; what is not near is fetched from home."""
        line = near.touch(number)
        if line is None:
            line, _ = near.insert(number)
        missing = mask & ~line.valid
        ready = _arrived(line, mask, leaves)
        traffic.l2_hit_sectors += SECTORS_IN[mask ^ missing]
        if missing:
            hits = traffic.l2_hit_sectors
            there = self._read_home(number, missing, leaves, traffic)
            if traffic.l2_hit_sectors > hits:  # found at home, which is farther away; DRAM's latency is from anywhere
                there = max(there, leaves + self._far_fs)
            line.valid |= missing
            if there > leaves:
                line.fills = [*(line.fills or ()), (missing, there)]
            ready = max(ready, there)
        return ready

    def _read_home(self, number: int, mask: int, leaves: int, traffic: Traffic) -> int:
        line = self.home.touch(number)
        if line is None:
            line = self._allocate(number, leaves, traffic)
        missing = mask & ~line.valid
        ready = _arrived(line, mask, leaves) if line.fills else leaves
        traffic.l2_hit_sectors += SECTORS_IN[mask ^ missing]
        if missing:
            ready = max(ready, self._fetch(line, missing, leaves, traffic))
        return ready

    def _fetch(self, line: Line, missing: int, leaves: int, traffic: Traffic) -> int:
        """Read missing sectors from DRAM; returns when they are in the slice."""
        fetched = self._fetched[missing] & ~line.valid
        granules = self._granules[missing]
        traffic.read_granules += granules
        there = self.channel.fetch(leaves + self._to_dram_fs, granules) + self._from_dram_fs
        line.valid |= fetched
        line.fills = [*(line.fills or ()), (fetched, there)]
        return there

    def _allocate(self, number: int, leaves: int, traffic: Traffic) -> Line:
        line, victim = self.home.insert(number)
        if victim is not None:
            old, left = victim
            for near in self.near:
                near.drop(old)
            if left.dirty:
                granules = self._granules[left.dirty]
                traffic.write_granules += granules
                self.channel.write(leaves + self._to_dram_fs, granules)
        return line

    def write(self, arrival_fs: int, packet: Packet, partition: int, traffic: Traffic) -> int:
        """Keep the packet's sectors as dirty ones; a write that drives out dirty sectors waits until DRAM has them."""
        parts = packet.passes - packet.sectors
        leaves = self.server.serve(arrival_fs, packet.sectors * self._write_fs + parts * self._part_fs)
        accepted = leaves
        for number, mask in packet.lines:
            line = self.home.touch(number)
            if line is None:
                written = traffic.write_granules
                line = self._allocate(number, leaves, traffic)
                if traffic.write_granules != written:
                    accepted = max(accepted, self.channel.free)
            line.valid |= mask
            line.dirty |= mask
            self._pass_halves(number, mask, partition)
        return accepted

    def fetch(self, arrival_fs: int, packet: Packet, partition: int, traffic: Traffic) -> int:
        """Fetch what atomic operations change; returns when it is in the slice."""
        leaves = self.server.serve(arrival_fs, packet.sectors * self._sector_fs)
        traffic.l2_sectors += packet.sectors
        ready = leaves
        for number, mask in packet.lines:
            ready = max(ready, self._read_home(number, mask, leaves, traffic))
            line = self.home.peek(number)
            assert line is not None
            line.dirty |= mask
            self._pass_halves(number, mask, partition)
        return ready

    def perform(self, ready_fs: int, packet: Packet) -> int:
        """Do the operations one by one."""
        return self.atomic_unit.serve(ready_fs, packet.passes * self._atomic_fs)

    def _pass_halves(self, number: int, mask: int, partition: int) -> None:
        """Leave a copy of what was written near the writer; copies near the other partition are out of date."""
        for half, near in enumerate(self.near):
            if half != partition:
                near.drop(number, mask)
                continue
            line = near.touch(number)
            if line is None:
                line, _ = near.insert(number)
            line.valid |= mask


def _paired(mask: int) -> int:
    """Add the other half of every 64-byte granule that a mask touches.

    >>> [bin(_paired(mask)) for mask in (0b0001, 0b0110, 0b1000)]
    ['0b11', '0b1111', '0b1100']
    """
    return mask | (mask & 0b0101) << 1 | (mask & 0b1010) >> 1


def _arrived(line: Line, mask: int, now: int) -> int:
    """Time at which the sectors of `mask` that are on their way have arrived, at least `now`."""
    if not line.fills:
        return now
    latest = now
    still: list[tuple[int, object]] = []
    for sectors, time_fs in line.fills:
        assert isinstance(time_fs, int)
        if time_fs > now:
            still.append((sectors, time_fs))
            if sectors & mask and time_fs > latest:
                latest = time_fs
    line.fills = still
    return latest

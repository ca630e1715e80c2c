"""Rules H3 and M11: what copies and memsets do to the L2 and to HBM."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from simpy import Event

from gpusim_des import units
from gpusim_des.gpu import GPU
from gpusim_des.timing.address_hash import Packet, channels_of
from gpusim_des.timing.cache import SECTORS_PER_LINE, WHOLE_LINE
from gpusim_des.timing.memory_path import MemoryPath
from gpusim_des.timing.order import Environment
from gpusim_des.trace import LINE_BYTES

CHUNKS = 64
"""Most pieces in which a copy's traffic is dealt out over its time: enough to interleave with a kernel's."""

SMALLEST_CHUNK = 16 * 1024
"""Bytes of a piece at least."""


class DmaTraffic:
    """What one copy or memset caused: DRAM granules, written dirty lines that it drove out of the L2 included."""

    def __init__(self) -> None:
        self.read_granules = 0
        self.write_granules = 0
        self.l2_sectors = 0
        self.l2_hit_sectors = 0


class DmaPort(Protocol):
    """The way of copies into slices and channels, past the SMs' ports."""

    caches: bool

    def lines(
        self, now_fs: int, lines: NDArray[np.int64], channels: NDArray[np.int64], count: DmaTraffic, *, writes: bool
    ) -> None:
        """Read or write whole lines in the slices of their channels."""

    def granules(self, now_fs: int, channel: int, granules: int, *, writes: bool) -> int:
        """Read or write granules of a channel; returns when the last one is through, in femtoseconds."""


class SlicePort:
    """Copies' way into the slices of the SimPy engine."""

    def __init__(self, memory: MemoryPath) -> None:
        self.caches = memory.caches
        self._slices = memory.slices

    def lines(
        self, now_fs: int, lines: NDArray[np.int64], channels: NDArray[np.int64], count: DmaTraffic, *, writes: bool
    ) -> None:
        """Read or write whole lines in the slices of their channels."""
        for line, channel in zip(lines.tolist(), channels.tolist(), strict=True):
            packet = Packet(channel, SECTORS_PER_LINE, SECTORS_PER_LINE, ((line, WHOLE_LINE),), SECTORS_PER_LINE)
            if writes:
                self._slices[channel].write(now_fs, packet, 0, count)
            else:
                self._slices[channel].read(now_fs, packet, 0, count)

    def granules(self, now_fs: int, channel: int, granules: int, *, writes: bool) -> int:
        """Read or write granules of a channel; returns when the last one is through, in femtoseconds."""
        server = self._slices[channel].channel
        return server.write(now_fs, granules) if writes else server.read(now_fs, granules)


class MemoryTraffic:
    """Moves whole lines between the copy engines, the L2 and HBM.

    The end of a range, as much as the L2 holds, goes through the slices line by line, so that it is found there
    afterwards; what comes before would be driven out by it and goes to the channels directly.
    """

    def __init__(self, env: Environment, gpu: GPU, port: DmaPort) -> None:
        self._env = env
        self._gpu = gpu
        self._port = port

    def stream(
        self, address: int, nbytes: int, duration_fs: int, delay_fs: int, count: DmaTraffic, *, writes: bool
    ) -> Generator[Event, Any, None]:
        """Process of the traffic of a copy over the link, spread evenly over `duration_fs` after a delay."""
        chunks = max(1, min(CHUNKS, nbytes // SMALLEST_CHUNK))
        begin = self._env.now + delay_fs
        for chunk in range(chunks):
            due = begin + duration_fs * chunk // chunks
            if due > self._env.now:
                yield self._env.timeout(due - self._env.now)
            first, last = (address + nbytes * part // chunks for part in (chunk, chunk + 1))
            kept = address + nbytes - self._gpu.l2_bytes
            self._move(first, last, count, through_l2=self._port.caches and last > kept, writes=writes)

    def fill(self, address: int, nbytes: int, count: DmaTraffic, *, reads: bool) -> Generator[Event, Any, None]:
        """Process of a memset, or of a copy within the device, at the speed of HBM; ends with its last granule."""
        rate = self._gpu.dram_bandwidth_bytes_per_s * self._gpu.efficiency("mixed" if reads else "write")
        moved = 2 * nbytes if reads else nbytes
        duration = round(moved * units.FS_PER_S / rate)
        chunks = max(1, min(CHUNKS, nbytes // SMALLEST_CHUNK))
        begin, end = self._env.now, self._env.now
        for chunk in range(chunks):
            due = begin + duration * chunk // chunks
            if due > self._env.now:
                yield self._env.timeout(due - self._env.now)
            first, last = (address + nbytes * part // chunks for part in (chunk, chunk + 1))
            if reads:
                end = max(end, self._direct(first, last, count, writes=False))
            end = max(end, self._direct(first, last, count, writes=True))
        latency = self._gpu.dram_latency_cycles * self._gpu.sm_period_fs
        yield self._env.timeout(max(begin + duration, end) + latency - self._env.now)

    def _move(self, first: int, last: int, count: DmaTraffic, *, through_l2: bool, writes: bool) -> None:
        if not through_l2:
            self._direct(first, last, count, writes=writes)
            return
        lines = np.arange(first // LINE_BYTES, -(-last // LINE_BYTES))
        channels = channels_of(lines * SECTORS_PER_LINE, self._gpu)
        self._port.lines(self._env.now, lines, channels, count, writes=writes)

    def _direct(self, first: int, last: int, count: DmaTraffic, *, writes: bool) -> int:
        """Deal the granules of a range out to the channels in turn; returns when the last one is through."""
        granules = -(-(last - first) // self._gpu.dram_granule_bytes)
        if writes:
            count.write_granules += granules
        else:
            count.read_granules += granules
        each, more = divmod(granules, self._gpu.dram_channels)
        end = now = self._env.now
        start = first // self._gpu.channel_interleave_bytes
        for turn in range(self._gpu.dram_channels):
            share = each + (turn < more)
            if share:
                channel = (start + turn) % self._gpu.dram_channels
                end = max(end, self._port.granules(now, channel, share, writes=writes))
        return end

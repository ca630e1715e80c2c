"""Rules M1, M3 and I4: the load/store unit of an SM, its queues, and the SM's port to memory."""

from __future__ import annotations

from collections import deque

from gpusim_des.gpu import GPU
from gpusim_des.timing.pipe import Unit
from gpusim_des.timing.server import FifoServer
from gpusim_des.trace import SECTOR_BYTES

FAR = 1 << 60
"""A cycle that never comes: when an entry leaves whose turn is not known yet."""


class LoadStoreQueue(Unit):
    """Memory instructions that a sub-partition has issued and the load/store unit has not finished (I4)."""

    __slots__ = ("_depth", "_leaving")

    def __init__(self, depth: int, *, keep_log: bool) -> None:
        super().__init__(1, keep_log=keep_log)
        self._depth = depth
        self._leaving: deque[int] = deque()

    def enter(self, cycle: int, leaves: int) -> None:
        """Let an instruction in that leaves at cycle `leaves`; entries leave in the order in which they came."""
        queue = self._leaving
        while queue and queue[0] <= cycle:
            queue.popleft()
        queue.append(leaves)
        room = queue[0] if len(queue) >= self._depth else cycle + 1
        self.occupy(cycle, max(room, cycle + 1), 0)

    def settle(self, leaves: int) -> bool:
        """Find out when the oldest entry leaves that did not know; returns whether that made room for others."""
        queue = self._leaving
        queue[queue.index(FAR)] = leaves
        if self.free != FAR or queue[0] == FAR:
            return False
        self.end_occupation(queue[0])
        return True


class Port:
    """The SM's way to memory and back: two FIFOs with a width each (M3)."""

    def __init__(self, gpu: GPU, *, history: bool = False) -> None:
        self.out = FifoServer(history=history)
        self.back = FifoServer(history=history)
        self._request_fs = gpu.port_out_fs(gpu.request_bytes)
        self._sector_out_fs = gpu.port_out_fs(SECTOR_BYTES)
        self._sector_back_fs = gpu.port_in_fs(SECTOR_BYTES)

    def send_load(self, time_fs: int) -> int:
        """Send a request for sectors; returns when it has left the SM."""
        return self.out.serve(time_fs, self._request_fs)

    def send_store(self, time_fs: int, sectors: int) -> int:
        """Send sectors with their request; returns when they have left the SM."""
        return self.out.serve(time_fs, self._request_fs + sectors * self._sector_out_fs)

    def receive(self, time_fs: int, sectors: int) -> int:
        """Take sectors that arrive at `time_fs`; returns when the last one is in the SM."""
        return self.back.serve(time_fs, sectors * self._sector_back_fs)

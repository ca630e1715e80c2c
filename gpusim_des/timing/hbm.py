"""Rule M6: HBM channels as first-in-first-out servers."""

from __future__ import annotations

from gpusim_des.gpu import GPU
from gpusim_des.timing.offered_load import OfferedLoad, mean_wait_fs
from gpusim_des.timing.server import FifoServer

MIX_WINDOW = 16
"""A request is served at the mixed efficiency if one of this many requests before it on the channel went the other way
(assumption: about the depth of a memory controller's queue, within which reads and writes are batched)."""


class Channel(FifoServer):
    """One HBM channel: granules × granule time / efficiency, in the order of arrival."""

    __slots__ = (
        *("_last_read", "_last_write", "_load", "_mixed_fs"),
        *("_read_batch_fs", "_read_fs", "_write_batch_fs", "_write_fs"),
        *("read_granules", "write_granules"),
    )

    def __init__(self, gpu: GPU, *, history: bool = False) -> None:
        super().__init__(history=history)
        self._read_fs = gpu.granule_fs("read")
        self._write_fs = gpu.granule_fs("write")
        self._mixed_fs = gpu.granule_fs("mixed")
        self._last_read = self._last_write = -MIX_WINDOW - 1
        self._read_batch_fs = gpu.dram_batch_fs("read")
        self._write_batch_fs = gpu.dram_batch_fs("write")
        self._load = OfferedLoad()
        self.read_granules = 0
        self.write_granules = 0

    def read(self, arrival_fs: int, granules: int) -> int:
        """Accept a read that arrives now; returns when its last granule has left the channel, in femtoseconds."""
        self._last_read = self.served
        self.read_granules += granules
        mixed = self.served - self._last_write <= MIX_WINDOW
        service = granules * (self._mixed_fs if mixed else self._read_fs)
        self._load.add(arrival_fs, reads=service, writes=0)
        return self.serve(arrival_fs, service)

    def fetch(self, arrival_fs: int, granules: int) -> int:
        """Accept a read of the L2, which waits for a batch at least; returns when it has left, in femtoseconds."""
        wait = mean_wait_fs(self._load.shares(arrival_fs), self._read_batch_fs, self._write_batch_fs)
        busy = self.busy
        leaves = self.read(arrival_fs, granules)
        return max(leaves, arrival_fs + wait + self.busy - busy)

    def write(self, arrival_fs: int, granules: int) -> int:
        """Accept a write that arrives now; returns when its last granule is in memory, in femtoseconds."""
        self._last_write = self.served
        self.write_granules += granules
        mixed = self.served - self._last_read <= MIX_WINDOW
        service = granules * (self._mixed_fs if mixed else self._write_fs)
        self._load.add(arrival_fs, reads=0, writes=service)
        return self.serve(arrival_fs, service)

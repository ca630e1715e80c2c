"""Rule M6: HBM channels as first-in-first-out servers."""

from __future__ import annotations

from gpusim_des.gpu import GPU
from gpusim_des.timing.server import FifoServer

MIX_WINDOW = 16
"""A request is served at the mixed efficiency if one of this many requests before it on the channel went the other way
(assumption: about the depth of a memory controller's queue, within which reads and writes are batched)."""


class Channel(FifoServer):
    """One HBM channel: granules × granule time / efficiency, in the order of arrival."""

    __slots__ = (
        *("_batch", "_held", "_last_read", "_last_write", "_mixed_fs", "_read_fs", "_write_fs"),
        *("read_granules", "write_granules"),
    )

    def __init__(self, gpu: GPU, *, history: bool = False) -> None:
        super().__init__(history=history)
        self._read_fs = gpu.granule_fs("read")
        self._write_fs = gpu.granule_fs("write")
        self._mixed_fs = gpu.granule_fs("mixed")
        self._last_read = self._last_write = -MIX_WINDOW - 1
        self._batch = gpu.dram_write_batch_granules
        self._held = 0
        """Granules that wait until they are a batch."""
        self.read_granules = 0
        self.write_granules = 0

    def read(self, arrival_fs: int, granules: int) -> int:
        """Accept a read that arrives now; returns when its last granule has left the channel, in femtoseconds."""
        self._last_read = self.served
        self.read_granules += granules
        mixed = self.served - self._last_write <= MIX_WINDOW
        return self.serve(arrival_fs, granules * (self._mixed_fs if mixed else self._read_fs))

    def write(self, arrival_fs: int, granules: int) -> int:
        """Accept a write that arrives now; returns when its last granule is in memory, in femtoseconds."""
        self.write_granules += granules
        return self._write(arrival_fs, granules)

    def write_back(self, arrival_fs: int, granules: int) -> None:
        """Accept what leaves the L2; it waits for others, and a whole batch is written at once."""
        self._last_write = self.served
        self.write_granules += granules
        self._held += granules
        if self._held >= self._batch:
            held, self._held = self._held, 0
            self._write(arrival_fs, held)

    def _write(self, arrival_fs: int, granules: int) -> int:
        self._last_write = self.served
        mixed = self.served - self._last_read <= MIX_WINDOW
        return self.serve(arrival_fs, granules * (self._mixed_fs if mixed else self._write_fs))

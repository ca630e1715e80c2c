"""How much work arrives at a DRAM channel, and what a read waits for on average because of it (M6)."""

from __future__ import annotations

WINDOW_BITS = 32
"""The load is that of the latest 2**32 fs, 4.3 us: several round trips to DRAM, more than a wave of blocks takes.

Chosen, and of little weight: with half or twice of it, bandwidths against occupancy on a GH200 are 5.6 and 6.0 % off on
average, instead of 5.9 %.
"""

PART_BITS = 10
"""Loads are counted in 1024ths of the window."""

PARTS = 1 << PART_BITS


class OfferedLoad:
    """Shares of the latest window for which reads and writes arrived; queueing theory's offered load.

    Work is added up window by window; of the window before, the part counts that lies less than a window back, as if
    its work had come evenly. Times are femtoseconds.

    Examples
    --------
    >>> load, window = OfferedLoad(), 1 << WINDOW_BITS
    >>> load.add(0, reads=window // 4, writes=0), load.add(window // 2, reads=0, writes=window // 8)
    (None, None)
    >>> load.shares(window - 1), load.shares(window * 3 // 2), load.shares(3 * window)
    ((256, 128), (128, 64), (0, 0))
    """

    __slots__ = ("_reads", "_reads_before", "_window", "_writes", "_writes_before")

    def __init__(self) -> None:
        self._window = 0
        self._reads = self._writes = 0
        self._reads_before = self._writes_before = 0

    def add(self, time_fs: int, *, reads: int, writes: int) -> None:
        """Count the service of what arrives now."""
        self._turn_to(time_fs)
        self._reads += reads
        self._writes += writes

    def shares(self, time_fs: int) -> tuple[int, int]:
        """Loads of reads and of writes, in `PARTS`; together at most all of them."""
        self._turn_to(time_fs)
        # What is announced early may be older than the latest window.
        gone = max(0, time_fs - (self._window << WINDOW_BITS)) >> WINDOW_BITS - PART_BITS
        left = PARTS - gone
        writes = self._writes + (self._writes_before >> PART_BITS) * left >> WINDOW_BITS - PART_BITS
        reads = self._reads + (self._reads_before >> PART_BITS) * left >> WINDOW_BITS - PART_BITS
        writes = min(PARTS, writes)
        return min(PARTS - writes, reads), writes

    def _turn_to(self, time_fs: int) -> None:
        window = time_fs >> WINDOW_BITS
        if window > self._window:
            follows = window == self._window + 1
            self._reads_before = self._reads if follows else 0
            self._writes_before = self._writes if follows else 0
            self._reads = self._writes = 0
            self._window = window


def mean_wait_fs(shares: tuple[int, int], read_batch_fs: int, write_batch_fs: int) -> int:
    """Mean wait of a read for batches of reads and writes, in femtoseconds.

    Pollaczek and Khinchine: customers of several kinds, with a service of S each, keep a server busy for shares ρ of
    the time; whoever comes waits for Σ ρ S / 2 / (1 - Σ ρ) on average. Here three quarters of Σ ρ stand in the
    denominator: whoever waits for data asks for no more, so the queue of a closed system has an end.

    Examples
    --------
    >>> mean_wait_fs((256, 128), 40_000_000, 320_000_000)  # (0.25 * 40 + 0.125 * 320) / 2 / (1 - 3/4 * 0.375) ns
    34782608
    >>> mean_wait_fs((0, 0), 40_000_000, 320_000_000)
    0
    """
    reads, writes = shares
    return 2 * (reads * read_batch_fs + writes * write_batch_fs) // (4 * PARTS - 3 * (reads + writes))

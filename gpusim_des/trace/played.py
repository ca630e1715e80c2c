"""The blocks of a sampled launch that an engine plays, as a launch of their own."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpusim_des.grid import Dim3, LaunchConfig
from gpusim_des.trace.kernel import KernelTrace, TraceChunk
from gpusim_des.trace.sample import Sample
from gpusim_des.trace.warp import WarpTrace
from gpusim_des.trace.work import instruction_counts


class PlayedTrace(KernelTrace):
    """The played blocks of a sampled trace, numbered from 0 in the order of the grid.

    Attributes
    ----------
    whole
        The sampled trace.
    numbers
        Number in the grid of every block here.
    windows
        Blocks here with which a stretch begins that is measured, or ends.
    """

    def __init__(self, whole: KernelTrace, sample: Sample) -> None:
        self.numbers = sample.played
        super().__init__(
            whole.name,
            LaunchConfig(Dim3(len(self.numbers)), whole.config.block),
            registers=whole.registers,
            shared_bytes=whole.shared_bytes,
            assumptions=whole.assumptions,
        )
        self.whole = whole
        self.streams, self.files = whole.streams, whole.files
        borders = [number for run in sample.runs for number in (run.measured, run.measured_end)]
        self.windows: NDArray[np.int64] = np.searchsorted(self.numbers, borders)

    def index_of(self, block: int) -> Dim3:
        """Place of a block in the grid."""
        return self.whole.index_of(int(self.numbers[block]))

    def block(self, block: int) -> list[WarpTrace]:
        """Warps of a block, in order."""
        return self.whole.block(int(self.numbers[block]))

    def rows(self, first: int, count: int) -> tuple[TraceChunk, NDArray[np.int32]]:
        """Chunk of a block and rows there, as in `KernelTrace.rows`; neither a run nor a window ends in between."""
        jumps = np.flatnonzero(np.diff(self.numbers[first : first + count]) != 1)
        count = min(count, int(jumps[0]) + 1 if jumps.size else count)
        later = self.windows[self.windows > first]
        count = min(count, int(later.min()) - first if later.size else count)
        return self.whole.rows(int(self.numbers[first]), count)

    @property
    def warp_instructions(self) -> int:
        """Warp instructions of the played blocks."""
        return int(instruction_counts(self.whole, self.numbers).sum())

"""What parts of the chip have to do for a launch, from its counters."""

from __future__ import annotations

from gpusim_des.functional.counters import Counters
from gpusim_des.gpu import GPU
from gpusim_des.grid import WARP_SIZE


def load_cycles(gpu: GPU, lines: int = 1, element_bytes: int = 4) -> float:
    """Cycles of a warp's load in the load/store unit: for its lines of 128 bytes, or to hand it to registers (rule M1).

    Examples
    --------
    A row and a column of floats; a T4 hands 64 bytes a cycle to registers:

    >>> from gpusim_des.gpu import load_gpu
    >>> tiny, t4 = load_gpu("tiny"), load_gpu("t4")
    >>> load_cycles(tiny), load_cycles(tiny, lines=32), load_cycles(t4), load_cycles(t4, lines=32)
    (1.0, 8.75, 2.0, 8.75)
    """
    return max((lines + 3) / 4, WARP_SIZE * element_bytes / gpu.l1_bytes_per_cycle)


def load_store_cycles(gpu: GPU, counters: Counters) -> float:
    """Cycles that all SMs' load/store units are busy together: passes, and what loads take to reach their registers.

    Examples
    --------
    A warp that loads and stores 32 floats:

    >>> import numpy as np
    >>> import gpusim_des as gs
    >>> @gs.block_kernel
    ... def double(blk, a):
    ...     blk.store(a, blk.tx, 2 * blk.load(a, blk.tx))
    >>> dev = gs.Device("t4")
    >>> launch = dev.launch(double, 1, 32, dev.to_device(np.ones(32, np.float32)))
    >>> load_store_cycles(gs.load_gpu("tiny"), launch.counters), load_store_cycles(gs.load_gpu("t4"), launch.counters)
    (2, 3.0)
    """
    return sum(
        max(counts.wavefronts, counts.nbytes / gpu.l1_bytes_per_cycle)
        if (site.memory, site.operation) == ("global", "load")
        else counts.wavefronts
        for site, counts in counters.accesses.items()
    )

"""Memory stays bounded, whatever the grid: traces are shared and spilled, and blocks are read as they are placed (W4)."""

import subprocess
import sys
from pathlib import Path

import pytest

RUN = """
import resource, sys
import numpy as np
import gpusim_des as gs

@gs.block_kernel
def vector_add(blk, a, b, c, n):
    i = blk.bx * blk.bdx + blk.tx
    blk.store(c, i, blk.load(a, i) + blk.load(b, i))

n = int(sys.argv[1])
dev = gs.Device("h100-sxm")
a, b = (dev.to_device(np.ones(n, np.float32)) for _ in range(2))
c = dev.malloc(n, np.float32)
dev.launch(vector_add, n // 256, 256, a, b, c, n)
dev.forget_launches() if sys.argv[2] == "function" else dev.simulate(engine="compiled", detail="kernel", caches="off")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - 3 * 4 * n)
"""


def peak_beside_arrays(threads: int, phase: str) -> int:
    """Bytes that a run in a process of its own takes at most, less its three arrays."""
    command = [sys.executable, "-c", RUN, str(threads), phase]
    root = Path(__file__).parents[1]
    return int(subprocess.run(command, capture_output=True, text=True, check=True, cwd=root).stdout)


@pytest.mark.slow
@pytest.mark.parametrize("phase", ["function", "timing"])
def test_a_thread_more_costs_a_few_bytes(phase: str) -> None:
    small, large = (peak_beside_arrays(1 << n, phase) for n in (20, 23))
    # A warp of vector add has three base sectors of 8 bytes, which are 0.75 bytes for each thread.
    assert (large - small) / ((1 << 23) - (1 << 20)) < 4

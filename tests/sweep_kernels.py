"""Kernels for sweeps, among them some that behave badly."""

import os
import signal

import numpy as np

import gpusim_des as gs

FACTOR = 3


def doubled(x):  # type: ignore[no-untyped-def]
    return 2 * x


@gs.kernel
def scale(t, x, n):  # type: ignore[no-untyped-def]
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    if i < n:
        x[i] = doubled(x[i]) * FACTOR  # type: ignore[no-untyped-call]


@gs.block_kernel
def dies_at(blk, x, deadly, n):  # type: ignore[no-untyped-def]
    """Kills its own process for one argument, as the system kills one that takes too much memory."""
    if n == deadly:
        os.kill(os.getpid(), signal.SIGKILL)
    blk.store(x, blk.tx, np.float32(n))


@gs.block_kernel
def lacks_memory(blk, x, tries):  # type: ignore[no-untyped-def]
    """Runs out of memory until the file `tries` says 1."""
    raise MemoryError("no room")

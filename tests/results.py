"""Simulations of every kind that a result file must hold, made once for all tests."""

from __future__ import annotations

from functools import cache

import numpy as np

import gpusim_des as gs


@gs.kernel
def saxpy(t, x, y, n, alpha):  # type: ignore[no-untyped-def]
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    if i < n:
        y[i] = alpha * x[i] + y[i]


@gs.block_kernel
def reverse(blk, a):  # type: ignore[no-untyped-def]
    tile = blk.shared(blk.bdx, np.float32, name="tile")
    blk.sstore(tile, blk.tx, blk.load(a, blk.bx * blk.bdx + blk.tx))
    blk.sync()
    blk.store(a, blk.bx * blk.bdx + blk.tx, blk.sload(tile, blk.bdx - 1 - blk.tx))


@cache
def every_warp() -> gs.Simulation:
    """Two kernels, states and instructions of every warp."""
    dev = gs.Device("tiny")
    x, y = dev.to_device(np.ones(256, np.float32)), dev.to_device(np.ones(256, np.float32))
    dev.launch(saxpy, 4, 64, x, y, 200, np.float32(2))
    dev.launch(reverse, 4, 64, y)
    return dev.simulate(detail="warp")


@cache
def streams() -> gs.Simulation:
    """Copies and kernels in two named streams, with events."""
    dev = gs.Device("tiny")
    copies, kernels, copied = dev.stream(name="copies <b>"), dev.stream(name="kernels"), dev.event()
    host = dev.pinned(1024, np.float32)
    a = dev.malloc(1024, np.float32, "a")
    dev.memcpy_async(a, host, copies)
    copied.record(copies)
    kernels.wait_event(copied)
    dev.launch(reverse, 8, 128, a, stream=kernels)
    dev.memcpy_async(host, a, kernels)
    kernels.synchronize()
    return dev.simulate()


@cache
def sampled() -> gs.Simulation:
    """A sampled kernel: estimates with bounds, counters too."""
    dev = gs.Device("tiny")
    n = 32 * 4096
    x, y = dev.malloc(n, np.float32), dev.malloc(n, np.float32)
    dev.memset(x, 0)
    dev.memset(y, 0)
    dev.forget_launches()
    launch = dev.launch(saxpy, n // 64, 64, x, y, n, np.float32(2), sample=12)
    assert launch.sample is not None
    return dev.simulate()


@cache
def totals() -> gs.Simulation:
    """No caches, and totals only."""
    dev = gs.Device("tiny")
    dev.launch(reverse, 4, 64, dev.to_device(np.ones(256, np.float32)))
    return dev.simulate(detail="kernel", caches="off")


@cache
def stopped() -> gs.Simulation:
    """A simulation that was not allowed to end."""
    dev = gs.Device("tiny")
    dev.launch(reverse, 64, 64, dev.to_device(np.ones(4096, np.float32)))
    dev.forget_launches()
    dev.launch(reverse, 64, 64, dev.to_device(np.ones(4096, np.float32)))
    partial: object = None
    try:
        dev.simulate(detail="warp", max_cycles=40_000)
    except gs.CycleLimitError as stop:
        partial = stop.partial
    assert isinstance(partial, gs.Simulation)
    return partial


ALL = {"every_warp": every_warp, "streams": streams, "sampled": sampled, "totals": totals, "stopped": stopped}

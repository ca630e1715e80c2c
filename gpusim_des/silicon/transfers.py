"""Copies between host and device, and bulk copies into shared memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gpusim_des.device import Device
from gpusim_des.functional.block_kernel import Block, block_kernel
from gpusim_des.functional.memory import DeviceArray
from gpusim_des.gpu import GPU
from gpusim_des.silicon.steady import kernel_of, part, seconds_per_step, whole
from gpusim_des.timeline import KernelTiming


def bandwidth_to_device(gpu: GPU, inputs: Mapping[str, Any]) -> float:
    """GB/s of one copy of ``kib`` KiB of pinned memory to the device, by the host's clock around copy and wait."""
    nbytes: int = inputs["kib"] * 1024
    dev = Device(gpu)
    host, there = dev.pinned(nbytes, np.uint8), dev.malloc(nbytes, np.uint8)
    dev.forget_launches()
    dev.memcpy_async(there, host)
    dev.synchronize()
    return nbytes / dev.simulate(engine="simpy", detail="kernel").seconds / 1e9


# Bulk copies --------------------------------------------------------------------------------------------------------


@block_kernel
def bulk_loop(blk: Block, data: DeviceArray, out: DeviceArray, words: int, copies: int) -> None:
    """One thread copies a piece into shared memory; all wait for it, read a word, and meet before the next piece."""
    piece, arrived = blk.shared(words, np.float32, name="piece"), blk.shared_barrier("arrived")
    total: Any = 0.0
    for turn in range(copies):
        blk.memcpy_async_bulk(piece, 0, data, (turn * blk.gdx + blk.bx) * words, words, arrived, mask=blk.tx == 0)
        blk.barrier_wait(arrived)
        total = total + blk.sload(piece, blk.tx)
        blk.sync()
    blk.store(out, blk.bx * blk.bdx + blk.tx, total)


def bandwidth_of_bulk_copies(gpu: GPU, inputs: Mapping[str, Any]) -> float:
    """GB/s of bulk copies of ``kib`` KiB, one under way for each of ``blocks_per_sm`` blocks."""
    small, kib, per_sm = part(gpu, 6), int(inputs["kib"]), int(inputs["blocks_per_sm"])
    words = kib * 256
    blocks = per_sm * small.sms

    def run(copies: int) -> KernelTiming:
        dev = Device(small)
        data, out = dev.to_device(np.zeros(blocks * words * copies, np.float32)), dev.malloc(blocks * 32)
        dev.forget_launches()
        dev.launch(bulk_loop, blocks, 32, data, out, words, copies, registers=32)
        return kernel_of(dev)

    return blocks * words * 4 / seconds_per_step(run, max(6, 12 // kib)) * whole(gpu, small) / 1e9


# Overlap ------------------------------------------------------------------------------------------------------------

OVERLAPPED_BYTES, STREAMS = 1 << 24, 4
STEPS = 40
"""Additions of a quarter of the kernel; how long one takes is what the sequential time decides."""


@block_kernel
def wait_for(blk: Block, data: DeviceArray, steps: int) -> None:
    """A chain of additions, as long as the published kernel of sines, cosines and roots takes."""
    total = blk.compute(steps, value=blk.tx.astype(np.float32))
    blk.store(data, blk.tx, total, mask=blk.tx < 0)


def _overlapped_ms(gpu: GPU, version: str) -> float:
    """Milliseconds of copies there, kernel and copies back: in one stream, or in four in one of two orders."""
    dev = Device(gpu)
    host, there = dev.pinned(OVERLAPPED_BYTES // 4), dev.malloc(OVERLAPPED_BYTES // 4)
    dev.forget_launches()
    shared = gpu.shared_bytes_per_block - gpu.shared_bytes_reserved_per_block
    pieces = 1 if version == "sequential" else STREAMS
    size = OVERLAPPED_BYTES // 4 // pieces
    streams: list[Any] = [None] if version == "sequential" else [dev.stream() for _ in range(STREAMS)]

    def copy_in(k: int) -> None:
        dev.memcpy_async(there.part(k * size, size), host[k * size :][:size], streams[k])

    def work(k: int) -> None:
        # Nothing else fits beside such a block, as two of the published kernels at once are no faster either.
        piece, steps = there.part(k * size, size), STEPS * STREAMS // pieces
        dev.launch(wait_for, gpu.sms, 32, piece, steps, registers=16, dynamic_shared=shared, stream=streams[k])

    def copy_out(k: int) -> None:
        dev.memcpy_async(host[k * size :][:size], there.part(k * size, size), streams[k])

    stages = (copy_in, work, copy_out)
    if version == "breadth first":
        calls = [(stage, k) for stage in stages for k in range(pieces)]
    else:
        calls = [(stage, k) for k in range(pieces) for stage in stages]
    for stage, k in calls:
        stage(k)
    dev.synchronize()
    return 1e3 * dev.simulate(engine="simpy", detail="kernel").seconds


def ms_of_overlap(gpu: GPU, inputs: Mapping[str, Any]) -> float:
    """Milliseconds of the ``order``, on a GPU whose kernel takes what the sequential order leaves for it.

    The kernel's time is not published. It is what remains of ``sequential_ms`` beside the copies.
    """
    first = gpu.replace(fp32_latency_cycles=1000)
    lacking_ms = inputs["sequential_ms"] - _overlapped_ms(first, "sequential")
    cycles = 1000 + round(lacking_ms / 1e3 / (STEPS * STREAMS) * gpu.sm_clock_hz)
    return _overlapped_ms(gpu.replace(fp32_latency_cycles=cycles), inputs["order"])


REPRODUCTIONS: dict[str, Callable[[GPU, Mapping[str, Any]], float]] = {
    "bandwidth_to_device": bandwidth_to_device,
    "bandwidth_of_bulk_copies": bandwidth_of_bulk_copies,
    "ms_of_overlap": ms_of_overlap,
}

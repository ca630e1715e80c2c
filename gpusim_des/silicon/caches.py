"""Bandwidth of L1 and L2: loads at strides, and buffers of growing size that all SMs read again and again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil
from typing import Any

import numpy as np

from gpusim_des.device import Device
from gpusim_des.functional.block_kernel import Block, block_kernel
from gpusim_des.functional.memory import DeviceArray
from gpusim_des.gpu import GPU
from gpusim_des.silicon.steady import cycles_per_step, kernel_of, part, seconds_per_step, whole
from gpusim_des.timeline import KernelTiming

TYPES = {"float": np.float32, "double": np.float64}


@block_kernel
def strided_loads(blk: Block, a: DeviceArray, out: DeviceArray, stride: int, loads: int) -> None:
    """Every warp reads elements `stride` apart, `loads` times, and uses the last of them."""
    value: Any = 0.0
    for _ in range(loads):
        value = blk.load(a, blk.lane * stride)
    blk.store(out, blk.tx, value, mask=value == 123.0)


def cycles_of_a_warp_load(gpu: GPU, inputs: Mapping[str, Any]) -> float:
    """Cycles of a warp's load that hits the L1, ``stride`` elements of ``type`` from lane to lane."""
    small, warps, dtype = part(gpu, 1), 8, TYPES[inputs["type"]]

    def run(loads: int) -> KernelTiming:
        dev = Device(small)
        a, out = dev.to_device(np.zeros(32 * max(1, inputs["stride"]), dtype)), dev.malloc(32 * warps, dtype)
        dev.forget_launches()
        dev.launch(strided_loads, 1, 32 * warps, a, out, inputs["stride"], loads, registers=32, count="declared")
        return kernel_of(dev)

    return cycles_per_step(run, 256) / warps


@block_kernel
def read_again(blk: Block, a: DeviceArray, out: DeviceArray, words: int, first: int, loads: int) -> None:
    """Every block reads one buffer of doubles, round after round, four loads under way for each thread."""
    total: Any = 0.0
    for load in range(0, loads, 4):
        values = [blk.load(a, (blk.tx + (first * blk.bx + load + k) * blk.bdx) % words) for k in range(4)]
        for value in values:
            total = total + value
    blk.store(out, blk.tx, total, mask=total == 123.0)


def _read(gpu: GPU, nbytes: int, threads: int, per_sm: int, apart: int, loads: int) -> KernelTiming:
    """Time blocks that read a buffer of `nbytes`, each beginning `apart` loads behind the one before.

    The copy to the device is simulated as well, and leaves in the L2 what fits there.
    """
    dev = Device(gpu)
    words = max(threads, nbytes // 8)
    out, a = dev.malloc(threads, np.float64), dev.to_device(np.zeros(words))
    args = a, out, words, apart, loads
    dev.launch(read_again, per_sm * gpu.sms, threads, *args, registers=32, count="declared")
    return kernel_of(dev)


ROUNDS, COLD_LOADS, L1_LOADS = 3, 96, 256
"""Rounds through a buffer before the steady state is taken for granted; loads of a thread where nothing is found, and
where the L1 holds all.
"""


def _bandwidth(gpu: GPU, small: GPU, nbytes: int, threads: int, per_sm: int, apart: int) -> float:
    """GB/s of the chip from a buffer of `nbytes` on a slice, in the steady state."""
    if nbytes > 3 * small.l2_bytes:
        loads = COLD_LOADS
    else:
        loads = max(L1_LOADS if small.sms == 1 else 64, ROUNDS * ceil(nbytes / (threads * 8)))
    loads = 4 * ceil(loads / 4)
    seconds = seconds_per_step(lambda n: _read(small, nbytes, threads, per_sm, apart, n), loads)
    return per_sm * small.sms * threads * 8 / seconds * whole(gpu, small) / 1e9


def bandwidth_of_one_buffer(gpu: GPU, inputs: Mapping[str, Any]) -> float:
    """GB/s of all SMs when one block of 1024 threads on each reads one buffer of ``kib`` KiB from its start.

    A buffer that fits an L1 is read by one SM; a larger one by a slice, in proportion to its L2.
    """
    nbytes = inputs["kib"] * 1024
    small = part(gpu, 1)
    if nbytes > gpu.l1_bytes:
        small = part(gpu, max(2, ceil(1.5 * gpu.l1_bytes / nbytes * gpu.sms)))
        nbytes = round(nbytes * small.sms / gpu.sms)
    return _bandwidth(gpu, small, nbytes, 1024, 1, 0)


THREADS, LOADS, RESIDENT = 1024, 64, 2
"""Threads of a block, loads of a thread, and blocks on an SM: each block reads half a MiB of doubles and ends."""

PIECE_BYTES = THREADS * LOADS * 8


@block_kernel
def read_pieces(blk: Block, a: DeviceArray, out: DeviceArray, words: int) -> None:
    """Block b reads the piece of half a MiB at b times its size, round and round through the buffer."""
    first = blk.bx * (PIECE_BYTES // 8) + blk.tx
    total: Any = 0.0
    for load in range(0, LOADS, 8):
        for value in [blk.load(a, (first + (load + k) * THREADS) % words) for k in range(8)]:
            total = total + value
    blk.store(out, blk.tx, total, mask=total == 123.0)


def bandwidth_of_l2(gpu: GPU, inputs: Mapping[str, Any]) -> float:
    """GB/s of all SMs when blocks, two on an SM, read their pieces of ``kib`` KiB and end.

    The slice is as large as its share of the buffer must be for two pieces to lie apart in it.
    """
    kib: int = inputs["kib"]
    nbytes = kib * 1024
    small = part(gpu, max(2, ceil(2.5 * PIECE_BYTES / nbytes * gpu.sms)))
    scaled = round(nbytes * small.sms / gpu.sms)
    # Two rounds through what fits an L2; beyond that a piece is never found again.
    waves = max(2, ceil(min(2 * scaled, 3 * small.l2_bytes) / (RESIDENT * small.sms * PIECE_BYTES)))

    def run(count: int) -> KernelTiming:
        dev = Device(small)
        words = min(scaled, 2 * count * RESIDENT * small.sms * PIECE_BYTES) // 8
        out, a = dev.malloc(THREADS, np.float64), dev.to_device(np.zeros(words))
        blocks = count * RESIDENT * small.sms
        dev.launch(read_pieces, blocks, THREADS, a, out, words, registers=32, count="declared")
        return kernel_of(dev)

    return RESIDENT * small.sms * PIECE_BYTES / seconds_per_step(run, waves) * whole(gpu, small) / 1e9


REPRODUCTIONS: dict[str, Callable[[GPU, Mapping[str, Any]], float]] = {
    "cycles_of_a_warp_load": cycles_of_a_warp_load,
    "bandwidth_of_one_buffer": bandwidth_of_one_buffer,
    "bandwidth_of_l2": bandwidth_of_l2,
}

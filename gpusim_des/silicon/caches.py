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
OPS = {"float": "fp32", "double": "fp64"}


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


THREADS, TOGETHER = 256, 32
"""Threads of a block, and loads of a thread that are under way before the first of them is used."""


@block_kernel
def read_again(blk: Block, a: DeviceArray, out: DeviceArray, op: str, per_round: int, rounds: int) -> None:
    """Every block reads one buffer, round after round, and adds up what it reads; a round ends with a multiplication.

    The loops of the measured kernel are unrolled, so that addresses cost nothing.
    """
    total: Any = blk.load(a, blk.tx)
    for _ in range(rounds):
        for first in range(0, per_round, TOGETHER):
            values = [blk.load(a, blk.tx + k * THREADS) for k in range(first, min(first + TOGETHER, per_round))]
            for value in values:
                total = blk.compute(1, op=op, value=total + value)
        total = blk.compute(1, op=op, value=total)
    blk.store(out, blk.tx, total, mask=total == 123.0)


def _read(gpu: GPU, kind: str, per_round: int, rounds: int) -> KernelTiming:
    """Time one block on each SM that reads a buffer of `per_round` elements of a kind for each thread.

    The copy to the device is simulated as well, and leaves in the L2 what fits there.
    """
    dev, dtype = Device(gpu), TYPES[kind]
    out, a = dev.malloc(THREADS, dtype), dev.to_device(np.zeros(per_round * THREADS, dtype))
    args = a, out, OPS[kind], per_round, rounds
    dev.launch(read_again, gpu.sms, THREADS, *args, registers=64, count="declared")
    return kernel_of(dev)


ROUNDS, L1_LOADS = 3, 2048
"""Rounds through a buffer before the steady state is taken for granted, and loads of a thread at the least where the
L1 holds all: warps that begin one after another need a while until they keep their distances.
"""


def bandwidth_of_one_buffer(gpu: GPU, inputs: Mapping[str, Any]) -> float:
    """GB/s of all SMs when one block of 256 threads on each reads one buffer of ``kib`` KiB of ``type``.

    A buffer that fits an L1 is read by one SM; a larger one by a slice, in proportion to its L2.
    """
    kind, nbytes = inputs["type"], int(inputs["kib"]) * 1024
    small = part(gpu, 1)
    if nbytes > gpu.l1_bytes:
        small = part(gpu, max(2, ceil(1.5 * gpu.l1_bytes / nbytes * gpu.sms)))
        nbytes = round(nbytes * small.sms / gpu.sms)
    per_load = THREADS * np.dtype(TYPES[kind]).itemsize
    per_round = max(1, round(nbytes / per_load))
    rounds = max(ROUNDS, ceil(L1_LOADS / per_round) if small.sms == 1 else 0)
    seconds = seconds_per_step(lambda n: _read(small, kind, per_round, n), rounds)
    return small.sms * per_round * per_load / seconds * whole(gpu, small) / 1e9


PIECE_THREADS, RESIDENT = 1024, 2
"""Threads of a block that reads a piece, and blocks on an SM."""

PIECES, L1S = 2.5, 8
"""Pieces, and sizes of an L1, that a slice's share of the buffer must hold, so that blocks find no more of what others
on their SM have read than they do on the chip.
"""


@block_kernel
def read_pieces(blk: Block, a: DeviceArray, out: DeviceArray, words: int, loads: int) -> None:
    """Block b reads the b-th piece, round and round through the buffer: `loads` doubles for each thread.

    All loads are under way before the first is used, as far as the load/store queue lets them: their number is known
    when the measured kernel is compiled, and so is its loop's.
    """
    first = blk.bx * (loads * PIECE_THREADS) + blk.tx
    values = [blk.load(a, (first + load * PIECE_THREADS) % words) for load in range(loads)]
    total: Any = values[0]
    for value in values[1:]:
        total = blk.compute(1, op="fp64", value=total + value)
    blk.store(out, blk.tx, total, mask=total == 123.0)


def bandwidth_of_l2(gpu: GPU, inputs: Mapping[str, Any]) -> float:
    """GB/s of all SMs when blocks, two on an SM, read their pieces of a buffer of ``kib`` KiB and end.

    A piece is ``piece`` KiB of doubles. The slice is as large as its share of the buffer must be.
    """
    piece: int = inputs["piece"] * 1024
    nbytes: int = inputs["kib"] * 1024
    small = part(gpu, max(2, ceil(max(PIECES * piece, L1S * gpu.l1_bytes) / nbytes * gpu.sms)))
    scaled = round(nbytes * small.sms / gpu.sms)
    # Two rounds through what fits an L2; beyond that a piece is never found again.
    waves = max(2, ceil(min(2 * scaled, 3 * small.l2_bytes) / (RESIDENT * small.sms * piece)))

    def run(count: int) -> KernelTiming:
        dev = Device(small)
        words = min(scaled, 2 * count * RESIDENT * small.sms * piece) // 8
        out, a = dev.malloc(PIECE_THREADS, np.float64), dev.to_device(np.zeros(words))
        blocks = count * RESIDENT * small.sms
        args = a, out, words, piece // (PIECE_THREADS * 8)
        dev.launch(read_pieces, blocks, PIECE_THREADS, *args, registers=32, count="declared")
        return kernel_of(dev)

    return RESIDENT * small.sms * piece / seconds_per_step(run, waves) * whole(gpu, small) / 1e9


REPRODUCTIONS: dict[str, Callable[[GPU, Mapping[str, Any]], float]] = {
    "cycles_of_a_warp_load": cycles_of_a_warp_load,
    "bandwidth_of_one_buffer": bandwidth_of_one_buffer,
    "bandwidth_of_l2": bandwidth_of_l2,
}

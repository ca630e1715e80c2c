"""Seven ways to add up an array of integers, from interleaved addresses to several elements for each thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from gpusim_des.device import Device
from gpusim_des.functional.block_kernel import Block, BlockKernel, block_kernel
from gpusim_des.functional.memory import DeviceArray, SharedArray
from gpusim_des.gpu import GPU
from gpusim_des.silicon.steady import kernel_of

THREADS, WAVES = 128, 8
"""Threads of a block; waves of blocks that are executed and simulated, the rest is estimated."""


def _add(blk: Block, held: SharedArray, to: Any, distance: int) -> None:
    """``held[to] += held[to + distance]``."""
    blk.sstore(held, to, blk.sload(held, to) + blk.sload(held, to + distance))


def _turn(blk: Block) -> None:
    """What the loop itself costs: halve or double the distance, compare, jump back."""
    blk.compute(2, op="int")
    blk.branch(blk.tx >= 0)


def _first(blk: Block, a: DeviceArray, loads: int) -> SharedArray:
    """Put `loads` elements of each thread, a block apart, into shared memory as one."""
    held = blk.shared(THREADS, np.int32, name="held")
    i = blk.bx * (THREADS * loads) + blk.tx
    value = blk.load(a, i)
    for k in range(1, loads):
        value = value + blk.load(a, i + k * THREADS)
    blk.sstore(held, blk.tx, value)
    blk.sync()
    return held


def _last(blk: Block, held: SharedArray, out: DeviceArray) -> None:
    blk.store(out, blk.bx, blk.sload(held, 0, mask=blk.tx == 0), mask=blk.tx == 0)


def _halves(blk: Block, held: SharedArray, least: int, *, loop: bool) -> None:
    """Add the upper half to the lower one, down to `least` threads."""
    distance = THREADS // 2
    while distance > least:
        with blk.branch(blk.tx < distance):
            _add(blk, held, blk.tx, distance)
        blk.sync()
        if loop:
            _turn(blk)
        distance //= 2


def _warp(blk: Block, held: SharedArray) -> None:
    """The last 64 elements by one warp, which needs no barrier of the block."""
    with blk.branch(blk.tx < 32):
        for distance in (32, 16, 8, 4, 2, 1):
            value = blk.sload(held, blk.tx) + blk.sload(held, (blk.tx + distance) % THREADS)
            blk.syncwarp()
            blk.sstore(held, blk.tx, value)
            blk.syncwarp()


@block_kernel
def divergent(blk: Block, a: DeviceArray, out: DeviceArray) -> None:
    """Interleaved addresses: every second, fourth, … thread adds."""
    held, distance = _first(blk, a, 1), 1
    while distance < THREADS:
        with blk.branch(blk.tx % (2 * distance) == 0):
            _add(blk, held, blk.tx, distance)
        blk.sync()
        _turn(blk)
        distance *= 2
    _last(blk, held, out)


@block_kernel
def conflicting(blk: Block, a: DeviceArray, out: DeviceArray) -> None:
    """The same elements by neighbouring threads, which meet in the banks."""
    held, distance = _first(blk, a, 1), 1
    while distance < THREADS:
        index = blk.tx * (2 * distance)
        with blk.branch(index < THREADS):
            _add(blk, held, index, distance)
        blk.sync()
        _turn(blk)
        distance *= 2
    _last(blk, held, out)


@block_kernel
def sequential(blk: Block, a: DeviceArray, out: DeviceArray) -> None:
    """The upper half is added to the lower one."""
    held = _first(blk, a, 1)
    _halves(blk, held, 0, loop=True)
    _last(blk, held, out)


@block_kernel
def first_add(blk: Block, a: DeviceArray, out: DeviceArray) -> None:
    """The first addition comes with the load: half as many blocks."""
    held = _first(blk, a, 2)
    _halves(blk, held, 0, loop=True)
    _last(blk, held, out)


@block_kernel
def last_warp(blk: Block, a: DeviceArray, out: DeviceArray) -> None:
    """The last warp does without barriers and loop."""
    held = _first(blk, a, 2)
    _halves(blk, held, 32, loop=True)
    _warp(blk, held)
    _last(blk, held, out)


@block_kernel
def unrolled(blk: Block, a: DeviceArray, out: DeviceArray) -> None:
    """No loop at all."""
    held = _first(blk, a, 2)
    _halves(blk, held, 32, loop=False)
    _warp(blk, held)
    _last(blk, held, out)


@block_kernel
def many_elements(blk: Block, a: DeviceArray, out: DeviceArray) -> None:
    """Sixteen elements for each thread."""
    held = _first(blk, a, 16)
    _halves(blk, held, 32, loop=False)
    _warp(blk, held)
    _last(blk, held, out)


class Reduction(NamedTuple):
    """A kernel and the elements that each of its threads loads."""

    kernel: BlockKernel
    loads: int


REDUCTIONS = {
    "1 divergent": Reduction(divergent, 1),
    "2 bank conflicts": Reduction(conflicting, 1),
    "3 sequential": Reduction(sequential, 1),
    "4 first add": Reduction(first_add, 2),
    "5 last warp": Reduction(last_warp, 2),
    "6 unrolled": Reduction(unrolled, 2),
    "7 many elements": Reduction(many_elements, 16),
}


def block_sums(gpu: GPU, name: str, values: Any) -> Any:
    """Sums of the blocks of a kernel, for a check."""
    reduction, dev = REDUCTIONS[name], Device(gpu)
    blocks = len(values) // (THREADS * reduction.loads)
    out = dev.malloc(blocks, np.int32)
    dev.launch(reduction.kernel, blocks, THREADS, dev.to_device(values), out, registers=10)
    return dev.to_host(out)


def ms_of_a_reduction(gpu: GPU, inputs: Mapping[str, Any]) -> float:
    """Milliseconds in which the ``kernel`` adds up ``elements`` integers to a sum for each block."""
    reduction, dev = REDUCTIONS[inputs["kernel"]], Device(gpu)
    blocks = inputs["elements"] // (THREADS * reduction.loads)
    a, out = dev.to_device(np.ones(inputs["elements"], np.int32)), dev.malloc(blocks, np.int32)
    dev.forget_launches()
    dev.launch(reduction.kernel, blocks, THREADS, a, out, registers=10, sample=WAVES)
    return 1e3 * kernel_of(dev).seconds


REPRODUCTIONS: dict[str, Callable[[GPU, Mapping[str, Any]], float]] = {"ms_of_a_reduction": ms_of_a_reduction}

"""Kernels that stream through memory: bandwidth against occupancy, BabelStream, strides, offsets, loads in flight."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from gpusim_des.device import Device
from gpusim_des.functional.block_kernel import Block, BlockKernel, block_kernel
from gpusim_des.functional.memory import DeviceArray
from gpusim_des.gpu import GPU, shared_for_blocks
from gpusim_des.silicon.steady import filling_steps, kernel_of, seconds_per_step, streaming_part, whole
from gpusim_des.timeline import KernelTiming

SMS = 3
"""SMs of the slice."""

ONE_ELEMENT = ("write", "read", "scale", "triad4", "st3", "st5")


def _place(blk: Block, n: int) -> tuple[Any, Any]:
    """Return the thread's element, and whether there is one."""
    i = blk.bx * blk.bdx + blk.tx
    return i, i < n


@block_kernel
def write(blk: Block, a: DeviceArray, n: int) -> None:
    """One store."""
    i, on = _place(blk, n)
    blk.store(a, i, 0.5, mask=on)


@block_kernel
def read(blk: Block, a: DeviceArray, b: DeviceArray, n: int) -> None:
    """One load; a value that never occurs would be stored, so that the load is not in vain."""
    i, on = _place(blk, n)
    value = blk.load(b, i, mask=on)
    blk.store(a, i, value, mask=on & (value == 123.0))


@block_kernel
def scale(blk: Block, a: DeviceArray, b: DeviceArray, n: int) -> None:
    """One load, one store."""
    i, on = _place(blk, n)
    blk.store(a, i, blk.load(b, i, mask=on) * 0.5, mask=on)


@block_kernel
def triad4(blk: Block, a: DeviceArray, b: DeviceArray, c: DeviceArray, d: DeviceArray, n: int) -> None:
    """Three loads, one store."""
    i, on = _place(blk, n)
    x, y, z = blk.load(b, i, mask=on), blk.load(c, i, mask=on), blk.load(d, i, mask=on)
    blk.store(a, i, x + y * z, mask=on)


def _stencil(blk: Block, a: DeviceArray, b: DeviceArray, n: int, radius: int) -> None:
    i, on = _place(blk, n)
    values = [blk.load(b, i + radius + shift, mask=on) for shift in range(-radius, radius + 1)]
    total: Any = values[0]
    for value in values[1:]:
        total = total + value
    blk.store(a, i, total * 0.5, mask=on)


@block_kernel
def st3(blk: Block, a: DeviceArray, b: DeviceArray, n: int) -> None:
    """Sum of three neighbours: a read and a write, if the neighbours come from the L1."""
    _stencil(blk, a, b, n, 1)


@block_kernel
def st5(blk: Block, a: DeviceArray, b: DeviceArray, n: int) -> None:
    """Sum of five neighbours."""
    _stencil(blk, a, b, n, 2)


@block_kernel
def copy(blk: Block, a: DeviceArray, b: DeviceArray, n: int) -> None:
    """``a = b``."""
    i, on = _place(blk, n)
    blk.store(a, i, blk.load(b, i, mask=on), mask=on)


@block_kernel
def add(blk: Block, a: DeviceArray, b: DeviceArray, c: DeviceArray, n: int) -> None:
    """``a = b + c``."""
    i, on = _place(blk, n)
    blk.store(a, i, blk.load(b, i, mask=on) + blk.load(c, i, mask=on), mask=on)


@block_kernel
def triad(blk: Block, a: DeviceArray, b: DeviceArray, c: DeviceArray, n: int) -> None:
    """``a = b + s c``."""
    i, on = _place(blk, n)
    blk.store(a, i, blk.load(b, i, mask=on) + 0.4 * blk.load(c, i, mask=on), mask=on)


@block_kernel
def dot(blk: Block, a: DeviceArray, b: DeviceArray, c: DeviceArray, n: int) -> None:
    """``a[block] = sum(b * c)`` by a loop that strides over the grid, and a tree in shared memory."""
    threads = blk.gdx * blk.bdx
    i = blk.bx * blk.bdx + blk.tx
    total: Any = 0.0
    for turn in range(n // threads):
        at = i + turn * threads
        total = total + blk.load(b, at) * blk.load(c, at)
        blk.branch(at < n)
    partial = blk.shared(blk.bdx, np.float64)
    blk.sstore(partial, blk.tx, total)
    half = blk.bdx // 2
    while half:
        blk.sync()
        with blk.branch(blk.tx < half):
            blk.sstore(partial, blk.tx, blk.sload(partial, blk.tx) + blk.sload(partial, blk.tx + half))
        half //= 2
    first = blk.tx == 0
    blk.store(a, blk.bx, blk.sload(partial, 0, mask=first), mask=first)


class Stream(NamedTuple):
    """A kernel, the arrays it takes, and how many doubles it moves for each element."""

    kernel: BlockKernel
    arrays: int
    moved: int


KERNELS = {
    "write": Stream(write, 1, 1),
    "read": Stream(read, 2, 1),
    "scale": Stream(scale, 2, 2),
    "triad4": Stream(triad4, 4, 4),
    "st3": Stream(st3, 2, 2),
    "st5": Stream(st5, 2, 2),
    "copy": Stream(copy, 2, 2),
    "mul": Stream(scale, 2, 2),
    "add": Stream(add, 3, 3),
    "triad": Stream(triad, 3, 3),
    "dot": Stream(dot, 3, 2),
}


def _streamed(gpu: GPU, name: str, elements: int, threads: int, blocks: int, shared: int = 0) -> KernelTiming:
    """Time a kernel over `elements` doubles."""
    dev = Device(gpu)
    stream = KERNELS[name]
    arrays = [dev.to_device(np.zeros(elements + 8)) for _ in range(stream.arrays)]
    dev.forget_launches()
    dev.launch(stream.kernel, blocks, threads, *arrays, elements, registers=32, dynamic_shared=shared)
    return kernel_of(dev)


def bandwidth_of_one_element(gpu: GPU, inputs: Mapping[str, Any]) -> float:
    """GB/s of a kernel whose threads take one double each, ``blocks`` blocks of ``threads`` threads on an SM."""
    name, threads, per_sm = inputs["kernel"], int(inputs["threads"]), int(inputs["blocks"])
    small = streaming_part(gpu, SMS)
    shared = shared_for_blocks(small, threads, per_sm)

    def run(waves: int) -> KernelTiming:
        blocks = waves * per_sm * small.sms
        return _streamed(small, name, blocks * threads, threads, blocks, shared)

    nbytes = per_sm * small.sms * threads * 8 * KERNELS[name].moved
    steps = filling_steps(per_sm * threads * 8)
    return nbytes / seconds_per_step(run, steps) * whole(gpu, small) / 1e9


BABEL_THREADS = 1024
DOT_TURNS = 8


def bandwidth_of_babelstream(gpu: GPU, inputs: Mapping[str, Any]) -> float:
    """GB/s of a kernel of BabelStream, doubles: blocks of 1024 threads, one element each, two blocks on an SM."""
    name = inputs["kernel"]
    small = streaming_part(gpu, SMS)
    per_turn = 2 * small.sms * BABEL_THREADS

    def run(turns: int) -> KernelTiming:
        blocks = per_turn // BABEL_THREADS * (1 if name == "dot" else turns)
        return _streamed(small, name, turns * per_turn, BABEL_THREADS, blocks)

    steps = DOT_TURNS if name == "dot" else 4
    return per_turn * 8 * KERNELS[name].moved / seconds_per_step(run, steps) * whole(gpu, small) / 1e9


@block_kernel
def read_floats(blk: Block, a: DeviceArray, out: DeviceArray, n: int) -> None:
    """One load; a value that never occurs would be stored."""
    i, on = _place(blk, n)
    value = blk.load(a, i, mask=on)
    blk.store(out, i, value, mask=on & (value == 123.0))


def seconds_of_a_reading_block(gpu: GPU) -> float:
    """Seconds from one block to the next on an SM that holds one block of one warp, whose threads load a float each."""
    small = streaming_part(gpu, 1)
    shared = shared_for_blocks(small, 32, 1)

    def run(blocks: int) -> KernelTiming:
        dev = Device(small)
        a, out = dev.to_device(np.zeros(32 * blocks, np.float32)), dev.malloc(32 * blocks)
        dev.forget_launches()
        dev.launch(read_floats, blocks, 32, a, out, 32 * blocks, registers=32, dynamic_shared=shared)
        return kernel_of(dev)

    return seconds_per_step(run, 16)


# Strides and offsets ------------------------------------------------------------------------------------------------


@block_kernel
def strided(blk: Block, a: DeviceArray, out: DeviceArray, stride: int, turns: int) -> None:
    """Thread j of the grid reads ``a[j * stride]``, then the same of the next part of the array, and adds it up."""
    threads = blk.gdx * blk.bdx
    j = blk.bx * blk.bdx + blk.tx
    total: Any = 0.0
    for turn in range(turns):
        at = j + turn * threads
        total = total + blk.load(a, at * stride)
        blk.branch(at < threads * turns)
    blk.store(out, j, total)


def useful_bandwidth_of_strides(gpu: GPU, inputs: Mapping[str, Any]) -> float:
    """GB/s of the floats that are asked for, every ``stride``-th one, two blocks of 256 threads on an SM."""
    small, stride, threads = streaming_part(gpu, SMS), inputs["stride"], 256
    blocks = 2 * small.sms

    def run(turns: int) -> KernelTiming:
        dev = Device(small)
        a = dev.to_device(np.zeros(blocks * threads * turns * stride, np.float32))
        out = dev.malloc(blocks * threads, np.float32)
        dev.forget_launches()
        dev.launch(strided, blocks, threads, a, out, stride, turns, registers=32)
        return kernel_of(dev)

    return blocks * threads * 4 / seconds_per_step(run, 4) * whole(gpu, small) / 1e9


@block_kernel
def offset_copy(blk: Block, a: DeviceArray, b: DeviceArray, offset: int) -> None:
    """``a[i + offset] = b[i + offset]``."""
    i = blk.bx * blk.bdx + blk.tx + offset
    blk.store(a, i, blk.load(b, i))


def bandwidth_of_offset_copy(gpu: GPU, inputs: Mapping[str, Any]) -> float:
    """GB/s of a copy of floats that begins ``offset`` elements behind the start of the arrays."""
    small, threads = streaming_part(gpu, SMS), 256
    per_wave = 8 * small.sms

    def run(waves: int) -> KernelTiming:
        dev = Device(small)
        a, b = (dev.to_device(np.zeros(waves * per_wave * threads + 32, np.float32)) for _ in range(2))
        dev.forget_launches()
        dev.launch(offset_copy, waves * per_wave, threads, a, b, inputs["offset"], registers=32)
        return kernel_of(dev)

    return per_wave * threads * 8 / seconds_per_step(run, filling_steps(8 * threads * 4)) * whole(gpu, small) / 1e9


# Loads in flight ----------------------------------------------------------------------------------------------------


@block_kernel
def independent_loads(blk: Block, a: DeviceArray, out: DeviceArray, loads: int) -> None:
    """`loads` loads, all under way before the first is used."""
    threads = blk.gdx * blk.bdx
    j = blk.bx * blk.bdx + blk.tx
    values = [blk.load(a, j + k * threads) for k in range(loads)]
    total: Any = values[0]
    for value in values[1:]:
        total = total + value
    blk.store(out, j, total, mask=total == 123.0)


def bytes_per_cycle_of_loads(gpu: GPU, inputs: Mapping[str, Any]) -> float:
    """Bytes a cycle that one wave of blocks of 256 threads reads, ``loads`` floats under way for each thread."""
    small, threads, loads = streaming_part(gpu, SMS), 256, int(inputs["loads"])
    blocks = 8 * small.sms
    dev = Device(small)
    a = dev.to_device(np.zeros(blocks * threads * loads, np.float32))
    out = dev.malloc(blocks * threads, np.float32)
    dev.forget_launches()
    dev.launch(independent_loads, blocks, threads, a, out, loads, registers=32)
    return blocks * threads * loads * 4 / kernel_of(dev).cycles * whole(gpu, small)


REPRODUCTIONS: dict[str, Callable[[GPU, Mapping[str, Any]], float]] = {
    "bandwidth_of_one_element": bandwidth_of_one_element,
    "bandwidth_of_babelstream": bandwidth_of_babelstream,
    "useful_bandwidth_of_strides": useful_bandwidth_of_strides,
    "bandwidth_of_offset_copy": bandwidth_of_offset_copy,
    "bytes_per_cycle_of_loads": bytes_per_cycle_of_loads,
}

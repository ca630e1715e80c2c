"""Small kernels one after the other: what a launch, a node of a graph and a block cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gpusim_des.device import Device
from gpusim_des.functional.block_kernel import Block, block_kernel
from gpusim_des.functional.memory import DeviceArray
from gpusim_des.gpu import GPU
from gpusim_des.silicon.steady import engine_for

LAUNCHES = 3
"""Kernels one after the other; the first one, which finds nothing in the L2, is left out."""

BYTES_PER_ELEMENT = 16


@block_kernel
def scale_into(blk: Block, out: DeviceArray, data: DeviceArray, n: int) -> None:
    """Scales a double: a load and a store."""
    i = blk.bx * blk.bdx + blk.tx
    inside = i < n
    blk.store(out, i, blk.load(data, i, mask=inside) * 0.25, mask=inside)


@block_kernel
def nothing(blk: Block) -> None:
    """Does nothing."""


CHASED_WORDS = 1024
"""Words of the 4 KiB in which `hop_about` stays; its threads take a step for each of their eight words."""


@block_kernel
def hop_about(blk: Block, ring: DeviceArray, out: DeviceArray) -> None:
    """A loop of dependent loads from 4 KiB."""
    at: Any = blk.tx * 8
    for _ in range(8):
        at = blk.load(ring, at)
        blk.branch(at >= 0)
    blk.store(out, blk.tx, at, mask=at < 0)


def _period_s(dev: Device) -> float:
    """Seconds from the end of one kernel to that of the next."""
    sim = dev.simulate(engine=engine_for(dev), detail="kernel")
    ends = [operation.end_s for operation in sim.timeline.operations if operation.kind == "kernel"]
    return (ends[-1] - ends[0]) / (len(ends) - 1)


def _scaled(gpu: GPU, inputs: Mapping[str, Any], *, graph: bool) -> float:
    n, threads = int(inputs["elements"]), int(inputs["block"])
    dev = Device(gpu)
    out, data = dev.malloc(n, np.float64), dev.to_device(np.zeros(n))
    dev.forget_launches()

    def launch_all(stream: Any) -> None:
        for _ in range(LAUNCHES):
            dev.launch(scale_into, -(-n // threads), threads, out, data, n, registers=32, stream=stream)

    if graph:
        stream = dev.stream()
        with dev.capture(stream) as nodes:
            launch_all(stream)
        nodes.launch(stream)
    else:
        launch_all(None)
    return n * BYTES_PER_ELEMENT / _period_s(dev) / 1e9


def bandwidth_of_launches(gpu: GPU, inputs: Mapping[str, Any]) -> float:
    """GB/s of kernels of ``elements`` threads in blocks of ``block``, launched one after the other."""
    return _scaled(gpu, inputs, graph=False)


def bandwidth_of_graph_nodes(gpu: GPU, inputs: Mapping[str, Any]) -> float:
    """The same as nodes of a graph, each of which waits for the one before."""
    return _scaled(gpu, inputs, graph=True)


def us_of_blocks(gpu: GPU, inputs: Mapping[str, Any]) -> float:
    """Microseconds from one kernel of ``blocks_per_sm`` blocks of 128 threads for each SM to the next."""
    dev = Device(gpu)
    ring = (np.arange(CHASED_WORDS, dtype=np.int32) * 33 + 8) % CHASED_WORDS
    words, out = dev.to_device(ring.astype(np.int32)), dev.malloc(128, np.int32)
    dev.forget_launches()
    for _ in range(LAUNCHES):
        dev.launch(hop_about, inputs["blocks_per_sm"] * gpu.sms, 128, words, out, registers=32)
    return 1e6 * _period_s(dev)


def us_of_empty_kernels(gpu: GPU, inputs: Mapping[str, Any]) -> float:
    """Microseconds from one empty kernel of ``blocks`` blocks to the next."""
    dev = Device(gpu)
    for _ in range(LAUNCHES):
        dev.launch(nothing, inputs["blocks"], 32, registers=32)
    return 1e6 * _period_s(dev)


def us_of_empty_nodes(gpu: GPU, inputs: Mapping[str, Any]) -> float:
    """The same for nodes of a graph, each of which waits for the one before."""
    dev = Device(gpu)
    stream = dev.stream()
    with dev.capture(stream) as nodes:
        for _ in range(LAUNCHES):
            dev.launch(nothing, inputs["blocks"], 32, registers=32, stream=stream)
    nodes.launch(stream)
    return 1e6 * _period_s(dev)


REPRODUCTIONS: dict[str, Callable[[GPU, Mapping[str, Any]], float]] = {
    "bandwidth_of_launches": bandwidth_of_launches,
    "bandwidth_of_graph_nodes": bandwidth_of_graph_nodes,
    "us_of_blocks": us_of_blocks,
    "us_of_empty_kernels": us_of_empty_kernels,
}

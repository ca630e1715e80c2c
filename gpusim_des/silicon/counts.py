"""What can be counted exactly: blocks on an SM, passes through the banks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gpusim_des.device import Device
from gpusim_des.functional.block_kernel import Block, block_kernel
from gpusim_des.functional.memory import DeviceArray
from gpusim_des.gpu import GPU, occupancy, sm_limits
from gpusim_des.silicon.steady import cycles_per_step, kernel_of, part
from gpusim_des.timeline import KernelTiming


def blocks_on_an_sm(gpu: GPU, inputs: Mapping[str, Any]) -> float:
    """Blocks of a launch that an SM of the ``capability`` holds, or of `gpu` where none is given."""
    limits = sm_limits(inputs.get("capability", gpu))
    return occupancy(limits, inputs["threads"], inputs["registers"], inputs["shared"]).blocks_per_sm


@block_kernel
def read_shared(blk: Block, out: DeviceArray, stride: int, loads: int) -> None:
    """A chain of loads from shared memory, every lane `stride` words behind the one before it."""
    words = blk.shared(32 * max(1, stride), np.int32)
    for first in range(0, 32 * max(1, stride), 32):
        blk.sstore(words, first + blk.lane, 0)
    blk.syncwarp()
    zero: Any = 0
    for _ in range(loads):
        zero = blk.sload(words, blk.lane * stride + zero)
    blk.store(out, blk.lane, zero)


def passes_of_a_load(gpu: GPU, inputs: Mapping[str, Any]) -> float:
    """Passes through the banks that a load of words ``stride`` apart takes."""
    dev = Device(part(gpu, 1))
    stride, loads = int(inputs["stride"]), 8
    launch = dev.launch(read_shared, 1, 32, dev.malloc(32, np.int32), stride, loads, registers=32)
    return (launch.counters.shared_wavefronts - max(1, stride)) / loads


def cycles_of_a_shared_load(gpu: GPU, inputs: Mapping[str, Any]) -> float:
    """Cycles from one load of a word from shared memory to the next, which needs its value."""

    def run(loads: int) -> KernelTiming:
        dev = Device(part(gpu, 1))
        dev.launch(
            read_shared, 1, 32, dev.malloc(32, np.int32), inputs["stride"], loads, registers=32, count="declared"
        )
        return kernel_of(dev)

    return cycles_per_step(run, 32)


REPRODUCTIONS: dict[str, Callable[[GPU, Mapping[str, Any]], float]] = {
    "blocks_on_an_sm": blocks_on_an_sm,
    "passes_of_a_load": passes_of_a_load,
    "cycles_of_a_shared_load": cycles_of_a_shared_load,
}

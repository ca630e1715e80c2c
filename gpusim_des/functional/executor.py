"""Runs a kernel over its grid, chunk by chunk, and returns what it counted and its trace."""

from __future__ import annotations

import reprlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gpusim_des.errors import KernelError
from gpusim_des.functional.block_kernel import Block, BlockKernel
from gpusim_des.functional.counters import Counters
from gpusim_des.functional.lanes import BlocksDisagree
from gpusim_des.functional.machine import Counting, Machine
from gpusim_des.functional.memory import DeviceArray
from gpusim_des.functional.recorder import record
from gpusim_des.grid import LaunchConfig
from gpusim_des.trace import KernelTrace

CHUNK_THREADS = 1 << 16
"""Threads in flight: enough that NumPy's call cost is small, few enough that a chunk's arrays stay in the cache."""


class Executed(NamedTuple):
    """What a launch left behind, beside its results in memory."""

    counters: Counters
    trace: KernelTrace


def execute(
    kernel: BlockKernel,
    config: LaunchConfig,
    arguments: dict[str, Any],
    *,
    counting: Counting,
    registers: int,
    shared_limit_bytes: int,
    dynamic_shared_bytes: int,
    assumptions: tuple[str, ...] = (),
    progress: Callable[[int, int], None] | None = None,
) -> Executed:
    """Run all blocks of a launch; `progress` hears how many of how many blocks are done.

    Blocks run many at a time. Where Python control flow depends on the block, the blocks in flight are taken apart
    by the value they disagree on and run again in groups.
    """
    counters = Counters()
    trace = KernelTrace(kernel.name, config, registers=registers, assumptions=assumptions)
    names = {id(value): name for name, value in arguments.items() if isinstance(value, DeviceArray)}
    size = max(1, CHUNK_THREADS // config.threads_per_block)
    for start in range(0, config.blocks, size):
        waiting = [np.arange(start, min(start + size, config.blocks), dtype=np.int64)]
        while waiting:
            blocks = waiting.pop()
            machine = Machine(
                config,
                blocks,
                counting=counting,
                kernel_name=kernel.name,
                shared_limit_bytes=shared_limit_bytes,
                dynamic_shared_bytes=dynamic_shared_bytes,
            )
            try:
                returned = kernel.function(Block(machine, names), *arguments.values())
            except BlocksDisagree as disagreement:
                machine.undo()
                waiting.extend(blocks[group] for group in reversed(disagreement.groups()))
                continue
            if returned is not None:
                raise KernelError(
                    f"kernel {kernel.name!r} returned {reprlib.repr(returned)}: a kernel returns nothing, "
                    "write its results with blk.store"
                )
            machine.finish()
            record(machine, trace)
            counters.add(machine.counters)
        if progress is not None:
            progress(min(start + size, config.blocks), config.blocks)
    trace.shared_bytes = dynamic_shared_bytes + counters.shared_bytes_per_block
    return Executed(counters, trace)

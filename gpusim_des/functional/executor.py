"""Runs a kernel over its grid, chunk by chunk, and returns what it counted and its trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpusim_des.errors import KernelError
from gpusim_des.functional.accounting import DistinctSectors
from gpusim_des.functional.array_use import ArrayUses
from gpusim_des.functional.block_kernel import Block, BlockKernel, KernelFunction
from gpusim_des.functional.counters import Counters
from gpusim_des.functional.event import TooLong
from gpusim_des.functional.kernel_source import NotVectorizable
from gpusim_des.functional.lanes import BlocksDisagree
from gpusim_des.functional.machine import Counting, Machine
from gpusim_des.functional.memory import DeviceArray
from gpusim_des.functional.recorder import record
from gpusim_des.functional.shared_memory import SharedLimits
from gpusim_des.functional.thread_kernel import ThreadKernel, ThreadRunner
from gpusim_des.grid import LaunchConfig
from gpusim_des.trace import KernelTrace

CHUNK_THREADS = 1 << 16
"""Threads in flight: enough that NumPy's call cost is small, few enough that a chunk's arrays stay in the cache."""

CHUNK_INSTRUCTIONS = 1 << 25
"""Warp instructions of a chunk, above which fewer blocks run at once: with 50 bytes each they fill 1.6 GiB (W4)."""


class Executed(NamedTuple):
    """What a launch left behind, beside its results in memory."""

    counters: Counters
    trace: KernelTrace
    vectorized: bool
    """Many threads ran at once; false for a thread kernel that had to run thread by thread."""
    uses: ArrayUses
    """Which parts of which arrays it read and wrote."""


def execute(
    kernel: KernelFunction,
    config: LaunchConfig,
    arguments: dict[str, Any],
    *,
    counting: Counting,
    registers: int,
    shared_limits: SharedLimits,
    assumptions: tuple[str, ...] = (),
    progress: Callable[[int, int], None] | None = None,
    vectorize: bool | None = None,
) -> Executed:
    """Run all blocks of a launch; `progress` hears how many of how many blocks are done.

    Blocks run many at a time. Where Python control flow depends on the block, the blocks in flight are taken apart
    by the value they disagree on and run again in groups. Where they execute more than memory should hold, they run
    again in halves, and so many at a time from then on.
    """
    counters, touched, uses = Counters(), DistinctSectors(), ArrayUses()
    trace = KernelTrace(kernel.name, config, registers=registers, assumptions=assumptions)
    names = {id(value): name for name, value in arguments.items() if isinstance(value, DeviceArray)}

    def make_machine(blocks: NDArray[np.int64]) -> Machine:
        return Machine(
            config,
            blocks,
            counting=counting,
            kernel_name=kernel.name,
            shared_limits=shared_limits,
            names=names,
            guard=kernel.guard,
            most_instructions=CHUNK_INSTRUCTIONS if len(blocks) > 1 else None,
        )

    run = _runner(kernel, tuple(arguments.values()), names, make_machine, counting, vectorize)
    size = max(1, CHUNK_THREADS // config.threads_per_block)
    end = 0
    while end < config.blocks:
        start, end = end, min(end + size, config.blocks)
        waiting = [np.arange(start, end, dtype=np.int64)]
        while waiting:
            blocks = waiting.pop()
            if not run.vectorized and len(blocks) > 1:
                waiting.extend(blocks[::-1, None])
                continue
            machine = make_machine(blocks)
            try:
                run.run(machine)
                machine.finish()
            except BlocksDisagree as disagreement:
                machine.undo()
                waiting.extend(blocks[group] for group in reversed(disagreement.groups()))
                continue
            except TooLong:
                machine.undo()
                size = len(blocks) // 2
                waiting.extend((blocks[size:], blocks[:size]))
                continue
            except NotVectorizable as reason:
                machine.undo()
                assert isinstance(run, ThreadRunner)
                run.fall_back(reason)
                waiting.append(blocks)
                continue
            record(machine, trace)
            counters.add(machine.counters)
            touched.add_all(event.sectors.numbers for event in machine.events if event.sectors is not None)
            uses.join(machine.uses)
        if progress is not None:
            progress(end, config.blocks)
    counters.distinct_sectors = touched.count
    trace.shared_bytes = shared_limits.dynamic + counters.shared_bytes_per_block
    return Executed(counters, trace, run.vectorized, uses)


class BlockRunner:
    """Runs the blocks of one launch of a block kernel."""

    vectorized = True

    def __init__(self, kernel: BlockKernel, arguments: tuple[Any, ...], names: dict[int, str]) -> None:
        self._kernel = kernel
        self._arguments = arguments
        self._names = names

    def run(self, machine: Machine) -> None:
        """Run the blocks of `machine` at once."""
        returned = self._kernel.function(Block(machine, self._names), *self._arguments)
        if returned is not None:
            raise KernelError(
                f"kernel {self._kernel.name!r} returned {returned!r}: a kernel returns nothing, "
                "write its results with blk.store"
            )


def _runner(
    kernel: KernelFunction,
    arguments: tuple[Any, ...],
    names: dict[int, str],
    make_machine: Callable[[NDArray[np.int64]], Machine],
    counting: Counting,
    vectorize: bool | None,
) -> BlockRunner | ThreadRunner:
    if isinstance(kernel, ThreadKernel):
        lines = counting == "lines"
        return ThreadRunner(kernel, arguments, names, make_machine, count_lines=lines, vectorize=vectorize)
    assert isinstance(kernel, BlockKernel)
    return BlockRunner(kernel, arguments, names)

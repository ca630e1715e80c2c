"""Runs a kernel over its grid, or over a sample of it, and returns what it counted and its trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpusim_des.errors import KernelError, LaunchError
from gpusim_des.functional.argument_roles import roles
from gpusim_des.functional.array_use import ArrayUses
from gpusim_des.functional.array_view import base_of
from gpusim_des.functional.barriers import LeftBeforeBarrier
from gpusim_des.functional.block_kernel import Block, BlockKernel, KernelFunction
from gpusim_des.functional.counters import Counters
from gpusim_des.functional.executed_blocks import ExecutedBlocks, Runner
from gpusim_des.functional.kernel_source import NotVectorizable
from gpusim_des.functional.left_out import LeftOut
from gpusim_des.functional.machine import Counting, Machine
from gpusim_des.functional.memory import DeviceArray
from gpusim_des.functional.overflow import IndexOverflow
from gpusim_des.functional.races import EQUAL_VALUES, Race, worst_first
from gpusim_des.functional.sampling import Sampler, SampleSize
from gpusim_des.functional.shared_memory import SharedLimits
from gpusim_des.functional.thread_kernel import ThreadKernel, ThreadRunner
from gpusim_des.functional.unwritten import UnwrittenRead
from gpusim_des.functional.watch import LaunchWatch, RaceCheck
from gpusim_des.functional.watched import Watched
from gpusim_des.grid import LaunchConfig
from gpusim_des.trace import LINE_BYTES, KernelTrace, OpClass

CHUNK_THREADS = 1 << 16
"""Threads in flight: enough that NumPy's call cost is small, few enough that a chunk's arrays stay in the cache."""

CHUNK_INSTRUCTIONS = 1 << 25
"""Warp instructions of a chunk, above which fewer blocks run at once: with 50 bytes each they fill 1.6 GiB (W4)."""


class Sampling(NamedTuple):
    """That a launch is to be sampled, and what the choice of blocks depends on."""

    size: SampleSize
    wave_of: Callable[[int], int]
    """Blocks that the GPU holds at a time, given the shared memory of a block in bytes."""
    l2_bytes: int
    bytes_per_instruction: float
    """What DRAM can move in the time in which the GPU can issue a warp instruction."""


class Executed(NamedTuple):
    """What a launch left behind, beside its results in memory."""

    counters: Counters
    trace: KernelTrace
    vectorized: bool
    """Many threads ran at once; false for a thread kernel that had to run thread by thread."""
    uses: ArrayUses
    """Which parts of which arrays it read and wrote."""
    incomplete: tuple[str, ...] = ()
    """Arrays that are poison where a sample left out what the kernel would have written."""
    notes: tuple[str, ...] = ()
    """What has to be said of arrays that it read."""
    unsampled: str = ""
    """Why all blocks were executed, where a sample was asked for."""
    races: tuple[Race, ...] = ()
    """The worst first."""
    unwritten_reads: tuple[UnwrittenRead, ...] = ()
    left_before_barriers: tuple[LeftBeforeBarrier, ...] = ()
    index_overflows: tuple[IndexOverflow, ...] = ()
    unreported: dict[str, int] = {}  # noqa: RUF012 - nobody changes it
    """How often each of these happened at places of which no report was kept; equal values aside."""


def execute(
    kernel: KernelFunction,
    config: LaunchConfig,
    arguments: dict[str, Any],
    *,
    counting: Counting,
    registers: int,
    shared_limits: SharedLimits,
    l1_bytes_per_cycle: int = LINE_BYTES,
    assumptions: tuple[str, ...] = (),
    progress: Callable[[int, int], None] | None = None,
    vectorize: bool | None = None,
    watched: Watched | None = None,
    sampling: Sampling | None = None,
    watch_writes: bool = False,
    races: RaceCheck = "shared",
) -> Executed:
    """Run all blocks of a launch, or a sample of them; `progress` hears how many of how many blocks are done.

    Where blocks execute more than memory should hold, fewer run at a time (see `ExecutedBlocks`). `watch_writes`: some
    array lacks what a sampled launch left out, and this launch may fill it in. `races`: where to look for races.
    """
    watch = LaunchWatch(races, kernel.remedies)
    trace = KernelTrace(kernel.name, config, registers=registers, assumptions=assumptions)
    bases = {name: base_of(value) for name, value in arguments.items()}
    names = {id(array): name for name, array in bases.items() if isinstance(array, DeviceArray)}

    def make_machine(blocks: NDArray[np.int64]) -> Machine:
        machine = Machine(
            config,
            blocks,
            counting=counting,
            kernel_name=kernel.name,
            shared_limits=shared_limits,
            l1_bytes_per_cycle=l1_bytes_per_cycle,
            names=names,
            guard=kernel.guard,
            most_instructions=CHUNK_INSTRUCTIONS if len(blocks) > 1 else None,
            watch=watch,
        )
        if watch_writes or sampling is not None:
            machine.uses.writes = []
        return machine

    runner = _runner(kernel, tuple(arguments.values()), names, make_machine, counting, vectorize, watched or Watched())
    left_out = LeftOut()
    check = _accept if sampling is None else _refuse_dependent_blocks
    at_once = max(1, CHUNK_THREADS // config.threads_per_block)
    executed = ExecutedBlocks(runner, trace, make_machine, at_once, left_out, check)
    ran = 0

    def count(blocks: int) -> None:
        nonlocal ran
        ran += blocks
        if progress is not None:
            progress(ran, config.blocks)

    counters, unsampled = executed.counters, ""
    if sampling is None:
        executed.run(np.arange(config.blocks), count)
    else:
        sampler = Sampler(executed, *sampling, count)
        sampled = sampler.run()
        unsampled = sampler.reason
        if sampled is not None:
            counters, trace.sample = sampled
    incomplete: tuple[str, ...] = ()
    if trace.sample is None:
        counters.distinct_sectors = executed.distinct_sectors
        left_out.fill()
    else:
        dimensions = {name: len(getattr(value, "shape", ())) for name, value in arguments.items()}
        left_out.unreached(arguments, roles(kernel.function, dimensions), executed.uses)
        poisoned = left_out.poison()
        for array in poisoned:
            array.unwritten = None  # what is left out of them has a warning of its own
        incomplete = tuple(names.get(id(array), array.name) for array in poisoned)
    trace.shared_bytes = shared_limits.dynamic + counters.shared_bytes_per_block
    notes = tuple(
        f"kernel {kernel.name!r} reads array {names.get(id(array), array.name)!r}, of which a sampled launch left out "
        "a part: what it read there may be poison"
        for array in left_out.read.values()
    )
    _settle(executed.uses, sampled=trace.sample is not None)
    return Executed(
        counters,
        trace,
        runner.vectorized,
        executed.uses,
        incomplete,
        notes,
        unsampled,
        worst_first(executed.races),
        tuple(executed.unwritten),
        tuple(executed.left),
        tuple(executed.overflows),
        _unreported(executed),
    )


def _unreported(executed: ExecutedBlocks) -> dict[str, int]:
    races = sum(count for rank, count in executed.races.left_out.items() if rank < EQUAL_VALUES)
    counts = {
        "races": races,
        "unwritten_reads": executed.unwritten.left_out.total(),
        "left_before_barriers": executed.left.left_out.total(),
        "index_overflows": executed.overflows.left_out.total(),
    }
    return {kind: count for kind, count in counts.items() if count}


def _settle(uses: ArrayUses, *, sampled: bool) -> None:
    """Forget which elements were written where all were; of a sample, what it left out is known elsewhere."""
    for use in uses:
        if use.kind != "read":
            if sampled:
                use.array.unwritten = None
            use.array.settle_written()


def _accept(_: Machine) -> None:
    pass


def _refuse_dependent_blocks(machine: Machine) -> None:
    """Refuse a kernel whose blocks depend on each other: what one does would depend on blocks that are left out."""
    lines = {n: event.line for n, event in enumerate(machine.events) if event.op is OpClass.GLOBAL_ATOMIC}
    for event in machine.events if lines else ():
        read = {*event.producers, *(n for column in event.columns for n in np.unique(column).tolist())}
        for number in sorted(read & lines.keys()):
            machine.undo()
            raise LaunchError(
                f"kernel {machine.kernel_name!r} cannot be sampled: it uses the result of the atomic operation in line "
                f"{lines[number]}, so that what a block does may depend on blocks that would be left out; launch it "
                "without sample="
            )


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

    def fall_back(self, reason: NotVectorizable) -> None:
        """Block style has no other way."""
        raise reason


def _runner(
    kernel: KernelFunction,
    arguments: tuple[Any, ...],
    names: dict[int, str],
    make_machine: Callable[[NDArray[np.int64]], Machine],
    counting: Counting,
    vectorize: bool | None,
    watched: Watched,
) -> Runner:
    if isinstance(kernel, ThreadKernel):
        lines = counting == "lines"
        return ThreadRunner(
            kernel, arguments, names, make_machine, count_lines=lines, vectorize=vectorize, watched=watched
        )
    assert isinstance(kernel, BlockKernel)
    return BlockRunner(kernel, arguments, names)

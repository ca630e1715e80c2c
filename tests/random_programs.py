"""Random kernels on random small GPUs, several at once, for playing on both engines.

A kernel is written down as a few programs and who runs them, so that a case that fails is short and can be read.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from gpusim_des.errors import CycleLimitError, DeadlockError
from gpusim_des.gpu import GPU, occupancy
from gpusim_des.grid import LaunchConfig
from gpusim_des.timeline import Timeline
from gpusim_des.timing.probe import Detail
from gpusim_des.timing.simpy_engine import SimpyEngine
from gpusim_des.trace import GLOBAL_OPS, KernelTrace, Mma, OpClass, TraceChunk
from tests.programs import (
    BARRIER,
    CACHES,
    EVERYTHING,
    FENCE,
    GPUS,
    PLAIN,
    TINY,
    Part,
    bulk_copy,
    bulk_wait,
    load,
    op,
    small_l1,
    warp,
)

T = TypeVar("T")

MOSTLY_ACCESSES = (*[OpClass.GLOBAL_LOAD] * 4, *[OpClass.GLOBAL_STORE] * 3, OpClass.GLOBAL_ATOMIC, OpClass.FENCE)

ALL = (*EVERYTHING, *[OpClass.TENSOR] * 2, OpClass.FENCE)

BUSY = (
    *(OpClass.INT, OpClass.FP32, OpClass.FP64, OpClass.FP16, OpClass.CONVERSION, OpClass.SFU, OpClass.BRANCH),
    *(OpClass.TENSOR, OpClass.SHARED_LOAD, OpClass.SHUFFLE, OpClass.GLOBAL_LOAD, OpClass.GLOBAL_ATOMIC),
)
"""Classes of which a kernel may have a few only, so that its warps are in each other's way."""

PIPES = ("int", "fp32", "fp64", "fp16", "conversion", "sfu", "branch")

TENSORS = tuple(shape.encode() for shape in (Mma(8, 8, 4, "fp16"), Mma(8, 8, 6, "fp16"), Mma(16, 8, 32, "tf32")))
"""A cycle, two and 32 on the tiny GPU."""


class Kernel(NamedTuple):
    """Programs of warps; for every warp of every block the number of its program and a shift of its sectors."""

    programs: list[list[Part]]
    blocks: list[list[tuple[int, int]]]
    registers: int = 32
    shared_bytes: int = 0
    together: int = 1
    """Blocks recorded in one chunk."""
    spilled: bool = False

    def trace(self) -> KernelTrace:
        """Record the blocks; warps of one program share stream and footprint (W3)."""
        config = LaunchConfig.of(len(self.blocks), 32 * len(self.blocks[0]))
        limit = 0 if self.spilled else 1 << 20
        trace = KernelTrace(
            "k", config, registers=self.registers, shared_bytes=self.shared_bytes, memory_limit_bytes=limit
        )
        warps = [warp(*program) for program in self.programs]
        for number, made in enumerate(warps):
            trace.intern_stream(bytes([number]), made.stream)
        for first in range(0, len(self.blocks), self.together):
            blocks = self.blocks[first : first + self.together]
            numbers = np.array([[program for program, _ in block] for block in blocks], np.int32)
            bases = [warps[program].bases + shift for block in blocks for program, shift in block]
            starts = np.cumsum([0, *map(len, bases)], dtype=np.int64)
            chunk = TraceChunk.of(numbers, numbers, [w.footprint for w in warps], starts, np.concatenate(bases))
            trace.add_chunk(np.arange(first, first + len(blocks)), chunk)
        return trace


MakeEngine = Callable[..., SimpyEngine]
"""An engine, or what makes one of the same arguments."""


def outcome(play: Callable[[], Timeline]) -> Timeline | str:
    """Timeline, up to the limit where there is one, or what the engine has to say about a deadlock."""
    try:
        return play()
    except CycleLimitError as error:
        return replace(cast("Timeline", error.partial), gpu_name=str(error))
    except DeadlockError as error:
        return str(error)


class Programs(NamedTuple):
    """A GPU, and kernels, each in a stream."""

    gpu: GPU
    caches: bool
    kernels: list[Kernel]
    streams: list[int]
    max_cycles: int | None = None

    def play(self, engine: MakeEngine, detail: Detail = "sm") -> Timeline | str:
        """Play everything on an engine."""
        player = engine(self.gpu, detail, caches=self.caches)
        return outcome(lambda: player.run([k.trace() for k in self.kernels], self.streams, self.max_cycles))

    def __str__(self) -> str:
        """Code that makes the case again."""
        lines = [shown(self.gpu), f"caches={self.caches}", "kernels=[", *(f"    {k}," for k in self.kernels), "]"]
        lines += [f"streams={self.streams}", f"max_cycles={self.max_cycles}"]
        return code("Programs", lines)


def code(name: str, lines: list[str]) -> str:
    """Write a call with its arguments on lines of their own."""
    return "\n".join([f"{name}(", *(f"    {line}{',' * (line[-1] not in '[,')}" for line in lines), ")"])


def shown(gpu: GPU) -> str:
    """Code that makes a GPU from the tiny one."""
    changes = {name: getattr(gpu, name) for name in gpu.changed if hasattr(gpu, name)}
    changes = {name: value for name, value in changes.items() if value != getattr(TINY, name)}
    for pipe, original in zip(gpu.pipes, TINY.pipes, strict=True):
        if pipe.name != "branch" and pipe.latency_cycles != original.latency_cycles:
            changes[f"{pipe.name}_latency_cycles"] = pipe.latency_cycles
        if pipe.lanes != original.lanes:
            changes[f"{pipe.name}_lanes"] = pipe.lanes
        if pipe.sustained != original.sustained:
            changes[f"{pipe.name}_sustained"] = pipe.sustained
        if pipe.shared_by_sm != original.shared_by_sm:
            changes[f"{pipe.name}_scope"] = "sm" if pipe.shared_by_sm else "sub-partition"
    said = {name: repr(str(value) if isinstance(value, Fraction) else value) for name, value in changes.items()}
    return f"TINY.replace({', '.join(f'{name}={value}' for name, value in said.items())})"


# Drawing --------------------------------------------------------------------------------------------------------------


class Dice(random.Random):
    """Draws; the same seed means the same case, on every platform and with every version of a library."""

    def one(self, among: Sequence[T]) -> T:
        """One of several; those that come more than once come more often."""
        return among[self.randrange(len(among))]

    def once_in(self, times: int) -> bool:
        """True once in so many times."""
        return self.randrange(times) == 0

    def some(self, among: Sequence[T], most: int) -> list[T]:
        """Up to so many different ones, in their order."""
        count = min(self.randint(0, most), len(among))
        return [among[place] for place in sorted(self.sample(range(len(among)), count))]


def machine(dice: Dice) -> GPU:
    """Make a small GPU with all kinds of numbers, more kinds than the referees of the laws know."""
    changes: dict[str, Any] = {name: dice.one(values) for name, values in GPUS.items()}
    if not dice.once_in(5):
        changes |= {name: dice.one(values) for name, values in CACHES.items()}
        changes |= small_l1(dice.one([256, 512, 1024]), all_shared=dice.once_in(5))
    changes |= {f"{pipe}_scope": dice.one(["sub-partition", "sub-partition", "sm"]) for pipe in PIPES}
    changes["branch_lanes"] = dice.one([4, 8, 16])
    changes[f"{dice.one(PIPES)}_sustained"] = dice.one(["2/3", "9/10", "5/17"])
    # On the smallest a warp of 255 or 128 registers per thread takes all of a sub-partition.
    changes |= dict.fromkeys(("registers_per_sm", "registers_per_block"), dice.one([1 << 14, 1 << 14, 1 << 15]))
    changes["channel_interleave"] = dice.one(["256 B", "256 B", "512 B"])
    slots = dice.one([4, 8, 16, 16])
    changes |= {"max_warps_per_sm": slots, "max_threads_per_sm": 32 * slots, "max_threads_per_block": 32 * slots}
    if dice.once_in(5):  # so slow that programs go on over several windows of offered load (M6)
        changes |= {"sm_clock": "10 MHz", "dram_bandwidth": "500 MB/s"}
    changes |= {"sms": dice.one([1, 1, 2, 3]), "sub_partitions": dice.one([1, 2, 2, 4, 4])}
    changes |= {"max_blocks_per_sm": dice.one([1, 2, 3, 4, 4, min(slots, 6)])}
    return TINY.replace(
        **changes,
        max_concurrent_kernels=dice.randint(1, 4),
        hardware_queues=dice.one([1, 2, 32]),
        late_kernel_signals=dice.one(["no", "yes"]),
    )


def instruction(dice: Dice, index: int, kind: OpClass, span: int) -> Part:
    """Make an instruction at place `index`: up to three operands, accesses near each other."""
    deps = tuple(dice.some(range(max(0, index - 6), index), 3))
    operand, sectors, passes = 0, tuple[int, ...](), tuple[int, ...]()
    if kind in GLOBAL_OPS:
        operand, first = dice.one([0, 4, 16]), dice.randint(0, span)
        sectors = tuple(first + offset for offset in dice.some(range(1, span // 2), dice.one([5, 5, 9]))) or (first,)
    if kind is OpClass.GLOBAL_ATOMIC and dice.once_in(2):
        passes = tuple(dice.randint(1, 9) for _ in sectors)
    if kind is OpClass.GLOBAL_STORE and dice.once_in(2):
        passes = tuple(dice.randint(1, 2) for _ in sectors)
    if kind is OpClass.TENSOR:
        operand = dice.one(TENSORS)
    if kind is OpClass.BULK_WAIT:
        operand = dice.randint(0, 1)
    return Part(kind, deps, dice.one([4, 4, 5, 8, 19]), sectors, operand, passes, dice.one([32, 32, 32, 7, 1]))


def program(dice: Dice, classes: Sequence[OpClass], span: int) -> list[Part]:
    """Make a warp's program, now and then an empty one; bulk copies begin before anything that waits for them."""
    parts: list[Part] = []
    if OpClass.BULK_WAIT in classes:
        for _ in range(dice.randint(0, 2)):
            first = dice.randint(0, span)
            parts.append(bulk_copy(range(first, first + 12), phase=dice.randint(0, 1)))
    for segment in range(dice.one([1, 1, 2, 3])):
        if segment:
            parts.append(BARRIER)
        for _ in range(dice.randint(0, 9)):
            parts.append(instruction(dice, len(parts), dice.one(classes), span))
    return [*parts, op(OpClass.EXIT)] if dice.once_in(2) else parts


STUCK = [bulk_wait(7), bulk_copy(range(4), phase=7)]
"""Waits for what only starts behind it."""


REGISTERS = (32, 32, 96, 128, 255)


def kernel(dice: Dice, gpu: GPU, *, stuck: bool = False, width: int = 0, most: int = 255) -> Kernel:
    """Make a kernel that fits the GPU: up to eight blocks of up to four warps, of up to three programs."""
    few = [dice.one(BUSY) for _ in range(dice.randint(1, 3))]
    classes = dice.one([MOSTLY_ACCESSES, PLAIN, ALL, ALL, few])
    span = dice.one([14, 40])
    made = [program(dice, classes, span) for _ in range(dice.randint(1, 3))]
    if stuck:
        made[-1] = [*made[-1], *STUCK]
    width = width or dice.randint(1, 4)
    blocks = [
        [(dice.randrange(len(made)), dice.one([0, 0, 1, 4, 9])) for _ in range(width)]
        for _ in range(dice.one([1, 2, 3, 5, 8]))
    ]
    shared = dice.one([0, 0, 120, 256])
    fitting = [n for n in REGISTERS if n <= most and occupancy(gpu, 32 * width, n, shared).blocks_per_sm]
    registers = fitting[-1] if width == 1 else dice.one(fitting)
    return Kernel(made, blocks, registers, shared, dice.one([1, 3, 8]), dice.once_in(4))


def several_kernels(dice: Dice, gpu: GPU) -> list[Kernel]:
    """Make up to three kernels, some more than once: kernels that are equal end at one instant here and there."""
    stuck = dice.once_in(8)
    if dice.once_in(3):
        # Where the warp of the first fills its sub-partition, those of the second pass it by (I2).
        made = [kernel(dice, gpu, width=1), kernel(dice, gpu, stuck=stuck, width=4, most=32)]
        longer = [*made[0].programs[0], FENCE, *[load([9]), FENCE] * 4]
        made[0] = made[0]._replace(programs=[longer], blocks=[[(0, 0)]] * gpu.sms)
    else:
        made = [kernel(dice, gpu, stuck=stuck and not n) for n in range(dice.one([1, 1, 2, 3]))]
    return made + [dice.one(made) for _ in range(dice.one([0, 0, 1, 2]))]


def any_programs(dice: Dice) -> Programs:
    """Make a few kernels of a few blocks on a small GPU, with all classes of instructions."""
    gpu = machine(dice)
    made = several_kernels(dice, gpu)
    limit = dice.randint(1, 200) if dice.once_in(8) else None
    streams = [dice.randint(0, 2) for _ in made] if dice.once_in(2) else [n % 3 for n in range(len(made))]
    return Programs(gpu, not dice.once_in(3), made, streams, limit)

"""Valid programs at the edges: what is long, wide, deep, far away or many, on GPUs with the smallest and largest parts.

And invalid ones, made of valid ones by changing their arrays at random.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpusim_des.errors import ModelError
from gpusim_des.gpu import GPU
from gpusim_des.trace import KernelTrace, OpClass, Stream, TraceChunk
from tests.programs import FENCE, Part, atomic, bulk_copy, bulk_wait, fp32, load, store
from tests.random_host_programs import HostPrograms, any_host_programs
from tests.random_programs import ALL, Dice, Kernel, Programs, any_programs, instruction

MOST_COST = 12_000
"""Of all warps of a case together, so that the SimPy engine is through in a second."""

AnyCase = Programs | HostPrograms

# Programs -------------------------------------------------------------------------------------------------------------


def long_program(dice: Dice) -> list[Part]:
    """Many instructions of all classes."""
    return [instruction(dice, n, dice.one(ALL), 40) for n in range(dice.randint(100, 1500))]


def fan_in(dice: Dice) -> list[Part]:
    """Many results that one instruction waits for, some of them over and over."""
    parts = [dice.one([load([n % 50]), fp32(), atomic([n % 7])]) for n in range(dice.randint(20, 300))]
    return [*parts, *[fp32(*range(len(parts) - dice.randint(0, 9)))] * 3, fp32(*[0] * 100)]


def wide_accesses(dice: Dice) -> list[Part]:
    """Accesses of 32 lanes and more, each in a line of its own."""
    parts = []
    for _ in range(dice.randint(1, 30)):
        lines = dice.sample(range(4096), dice.one([32, 64, 200]))
        sectors = tuple(sorted(4 * line + dice.randint(0, 3) for line in lines))
        kind = dice.one([OpClass.GLOBAL_LOAD, OpClass.GLOBAL_STORE, OpClass.GLOBAL_ATOMIC, OpClass.ASYNC_COPY])
        passes = (32,) * len(sectors) if kind is OpClass.GLOBAL_ATOMIC else ()
        parts.append(Part(kind, (), dice.one([4, 128, 1 << 20]), sectors, 16, passes))
    return parts


def bulk(dice: Dice) -> list[Part]:
    """Large bulk copies, many at once, of many phases."""
    phases = dice.one([1, 3, 60])
    parts = [
        bulk_copy(range(first, first + dice.one([1, 100, 7000])), phase=dice.randrange(phases))
        for first in (dice.randint(0, 100_000) for _ in range(dice.randint(1, 40)))
    ]
    return [*parts, *(bulk_wait(dice.randrange(phases)) for _ in range(5))]


def many_stores(dice: Dice) -> list[Part]:
    """Stores that nobody waits for, as many as a buffer holds and more, and then a fence."""
    parts = [store(range(9 * n, 9 * n + dice.randint(1, 32))) for n in range(dice.randint(50, 400))]
    return [*parts, FENCE, load([0]), FENCE]


def scattered_stores(dice: Dice) -> list[Part]:
    """Stores that fall into many packets, all of them under way at once."""
    step = dice.one([8, 16, 4096])
    return [store(range(64 * step * n, 64 * step * (n + 1), step)) for n in range(dice.randint(50, 300))]


def far_away(dice: Dice) -> list[Part]:
    """Sectors at the end of memory."""
    end = 1 << 55
    return [
        dice.one([load, store, atomic])([end - dice.randint(1, 1 << 40), end + dice.randint(0, 1 << 50)])
        for _ in range(dice.randint(1, 20))
    ]


def nothing(_: Dice) -> list[Part]:
    """An empty program."""
    return []


PROGRAMS: tuple[Callable[[Dice], list[Part]], ...] = (
    long_program,
    fan_in,
    wide_accesses,
    bulk,
    many_stores,
    scattered_stores,
    far_away,
    nothing,
)

# GPUs -----------------------------------------------------------------------------------------------------------------

EXTREMES: tuple[dict[str, Any], ...] = (
    {"load_store_queue_depth": 1},
    {"load_store_queue_depth": 256},
    {"store_buffer": "32 B"},
    {"store_buffer": "16384 KiB"},
    {"l2_size": "1 B"},
    {"l2_size": "4096 MiB"},
    {"dram_channels": 64, "l2_bandwidth": "4 TB/s", "dram_bandwidth": "4 TB/s"},
    {"dram_channels": 64, "l2_bandwidth": "4 TB/s", "dram_bandwidth": "4 TB/s", "store_buffer": "16384 KiB"},
    {"dram_channels": 1},
    {"channel_interleave": "1 MiB"},
    {"sms": 40},
    {"sub_partitions": 1},
    {"max_warps_per_sm": 64, "max_threads_per_sm": 2048, "max_threads_per_block": 1024, "max_blocks_per_sm": 32},
    {"dram_latency": 1 << 24},
    {"block_start": 1 << 24},
    {"block_end": 1 << 24},
    {"barrier_latency": 1 << 24},
    {"atomic_interval": 1 << 24},
    {"fp32_latency_cycles": 1 << 24},
    {"bulk_overhead": 1 << 24},
    {"fp32_sustained": "1/65536"},
    {"dispatch_interval_fs": 10**16},
    {"sm_clock": "1 MHz", "dram_latency": 1 << 16},
    {"max_concurrent_kernels": 1 << 16},
    {"hardware_queues": 1},
    {"port_in": 1, "port_out": 1, "l2_latency": 1000, "l2_far_latency": 1100, "dram_latency": 2000},
    {"request_size": "1024 KiB", "l2_latency": 1 << 20, "l2_far_latency": 1 << 21, "dram_latency": 1 << 22},
    {"l2_partitions": 2},
)


def extreme_gpu(dice: Dice, gpu: GPU) -> GPU:
    """Change a few numbers to the least or the most that is legal, where they do not contradict others."""
    for _ in range(dice.randint(1, 4)):
        with suppress(ModelError):
            gpu = gpu.replace(**dice.one(EXTREMES))
    return gpu


# Cases ----------------------------------------------------------------------------------------------------------------


def cost(program: list[Part]) -> int:
    """What a warp costs: its instructions and sectors."""
    return 1 + sum(1 + len(part.sectors) // 4 for part in program)


def affordable(program: list[Part], most: int) -> list[Part]:
    """Cut a program off where it becomes too dear."""
    costs = accumulate(cost([part]) for part in program)
    return [part for part, so_far in zip(program, costs, strict=True) if so_far <= most]


def extreme_kernel(dice: Dice, gpu: GPU, most: int) -> Kernel:
    """Make a kernel of extreme programs, of as many warps as there is time for."""
    programs = [affordable(dice.one(PROGRAMS)(dice), most) for _ in range(dice.randint(1, 3))]
    warps = max(1, most // max(map(cost, programs)))
    width = min(dice.one([1, 3, 8, 32]), warps, gpu.max_warps_per_sm, gpu.max_threads_per_block // 32)
    count = min(dice.one([1, 5, 40, 300]), max(1, warps // width))
    blocks = [[(dice.randrange(len(programs)), dice.one([0, 1, 37])) for _ in range(width)] for _ in range(count)]
    return Kernel(programs, blocks, 16, 0, dice.one([1, 7, 300]), dice.once_in(4))


def extreme_case(dice: Dice) -> AnyCase:
    """Make a case in which much is at an edge."""
    case: AnyCase = any_host_programs(dice) if dice.once_in(3) else any_programs(dice)
    gpu = extreme_gpu(dice, case.gpu)
    many = isinstance(case, Programs) and dice.once_in(8)
    launches = 30 if many else len(case.kernels) if isinstance(case, Programs) else 2 * len(case.calls)
    most = MOST_COST // launches
    kernels = [extreme_kernel(dice, gpu, most) if dice.once_in(2) else kernel for kernel in case.kernels]
    limit = dice.randint(1, 1 << dice.randint(1, 24)) if dice.once_in(4) else None
    if many and isinstance(case, Programs):
        kernels = [dice.one(kernels)._replace(blocks=[[(0, 0)]]) for _ in range(launches)]
        case = case._replace(streams=[dice.randint(0, 40) for _ in kernels])
    return case._replace(gpu=gpu, kernels=kernels, max_cycles=limit)


# Invalid traces -------------------------------------------------------------------------------------------------------

NUMBERS = (
    *(-1, 0, 1, 2, 3, 4, 31, 32, 33, 255, 256, 65_535, 65_536),
    *((1 << 31) - 1, 1 << 31, 1 << 40, -(1 << 62), 1 << 62),
)


def changed_array(dice: Dice, array: NDArray[Any]) -> Any:
    """Change something about an array: a number or a few, its length, its type, its shape."""
    what = dice.randrange(10)
    if not isinstance(array, np.ndarray):
        return array
    if what == 0:
        return array[:-1] if dice.once_in(2) else np.append(array.ravel(), dice.one(NUMBERS))
    if what == 1:
        others: list[Any] = [array.astype(float), array.astype(object), [1, 2], None]
        return dice.one([*others, array[None], array.ravel(), array[::-1]])
    wide = array.astype(np.int64).copy()
    for _ in range(dice.one([1, 1, 2, 5])):
        if wide.size:
            place = dice.randrange(wide.size)
            near = int(wide.flat[place]) + dice.randint(-3, 3)
            wide.flat[place] = near if dice.once_in(2) else dice.one(NUMBERS)
    kinds = [array.dtype, array.dtype, *map(np.dtype, (np.int64, np.uint64, np.int32, np.int8, np.uint8))]
    return wide.astype(dice.one(kinds))


def changed_trace(dice: Dice, trace: KernelTrace) -> KernelTrace:
    """Change some arrays of a trace: of its streams, or of its chunks, footprints included."""
    for _ in range(dice.one([1, 1, 1, 3])):
        if dice.once_in(3) and trace.streams:
            number = dice.randrange(len(trace.streams))
            field = dice.one(tuple(Stream.__dataclass_fields__))
            stream = trace.streams[number]
            trace.streams[number] = replace(stream, **{field: changed_array(dice, getattr(stream, field))})
        else:
            number = dice.randrange(len(trace._store))
            chunk = TraceChunk(*trace._store.get(number))
            field = dice.one(tuple(TraceChunk.__dataclass_fields__))
            chunk = replace(chunk, **{field: changed_array(dice, getattr(chunk, field))})
            trace._store._groups[number] = chunk.arrays()
    return trace

"""Branches and loops of different lengths: instructions, active threads and cycles, on paper and counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gpusim_des.analytic import arithmetic_interval
from gpusim_des.check_result import check_result
from gpusim_des.device import Device
from gpusim_des.functional.thread_kernel import ThreadKernel
from gpusim_des.gpu import GPU
from gpusim_des.grid import WARP_SIZE

CHAIN = 64
"""Multiply-adds of each way, in the shorter one of two runs."""
ROUND = 128
"""Multiply-adds of a round of the loop, in four chains: a warp or two keep a scheduler busy."""
LOOP = 3
"""Other instructions of a round: add and compare of its counter, branch."""
LONGEST = 6
"""Rounds of a lane, at most."""

Trips = npt.NDArray[np.int32]


@dataclass(frozen=True)
class DivergencePoint:
    """What the longer one of two runs does more than the shorter one; what they share cancels out."""

    label: str
    instructions: int
    """Warp instructions."""
    formula_instructions: int
    threads: float
    """Active in an instruction, mean."""
    formula_threads: float
    cycles: float
    formula_cycles: float
    latency_cycles: float = 0
    """What a chain of dependent instructions takes; 0 where it does not limit."""


def more(
    chip: GPU, threads: int, kernels: Callable[[int], tuple[ThreadKernel, Sequence[Any]]], operations: Any
) -> tuple[int, float, float]:
    """Run once and twice the work; returns instructions, threads per instruction and cycles of what is more.

    A thread begins with its number, and applies x · 0.5 + 1 as often as `operations` says: it halves the distance to 2.
    """
    found = []
    for times in (1, 2):
        kernel, arguments = kernels(times)
        dev = Device(chip)
        there = [dev.to_device(a) if isinstance(a, np.ndarray) else a for a in arguments]
        out = dev.malloc(threads, np.float32)
        dev.forget_launches()
        launch = dev.launch(kernel, 1, threads, *there[:1], out, *there[1:], registers=32)
        seconds = dev.simulate(detail="kernel").kernels[0].seconds
        halved = 0.5 ** (times * np.asarray(operations, float))
        check_result(dev.to_host(out), 2 + (np.arange(threads) - 2) * halved, rtol=1e-5)
        found.append((launch.counters.warp_instructions, launch.counters.active_lanes, seconds))
    instructions, lanes, seconds = (b - a for a, b in zip(*found, strict=True))
    return int(instructions), lanes / instructions, chip.cycles(seconds)


def branches(
    chip: GPU, branch: Callable[[int, str, int], ThreadKernel], ways: int, by: str, threads: int
) -> DivergencePoint:
    """Branch on the number of the thread or of the warp; `branch` makes the kernel for ways, ``by`` and a chain."""
    warps, gone = threads // WARP_SIZE, ways if by == "thread" else 1  # ways that a warp goes
    lone = warps <= chip.sub_partitions
    instructions, active, cycles = more(chip, threads, lambda times: (branch(ways, by, times * CHAIN), ()), CHAIN)
    return DivergencePoint(
        f"{by} number mod {ways}" + (", one warp per scheduler" if lone else ""),
        instructions,
        warps * gone * CHAIN,
        active,
        WARP_SIZE / gone,
        cycles,
        warps * gone * CHAIN * arithmetic_interval(chip) / chip.sub_partitions,
        gone * CHAIN * chip.pipe("fp32").latency_cycles if lone else 0,
    )


def loops(chip: GPU, loop: ThreadKernel, label: str, trips: Trips) -> DivergencePoint:
    """Each lane has a number of rounds; its warp goes on to the largest of them."""
    longest = trips.reshape(-1, WARP_SIZE).max(axis=1)
    rounds = int(longest.sum())
    busiest = max(int(longest[k :: chip.sub_partitions].sum()) for k in range(chip.sub_partitions))
    per_round = max(ROUND + LOOP, ROUND * arithmetic_interval(chip), 2 * arithmetic_interval(chip, "int"))
    instructions, active, cycles = more(chip, len(trips), lambda times: (loop, (trips, times)), ROUND // 4 * trips)
    return DivergencePoint(
        f"loop, {label}",
        instructions,
        rounds * (ROUND + LOOP),
        active,
        float(trips.sum() / rounds),
        cycles,
        busiest * per_round,
    )


def trip_counts(threads: int) -> dict[str, Trips]:
    """Rounds of each thread, by a name for all of them."""
    random = np.random.default_rng(0).integers(1, LONGEST + 1, threads).astype(np.int32)
    one = np.where(np.arange(threads) % WARP_SIZE == 0, LONGEST, 1).astype(np.int32)
    return {
        f"{LONGEST} rounds each": np.full(threads, LONGEST, np.int32),
        f"random, 1 to {LONGEST}": random,
        "the same, sorted": np.sort(random),
        f"one lane {LONGEST}, others 1": one,
    }

"""Divergence: a warp goes every way that one of its lanes takes, and idle lanes cost as much as busy ones.

A warp has one instruction at a time for its 32 lanes. Where they branch into k ways, it issues the instructions of all
k, each with the lanes of that way: k times the instructions, 32 / k active threads in each, k times the time. A branch
on the warp's number costs nothing of the kind, since all lanes of a warp go one way. A loop runs as long as its longest
lane: max(trips) rounds a warp, so that sorting the work by its length can halve the time, and one long lane in each
warp costs as much as 32 of them. Where warps have different lengths, the busiest scheduler counts.

The time formula, instructions / issue rate, assumes that the schedulers always find a warp to issue. With one warp for
each of them nothing hides that an instruction needs the result of the one before: it takes its latency, not its share.

    gpusim-des experiment divergence --gpu h100-sxm --out out
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

import gpusim_des as gs
from gpusim_des.gpu import PIPE_FRACTION
from gpusim_des.units import FS_PER_S

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GPU = "h100-sxm"
WAYS, QUICK_WAYS = (1, 2, 4, 8, 16, 32), (1, 4, 16)
CHAIN = 64
"""Multiply-adds of each way, in the shorter one of two runs."""
ROUND = 128
"""Multiply-adds of a round of the loop, in four chains: a warp or two keep a scheduler busy."""
LOOP = 3
"""Other instructions of a round: add and compare of its counter, branch."""
LONGEST = 6
"""Rounds of a lane, at most."""


def branch(ways: int, by: str, chain: int) -> gs.ThreadKernel:
    """Lanes, or warps, take one of several ways; each way is a chain of multiply-adds."""

    @gs.kernel
    def kernel(t: Any, out: Any) -> None:
        x = np.float32(t.threadIdx.x)
        key = t.threadIdx.x % ways if by == "thread" else t.warp % ways
        for way in range(ways):
            if key == way:
                for _ in range(chain):
                    x = x * np.float32(0.5) + np.float32(1)
        out[t.threadIdx.x] = x

    return kernel


@gs.kernel
def loop(t: Any, trips: Any, out: Any, times: int) -> None:
    """Each lane has rounds of its own number."""
    w = x = y = z = np.float32(t.threadIdx.x)
    for _ in range(times * trips[t.threadIdx.x]):
        for _ in range(ROUND // 4):
            w = w * np.float32(0.5) + np.float32(1)
            x = x * np.float32(0.5) + np.float32(1)
            y = y * np.float32(0.5) + np.float32(1)
            z = z * np.float32(0.5) + np.float32(1)
    out[t.threadIdx.x] = (w + x + y + z) * np.float32(0.25)


@dataclass(frozen=True)
class DivergencePoint:
    """What the longer one of two runs does more than the shorter one; what they share cancels out."""

    label: str
    instructions: int
    """Warp instructions."""
    formula_instructions: int
    threads_per_instruction: float
    formula_threads: float
    cycles: float
    formula_cycles: float
    latency_cycles: float = 0
    """What a chain of dependent instructions takes; 0 where it does not limit."""


def more(
    chip: gs.GPU, threads: int, kernels: Callable[[int], tuple[gs.ThreadKernel, Sequence[Any]]], operations: Any
) -> tuple[int, float, float]:
    """Run once and twice the work; returns instructions, threads per instruction and cycles of what is more."""
    found = []
    for times in (1, 2):
        kernel, arguments = kernels(times)
        dev = gs.Device(chip)
        there = [dev.to_device(a) if isinstance(a, np.ndarray) else a for a in arguments]
        out = dev.malloc(threads, np.float32)
        dev.forget_launches()
        launch = dev.launch(kernel, 1, threads, *there[:1], out, *there[1:], registers=32)
        k, expected = dev.simulate(detail="kernel").kernels[0], polynomial(threads, times * operations)
        if not np.allclose(dev.to_host(out), expected, rtol=1e-5):
            raise AssertionError("results differ from NumPy's: this is a bug of the simulator")
        found.append((launch.counters.warp_instructions, launch.counters.active_lanes, k.seconds))
    instructions, lanes, seconds = (b - a for a, b in zip(*found, strict=True))
    return int(instructions), lanes / instructions, seconds * FS_PER_S / chip.sm_period_fs


def polynomial(threads: int, operations: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """What x · 0.5 + 1, applied again and again, comes to: it halves the distance from 2."""
    result: npt.NDArray[np.float64] = 2 + (np.arange(threads) - 2) * 0.5 ** np.asarray(operations, float)
    return result


def branches(chip: gs.GPU, ways: int, by: str, threads: int) -> DivergencePoint:
    """Branch on the number of the thread or of the warp."""
    counted = more(chip, threads, lambda times: (branch(ways, by, times * CHAIN), ()), CHAIN)
    warps, gone = threads // 32, ways if by == "thread" else 1  # ways that a warp goes
    cycles = warps * gone * CHAIN * interval(chip) / chip.sub_partitions
    lone = warps <= chip.sub_partitions
    return DivergencePoint(
        f"{by} number mod {ways}" + (", one warp per scheduler" if lone else ""),
        counted[0],
        warps * gone * CHAIN,
        counted[1],
        32 / gone,
        counted[2],
        cycles,
        gone * CHAIN * chip.pipe("fp32").latency_cycles if lone else 0,
    )


def loops(chip: gs.GPU, label: str, trips: npt.NDArray[np.int32]) -> DivergencePoint:
    """Each lane has a number of rounds; its warp goes on to the largest of them."""
    threads = len(trips)
    counted = more(chip, threads, lambda times: (loop, (trips, times)), ROUND // 4 * trips)
    longest = trips.reshape(-1, 32).max(axis=1)
    rounds, busiest = (
        int(longest.sum()),
        max(int(longest[k :: chip.sub_partitions].sum()) for k in range(chip.sub_partitions)),
    )
    per_round = max(ROUND + LOOP, ROUND * interval(chip), 2 * interval(chip, "int"))
    return DivergencePoint(
        f"loop, {label}",
        counted[0],
        rounds * (ROUND + LOOP),
        counted[1],
        float(trips.sum() / rounds),
        counted[2],
        busiest * per_round,
    )


def interval(chip: gs.GPU, pipe: str = "fp32") -> float:
    """Cycles that a warp instruction takes in its pipe, at least the one in which it is issued."""
    return max(1.0, chip.pipe(pipe).sustained_interval / PIPE_FRACTION)


def trip_counts(threads: int) -> dict[str, npt.NDArray[np.int32]]:
    """Rounds of each thread, by a name for all of them."""
    random = np.random.default_rng(0).integers(1, LONGEST + 1, threads).astype(np.int32)
    one = np.where(np.arange(threads) % 32 == 0, LONGEST, 1).astype(np.int32)
    return {
        f"{LONGEST} rounds each": np.full(threads, LONGEST, np.int32),
        f"random, 1 to {LONGEST}": random,
        "the same, sorted": np.sort(random),
        f"one lane {LONGEST}, others 1": one,
    }


def compared(points: Sequence[DivergencePoint]) -> gs.Comparison:
    """Instructions and threads, which are equal, and time."""
    labels, lone = [p.label for p in points], [p for p in points if p.latency_cycles]
    cycles = [p.cycles for p in points]
    return (
        gs.compare(
            *([p.formula_instructions for p in points], [p.instructions for p in points]),
            name="sum over the ways, or the longest lane",
            quantity="warp instructions",
            labels=labels,
            tolerance=0,
        )
        + gs.compare(
            *([p.formula_threads for p in points], [p.threads_per_instruction for p in points]),
            name="32 / ways, or mean / longest × 32",
            quantity="active threads per instruction",
            labels=labels,
            tolerance=1e-12,
        )
        + gs.compare(
            *([p.formula_cycles for p in points], cycles),
            name="instructions / issue rate",
            quantity="time (cycles)",
            labels=labels,
            explain={p.label: "nothing else to issue while an instruction waits for the one before" for p in lone},
            explained_up_to={p.label: gs.experiment.reach(p.formula_cycles, p.latency_cycles) for p in lone},
            assumes="schedulers always find a warp to issue",
        )
        + gs.compare(
            *([p.latency_cycles for p in lone], [p.cycles for p in lone]),
            name="ways × chain × latency",
            quantity="time (cycles)",
            labels=[p.label for p in lone],
            assumes="one warp per scheduler",
        )
    )


def draw(chip: gs.GPU, points: Sequence[DivergencePoint]) -> Axes:
    left, right = gs.views.side_by_side([6.8, 6.2], height=5.4, title=f"Divergence on {chip.title}")
    labels = [p.label.replace(", one warp per scheduler", ", lone warps") for p in points]
    first = points[0].cycles
    share = [p.cycles / first for p in points]
    marks = [p.formula_cycles / points[0].formula_cycles for p in points]
    gs.views.bars(
        labels, share, marks, ax=left, xlabel="time, relative to no divergence", title="Every way takes its time"
    )
    gs.views.bars(
        [""] * len(points),
        [p.threads_per_instruction for p in points],
        [p.formula_threads for p in points],
        ax=right,
        xlabel="active threads per instruction",
        title="The rest of the 32 lanes idles",
    )
    return left


def main(
    gpu: str = GPU, out: Path | None = None, *, quick: bool = False
) -> tuple[list[DivergencePoint], gs.Comparison]:
    chip = gs.load_gpu(gpu).slice(sms=1)
    threads = chip.max_threads_per_block
    ways = QUICK_WAYS if quick else WAYS
    points = [branches(chip, k, "thread", threads) for k in ways]
    points.append(branches(chip, 4, "warp", threads))
    points.append(branches(chip, 4, "thread", 32 * chip.sub_partitions))
    points += [loops(chip, label, trips) for label, trips in trip_counts(threads).items()]
    print(f"{chip.title}, {threads} threads")
    table = compared(points)
    print(table)
    if out is not None:
        gs.views.save(draw(chip, points), out / "divergence.png")
        print(f"written: {out / 'divergence.png'}")
    return points, table


if __name__ == "__main__":
    gs.experiment.script(main)

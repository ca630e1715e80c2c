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

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import gpusim_des as gs
from gpusim_des.textbook.divergence import ROUND, DivergencePoint, branches, loops, trip_counts

GPU = "h100-sxm"
WAYS, QUICK_WAYS = (1, 2, 4, 8, 16, 32), (1, 4, 16)
LONE = "nothing else to issue while an instruction waits for the one before"


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


def compared(points: Sequence[DivergencePoint]) -> gs.Comparison:
    """Instructions and threads, which are equal, and time."""
    return (
        gs.experiment.compare_points(
            points,
            lambda p: p.formula_instructions,
            lambda p: p.instructions,
            name="sum over the ways, or the longest lane",
            quantity="warp instructions",
            tolerance=0,
        )
        + gs.experiment.compare_points(
            points,
            lambda p: p.formula_threads,
            lambda p: p.threads,
            name="32 / ways, or mean / longest × 32",
            quantity="active threads per instruction",
            tolerance=1e-12,
        )
        + gs.experiment.compare_points(
            points,
            lambda p: p.formula_cycles,
            lambda p: p.cycles,
            name="instructions / issue rate",
            quantity="time (cycles)",
            because=lambda p: (
                (LONE, gs.experiment.reach(p.formula_cycles, p.latency_cycles)) if p.latency_cycles else None
            ),
            assumes="schedulers always find a warp to issue",
        )
        + gs.experiment.compare_points(
            [p for p in points if p.latency_cycles],
            lambda p: p.latency_cycles,
            lambda p: p.cycles,
            name="ways × chain × latency",
            quantity="time (cycles)",
            assumes="one warp per scheduler",
        )
    )


def draw(chip: gs.GPU, points: Sequence[DivergencePoint], path: Path) -> None:
    left, right = gs.views.side_by_side([6.8, 6.2], height=5.4, title=f"Divergence on {chip.title}")
    gs.views.bars(
        [p.label.replace(", one warp per scheduler", ", lone warps") for p in points],
        [p.cycles / points[0].cycles for p in points],
        [p.formula_cycles / points[0].formula_cycles for p in points],
        ax=left,
        xlabel="time, relative to no divergence",
        title="Every way takes its time",
    )
    gs.views.bars(
        [""] * len(points),
        [p.threads for p in points],
        [p.formula_threads for p in points],
        ax=right,
        xlabel="active threads per instruction",
        title="The rest of the 32 lanes idles",
    )
    gs.experiment.save(left, path)


def main(
    gpu: str = GPU, out: Path | None = None, *, quick: bool = False
) -> tuple[list[DivergencePoint], gs.Comparison]:
    chip = gs.load_gpu(gpu).slice(sms=1)
    threads = chip.max_threads_per_block
    points = [branches(chip, branch, ways, "thread", threads) for ways in (QUICK_WAYS if quick else WAYS)]
    points.append(branches(chip, branch, 4, "warp", threads))
    points.append(branches(chip, branch, 4, "thread", 32 * chip.sub_partitions))
    points += [loops(chip, loop, label, trips) for label, trips in trip_counts(threads).items()]
    print(f"{chip.title}, {threads} threads")
    table = compared(points)
    print(table)
    if out is not None:
        draw(chip, points, out / "divergence.png")
    return points, table


if __name__ == "__main__":
    gs.experiment.script(main)

"""Occupancy sweep: block size × registers × shared memory, and why the highest occupancy is not the fastest.

A kernel reads an array, one, four or sixteen elements per thread, all loads under way before the first is used
(``gpusim_des/textbook/reading.py``). More elements take more registers, so that fewer warps fit; but each brings more
bytes under way, and it is bytes that hide a latency, not warps (Volkov 2010). Shared memory that a block reserves takes
warps away and gives nothing back here.

Three limits make the time, and the slowest of them counts: the DRAM (bytes / bandwidth, after the first latency), the
block scheduler (blocks × interval: small blocks that live for a moment cannot be handed out fast enough, whatever
would fit), and latency (Little's law for blocks: waves × the time of a block that is alone). The formula assumes that
blocks do not disturb each other; where latency and DRAM come close, they queue, and the time is above it.

The occupancy calculator says how many blocks fit. So many are resident at a time, unless the block scheduler is too
slow; the achieved occupancy is lower, for slots stand empty while blocks start and end.

    gpusim-des experiment occupancy_sweep --gpu h100-sxm --out out
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import gpusim_des as gs
from gpusim_des.textbook.occupancy_sweep import OccupancyRun, draw, measure, shapes

GPU = "h100-sxm"
SMS = 2  # of the slice: every SM has its share of the DRAM and of the block scheduler
THREADS, QUICK_THREADS = (64, 256, 1024), (64, 256)
LOADS, QUICK_LOADS = (1, 4, 16), (1, 16)
SHARED, QUICK_SHARED = (0, 1 / 5, 1 / 3), (0, 1 / 3)  # of an SM's shared memory, for a block


def not_placed(r: OccupancyRun) -> tuple[str, float] | None:
    """Why fewer blocks than fit were on an SM."""
    if r.limiter != "block scheduler":
        return None
    why = (
        f"the first blocks, {r.block_us:.2f} µs each, end before the block scheduler has placed so many, one every "
        f"{r.chip.dispatch_interval_fs / 1e6:.3g} ns"
    )
    return why, gs.experiment.reach(r.shape.occupancy.blocks_per_sm, r.placed - 1)


def compared(runs: Sequence[OccupancyRun]) -> gs.Comparison:
    """Blocks that fit, occupancy, and time."""
    return (
        gs.experiment.compare_points(
            runs,
            lambda r: r.shape.occupancy.blocks_per_sm,
            lambda r: r.most_resident,
            name="occupancy calculator",
            quantity="blocks on an SM at a time",
            tolerance=0,
            because=not_placed,
        )
        + gs.experiment.compare_points(
            runs,
            lambda r: 100 * r.kernel.theoretical_occupancy,
            lambda r: 100 * r.kernel.achieved_occupancy,
            name="theoretical occupancy",
            quantity="achieved occupancy (%)",
            because=lambda r: (
                f"{r.slot_taken}, by warps {r.present:.0%} of that",
                gs.experiment.reach(r.kernel.theoretical_occupancy, r.littles_occupancy),
            ),
            assumes="slots are never empty",
        )
        + gs.experiment.compare_points(
            [r for r in runs if r.limiter != "DRAM"] or runs,
            lambda r: 100 * r.littles_occupancy,
            lambda r: 100 * r.kernel.achieved_occupancy,
            name="Little's law, W = stay of a lone block's warps",
            quantity="achieved occupancy (%)",
            because=lambda r: (r.among_others, r.queues),
            assumes="blocks do not wait for the DRAM",
        )
        + gs.experiment.compare_points(
            runs,
            lambda r: max(r.limits_us.values()),
            lambda r: r.us,
            name="max(DRAM, block scheduler, latency)",
            quantity="time (µs)",
            because=lambda r: (
                f"{r.among_others}; {r.slot_taken}, the DRAM busy {r.kernel.dram_utilization:.0%}",
                r.queues,
            ),
            assumes="blocks do not disturb each other",
        )
    )


def main(gpu: str = GPU, out: Path | None = None, *, quick: bool = False) -> tuple[list[OccupancyRun], gs.Comparison]:
    whole = gs.load_gpu(gpu)
    chip = whole.slice(sms=min(SMS, whole.sms))
    choice = (QUICK_LOADS, QUICK_THREADS, QUICK_SHARED) if quick else (LOADS, THREADS, SHARED)
    runs = [measure(chip, shape) for shape in shapes(chip, *choice)]
    table = compared(runs)
    print(f"{chip.title}\n{table}\n")
    for r in sorted(runs, key=lambda r: r.us):
        k = r.kernel
        occupancies = f"{k.theoretical_occupancy:6.1%} {k.achieved_occupancy:6.1%}"
        print(f"{r.us:8.2f} µs  {occupancies}  {r.shape.label:<32} limited by {r.limiter}")
    best, most = min(runs, key=lambda r: r.us), max(runs, key=lambda r: r.kernel.theoretical_occupancy)
    print(
        f"fastest at {best.kernel.theoretical_occupancy:.1%} occupancy, {best.us:.2f} µs; {most.shape.label} takes "
        f"{most.us:.2f} µs at {most.kernel.theoretical_occupancy:.1%}"
    )
    if out is not None:
        draw(runs, whole, out / "occupancy_sweep.png")
    return runs, table


if __name__ == "__main__":
    gs.experiment.script(main)

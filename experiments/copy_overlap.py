"""Copy and compute at once: why several streams are faster, and why pageable memory ruins it.

Data is copied to the GPU, computed, and copied back. In one piece the steps follow each other. Cut into chunks, each in
a stream of its own, the copies in, the kernels and the copies out form a pipeline: ``sum + (chunks - 1) × slowest``.
More chunks are better until the latency of each copy outweighs what they gain. With one copy engine the two directions
take turns. Pageable memory ruins it all: its copies block the host, which issues nothing meanwhile that could overlap;
if all copies in come first (breadth-first), at least the kernels run together.

The order of the calls matters as well. Breadth-first the host has called for all copies in and all kernels before it
calls for the first copy out, and with many short chunks the device waits for it. Two old chips add their own rules:
with one hardware queue and one copy engine the next copy in waits behind the copy out (C1060, depth-first), and a Fermi
tells that kernels have ended when the last of a row has, so that no copy out can start before (C2050, breadth-first).

    python experiments/copy_overlap.py --gpu tiny --out out
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import numpy as np

import gpusim_des as gs
from gpusim_des.analytic import Issue
from gpusim_des.textbook.copy_overlap import ROUNDS, THREADS, OverlapPoint, measure

GPU = "tiny"
KIB, QUICK_KIB = 256, 64
CHUNKS, QUICK_CHUNKS = (1, 2, 4, 8, 16), (1, 2, 4)
SHOWN_CHUNKS = 4
"""Chunks in the figure of timelines."""
BLOCKED = "a copy of pageable memory blocks the host, which issues nothing meanwhile that could overlap"


@gs.block_kernel
def halve(blk: gs.Block, a: gs.DeviceArray, c: gs.DeviceArray) -> None:
    """One small block per SM, which waits for each load: slow on purpose, so that it shows beside the copies."""
    for k in range(ROUNDS):
        i = (blk.bx * ROUNDS + k) * THREADS + blk.tx
        blk.store(c, i, blk.load(a, i) * np.float32(0.5))


def compared(chip: gs.GPU, points: Sequence[OverlapPoint], nbytes: int) -> gs.Comparison:
    """Each way beside its formula, and pageable memory beside the pipeline, which it cannot be."""
    last = max((p for p in points if not p.pinned), key=lambda p: (p.chunks, p.engines, p.issue == "depth-first"))
    to, back = (gs.analytic.link(chip, way, pinned=False).seconds(nbytes / last.chunks) for way in ("h2d", "d2h"))
    pipeline_us = 1e6 * gs.analytic.pipeline_seconds(last.chunks, to, last.kernel_us / 1e6, back)
    return gs.experiment.compare_points(
        points,
        lambda p: p.formula_us,
        lambda p: p.simulated_us,
        name="sum of stages + (chunks − 1) × slowest",
        quantity="time (µs)",
        label=lambda p: f"{p.chunks} chunks: {p.label}",
        assumes="copies and kernels overlap; of pageable memory, all that the host's waiting leaves",
    ) + gs.experiment.compare_points(
        [last],
        lambda _: pipeline_us,
        lambda p: p.simulated_us,
        name="the same for pageable memory",
        quantity="time (µs)",
        label=lambda p: f"{p.chunks} chunks: {p.label}",
        because=lambda p: (BLOCKED, gs.experiment.reach(pipeline_us, p.formula_us)),
        assumes="copies that do not block the host",
    )


def draw(points: Sequence[OverlapPoint], title: str, path: Path) -> None:
    """Draw the time over the chunks; ways that differ in nothing share a curve."""
    shown = {
        "pinned, 2 copy engines": (True, 2, "depth-first"),
        "pinned, 1 copy engine": (True, 1, "depth-first"),
        "pageable, breadth-first": (False, 2, "breadth-first"),
        "pageable, depth-first": (False, 2, "depth-first"),
    }
    found = {label: [p for p in points if (p.pinned, p.engines, p.issue) == way] for label, way in shown.items()}
    ax = gs.views.curves(
        sorted({p.chunks for p in points}),
        [gs.views.Curve(n, [p.simulated_us for p in ps], [p.formula_us for p in ps]) for n, ps in found.items()],
        xlabel="chunks, each in a stream of its own",
        ylabel="time (µs)",
        title=title,
        logarithmic=True,
    )
    gs.experiment.save(ax, path)


def main(
    gpu: str = GPU,
    out: Path | None = None,
    chunks: Sequence[int] | None = None,
    kib: int | None = None,
    *,
    quick: bool = False,
) -> tuple[list[OverlapPoint], gs.Comparison]:
    chunks = chunks or (QUICK_CHUNKS if quick else CHUNKS)
    kib = kib or (QUICK_KIB if quick else KIB)
    whole = gs.load_gpu(gpu)
    points = [
        measure(whole.replace(copy_engines=engines), halve, kib * 1024, number, issue, pinned=pinned)
        for pinned in (True, False)
        for engines in (2, 1)
        for issue in get_args(Issue)
        for number in chunks
    ]
    title = f"{kib:,} KiB copied in, halved, copied out on {whole.title}"
    print(title)
    table = compared(whole, points, kib * 1024)
    print(table)
    number = SHOWN_CHUNKS if SHOWN_CHUNKS in chunks else max(chunks)
    several = [p for p in points if p.chunks == number]
    best, worst = min(several, key=lambda p: p.simulated_us), max(several, key=lambda p: p.simulated_us)
    for name, point in (("best", best), ("worst", worst)):
        print(f"\n{name} of {number} chunks: {point.label}\n{point.sim.overlap()}")
    if out is not None:
        one = next(p for p in points if p.chunks == min(chunks))
        runs = {f"{p.chunks} stream{'s' * (p.chunks > 1)}, {p.label}": p.sim for p in (one, best, worst)}
        draw(points, title, out / "copy_overlap.png")
        gs.experiment.save(gs.views.compare_streams(runs), out / "copy_overlap_timelines.png")
    return points, table


if __name__ == "__main__":
    gs.experiment.script(main, kib=f"KiB copied each way (default: {KIB}, with --quick {QUICK_KIB})")

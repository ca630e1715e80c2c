"""Histogram: atomic operations on one address follow each other, however many threads wait.

Each value adds one to its bin. In global memory the L2 does that, one operation after another on an address: if all n
values fall into one bin, time = latency + n × interval, and neither more threads nor more SMs help. Values that are
spread over the bins meet less often. A copy of the bins in each block's shared memory takes the crowd apart: every SM
serialises its own values only, n / SMs passes of the load/store unit, and the L2 sees one operation for each bin and
block.

The formulas take the busiest part alone: operations on the busiest address of each sector, and sectors, in the L2 slice
that has most of them; passes in the load/store units; bytes in DRAM. They assume that this part never waits for the
others. On a chip with next to no latencies, where other parts are far from busy, twice the values take so much longer;
its scheduler is greedy, for warps that take turns compute addresses all at once, while the load/store unit idles.
The L2's slices are dealt out in turn here, so that one can say on paper which slice has a bin; real GPUs scramble them.

    gpusim-des experiment histogram --gpu h100-sxm --out out
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import gpusim_des as gs
from gpusim_des.experiment import reach
from gpusim_des.textbook.histogram import BINS, REGISTERS, THREADS, VALUES, HistogramPoint, distributions, measure

GPU = "h100-sxm"
SMS = 4
N, QUICK_N = 1 << 18, 1 << 16


@gs.kernel
def in_global(t: Any, values: Any, bins: Any) -> None:
    """Every value is an atomic operation in global memory."""
    i, step = t.blockIdx.x * VALUES * THREADS + t.threadIdx.x, THREADS
    v0, v1, v2, v3 = values[i], values[i + step], values[i + 2 * step], values[i + 3 * step]
    bins.atomic_add(v0, 1)
    bins.atomic_add(v1, 1)
    bins.atomic_add(v2, 1)
    bins.atomic_add(v3, 1)


@gs.kernel
def in_shared(t: Any, values: Any, bins: Any) -> Any:
    """A copy of the bins for each block; at its end they are added up."""
    mine = t.shared("mine", (BINS,), np.int32)
    mine[t.threadIdx.x] = 0
    i, step = t.blockIdx.x * VALUES * THREADS + t.threadIdx.x, THREADS
    v0, v1, v2, v3 = values[i], values[i + step], values[i + 2 * step], values[i + 3 * step]
    yield t.syncthreads()
    mine.atomic_add(v0, 1)
    mine.atomic_add(v1, 1)
    mine.atomic_add(v2, 1)
    mine.atomic_add(v3, 1)
    yield t.syncthreads()
    bins.atomic_add(t.threadIdx.x, mine[t.threadIdx.x])


def compared(points: Sequence[HistogramPoint]) -> gs.Comparison:
    """Passes, which are equal; n × interval; and the busiest part."""
    us = partial(gs.experiment.compare_points, simulated=lambda p: p.kernel.seconds * 1e6, quantity="time (µs)")
    at_once = "each SM serialises its own values, and all SMs work at once"
    return (
        gs.experiment.compare_points(
            points,
            lambda p: p.formula,
            lambda p: p.counted,
            name="lanes that meet",
            quantity="passes of atomic operations",
            tolerance=0,
        )
        + us(
            [p for p in points if p.label.endswith("one bin")],
            lambda p: p.hot_s * 1e6,
            name="latency + n × interval",
            because=lambda p: (at_once, reach(p.hot_s, p.limit_s)) if p.label == "shared, one bin" else None,
            assumes="all operations on one address in the L2",
        )
        + us(
            points,
            lambda p: p.limit_s * 1e6,
            name="latency + busiest part",
            because=lambda p: (p.explanation, p.reach),
            assumes="the busiest part never waits for the others",
        )
        + gs.experiment.compare_points(
            points,
            lambda p: p.alone_formula_s * 1e6,
            lambda p: p.alone_s * 1e6,
            name="busiest part, where nothing else limits",
            quantity="what twice the values take longer (µs)",
            assumes="next to no latencies, and other parts far from busy",
        )
    )


def main(gpu: str = GPU, out: Path | None = None, *, quick: bool = False) -> tuple[list[HistogramPoint], gs.Comparison]:
    whole = gs.load_gpu(gpu)
    # Slices of the L2 in turn, so that the formula can say which one has a bin; a hash spreads them like balls in bins.
    part = whole.slice(sms=min(SMS, whole.sms))
    chip = part.replace(channel_hash="linear", title=part.title)
    fit = gs.analytic.occupancy(chip, threads=THREADS, registers=REGISTERS, shared_bytes=4 * BINS)
    wave = THREADS * VALUES * chip.sms * fit.blocks_per_sm
    n = round((QUICK_N if quick else N) / wave) * wave  # whole waves: every SM gets as many blocks
    kernels = (in_global, in_shared)
    points = [measure(chip, k, *way, shared=k is in_shared) for k in kernels for way in distributions(n).items()]
    print(f"{n:,} values, {BINS} bins, {chip.title}")
    table = compared(points)
    print(table)
    if out is not None:
        us = [p.kernel.seconds * 1e6 for p in points]
        axes = gs.views.bars(
            [p.label for p in points],
            us,
            [p.limit_s * 1e6 for p in points],
            xlabel="time (µs)",
            title=f"Histogram of {n:,} values on {chip.title}",
            notes=[f"{t:.3g}   {p.limiter}" for t, p in zip(us, points, strict=True)],
            formula_label="formula: latency + busiest part",
        )
        gs.experiment.save(axes, out / "histogram.png")
    return points, table


if __name__ == "__main__":
    gs.experiment.script(main)

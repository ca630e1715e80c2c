"""Latency hiding: bandwidth of a memory-bound kernel against active warps, beside Little's law.

A warp that waits for memory does nothing; enough warps hide the wait. Little's law says how many: bytes in flight =
bandwidth × latency. The experiment runs a vector add at rising occupancy three times: as the chip is, with blocks that
start and end in no time, and with loads and stores alone, which is all that the law knows of. Each step comes closer to
the law; what remains at the end is transfer and queues. With the time that a block really takes in place of the
latency, the law holds in every run; what a short run lacks is the time of one block at its two ends.

    python experiments/latency_hiding.py --gpu h100-sxm --sms 16 --out out
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

import gpusim_des as gs
from gpusim_des.functional.machine import Counting
from gpusim_des.textbook.latency_hiding import (
    BYTES_PER_WARP,
    ELEMENTS_PER_THREAD,
    THREADS,
    OccupancyPoint,
    dram_limit_gbs,
    explanation,
    measure,
    occupancies,
    table,
    vector_add,
)

GPU = "h100-sxm"
SMS, QUICK_SMS = 16, 4
FRACTIONS, QUICK_FRACTIONS = (1 / 16, 1 / 8, 1 / 4, 3 / 8, 1 / 2, 1), (1 / 16, 1 / 4, 1)


AS_IT_IS = "as it is"
WHY = {
    AS_IT_IS: "a block holds its slot longer than the latency: it starts, computes, and ends",
    "no block cost": "a block holds its slot longer than the latency: arithmetic, issue, transfer and queues",
    "loads and stores only": "transfer and queues come on top of the latency",
}
"""What Little's law with the DRAM's latency leaves out in each run."""
FILLED = "with many blocks others fill a part of the ends"
QUEUES = 0.1  # of the bandwidth: warps meet at the load/store units, the ports and the DRAM
RAMP = "the run is short: the DRAM is less busy while the first blocks start and the last ones end"


def with_ends(chip: gs.GPU, name: str, p: OccupancyPoint) -> float:
    """Bandwidth of a run that starts and ends, GB/s: the law with the measured time, and once a block alone."""
    nbytes = p.gbs * p.microseconds * 1e3
    alone = chip.dram_latency_cycles
    if name == AS_IT_IS:
        alone += chip.block_start_cycles + chip.block_end_cycles
    return nbytes / (nbytes / p.with_measured_time_gbs + alone / chip.sm_clock_hz * 1e9)


def alone_s(model: gs.GPU, count: Counting) -> float:
    """Seconds that a block holds its slot which has the GPU for itself."""
    n = THREADS * ELEMENTS_PER_THREAD
    a, b, c = (np.zeros(n, np.float32) for _ in range(3))
    return gs.experiment.alone_s(model, vector_add, THREADS, a, b, c, n, count=count)


def compared(
    chip: gs.GPU, results: Mapping[str, Sequence[OccupancyPoint]], alone: Mapping[str, float]
) -> gs.Comparison:
    """Little's law with the DRAM's latency, with the time that a block really holds its slot, and with both ends.

    What the first one leaves out is known from a block that is alone, but for the queues: `alone`, its seconds.
    """
    tables = []
    for name, points in results.items():
        latency, measured = [p.littles_law_gbs for p in points], [p.with_measured_time_gbs for p in points]
        whole = [with_ends(chip, name, p) for p in points]
        least = [
            (1 - QUEUES) * gs.analytic.littles_law_bandwidth(chip, p.warps_per_sm, BYTES_PER_WARP, alone[name], "mixed")
            for p in points
        ]
        for law, formula, why, most in (
            ("DRAM latency", latency, WHY[name], [bound / 1e9 for bound in least]),
            ("measured time of a block", measured, RAMP, whole),
            ("measured time, and the run's two ends", whole, FILLED, measured),
        ):
            labels = [f"{name}, {p.label} occupancy" for p in points]
            reach = [gs.experiment.reach(f, bound) for f, bound in zip(formula, most, strict=True)]
            tables.append(
                gs.compare(
                    formula,
                    [p.gbs for p in points],
                    name=f"Little's law, W = {law}",
                    quantity="bandwidth (GB/s)",
                    labels=labels,
                    explain=why,
                    explained_up_to=dict(zip(labels, reach, strict=True)),
                    assumes="a steady state, and no limit but DRAM",
                )
            )
    return sum(tables[1:], tables[0])


def main(
    gpu: str = GPU,
    out: Path | None = None,
    sms: int | None = None,
    fractions: Sequence[float] | None = None,
    *,
    quick: bool = False,
) -> tuple[dict[str, list[OccupancyPoint]], gs.Comparison]:
    sms = sms or (QUICK_SMS if quick else SMS)
    fractions = fractions or (QUICK_FRACTIONS if quick else FRACTIONS)
    whole = gs.load_gpu(gpu)
    chip = whole.slice(sms=min(sms, whole.sms))
    ideal = chip.replace(block_start_cycles=0, block_end_cycles=0)
    results, alone = {}, {}
    runs: tuple[tuple[str, gs.GPU, Counting], ...] = (
        (AS_IT_IS, chip, "auto"),
        ("no block cost", ideal, "auto"),
        ("loads and stores only", ideal, "declared"),
    )
    for name, model, count in runs:
        points = [measure(model, blocks, count=count)[0] for blocks in occupancies(model, fractions)]
        results[name], alone[name] = points, alone_s(model, count)
        print(f"{chip.title}, {name}\n{table(points)}\n")
    comparison = compared(chip, results, alone)
    print(f"{comparison}\n")
    print(explanation(chip, results[AS_IT_IS]))
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        # Each curve beside the law with its own latency: the second one includes the time a block starts and ends.
        rows = [
            replace(point, label=name, littles_law_gbs=point.with_block_cost_gbs)
            for name, points in results.items()
            for point in points
        ]
        axes = gs.views.latency_curve(
            rows,
            peak_gbs=dram_limit_gbs(chip),
            peak_label="DRAM, reads and writes mixed",
            title=f"Latency hiding: vector add on {chip.title}",
        )
        gs.views.save(axes, out / "latency_hiding.png")
        print(f"\nwritten: {out / 'latency_hiding.png'}")
    return results, comparison


if __name__ == "__main__":
    gs.experiment.script(main, sms=f"SMs of the slice that is simulated (default: {SMS}, with --quick {QUICK_SMS})")

"""Latency hiding: bandwidth of a memory-bound kernel against active warps, beside Little's law.

A warp that waits for memory does nothing; enough warps hide the wait. Little's law says how many: bytes in flight =
bandwidth × latency. The experiment runs a vector add at rising occupancy three times: as the chip is, with blocks that
start and end in no time, and with loads and stores alone, which is all that the law knows of. Each step comes closer to
the law; what remains at the end is transfer and queues. With the time that a block really takes in place of the
latency, the law holds in every run.

    python experiments/latency_hiding.py --gpu h100-sxm --sms 16 --out out
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import gpusim_des as gs
from gpusim_des.functional.machine import Counting
from gpusim_des.latency_hiding import OccupancyPoint, dram_limit_gbs, explanation, measure, occupancies, table

GPU = "h100-sxm"
SMS = 16
FRACTIONS = (1 / 16, 1 / 8, 1 / 4, 3 / 8, 1 / 2, 1)


def summary(points: Sequence[OccupancyPoint]) -> str:
    """How far the simulation is from Little's law at most, with each time that the law may count."""
    differences = {
        "DRAM latency": [p.difference for p in points],
        "latency + block": [p.difference_with_block_cost for p in points],
        "measured time of a block": [p.gbs / p.with_measured_time_gbs - 1 for p in points],
    }
    return "farthest from Little's law: " + ", ".join(
        f"{max(values, key=abs):+.1%} with W = {name}" for name, values in differences.items()
    )


def main(
    gpu: str = GPU, sms: int = SMS, out: Path | None = None, fractions: Sequence[float] = FRACTIONS
) -> dict[str, list[OccupancyPoint]]:
    whole = gs.load_gpu(gpu)
    chip = whole.slice(sms=min(sms, whole.sms))
    ideal = chip.replace(block_start_cycles=0, block_end_cycles=0)
    results = {}
    runs: tuple[tuple[str, gs.GPU, Counting], ...] = (
        ("as it is", chip, "auto"),
        ("no block cost", ideal, "auto"),
        ("loads and stores only", ideal, "declared"),
    )
    for name, model, count in runs:
        points = [measure(model, blocks, count=count)[0] for blocks in occupancies(model, fractions)]
        results[name] = points
        print(f"{chip.title}, {name}\n{table(points)}")
        print(summary(points) + "\n")
    print(explanation(chip, results["as it is"]))
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
    return results


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", default=GPU)
    parser.add_argument("--sms", type=int, default=SMS)
    parser.add_argument("--out", type=Path, default=Path("out"))
    options = parser.parse_args()
    main(options.gpu, options.sms, options.out)

"""Latency hiding: bandwidth of a memory-bound kernel against active warps, beside Little's law.

A warp that waits for memory does nothing; enough warps hide the wait. Little's law says how many: bytes in flight =
bandwidth × latency. The experiment runs a vector add at rising occupancy twice, as the chip is and with blocks that
start and end in no time, and shows that the second follows the law and why the first stays below.

    python experiments/latency_hiding.py --gpu h100-sxm --sms 16 --out out
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import gpusim_des as gs
from gpusim_des.latency_hiding import OccupancyPoint, explanation, measure, occupancies, table

GPU = "h100-sxm"
SMS = 16
FRACTIONS = (1 / 16, 1 / 8, 3 / 16, 1 / 4, 3 / 8, 1 / 2, 3 / 4, 1)


def main(
    gpu: str = GPU, sms: int = SMS, out: Path | None = None, fractions: Sequence[float] = FRACTIONS
) -> dict[str, list[OccupancyPoint]]:
    whole = gs.load_gpu(gpu)
    chip = whole.slice(sms=min(sms, whole.sms))
    ideal = chip.replace(block_start_cycles=0, block_end_cycles=0)
    results = {}
    for name, model in (("as it is", chip), ("blocks start and end in no time", ideal)):
        points = [measure(model, blocks)[0] for blocks in occupancies(model, fractions)]
        results[name] = points
        print(f"{model.title}, {name}\n{table(points)}\n")
    print(explanation(chip, results["as it is"]))
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        # Each curve beside the law with its own latency: the second one includes the time a block starts and ends.
        rows = [
            replace(point, label=name, littles_law_gbs=point.with_block_cost_gbs)
            for name, points in results.items()
            for point in points
        ]
        peak = chip.dram_bandwidth_bytes_per_s * float(chip.dram_efficiency_mixed) / 1e9
        axes = gs.views.latency_curve(rows, peak_gbs=peak, title=f"Latency hiding: vector add on {chip.title}")
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

"""Latency hiding: bandwidth of a memory-bound kernel against active warps, beside Little's law.

A warp that waits for memory does nothing; enough warps hide the wait. Little's law says how many: bytes in flight =
bandwidth × latency. The experiment runs a vector add at rising occupancy three times: as the chip is; with blocks that
start and end in no time, on a DRAM that is as fast for reads and writes apart as for both mixed; and there with loads
and stores alone, which is all that the law knows of. Each step comes closer to the law; what remains at the end is
transfer and queues. With the time that a block really takes in place of the latency, the law holds in every run; what a
short run lacks is the time of one block at its two ends.

    python experiments/latency_hiding.py --gpu h100-sxm --sms 16 --out out
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import gpusim_des as gs
from gpusim_des.experiment import reach
from gpusim_des.functional.machine import Counting
from gpusim_des.textbook import latency_hiding as textbook
from gpusim_des.textbook.latency_hiding import OccupancyPoint, dram_limit_gbs, law_gbs, measure

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
QUEUES = 0.1  # of the bandwidth: warps meet at the load/store units, the ports and the DRAM
RAMP = "the run is short: the DRAM is less busy while the first blocks start and the last ones end"


def compared(chip: gs.GPU, name: str, points: Sequence[OccupancyPoint], alone_s: float) -> gs.Comparison:
    """Little's law with the DRAM's latency, with the time that a block really holds its slot, and with both ends.

    What the first one leaves out is known from a block that is alone, but for the queues: `alone_s`.
    """
    law = partial(
        gs.experiment.compare_points,
        points,
        simulated=lambda p: p.gbs,
        quantity="bandwidth (GB/s)",
        label=lambda p: f"{name}, {p.label} occupancy",
        assumes="a steady state, and no limit but DRAM and the block scheduler",
    )

    def filled(p: OccupancyPoint) -> str:
        return (
            "other blocks fill a part of the ends, and reads and writes come apart: while it is busy, the DRAM moves "
            f"{p.while_busy_gbs:.4g} GB/s and not {dram_limit_gbs(chip):.4g}"
        )

    return (
        law(
            lambda p: p.littles_law_gbs,
            name="Little's law, W = DRAM latency",
            because=lambda p: (
                WHY[name],
                reach(p.littles_law_gbs, (1 - QUEUES) * law_gbs(chip, p.warps_per_sm, alone_s)),
            ),
        )
        + law(
            lambda p: p.with_measured_time_gbs,
            name="Little's law, W = measured time of a block",
            because=lambda p: (RAMP, reach(p.with_measured_time_gbs, p.with_ends_gbs)),
        )
        + law(
            lambda p: p.with_ends_gbs,
            name="Little's law, W = measured time, and the run's two ends",
            because=lambda p: (filled(p), reach(p.with_ends_gbs, p.with_measured_time_gbs)),
        )
    )


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
    ideal = textbook.without_turning(chip).replace(block_start_cycles=0, block_end_cycles=0)
    runs: Mapping[str, tuple[gs.GPU, Counting]] = {
        AS_IT_IS: (chip, "auto"),
        "no block cost": (ideal, "auto"),
        "loads and stores only": (ideal, "declared"),
    }
    results, comparison = {}, gs.Comparison(())
    for name, (model, count) in runs.items():
        results[name] = [measure(model, blocks, count=count)[0] for blocks in textbook.occupancies(model, fractions)]
        comparison += compared(model, name, results[name], textbook.lone_block_s(model, count))
        print(f"{chip.title}, {name}\n{textbook.table(results[name])}\n")
    print(f"{comparison}\n")
    print(textbook.explanation(chip, results[AS_IT_IS]))
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
        gs.experiment.save(axes, out / "latency_hiding.png")
    return results, comparison


if __name__ == "__main__":
    gs.experiment.script(main, sms=f"SMs of the slice that is simulated (default: {SMS}, with --quick {QUICK_SMS})")

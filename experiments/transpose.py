"""Transpose: reading and writing cannot both be coalesced, until a tile in shared memory turns the matrix.

A warp that reads a row of the matrix writes a column of the result: 4 sectors in, 32 out, of which an eighth each is
wanted; and the other way round. Through a tile of 32 × 32 both sides are rows of 4 sectors, but the column is now read
from shared memory, where the rows of the tile begin in the same bank: 32 passes. A tile of 33 columns spreads them over
all banks, and the transpose is as fast as a copy.

Time = start and latency + the longer of DRAM (sectors × 32 bytes / bandwidth) and load/store unit (a cycle for a pass).
It assumes that nothing is moved twice or merged, caches="off", that DRAM is as fast for reads and writes apart as for
both mixed, that addresses are spread over the channels, and that enough is under way to keep the busiest part busy.
On a chip with next to no latencies and room in every queue, where other parts are far from busy, that is so: there a
larger matrix takes longer by just that.
With caches the naive kernels come closer: the L1 keeps what is read, and the L2 collects a sector from eight warps,
though each part that is written takes its slice as long as several sectors that are read.

    gpusim-des experiment transpose --gpu h100-sxm --out out
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import gpusim_des as gs
from gpusim_des.textbook.transpose import VARIANTS, TransposePoint, explanation, ideal, measure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GPU = "h100-sxm"
SMS = 2
N, QUICK_N = 768, 320


def compared(chip: gs.GPU, points: Sequence[TransposePoint]) -> gs.Comparison:
    """Sectors and passes, which are equal, and time."""
    off = [p for p in points if p.caches == "off"]

    def counts(k: int, name: str, quantity: str) -> gs.Comparison:
        shown = [p for p in off if p.formula[k]]
        return gs.experiment.compare_points(
            shown, lambda p: p.formula[k], lambda p: p.counted[k], name=name, quantity=quantity, tolerance=0
        )

    return (
        counts(0, "4 for a row, 32 for a column", "sectors of a load")
        + counts(1, "4 for a row, 32 for a column", "sectors of a store")
        + counts(2, "gcd(columns of the tile, 32)", "passes of a load from the tile")
        + gs.experiment.compare_points(
            points,
            lambda p: p.formula_s * 1e6,
            lambda p: p.kernel.seconds * 1e6,
            name="latency + max(DRAM, load/store unit)",
            quantity="time (µs)",
            because=lambda p: (explanation(chip, p), p.reach),
            assumes="nothing is moved twice or merged, and the busiest part never waits",
        )
        + gs.experiment.compare_points(
            off,
            lambda p: p.alone_formula_s * 1e6,
            lambda p: p.alone_s * 1e6,
            name="busiest part, where nothing else limits",
            quantity="what twice the elements take longer (µs)",
            assumes="next to no latencies, and other parts far from busy",
        )
    )


def draw(chip: gs.GPU, points: Sequence[TransposePoint], n: int) -> Axes:
    return gs.views.bars(
        [p.label for p in points],
        [p.useful_bytes / p.kernel.seconds / 1e9 for p in points],
        [p.useful_bytes / p.formula_s / 1e9 for p in points],
        xlabel="useful bandwidth, reads and writes (GB/s)",
        title=f"Transpose of {n:,} × {n:,} floats on {chip.title}",
        notes=[
            f"{p.useful_bytes / p.kernel.seconds / 1e9:.0f}   {p.counted[0]:.0f} + {p.counted[1]:.0f} sectors"
            + (f", passes: {p.counted[2]:.0f}" if p.formula[2] else "")
            for p in points
        ],
        formula_label="formula, without caches",
    )


def main(gpu: str = GPU, out: Path | None = None, *, quick: bool = False) -> tuple[list[TransposePoint], gs.Comparison]:
    whole = gs.load_gpu(gpu)
    chip = ideal(whole.slice(sms=min(SMS, whole.sms)))
    n = QUICK_N if quick else N
    points = [measure(chip, name, n, "off") for name in VARIANTS]
    points += [measure(chip, name, n, "on") for name in VARIANTS if name.startswith("naive")]
    print(f"{n:,} × {n:,} floats on {chip.title}")
    table = compared(chip, points)
    print(table)
    if out is not None:
        gs.experiment.save(draw(chip, points, n), out / "transpose.png")
    return points, table


if __name__ == "__main__":
    gs.experiment.script(main)

"""Tile quantization: a matrix product takes whole tiles, and the GPU takes whole waves of them.

Each block computes a tile of the result. One row or column more than the tiles cover needs another row or column of
tiles, which are nearly empty and take about as long as full ones (tile quantization). One tile more than the SMs hold
at a time needs another wave, in which most SMs idle (wave quantization). So time climbs in steps, and utilisation is a
sawtooth: time = ⌈tiles / capacity⌉ × time of a tile, with tiles = ⌈m / tile_m⌉ × ⌈n / tile_n⌉.

Registers let one block fill an SM, as in the large tiles of fast libraries, and the time of a tile is that of a block
that is alone. What the formula leaves out is small and known: tiles are handed out one by one, the last results have to
be written, and tiles at the edge load less. Where DRAM is slow for its SMs, tiles also queue for their loads, and take
longer than alone; with a DRAM 16 times as fast they do not, and the times of lone tiles, handed one after the other to
the SM that is free first, give the time of the product. The formula breaks where an SM holds two blocks: they share its
schedulers and its load/store unit, so that a tile takes longer than alone, though two take less than twice the time.
The time of a full wave is too much in turn: an SM starts its next tile when one of two has ended, so that waves
overlap, and in a last wave some SMs have one tile.

    gpusim-des experiment tile_quantization --gpu h100-sxm --out out
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

import gpusim_des as gs
from gpusim_des.experiment import reach
from gpusim_des.textbook.tile_quantization import FAST, TILE_M, TILE_N, Lone, TilePoint, measure, run
from gpusim_des.views import Law, Simulated

GPU = "h100-sxm"
SMS = 4  # of the slice
SIZES = (16, 32, 33, 48, 64, 65, 80, 81, 96, 97, 112, 113, 128, 129, 144)  # rows and columns of the result
QUICK_SIZES = (32, 33, 64, 65, 96)
TWO_PER_SM, QUICK_TWO_PER_SM = (32, 64, 65, 96, 128), (32, 64, 65)  # sizes with two blocks on an SM
ONE = "one block fills an SM"


times = partial(gs.experiment.compare_points, simulated=lambda p: p.us, quantity="time (µs)")


def one_per_sm(points: Sequence[TilePoint], calm: Sequence[TilePoint]) -> gs.Comparison:
    """Whole waves; then what they leave out, bit by bit. In `calm` DRAM is fast."""
    handing = "tiles are handed out one by one, the last results must be written"
    return (
        times(
            *(points, lambda p: p.waves_us),
            name="waves × time of a tile",
            assumes=ONE,
            because=lambda p: (f"{handing}, and {p.queued}", reach(p.waves_us, p.most_us, 0)),
        )
        + times(
            *(points, lambda p: p.waves_us + p.rest_us),
            name="the same, and handing out and the last writes",
            assumes=f"{ONE}, and tiles do not queue for their loads",
            because=lambda p: (f"{p.queued}: loads queue", reach(p.waves_us + p.rest_us, p.most_us, 0)),
        )
        + times(
            *(points, lambda p: p.put_together_us(p.tiles_us)),
            name="times of tiles among others, each on the SM that is free first",
            assumes=f"{ONE}, and tiles do not queue for their writes",
            because=lambda p: (p.written, reach(p.put_together_us(p.tiles_us), p.last_writes_us, 0)),
        )
        + times(
            *(calm, lambda p: p.put_together_us(p.lone_us)),
            name=f"times of lone tiles, each on the SM that is free first, DRAM {FAST} times as fast",
            assumes=f"{ONE}, and DRAM is far from busy",
        )
    )


def two_per_sm(chip: gs.GPU, points: Sequence[TilePoint]) -> gs.Comparison:
    """Where it breaks: two blocks on an SM.

    Each formula bounds what the other one leaves out: tiles among others are slower than a lone one, and waves overlap
    by no more than that.
    """
    full_us = run(chip, TILE_M, 2 * chip.sms * TILE_N, 2).kernels[0].seconds * 1e6  # a wave of full tiles
    early = "an SM starts its next tile when one of two has ended"
    alone = {p.n for p in points if p.quantization.tiles <= chip.sms}  # each tile has an SM of its own

    def slower(p: TilePoint) -> str:
        return "the last results must be written" if p.n in alone else f"two tiles share an SM: {p.queued}"

    def overlap(p: TilePoint) -> str:
        return "each tile has an SM of its own" if p.n in alone else f"waves overlap: {early}"

    return times(
        *(points, lambda p: p.waves_us),
        name="waves × time of a lone tile, two blocks per SM",
        assumes="blocks of an SM do not disturb each other",
        because=lambda p: (slower(p), reach(p.tile_us, full_us)),
    ) + times(
        *(points, lambda p: p.quantization.waves.count * full_us),
        name="waves × time of a full wave, two blocks per SM",
        assumes="waves that start and end together",
        because=lambda p: (overlap(p), reach(full_us, p.tile_us)),
    )


def draw(chip: gs.GPU, points: Sequence[TilePoint], out: Path) -> None:
    """The staircase of time, and the useful share of what the SMs could have computed, at every size."""
    sizes, simulated = np.arange(1, points[-1].n + 1), [p.n for p in points]
    tile = {"tile_m": TILE_M, "tile_n": TILE_N, "sms": chip.sms}
    every = [gs.analytic.matmul_quantization(int(n), int(n), **tile) for n in sizes]
    stairs = np.repeat(sizes, 2)[1:], np.repeat([q.waves.count * points[0].tile_us for q in every], 2)[:-1]
    time = gs.views.laws(
        [Simulated("simulated", simulated, [p.us for p in points])],
        [Law("waves × time of a tile", *stairs, 1)],
        xlabel="n: rows and columns of the result",
        ylabel="time (µs)",
        title=f"Tile and wave quantization: n × n results on {chip.title}",
    )
    useful = gs.views.laws(
        [Simulated("simulated", simulated, [100 * p.useful for p in points])],
        [
            Law("tiles", sizes, [100 * q.tile_utilisation for q in every], 5, "--"),
            Law("tiles and waves", sizes, [100 * q.utilisation for q in every], 1),
        ],
        xlabel="n: rows and columns of the result",
        ylabel="useful share of the SMs' time (%)",
        title=f"Utilisation by tiles and waves on {chip.title}",
        top=105,
    )
    gs.experiment.save(time, out / "tile_quantization.png")
    gs.experiment.save(useful, out / "tile_quantization_utilisation.png")


def main(gpu: str = GPU, out: Path | None = None, *, quick: bool = False) -> tuple[list[TilePoint], gs.Comparison]:
    whole = gs.load_gpu(gpu)
    chip = whole.slice(sms=min(SMS, whole.sms))
    fast = chip.replace(dram_bandwidth=chip.dram_bandwidth_bytes_per_s * FAST)
    sizes, (alone, alone_fast) = QUICK_SIZES if quick else SIZES, (Lone(chip), Lone(fast))
    points = [measure(chip, n, 1, alone) for n in sizes]
    table = one_per_sm(points, [measure(fast, n, 1, alone_fast) for n in sizes])
    shared = [measure(chip, n, 2, alone) for n in (QUICK_TWO_PER_SM if quick else TWO_PER_SM)]
    if all(p.blocks_per_sm == 2 for p in shared):
        table += two_per_sm(chip, shared)
    print(f"{chip.title}: tiles of {TILE_M} × {TILE_N}, {alone.us():.3f} µs each\n{table}")
    if out is not None:
        draw(chip, points, out)
    return points + shared, table


if __name__ == "__main__":
    gs.experiment.script(main)

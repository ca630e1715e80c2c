"""Wave quantization: the time of a kernel climbs in steps, one for each full load of the GPU.

A GPU holds ``capacity`` blocks at a time. Equal blocks run in waves, so the time is ⌈blocks / capacity⌉ × block time:
one block more than a full wave costs as much as a whole wave. The experiment runs 1 … 4 waves of a compute-bound
kernel, one block per SM, and sets the simulated time against the formula. The block time is the time that a lone block
holds its slot. What this formula leaves out is small and known: blocks are handed out one by one, so that the last
block of a wave starts a little later than the first, and the kernel ends with its last writes. A second column adds
both.

    python experiments/wave_quantization.py --gpu h100-sxm --out out
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

import gpusim_des as gs
from gpusim_des.units import to_us

GPU = "h100-sxm"
WAVES, QUICK_WAVES = 4, 2
QUICK_SMS = 16
STEPS_PER_WAVE = 4
CHAIN = 400
THREADS = 32


@gs.block_kernel
def polynomial(blk: gs.Block, c: gs.DeviceArray) -> None:
    """A chain of dependent multiplications and additions, and one store."""
    x = blk.tid.astype(np.float32)
    for _ in range(CHAIN // 2):
        x = x * np.float32(0.5) + np.float32(1.0)
    blk.store(c, blk.bx * blk.bdx + blk.tx, x)


def run(chip: gs.GPU, blocks: int) -> gs.Simulation:
    """One block on an SM at a time: each takes all of its shared memory."""
    dev = gs.Device(chip)
    c = dev.malloc(blocks * THREADS, np.float32)
    one_per_sm = min(chip.shared_bytes_per_block_optin, chip.shared_bytes_per_sm)
    dev.launch(polynomial, blocks, THREADS, c, dynamic_shared=one_per_sm)
    return dev.simulate(caches="off")


@dataclass(frozen=True)
class WavePoint:
    """One grid size; times in microseconds."""

    blocks: int
    waves: int
    simulated_us: float
    formula_us: float
    """Waves times the time of a block."""
    full_formula_us: float
    """The same and handing out the last wave, block by block, and the last writes."""

    @property
    def label(self) -> str:
        """Name of the row."""
        return f"{self.blocks} blocks, wave {self.waves}"


def main(
    gpu: str = GPU, out: Path | None = None, waves: int | None = None, *, quick: bool = False
) -> tuple[list[WavePoint], gs.Comparison]:
    chip = gs.load_gpu(gpu)
    waves = waves or (QUICK_WAVES if quick else WAVES)
    if quick:
        chip = chip.slice(sms=min(QUICK_SMS, chip.sms))
    lone = run(chip, 1)
    capacity = chip.sms * lone.kernels[0].blocks_per_sm
    block_us = to_us(lone.timeline.blocks[0].end_fs - lone.timeline.blocks[0].start_fs)
    writes_us = lone.kernels[0].seconds * 1e6 - block_us
    interval_us = to_us(chip.dispatch_interval_fs)
    edges = [n for w in range(waves + 1) for n in (w * capacity, w * capacity + 1)]
    between = [w * capacity + capacity * s // STEPS_PER_WAVE for w in range(waves) for s in range(1, STEPS_PER_WAVE)]
    points = []
    for blocks in sorted({n for n in edges + between if 1 <= n <= waves * capacity}):
        of = gs.analytic.waves(blocks, capacity // chip.sms, chip.sms)
        formula_us = of.count * block_us
        full_us = formula_us + ((of.tail_blocks or capacity) - 1) * interval_us + writes_us
        points.append(WavePoint(blocks, of.count, run(chip, blocks).kernels[0].seconds * 1e6, formula_us, full_us))
    print(f"{chip.title}: {capacity} blocks at a time, one block takes {block_us:.3f} µs")
    print(
        f"not in the first formula: {1000 * interval_us:.3g} ns for each further block of the last wave, "
        f"{writes_us:.3f} µs for the last writes"
    )
    why = "the block scheduler hands blocks out one by one, and the last writes must arrive"
    table = gs.experiment.compare_points(
        points,
        lambda p: p.formula_us,
        lambda p: p.simulated_us,
        name="⌈blocks / capacity⌉ × block time",
        quantity="time (µs)",
        because=lambda p: (why, gs.experiment.reach(p.formula_us, p.full_formula_us)),
        assumes="equal blocks that start together",
    ) + gs.experiment.compare_points(
        points,
        lambda p: p.full_formula_us,
        lambda p: p.simulated_us,
        name="the same, and handing out and the last writes",
        quantity="time (µs)",
    )
    print(table)
    if out is not None:
        axes = gs.views.waves_curve(
            [p.blocks for p in points],
            [p.simulated_us for p in points],
            [p.formula_us for p in points],
            capacity=capacity,
            title=f"Wave quantization on {chip.title}",
        )
        gs.experiment.save(axes, out / "wave_quantization.png")
        for blocks in (capacity, capacity + 1, 2 * capacity):
            gs.experiment.save(gs.views.timeline(run(chip, blocks)), out / f"wave_timeline_{blocks}_blocks.png")
    return points, table


if __name__ == "__main__":
    gs.experiment.script(main)

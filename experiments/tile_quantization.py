"""Tile quantization: a matrix product takes whole tiles, and the GPU takes whole waves of them.

Each block computes a tile of the result. One row or column more than the tiles cover needs another row or column of
tiles, which are nearly empty and take as long as full ones (tile quantization). One tile more than the SMs hold at a
time needs another wave, in which most SMs idle (wave quantization). So time climbs in steps, and utilisation is a
sawtooth: time = ⌈tiles / capacity⌉ × time of a tile, with tiles = ⌈m / tile_m⌉ × ⌈n / tile_n⌉.

Registers let one block fill an SM, as in the large tiles of fast libraries, and the time of a tile is that of a block
that is alone. What the formula leaves out is small and known: tiles are handed out one by one, and the last results
have to be written; where DRAM is slow for its SMs, tiles also queue for their loads, and take longer than alone. It
breaks where an SM holds two blocks: they share its schedulers and its load/store unit, so that a
tile takes longer than alone, though two take less than twice the time. The time of a full wave is too much in turn: an
SM starts its next tile when one of two has ended, so that waves overlap, and in a last wave some SMs have one tile.

    gpusim-des experiment tile_quantization --gpu h100-sxm --out out
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import gpusim_des as gs
from gpusim_des.timeline import FS_PER_S
from gpusim_des.views import figure, palette

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GPU = "h100-sxm"
SMS = 4  # of the slice
TILE_M, TILE_N, DEPTH = 16, 32, 32  # rows and columns of a tile, and the inner dimension of the product
SIZES = (16, 32, 33, 48, 64, 65, 80, 81, 96, 97, 112, 113, 128, 129, 144)  # rows and columns of the result
QUICK_SIZES = (32, 33, 64, 65, 96)
TWO_PER_SM, QUICK_TWO_PER_SM = (32, 64, 65, 96, 128), (32, 64, 65)  # sizes with two blocks on an SM
US_PER_FS = 1e6 / FS_PER_S


@gs.kernel
def matmul(t: Any, a: Any, b: Any, c: Any, m: int, n: int) -> Any:
    """C = A·B: the block's rows of A and columns of B in shared memory, zeros beyond the edge."""
    tile_a, tile_b = t.shared("tile_a", (TILE_M, DEPTH), np.float32), t.shared("tile_b", (DEPTH, TILE_N), np.float32)
    x, y = t.threadIdx.x, t.threadIdx.y
    row, column = t.blockIdx.y * TILE_M + y, t.blockIdx.x * TILE_N + x
    for k in range(0, DEPTH, TILE_N):
        tile_a[y, k + x] = a[row * DEPTH + k + x] if row < m else np.float32(0)
    for k in range(0, DEPTH, TILE_M):
        tile_b[k + y, x] = b[(k + y) * n + column] if column < n else np.float32(0)
    yield t.syncthreads()
    acc = np.float32(0)
    for k in range(DEPTH):
        acc += tile_a[y, k] * tile_b[k, x]
    if row < m and column < n:
        c[row * n + column] = acc


@dataclass(frozen=True)
class TilePoint:
    """One product; times in microseconds."""

    n: int
    blocks_per_sm: int
    quantization: gs.analytic.Quantization
    us: float
    tile_us: float
    """Time of a tile in this run, mean."""
    spread_us: tuple[float, float]
    """Of the fastest tile and the slowest one."""

    @property
    def label(self) -> str:
        """Name of the row."""
        q = self.quantization
        return f"n = {self.n}, {q.tiles} tile{'s' * (q.tiles > 1)}, {q.waves.count} wave{'s' * (q.waves.count > 1)}"


def run(chip: gs.GPU, m: int, n: int, blocks_per_sm: int) -> gs.Simulation:
    """Multiply, check against NumPy, and time the kernel; registers decide how many blocks an SM holds."""
    rng = np.random.default_rng(0)
    left, right = rng.random((m, DEPTH), dtype=np.float32), rng.random((DEPTH, n), dtype=np.float32)
    dev = gs.Device(chip)
    a, b, c = dev.to_device(left.ravel()), dev.to_device(right.ravel()), dev.malloc(m * n, np.float32)
    dev.forget_launches()
    registers = min(chip.registers_per_sm // (blocks_per_sm * TILE_M * TILE_N), chip.max_registers_per_thread)
    grid, block = (gs.cdiv(n, TILE_N), gs.cdiv(m, TILE_M)), (TILE_N, TILE_M)
    dev.launch(matmul, grid, block, a, b, c, m, n, registers=registers)
    if not np.allclose(dev.to_host(c).reshape(m, n), left @ right, rtol=1e-4):
        raise AssertionError("the kernel's results differ from NumPy's: this is a bug of the simulator")
    return dev.simulate(caches="off")


def measure(chip: gs.GPU, n: int, blocks_per_sm: int) -> TilePoint:
    sim = run(chip, n, n, blocks_per_sm)
    quantization = gs.analytic.matmul_quantization(
        *(n, n), tile_m=TILE_M, tile_n=TILE_N, sms=chip.sms, blocks_per_sm=sim.kernels[0].blocks_per_sm
    )
    spans = sim.timeline.blocks
    each = [(span.end_fs - span.start_fs) * US_PER_FS for span in spans]
    return TilePoint(
        n,
        sim.kernels[0].blocks_per_sm,
        quantization,
        sim.kernels[0].seconds * 1e6,
        sum(each) / len(each),
        (min(each), max(each)),
    )


def times(
    points: Sequence[TilePoint],
    formula: Sequence[float],
    name: str,
    assumes: str,
    explain: Mapping[str, str] | None = None,
    explained_up_to: Mapping[str, float] | None = None,
) -> gs.Comparison:
    """Compare times."""
    return gs.compare(
        formula,
        [p.us for p in points],
        name=name,
        quantity="time (µs)",
        labels=[p.label for p in points],
        explain=explain or {},
        explained_up_to=explained_up_to,
        assumes=assumes,
    )


def main(gpu: str = GPU, out: Path | None = None, *, quick: bool = False) -> tuple[list[TilePoint], gs.Comparison]:
    whole = gs.load_gpu(gpu)
    chip = whole.slice(sms=min(SMS, whole.sms))
    lone = run(chip, TILE_M, TILE_N, 1)  # one full tile
    span = lone.timeline.blocks[0]
    tile_us = (span.end_fs - span.start_fs) * US_PER_FS
    writes_us = lone.kernels[0].seconds * 1e6 - tile_us
    points = [measure(chip, n, 1) for n in (QUICK_SIZES if quick else SIZES)]
    handed = [
        ((p.quantization.waves.tail_blocks or chip.sms) - 1) * chip.dispatch_interval_fs * US_PER_FS for p in points
    ]
    # At most, tiles of a wave load one after the other.
    queued_us = 4 * chip.sms * (TILE_M + TILE_N) * DEPTH / gs.analytic.roofs(chip).memory["DRAM"] * 1e6
    most = [
        p.quantization.waves.count * (tile_us + queued_us) + more + writes_us
        for p, more in zip(points, handed, strict=True)
    ]
    plain = [p.quantization.waves.count * tile_us for p in points]
    full = [us + more + writes_us for us, more in zip(plain, handed, strict=True)]

    def up_to(formula: Sequence[float]) -> dict[str, float]:
        return {p.label: gs.experiment.reach(f, us, 0) for p, f, us in zip(points, formula, most, strict=True)}

    table = times(
        points,
        plain,
        "waves × time of a tile",
        "one block fills an SM",
        {
            p.label: "tiles are handed out one by one, the last results must be written, and a tile takes "
            f"{p.tile_us:.3f} µs among others, {tile_us:.3f} alone"
            for p in points
        },
        up_to(plain),
    ) + times(
        points,
        full,
        "the same, and handing out and the last writes",
        "one block fills an SM",
        {p.label: f"a tile takes {p.tile_us:.3f} µs among others, {tile_us:.3f} alone: loads queue" for p in points},
        up_to(full),
    )
    among = [p.quantization.waves.count * p.tile_us + m + writes_us for p, m in zip(points, handed, strict=True)]
    table += times(
        points,
        among,
        "the same with the time of a tile among others",
        "one block fills an SM, and all tiles take as long",
        {
            p.label: "tiles at the edge load less, and the first ones find no queues: "
            f"{p.spread_us[0]:.3f} to {p.spread_us[1]:.3f} µs"
            for p in points
        },
        {
            p.label: gs.experiment.reach(p.tile_us, p.spread_us[p.us > us], 0.03)
            for p, us in zip(points, among, strict=True)
        },
    )
    shared = [measure(chip, n, 2) for n in (QUICK_TWO_PER_SM if quick else TWO_PER_SM)]
    if all(p.blocks_per_sm == 2 for p in shared):
        table += two_per_sm(chip, shared, tile_us)
    print(f"{chip.title}: tiles of {TILE_M} × {TILE_N}, {tile_us:.3f} µs each\n{table}")
    if out is not None:
        gs.views.save(draw_time(points, tile_us, chip), out / "tile_quantization.png")
        gs.views.save(draw_utilisation(points, tile_us, chip), out / "tile_quantization_utilisation.png")
        print(f"written: {out / 'tile_quantization.png'}")
        print(f"written: {out / 'tile_quantization_utilisation.png'}")
    return points + shared, table


def two_per_sm(chip: gs.GPU, points: Sequence[TilePoint], tile_us: float) -> gs.Comparison:
    """Where it breaks: two blocks on an SM."""
    full = run(chip, TILE_M, 2 * chip.sms * TILE_N, 2).kernels[0].seconds * 1e6  # a wave of full tiles
    slower = {p.label: f"two tiles share an SM: each takes {p.tile_us:.3f} µs, alone {tile_us:.3f}" for p in points}
    overlap = {p.label: "waves overlap: an SM starts its next tile when one of two has ended" for p in points}
    for p in points:
        if p.quantization.tiles <= chip.sms:
            slower[p.label] = "the last results must be written, for each tile has an SM of its own"
            overlap[p.label] = "each tile has an SM of its own"
    # Each formula bounds what the other one leaves out: tiles among others are slower than a lone one, and waves
    # overlap by no more than that.
    waves = [p.quantization.waves.count for p in points]
    return times(
        points,
        [n * tile_us for n in waves],
        "waves × time of a lone tile, two blocks per SM",
        "blocks of an SM do not disturb each other",
        slower,
        {p.label: gs.experiment.reach(tile_us, full) for p in points},
    ) + times(
        points,
        [n * full for n in waves],
        "waves × time of a full wave, two blocks per SM",
        "waves that start and end together",
        overlap,
        {p.label: gs.experiment.reach(full, tile_us) for p in points},
    )


def draw_time(points: Sequence[TilePoint], tile_us: float, chip: gs.GPU) -> Axes:
    """Time over the size: the staircase of the formula, and the simulated points."""
    sizes, stairs = predicted(points, chip)
    ax = figure.new_axes(None, 9.5, 5.0)
    ax.plot(
        sizes,
        [q.waves.count * tile_us for q in stairs],
        color=palette.kernel_color(1),
        linewidth=2.4,
        drawstyle="steps-post",
        label="waves × time of a tile",
    )
    _dots(ax, points, [p.us for p in points])
    ax.set_ylim(0)
    ax.set_ylabel("time (µs)")
    return _finish(ax, f"Tile and wave quantization: n × n results on {chip.title}")


def draw_utilisation(points: Sequence[TilePoint], tile_us: float, chip: gs.GPU) -> Axes:
    """Useful share of what the SMs could have computed."""
    sizes, stairs = predicted(points, chip)
    ax = figure.new_axes(None, 9.5, 5.0)
    ax.plot(
        sizes,
        [100 * q.tile_utilisation for q in stairs],
        color=palette.kernel_color(5),
        linewidth=1.6,
        linestyle="--",
        label="tiles",
    )
    ax.plot(
        sizes,
        [100 * q.utilisation for q in stairs],
        color=palette.kernel_color(1),
        linewidth=2,
        label="tiles and waves",
    )
    work_us = [p.n**2 / (TILE_M * TILE_N * chip.sms) * tile_us for p in points]
    _dots(ax, points, [100 * work / p.us for work, p in zip(work_us, points, strict=True)])
    ax.set_ylim(0, 105)
    ax.set_ylabel("useful share of the SMs' time (%)")
    return _finish(ax, f"Utilisation by tiles and waves on {chip.title}")


def predicted(points: Sequence[TilePoint], chip: gs.GPU) -> tuple[range, list[gs.analytic.Quantization]]:
    """Every size up to the largest, and what the formula says of it."""
    sizes = range(1, points[-1].n + 1)
    tile = {"tile_m": TILE_M, "tile_n": TILE_N, "sms": chip.sms}
    return sizes, [gs.analytic.matmul_quantization(n, n, **tile) for n in sizes]


def _dots(ax: Axes, points: Sequence[TilePoint], values: Sequence[float]) -> None:
    ax.plot(
        [p.n for p in points], values, "o", color=palette.kernel_color(0), markersize=7, label="simulated", zorder=3
    )


def _finish(ax: Axes, title: str) -> Axes:
    ax.set_xlim(0)
    ax.set_xlabel("n: rows and columns of the result")
    ax.grid(color="#e6e6e6", linewidth=0.8)
    ax.set_axisbelow(True)
    figure.open_frame(ax)
    figure.outside_legend(ax, ax.get_legend_handles_labels()[0])
    ax.set_title(title)
    return ax


if __name__ == "__main__":
    gs.experiment.script(main)

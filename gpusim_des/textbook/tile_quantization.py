"""Matrix products by tiles, each the work of a block: simulated, and put together from the times of lone tiles."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpusim_des.analytic import Quantization, list_schedule, matmul_quantization, roofs
from gpusim_des.check_result import check_result
from gpusim_des.device import Device
from gpusim_des.functional.thread_kernel import kernel
from gpusim_des.gpu import GPU
from gpusim_des.grid import cdiv
from gpusim_des.simulation import Simulation
from gpusim_des.units import to_us

TILE_M, TILE_N, DEPTH = 16, 32, 32
"""Rows and columns of a tile, and the inner dimension of the product."""
FAST = 16
"""How much faster DRAM is where it is to be no limit."""
Shape = tuple[int, int]
"""Rows and columns of a tile that hold results."""


@kernel
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


def run(chip: GPU, m: int, n: int, blocks_per_sm: int) -> Simulation:
    """Multiply, check against NumPy, and time the kernel; registers decide how many blocks an SM holds."""
    rng = np.random.default_rng(0)
    left, right = rng.random((m, DEPTH), dtype=np.float32), rng.random((DEPTH, n), dtype=np.float32)
    dev = Device(chip)
    a, b, c = dev.to_device(left.ravel()), dev.to_device(right.ravel()), dev.malloc(m * n, np.float32)
    dev.forget_launches()
    registers = min(chip.registers_per_sm // (blocks_per_sm * TILE_M * TILE_N), chip.max_registers_per_thread)
    grid, block = (cdiv(n, TILE_N), cdiv(m, TILE_M)), (TILE_N, TILE_M)
    dev.launch(matmul, grid, block, a, b, c, m, n, registers=registers)
    check_result(dev.to_host(c), (left @ right).ravel(), "matmul", rtol=1e-4)
    return dev.simulate(caches="off")


@dataclass(frozen=True)
class Lone:
    """What tiles take that have the chip for themselves, in microseconds."""

    chip: GPU
    _known: dict[Shape, tuple[float, float]] = field(default_factory=dict)

    def _measured(self, shape: Shape) -> tuple[float, float]:
        if shape not in self._known:
            sim = run(self.chip, *shape, 1)
            (span,) = sim.timeline.blocks
            us = to_us(span.end_fs - span.start_fs)
            self._known[shape] = us, sim.kernels[0].seconds * 1e6 - us
        return self._known[shape]

    def us(self, shape: Shape = (TILE_M, TILE_N)) -> float:
        """Time of a block; without a shape of a full one."""
        return self._measured(shape)[0]

    def writes_us(self, shape: Shape = (TILE_M, TILE_N)) -> float:
        """From the end of the block until its results are written."""
        return self._measured(shape)[1]


def shapes(n: int) -> list[Shape]:
    """Tiles of n × n results, in the order of their blocks.

    >>> shapes(33)  # three rows of two tiles; the last ones have a column, or a row, or a single result
    [(16, 32), (16, 1), (16, 32), (16, 1), (1, 32), (1, 1)]
    """
    return [
        (min(TILE_M, n - row), min(TILE_N, n - column)) for row in range(0, n, TILE_M) for column in range(0, n, TILE_N)
    ]


@dataclass(frozen=True)
class TilePoint:
    """One product; times in microseconds."""

    n: int
    blocks_per_sm: int
    quantization: Quantization
    us: float
    tiles_us: tuple[float, ...]
    """Of the tiles in this run, in the order of their blocks."""
    lone_us: tuple[float, ...]
    """Of the same tiles, each alone on the chip."""
    interval_us: float
    """Between two tiles that are handed out."""
    tile_us: float
    """Of a full tile that is alone."""
    writes_us: tuple[float, ...]
    """From the end of each tile's block until its results are written, where it is alone."""
    full_writes_us: float
    """The same of a full tile."""
    queued_us: float
    """What the loads of a wave take one after the other."""

    @property
    def label(self) -> str:
        """Name of the row."""
        q = self.quantization
        return f"n = {self.n}, {q.tiles} tile{'s' * (q.tiles > 1)}, {q.waves.count} wave{'s' * (q.waves.count > 1)}"

    @property
    def waves_us(self) -> float:
        """Waves × time of a tile."""
        return self.quantization.waves.count * self.tile_us

    @property
    def rest_us(self) -> float:
        """What the last wave's tiles are handed out in, one by one, and the last writes take."""
        waves = self.quantization.waves
        return ((waves.tail_blocks or waves.blocks_per_wave) - 1) * self.interval_us + self.full_writes_us

    @property
    def among_us(self) -> float:
        """Mean time of a tile in this run, among others."""
        return sum(self.tiles_us) / len(self.tiles_us)

    @property
    def most_us(self) -> float:
        """What it takes at most, if the tiles of each wave load one after the other."""
        return self.quantization.waves.count * (self.tile_us + self.queued_us) + self.rest_us

    @property
    def useful(self) -> float:
        """Share of the SMs' time that full tiles of as many results would have taken, 0…1."""
        waves = self.quantization.waves
        return self.n**2 / (TILE_M * TILE_N * waves.blocks_per_wave) * self.tile_us / self.us

    @property
    def queued(self) -> str:
        """How long a tile takes where others load, too."""
        return f"a tile takes {self.among_us:.3f} µs among others, {self.tile_us:.3f} alone"

    @property
    def written(self) -> str:
        """How long results take to be written where others write, too."""
        ends = list_schedule(self.tiles_us, self.quantization.waves.blocks_per_wave, self.interval_us)
        return f"the last results take {self.us - max(ends):.3f} µs to be written, {self.full_writes_us:.3f} alone"

    def put_together_us(self, tiles_us: tuple[float, ...]) -> float:
        """What tiles of these times take together, one after another handed to the SM that is free first."""
        ends = list_schedule(tiles_us, self.quantization.waves.blocks_per_wave, self.interval_us)
        return max(end + writes for end, writes in zip(ends, self.writes_us, strict=True))

    @property
    def last_writes_us(self) -> float:
        """The same of this run's tiles, if those of a wave write their results one after the other."""
        waves = self.quantization.waves
        return self.put_together_us(self.tiles_us) + (waves.blocks_per_wave - 1) * self.full_writes_us


def measure(chip: GPU, n: int, blocks_per_sm: int, lone: Lone) -> TilePoint:
    """Simulate a product, and take its tiles' times when they are alone."""
    sim = run(chip, n, n, blocks_per_sm)
    spans = sorted(sim.timeline.blocks, key=lambda span: span.block)
    full = 4 * chip.sms * (TILE_M + TILE_N) * DEPTH
    return TilePoint(
        n,
        sim.kernels[0].blocks_per_sm,
        matmul_quantization(
            n, n, tile_m=TILE_M, tile_n=TILE_N, sms=chip.sms, blocks_per_sm=sim.kernels[0].blocks_per_sm
        ),
        sim.kernels[0].seconds * 1e6,
        tuple(to_us(span.end_fs - span.start_fs) for span in spans),
        tuple(lone.us(shape) for shape in shapes(n)),
        to_us(chip.dispatch_interval_fs),
        lone.us(),
        tuple(lone.writes_us(shape) for shape in shapes(n)),
        lone.writes_us(),
        full / roofs(chip).memory["DRAM"] * 1e6,
    )

"""Coalescing: a load costs the sectors that its warp touches, whether their bytes are wanted or not.

Memory moves sectors of 32 bytes. The 32 lanes of a warp that load neighbouring floats touch 4 of them; with a stride of
s floats they touch 4 s, at most one each; a first element that is not the first of a sector adds one. Where DRAM is the
limit, time = latency + sectors × 32 bytes / bandwidth: the useful bandwidth falls to an eighth. An array of structures
(AoS) is a stride, a structure of arrays (SoA) is none, and a vector load (float4) takes the whole structure at once.

The formula assumes that no sector is loaded twice: caches="off". Caches change nothing for a stride, because no byte
that comes along is ever asked for; but the sector that a shifted warp shares with its neighbour is found in the L1, and
so are the fields of a structure that are loaded one by one. Then the time is that of the distinct sectors, the second
formula of the table. GPUs whose DRAM moves 64 bytes at a time need whole pairs of sectors; a C1060, which has no cache
for global memory, is saved only some of the sectors that two warps ask for at about the same time.

    gpusim-des experiment coalescing --gpu h100-sxm --out out
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import gpusim_des as gs
from gpusim_des.timing.simulate import Caches

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GPU = "h100-sxm"
SMS = 4
N, QUICK_N = 1 << 18, 1 << 17
STRIDES, QUICK_STRIDES = (1, 2, 3, 4, 6, 8, 16, 32), (1, 2, 8)
OFFSETS = (1, 4, 8)
LOADS = 8
"""Of each thread, all before the first use: enough under way to keep DRAM busy."""
THREADS, REGISTERS, SECTOR = 256, 32, 32
FLOAT, FLOAT4 = np.dtype(np.float32), np.dtype(np.complex128)
"""A type of 16 bytes stands for float4."""


@gs.kernel
def read(t: Any, a: Any, c: Any, first: int, stride: int, x: int, y: int, z: int, limit: float) -> None:
    """Eight loads: elements at x·0 + y·0 + z·0 … x + y + z. The sum is stored only if it is small, as in benchmarks."""
    i = first + (t.blockIdx.x * t.blockDim.x + t.threadIdx.x) * stride
    v0, v1, v2, v3 = a[i], a[i + x], a[i + y], a[i + x + y]
    v4, v5, v6, v7 = a[i + z], a[i + x + z], a[i + y + z], a[i + x + y + z]
    total = v0 + v1 + v2 + v3 + v4 + v5 + v6 + v7
    if abs(total) < limit:
        c[t.blockIdx.x * t.blockDim.x + t.threadIdx.x] = total


class Layout(NamedTuple):
    """How the elements of a thread lie; distances in elements."""

    label: str
    stride: int
    """Between the elements of neighbouring threads."""
    steps: tuple[int, int, int]
    """Between the loads of one thread."""
    first: int = 0
    dtype: np.dtype[Any] = FLOAT


@dataclass(frozen=True)
class CoalescingPoint:
    """What one layout did, with one setting of the caches."""

    layout: Layout
    caches: Caches
    sectors_per_request: float
    formula_sectors: int
    seconds: float
    formula_s: float
    """Latency + sectors × 32 bytes / bandwidth."""
    distinct_s: float
    """The same with the distinct sectors of the whole kernel."""
    useful_bytes: int

    @property
    def label(self) -> str:
        """Layout and caches."""
        return self.layout.label + (", with caches" if self.caches == "on" else "")


def touched(stride: int, first: int, itemsize: int, unit: int) -> int:
    """Units of memory that 32 lanes touch: all units between the first and the last byte, but at most one per lane.

    >>> touched(1, 0, 4, 32), touched(1, 1, 4, 32), touched(2, 0, 4, 32), touched(32, 0, 4, 32)
    (4, 5, 8, 32)
    """
    begin = first * itemsize
    last = begin + 31 * stride * itemsize + itemsize - 1
    return min(32, last // unit - begin // unit + 1)


def layouts(n: int, strides: Sequence[int]) -> list[Layout]:
    """Strides, offsets, and records of four floats x, y, z, w."""
    eighth, half = n // LOADS, n // 2
    return [
        *(Layout(f"stride {s}", s, (eighth * s, 2 * eighth * s, 4 * eighth * s)) for s in strides),
        *(Layout(f"offset {o}", 1, (eighth, 2 * eighth, 4 * eighth), o) for o in OFFSETS),
        Layout("SoA, all fields", 1, (n // 4, half, eighth)),
        Layout("AoS, all fields", 4, (1, 2, half)),
        Layout("AoS, field x", 4, (4 * eighth, 8 * eighth, 16 * eighth)),
        Layout("AoS as float4", 1, (eighth, 2 * eighth, 4 * eighth), 0, FLOAT4),
    ]


def measure(chip: gs.GPU, layout: Layout, n: int, caches: Caches = "off") -> CoalescingPoint:
    """Run one layout, check the sums against NumPy's, and simulate the same kernel without its stores."""
    dev = gs.Device(chip)
    threads = n // LOADS
    blocks, x_y_z = gs.cdiv(threads, THREADS), layout.steps
    size = layout.first + (threads - 1) * layout.stride + sum(x_y_z) + 1
    values = np.arange(1, size + 1, dtype=np.int32) % 1000
    a, c = dev.to_device(values.astype(layout.dtype)), dev.malloc(threads, layout.dtype)
    arguments = (a, c, layout.first, layout.stride, *x_y_z)
    dev.launch(read, blocks, THREADS, *arguments, np.float32(1e9), registers=REGISTERS)
    places = layout.first + np.arange(threads) * layout.stride
    sums = sum(values[places + sum(steps)] for steps in product(*((0, step) for step in x_y_z)))
    if not (dev.to_host(c) == sums).all():
        raise AssertionError(f"{layout.label}: results differ from NumPy's: this is a bug of the simulator")
    dev.forget_launches()  # the kernel alone, and nothing in the L2
    launch = dev.launch(read, blocks, THREADS, *arguments, np.float32(-1), registers=REGISTERS)
    kernel = dev.simulate(caches=caches, detail="kernel").kernels[0]
    counters = launch.counters
    itemsize, granule = layout.dtype.itemsize, max(SECTOR, chip.dram_granule_bytes)
    requests = counters.global_load_requests
    moved = requests * touched(layout.stride, layout.first, itemsize, granule) * granule
    return CoalescingPoint(
        layout,
        caches,
        counters.load_sectors_per_request,
        touched(layout.stride, layout.first, itemsize, SECTOR),
        kernel.seconds,
        formula_seconds(chip, moved),
        formula_seconds(chip, counters.distinct_sectors * SECTOR),
        counters.global_load_bytes_requested,
    )


def formula_seconds(chip: gs.GPU, nbytes: int) -> float:
    """A block starts, loads, and ends; in between DRAM moves the bytes."""
    once = gs.experiment.ends_s(chip)
    return once + nbytes / float(chip.dram_bandwidth_bytes_per_s * chip.efficiency("read"))


def compared(chip: gs.GPU, points: Sequence[CoalescingPoint]) -> gs.Comparison:
    """Sectors, which are equal; times without caches; and both formulas with them."""
    cached = chip.l1_bytes > chip.shared_carveouts_bytes[0]
    off, on = ([p for p in points if p.caches == caches] for caches in ("off", "on"))
    return (
        gs.compare(
            *([p.formula_sectors for p in off], [p.sectors_per_request for p in off]),
            name="min(32, span / 32 bytes)",
            quantity="sectors per request",
            labels=[p.label for p in off],
            tolerance=0,
        )
        + gs.compare(
            *([p.formula_s * 1e6 for p in points], [p.seconds * 1e6 for p in points]),
            name="latency + sectors × 32 bytes / bandwidth",
            quantity="time (µs)",
            labels=[p.label for p in points],
            explain={p.label: WHY[p.layout.label] if cached else SLICE for p in on if p.layout.label in WHY},
            explained_up_to={p.label: gs.experiment.reach(p.formula_s, p.distinct_s) for p in on},
            assumes="no sector is loaded twice, and DRAM is the limit",
        )
        + gs.compare(
            *([p.distinct_s * 1e6 for p in on], [p.seconds * 1e6 for p in on]),
            name="latency + distinct sectors × 32 bytes / bandwidth",
            quantity="time (µs)",
            labels=[p.label for p in on],
            explain="" if cached else NO_L1,
            explained_up_to={p.label: gs.experiment.reach(p.distinct_s, p.formula_s) for p in on},
            assumes="sectors stay in the L1 until they are asked for again",
        )
    )


WHY = {
    "offset 1": "the fifth sector of a warp is the first one of the next warp, and the L1 has it",
    "AoS, all fields": "the sectors of field x bring y, z and w with them, and the L1 has them",
}
"""Why caches break the formula: sectors are used twice."""
SLICE = "two warps that ask for one sector at about the same time get it from its slice"
NO_L1 = "the GPU has no L1 for global memory: sectors are gone when they are asked for again"


def draw(chip: gs.GPU, points: Sequence[CoalescingPoint]) -> Axes:
    strides = [p for p in points if p.layout.label.startswith("stride") and p.caches == "off"]
    others = [p for p in points if p not in strides]
    left, right = gs.views.side_by_side([6.2, 7.2], height=5.2, title=f"Coalescing on {chip.title}")
    gs.views.curves(
        [p.layout.stride for p in strides],
        [
            gs.views.Curve(
                "useful bytes",
                [p.useful_bytes / p.seconds / 1e9 for p in strides],
                [p.useful_bytes / p.formula_s / 1e9 for p in strides],
            ),
            gs.views.Curve(
                "bytes moved",
                [p.useful_bytes * p.sectors_per_request / 4 / p.seconds / 1e9 for p in strides],
                [p.useful_bytes * p.formula_sectors / 4 / p.formula_s / 1e9 for p in strides],
            ),
        ],
        ax=left,
        xlabel="stride (floats)",
        ylabel="bandwidth (GB/s)",
        title="A stride moves bytes that nobody asked for",
        logarithmic=True,
    )
    gs.views.bars(
        [p.label for p in others],
        [p.useful_bytes / p.seconds / 1e9 for p in others],
        [p.useful_bytes / p.formula_s / 1e9 for p in others],
        ax=right,
        xlabel="useful bandwidth (GB/s)",
        title="Offsets, structures, and what caches mend",
        notes=[f"{p.useful_bytes / p.seconds / 1e9:.0f}  ({p.sectors_per_request:.0f} sectors)" for p in others],
        formula_label="formula, without caches",
    )
    return left


def main(
    gpu: str = GPU, out: Path | None = None, *, quick: bool = False
) -> tuple[list[CoalescingPoint], gs.Comparison]:
    whole = gs.load_gpu(gpu)
    chip = whole.slice(sms=min(SMS, whole.sms))
    n = QUICK_N if quick else N
    ways = layouts(n, QUICK_STRIDES if quick else STRIDES)
    points = [measure(chip, layout, n) for layout in ways]
    points += [measure(chip, way, n, "on") for way in ways if way.label in ("stride 2", *WHY)]
    print(f"{chip.title}, {LOADS} loads per thread")
    table = compared(chip, points)
    print(table)
    if out is not None:
        gs.views.save(draw(chip, points), out / "coalescing.png")
        print(f"written: {out / 'coalescing.png'}")
    return points, table


if __name__ == "__main__":
    gs.experiment.script(main)

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
from pathlib import Path
from typing import Any

import gpusim_des as gs
from gpusim_des.textbook.coalescing import LOADS, CoalescingPoint, layouts, measure

GPU = "h100-sxm"
SMS = 4
N, QUICK_N = 1 << 18, 1 << 17
STRIDES, QUICK_STRIDES = (1, 2, 3, 4, 6, 8, 16, 32), (1, 2, 8)
WHY = {
    "offset 1": "the fifth sector of a warp is the first one of the next warp, and the L1 has it",
    "AoS, all fields": "the sectors of field x bring y, z and w with them, and the L1 has them",
}
"""Why caches break the formula: sectors are used twice."""
SLICE = "two warps that ask for one sector at about the same time get it from its slice"
NO_L1 = "the GPU has no L1 for global memory: sectors are gone when they are asked for again"


@gs.kernel
def read(t: Any, a: Any, c: Any, first: int, stride: int, x: int, y: int, z: int, limit: float) -> None:
    """Eight loads: elements at x·0 + y·0 + z·0 … x + y + z. The sum is stored only if it is small, as in benchmarks."""
    i = first + (t.blockIdx.x * t.blockDim.x + t.threadIdx.x) * stride
    v0, v1, v2, v3 = a[i], a[i + x], a[i + y], a[i + x + y]
    v4, v5, v6, v7 = a[i + z], a[i + x + z], a[i + y + z], a[i + x + y + z]
    total = v0 + v1 + v2 + v3 + v4 + v5 + v6 + v7
    if abs(total) < limit:
        c[t.blockIdx.x * t.blockDim.x + t.threadIdx.x] = total


def compared(chip: gs.GPU, points: Sequence[CoalescingPoint]) -> gs.Comparison:
    """Sectors, which are equal; times without caches; and both formulas with them."""
    cached = chip.l1_bytes > chip.shared_carveouts_bytes[0]
    off, on = ([p for p in points if p.caches == caches] for caches in ("off", "on"))

    def why(p: CoalescingPoint) -> str:
        return "" if p.layout.label not in WHY else WHY[p.layout.label] if cached else SLICE

    return (
        gs.experiment.compare_points(
            off,
            lambda p: p.formula_sectors,
            lambda p: p.sectors_per_request,
            name="min(32, span / 32 bytes)",
            quantity="sectors per request",
            tolerance=0,
        )
        + gs.experiment.compare_points(
            points,
            lambda p: p.formula_s * 1e6,
            lambda p: p.seconds * 1e6,
            name="latency + sectors × 32 bytes / bandwidth",
            quantity="time (µs)",
            because=lambda p: (why(p), gs.experiment.reach(p.formula_s, p.distinct_s)) if p in on else None,
            assumes="no sector is loaded twice, and DRAM is the limit",
        )
        + gs.experiment.compare_points(
            on,
            lambda p: p.distinct_s * 1e6,
            lambda p: p.seconds * 1e6,
            name="latency + distinct sectors × 32 bytes / bandwidth",
            quantity="time (µs)",
            because=lambda p: ("" if cached else NO_L1, gs.experiment.reach(p.distinct_s, p.formula_s)),
            assumes="sectors stay in the L1 until they are asked for again",
        )
    )


def draw(chip: gs.GPU, points: Sequence[CoalescingPoint], path: Path) -> None:
    strides = [p for p in points if p.layout.label.startswith("stride") and p.caches == "off"]
    others = [p for p in points if p not in strides]
    left, right = gs.views.side_by_side([6.2, 7.2], height=5.2, title=f"Coalescing on {chip.title}")
    gs.views.curves(
        [p.layout.stride for p in strides],
        [
            gs.views.Curve("useful bytes", [p.gbs for p in strides], [p.formula_gbs for p in strides]),
            gs.views.Curve("bytes moved", [p.moved_gbs for p in strides], [p.formula_moved_gbs for p in strides]),
        ],
        ax=left,
        xlabel="stride (floats)",
        ylabel="bandwidth (GB/s)",
        title="A stride moves bytes that nobody asked for",
        logarithmic=True,
    )
    gs.views.bars(
        [p.label for p in others],
        [p.gbs for p in others],
        [p.formula_gbs for p in others],
        ax=right,
        xlabel="useful bandwidth (GB/s)",
        title="Offsets, structures, and what caches mend",
        notes=[f"{p.gbs:.0f}  ({p.sectors_per_request:.0f} sectors)" for p in others],
        formula_label="formula, without caches",
    )
    gs.experiment.save(left, path)


def main(
    gpu: str = GPU, out: Path | None = None, *, quick: bool = False
) -> tuple[list[CoalescingPoint], gs.Comparison]:
    whole = gs.load_gpu(gpu)
    chip = whole.slice(sms=min(SMS, whole.sms))
    n = QUICK_N if quick else N
    ways = layouts(n, QUICK_STRIDES if quick else STRIDES)
    points = [measure(chip, read, layout, n) for layout in ways]
    points += [measure(chip, read, way, n, "on") for way in ways if way.label in ("stride 2", *WHY)]
    print(f"{chip.title}, {LOADS} loads per thread")
    table = compared(chip, points)
    print(table)
    if out is not None:
        draw(chip, points, out / "coalescing.png")
    return points, table


if __name__ == "__main__":
    gs.experiment.script(main)

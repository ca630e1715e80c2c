"""Bank conflicts: a shared-memory access takes a pass for each different word that one bank has to deliver.

Shared memory has 32 banks of 4 bytes, and neighbouring words lie in neighbouring banks. Lanes that read every s-th word
meet gcd(s, 32) at a bank: stride 1 and all odd strides need one pass, stride 2 two, stride 32 all 32 passes, one lane
each. Hence the padding: rows of 33 words instead of 32 put the elements of a column into different banks. Accesses of 8
bytes are served half a warp at a time, of 16 bytes a quarter: w words a lane need w · gcd(s, 32 / w) passes, never less
than w, which is no conflict but the width of the banks.

The rule assumes that lanes read different words: stride 0 is one pass, for a word is sent to all who want it. A pass
takes a cycle of the SM's load/store unit, so that is what a load costs where enough warps have loads waiting. A lone
warp whose next address is the value that it loads pays the latency each time, and the passes beyond the first on top.

    gpusim-des experiment bank_conflicts --gpu h100-sxm --out out
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import gpusim_des as gs
from gpusim_des.textbook.bank_conflicts import ELEMENTS, TYPES, BankPoint, measure

GPU = "h100-sxm"
STRIDES, QUICK_STRIDES = tuple(range(34)), (0, 1, 2, 4, 8, 16, 32, 33)
CHAINS = (1, 2, 32, 33)
WARPS = 16
ONE_WORD = "all lanes read one word, which a bank sends to all at once"
IN_TURN = "each load waits for the one before: nothing hides the latency"
SHORT = {"4 bytes, stride 0": "4 bytes, broadcast", "4 bytes, stride 33": "4 bytes, padded to 33"}


def reader(dtype: np.dtype[Any], loads: int) -> gs.ThreadKernel:
    """Loads of one place over and over, as through a volatile pointer; they do not wait for each other."""

    @gs.kernel
    def read(t: Any, a: Any, out: Any, stride: int) -> Any:
        s = t.shared("s", (ELEMENTS,), dtype)
        for first in range(0, ELEMENTS, WARPS * 32):
            s[first + t.threadIdx.x] = a[first + t.threadIdx.x]
        yield t.syncthreads()
        place = t.lane * stride
        v = s[place]
        for _ in range(loads):  # a constant of the source: unrolled, so that nothing else is issued
            v = s[place]
        out[t.threadIdx.x] = v

    return read


def chaser(dtype: np.dtype[Any], loads: int) -> gs.ThreadKernel:
    """Each load needs the value of the one before as its index: every element holds its own."""

    @gs.kernel
    def chase(t: Any, a: Any, out: Any, stride: int) -> Any:
        s = t.shared("s", (ELEMENTS,), dtype)
        for first in range(0, ELEMENTS, 32):
            s[first + t.lane] = a[first + t.lane]
        yield t.syncthreads()
        place = t.lane * stride
        for _ in range(loads):
            place = s[place]
        out[t.threadIdx.x] = place

    return chase


def compared(points: Sequence[BankPoint]) -> gs.Comparison:
    """Passes by the rule, and what a pass takes."""
    return (
        gs.experiment.compare_points(
            [p for p in points if not p.chain],
            lambda p: p.formula,
            lambda p: p.passes,
            name="w · gcd(stride, 32 / w)",
            quantity="passes of a load",
            tolerance=0,
            because=lambda p: None if p.stride else (ONE_WORD, gs.experiment.reach(p.formula, p.width // 4, 0)),
            assumes="lanes read different words",
        )
        + gs.experiment.compare_points(
            points,
            lambda p: p.passes,
            lambda p: p.cycles,
            name="a cycle for each pass",
            quantity="cycles of a load",
            because=lambda p: (IN_TURN, gs.experiment.reach(p.passes, p.in_turn)) if p.chain else None,
            assumes="enough loads are waiting",
        )
        + gs.experiment.compare_points(
            [p for p in points if p.chain],
            lambda p: p.in_turn,
            lambda p: p.cycles,
            name="latency + passes beyond the first",
            quantity="cycles of a load",
            assumes="each load needs the one before",
        )
    )


def draw(chip: gs.GPU, points: Sequence[BankPoint], path: Path) -> None:
    left, right = gs.views.side_by_side([7.4, 6.4], height=5.2, title=f"Bank conflicts on {chip.title}")
    by_width = {w: [p for p in points if p.width == w and not p.chain and p.stride] for w in TYPES}
    gs.views.curves(
        [p.stride for p in by_width[4]],
        [
            gs.views.Curve(f"{w} bytes a lane", [p.passes for p in ps], [p.formula for p in ps])
            for w, ps in by_width.items()
        ],
        ax=left,
        xlabel="stride (elements)",
        ylabel="passes of a load",
        title="Passes follow the greatest common divisor",
        powers_of_two=True,
    )
    left.set_xticks([1, *range(4, 33, 4)])
    shown = [p for p in points if p.width == 4 and p.stride in (0, 1, 2, 32, 33) and not p.chain]
    shown += [p for p in points if p.width > 4 and p.stride == 1]
    shown += [p for p in points if p.chain and p.stride != 2]
    gs.views.bars(
        [SHORT.get(p.label, p.label) for p in shown],
        [p.cycles for p in shown],
        [p.passes for p in shown],
        ax=right,
        xlabel="cycles of a load",
        title="A pass is a cycle, a chain waits for the latency",
        formula_label="passes",
    )
    gs.experiment.save(left, path)


def main(gpu: str = GPU, out: Path | None = None, *, quick: bool = False) -> tuple[list[BankPoint], gs.Comparison]:
    chip = gs.load_gpu(gpu).slice(sms=1)
    points = [measure(chip, reader, s, w, WARPS) for w in TYPES for s in (QUICK_STRIDES if quick else STRIDES)]
    points += [measure(chip, chaser, s, 4, 1, chain=True) for s in CHAINS]
    print(f"{chip.title}, {WARPS} warps; chains: one")
    table = compared(points)
    print(table)
    if out is not None:
        draw(chip, points, out / "bank_conflicts.png")
    return points, table


if __name__ == "__main__":
    gs.experiment.script(main)

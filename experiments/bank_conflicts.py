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

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import gpusim_des as gs
from gpusim_des.units import FS_PER_S

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GPU = "h100-sxm"
STRIDES, QUICK_STRIDES = tuple(range(34)), (0, 1, 2, 4, 8, 16, 32, 33)
TYPES: dict[int, np.dtype[Any]] = {4: np.dtype(np.int32), 8: np.dtype(np.float64), 16: np.dtype(np.complex128)}
"""By width in bytes; a type of 16 bytes stands for float4."""
CHAINS = (1, 2, 32, 33)
ELEMENTS = 1024
WARPS = 16
LOADS = 64
"""Of a warp, in the shorter one of two runs."""
BANKS = 32


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


def chaser(loads: int) -> gs.ThreadKernel:
    """Each load needs the value of the one before as its index: every element holds its own."""

    @gs.kernel
    def chase(t: Any, a: Any, out: Any, stride: int) -> Any:
        s = t.shared("s", (ELEMENTS,), np.int32)
        for first in range(0, ELEMENTS, 32):
            s[first + t.lane] = a[first + t.lane]
        yield t.syncthreads()
        place = t.lane * stride
        for _ in range(loads):
            place = s[place]
        out[t.threadIdx.x] = place

    return chase


@dataclass(frozen=True)
class BankPoint:
    """One stride and width."""

    stride: int
    width: int
    wavefronts: float
    """Passes of a load, counted."""
    cycles: float
    """Of a load, simulated: what twice the loads take longer, over the loads more."""
    chain: bool = False

    @property
    def label(self) -> str:
        """Stride, width, and whether it is a chain."""
        return f"{self.width} bytes, stride {self.stride}" + (", a chain" if self.chain else "")

    @property
    def formula(self) -> int:
        """Passes by the gcd rule."""
        words = self.width // 4
        return words * math.gcd(self.stride, BANKS // words)


def measure(chip: gs.GPU, stride: int, width: int, *, chain: bool = False) -> BankPoint:
    """Run two lengths: what they have in common cancels out."""
    warps = 1 if chain else WARPS
    seconds, passes, requests = [], [], []
    for loads in (LOADS, 2 * LOADS):
        kernel = chaser(loads) if chain else reader(TYPES[width], loads)
        dev = gs.Device(chip)
        a, out = dev.to_device(np.arange(ELEMENTS).astype(TYPES[width])), dev.malloc(32 * warps, TYPES[width])
        dev.forget_launches()
        launch = dev.launch(kernel, 1, 32 * warps, a, out, stride, registers=32)
        if not (dev.to_host(out) == np.tile(np.arange(32) * stride, warps)).all():
            raise AssertionError(f"stride {stride}: results differ from NumPy's: this is a bug of the simulator")
        seconds.append(dev.simulate(detail="kernel").kernels[0].seconds)
        passes.append(launch.counters.shared_wavefronts)
        requests.append(launch.counters.shared_requests)
    more = requests[1] - requests[0]
    cycles = (seconds[1] - seconds[0]) * FS_PER_S / chip.sm_period_fs / more
    return BankPoint(stride, width, (passes[1] - passes[0]) / more, cycles, chain)


def compared(chip: gs.GPU, points: Sequence[BankPoint]) -> gs.Comparison:
    """Passes by the rule, and what a pass takes."""
    many, chains = [p for p in points if not p.chain], [p for p in points if p.chain]
    return (
        gs.compare(
            *([p.formula for p in many], [p.wavefronts for p in many]),
            name="w · gcd(stride, 32 / w)",
            quantity="passes of a load",
            labels=[p.label for p in many],
            tolerance=0,
            explain={
                p.label: "all lanes read one word, which a bank sends to all at once" for p in many if not p.stride
            },
            explained_up_to={p.label: gs.experiment.reach(p.formula, p.width // 4, 0) for p in many if not p.stride},
            assumes="lanes read different words",
        )
        + gs.compare(
            *([p.wavefronts for p in points], [p.cycles for p in points]),
            name="a cycle for each pass",
            quantity="cycles of a load",
            labels=[p.label for p in points],
            explain={p.label: "each load waits for the one before: nothing hides the latency" for p in chains},
            explained_up_to={p.label: gs.experiment.reach(p.wavefronts, chained(chip, p)) for p in chains},
            assumes="enough loads are waiting",
        )
        + gs.compare(
            [chained(chip, p) for p in chains],
            [p.cycles for p in chains],
            name="latency + passes beyond the first",
            quantity="cycles of a load",
            labels=[p.label for p in chains],
            assumes="each load needs the one before",
        )
    )


def chained(chip: gs.GPU, p: BankPoint) -> float:
    """Cycles of a load that waits for the one before."""
    return chip.shared_latency_cycles + p.wavefronts - 1


def draw(chip: gs.GPU, points: Sequence[BankPoint]) -> Axes:
    left, right = gs.views.side_by_side([7.4, 6.4], height=5.2, title=f"Bank conflicts on {chip.title}")
    by_width = {w: [p for p in points if p.width == w and not p.chain and p.stride] for w in TYPES}
    gs.views.curves(
        [p.stride for p in by_width[4]],
        [
            gs.views.Curve(f"{w} bytes a lane", [p.wavefronts for p in ps], [p.formula for p in ps])
            for w, ps in by_width.items()
        ],
        ax=left,
        xlabel="stride (elements)",
        ylabel="passes of a load",
        title="Passes follow the greatest common divisor",
    )
    left.set_xticks([1, 4, 8, 12, 16, 20, 24, 28, 32])
    left.set_yscale("log", base=2)
    left.set_ylim(0.8, 40)
    left.set_yticks([1, 2, 4, 8, 16, 32], ["1", "2", "4", "8", "16", "32"])
    shown = [p for p in points if p.width == 4 and p.stride in (0, 1, 2, 32, 33) and not p.chain]
    shown += [p for p in points if p.width > 4 and p.stride == 1]
    shown += [p for p in points if p.chain and p.stride != 2]
    gs.views.bars(
        [NAMES.get(p.label, p.label) for p in shown],
        [p.cycles for p in shown],
        [p.wavefronts for p in shown],
        ax=right,
        xlabel="cycles of a load",
        title="A pass is a cycle, a chain waits for the latency",
        formula_label="passes",
    )
    return left


NAMES = {"4 bytes, stride 0": "4 bytes, broadcast", "4 bytes, stride 33": "4 bytes, padded to 33"}


def main(gpu: str = GPU, out: Path | None = None, *, quick: bool = False) -> tuple[list[BankPoint], gs.Comparison]:
    chip = gs.load_gpu(gpu).slice(sms=1)
    points = [measure(chip, s, width) for width in TYPES for s in (QUICK_STRIDES if quick else STRIDES)]
    points += [measure(chip, s, 4, chain=True) for s in CHAINS]
    print(f"{chip.title}, {WARPS} warps; chains: one")
    table = compared(chip, points)
    print(table)
    if out is not None:
        gs.views.save(draw(chip, points), out / "bank_conflicts.png")
        print(f"written: {out / 'bank_conflicts.png'}")
    return points, table


if __name__ == "__main__":
    gs.experiment.script(main)

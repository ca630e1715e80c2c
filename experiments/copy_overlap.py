"""Copy and compute at once: why several streams are faster, and why pageable memory ruins it.

Data is copied to the GPU, computed, and copied back. In one piece the steps follow each other. Cut into chunks, each in
a stream of its own, the copies in, the kernels and the copies out form a pipeline: ``sum + (chunks - 1) × slowest``.
More chunks are better until the latency of each copy outweighs what they gain. With one copy engine the two directions
take turns. Pageable memory ruins it all: its copies block the host, which issues nothing meanwhile that could overlap;
if all copies in come first (breadth-first), at least the kernels run together.

The order of the calls matters as well. Breadth-first the host has called for all copies in and all kernels before it
calls for the first copy out, and with many short chunks the device waits for it. Two old chips add their own rules:
with one hardware queue and one copy engine the next copy in waits behind the copy out (C1060, depth-first), and a Fermi
tells that kernels have ended when the last of a row has, so that no copy out can start before (C2050, breadth-first).

    python experiments/copy_overlap.py --gpu tiny --out out
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import numpy as np

import gpusim_des as gs
from gpusim_des.analytic import Issue
from gpusim_des.units import FS_PER_S

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GPU = "tiny"
KIB, QUICK_KIB = 256, 64
CHUNKS, QUICK_CHUNKS = (1, 2, 4, 8, 16), (1, 2, 4)
SHOWN_CHUNKS = 4
"""Chunks in the figure of timelines."""
THREADS = 32
ROUNDS = 16
"""Elements of each thread, one after another."""
FS_PER_US = 10**9


@gs.block_kernel
def halve(blk: gs.Block, a: gs.DeviceArray, c: gs.DeviceArray) -> None:
    """One small block per SM, which waits for each load: slow on purpose, so that it shows beside the copies."""
    for k in range(ROUNDS):
        i = (blk.bx * ROUNDS + k) * THREADS + blk.tx
        blk.store(c, i, blk.load(a, i) * np.float32(0.5))


@dataclass(frozen=True)
class OverlapPoint:
    """One way to run it; times in microseconds."""

    chunks: int
    pinned: bool
    engines: int
    issue: Issue
    kernel_us: float
    """Of one chunk, alone on the GPU."""
    simulated_us: float
    formula_us: float
    sim: gs.Simulation = field(repr=False)

    @property
    def memory(self) -> str:
        """Kind of the host's memory."""
        return "pinned" if self.pinned else "pageable"

    @property
    def label(self) -> str:
        """All that is chosen, the chunks aside."""
        return f"{self.memory}, {self.engines} copy engine{'s' * (self.engines > 1)}, {self.issue}"


def run(chip: gs.GPU, nbytes: int, chunks: int, issue: Issue, *, pinned: bool) -> gs.Simulation:
    """Copy in, halve and copy out `nbytes` in `chunks`, each in a stream of its own."""
    whole_bytes = 4 * ROUNDS * THREADS * chunks
    if nbytes % whole_bytes:
        raise ValueError(f"{nbytes:,} bytes in {chunks} chunks of whole blocks: take a multiple of {whole_bytes:,}")
    dev = gs.Device(chip)
    size = nbytes // 4 // chunks
    whole_sm = min(chip.shared_bytes_per_block_optin, chip.shared_bytes_per_sm)
    host_in, host_out = (
        dev.pinned((chunks, size)) if pinned else np.zeros((chunks, size), np.float32) for _ in range(2)
    )
    host_in[:] = np.arange(chunks * size, dtype=np.float32).reshape(chunks, size)
    streams = [dev.stream() for _ in range(chunks)]
    a = [dev.malloc(size, np.float32, f"a{k}") for k in range(chunks)]
    c = [dev.malloc(size, np.float32, f"c{k}") for k in range(chunks)]
    steps = (
        lambda k: dev.memcpy_async(a[k], host_in[k], streams[k]),
        lambda k: dev.launch(
            *(halve, size // (ROUNDS * THREADS), THREADS, a[k], c[k]), dynamic_shared=whole_sm, stream=streams[k]
        ),
        lambda k: dev.memcpy_async(host_out[k], c[k], streams[k]),
    )
    if issue == "depth-first":
        order = [(step, k) for k in range(chunks) for step in steps]
    else:
        order = [(step, k) for step in steps for k in range(chunks)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gs.PageableCopyWarning)  # it is what the experiment is about
        for step, k in order:
            step(k)
    dev.synchronize()
    if not np.array_equal(host_out, host_in / 2):
        raise AssertionError("the kernel's results differ from NumPy's: this is a bug of the simulator")
    return dev.simulate(detail="kernel", caches="off")  # a kernel takes the same time per byte in every chunk


def formula_us(chip: gs.GPU, nbytes: int, chunks: int, issue: Issue, kernel_us: float, *, pinned: bool) -> float:
    """Time by the formula: the link's rates, the latencies of the host, and the kernel's time as simulated."""
    call, launch, arrival, gap, back = (
        fs / FS_PER_US
        for fs in (
            *(chip.copy_call_fs, chip.launch_call_fs, chip.launch_latency_fs),
            *(chip.kernel_gap_fs, chip.synchronize_latency_fs),
        )
    )
    rates = (
        (chip.h2d_pinned_bytes_per_s, chip.d2h_pinned_bytes_per_s)
        if pinned
        else (chip.h2d_pageable_bytes_per_s, chip.d2h_pageable_bytes_per_s)
    )
    copy_in, copy_out = (chip.copy_latency_fs / FS_PER_US + nbytes / chunks / rate * 1e6 for rate in rates)
    breadth, blocks = issue == "breadth-first", gs.cdiv(nbytes // chunks, 4 * ROUNDS * THREADS)
    together = kernel_us * gs.cdiv(chunks * blocks, chip.sms) / gs.cdiv(blocks, chip.sms)  # all kernels, one on an SM
    late = (
        breadth and chunks > 1 and chip.late_kernel_signals == "yes"
    )  # no copy out hears of its kernel before the last ends
    if pinned:
        engines = 1 if chip.copy_engines == 1 or chip.link_duplex == "half" else 2
        stages = copy_in, kernel_us + gap, copy_out
        total = float(gs.analytic.pipeline_seconds(chunks, *stages, engines=engines))
        if not breadth and engines == chip.hardware_queues == 1:  # the next copy in waits behind the copy out
            total = chunks * sum(stages)
        if late:
            total = max(total, max(chunks * copy_in + kernel_us, copy_in + together) + gap + chunks * copy_out)
        if breadth:  # the host calls for all copies in and all kernels before the first copy out
            total = max(total, chunks * (call + launch + copy_out))
        return call + arrival + total + back
    copy_in += call + arrival + back  # every copy waits for a call, and the host for every copy
    copy_out += back + (call + arrival) * breadth  # depth-first the kernel hides the call
    computed = launch + arrival + kernel_us
    total = float(gs.analytic.blocking_seconds(chunks, copy_in, computed, copy_out, issue=issue)) + back
    if breadth:  # the call of one copy out passes while its kernel runs, as far as that goes
        first = launch + arrival + max(together, (chunks - 1) * launch + kernel_us) if late else computed
        total += max(first, chunks * launch + call + arrival) - computed - (call + arrival)
    return total


def measure(chip: gs.GPU, nbytes: int, chunks: int, issue: Issue, *, pinned: bool) -> OverlapPoint:
    sim = run(chip, nbytes, chunks, issue, pinned=pinned)
    kernel_us = min(k.seconds for k in sim.kernels) * 1e6  # others may have waited for SMs
    predicted = formula_us(chip, nbytes, chunks, issue, kernel_us, pinned=pinned)
    return OverlapPoint(chunks, pinned, chip.copy_engines, issue, kernel_us, sim.seconds * 1e6, predicted, sim)


def compared(chip: gs.GPU, points: Sequence[OverlapPoint], nbytes: int) -> gs.Comparison:
    """Each way beside its formula, and pageable memory beside the pipeline, which it cannot be."""
    table = gs.compare(
        [p.formula_us for p in points],
        [p.simulated_us for p in points],
        name="sum of stages + (chunks − 1) × slowest",
        quantity="time (µs)",
        labels=[f"{p.chunks} chunks: {p.label}" for p in points],
        assumes="copies and kernels overlap; of pageable memory, all that the host's waiting leaves",
    )
    last = max((p for p in points if not p.pinned), key=lambda p: (p.chunks, p.engines, p.issue == "depth-first"))
    rates = chip.h2d_pageable_bytes_per_s, chip.d2h_pageable_bytes_per_s
    copies = [chip.copy_latency_fs / FS_PER_S + nbytes / last.chunks / rate for rate in rates]
    pipeline_us = 1e6 * gs.analytic.pipeline_seconds(last.chunks, copies[0], last.kernel_us / 1e6, copies[1])
    return table + gs.compare(
        pipeline_us,
        last.simulated_us,
        name="the same for pageable memory",
        quantity="time (µs)",
        labels=[f"{last.chunks} chunks: {last.label}"],
        explain="a copy of pageable memory blocks the host, which issues nothing meanwhile that could overlap",
        explained_up_to=gs.experiment.reach(pipeline_us, last.formula_us),
        assumes="copies that do not block the host",
    )


def totals(points: Sequence[OverlapPoint], title: str) -> Axes:
    """Draw the time over the chunks; ways that differ in nothing share a curve."""
    shown = {
        "pinned, 2 copy engines": (True, 2, "depth-first"),
        "pinned, 1 copy engine": (True, 1, "depth-first"),
        "pageable, breadth-first": (False, 2, "breadth-first"),
        "pageable, depth-first": (False, 2, "depth-first"),
    }
    found = {label: [p for p in points if (p.pinned, p.engines, p.issue) == way] for label, way in shown.items()}
    return gs.views.curves(
        sorted({p.chunks for p in points}),
        [gs.views.Curve(n, [p.simulated_us for p in ps], [p.formula_us for p in ps]) for n, ps in found.items()],
        xlabel="chunks, each in a stream of its own",
        ylabel="time (µs)",
        title=title,
        logarithmic=True,
    )


def main(
    gpu: str = GPU,
    out: Path | None = None,
    chunks: Sequence[int] | None = None,
    kib: int | None = None,
    *,
    quick: bool = False,
) -> tuple[list[OverlapPoint], gs.Comparison]:
    chunks = chunks or (QUICK_CHUNKS if quick else CHUNKS)
    kib = kib or (QUICK_KIB if quick else KIB)
    whole = gs.load_gpu(gpu)
    points = [
        measure(whole.replace(copy_engines=engines), kib * 1024, number, issue, pinned=pinned)
        for pinned in (True, False)
        for engines in (2, 1)
        for issue in get_args(Issue)
        for number in chunks
    ]
    title = f"{kib:,} KiB copied in, halved, copied out on {whole.title}"
    print(title)
    table = compared(whole, points, kib * 1024)
    print(table)
    number = SHOWN_CHUNKS if SHOWN_CHUNKS in chunks else max(chunks)
    several = [p for p in points if p.chunks == number]
    best, worst = min(several, key=lambda p: p.simulated_us), max(several, key=lambda p: p.simulated_us)
    for name, point in (("best", best), ("worst", worst)):
        print(f"\n{name} of {number} chunks: {point.label}\n{point.sim.overlap()}")
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        one = next(p for p in points if p.chunks == min(chunks))
        runs = {f"{p.chunks} stream{'s' * (p.chunks > 1)}, {p.label}": p.sim for p in (one, best, worst)}
        gs.views.save(totals(points, title), out / "copy_overlap.png")
        gs.views.save(gs.views.compare_streams(runs), out / "copy_overlap_timelines.png")
        print(f"\nwritten: {out / 'copy_overlap.png'}, {out / 'copy_overlap_timelines.png'}")
    return points, table


if __name__ == "__main__":
    gs.experiment.script(main, kib=f"KiB copied each way (default: {KIB}, with --quick {QUICK_KIB})")

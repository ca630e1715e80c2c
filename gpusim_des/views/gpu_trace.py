"""The GPU's side of a trace: kernels, and blocks in their slots on SMs. Warps have a file of their own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Any

from gpusim_des.timeline import BlockSpan, KernelTiming, Timeline
from gpusim_des.views.lanes import lanes
from gpusim_des.views.trace_events import Row, Slices, Track, ns, slices

GPU = "GPU"
"""Name of the process that holds the kernels and counters."""


def gpu_pid(timeline: Timeline) -> int:
    """Return the process number after the last SM; number 0 means the idle process to viewers."""
    return timeline.sms + 1


def sm_pid(sm: int) -> int:
    """Return the process number of an SM."""
    return sm + 1


def slot_track(sm: int, slot: int) -> Track:
    """Return the row of a block slot."""
    return Track(sm_pid(sm), slot + 1, f"block slot {slot}")


def kernel_slices(timeline: Timeline) -> Slices:
    """One slice for each kernel, on the first row where no other is still running; within it, what is extrapolated."""
    numbers = {id(kernel): number for number, kernel in enumerate(timeline.kernels)}
    rows: list[Row] = []
    for lane, members in enumerate(lanes(timeline.kernels)):
        track = Track(gpu_pid(timeline), lane + 1, "kernels" if lane == 0 else f"kernels, concurrent {lane}")
        found: list[tuple[str, int, int, dict[str, Any]]] = []
        for kernel in members:
            notes = _kernel_notes(numbers[id(kernel)], kernel)
            found.append((kernel.name, ns(kernel.start_fs), ns(kernel.end_fs), notes))
            if kernel.sampled is not None:
                said = {"note": kernel.sampled.sentence(kernel.end_fs - kernel.start_fs, kernel.dram_bytes)}
                found.append(("extrapolated", ns(kernel.sampled.simulated_end_fs), ns(kernel.end_fs), said))
        names, starts, ends, all_notes = zip(*found, strict=True)
        rows.append((track, names, starts, ends, all_notes))
    return slices("kernel", rows)


def _kernel_notes(number: int, kernel: KernelTiming) -> dict[str, Any]:
    """Return what a click on a kernel shows; the first three names and meanings are those of PyTorch's profiler."""
    blocks_per_sm = kernel.blocks / kernel.sms
    return {
        "blocks per SM": round(blocks_per_sm, 6),
        "warps per SM": round(blocks_per_sm * kernel.warps_per_block, 6),
        "est. achieved occupancy %": round(100 * kernel.achieved_occupancy, 3),
        "theoretical occupancy %": round(100 * kernel.theoretical_occupancy, 3),
        "occupancy limiter": kernel.occupancy_limiter,
        "kernel": number,
        "blocks": kernel.blocks,
        "warps per block": kernel.warps_per_block,
        "blocks that fit per SM": kernel.blocks_per_sm,
        "cycles": kernel.cycles,
        "warp instructions": kernel.warp_instructions,
        "DRAM bytes": kernel.dram_bytes,
        "main stall": kernel.main_stall,
    }


def block_slices(timeline: Timeline, blocks: Iterable[BlockSpan]) -> Iterator[Slices]:
    """One slice for each of the blocks, in the row of its slot; a table for each SM."""
    sms: dict[int, dict[int, list[BlockSpan]]] = defaultdict(lambda: defaultdict(list))
    for span in blocks:
        sms[span.sm][span.slot].append(span)
    for sm in sorted(sms):
        rows: list[Row] = []
        for slot, members in sorted(sms[sm].items()):
            members.sort(key=attrgetter("start_fs"))
            names = [f"{timeline.kernels[b.kernel].name} block {b.block}" for b in members]
            starts, ends = [ns(b.start_fs) for b in members], [ns(b.end_fs) for b in members]
            notes = [
                {"kernel": b.kernel, "block": b.block, "cycles": _cycles(timeline, b.end_fs - b.start_fs)}
                for b in members
            ]
            rows.append((slot_track(sm, slot), names, starts, ends, notes))
        yield slices("block", rows)


def _cycles(timeline: Timeline, fs: int) -> int | float:
    """Duration in SM cycles, an integer where it is whole."""
    whole, rest = divmod(fs, timeline.sm_period_fs)
    return round(fs / timeline.sm_period_fs, 3) if rest else whole

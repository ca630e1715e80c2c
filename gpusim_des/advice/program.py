"""Advice on a whole program: its kernels by their share of the time, and what kept the device idle or in sequence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from gpusim_des.advice.advice import LEAST, Advice, worst_first
from gpusim_des.advice.kernel_facts import KernelFacts
from gpusim_des.advice.timed import kernel_advice
from gpusim_des.gpu import GPU
from gpusim_des.timeline import FS_PER_S, Timeline, overlap
from gpusim_des.timeline.busy import busy_fs
from gpusim_des.timeline.obstacles import obstacles
from gpusim_des.units import duration

_EVENTS = ("record event", "wait event")
"""Calls of the host, beside those that issue work or wait for it."""


def program_advice(timeline: Timeline, kernels: Sequence[KernelFacts | None]) -> list[Advice]:
    """Find what costs a program time, worst first.

    Parameters
    ----------
    timeline
        The simulation's record.
    kernels
        Facts of every launch by its number; ``None`` where nothing is known but its time.

    Returns
    -------
    list of Advice
        Shares are of the whole program, from the host's first call to the end of everything. Kernels that were
        launched several times share their advice.
    """
    total = timeline.end_fs / FS_PER_S
    if not total:
        return []
    found: list[Advice] = []
    for timing in timeline.kernels:
        facts = kernels[timing.number] if timing.number < len(kernels) else None
        if facts is not None and timing.warp_instructions:
            part = timing.seconds / total
            found += [replace(advice, share=part * advice.share) for advice in kernel_advice(facts, timing)]
    gpu = next((facts.gpu for facts in kernels if facts is not None), None)
    found = [*_merged(found), *_obstacles(timeline, total, gpu), *_short_kernel(timeline), *_unsynchronized(timeline)]
    return worst_first([*found, *([] if gpu is None else _small_copies(timeline, total, gpu))])


def _merged(found: Iterable[Advice]) -> Iterator[Advice]:
    """One piece of advice for all launches of a kernel, with the figures of the launch that it costs most."""
    groups: dict[tuple[str, ...], list[Advice]] = {}
    for a in found:
        groups.setdefault((a.kernel, a.check, a.filename, str(a.line), a.array), []).append(a)
    for group in groups.values():
        worst = max(group, key=lambda advice: advice.share)
        share = sum(advice.share for advice in group)
        if share >= LEAST:
            yield replace(worst, share=min(1.0, share))


def _obstacles(timeline: Timeline, total: float, gpu: GPU | None) -> Iterator[Advice]:
    """What kept operations apart that could have run at once, as far as that would have made the program shorter."""
    possible = max(0.0, total - overlap(timeline).ideal_s)
    for obstacle in obstacles(timeline):
        cost = obstacle.seconds
        if obstacle.check == "pageable_copies":
            cost = min(cost, possible + _staging_seconds(timeline, gpu))
        elif obstacle.check != "launch_bound":
            cost = min(cost, possible)
        if obstacle.remedy and cost >= LEAST * total:
            first, _, rest = obstacle.finding.partition(" ")
            yield Advice(
                obstacle.check,
                f"{first if any(map(str.isdigit, first)) else first.capitalize()} {rest}",
                obstacle.remedy,
                obstacle.seconds,
                0,
                cost / total,
                obstacle.line,
            )


def _short_kernel(timeline: Timeline) -> Iterator[Advice]:
    """Find programs of one kernel that is over before its call has paid off; of several, obstacles tell."""
    kernels = [o for o in timeline.operations if o.kind == "kernel"]
    idle = timeline.end_fs - busy_fs(timeline.operations)
    if len(kernels) != 1 or 2 * idle <= timeline.end_fs:
        return
    (kernel,) = kernels
    yield Advice(
        "short_kernel",
        f"Kernel {kernel.name} runs for {duration(kernel.seconds)}, but nothing ran on the device for "
        f"{duration(idle / FS_PER_S)} of {duration(timeline.end_fs / FS_PER_S)}: a time taken around it is that of its "
        "call",
        "to judge it, time many launches after a first one, or give it more work",
        kernel.seconds,
        timeline.end_fs / FS_PER_S,
        idle / timeline.end_fs,
        kernel.line,
    )


def _staging_seconds(timeline: Timeline, gpu: GPU | None) -> float:
    """How much longer copies of pageable memory take than copies of pinned memory would (H2)."""
    if gpu is None:
        return 0.0
    slower = {
        "h2d": 1 / gpu.h2d_pageable_bytes_per_s - 1 / gpu.h2d_pinned_bytes_per_s,
        "d2h": 1 / gpu.d2h_pageable_bytes_per_s - 1 / gpu.d2h_pinned_bytes_per_s,
    }
    return sum(o.nbytes * slower[o.kind] for o in timeline.operations if o.pageable and not o.blocking)


FEW = 3
"""Copies of one direction from which on their latencies are worth a word."""


def _small_copies(timeline: Timeline, total: float, gpu: GPU) -> Iterator[Advice]:
    """Find copies that take longer to begin than to move their bytes."""
    latency = gpu.copy_latency_fs / FS_PER_S
    for direction in ("h2d", "d2h"):
        small = [o for o in timeline.operations if o.kind == direction and o.seconds < 2 * latency]
        share = (len(small) - 1) * latency / total
        if len(small) < FEW or share < LEAST:
            continue
        mean = sum(o.nbytes for o in small) / len(small)
        yield Advice(
            "small_copies",
            f"{len(small)} copies {direction} of {mean:,.0f} bytes, mean: {duration(latency)} of each is latency, "
            "more than its bytes take",
            "copy once: put what is copied into one array",
            len(small),
            1,
            min(1.0, share),
            small[0].line,
        )


def _unsynchronized(timeline: Timeline) -> Iterator[Advice]:
    """Find programs in which the host works on and ends before the device, without ever waiting for it."""
    calls, operations = timeline.host, timeline.operations
    if not calls or not operations:
        return
    last = max(operations, key=lambda o: o.end_fs)
    end = max(call.end_fs for call in calls)
    behind = [call for call in calls if call.start_fs >= last.issued_fs]
    works_on = any(call.end_fs > call.start_fs and not call.waits and call.name not in _EVENTS for call in behind)
    if not works_on or any(call.waits for call in behind) or end >= last.end_fs:
        return
    what = f"kernel {last.name}" if last.kind == "kernel" else last.name
    yield Advice(
        "unsynchronized",
        f"The host ends after {duration(end / FS_PER_S)} and {what} {duration((last.end_fs - end) / FS_PER_S)} later: "
        "a clock that the host reads shows only its calls, and results are not there yet",
        "synchronize before reading the clock or the results",
        end / FS_PER_S,
        last.end_fs / FS_PER_S,
        (last.end_fs - end) / timeline.end_fs,
        last.line,
    )

"""Chips on which one assumption of a formula holds: nothing waits, or one part alone is the limit.

The public names are those of `gpusim_des.experiment`.
"""

from __future__ import annotations

from typing import Any, get_args

from gpusim_des.gpu import GPU
from gpusim_des.gpu.parameters import Traffic
from gpusim_des.gpu.schema import PIPE_CLASSES
from gpusim_des.grid import WARP_SIZE, cdiv

FAST, ROOM = 16, 4
"""How much faster DRAM is, and how many more blocks fit, where they are to be no limit."""
LOAD_STORE = "load/store units"
NEAR, FURTHER = 20, 20
"""Cycles to the L2 and back, and from there to DRAM, where nothing waits."""
FIXED = 4
"""Cycles of the way at least, beside what a sector or a granule takes: load/store unit, ports, rounding."""


def without_waits(chip: GPU) -> GPU:
    """Return the chip as it would be if every answer came at once, to see whether waiting is all that a formula misses.

    Rates stay: pipes, load/store units, atomic units, L2 and DRAM do as much in a second as before, and the same number
    of blocks fits. Latencies are a few cycles (40 to DRAM and back), blocks start and end in no time, queues and store
    buffers have room for all, and warps take turns. A kernel's time there is the work of its busiest part, or the
    formula for that is wrong. Where a sector or a granule takes longer than these latencies, they are that much longer.

    Examples
    --------
    >>> from gpusim_des.gpu import load_gpu
    >>> calm = without_waits(load_gpu("tiny"))
    >>> calm.dram_latency_cycles, calm.pipe("fp32").latency_cycles, calm.dram_bandwidth_bytes_per_s
    (40, 1, 64000000000)
    """
    pipes = {f"{pipe}_latency_cycles": 1 for pipe in PIPE_CLASSES if pipe != "branch"}
    granule = max(chip.granule_fs(kind) for kind in get_args(Traffic))
    l2 = max(NEAR, FIXED + cdiv(chip.l2_sector_fs, chip.sm_period_fs))
    dram = l2 + max(FURTHER, FIXED + cdiv(granule, chip.sm_period_fs))
    cycles = {"l1": 10, "l2": l2, "l2_far": l2 + 1, "dram": dram, "branch": 1, "barrier": 0, "shared": 1, "shuffle": 1}
    return chip.replace(
        title=chip.title,
        scheduler_policy="lrr",
        block_start_cycles=0,
        block_end_cycles=0,
        dispatch_interval="1 ps",
        store_buffer="1 MiB",
        load_store_queue_depth=64,
        **pipes,
        **{f"{what}_latency_cycles": number for what, number in cycles.items()},
    )


def limited_by(chip: GPU, part: str, room: int = ROOM) -> GPU:
    """Return the chip where nothing waits, and where `part` is the limit by a wide margin.

    A formula that takes the busiest part alone assumes that no other part is ever in its way. Two that are about as
    busy are, for they take turns. Here they are apart: the DRAM or the pipe that limits has half of its rate; for other
    parts the DRAM is 16 times as fast and pipes take twice as much, up to a warp a cycle. There is room for four times
    as many blocks, so that some are always ready. DRAM does not mind turning between reads and writes, and where it
    limits, it is one channel, for of several one may have more to do than the others.

    Where issue slots or a pipe limit, warps take turns, so that none falls behind. Where a part of the memory does, the
    scheduler is greedy: warps that take turns compute their addresses all at once, and meanwhile the memory idles.
    Greedy warps let blocks end at different times, so that some of several SMs get more of them than others: where a
    part of an SM limits, it is one SM.

    Parameters
    ----------
    chip
        As it is.
    part
        Name of a part in `gs.analytic.roofline`: ``"DRAM"``, ``"issue slots"``, ``"fp32 pipe"``, …; parts of the L2
        have it in their names.
    room
        How many times as many blocks fit; 1 where blocks that end together would crowd another part.

    Examples
    --------
    >>> from gpusim_des.gpu import load_gpu
    >>> tiny = load_gpu("tiny")
    >>> limited_by(tiny, "DRAM").dram_bandwidth_bytes_per_s, limited_by(tiny, "issue slots").dram_bandwidth_bytes_per_s
    (32000000000, 512000000000)
    """
    outside = part == "DRAM" or "L2" in part
    there, mixed = chip if outside else chip.slice(sms=1), chip.dram_efficiency_mixed
    bandwidth = there.dram_bandwidth_bytes_per_s
    changed: dict[str, Any] = {
        "dram_bandwidth": bandwidth // 2 if part == "DRAM" else bandwidth * FAST,
        "dram_channels": 1 if part == "DRAM" else there.dram_channels,
        "dram_efficiency_read": mixed,
        "dram_efficiency_write": mixed,
    }
    if "L2" not in part:  # there more blocks would only wait longer, in another order
        for count in ("max_warps_per_sm", "max_threads_per_sm", "max_blocks_per_sm", "registers_per_sm"):
            changed[count] = room * getattr(there, count)
    limiting = part.removesuffix(" pipe")
    for pipe in PIPE_CLASSES:
        lanes = there.pipe(pipe).lanes
        if lanes and pipe == limiting:
            changed[f"{pipe}_lanes"] = max(1, lanes // 2)
        elif lanes and lanes < WARP_SIZE and limiting == part:
            changed[f"{pipe}_lanes"] = 2 * lanes
    policy = "gto" if outside or part == LOAD_STORE else "lrr"
    return without_waits(there.replace(**changed)).replace(title=chip.title, scheduler_policy=policy)

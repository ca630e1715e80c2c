"""What a kernel had counted at a moment, in one row of numbers, and what lies between two moments (S2)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpusim_des.timeline import WarpState
from gpusim_des.timing.extrapolation import Extrapolation
from gpusim_des.timing.extrapolation_error import Rates
from gpusim_des.timing.kernel_run import KernelRun
from gpusim_des.timing.traffic import MOVED, Traffic
from gpusim_des.timing.use import SERVERS, Use

LISTS = "stalls", "mix", "quarter_cycles", "pipe_parts"
NUMBERS = ("resident_warp_cycles", "thread_instructions", *MOVED)
"""What a run counts and a checkpoint keeps, stalls first and what memory does last."""

_WAITING = [WarpState.LONG_SCOREBOARD, WarpState.BARRIER]
"""States in which warps wait for global memory, or for warps that do."""

Counts = NDArray[np.int64]


class Checkpoint(NamedTuple):
    """What a kernel had counted when a block was about to be placed."""

    block: int
    """Number of the block among the played ones."""
    counts: Counts
    use: Use
    backlog_fs: int
    """How long the memory system would still have to work on writes that it has taken on."""


def counts_of(run: KernelRun) -> Counts:
    """Everything that a run counts, in one row."""
    lists = [number for name in LISTS for number in getattr(run, name)]
    return np.array(lists + [getattr(run, name) for name in NUMBERS], np.int64)


def set_counts(run: KernelRun, counts: Counts) -> None:
    """Put a row of counts where a run keeps them."""
    begin = 0
    for name in LISTS:
        end = begin + len(getattr(run, name))
        setattr(run, name, counts[begin:end].tolist())
        begin = end
    for name, number in zip(NUMBERS, counts[begin:].tolist(), strict=True):
        setattr(run, name, number)


def rates(checkpoints: Sequence[Checkpoint], warm: tuple[float, float], granule_bytes: int) -> Rates:
    """What the memory system did per block between the first and the last checkpoint."""

    def per_block(first: Checkpoint, last: Checkpoint) -> dict[str, float]:
        counted = (last.counts - first.counts)[-len(NUMBERS) :] / (last.block - first.block)
        return dict(zip(NUMBERS, counted.tolist(), strict=True))

    counted = per_block(checkpoints[0], checkpoints[-1])
    spent = (checkpoints[-1].counts - checkpoints[0].counts)[: len(WarpState)]
    begins = checkpoints[::2]
    reads = [per_block(a, b)["read_granules"] for a, b in zip(begins, checkpoints[1::2], strict=True)]
    growth = [(b.backlog_fs - a.backlog_fs) / (b.block - a.block) for a, b in pairwise(begins)]
    return Rates(
        asked_sectors=counted["l1_sectors"] + counted["stored_sectors"],
        stored_sectors=counted["stored_sectors"],
        spared_bytes=max(0.0, reads[0] - min(reads[1:])) * granule_bytes,
        waiting=float(spent[_WAITING].sum() / max(1, spent.sum())),
        read_bytes=counted["read_granules"] * granule_bytes,
        growth_fs=tuple(growth),
        warm=warm,
    )


def missing_counts(
    estimate: Extrapolation, checkpoints: Sequence[Checkpoint], missing: Traffic, added_fs: int
) -> tuple[Counts, Use]:
    """Return what is added to a kernel's counts, and to the busy times of the memory system, in `added_fs`.

    Work is done for every block, in proportion to its work, as in the measured stretches on both sides of the gap;
    warps spend the time in the states in which they spent it there. What memory does, `missing` says; its servers are
    busy with that as they were with what they did in the measured stretches.
    """
    stretches = list(zip(checkpoints[::2], checkpoints[1::2], strict=True))
    states = len(WarpState)
    counts = np.zeros(len(checkpoints[0].counts))
    whole = sum(part.cost - part.played for part in estimate.missing)
    for part in estimate.missing:
        near = range(part.after, part.after + 2)
        counted = np.zeros(len(counts))
        elapsed = 0
        for run in near:
            first, last = stretches[run]
            counted += last.counts - first.counts
            elapsed += last.use.time_fs - first.use.time_fs
        share = added_fs * (part.cost - part.played) / whole if whole else 0.0
        counts[:states] += counted[:states] * (share / elapsed)
        scale = part.amount / sum(estimate.amount(run) for run in near)
        counts[states : -len(MOVED)] += counted[states : -len(MOVED)] * scale
    counts[-len(NUMBERS)] = counts[:states].sum()  # resident: what states there are
    counts[-len(MOVED) :] = [missing.added[name] for name in MOVED]
    busy = []
    for name in SERVERS:
        share = missing.granules_share if name == "channels" else missing.share
        times = sum(np.array(getattr(last.use, name)) - getattr(first.use, name) for first, last in stretches)
        busy.append([round(min(n, added_fs)) for n in (share * times).tolist()])
    added: Counts = np.maximum(np.rint(counts), 0).astype(np.int64)
    return added, Use(added_fs, *busy)


def moved(counts: Counts) -> dict[str, int]:
    """What a row of counts says of memory."""
    return dict(zip(MOVED, counts[-len(MOVED) :].tolist(), strict=True))


def moved_in_stretches(checkpoints: Sequence[Checkpoint]) -> list[dict[str, int]]:
    """What memory did in the measured stretch of every run."""
    pairs = zip(checkpoints[::2], checkpoints[1::2], strict=True)
    return [moved(last.counts - first.counts) for first, last in pairs]

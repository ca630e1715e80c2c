"""Little's law, L = λW: bytes in flight make the bandwidth, until they queue.

Warps walk through lists that are scattered over memory: each load has to be back before the next one of its list can
go. A list keeps one line of 128 bytes in flight, so the experiment knows L: lists × 128 bytes. Little's law with the
latency of a load that is alone says λ = L / W, at most what the DRAM gives. That holds while loads do not meet. Towards
saturation they do: the channels are queues, and a load waits for those before it. With random arrivals and equal
service a channel is an M/D/1 queue, with a mean wait of ρ S / (2 (1 - ρ)). Put into Little's law, it gives the
bandwidth over the whole range: λ (W + wait(λ)) = L.

Little's law itself assumes a steady state and nothing else: with L, λ and W all taken from the simulated loads it holds
at every point. The formula of the queue breaks close to ρ = 1, where it grows without end: no more loads can wait than
there are lists. Mean value analysis of a closed queue knows their number, and gives the latency on both sides of the
knee. Warps issue in order, so that with several lists a load that could go waits for the list before it, and less is in
flight than there are lists; the closed queue therefore takes the number that was in flight. On a single channel loads
that have waited for each other once come one by one ever after, as in a round of cars through one toll gate, and
nobody waits until there are too many: the sharp knee is right there.

    gpusim-des experiment little_law --gpu h100-sxm --out out
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import gpusim_des as gs
from gpusim_des.grid import WARP_SIZE
from gpusim_des.textbook.little_law import STEPS, Channels, LoadPoint, channels, draw_bandwidth, draw_wait, measure
from gpusim_des.trace import LINE_BYTES

GPU = "h100-sxm"
SMS = 4  # of the slice
SHAPES = ((1 / 16, 1), (1 / 4, 1), (1 / 2, 1), (3 / 4, 1), (1, 1), (5 / 8, 2), (3 / 4, 2), (1, 2), (1, 3), (1, 4))
QUICK_SHAPES = ((1 / 4, 1), (3 / 4, 1), (1, 1), (1, 4))  # share of an SM's warp slots, lists of a warp
NEARLY_FULL = 0.999  # utilisation from which on M/D/1 has no meaning


def walker(lists: int) -> gs.ThreadKernel:
    """Walk `lists` lists at once. A warp starts late by a number of rounds of its own, so that they do not march."""

    @gs.kernel
    def walk(t: Any, following: Any, late: Any, end: Any) -> None:
        i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
        at = [np.int32(0)] * lists
        for k in range(lists):
            at[k] = i + k * t.gridDim.x * t.blockDim.x
        for _ in range(late[i // WARP_SIZE]):
            at[0] += 0
        for _ in range(STEPS):
            for k in range(lists):
                at[k] = following[at[k]]
        for k in range(1, lists):
            at[0] += at[k]
        end[i] = at[0]

    return walk


def compared(points: Sequence[LoadPoint], dram: Channels) -> gs.Comparison:
    """The law with two latencies, the wait, and the law as Little proved it."""
    bandwidth, latency, reach = "bandwidth (GB/s)", "latency under load (cycles)", gs.experiment.reach
    return (
        gs.experiment.compare_points(
            points,
            lambda p: dram.gbs(dram.knee(p.flights)),
            lambda p: dram.gbs(p.per_cycle),
            name="Little's law, W = latency of a lone load",
            quantity=bandwidth,
            because=lambda p: (dram.loads_queue(p), reach(dram.knee(p.flights), dram.least(p))),
            assumes="loads do not meet",
        )
        + gs.experiment.compare_points(
            points,
            lambda p: dram.gbs(dram.queued(p.flights)),
            lambda p: dram.gbs(p.per_cycle),
            name="Little's law, W = latency + M/D/1 wait",
            quantity=bandwidth,
            because=lambda p: (dram.few_lists(p), reach(dram.queued(p.flights), dram.least(p))),
            assumes="random arrivals",
        )
        + gs.experiment.compare_points(
            points,
            lambda p: p.per_cycle * p.latency,
            lambda p: p.in_flight,
            name="L = λW",
            quantity="loads in flight",
            assumes="a steady state",
        )
        + gs.experiment.compare_points(
            points,
            lambda p: dram.closed(p.in_flight),
            lambda p: p.latency,
            name="latency + wait of a closed queue" if dram.number > 1 else "max(latency, loads × service)",
            quantity=latency,
            assumes="as many loads as are in flight, each to a random channel",
        )
        + gs.experiment.compare_points(
            [p for p in points if dram.utilisation(p.per_cycle) < NEARLY_FULL],  # a few warps can fill a single channel
            lambda p: dram.waiting(dram.utilisation(p.per_cycle)),
            lambda p: p.latency,
            name="latency + M/D/1 wait",
            quantity=latency,
            because=lambda p: (
                dram.few_lists(p),
                reach(dram.waiting(dram.utilisation(p.per_cycle)), dram.closed(p.in_flight)),
            ),
            assumes="random arrivals without end",
        )
    )


def main(gpu: str = GPU, out: Path | None = None, *, quick: bool = False) -> tuple[list[LoadPoint], gs.Comparison]:
    whole = gs.load_gpu(gpu)
    chip = whole.slice(sms=min(SMS, whole.sms))
    shapes = [(max(1, round(chip.max_warps_per_sm * part)), n) for part, n in (QUICK_SHAPES if quick else SHAPES)]
    dram = channels(chip, walker)
    points = [measure(chip, walker, warps, lists, chip.sms) for warps, lists in dict.fromkeys(shapes)]
    table = compared(points, dram)
    print(
        f"{chip.title}: {dram.number} channels, a line of {LINE_BYTES} bytes takes {dram.service:.1f} cycles on one, a "
        f"lone load {dram.latency:.0f}\n{table}"
    )
    if out is not None:
        draw_bandwidth(points, dram, chip, out / "little_law.png")
        draw_wait(points, dram, whole, out / "little_law_wait.png")
    return points, table


if __name__ == "__main__":
    gs.experiment.script(main)

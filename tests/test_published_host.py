"""The host side against published measurements: overlap of copies, the PCIe curve, small kernels (H1, H2)."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpusim_des as gs
from gpusim_des.gpu import GPU, load_gpu
from gpusim_des.timeline import Timeline
from gpusim_des.trace import Command, KernelTrace, LaunchKernel
from tests.programs import chain, trace
from tests.timed_programs import US, copy, graph, play, record, synchronize

PUBLISHED: dict[str, Any] = json.loads((Path(__file__).parent / "data" / "published_host.json").read_text("utf-8"))
OVERLAP = PUBLISHED["async_overlap"]
CARDS = tuple(OVERLAP["ms"])
KB = OVERLAP["bytes"] / 1000
STREAMS = range(1, OVERLAP["streams"] + 1)


# Overlap ------------------------------------------------------------------------------------------------------------


def work(gpu: GPU, steps: int) -> KernelTrace:
    """A chain of dependent additions on every SM, whose shared memory lets no other kernel's block beside it.

    The real kernel, with sine, cosine and root of every element, fills the GPU; two of them at once are no faster.
    """
    return trace(*[[chain(steps)]] * gpu.sms, shared_bytes=gpu.shared_bytes_per_block)


def elapsed_ms(gpu: GPU, *commands: Command, **options: Any) -> float:
    """Milliseconds between two events around the calls, in the default stream, as in the example."""
    timeline = play(record(0), *commands, record(1), synchronize("event", event=1), gpu=gpu, **options)
    return (timeline.event_times[1] - timeline.event_times[0]) / (1000 * US)


STEPS = 40
"""Additions of a quarter of the kernel; how long one takes is what is fitted."""


def sequential(gpu: GPU, **options: Any) -> float:
    there, back = copy("h2d", KB, blocking=True), copy("d2h", KB, blocking=True)
    return elapsed_ms(gpu, there, LaunchKernel(trace=work(gpu, 4 * STEPS)), back, **options)


def overlapped(gpu: GPU, version: int, **options: Any) -> float:
    """Version 1 issues depth first, stream by stream; version 2 breadth first, kind by kind."""
    quarter = work(gpu, STEPS)
    steps = [[copy("h2d", KB / 4, s), LaunchKernel(s, trace=quarter), copy("d2h", KB / 4, s)] for s in STREAMS]
    order = steps if version == 1 else zip(*steps, strict=True)
    return elapsed_ms(gpu, *(command for part in order for command in part), **options)


def fitted(gpu: GPU, ms: float) -> GPU:
    """The GPU on which the sequential program takes `ms`, by the time of an addition."""
    first = gpu.replace(fp32_latency_cycles=1000)
    lacking = (ms - sequential(first)) * 1000 * US / (4 * STEPS * gpu.sm_period_fs)
    return first.replace(fp32_latency_cycles=1000 + round(lacking))


@cache
def fitted_card(name: str) -> GPU:
    return fitted(load_gpu(name), OVERLAP["ms"][name]["sequential"])


@pytest.mark.parametrize("name", CARDS)
def test_the_sequential_time_is_the_only_one_fitted(name: str) -> None:
    assert sequential(fitted_card(name)) == pytest.approx(OVERLAP["ms"][name]["sequential"], rel=0.01)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("name", CARDS)
def test_overlap_as_published(name: str, version: int) -> None:
    """Within 5 %, where 10 are asked for.

    One copy engine makes version 1 as slow as no streams at all, because the copy back of a stream stands before the
    next stream's copy there. Version 2 is the slower one on a C2050: the chip signals the end of kernels that follow
    each other when the last is over, so no copy back starts before (H1).
    """
    published = OVERLAP["ms"][name][f"version {version}"]
    assert overlapped(fitted_card(name), version) == pytest.approx(published, rel=0.05)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("name", CARDS)
def test_overlap_as_in_the_schematic(name: str, version: int) -> None:
    """Twelfths of the sequential time, when copies and kernel take equally long and nothing else takes time.

    These fractions cannot be all of it: of a C2050's 9.98 ms, six twelfths are 13 % less than the 5.74 measured. With
    the link as fast as it was measured on other cards (see the model) the kernel is longer than the copies.
    """
    gpu = load_gpu(name)
    rate = round(OVERLAP["bytes"] / 0.004)
    gpu = gpu.replace(copy_latency_fs=0, h2d_pinned_bytes_per_s=rate, d2h_pinned_bytes_per_s=rate)
    gpu = gpu.replace(fp32_latency_cycles=round(0.004 / (4 * STEPS) * gpu.sm_clock_hz))
    twelfths = OVERLAP["twelfths_in_the_schematic"][name][version - 1]
    assert overlapped(gpu, version, ideal=True) == pytest.approx(twelfths, rel=0.001)  # a twelfth is a millisecond


def test_breadth_first_is_faster_on_a_c2050_that_signals_at_once() -> None:
    """H1: late signals alone make version 2 the slower one."""
    gpu = fitted_card("c2050")
    prompt = gpu.replace(late_kernel_signals="no")
    assert overlapped(gpu, 2) > 1.3 * overlapped(gpu, 1)
    assert overlapped(prompt, 2) == pytest.approx(overlapped(prompt, 1), rel=0.01)


# The PCIe curve -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kib", "ms", "gbs"), PUBLISHED["pcie_curve_v100"]["kib_ms_gbs"])
def test_pcie_curve_of_a_v100(kib: int, ms: float, gbs: float) -> None:
    """H2: within 15 %, in milliseconds, which are rounded to hundredths, and in GB/s."""
    timeline = play(copy("h2d", kib * 1.024), synchronize(), gpu=load_gpu("v100-sxm2"))
    took_ms = timeline.end_fs / (1000 * US)
    assert took_ms == pytest.approx(ms, rel=0.15)
    assert kib * 1024 / took_ms / 1e6 == pytest.approx(gbs, rel=0.15)


# Small kernels ------------------------------------------------------------------------------------------------------


@gs.block_kernel
def scale(blk: gs.Block, out: gs.DeviceArray, data: gs.DeviceArray, n: int) -> None:
    i = blk.bx * blk.bdx + blk.tx
    inside = i < n
    blk.store(out, i, blk.load(data, i, mask=inside) * 0.25, mask=inside)


def trace_of_scale(gpu: GPU, elements: int, block: int) -> KernelTrace:
    dev = gs.Device(gpu)
    out, data = dev.malloc(elements, np.float64), dev.to_device(np.zeros(elements))
    return dev.launch(scale, -(-elements // block), block, out, data, elements).trace


def period_us(timeline: Timeline) -> float:
    """Time from one end to the next, without the first kernel, which finds nothing in the L2."""
    ends = [operation.end_fs for operation in timeline.operations]
    return (ends[-1] - ends[0]) / (len(ends) - 1) / US


QUICK = {(4096, 256), (4096, 1024), (16562, 32), (16562, 1024)}
"""Elements and block of what takes less than a second to simulate."""


def rows(name: str) -> list[Any]:
    return [
        pytest.param(elements, block, gbs, marks=[pytest.mark.slow] * ((elements, block) not in QUICK))
        for elements, block, gbs in map(dict.values, PUBLISHED[name]["rows"])
    ]


LAUNCHES = 3


@pytest.mark.parametrize(("elements", "block", "gbs"), rows("small_kernels_h200"))
def test_small_kernels_in_a_stream(elements: int, block: int, gbs: float) -> None:
    """H1: within 6 %, where 15 are asked for; fitted were only the 4096 elements."""
    gpu = load_gpu("h200-sxm")
    launch = LaunchKernel(trace=trace_of_scale(gpu, elements, block))
    timeline = play(*[launch] * LAUNCHES, gpu=gpu, caches=True)
    assert period_us(timeline) == pytest.approx(elements * 16 / gbs / 1000, rel=0.06)


@pytest.mark.parametrize(("elements", "block", "gbs"), rows("small_kernels_h200_graph"))
def test_small_kernels_in_a_graph(elements: int, block: int, gbs: float) -> None:
    """H1: within 6 %, where 15 are asked for; fitted were only the 4096 elements."""
    gpu = load_gpu("h200-sxm")
    launch = LaunchKernel(trace=trace_of_scale(gpu, elements, block))
    nodes = [(launch, (number - 1,) if number else ()) for number in range(LAUNCHES)]
    timeline = play(graph(*nodes), gpu=gpu, caches=True)
    assert period_us(timeline) == pytest.approx(elements * 16 / gbs / 1000, rel=0.06)

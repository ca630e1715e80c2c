"""Counters line by line: sums, active lanes of statements, and what part the warps of a block have in the work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpusim_des as gs
from gpusim_des.functional.counters import Counters
from gpusim_des.functional.line_counts import LineCounts, lane_stride


@gs.kernel
def half(t: Any, a: Any, out: Any) -> Any:
    s = t.shared("s", (64,), np.float32)
    i = t.threadIdx.x
    s[i] = a[i]
    yield t.syncthreads()
    if i < 32:
        s[i] += s[i + 32]
    yield t.syncthreads()
    if i == 0:
        out[0] = s[0]


@gs.kernel
def disputed(t: Any, a: Any, b: Any) -> Any:
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    if t.threadIdx.x < 40 or t.threadIdx.x >= 104:
        b[i] = a[i] + 1
    if i % 2 == 0:
        a[i] = b[i] * 2
    for j in range(5 - i % 3):
        b[i] += j


@gs.kernel
def column(t: Any, a: Any, out: Any, n: int) -> Any:
    s = t.shared("s", (32, 32), np.float32)
    x, y = t.threadIdx.x, t.threadIdx.y
    s[x, y] = a[x * n + y]
    yield t.syncthreads()
    out[y * n + x] = s[y, x]


@gs.kernel
def one_counter(t: Any, count: Any) -> Any:
    count.atomic_add(3, 1)


def line_of(kernel: Any, text: str, counters: Counters) -> LineCounts:
    """Counts of the kernel's line that contains a text."""
    code = kernel.function.__code__
    lines = Path(code.co_filename).read_text().splitlines()
    wanted = next(n for n, line in enumerate(lines, 1) if n >= code.co_firstlineno and text in line)
    return next(counts for site, counts in counters.lines.items() if site.line == wanted)


def device(n: int = 4096) -> tuple[gs.Device, Any, Any]:
    dev = gs.Device("tiny")
    return dev, dev.to_device(np.arange(n, dtype=np.float32), "a"), dev.to_device(np.zeros(n, np.float32), "b")


@pytest.mark.parametrize("vectorize", [True, False])
def test_idle_warps_and_barriers_of_a_single_warp(vectorize: bool) -> None:
    """Of two warps one adds, and one only loads."""
    dev, a, b = device()
    c = dev.launch(half, 3, 64, a, b, vectorize=vectorize).counters
    assert c.idle_warps == 3
    assert [line_of(half, "yield", c).lone_barriers, c.barriers] == [0, 6]  # the first of the two
    assert sum(line.lone_barriers for line in c.lines.values()) == 3
    assert c.lone_warp_instructions == 0  # the waiting warp is idle altogether
    whole, adding = line_of(half, "if i < 32", c), line_of(half, "s[i] +=", c)
    assert (whole.branches, whole.divergent_branches) == (6, 0)
    assert adding.active_lanes == adding.thread_slots == 32 * adding.instructions
    last = line_of(half, "if i == 0", c)
    assert (last.divergent_branches, last.divergent_lanes, last.taken_lanes) == (3, 96, 3)
    assert line_of(half, "out[0]", c).lanes_per_instruction == 1
    # Each of the idle warps executes what all do (6 lines), less the two bodies.
    bodies = adding.instructions + line_of(half, "out[0]", c).instructions
    assert c.idle_warp_instructions == (c.warp_instructions - bodies) / 2


@pytest.mark.parametrize("vectorize", [True, False])
def test_statements_of_a_disputed_exercise(vectorize: bool) -> None:
    """C22: N = 1024 in blocks of 128; 24 warps execute statement 1, 16 of them in part; all diverge at statement 2."""
    dev, a, b = device(1024)
    c = dev.launch(disputed, 8, 128, a, b, vectorize=vectorize).counters
    guard, first = line_of(disputed, "if t.threadIdx.x < 40", c), line_of(disputed, "b[i] = a[i] + 1", c)
    assert (guard.branches, guard.divergent_branches) == (32, 16)
    stores = first.instruction_mix["global_store"]
    assert stores == 24
    assert first.active_lanes / first.instructions == (8 * 32 + 8 * 8 + 8 * 24) / 24  # 100, 25 and 75 %
    even, second = line_of(disputed, "if i % 2", c), line_of(disputed, "a[i] = b[i] * 2", c)
    assert (even.divergent_branches, second.lanes_per_instruction) == (32, 16)
    loop = line_of(disputed, "for j", c)
    assert loop.divergent_branches == 2 * 32  # 3 iterations of 5 are uniform; in the fourth and fifth threads leave


def test_lane_strides_and_what_the_ideal_is() -> None:
    dev, a, b = device()
    c = dev.launch(column, 1, (32, 8), a, b, 64).counters
    loads, stores = (
        next(site for site in c.accesses if (site.memory, site.operation) == (memory, operation))
        for memory, operation in (("global", "load"), ("shared", "store"))
    )
    assert (c.accesses[loads].sectors, c.accesses[loads].ideal_sectors) == (32 * 8, 4 * 8)
    assert c.patterns[loads].strides == {64 * 4: 28 * 8}
    assert (c.accesses[stores].wavefronts, c.accesses[stores].ideal_wavefronts) == (32 * 8, 8)
    assert c.patterns[stores].strides == {32 * 4: 31 * 8}
    assert c.patterns[stores].stride == 128
    assert len(c.patterns) == 2  # the other two are ideal
    assert c.shared_arrays == {"s": ((32, 32), "float32")}


@pytest.mark.parametrize("vectorize", [True, False])
def test_hits_of_atomics(vectorize: bool) -> None:
    dev = gs.Device("tiny")
    count = dev.to_device(np.zeros(5, np.int32), "count")
    c = dev.launch(one_counter, 2, 64, count, vectorize=vectorize).counters
    (site,) = c.accesses
    hits = c.patterns[site].hits
    assert hits is not None
    assert hits.tolist() == [0, 0, 0, 128, 0]
    assert (c.accesses[site].serial_passes, c.accesses[site].requests) == (128, 4)


def test_lines_add_up() -> None:
    dev, a, b = device()
    for launch in (dev.launch(half, 3, 64, a, b), dev.launch(disputed, 8, 100, a, b)):
        c = launch.counters
        lines = c.lines.values()
        assert sum(line.instructions for line in lines) == c.warp_instructions
        assert sum(line.active_lanes for line in lines) == c.active_lanes
        assert sum(line.branches for line in lines) == c.branches
        assert sum(line.divergent_branches for line in lines) == c.divergent_branches
        assert sum(line.barriers for line in lines) == c.barriers
        mix = sum((line.instruction_mix for line in lines), start=type(c.instruction_mix)())
        assert mix == c.instruction_mix
        for line in lines:
            assert line.active_lanes <= line.thread_slots <= 32 * line.instructions


def test_lines_count_in_chunks_what_they_count_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    dev, a, b = device()
    at_once = dev.launch(half, 5, 64, a, b).counters
    monkeypatch.setattr("gpusim_des.functional.executor.CHUNK_THREADS", 64)
    assert dev.launch(half, 5, 64, a, b).counters == at_once


def test_irregular_lanes_have_no_stride() -> None:
    assert lane_stride(np.random.default_rng(0).permutation(1000)[:32] * 4, None) is None
    assert lane_stride(np.array([4]), None) is None

"""Random kernels run both ways, vectorized and thread by thread: equal results, counters and traces."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import gpusim_des as gs
from gpusim_des.functional import executor
from gpusim_des.launched import Launch
from tests.random_kernels import random_kernel
from tests.thread_modules import module_of

pytestmark = pytest.mark.filterwarnings("ignore::gpusim_des.IndexOverflowWarning")  # random numbers wrap

LENGTH = 50
"""Elements of the input arrays."""

# A kernel is one random choice after another: making it smaller means nothing, so failures are not shrunk.
QUICK = settings(derandomize=True, deadline=None, database=None, phases=[Phase.explicit, Phase.generate])


def load_kernel(source: str, folder: Path) -> Any:
    return module_of(source, folder).kern


def run(
    kernel: Any, grid: Any, block: Any, *, vectorize: bool, count: Any, races: Any = "shared", more: Any = None
) -> tuple[list[Any], Launch]:
    """Run a random kernel on fixed inputs, and one `more`; returns all arrays afterwards and the launch."""
    threads = int(np.prod(grid) * np.prod(block))
    rng = np.random.default_rng(7)
    dev = gs.Device("tiny")
    inputs: list[np.ndarray[Any, Any]] = [
        rng.integers(-(2**31), 2**31, LENGTH).astype(np.int32),
        rng.integers(-128, 128, LENGTH).astype(np.int8),
        rng.integers(0, 2**32, LENGTH).astype(np.uint32),
        rng.integers(-(2**62), 2**62, LENGTH).astype(np.int64),
        rng.normal(size=LENGTH).astype(np.float32),
        rng.normal(size=LENGTH),
    ]
    outputs: list[np.ndarray[Any, Any]] = [
        np.arange(threads, dtype=np.int32),
        np.zeros(threads, np.float32),
        np.zeros(threads, np.int8),
        np.zeros(16, np.int32),
        np.zeros(16, np.int32),
    ]
    arrays = [dev.to_device(x) for x in (*inputs, *outputs)]
    last = [] if more is None else [dev.to_device(more, "Z")]
    launch = dev.launch(kernel, grid, block, *arrays, LENGTH, *last, vectorize=vectorize, count=count, races=races)
    assert launch.vectorized is vectorize
    return [dev.to_host(x) for x in arrays], launch


def assert_equal_traces(one: Launch, other: Launch) -> None:
    for number in range(one.config.blocks):
        pairs = zip(one.trace.block(number), other.trace.block(number), strict=True)
        for warp, (a, b) in enumerate(pairs):
            for field in ("ops", "lanes", "lines", "dep_start", "deps", "operands"):
                x, y = getattr(a.stream, field), getattr(b.stream, field)
                assert np.array_equal(x, y), f"block {number} warp {warp}: {field}"
            assert np.array_equal(a.footprint.quarter_cycles, b.footprint.quarter_cycles)
            assert len(a.bases) == len(b.bases)
            for access in range(len(a.bases)):
                assert np.array_equal(a.sectors(access), b.sectors(access)), f"block {number} warp {warp}"


def assert_both_ways_equal(kernel: Any, grid: Any, block: Any, count: Any = "auto") -> None:
    fast, launch = run(kernel, grid, block, vectorize=True, count=count)
    slow, reference = run(kernel, grid, block, vectorize=False, count=count)
    for number, (x, y) in enumerate(zip(fast, slow, strict=True)):
        assert np.array_equal(x, y, equal_nan=x.dtype.kind == "f"), f"array {number}"
    for field in fields(reference.counters):
        mine, theirs = getattr(launch.counters, field.name), getattr(reference.counters, field.name)
        assert mine == theirs, f"{field.name}: {mine} vectorized, {theirs} interpreted"
    for found in ("races", "unwritten_reads", "left_before_barriers"):
        assert getattr(launch, found) == getattr(reference, found)
    # Which thread overflows first, and so stands as the example, depends on the order in which threads run.
    overflows = [
        Counter({(o.array, o.site, o.access): o.count for o in done.index_overflows}) for done in (launch, reference)
    ]
    assert overflows[0] == overflows[1]
    assert_equal_traces(launch, reference)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("random_kernels")


SEEDS = st.integers(0, 2**32)


@settings(QUICK, max_examples=15)
@given(seed=SEEDS)
def test_random_kernels(folder: Path, seed: int) -> None:
    source, grid, block = random_kernel(seed)
    assert_both_ways_equal(load_kernel(source, folder), grid, block)


@settings(QUICK, max_examples=4)
@given(seed=SEEDS, chunk=st.sampled_from([1, 50, 100]))
def test_random_kernels_in_several_chunks(folder: Path, seed: int, chunk: int) -> None:
    source, grid, block = random_kernel(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(executor, "CHUNK_THREADS", chunk)
        assert_both_ways_equal(load_kernel(source, folder), grid, block)


@settings(QUICK, max_examples=4)
@given(seed=SEEDS)
def test_random_kernels_counting_lines(folder: Path, seed: int) -> None:
    source, grid, block = random_kernel(seed)
    assert_both_ways_equal(load_kernel(source, folder), grid, block, count="lines")


@pytest.mark.slow
@settings(QUICK, max_examples=50)
@given(seed=SEEDS)
def test_many_random_kernels(folder: Path, seed: int) -> None:
    source, grid, block = random_kernel(seed)
    assert_both_ways_equal(load_kernel(source, folder), grid, block)

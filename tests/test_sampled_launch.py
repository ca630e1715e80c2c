"""Samples of a launch: which blocks are executed, what is poison then, and what the counters are worth."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpusim_des as gs
from gpusim_des import cuda
from gpusim_des.errors import LaunchError, SampledResultWarning
from gpusim_des.functional.sampling import LEAST_WAVES, MOST_PLAYED, RUN_WAVES
from tests.sampled_kernels import work_list

WAVE = 16
"""Blocks of 64 threads that ``tiny`` holds at a time."""


@gs.kernel
def double(t: Any, a: Any, b: Any, n: int) -> None:
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    if i < n:
        b[i] = 2 * a[i]


@gs.kernel
def count_values(t: Any, a: Any, bins: Any) -> None:
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    bins.atomic_add(a[i], 1)


@gs.kernel
def take_a_number(t: Any, queue: Any, c: Any) -> None:
    if t.threadIdx.x == 0:
        mine = queue.atomic_add(0, 1)
        c[mine] = t.blockIdx.x


@pytest.fixture
def dev() -> gs.Device:
    return gs.Device("tiny")


def launch_double(
    dev: gs.Device, waves: float, sample: Any, dtype: Any = np.float32
) -> tuple[gs.Launch, gs.DeviceArray]:
    blocks = int(waves * WAVE)
    n = blocks * 64
    a = dev.to_device(np.arange(n).astype(dtype) % 100, "a")
    b = dev.malloc(n, dtype, "b")
    return dev.launch(double, blocks, 64, a, b, n, registers=32, sample=sample), b


# Which blocks ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sample", [0, -1, 5, 6.5, True, "some", "12", [12], np.float32(8)])
def test_what_is_no_sample_is_refused(dev: gs.Device, sample: Any) -> None:
    with pytest.raises(
        LaunchError, match=re.escape(f"sample = {sample!r}: give the number of waves to play, a whole num")
    ):
        launch_double(dev, 3, sample)


def test_without_a_sample_everything_is_exact(dev: gs.Device) -> None:
    launch, b = launch_double(dev, 30, None)
    assert launch.sample is None
    assert launch.notice == ""
    assert type(launch.counters) is gs.Counters
    assert not np.isnan(dev.to_host(b)).any()


def test_a_small_grid_is_executed_whole_and_says_so(dev: gs.Device) -> None:
    launch, b = launch_double(dev, 7, 6)
    assert launch.notice == "all 112 blocks were executed: the grid of 7 waves is not larger than the sample of 6"
    assert launch.sample is None
    exact, _ = launch_double(gs.Device("tiny"), 7, None)
    assert launch.counters == exact.counters
    assert (dev.to_host(b) == 2 * (np.arange(112 * 64) % 100)).all()


def test_blocks_of_a_sample_by_hand(dev: gs.Device) -> None:
    """Three waves at the beginning, three in the middle, and three at the end with the partial one."""
    launch, _ = launch_double(dev, 30.5, 9)
    assert launch.sample is not None
    runs = [tuple(number // WAVE for number in run) for run in launch.sample.runs]
    assert (runs[0], runs[2]) == ((0, 1, 3, 3), (27, 28, 29, 30))
    first, measured, measured_end, end = runs[1]
    assert (measured - first, end - measured, measured_end - end) == (1, 2, 0)
    assert 12 <= first <= 14  # in the middle, as near as the pilots tell where that is
    assert launch.sample.runs[-1].end == 488
    assert launch.counters.executed.blocks == launch.sample.executed  # type: ignore[attr-defined]


@settings(max_examples=20, deadline=None)
@given(
    blocks=st.integers(1, 40 * WAVE),
    sample=st.one_of(st.just("auto"), st.integers(LEAST_WAVES, 30)),
    seed=st.integers(0, 2**32 - 1),
)
def test_samples_keep_their_rules(blocks: int, sample: Any, seed: int) -> None:
    """Whole waves, in order, each block once, begin and end of the grid, and not nearly everything."""
    steps = np.random.default_rng(seed).integers(1, 4, blocks)
    launches = []
    for _ in range(2):
        dev = gs.Device("tiny")
        arrays = dev.to_device(steps.astype(np.int32)), dev.malloc(blocks * 64)
        launches.append(dev.launch(work_list, blocks, 64, *arrays, registers=32, sample=sample))
    one, again = (launch.sample for launch in launches)
    assert launches[0].counters == launches[1].counters
    if one is None or again is None:
        assert one is again
        assert launches[0].unsampled
        assert launches[0].counters.blocks == blocks
        return
    assert one.runs == again.runs
    assert one.others.tolist() == again.others.tolist()
    assert one.wave == WAVE
    assert (one.runs[0].first, one.runs[-1].end) == (0, blocks)
    for run in one.runs:
        assert 0 <= run.first < run.measured < run.measured_end <= run.end
        assert run.first % WAVE == run.measured % WAVE == run.measured_end % WAVE == 0
    assert all(gap.blocks >= 0 and gap.blocks % WAVE == 0 for gap in one.gaps)
    played = set(one.played.tolist())
    assert not played & set(one.others.tolist())
    assert set(one.scouts.tolist()) <= set(one.others.tolist())
    assert len(played) + len(one.others) == one.executed == blocks - one.left_out
    assert one.left_out == sum(gap.blocks for gap in one.gaps) - len(one.others)
    extra = 3 * RUN_WAVES + 2  # for blocks unlike all others, and what is left over of waves
    assert len(played) <= MOST_PLAYED * blocks + extra * WAVE


def test_a_run_is_added_where_blocks_are_unlike_all_others(dev: gs.Device) -> None:
    """The smallest sample has no run in the middle, where all the work is."""
    steps = np.full(60 * WAVE, 2, np.int32)
    steps[24 * WAVE : 36 * WAVE] = 20
    arrays = dev.to_device(steps), dev.malloc(len(steps) * 64)
    sample = dev.launch(work_list, len(steps), 64, *arrays, registers=32, sample=6).sample
    assert sample is not None
    assert any(steps[run.first : run.end].max() == 20 for run in sample.runs)


def test_blocks_that_depend_on_others_are_refused(dev: gs.Device) -> None:
    queue, c = dev.to_device(np.zeros(1, np.int32)), dev.to_device(np.zeros(4000, np.int32))
    message = (
        r"kernel 'take_a_number' cannot be sampled: it uses the result of the atomic operation in line \d+, so that"
    )
    with pytest.raises(LaunchError, match=message):
        dev.launch(take_a_number, 4000, 64, queue, c, sample="auto")
    assert dev.to_host(queue).tolist() == [0]  # as if it had not been launched
    assert not dev.to_host(c).any()
    dev.launch(take_a_number, 4000, 64, queue, c)
    assert dev.to_host(queue).tolist() == [4000]


# Poison ---------------------------------------------------------------------------------------------------------------


def test_what_was_not_executed_is_poison(dev: gs.Device) -> None:
    launch, b = launch_double(dev, 40, 9)
    sample = launch.sample
    assert sample is not None
    ran = np.zeros(40 * WAVE, bool)
    ran[sample.played] = ran[sample.others] = True
    assert launch.incomplete == ("b",)
    assert launch.notice == (
        f"{ran.sum():,} of 640 blocks were executed, the counters are estimates; 'b' is poison where they were left out"
    )
    with pytest.warns(
        SampledResultWarning, match="the copy of array 'b' holds poison: a sampled launch left out a part"
    ):
        result = dev.to_host(b).reshape(-1, 64)
    assert np.isnan(result[~ran]).all()
    assert (result[ran] == (2 * (np.arange(640 * 64) % 100)).reshape(-1, 64)[ran]).all()


def test_integers_are_poisoned_too(dev: gs.Device) -> None:
    _, b = launch_double(dev, 40, 9, np.int32)
    with pytest.warns(SampledResultWarning):
        assert (dev.to_host(b) == np.int32(-842150451)).any()


def test_results_of_atomics_are_poison_altogether(dev: gs.Device) -> None:
    """Any bin may lack counts, so none is known; the values that were counted are untouched."""
    values = np.zeros(40 * WAVE * 64, np.int32)
    a, bins = dev.to_device(values, "a"), dev.to_device(np.zeros(4, np.int32), "bins")
    launch = dev.launch(count_values, 40 * WAVE, 64, a, bins, registers=32, sample=9)
    assert launch.incomplete == ("bins",)
    with pytest.warns(SampledResultWarning, match="'bins'"):
        assert dev.to_host(bins).tolist() == [-842150451] * 4
    assert (dev.to_host(a) == values).all()


def test_poison_is_forgotten_where_it_is_overwritten(dev: gs.Device) -> None:
    _, b = launch_double(dev, 40, 9)
    n = 640 * 64
    copy = dev.malloc(n, name="copy")
    dev.memcpy(copy, b)
    with pytest.warns(SampledResultWarning, match="'copy'"):
        dev.to_host(copy)
    dev.memset(copy, 0)
    assert not dev.to_host(copy).any()
    with pytest.warns(
        SampledResultWarning, match="kernel 'double' reads array 'a', of which a sampled launch left out"
    ):
        dev.launch(double, 640, 64, b, copy, n)
    dev.launch(double, 640, 64, copy, b, n)  # writes all of it
    dev.to_host(b)


def test_only_the_part_that_a_kernel_got_is_poison(dev: gs.Device) -> None:
    n = 640 * 64
    whole = dev.to_device(np.zeros(2 * n, np.float32), "whole")
    a = dev.to_device(np.ones(n, np.float32))
    part = whole.part(n, n)
    dev.launch(double, 640, 64, a, part, n, registers=32, sample=9)
    assert not dev.to_host(whole.part(0, n)).any()
    with pytest.warns(SampledResultWarning):
        assert np.isnan(dev.to_host(whole)[n:]).any()


@gs.kernel
def rare(t: Any, a: Any, b: Any, flag: Any, chosen: int) -> None:
    """Only one block writes the flag."""
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    b[i] = a[i]
    if t.blockIdx.x == chosen:
        flag[0] = 1


@gs.kernel
def rare_name(t: Any, a: Any, b: Any, flag: Any, chosen: int) -> None:
    """The same, through a second name."""
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    b[i] = a[i]
    if t.blockIdx.x == chosen:
        other = flag
        other[0] = 1


@gs.kernel
def rare_input(t: Any, a: Any, b: Any, flag: Any, chosen: int) -> None:
    """Only one block reads the flag."""
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    b[i] = a[i] + (flag[0] if t.blockIdx.x == chosen else np.float32(0))


@gs.block_kernel
def rare_keyword(blk: Any, a: Any, b: Any, flag: Any, chosen: int) -> None:
    i = blk.bx * blk.bdx + blk.tx
    blk.store(b, i, blk.load(a, i))
    with blk.branch(blk.bx == chosen):
        blk.store(index=0, array=flag, value=1.0)


@cuda.jit
def rare_row(a: Any, b: Any, flag: Any, chosen: int) -> None:
    i = cuda.grid(1)
    b[i] = a[i]
    if cuda.blockIdx.x == chosen:
        flag[0][1] = 1


@cuda.jit
def rare_row_name(a: Any, b: Any, flag: Any, chosen: int) -> None:
    i = cuda.grid(1)
    b[i] = a[i]
    if cuda.blockIdx.x == chosen:
        row = flag[0]
        row[1] = 1


@cuda.jit
def rare_view(a: Any, b: Any, flag: Any, chosen: int) -> None:
    i = cuda.grid(1)
    b[i] = a[i]
    if cuda.blockIdx.x == chosen:
        flag.T[0, 1] = flag.shape[0]


@pytest.mark.parametrize(
    ("kernel", "poison"),
    [
        *((kernel, True) for kernel in (rare, rare_name, rare_keyword, rare_row, rare_row_name, rare_view)),
        (rare_input, False),
    ],
)
def test_arrays_that_only_blocks_left_out_write_are_poison(dev: gs.Device, kernel: Any, poison: bool) -> None:
    n = 640 * 64
    probe, _ = launch_double(dev, 40, 9)
    assert probe.sample is not None
    chosen = int(np.setdiff1d(np.arange(640), [*probe.sample.played, *probe.sample.others])[0])
    rows = "row" in kernel.name or "view" in kernel.name
    flags = np.zeros((2, 2) if rows else 4, np.float32)
    a, b, flag = dev.malloc(n), dev.malloc(n), dev.to_device(flags, "flag")
    dev.memset(a, 0)
    launch = dev.launch(kernel, 640, 64, a, b, flag, chosen, registers=32, sample=9)
    assert launch.sample is not None
    assert chosen not in launch.sample.played
    assert ("flag" in launch.incomplete) is poison
    assert np.isnan(flag.flat[0]) == poison


def test_a_kernel_that_changes_its_input_reads_what_was_there(dev: gs.Device) -> None:
    """Poison comes after the blocks, not before them."""
    n = 640 * 64
    a = dev.to_device(np.full(n, 3, np.float32))
    launch = dev.launch(double, 640, 64, a, a, n, registers=32, sample=9)
    with pytest.warns(SampledResultWarning):
        result = dev.to_host(a)
    assert sorted(np.unique(result[~np.isnan(result)])) == [6]
    assert launch.sample is not None
    assert np.isnan(result).sum() == 64 * launch.sample.left_out


def test_one_liners_refuse_samples() -> None:
    x = np.ones(100, np.float32)
    with pytest.raises(
        LaunchError, match=r"sample = 'auto': gs\.launch copies results back, and a sample leaves poison"
    ):
        gs.launch(double, 2, 64, x, x.copy(), 100, sample="auto")


# Counters -------------------------------------------------------------------------------------------------------------


def test_counters_of_an_even_kernel_are_exact_estimates(dev: gs.Device) -> None:
    sampled, _ = launch_double(dev, 60.25, 9)
    whole, _ = launch_double(gs.Device("tiny"), 60.25, None)
    estimates = sampled.counters
    assert isinstance(estimates, gs.EstimatedCounters)
    for name in vars(whole.counters):
        assert getattr(estimates, name) == getattr(whole.counters, name), name
    assert set(estimates.bounds.values()) == {0.0}
    assert estimates.executed.warp_instructions < estimates.warp_instructions
    assert estimates.executed.threads == 64 * estimates.executed.blocks


def test_counters_of_uneven_kernels_lie_within_their_bounds(dev: gs.Device) -> None:
    draw = np.random.default_rng(3)
    steps = draw.integers(1, 40, 100 * WAVE)
    launches = []
    for sample in (12, None):
        dev = gs.Device("tiny")
        arrays = dev.to_device(steps.astype(np.int32)), dev.malloc(len(steps) * 64)
        launches.append(dev.launch(work_list, len(steps), 64, *arrays, registers=32, sample=sample))
    estimates, whole = (launch.counters for launch in launches)
    assert isinstance(estimates, gs.EstimatedCounters)
    for name, bound in estimates.bounds.items():
        one, other = (
            counters.instruction_mix[name] if name in estimates.instruction_mix else getattr(counters, name)
            for counters in (estimates, whole)
        )
        assert abs(one - other) <= bound + 0.5, name
    assert 0 < estimates.relative_error("warp_instructions") < 0.2
    assert estimates.relative_error("fp32") > 0
    with pytest.raises(KeyError, match="'flops' is no counter and no class of instructions of this launch"):
        estimates.relative_error("flops")
    lines = estimates.summary().splitlines()
    assert lines[0] == (f"estimated from {estimates.executed.blocks:,} of 1,600 blocks; ±: bound of the error, 95 %")
    assert "±" in next(line for line in lines if line.startswith("warp instructions"))
    assert "±" not in next(line for line in lines if line.startswith("blocks"))
    assert repr(estimates).startswith("EstimatedCounters(blocks=1600, ")


def test_blocks_in_block_style_are_sampled_too(dev: gs.Device) -> None:
    @gs.block_kernel
    def triple(blk: gs.Block, a: gs.DeviceArray, b: gs.DeviceArray) -> None:
        i = blk.bx * blk.bdx + blk.tx
        blk.store(b, i, 3 * blk.load(a, i))

    n = 640 * 64
    a, b = dev.to_device(np.ones(n, np.float32)), dev.malloc(n)
    launch = dev.launch(triple, 640, 64, a, b, registers=32, sample=9)
    assert launch.counters.global_store_sectors == n // 8
    assert launch.incomplete == ("b",)


def test_progress_ends_before_all_blocks_are_done(dev: gs.Device) -> None:
    heard: list[tuple[int, int]] = []
    n = 640 * 64
    a, b = dev.to_device(np.ones(n, np.float32)), dev.malloc(n)
    launch = dev.launch(
        double, 640, 64, a, b, n, registers=32, sample=9, progress=lambda done, of: heard.append((done, of))
    )
    assert launch.sample is not None
    assert heard[-1] == (launch.sample.executed, 640)
    assert heard == sorted(heard)

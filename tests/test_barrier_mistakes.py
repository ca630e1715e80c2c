"""Barriers that not all threads reach: branches, loops, threads that have left, a yield that was forgotten."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import gpusim_des as gs
from tests.test_races import line_of

WAYS = pytest.mark.parametrize("vectorize", [True, False], ids=["vectorized", "interpreted"])


def launched(kernel: Any, grid: int, block: int, *more: Any, vectorize: bool | None = None) -> gs.Launch:
    dev = gs.Device("tiny")
    a = dev.to_device(np.ones(block, np.int32), "a")
    return dev.launch(kernel, grid, block, a, *more, vectorize=vectorize)


def assert_stuck(kernel: Any, grid: int, block: int, message: str, *more: Any, vectorize: bool) -> None:
    with pytest.raises(gs.DeadlockError, match=re.escape(message)):
        launched(kernel, grid, block, *more, vectorize=vectorize)


@gs.kernel
def two_barriers(t: Any, a: Any, apart: Any) -> Any:
    if t.threadIdx.x < 128 and apart:
        a[t.threadIdx.x] = 2
        yield t.syncthreads()
    else:
        a[t.threadIdx.x] = 3
        yield t.syncthreads()


@WAYS
def test_different_barriers_in_two_branches(vectorize: bool) -> None:
    first, second = line_of(two_barriers, 4), line_of(two_barriers, 7)
    message = (
        f"two_barriers: block (0, 0, 0) waits forever at the barrier in line {first} of test_barrier_mistakes.py: 128 "
        f"of 256 threads never reach it (threads 0-127 wait in line {first}, threads 128-255 in line {second}); a "
        "barrier must be reached by all threads of the block at the same place, so move it out of the branch"
    )
    assert_stuck(two_barriers, 4, 256, message, True, vectorize=vectorize)
    assert launched(two_barriers, 4, 256, False, vectorize=vectorize).counters.barriers == 4


@gs.kernel
def skipped(t: Any, a: Any) -> Any:
    if t.blockIdx.x != 3 or t.threadIdx.x < 40:
        yield t.syncthreads()
    a[t.threadIdx.x] = 2


@WAYS
def test_a_branch_around_a_barrier(vectorize: bool) -> None:
    message = "block (3, 0, 0) waits forever at the barrier in line"
    assert_stuck(skipped, 5, 64, message, vectorize=vectorize)
    assert launched(skipped, 3, 64, vectorize=vectorize).mistakes == ()


@gs.kernel
def continued(t: Any, a: Any, skip: Any) -> Any:
    for k in range(3):
        if skip and (t.threadIdx.x // 32 + k) % 2 == 0:
            continue
        yield t.syncthreads()


@WAYS
def test_continue_around_a_barrier(vectorize: bool) -> None:
    """Case C26: warps wait at the barriers of different iterations."""
    line = line_of(continued, 5)
    message = (
        f"32 of 64 threads never reach it (threads 0-31 wait in line {line} of another iteration, threads 32-63 in "
        f"line {line})"
    )
    assert_stuck(continued, 1, 64, message, True, vectorize=vectorize)
    assert launched(continued, 1, 64, False, vectorize=vectorize).counters.barriers == 3


@gs.kernel
def reduction(t: Any, a: Any, leave: Any) -> Any:
    s = t.shared("s", 96, np.int32)
    i = t.threadIdx.x
    s[i] = a[i]
    yield t.syncthreads()
    for half in (48, 24, 12, 6, 3):
        if i >= half:
            if leave:
                return
        else:
            s[i] = s[i] + s[i + half]
        yield t.syncthreads()
    if i == 0:
        a[0] = s[0] + s[1] + s[2]


@WAYS
def test_threads_that_have_left(vectorize: bool) -> None:
    """Case C25: a warning, no hang, and the sum that most GPUs would give."""
    dev = gs.Device("tiny")
    a = dev.to_device(np.arange(96, dtype=np.int32), "a")
    with pytest.warns(
        gs.BarrierWarning, match=r"threads 48-95 of block \(0, 0, 0\) have left before the barrier in line"
    ):
        launch = dev.launch(reduction, 1, 96, a, True, vectorize=vectorize)
    (report,) = launch.left_before_barriers
    assert (report.line, report.threads, report.count) == (line_of(reduction, 12), "48-95", 5)
    assert launch.mistakes == (report,)
    assert launch.counters.barriers == 6
    assert launch.races == ()
    assert dev.to_host(a)[0] == 96 * 95 // 2
    assert dev.simulate().kernels[0].cycles > 0
    assert launched(reduction, 2, 96, False, vectorize=vectorize).mistakes == ()


@gs.kernel
def leaves_then_branches(t: Any, a: Any) -> Any:
    if t.threadIdx.x >= 48:
        return
    if t.threadIdx.x < 32:
        yield t.syncthreads()


@WAYS
def test_threads_that_have_left_excuse_no_others(vectorize: bool) -> None:
    assert_stuck(leaves_then_branches, 1, 64, "32 of 64 threads never reach it", vectorize=vectorize)


@gs.kernel
def returns_from_a_helper(t: Any, a: Any) -> Any:
    helper(t, a)
    yield t.syncthreads()


def helper(t: Any, a: Any) -> None:
    if t.threadIdx.x < 8:
        return
    a[t.threadIdx.x] = 4


@WAYS
def test_a_return_from_a_helper_is_none_from_the_kernel(vectorize: bool) -> None:
    assert launched(returns_from_a_helper, 1, 32, vectorize=vectorize).mistakes == ()


@gs.block_kernel
def masked_barrier(blk: Any, a: Any, apart: Any) -> None:
    if apart:
        blk.sync(mask=blk.tid < 32)
        blk.sync(mask=blk.tid >= 32)
    else:
        blk.sync()


def test_different_barriers_in_block_style() -> None:
    message = r"32 of 64 threads never reach it \(warps 1, first thread 32\); a barrier must be reached by all threads"
    with pytest.raises(gs.DeadlockError, match=message):
        launched(masked_barrier, 1, 64, True)
    assert launched(masked_barrier, 1, 64, False).counters.barriers == 1


# A forgotten yield ----------------------------------------------------------------------------------------------------


@gs.kernel
def no_yield(t: Any, a: Any) -> Any:
    t.syncthreads()
    a[t.threadIdx.x] = 1


@gs.kernel
def barrier_as_a_value(t: Any, a: Any) -> Any:
    token = t.syncthreads()
    a[t.threadIdx.x] = 1
    if token:
        a[0] = 2


@gs.kernel
def yields_something_else(t: Any, a: Any) -> Any:
    yield t.syncwarp()
    a[t.threadIdx.x] = 1


@WAYS
@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (no_yield, "has no effect: write `yield t.syncthreads()`"),
        (barrier_as_a_value, "has no effect: write `yield t.syncthreads()`"),
        (yields_something_else, "kernels yield t.syncthreads() and nothing else"),
    ],
)
def test_a_forgotten_yield(kernel: Any, message: str, vectorize: bool) -> None:
    with pytest.raises(gs.KernelError, match=re.escape(message)):
        launched(kernel, 1, 32, vectorize=vectorize)

"""What is said to kernels that use asynchronous copies wrongly: value, rule and remedy, in every way of running."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpusim_des as gs
from tests.test_thread_kernel import BOTH

WAYS = ["masked", "each", "block"]

# Copies of single threads -------------------------------------------------------------------------------------------


@gs.kernel
def any_copy(t: Any, a: Any, kind: Any) -> Any:
    S = t.shared("S", 16, a.dtype)
    if kind == "dst":
        t.pipeline_memcpy_async(a, 0, S, 0)
    elif kind == "src":
        t.pipeline_memcpy_async(S, 0, S, 0)
    elif kind == "type":
        t.pipeline_memcpy_async(t.shared("I", 4, np.int32), 0, a, 0)
    elif kind == "far":
        t.pipeline_memcpy_async(S, t.threadIdx.x, a, 0)
    elif kind == "beyond":
        t.pipeline_memcpy_async(S, 0, a, t.threadIdx.x - 2)
    elif kind == "ranks":
        t.pipeline_memcpy_async(S, (0, 0), a, 0)
    elif kind == "float":
        t.pipeline_memcpy_async(S, 0, a, 1.5)
    else:
        t.pipeline_memcpy_async(S, 0, a, 0)
        t.pipeline_wait_prior(kind)


@gs.block_kernel
def any_copy_of_blocks(blk: gs.Block, a: Any, kind: Any) -> None:
    S = blk.shared(16, a.dtype, "S")
    if kind == "dst":
        blk.pipeline_memcpy_async(a, 0, S, 0)  # type: ignore[arg-type]  # this is the mistake
    elif kind == "src":
        blk.pipeline_memcpy_async(S, 0, S, 0)  # type: ignore[arg-type]  # as above
    elif kind == "type":
        blk.pipeline_memcpy_async(blk.shared(4, np.int32, "I"), 0, a, 0)
    elif kind == "far":
        blk.pipeline_memcpy_async(S, blk.tid, a, 0)
    elif kind == "beyond":
        blk.pipeline_memcpy_async(S, 0, a, blk.tid - 2)
    elif kind == "ranks":
        blk.pipeline_memcpy_async(S, (0, 0), a, 0)
    elif kind == "float":
        blk.pipeline_memcpy_async(S, 0, a, blk.tid * 0.5)
    else:
        blk.pipeline_memcpy_async(S, 0, a, 0)
        blk.pipeline_wait_prior(kind)


MISTAKES = [
    ("dst", np.float32, "copies to a DeviceArray: the destination, which comes first, is an array in shared memory"),
    ("src", np.float32, "copies from a SharedArray: the source is an array in global memory"),
    ("type", np.float32, "copies from float32 to int32: bytes are copied, .*declare shared array 'I' .* float32"),
    ("size", np.float16, r"elements of 2 bytes \(float16\): a thread copies 4, 8 or 16 bytes at once; use another"),
    ("size", np.int8, r"elements of 1 byte \(int8\): a thread copies 4, 8 or 16 bytes"),
    (
        "far",
        np.float32,
        r"copy to 'S' in line \d+ .*: index 16 is outside 0…15 \(block \(0, 0, 0\), thread \(16, 0, 0\)",
    ),
    (
        "beyond",
        np.float32,
        r"copy from 'a' in line \d+ .*: index -2 is outside 0…7 \(block .*does not count from the end",
    ),
    ("ranks", np.float32, r"2 indices in line \d+ .* for an array of shape \(16,\)"),
    ("float", np.float32, "copy from 'a' in line .* has an index of type float.*: ind"),
    (-1, np.float32, r"pipeline_wait_prior n = -1 in line \d+ .*whole number of groups, at least 0"),
    (1.0, np.float32, "pipeline_wait_prior n = 1.0 in line .*whole number of groups"),
    ("x", np.float32, "pipeline_wait_prior n = 'x' in line .*whole number of groups"),
    (None, np.float32, "pipeline_wait_prior n = None in line .*whole number of groups"),
]


@pytest.mark.parametrize(
    ("kernel", "vectorize"), [(any_copy, True), (any_copy, False), (any_copy_of_blocks, None)], ids=WAYS
)
@pytest.mark.parametrize(("kind", "dtype", "message"), MISTAKES)
def test_mistakes(kernel: Any, vectorize: Any, kind: Any, dtype: Any, message: str) -> None:
    dev = gs.Device("tiny")
    with pytest.raises(gs.KernelError, match=message) as error:
        dev.launch(kernel, 1, 32, dev.to_device(np.zeros(8, dtype)), kind, vectorize=vectorize)
    assert isinstance(error.value, gs.BoundsError) == ("index" in message and "outside" in message)


@gs.kernel
def varying_prior(t: Any, a: Any) -> Any:
    S = t.shared("S", 32, np.float32)
    t.pipeline_memcpy_async(S, t.threadIdx.x, a, t.threadIdx.x)
    t.pipeline_wait_prior(3 - t.threadIdx.x)


@BOTH
def test_a_negative_number_of_one_thread(vectorize: bool) -> None:
    dev = gs.Device("tiny")
    with pytest.raises(gs.KernelError, match=r"pipeline_wait_prior n = -1 in line \d+"):
        dev.launch(varying_prior, 1, 32, dev.malloc(32), vectorize=vectorize)


# Bulk copies --------------------------------------------------------------------------------------------------------


@gs.kernel
def any_bulk(t: Any, a: Any, kind: Any, other: Any, to: int, origin: int, count: Any) -> Any:  # noqa: C901
    S = t.shared("S", 32, np.float32)
    bar = t.shared_barrier("ready")
    odd = t.shared("odd", 1, np.int32)
    late = t.shared("late", 4, np.int32)
    D = t.shared("D", 4, np.float64)
    if kind == "crowd" and t.threadIdx.x % 2 == 1:
        t.memcpy_async_bulk(S, 0, a, 0, 4, bar)
    if t.threadIdx.x == 5:
        if kind == "numbers":
            t.memcpy_async_bulk(S, to, a, origin, count, bar)
        elif kind == "dst":
            t.memcpy_async_bulk(a, 0, S, 0, 4, bar)
        elif kind == "src":
            t.memcpy_async_bulk(S, 0, odd, 0, 4, bar)
        elif kind == "type":
            t.memcpy_async_bulk(D, 0, a, 0, 4, bar)
        elif kind == "int":
            t.memcpy_async_bulk(late, 0, other, 0, 4, bar)
        elif kind == "bar":
            t.memcpy_async_bulk(S, 0, a, 0, 4, S)
    if kind == "wait":
        t.barrier_wait(bar)
    elif kind == "wait on":
        t.barrier_wait(other)
    elif kind == "name":
        t.shared_barrier(other)


@gs.block_kernel
def any_bulk_of_blocks(blk: gs.Block, a: Any, kind: Any, other: Any, to: int, origin: int, count: Any) -> None:
    S = blk.shared(32, np.float32, "S")
    bar = blk.shared_barrier("ready")
    odd = blk.shared(1, np.int32, "odd")
    late = blk.shared(4, np.int32, "late")
    D = blk.shared(4, np.float64, "D")
    one = blk.tid == 5
    if kind == "crowd":
        blk.memcpy_async_bulk(S, 0, a, 0, 4, bar, mask=blk.tid % 2 == 1)
    elif kind == "numbers":
        blk.memcpy_async_bulk(S, to, a, origin, count, bar, mask=one)
    elif kind == "dst":
        blk.memcpy_async_bulk(a, 0, S, 0, 4, bar, mask=one)  # type: ignore[arg-type]  # this is the mistake
    elif kind == "src":
        blk.memcpy_async_bulk(S, 0, odd, 0, 4, bar, mask=one)  # type: ignore[arg-type]  # as above
    elif kind == "type":
        blk.memcpy_async_bulk(D, 0, a, 0, 4, bar, mask=one)
    elif kind == "int":
        blk.memcpy_async_bulk(late, 0, other, 0, 4, bar, mask=one)
    elif kind == "bar":
        blk.memcpy_async_bulk(S, 0, a, 0, 4, S, mask=one)  # type: ignore[arg-type]  # as above
    elif kind == "wait":
        blk.barrier_wait(bar)
    elif kind == "wait on":
        blk.barrier_wait(other)
    else:
        blk.shared_barrier(other)


BULK_MISTAKES = [
    (
        "crowd",
        None,
        r"memcpy_async_bulk in line \d+ .* by 16 threads of block \(0, 0, 0\): one thread of a block starts",
    ),
    ("dst", None, "memcpy_async_bulk in line .* copies to a DeviceArray: the destination"),
    ("src", None, "copies from a SharedArray: the source is an array in global memory"),
    ("type", None, "copies from float32 to float64: bytes are copied"),
    ("bar", None, "memcpy_async_bulk in line .* on a SharedArray: give a barrier made by shared_barrier"),
    (
        "numbers",
        (0, 0, 3),
        "of 3 elements of 4 bytes, 12 bytes in all: the size of a bulk copy is a multiple of 16 bytes",
    ),
    ("numbers", (0, 0, 0), r"memcpy_async_bulk count = 0 in line \d+ .*whole number of elements, at least 1"),
    ("numbers", (0, 0, 4.0), "memcpy_async_bulk count = 4.0 in line .*whole number of elements"),
    (
        "numbers",
        (2, 0, 4),
        r"to element 2 of 'S', at byte address 8: both ends .* multiple of 16 bytes; choose .* of 4",
    ),
    ("numbers", (0, 7, 4), r"from element 7 of 'a', at byte address \d+: both ends"),
    (
        "numbers",
        (28, 0, 8),
        r"bulk copy to 'S' in line .*: index 35, of the last element, is outside 0…31 \(block .*5, 0, 0",
    ),
    ("numbers", (0, 60, 8), r"bulk copy from 'a' in line .*: index 67, of the last element, is outside 0…63"),
    ("numbers", (-4, 0, 4), "bulk copy to 'S' in line .*: index -4 is outside 0…31"),
    ("numbers", (0, 64, 4), "bulk copy from 'a' in line .*: index 64 is outside 0…63"),
    (
        "wait",
        None,
        r"block \(0, 0, 0\) waits forever for phase 0 of barrier 'ready' in line .*start one above every wait",
    ),
    ("wait on", 3, "barrier_wait in line .* on a int: give a barrier made by shared_barrier"),
    ("name", "", r"shared_barrier\(''\) in line .*: give a name in quotes"),
    ("name", 7, r"shared_barrier\(7\) in line .*: give a name in quotes"),
]


@pytest.mark.parametrize(
    ("kernel", "vectorize"), [(any_bulk, True), (any_bulk, False), (any_bulk_of_blocks, None)], ids=WAYS
)
@pytest.mark.parametrize(("kind", "arguments", "message"), BULK_MISTAKES)
def test_mistakes_with_bulk_copies(kernel: Any, vectorize: Any, kind: Any, arguments: Any, message: str) -> None:
    dev = gs.Device("tiny")
    numbers, other = (arguments, 0) if kind == "numbers" else ((0, 0, 4), arguments)
    with pytest.raises(gs.KernelError, match=message) as error:
        dev.launch(kernel, 2, 32, dev.malloc(64), kind, other, *numbers, vectorize=vectorize)
    assert isinstance(error.value, gs.BoundsError) == ("outside" in message)
    assert isinstance(error.value, gs.DeadlockError) == (kind == "wait")


@pytest.mark.parametrize(
    ("kernel", "vectorize"), [(any_bulk, True), (any_bulk, False), (any_bulk_of_blocks, None)], ids=WAYS
)
def test_a_shared_array_at_an_odd_address(kernel: Any, vectorize: Any) -> None:
    """S has 128 bytes, the barrier 8, odd 4: late begins at 140."""
    dev = gs.Device("tiny")
    message = "to element 0 of 'late', at byte address 140: .* 'late' itself begins at 140, so declare it before"
    with pytest.raises(gs.KernelError, match=message):
        dev.launch(kernel, 1, 32, dev.malloc(64), "int", dev.malloc(64, np.int32), 0, 0, 0, vectorize=vectorize)


def test_a_barrier_of_another_launch() -> None:
    kept: list[gs.Block] = []

    @gs.block_kernel
    def keeps(blk: gs.Block) -> None:
        kept.append(blk.shared_barrier("b"))  # type: ignore[arg-type]  # the list is the mistake's helper
        blk.barrier_wait(kept[0])  # type: ignore[arg-type]

    dev = gs.Device("tiny")
    with pytest.raises(gs.DeadlockError, match="phase 0 of barrier 'b'"):
        dev.launch(keeps, 1, 32)
    with pytest.raises(gs.KernelError, match=r"barrier_wait in line .* on barrier 'b' of another launch"):
        dev.launch(keeps, 1, 32)


@gs.kernel
def unassigned(t: Any, a: Any) -> Any:
    bar = t.shared_barrier()
    S = t.shared("S", 32, np.float32)
    if t.threadIdx.x > 0:
        n = 4
    if t.threadIdx.x == 0:
        t.memcpy_async_bulk(S, 0, a, 0, n, bar)


@BOTH
def test_a_count_that_is_not_assigned(vectorize: bool) -> None:
    dev = gs.Device("tiny")
    with pytest.raises(gs.KernelError, match=r"variable is used in line .*assign"):
        dev.launch(unassigned, 1, 32, dev.malloc(32), vectorize=vectorize)

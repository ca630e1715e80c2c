"""Memory used wrongly: never written, out of bounds, freed, misaligned; each with a near-miss that is right."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import gpusim_des as gs
from gpusim_des.functional import executor
from tests.test_races import line_of

WAYS = pytest.mark.parametrize("vectorize", [True, False], ids=["vectorized", "interpreted"])


# Never written --------------------------------------------------------------------------------------------------------


@gs.kernel
def padded(t: Any, a: Any, c: Any, whole: Any) -> Any:
    """The block loads its elements and one more, the halo; without it the last thread reads what nobody wrote."""
    s = t.shared("s", (2, 40), np.int32)
    i = t.threadIdx.x
    s[1, i] = a[i]
    if whole and i == 0:
        s[1, 32] = a[0]
    yield t.syncthreads()
    c[i] = s[1, i] + s[1, i + 1]


@WAYS
def test_shared_memory_that_nobody_wrote(vectorize: bool) -> None:
    dev = gs.Device("tiny")
    a, c = (dev.to_device(np.ones(32, np.int32), name) for name in "ac")
    with pytest.warns(gs.UnwrittenReadWarning, match=r"read of shared array s\[1, 32\], which nobody has written"):
        launch = dev.launch(padded, 3, 32, a, c, False, vectorize=vectorize)
    (read,) = launch.unwritten_reads
    line = line_of(padded, 9)
    assert (read.array, read.memory, read.element, read.line, read.count) == ("s", "shared", (1, 32), line, 3)
    assert (read.thread, read.block) == (gs.Dim3(31, 0, 0), gs.Dim3(0, 0, 0))
    text = (
        f"read of shared array s[1, 32], which nobody has written: thread (31, 0, 0) of block (0, 0, 0) in line {line} "
        "(3 times); shared memory is not cleared: let a thread store to the element first, then put a barrier"
    )
    assert str(read).splitlines() == [text, f"  line {line}: c[i] = s[1, i] + s[1, i + 1]"]
    assert launch.mistakes == (read,)
    assert dev.launch(padded, 3, 32, a, c, True, vectorize=vectorize).mistakes == ()


@gs.kernel
def adds_to(t: Any, a: Any, total: Any) -> Any:
    total.atomic_add(0, a[t.threadIdx.x])


@WAYS
def test_device_memory_that_nobody_wrote(vectorize: bool) -> None:
    dev = gs.Device("tiny")
    a, total = dev.to_device(np.ones(32, np.int32), "a"), dev.malloc(1, np.int32, "total")
    with pytest.warns(gs.UnwrittenReadWarning, match=r"fill it first, with dev\.memset, dev\.memcpy or a kernel"):
        launch = dev.launch(adds_to, 1, 32, a, total, vectorize=vectorize)
    (read,) = launch.unwritten_reads
    assert (read.array, read.memory, read.element, read.count) == ("total", "global", (0,), 32)
    dev.memset(total, 0)
    assert dev.launch(adds_to, 1, 32, a, total, vectorize=vectorize).mistakes == ()


@gs.kernel
def write_half(t: Any, out: Any, n: Any) -> Any:
    if t.threadIdx.x < n:
        out[t.threadIdx.x] = 1


@gs.kernel
def read_all(t: Any, a: Any, out: Any) -> Any:
    out[t.threadIdx.x] = a[t.threadIdx.x]


@WAYS
@pytest.mark.parametrize(("how", "unread"), [("kernel", 16), ("copy", 16), ("part", 24), ("device", 32), ("whole", 0)])
def test_what_was_written_is_known_by_element(how: str, unread: int, vectorize: bool) -> None:
    dev = gs.Device("tiny")
    a, out = dev.malloc(32, np.int32, "a"), dev.malloc(32, np.int32, "out")
    if how == "kernel":
        dev.launch(write_half, 1, 32, a, 16, vectorize=vectorize)
    elif how == "copy":
        dev.memcpy(a, np.ones(32, np.int32), 64)
    elif how == "part":
        dev.memset(a.part(4, 8), 0)
    elif how == "device":  # poison copied to an array that was written is poison again
        dev.memset(a, 0)
        dev.memcpy(a, dev.malloc(32, np.int32))
    else:
        dev.memset(a, 0)
    reads = dev.launch(read_all, 1, 32, a, out, vectorize=vectorize).unwritten_reads
    assert sum(read.count for read in reads) == unread
    if unread and how != "device":
        assert reads[0].element == ({"part": 0}.get(how, 16),)


@gs.kernel
def exchanges(t: Any, a: Any, c: Any) -> Any:
    s = t.shared("s", 1, np.int32)
    s.atomic_exch(0, 1)


@WAYS
def test_an_exchange_need_not_look_at_what_was_there(vectorize: bool) -> None:
    dev = gs.Device("tiny")
    a = dev.malloc(1)
    assert dev.launch(exchanges, 1, 32, a, a, vectorize=vectorize).mistakes == ()


@gs.kernel
def copied(t: Any, a: Any, c: Any) -> Any:
    s = t.shared("s", 32, np.int32)
    q = t.shared("q", 32, np.int32)
    bar = t.shared_barrier("bar")
    i = t.threadIdx.x
    t.pipeline_memcpy_async(s, i, a, i)
    t.pipeline_commit()
    t.pipeline_wait_prior(0)
    if i == 0:
        t.memcpy_async_bulk(q, 0, a, 0, 32, bar)
    t.barrier_wait(bar)
    c[i] = s[i] + q[i]


@WAYS
def test_copies_write(vectorize: bool) -> None:
    dev = gs.Device("tiny")
    a, c = (dev.to_device(np.ones(32, np.int32), name) for name in "ac")
    assert dev.launch(copied, 2, 32, a, c, vectorize=vectorize).mistakes == ()
    (read,) = {r.array for r in dev.launch(copied, 1, 32, dev.malloc(32, np.int32), c).unwritten_reads}
    assert read == "a"


def test_a_sample_leaves_no_false_reports() -> None:
    """What a sample leaves out has a warning of its own."""

    @gs.block_kernel
    def fill(blk: Any, out: Any) -> None:
        blk.store(out, blk.bx * blk.bdx + blk.tid, 1.0)

    @gs.block_kernel
    def double(blk: Any, out: Any) -> None:
        i = blk.bx * blk.bdx + blk.tid
        blk.store(out, i, 2 * blk.load(out, i))

    dev = gs.Device("tiny")
    out = dev.malloc(64 * 2000)
    launch = dev.launch(fill, 2000, 64, out, sample=6)
    assert launch.sample is not None
    with pytest.warns(gs.SampledResultWarning):
        assert dev.launch(double, 2000, 64, out).mistakes == ()


# Blocks that run again ------------------------------------------------------------------------------------------------


@gs.kernel
def adds_twice(t: Any, c: Any, plain: Any) -> Any:
    i = t.linear
    c[i] = c[i] + 1
    if not plain:
        steps = [1, 2, 3]  # a list: such kernels run thread by thread, which is found out here
        c[i] = c[i] + steps[i % 3]


@gs.block_kernel
def adds_and_disagrees(blk: Any, c: Any, plain: Any) -> None:
    i = blk.bx * blk.bdx + blk.tid
    blk.store(c, i, blk.load(c, i) + 1)
    if not plain and blk.bx % 2 == 0:
        blk.sync()


@gs.kernel
def adds_long(t: Any, c: Any, plain: Any) -> Any:
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    c[i] = c[i] + 1
    c[i] = c[i] * 2
    c[i] = c[i] * 2


@pytest.mark.filterwarnings("ignore::gpusim_des.InterpretedWarning")
@pytest.mark.parametrize("part", [False, True], ids=["whole", "part"])
@pytest.mark.parametrize("kernel", [adds_twice, adds_and_disagrees, adds_long], ids=lambda kernel: kernel.name)
def test_blocks_that_run_again_read_what_nobody_had_written(
    kernel: Any, part: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They stop halfway, as they cannot run so many at a time: what they wrote by then is taken back."""
    if kernel is adds_long:  # five instructions of each warp: four blocks are stopped, and two, but not one
        monkeypatch.setattr(executor, "CHUNK_INSTRUCTIONS", 40)
    blocks = 1 if kernel is adds_twice else 4
    counts = []
    for plain in (True, False):
        dev = gs.Device("tiny")
        whole = dev.malloc(512, np.float32, "c")
        launch = dev.launch(kernel, blocks, 64, whole.part(128, 64 * blocks) if part else whole, plain)
        counts.append([(read.array, read.element, read.count) for read in launch.unwritten_reads])
        start = 128 if part else 0
        elements = np.arange(512)
        left = np.flatnonzero(np.asarray(whole.unwritten))
        np.testing.assert_array_equal(left, elements[(elements < start) | (elements >= start + 64 * blocks)])
    assert counts == [[("c", (0,), 64 * blocks)]] * 2


# Out of bounds --------------------------------------------------------------------------------------------------------


@gs.kernel
def stencil(t: Any, a: Any, c: Any, n: Any, left: Any, right: Any) -> Any:
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    if i < n:
        below = a[i - 1] if i > 0 or left else 0
        above = a[i + 1] if i < n - 1 or right else 0
        c[i] = below + above


@WAYS
@pytest.mark.parametrize(
    ("left", "right", "message"),
    [
        (True, False, "index -1 is outside 0…99 (block (0, 0, 0), thread (0, 0, 0)"),
        (False, True, "index 100 is outside 0…99 (block (1, 0, 0), thread (35, 0, 0)"),
    ],
)
def test_the_halo_of_the_first_and_the_last_thread(left: bool, right: bool, message: str, vectorize: bool) -> None:
    """Case C29: Python would take the last element for index -1."""
    dev = gs.Device("tiny")
    a, c = dev.to_device(np.ones(100, np.int32), "a"), dev.malloc(100, np.int32, "c")
    with pytest.raises(gs.BoundsError, match=rf"stencil: load of 'a' in line \d+ of .*: {re.escape(message)}"):
        dev.launch(stencil, 2, 64, a, c, 100, left, right, vectorize=vectorize)
    dev.launch(stencil, 2, 64, a, c, 100, False, False, vectorize=vectorize)
    assert dev.to_host(c).tolist() == [1, *[2] * 98, 1]


# Use after free, alignment --------------------------------------------------------------------------------------------


def test_a_freed_array_is_refused() -> None:
    dev = gs.Device("tiny")
    a, c = (dev.to_device(np.ones(32, np.int32), name) for name in "ac")
    dev.launch(read_all, 1, 32, a, c)
    dev.free(a)
    with pytest.raises(gs.DeviceMemoryError, match="array 'a' was freed: allocate it again before using it"):
        dev.launch(read_all, 1, 32, a, c)


@gs.block_kernel
def fragment_at(blk: Any, a: Any, column: Any) -> None:
    blk.load_fragment(a, 0, column, (8, 8))


def test_wide_accesses_are_aligned() -> None:
    """Lanes load 16 bytes at a time, 4 floats: column 4 is a multiple, column 2 lies 8 bytes beyond one."""
    dev = gs.Device("h100-sxm")
    a = dev.to_device(np.ones((16, 32), np.float32), "a")
    dev.launch(fragment_at, 1, 32, a, 4)
    with pytest.raises(gs.KernelError, match="each lane moves 16 bytes, at an address that must be a multiple of 16"):
        dev.launch(fragment_at, 1, 32, a, 2)


# Cases of a Python simulator ------------------------------------------------------------------------------------------


@gs.kernel
def old_value(t: Any, x: Any) -> Any:
    x[1] = x.atomic_add(0, 1)


@WAYS
def test_atomics_return_the_old_value(vectorize: bool) -> None:
    """Case C31."""
    dev = gs.Device("tiny")
    x = dev.to_device(np.array([10, 0], np.int32))
    dev.launch(old_value, 1, 1, x, vectorize=vectorize)
    assert dev.to_host(x).tolist() == [11, 10]


@gs.kernel
def marker(t: Any, a: Any, out: Any) -> Any:
    """Threads below 14 divide; on the GPU of the report a hidden exit put them on another path past the barrier."""
    s = t.shared("s", 2, np.int32)
    i = t.threadIdx.x
    if i < 14:
        a[i] = a[i] // (i + 1)
        if i == 1:
            s[0] = 112211
    yield t.syncthreads()
    if i == 1:
        out[0] = s[0]
    if i == 17:
        out[1] = s[0]


@WAYS
def test_a_clean_run_is_no_proof(vectorize: bool) -> None:
    """Case C32: the kernel is right by the rules, so both values are the marker and nothing is reported."""
    dev = gs.Device("tiny")
    a, out = dev.to_device(np.arange(20, dtype=np.int32)), dev.malloc(2, np.int32)
    assert dev.launch(marker, 1, 20, a, out, vectorize=vectorize).mistakes == ()
    assert dev.to_host(out).tolist() == [112211, 112211]

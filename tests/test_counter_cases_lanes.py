"""Known answers about divergence, atomics and index arithmetic, from books, forums and bug reports."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpusim_des as gs
from tests.test_thread_kernel import BOTH, floats, ints

# Divergence ---------------------------------------------------------------------------------------------------------


@gs.kernel
def exercise(t: Any, a: Any, b: Any) -> Any:
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    if t.threadIdx.x < 40 or t.threadIdx.x >= 104:
        b[i] = a[i] + 1
    if i % 2 == 0:
        a[i] = b[i] * 2
    for j in range(5 - i % 3):
        b[i] += j


def test_active_and_divergent_warps() -> None:
    """C22, Programming Massively Parallel Processors, chapter 4, exercise 1."""
    dev = gs.Device("v100-sxm2")
    a, b = dev.to_device(ints(1024)), dev.to_device(ints(1024))
    launch = dev.launch(exercise, 8, 128, a, b)
    counters, lines = launch.counters, lines_of(exercise)
    at = {
        (site.array, site.operation, site.line - lines): (c.requests, c.threads)
        for site, c in counters.accesses.items()
    }
    assert launch.config.warps_per_block * launch.config.blocks == 32
    assert at["b", "store", 3] == (24, 8 * (32 + 8 + 24))  # 24 active warps; warps 0, 1, 3 have 32, 8 and 24 lanes
    assert at["b", "load", 5] == (32, 512)
    assert at["a", "store", 5] == (32, 512)  # 50 %
    # Three iterations have all lanes, two fewer.
    sizes = [sum(5 - i % 3 > j for i in range(1024)) for j in range(5)]
    assert [s == 1024 for s in sizes] == [True, True, True, False, False]
    assert at["b", "store", 7] == (5 * 32, sum(sizes))
    # Divergent: 16 warps at the first if, 32 at the second, and at the loop's test before iterations 4, 5 and 6, the
    # last of which ends it for all lanes that are left.
    assert counters.divergent_branches == 16 + 32 + 2 * 32
    widths = [int(w.stream.lanes[w.stream.lines == lines + 3].max(initial=0)) for w in launch.trace.block(0)]
    assert widths == [32, 8, 0, 24]


def lines_of(kernel: gs.ThreadKernel) -> int:
    """Line of the ``def``."""
    function: Any = kernel.function
    return int(function.__code__.co_firstlineno) + 1


@gs.kernel
def odd_even(t: Any, c: Any) -> Any:
    i = t.threadIdx.x
    a, b = 0.0, 0.0
    if i % 2 == 0:
        a = 100.0 + i
    else:
        b = 200.0 + i
    c[i] = a + b


@gs.kernel
def by_warp(t: Any, c: Any) -> Any:
    i = t.threadIdx.x
    a, b = 0.0, 0.0
    if t.warp % 2 == 0:
        a = 100.0 + i
    else:
        b = 200.0 + i
    c[i] = a + b


@gs.kernel
def two_ifs(t: Any, c: Any) -> Any:
    i = t.threadIdx.x
    a, b = 0.0, 0.0
    if i % 2 == 0:
        a = 100.0 + i
    if i % 2 != 0:
        b = 200.0 + i
    c[i] = a + b


@BOTH
@pytest.mark.parametrize(("kernel", "lanes", "divergent"), [(odd_even, 16, 2), (by_warp, 32, 0), (two_ifs, 16, 4)])
def test_branch_efficiency(kernel: gs.ThreadKernel, lanes: int, divergent: int, vectorize: bool) -> None:
    """C23: half of the lanes on the assignments of kernels 1 and 3, all in kernel 2; predication is not modelled."""
    dev = gs.Device("v100-sxm2")
    out = dev.to_device(floats(64))
    launch = dev.launch(kernel, 1, 64, out, vectorize=vectorize)
    first = lines_of(kernel)
    for warp in launch.trace.block(0):
        on_assignments = warp.stream.lanes[np.isin(warp.stream.lines, [first + 4, first + 6])]
        assert len(on_assignments)
        assert set(on_assignments.tolist()) == {lanes}
    assert launch.counters.divergent_branches == divergent
    assert launch.counters.branches == (4 if kernel is two_ifs else 2)


# Atomics and index arithmetic ---------------------------------------------------------------------------------------


@gs.kernel
def atomic_old_value(t: Any, x: Any) -> Any:
    x[1] = x.atomic_add(0, 1)


@gs.block_kernel
def atomic_old_value_blocks(blk: gs.Block, x: gs.DeviceArray) -> None:
    blk.store(x, 1, blk.atomic_add(x, 0, 1))


@pytest.mark.parametrize("kernel", [atomic_old_value, atomic_old_value_blocks], ids=["thread", "block"])
def test_atomics_return_the_old_value(kernel: gs.ThreadKernel | gs.BlockKernel) -> None:
    """C31, numba issue #5458: x = [11, 10]."""
    dev = gs.Device("v100-sxm2")
    x = dev.to_device(np.array([10, 0], np.int32))
    dev.launch(kernel, 1, 1, x)
    assert dev.to_host(x).tolist() == [11, 10]


@gs.kernel
def gather_offset(t: Any, rows: Any, out: Any, wide: Any) -> Any:
    i = t.threadIdx.x
    column = 8959
    out[i] = rows[i] * 8960 + column
    wide[i] = np.int64(rows[i]) * 8960 + column


@BOTH
def test_a_row_offset_beyond_32_bits(vectorize: bool) -> None:
    """C61, onnxruntime issue #28107: row 239,673 fits in 32 bits, row 239,674 wraps."""
    dev = gs.Device("v100-sxm2")
    rows = dev.to_device(np.array([239_673, 239_674], np.int32))
    out, wide = dev.to_device(ints(2)), dev.to_device(np.zeros(2, np.int64))
    dev.launch(gather_offset, 1, 2, rows, out, wide, vectorize=vectorize)
    assert dev.to_host(out).tolist() == [2_147_479_039, 2_147_487_999 - 2**32]
    assert dev.to_host(wide).tolist() == [2_147_479_039, 2_147_487_999]


@gs.kernel
def gather(t: Any, table: Any, rows: Any, out: Any) -> Any:
    i = t.threadIdx.x
    out[i] = table[rows[i] * 8960 + 8959]


@BOTH
def test_a_wrapped_index_is_refused(vectorize: bool) -> None:
    """C61: what an int wraps to is negative, an illegal address."""
    dev = gs.Device("v100-sxm2")
    rows = dev.to_device(np.array([0, 239_674], np.int32))
    with pytest.raises(gs.BoundsError, match=r"index -2,147,479,297 is outside 0…9,999"):
        dev.launch(gather, 1, 2, dev.to_device(floats(10_000)), rows, dev.to_device(floats(2)), vectorize=vectorize)


@gs.kernel
def generated_index(t: Any, blocks: Any, out: Any) -> Any:
    out[t.threadIdx.x] = blocks[0] * 96 + t.threadIdx.x * 3


@BOTH
def test_a_generated_index_beyond_32_bits(vectorize: bool) -> None:
    """C62, tinygrad PR #6987: in the last block the lanes from 11 on wrap; int += int stays int (numba issue #8447)."""
    for block, first in ((22_369_620, 32), (22_369_621, 11)):
        dev = gs.Device("v100-sxm2")
        out = dev.to_device(ints(32))
        dev.launch(generated_index, 1, 32, dev.to_device(np.array([block], np.int32)), out, vectorize=vectorize)
        exact = [block * 96 + lane * 3 for lane in range(32)]
        assert dev.to_host(out).tolist() == [x if lane < first else x - 2**32 for lane, x in enumerate(exact)]

"""Kernels in block style: what is counted and recorded, worked out by hand."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import gpusim_des as gs
from gpusim_des.trace import OpClass as Op
from gpusim_des.trace import WarpTrace
from tests.kernels import line_of

Array = np.ndarray[Any, Any]


@gs.block_kernel
def vector_add(blk: gs.Block, a: gs.DeviceArray, b: gs.DeviceArray, c: gs.DeviceArray, n: int) -> None:
    i = blk.bx * blk.bdx + blk.tx
    m = i < n
    x = blk.load(a, i, mask=m)
    y = blk.load(b, i, mask=m)
    blk.compute(1, mask=m)
    blk.store(c, i, x + y, mask=m)


@gs.block_kernel
def vector_add_short(blk: gs.Block, a: gs.DeviceArray, b: gs.DeviceArray, c: gs.DeviceArray, n: int) -> None:
    i = blk.bx * blk.bdx + blk.tx
    m = i < n
    blk.store(c, i, blk.load(a, i, mask=m) + blk.load(b, i, mask=m), mask=m)


def add(kernel: gs.BlockKernel, n: int = 1000, block: int = 256, **options: Any) -> tuple[gs.Launch, Array, Array]:
    dev = gs.Device("h100-sxm")
    rng = np.random.default_rng(1)
    x, y = rng.random(n, np.float32), rng.random(n, np.float32)
    a, b, c = dev.to_device(x), dev.to_device(y), dev.malloc(n)
    launch = dev.launch(kernel, gs.cdiv(n, block), block, a, b, c, n, **options)
    return launch, dev.to_host(c), x + y


def test_vector_add_by_declared_instructions() -> None:
    """1000 floats are 125 sectors; 4 blocks of 8 warps issue 2 loads, 1 compute and 1 store each."""
    launch, result, expected = add(vector_add, count="declared")
    assert np.array_equal(result, expected)
    c = launch.counters
    assert (c.blocks, c.threads, c.warp_instructions, c.active_lanes) == (4, 1024, 128, 4000)
    assert (c.global_load_requests, c.global_load_sectors) == (64, 250)
    assert (c.global_store_requests, c.global_store_sectors) == (32, 125)
    assert (c.global_load_bytes_requested, c.global_store_bytes_requested) == (8000, 4000)
    assert (c.coalescing_efficiency, c.simt_efficiency) == (1.0, 4000 / 4096)
    assert c.instruction_mix == {"global_load": 64, "global_store": 32, "fp32": 32}


def test_vector_add_by_the_instruction_table() -> None:
    """A warp: multiply-add, compare; three addresses, two loads, one addition, one store; exit."""
    launch, result, expected = add(vector_add_short)
    assert np.array_equal(result, expected)
    c = launch.counters
    per_warp = {"int": 5, "global_load": 2, "fp32": 1, "global_store": 1, "exit": 1}
    assert c.instruction_mix == {name: 32 * n for name, n in per_warp.items()}
    assert c.warp_instructions == 32 * 10
    assert c.active_lanes == 3 * 1024 + 7 * 1000  # index, compare and exit run in all threads, the rest where i < n
    assert (c.global_load_sectors, c.global_store_sectors) == (250, 125)


def depends(warp: WarpTrace) -> list[tuple[int, ...]]:
    return [warp.stream.depends_on(k) for k in range(len(warp.stream))]


def ops(warp: WarpTrace) -> list[Op]:
    return [Op(k) for k in warp.stream.ops]


def lines(warp: WarpTrace, kernel: gs.BlockKernel) -> list[int]:
    """Source lines, counted from the line of ``def``."""
    return [line - line_of(kernel, 0) if line else 0 for line in warp.stream.lines.tolist()]


def test_recorded_stream_of_vector_add() -> None:
    launch, _, _ = add(vector_add_short)
    for block in launch.trace:
        for warp in block:
            assert ops(warp) == [
                *(Op.INT, Op.INT),  # 0: i, a multiply-add, 1: m
                *(Op.INT, Op.GLOBAL_LOAD),  # 2: address, 3: a[i]
                *(Op.INT, Op.GLOBAL_LOAD),  # 4: address, 5: b[i]
                *(Op.FP32, Op.INT, Op.GLOBAL_STORE),  # 6: sum, 7: address, 8: c[i]
                Op.EXIT,
            ]
            assert depends(warp) == [(), (0,), (0,), (1, 2), (0,), (1, 4), (3, 5), (0,), (1, 6, 7), ()]
            assert lines(warp, vector_add_short) == [1, 2, 3, 3, 3, 3, 3, 3, 3, 0]
    last = launch.trace.block(3)[7]
    assert last.stream.lanes.tolist() == [32, 32, 8, 8, 8, 8, 8, 8, 8, 32]
    assert len(launch.trace.streams) == 2, "31 full warps share one stream, the last warp has its own"
    assert launch.trace.warp_instructions == 320


def test_declared_instructions_depend_on_the_loads_behind_the_operators() -> None:
    launch, _, _ = add(vector_add, count="declared")
    warp = launch.trace.block(0)[0]
    assert ops(warp) == [Op.GLOBAL_LOAD, Op.GLOBAL_LOAD, Op.FP32, Op.GLOBAL_STORE]
    assert depends(warp) == [(), (), (), (0, 1)]


def test_sectors_of_every_warp() -> None:
    launch, _, _ = add(vector_add_short)
    first = [warp.sectors(0)[0] for warp in launch.trace.block(0)]
    for b, block in enumerate(launch.trace):
        for w, warp in enumerate(block):
            floats = min(32, 1000 - 256 * b - 32 * w)
            start = int(first[0]) + (256 * b + 32 * w) // 8
            assert warp.sectors(0).tolist() == list(range(start, start + gs.cdiv(floats, 8)))
            for access in (1, 2):  # the arrays lie one after another, 4000 bytes in 16 × 256
                assert warp.sectors(access).tolist() == [s + access * 4096 // 32 for s in warp.sectors(0).tolist()]
            assert warp.footprint.quarter_cycles.tolist() == [4, 4, 4]
    assert len(first) == 8


@gs.block_kernel
def half_loads(blk: gs.Block, a: gs.DeviceArray, out: gs.DeviceArray) -> None:
    x = blk.load(a, blk.tid, mask=blk.tid < 32)
    blk.store(out, blk.tid, x + blk.tid)


def test_a_warp_depends_only_on_what_it_executed() -> None:
    dev = gs.Device("h100-sxm")
    a, out = dev.to_device(np.arange(64, dtype=np.int32)), dev.malloc(64, np.int32)
    launch = dev.launch(half_loads, 1, 64, a, out)
    assert dev.to_host(out).tolist() == [2 * t if t < 32 else t for t in range(64)]
    loads, skips = launch.trace.block(0)
    assert ops(loads) == [Op.INT, Op.INT, Op.GLOBAL_LOAD, Op.INT, Op.INT, Op.GLOBAL_STORE, Op.EXIT]
    assert depends(loads) == [(), (), (0, 1), (2,), (), (3, 4), ()]
    assert ops(skips) == [Op.INT, Op.INT, Op.INT, Op.GLOBAL_STORE, Op.EXIT]
    assert depends(skips) == [(), (), (), (1, 2), ()]
    assert len(skips.footprint.quarter_cycles) == 1, "an access that a warp skips takes no time in its load/store unit"
    assert len(loads.footprint.quarter_cycles) == 2


@gs.block_kernel
def reverse(blk: gs.Block, a: gs.DeviceArray) -> None:
    tile = blk.shared(blk.bdx, np.float32, name="tile")
    i = blk.bx * blk.bdx + blk.tx
    blk.sstore(tile, blk.tx, blk.load(a, i))
    blk.sync()
    blk.store(a, i, blk.sload(tile, blk.bdx - 1 - blk.tx))


def test_shared_memory_and_barrier() -> None:
    dev = gs.Device("h100-sxm")
    a = dev.to_device(np.arange(192, dtype=np.float32))
    launch = dev.launch(reverse, 3, 64, a)
    assert dev.to_host(a).tolist() == [64 * b + 63 - t for b in range(3) for t in range(64)]
    warp = launch.trace.block(1)[1]
    assert ops(warp) == [
        *(Op.INT, Op.INT, Op.GLOBAL_LOAD, Op.SHARED_STORE, Op.BARRIER),
        *(Op.INT, Op.SHARED_LOAD, Op.INT, Op.GLOBAL_STORE, Op.EXIT),
    ]
    assert depends(warp) == [(), (0,), (1,), (2,), (), (), (5,), (0,), (6, 7), ()]
    c = launch.counters
    assert (c.shared_requests, c.shared_wavefronts, c.barriers, c.shared_bytes_per_block) == (12, 12, 3, 256)
    assert launch.trace.shared_bytes == 256
    assert warp.footprint.quarter_cycles.tolist() == [4, 4, 4, 4]


@gs.block_kernel
def barrier_of_block_0(blk: gs.Block) -> None:
    blk.sync(mask=blk.bx == 0)


def test_a_barrier_that_a_whole_block_skips_is_no_deadlock() -> None:
    launch = gs.Device("h100-sxm").launch(barrier_of_block_0, 3, 64)
    assert launch.counters.barriers == 1
    assert [[Op.BARRIER in ops(warp) for warp in block] for block in launch.trace] == [
        [True] * 2,
        [False] * 2,
        [False] * 2,
    ]


@gs.block_kernel
def declares(blk: gs.Block, a: gs.DeviceArray) -> None:
    x = blk.load(a, blk.tid)
    y = blk.compute(3, op="sfu", value=x)
    blk.compute(2, op="int")
    blk.store(a, blk.tid, y)


def test_declared_instructions_form_a_chain() -> None:
    dev = gs.Device("h100-sxm")
    a = dev.to_device(np.arange(32, dtype=np.float32))
    (warp,) = dev.launch(declares, 1, 32, a, count="declared").trace.block(0)
    assert ops(warp) == [Op.GLOBAL_LOAD, Op.SFU, Op.SFU, Op.SFU, Op.INT, Op.INT, Op.GLOBAL_STORE]
    assert depends(warp) == [(), (0,), (1,), (2,), (), (4,), (3,)]
    assert dev.to_host(a).tolist() == list(range(32))


@gs.block_kernel
def shuffled(blk: gs.Block, a: gs.DeviceArray) -> None:
    x = blk.load(a, blk.tid)
    blk.store(a, blk.tid, blk.shfl_down(x, 1, mask=blk.lane < 31))


def test_a_shuffle_depends_on_its_value_and_takes_a_cycle_in_the_load_store_unit() -> None:
    dev = gs.Device("h100-sxm")
    a = dev.to_device(np.arange(40, dtype=np.float32))
    first, second = dev.launch(shuffled, 1, 40, a, count="declared").trace.block(0)
    # Lane 30 reads lane 31, which does not take part, and keeps its own value; lane 39 has no neighbour.
    assert dev.to_host(a).tolist() == [*range(1, 31), 30, 31, *range(33, 40), 39]
    assert depends(first) == [(), (0,), (1,)]
    assert (first.stream.lanes.tolist(), second.stream.lanes.tolist()) == ([32, 31, 32], [8, 8, 8])
    assert first.footprint.quarter_cycles.tolist() == [4, 4, 4]


@gs.block_kernel
def columns(blk: gs.Block, a: gs.DeviceArray) -> None:
    tile = blk.shared((32, 32))
    blk.sstore(tile, (blk.tx, 0), blk.load(a, 32 * blk.tx))


def test_time_in_the_load_store_unit_of_strided_accesses() -> None:
    """32 lines take (32 + 3) / 4 cycles or 32 bank passes: the column of a 32-wide tile has all words in one bank."""
    dev = gs.Device("h100-sxm")
    (warp,) = dev.launch(columns, 1, 32, dev.malloc(1024), count="declared").trace.block(0)
    assert warp.footprint.quarter_cycles.tolist() == [128, 128]
    assert len(warp.sectors(0)) == 32


@pytest.mark.parametrize("count", ["auto", "declared"])
def test_a_load_for_nobody_leaves_no_trace(count: str) -> None:
    launch, _, _ = add(vector_add_short, n=40, block=128, count=count)
    full, part, *off = launch.trace.block(0)
    assert [len(w.footprint.quarter_cycles) for w in (full, part, *off)] == [3, 3, 0, 0]
    assert [len(w.bases) for w in (full, part, *off)] == [3, 3, 0, 0]
    assert launch.counters.global_load_requests == 4


def test_mix_and_counters_add_up() -> None:
    launch, _, _ = add(vector_add_short, n=333, block=96)
    streams = Counter(Op(op).label for block in launch.trace for warp in block for op in warp.stream.ops)
    assert launch.counters.instruction_mix == streams
    assert launch.counters.active_lanes == sum(int(w.stream.lanes.sum()) for block in launch.trace for w in block)

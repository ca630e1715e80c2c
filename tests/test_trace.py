"""The trace (W1): streams shared by warps that did the same and footprints (W3), spilling to a file (W4), by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpusim_des as gs
from gpusim_des.functional import executor
from gpusim_des.grid import LaunchConfig
from gpusim_des.spill import ArrayStore
from gpusim_des.trace import Footprint, Instruction, KernelTrace, Mma, OpClass, Stream, TraceChunk, WarpTrace


@gs.block_kernel
def gather(blk: gs.Block, a: gs.DeviceArray, n: int) -> None:
    i = blk.bx * blk.bdx + blk.tx
    m = i < n
    k = (i * i) % n
    blk.store(a, i, blk.load(a, k, mask=m), mask=m)


def launch(n: int, grid: int, at_once: int) -> tuple[gs.Launch, int]:
    """Run `gather` with `at_once` blocks of 64 threads in flight; returns also the address of its array."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(executor, "CHUNK_THREADS", 64 * at_once)
        dev = gs.Device("h100-sxm")
        a = dev.to_device(np.zeros(n, np.float32))
        return dev.launch(gather, grid, 64, a, n), a.address


@pytest.mark.parametrize("at_once", [1, 3, 100])
def test_streams_are_shared_across_chunks(at_once: int) -> None:
    """630 threads are 19 full warps, one of 22 lanes and two of none: three streams in all."""
    done, _ = launch(630, 11, at_once)
    lanes = {tuple(stream.lanes.tolist()) for stream in done.trace.streams}
    assert len(done.trace.streams) == len(lanes) == 3
    numbers = [[done.trace.streams.index(warp.stream) for warp in block] for block in done.trace]
    full, part, none = numbers[0][0], numbers[9][1], numbers[10][0]
    assert len({full, part, none}) == 3
    assert numbers == [[full, full]] * 9 + [[full, part], [none, none]]


@pytest.mark.parametrize("at_once", [1, 3, 100])
def test_footprints_of_every_warp(at_once: int) -> None:
    n = 630
    done, address = launch(n, 11, at_once)
    for b, block in enumerate(done.trace):
        for w, warp in enumerate(block):
            threads = [i for i in range(64 * b + 32 * w, 64 * b + 32 * w + 32) if i < n]
            loads = sorted({(address + 4 * (i * i % n)) // 32 for i in threads})
            stores = sorted({(address + 4 * i) // 32 for i in threads})
            assert [warp.sectors(k).tolist() for k in range(len(warp.bases))] == [s for s in (loads, stores) if s]
            lines = [len({s // 4 for s in sectors}) for sectors in (loads, stores) if sectors]
            passes = [bank_passes([i * i % n for i in threads]), 1]
            assert warp.footprint.quarter_cycles.tolist() == [
                max(4 * p, count + 3) for p, count in zip(passes, lines, strict=False)
            ]


def bank_passes(words: list[int]) -> int:
    """Different words in the bank that has the most of them; the array starts in bank 0."""
    return max(len({w for w in words if w % 32 == bank}) for bank in range(32))


def test_warps_with_equal_accesses_share_a_footprint() -> None:
    done, _ = launch(640, 10, 100)
    chunk = TraceChunk(*done.trace._store.get(0))
    assert chunk.streams.shape == chunk.footprints.shape == (10, 2)

    @gs.block_kernel
    def copy(blk: gs.Block, a: gs.DeviceArray) -> None:
        i = blk.bx * blk.bdx + blk.tx
        blk.store(a, i, blk.load(a, i))

    dev = gs.Device("h100-sxm")
    trace = dev.launch(copy, 10, 64, dev.malloc(640)).trace
    footprints = {id(warp.footprint) for b in range(10) for warp in trace.block(b)}
    assert len(footprints) == 1


def same(one: KernelTrace, other: KernelTrace) -> bool:
    """Tell whether two traces have the same warps, whatever they share."""
    return [[picture(w) for w in block] for block in one] == [[picture(w) for w in block] for block in other]


def picture(warp: WarpTrace) -> tuple[Any, ...]:
    s, f = warp.stream, warp.footprint
    arrays = (s.ops, s.lanes, s.lines, s.dep_start, s.deps, f.quarter_cycles, f.starts, f.offsets, warp.bases)
    return tuple((a.dtype, a.tolist()) for a in arrays)


def spilled(trace: KernelTrace, limit: int) -> KernelTrace:
    """Write the same blocks to a trace with a limit, in chunks of one block."""
    copy = KernelTrace(trace.name, trace.config, memory_limit_bytes=limit)
    for number in range(trace.config.blocks):
        warps = trace.block(number)
        streams = [copy.intern_stream(str(trace.streams.index(w.stream)).encode(), w.stream) for w in warps]
        chunk = TraceChunk.of(
            np.array([streams], np.int32),
            np.arange(len(warps), dtype=np.int32)[None, :],
            [w.footprint for w in warps],
            np.cumsum([0, *(len(w.bases) for w in warps)], dtype=np.int64),
            np.concatenate([w.bases for w in warps]),
        )
        copy.add_chunk(np.array([number]), chunk)
    return copy


@pytest.mark.parametrize("limit", [0, 3000])
def test_spilled_blocks_come_back_as_they_were(limit: int) -> None:
    done, _ = launch(630, 11, 3)
    assert done.trace.spilled_bytes == 0
    copy = spilled(done.trace, limit)
    assert copy.spilled_bytes > 0
    assert (copy.held_bytes > 0) == (limit > 0)
    assert copy.held_bytes <= limit
    assert same(copy, done.trace)
    assert picture(copy.block(7)[1]) == picture(done.trace.block(7)[1]), "blocks in any order"
    assert copy.warp_instructions == done.trace.warp_instructions


def test_a_launch_spills_what_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, _ = launch(630, 11, 3)
    monkeypatch.setattr(
        executor, "KernelTrace", lambda *args, **options: KernelTrace(*args, **options, memory_limit_bytes=0)
    )
    done, _ = launch(630, 11, 3)
    assert done.trace.spilled_bytes > 0
    assert same(done.trace, whole.trace)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.lists(
            st.tuples(st.sampled_from(["u1", "i4", "i8", "f8"]), st.lists(st.integers(0, 5), min_size=1, max_size=2)),
            max_size=4,
        ),
        max_size=6,
    ),
    st.integers(0, 200),
)
def test_a_store_gives_back_what_it_got(groups: list[list[tuple[str, list[int]]]], limit: int) -> None:
    store = ArrayStore(limit)
    kept = []
    for number, group in enumerate(groups):
        arrays = [(np.arange(np.prod(shape)) + number).reshape(shape).astype(kind) for kind, shape in group]
        assert store.put(*arrays) == number
        kept.append(arrays)
        assert [a.tolist() for a in store.get(number // 2)] == [a.tolist() for a in kept[number // 2]]
    assert store.held_bytes <= limit
    assert store.held_bytes + store.spilled_bytes == sum(a.nbytes for group in kept for a in group)
    for number in reversed(range(len(groups))):
        back = store.get(number)
        assert [(a.dtype, a.shape, a.tolist()) for a in back] == [(a.dtype, a.shape, a.tolist()) for a in kept[number]]
    assert len(store) == len(groups)


def test_a_strided_array_is_stored_by_value() -> None:
    store = ArrayStore(0)
    store.put(np.arange(12).reshape(3, 4).T)
    assert store.get(0)[0].tolist() == np.arange(12).reshape(3, 4).T.tolist()


# Traces by hand -------------------------------------------------------------------------------------------------------

FP32, LOAD = OpClass.FP32, OpClass.GLOBAL_LOAD


@pytest.mark.parametrize(
    ("instructions", "message"),
    [
        ([Instruction(FP32, deps=(0,))], "instruction 0 depends on instruction 0: an operand comes from an earlier"),
        (
            [Instruction(FP32), Instruction(FP32, deps=(2,)), Instruction(FP32)],
            "instruction 1 depends on instruction 2",
        ),
        ([Instruction(FP32), Instruction(FP32, deps=(0, -1))], "instruction 1 depends on instruction -1"),
        (
            [Instruction(FP32), Instruction(FP32, lanes=33)],
            "instruction 1 has 33 active lanes: must lie between 1 and 32",
        ),
        ([Instruction(FP32, lanes=0)], "instruction 0 has 0 active lanes"),
        ([Instruction(FP32, lanes=-4)], "instruction 0 has -4 active lanes"),
        ([Instruction(FP32, lanes=288)], "instruction 0 has 288 active lanes"),
    ],
)
def test_streams_that_cannot_be_played(instructions: list[Instruction], message: str) -> None:
    for build in (Stream.of, WarpTrace.of):
        with pytest.raises(gs.TraceError, match=message):
            build(instructions)


@pytest.mark.parametrize(
    ("sectors", "message"),
    [
        ([], "0 sector lists for 1 global accesses: give one list for each"),
        ([[1], [2]], "2 sector lists for 1 global accesses"),
        ([[]], r"global accesses \[\[\]\]: each touches at least one sector, none below 0"),
        ([[-1, 5]], "none below 0"),
    ],
)
def test_sectors_that_cannot_be(sectors: list[list[int]], message: str) -> None:
    with pytest.raises(gs.TraceError, match=message):
        WarpTrace.of([Instruction(LOAD)], sectors)


def test_a_warp_by_hand() -> None:
    warp = WarpTrace.of(
        [
            Instruction(LOAD, quarter_cycles=9),
            Instruction(FP32, deps=(0,), lanes=3, line=12),
            Instruction(OpClass.SHARED_LOAD, quarter_cycles=128),
            Instruction(OpClass.GLOBAL_STORE, deps=(1, 2)),
        ],
        [[9, 7, 7, 30], [2]],
    )
    assert [warp.sectors(k).tolist() for k in (0, 1)] == [[7, 9, 30], [2]]
    assert warp.footprint.quarter_cycles.tolist() == [9, 128, 4]
    assert [warp.stream.depends_on(k) for k in range(4)] == [(), (0,), (), (1, 2)]
    assert warp.stream.count([LOAD, FP32]) == 2
    assert warp.stream.lanes.tolist() == [32, 3, 32, 32]


def test_a_trace_by_hand() -> None:
    short, long = WarpTrace.of([Instruction(FP32)]), WarpTrace.of([Instruction(FP32), Instruction(LOAD)], [[4]])
    trace = KernelTrace.of_blocks("k", [[short, long], [long, long]], registers=64, shared_bytes=100)
    assert (trace.name, trace.registers, trace.shared_bytes) == ("k", 64, 100)
    assert trace.config == LaunchConfig.of(2, 64)
    assert [[len(w.stream) for w in block] for block in trace] == [[1, 2], [2, 2]]
    assert [[w.bases.tolist() for w in block] for block in trace] == [[[], [4]], [[4], [4]]]
    assert trace.warp_instructions == 7
    assert len(trace.streams) == 2


@pytest.mark.parametrize("widths", [[1, 2], [0], []])
def test_blocks_of_unequal_width(widths: list[int]) -> None:
    warp = WarpTrace.of([Instruction(FP32)])
    with pytest.raises(gs.TraceError, match=r"blocks with \[.*\] warps: all blocks of a grid have equally many"):
        KernelTrace.of_blocks("k", [[warp] * width for width in widths])


def test_of_blocks_checks_streams_that_were_not_built_by_of() -> None:
    forward = Stream(
        np.zeros(2, np.uint8), np.full(2, 32, np.uint8), np.zeros(2, np.int32), np.array([0, 1, 1], np.int32),
        np.array([1], np.int32), np.zeros(2, np.int32),
    )  # fmt: skip
    nothing = Footprint(np.zeros(0, np.int32), np.zeros(1, np.int32), np.zeros(0, np.int64), np.zeros(0, np.uint8))
    with pytest.raises(gs.TraceError, match="instruction 0 depends on instruction 1"):
        KernelTrace.of_blocks("k", [[WarpTrace(forward, nothing, np.zeros(0, np.int64))]])


@pytest.mark.parametrize("number", [2, -1])
def test_a_block_that_is_not_there(number: int) -> None:
    trace = KernelTrace.of_blocks("k", [[WarpTrace.of([Instruction(FP32)])]] * 2)
    with pytest.raises(gs.TraceError, match=f"block {number} of kernel 'k' was never recorded"):
        trace.block(number)


def test_a_launch_without_instructions() -> None:
    @gs.block_kernel
    def empty(blk: gs.Block) -> None:
        pass

    dev = gs.Device("h100-sxm")
    auto, declared = dev.launch(empty, 3, 48), dev.launch(empty, 3, 48, count="declared")
    assert [[w.stream.ops.tolist() for w in block] for block in auto.trace] == [[[OpClass.EXIT]] * 2] * 3
    assert auto.trace.block(0)[1].stream.lanes.tolist() == [16]
    assert [[len(w.stream) for w in block] for block in declared.trace] == [[0, 0]] * 3
    assert declared.counters.warp_instructions == 0


def test_assumptions_of_a_launch() -> None:
    """W5: without an argument 32 registers per thread, and the report says so."""
    done, _ = launch(64, 1, 1)
    assert done.trace.assumptions == ("32 registers per thread (not given at launch)",)
    dev = gs.Device("h100-sxm")
    given_registers = dev.launch(gather, 1, 64, dev.malloc(64), 64, registers=40, dynamic_shared=1000)
    assert (given_registers.trace.assumptions, given_registers.trace.registers) == ((), 40)
    assert given_registers.trace.shared_bytes == 1000


@gs.block_kernel
def stride_of_the_warp(blk: gs.Block, a: gs.DeviceArray) -> None:
    tile = blk.shared(32 * 4)
    blk.sload(tile, blk.lane * (blk.warp + 1))
    blk.load(a, blk.tid)


def test_warps_that_differ_only_in_shared_memory_have_their_own_footprints() -> None:
    dev = gs.Device("h100-sxm")
    (block,) = dev.launch(stride_of_the_warp, 1, 128, dev.malloc(128)).trace
    assert [warp.footprint.quarter_cycles.tolist() for warp in block] == [[4, 4], [8, 4], [4, 4], [16, 4]]


@gs.block_kernel
def count_remainders(blk: gs.Block, bins: gs.DeviceArray, modulus: int) -> None:
    blk.load(bins, blk.tx % modulus)
    blk.atomic_add(bins, blk.tx % modulus, 1)


def test_passes_of_a_recorded_atomic() -> None:
    """Ten bins of four bytes: eight in the first sector, with four lanes on bins 0 and 1; two in the second."""
    dev = gs.Device("tiny")
    warp = dev.launch(count_remainders, 1, 32, dev.to_device(np.zeros(10, np.int32)), 10).trace.block(0)[0]
    assert warp.footprint.starts.tolist() == [0, 2, 4]
    assert warp.footprint.passes.tolist() == [1, 1, 4, 3]


@gs.block_kernel
def copy_from(blk: gs.Block, a: gs.DeviceArray, first: int) -> None:
    blk.store(a, blk.tx + first, blk.load(a, blk.tx))


def test_stores_tell_which_sectors_they_write_whole() -> None:
    """M5: 32 floats from the third on: five sectors, the outer ones in part; from the eighth on four whole ones."""
    dev = gs.Device("tiny")
    a = dev.malloc(64)
    part, whole = (dev.launch(copy_from, 1, 32, a, first).trace.block(0)[0].footprint for first in (3, 8))
    assert part.passes.tolist() == [1, 1, 1, 1, 2, 1, 1, 1, 2]
    assert len(whole.passes) == 0


def test_a_narrow_l1_takes_two_cycles_for_a_line() -> None:
    """M1: 64 bytes a cycle to registers: a load of 32 floats takes two cycles, a store one, a load of 16 floats one."""
    found = {}
    for width in ("64 B/cycle", "128 B/cycle"):
        dev = gs.Device(gs.load_gpu("tiny").replace(l1_width=width))
        a = dev.malloc(64)
        found[width] = [
            dev.launch(copy_from, 1, threads, a, 32).trace.block(0)[0].footprint.quarter_cycles.tolist()
            for threads in (32, 16)
        ]
    assert found == {"64 B/cycle": [[8, 4], [4, 4]], "128 B/cycle": [[4, 4], [4, 4]]}


def test_a_trace_without_atomics_has_no_passes() -> None:
    warp = WarpTrace.of([Instruction(OpClass.GLOBAL_LOAD)], [[1, 2]])
    assert len(warp.footprint.passes) == 0
    assert warp.footprint.sector_passes.tolist() == [1, 1]


def test_passes_by_hand() -> None:
    atomic = Instruction(OpClass.GLOBAL_ATOMIC, passes=(3, 1))
    trace = KernelTrace.of_blocks("k", [[WarpTrace.of([atomic, Instruction(OpClass.GLOBAL_LOAD)], [[7, 9], [1]])]])
    assert trace.block(0)[0].footprint.passes.tolist() == [3, 1, 1]
    store = Instruction(OpClass.GLOBAL_STORE, passes=(1, 3))
    with pytest.raises(gs.TraceError, match=r"passes \(1, 3\) for 2 sectors: one for each, between 1 and 2"):
        WarpTrace.of([store], [[7, 9]])
    with pytest.raises(gs.TraceError, match=r"passes \(3, 1\) for 1 sectors: one for each, between 1 and 32"):
        WarpTrace.of([atomic], [[7]])
    with pytest.raises(gs.TraceError, match=r"passes \(33,\) for 1 sectors"):
        WarpTrace.of([Instruction(OpClass.GLOBAL_ATOMIC, passes=(33,))], [[7]])


def test_operands_tell_streams_apart() -> None:
    warps = [WarpTrace.of([Instruction(OpClass.TENSOR, operand=Mma(16, 8, k, "fp16").encode())]) for k in (8, 16)]
    trace = KernelTrace.of_blocks("k", [warps])
    assert [Mma.decode(int(w.stream.operands[0])).k for w in trace.block(0)] == [8, 16]


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (Mma(16, 8, 16, "fp12"), "mma of type 'fp12': must be one of fp16, bf16, tf32, fp64, int8, fp8"),
        (Mma(16, 0, 16, "fp16"), "mma with n = 0: must lie between 1 and 255"),
        (Mma(16, 8, 256, "fp16"), "mma with k = 256: must lie between 1 and 255"),
    ],
)
def test_shapes_that_no_trace_can_hold(shape: Mma, message: str) -> None:
    with pytest.raises(gs.TraceError, match=message):
        shape.encode()

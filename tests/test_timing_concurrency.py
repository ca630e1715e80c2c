"""Rules G1, G2 and I1: kernels of several streams on one GPU, and how many blocks are resident at a time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusim_des.analytic import occupancy
from gpusim_des.errors import LaunchError
from gpusim_des.gpu import GPU, load_gpu
from gpusim_des.timeline import BlockSpan, Timeline
from gpusim_des.timing.simulate import simulate
from gpusim_des.trace import KernelTrace
from tests.programs import TINY, Part, chain, fp32, issues, load, store, trace, warp

NS = 10**6
"""Femtoseconds in a nanosecond, a cycle of `tiny`."""

UNIT = chain(25)
"""A warp of 100 cycles."""


def kernel(blocks: int, program: Sequence[Part] = UNIT, warps: int = 1, **launch: int) -> KernelTrace:
    """Many blocks of equal warps."""
    shared = warp(*program)
    return KernelTrace.of_blocks("k", [[shared] * warps] * blocks, **launch)


def spans(timeline: Timeline, number: int) -> list[tuple[int, int, int]]:
    """SM, start and end in ns of the blocks of a kernel."""
    blocks = sorted(timeline.blocks_of(number), key=lambda b: b.block)
    return [(b.sm, b.start_fs // NS, b.end_fs // NS) for b in blocks]


def times(timeline: Timeline) -> list[tuple[int, int]]:
    """Start and end of every kernel in ns."""
    return [(k.start_fs // NS, k.end_fs // NS) for k in timeline.kernels]


# Streams (G2) -------------------------------------------------------------------------------------------------------

ONE_BLOCK = TINY.replace(max_blocks_per_sm=1)


def test_kernels_of_two_streams_run_at_once() -> None:
    """G2: both have their turn at 0; the older places its block first, the younger in the next dispatch interval."""
    timeline = simulate(TINY, [kernel(1), kernel(1)], streams=[0, 1])
    assert times(timeline) == [(0, 100), (1, 101)]
    assert (spans(timeline, 0), spans(timeline, 1)) == ([(0, 0, 100)], [(1, 1, 101)])


def test_kernels_of_one_stream_follow_each_other() -> None:
    """G2: the first kernel of stream 5 and that of stream 3 run at once, the second of stream 5 comes behind it."""
    timeline = simulate(TINY, [kernel(1), kernel(1), kernel(1)], streams=[5, 5, 3])
    assert times(timeline) == [(0, 100), (100, 200), (1, 101)]


def test_the_younger_kernel_waits_until_the_older_has_no_blocks_left() -> None:
    """G2: block 2 of the older gets the first free slot, at 100; the younger's only block the second, at 101."""
    timeline = simulate(ONE_BLOCK, [kernel(3), kernel(1)], streams=[0, 1])
    assert spans(timeline, 0) == [(0, 0, 100), (1, 1, 101), (0, 100, 200)]
    assert spans(timeline, 1) == [(1, 101, 201)]


def test_the_younger_kernel_waits_even_where_it_had_room() -> None:
    """G2: a block of all shared memory blocks the queue until 100, though the small blocks would fit beside it."""
    timeline = simulate(TINY, [kernel(3, shared_bytes=16 * 1024), kernel(2)], streams=[0, 1])
    assert spans(timeline, 0)[2] == (0, 100, 200)
    # At 101 SM 1 is empty; at 102 both SMs have one block, and the lower number gets the next.
    assert spans(timeline, 1) == [(1, 101, 201), (0, 102, 202)]


def test_a_tail_is_filled_by_the_next_kernel() -> None:
    """G2: three blocks on two SMs leave one SM idle for 100 cycles, which the other stream uses."""
    in_turn = simulate(ONE_BLOCK, [kernel(3), kernel(1)])
    at_once = simulate(ONE_BLOCK, [kernel(3), kernel(1)], streams=[0, 1])
    assert (in_turn.end_fs // NS, at_once.end_fs // NS) == (300, 201)


def test_kernels_at_once_share_the_l2_and_its_fetches() -> None:
    """G2 and M5: the younger finds on its way what the older asked for; each counts its own sectors."""
    timeline = simulate(TINY, [trace([[load([0])]]), trace([[load([0])]])], streams=[0, 1], detail="warp")
    assert [issues(timeline, n) for n in (0, 1)] == [[(0, 0, 200)], [(0, 1, 200)]]
    counts = [(k.l2_sectors, k.l2_hit_sectors, k.dram_read_bytes) for k in timeline.kernels]
    assert counts == [(1, 0, 32), (1, 1, 0)]


def test_a_starting_kernel_empties_the_l1_for_all() -> None:
    """M11: alone the kernel hits its L1 at 396; when another stream's second kernel starts at 201, it is empty."""
    first = [load([0]), *[fp32(n) for n in range(49)], load([0], 49)]  # at 200, 204, ..., 392
    alone = simulate(TINY, [trace([first])], detail="warp")
    assert issues(alone)[-1][1:] == (396, 426)
    others = [kernel(1, chain(50)), kernel(1, chain(5))]
    timeline = simulate(TINY, [trace([first]), *others], streams=[0, 1, 1], detail="warp")
    assert timeline.kernels[2].start_fs == 201 * NS
    # The L1 misses, the L2 hits.
    assert issues(timeline)[-1][1:] == (396, 496)


def test_stalls_are_counted_by_kernel() -> None:
    """I7 and G2: each kernel's states add up to its own residency."""
    timeline = simulate(TINY.replace(sms=1), [kernel(3, warps=2), trace([[load([0]), fp32(0)]])], streams=[0, 1])
    for k in timeline.kernels:
        assert sum(k.stalls.values()) == k.resident_warp_cycles
    assert timeline.kernels[1].stalls["long_scoreboard"] > 190
    assert timeline.kernels[0].stalls["long_scoreboard"] == 0


def test_utilization_of_a_kernel_that_starts_in_the_middle() -> None:
    """M10: the shares of the younger kernel stay below one, whatever is announced when it starts."""
    gpu = TINY.replace(dispatch_interval="1 ns")
    # At 51 the load of the older kernel is known to its channel, where it will be from 99.75 on.
    older = [store([8]), load([0])]
    young = [kernel(1, chain(13)), kernel(1, chain(1)), kernel(1, chain(1))]
    timeline = simulate(gpu, [trace([older]), *young], streams=[0, 1, 1, 1])
    assert 51 <= timeline.kernels[2].start_fs // NS <= 60
    for k in timeline.kernels:
        assert 0 <= k.busiest_channel <= 1
        assert 0 <= k.dram_utilization <= 1
    assert timeline.kernels[2].dram_utilization == 0


def test_one_stream_for_every_kernel() -> None:
    with pytest.raises(ValueError, match=r"streams = \[0\]: give one stream for each of the 2 kernels"):
        simulate(TINY, [kernel(1), kernel(1)], streams=[0])


def test_an_impossible_kernel_is_refused_in_its_turn() -> None:
    """I1: the kernel in the other stream fits nowhere."""
    with pytest.raises(LaunchError, match="'k' never starts"):
        simulate(TINY, [kernel(1), kernel(1, warps=16, registers=64)], streams=[0, 1])


# Residency (I1) -----------------------------------------------------------------------------------------------------


def moments(blocks: Sequence[BlockSpan]) -> list[list[BlockSpan]]:
    """Blocks resident on one SM after each dispatch."""
    by_sm: dict[int, list[BlockSpan]] = defaultdict(list)
    for b in blocks:
        by_sm[b.sm].append(b)
    return [[b for b in on_sm if b.start_fs <= at.start_fs < b.end_fs] for on_sm in by_sm.values() for at in on_sm]


class Shape:
    """The launch shape of a kernel and what a block of it takes of `tiny`."""

    def __init__(self, warps: int, registers: int, shared: int) -> None:
        self.warps = warps
        self.registers = registers
        self.shared = shared
        self.registers_per_warp = -(-registers * 32 // 256) * 256
        self.allocated_shared = -(-shared // 256) * 256

    def kernel(self, blocks: int) -> KernelTrace:
        return kernel(blocks, chain(6), self.warps, registers=self.registers, shared_bytes=self.shared)

    def __repr__(self) -> str:
        return f"Shape({self.warps}, {self.registers}, {self.shared})"


def shapes() -> st.SearchStrategy[Shape]:
    """Shapes of which at least one block fits."""
    small = st.builds(Shape, st.integers(1, 8), st.sampled_from([8, 32, 64]), st.sampled_from([0, 100, 3000, 9000]))
    large = st.builds(Shape, st.integers(9, 16), st.sampled_from([16, 32]), st.sampled_from([0, 16 * 1024]))
    return small | large


@settings(max_examples=60, deadline=None)
@given(mix=st.lists(st.tuples(shapes(), st.integers(1, 9)), min_size=2, max_size=3), data=st.data())
def test_blocks_of_several_kernels_never_take_more_than_there_is(
    mix: list[tuple[Shape, int]], data: st.DataObject
) -> None:
    """I1, I2 and G2: warps, block slots, shared memory, and each sub-partition's registers."""
    gpu = TINY.replace(dispatch_interval_fs=1)
    streams = data.draw(st.lists(st.integers(0, 2), min_size=len(mix), max_size=len(mix)))
    timeline = simulate(gpu, [shape.kernel(blocks) for shape, blocks in mix], streams=streams, detail="warp")
    parts = {(w.kernel, w.block, w.warp): w.sub_partition for w in timeline.warps}
    for resident in moments(timeline.blocks):
        assert len(resident) <= 8
        assert len({b.slot for b in resident}) == len(resident)
        assert sum(mix[b.kernel][0].warps for b in resident) <= 16
        assert sum(mix[b.kernel][0].allocated_shared for b in resident) <= 16 * 1024
        registers = [0, 0]
        for b in resident:
            shape = mix[b.kernel][0]
            for w in range(shape.warps):
                registers[parts[b.kernel, b.block, w]] += shape.registers_per_warp
        assert max(registers) <= 8192
    assert len(timeline.blocks) == sum(blocks for _, blocks in mix)


@settings(max_examples=40, deadline=None)
@given(mix=st.lists(st.tuples(shapes(), st.integers(1, 9)), min_size=2, max_size=3))
def test_a_block_waits_only_for_older_blocks_or_for_room(mix: list[tuple[Shape, int]]) -> None:
    """G1 and G2: blocks start in the order of their kernels, each at once when the one before is placed and it fits."""
    timeline = simulate(TINY, [shape.kernel(blocks) for shape, blocks in mix], streams=range(len(mix)))
    ordered = sorted(timeline.blocks, key=lambda b: (b.kernel, b.block))
    assert [b.start_fs for b in ordered] == sorted(b.start_fs for b in ordered)
    earliest = 0
    for number, block in enumerate(ordered):
        # It starts one interval after the one before, or at a moment at which another left its SM.
        left = {b.end_fs for b in ordered[:number] if b.sm == block.sm}
        assert block.start_fs == earliest or (block.start_fs > earliest and block.start_fs in left)
        earliest = block.start_fs + NS


@pytest.mark.parametrize(
    ("first", "second", "together"),
    [
        (Shape(8, 32, 0), Shape(8, 32, 0), 2),  # 16 warps
        (Shape(9, 16, 0), Shape(8, 16, 0), 1),  # 17 warps
        (Shape(1, 8, 9000), Shape(1, 8, 7168), 2),  # 9216 + 7168 = 16384 bytes
        (Shape(1, 8, 9000), Shape(1, 8, 7169), 1),
        (Shape(3, 64, 0), Shape(5, 64, 0), 2),  # 4 + 4 warps of 2048 registers in two halves of 8192
        (Shape(3, 80, 0), Shape(4, 80, 0), 1),  # three warps of 2560 in a half: six, though 17920 < 16384 + 2560
        (Shape(3, 80, 0), Shape(3, 80, 0), 2),
    ],
)
def test_two_kernels_on_one_sm(first: Shape, second: Shape, together: int) -> None:
    """I1 and G2: whether their blocks are resident at once, by each of the limits."""
    timeline = simulate(TINY.replace(sms=1), [first.kernel(1), second.kernel(1)], streams=[0, 1])
    assert max(map(len, moments(timeline.blocks))) == together


# The occupancy formula, met by the simulation -----------------------------------------------------------------------

MODELS = ("v100-sxm2", "t4", "a100-sxm-80gb", "rtx-3090", "rtx-4090", "h100-sxm", "b200", "tiny")


def one_sm(name: str) -> GPU:
    """An SM that is filled at once."""
    return load_gpu(name).replace(sms=1, dispatch_interval_fs=1, block_start=0, block_end=0)


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(MODELS),
    threads=st.integers(1, 32).map(lambda warps: 32 * warps),
    registers=st.integers(1, 255),
    shared=st.sampled_from([0, 0, 1, 1000, 5000, 20_000, 48 * 1024]) | st.integers(0, 48 * 1024),
)
def test_the_simulation_meets_the_occupancy(name: str, threads: int, registers: int, shared: int) -> None:
    """I1: the most blocks that are ever resident are those of the occupancy calculator, given enough blocks."""
    gpu = one_sm(name)
    try:
        expected = occupancy(gpu, threads=threads, registers=registers, shared_bytes=shared).blocks_per_sm
    except LaunchError:
        expected = 0
    launch = kernel(expected + 2, chain(2), threads // 32, registers=registers, shared_bytes=shared)
    if not expected:
        with pytest.raises(LaunchError):
            simulate(gpu, [launch])
        return
    timeline = simulate(gpu, [launch])
    assert max(map(len, moments(timeline.blocks))) == expected
    assert {b.slot for b in timeline.blocks} == set(range(expected))

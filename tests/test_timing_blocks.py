"""Rules I1, I6, G1 and G3: blocks from dispatch to retirement, and barriers inside them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import pytest

from gpusim_des.analytic import occupancy
from gpusim_des.errors import DeadlockError, LaunchError
from gpusim_des.gpu import load_gpu
from gpusim_des.timeline import BlockSpan, Timeline
from gpusim_des.timing.simulate import simulate
from gpusim_des.timing.sm import StreamingMultiprocessor
from gpusim_des.trace import KernelTrace, OpClass
from tests.programs import BARRIER, TINY, Part, chain, fp32, issues, load, op, pictures, run, store, trace, warp

NS = 10**6
"""Femtoseconds in a nanosecond, a cycle of `tiny`."""

UNIT = chain(25)
"""A warp of 100 cycles."""


def spans(timeline: Timeline, kernel: int = 0) -> list[tuple[int, int, int, int]]:
    """SM, slot, start and end in ns of every block, in the order of block numbers."""
    blocks = sorted(timeline.blocks_of(kernel), key=lambda b: b.block)
    return [(b.sm, b.slot, b.start_fs // NS, b.end_fs // NS) for b in blocks]


def equal_blocks(program: Sequence[Part], blocks: int, warps: int = 1, **launch: int) -> KernelTrace:
    """Many blocks of the same warps, sharing one stream."""
    shared = warp(*program)
    return KernelTrace.of_blocks("k", [[shared] * warps] * blocks, **launch)


# Placement (G1) -----------------------------------------------------------------------------------------------------


def test_blocks_go_round_while_they_stay() -> None:
    """G1: the SM with the fewest resident blocks, the lowest number first; one block per nanosecond."""
    assert spans(run(TINY, *[[UNIT]] * 5)) == [
        (0, 0, 0, 100),
        (1, 0, 1, 101),
        (0, 1, 2, 102),
        (1, 1, 3, 103),
        (0, 2, 4, 105),  # shares a scheduler with block 0, whose instructions are due in the same cycles
    ]


def test_an_sm_that_became_empty_comes_first_again() -> None:
    """G1: at 10 block 0 has left SM 0, so block 1 goes there too, and only block 2 to SM 1."""
    timeline = run(TINY.replace(dispatch_interval="10 ns"), [chain(1)], [UNIT], [UNIT])
    assert spans(timeline) == [(0, 0, 0, 4), (0, 0, 10, 110), (1, 0, 20, 120)]


def test_a_full_sm_is_passed_over() -> None:
    """G1: with two slots per SM blocks 4 and 5 wait, and each goes where a slot becomes free."""
    gpu = TINY.replace(max_blocks_per_sm=2)
    timeline = run(gpu, [UNIT], [chain(50)], [chain(50)], [UNIT], [UNIT], [UNIT])
    # Blocks 0 to 3 fill both SMs; block 0 leaves SM 0 at 100, block 3 leaves SM 1 at 103.
    assert spans(timeline)[4:] == [(0, 0, 100, 200), (1, 1, 103, 203)]


def test_the_dispatch_interval_limits_short_blocks() -> None:
    """G1: at most one placement per 3 ns, whatever room there is."""
    timeline = run(TINY.replace(dispatch_interval="3 ns"), *[[chain(1)]] * 6)
    assert [start for _, _, start, _ in spans(timeline)] == [0, 3, 6, 9, 12, 15]


def test_the_dispatch_interval_lasts_over_the_end_of_a_kernel() -> None:
    """G1: the limit is the block scheduler's, not a kernel's."""
    timeline = simulate(TINY.replace(dispatch_interval="100 ns"), [trace([chain(1)]), trace([chain(1)])], caches="off")
    assert [start for k in (0, 1) for _, _, start, _ in spans(timeline, k)] == [0, 100]
    assert timeline.kernels[1].start_fs == 100 * NS


def test_blocks_are_dispatched_between_clock_edges() -> None:
    """T1: the block is on the SM at 1.5 ns; its warps see the edge at 2."""
    timeline = run(TINY.replace(dispatch_interval_fs=1_500_000), [chain(1)], [chain(1)])
    assert [b.start_fs for b in timeline.blocks] == [0, 1_500_000]
    assert pictures(timeline) == ["Swww", "  Swww"]


def test_blocks_are_handed_out_one_by_one() -> None:
    """G1: a block of four units and six of one fill four slots for four units; in waves it would be five."""
    gpu = TINY.replace(max_blocks_per_sm=2, dispatch_interval_fs=1)
    timeline = run(gpu, [chain(100)], *[[UNIT]] * 6)
    assert timeline.kernels[0].cycles == 400
    assert sorted(end for _, _, _, end in spans(timeline))[-1] == 400


def test_one_block_too_many_costs_a_second_wave() -> None:
    """G1 and G3: 133 blocks, one per SM of 132, take exactly two block times of 220 + 400 + 220 cycles."""
    gpu = load_gpu("h100-sxm")
    one_wave = simulate(
        gpu, [equal_blocks(chain(100), 132, shared_bytes=200 * 1024)], detail="kernel", caches="off"
    ).kernels[0]
    two_waves = simulate(
        gpu, [equal_blocks(chain(100), 133, shared_bytes=200 * 1024)], detail="kernel", caches="off"
    ).kernels[0]
    assert two_waves.end_fs == 2 * 840 * 505_051
    # The last of the 132 blocks is dispatched after 131 × 0.6 ns = 155.6 cycles and seen at the next edge.
    assert one_wave.end_fs == (156 + 840) * 505_051


# Start and end (G3) -------------------------------------------------------------------------------------------------


def test_block_start_and_end() -> None:
    """G3: 5 cycles of start, 4 of work, 7 until the slot is free; the warp is resident until its exit."""
    gpu = TINY.replace(sms=1, max_blocks_per_sm=1, block_start=5, block_end=7)
    timeline = run(gpu, [chain(1)], [chain(1)])
    assert spans(timeline) == [(0, 0, 0, 16), (0, 0, 16, 32)]
    assert pictures(timeline) == ["-----Swww", " " * 16 + "-----Swww"]
    assert timeline.kernels[0].resident_warp_cycles == 18
    assert timeline.kernels[0].cycles == 32


def test_achieved_occupancy_counts_active_sms_only() -> None:
    """I7: two blocks overlap on SM 0 for 99 of 101 cycles, SM 1 is full of nothing, and a pause counts for nobody."""
    gpu = TINY.replace(max_blocks_per_sm=2, block_end=50)
    alone = run(gpu, [UNIT]).kernels[0]
    assert (alone.resident_warp_cycles, alone.sm_active_cycles) == (100, 100)
    assert alone.achieved_occupancy == 1 / gpu.max_warps_per_sm
    # Blocks 0 and 2 on SM 0 from 0 to 100 and from 2 to 102; block 1 on SM 1 from 1 to 101.
    three = run(gpu, [UNIT], [UNIT], [UNIT]).kernels[0]
    assert (three.resident_warp_cycles, three.sm_active_cycles) == (300, 102 + 100)
    assert three.achieved_occupancy == 300 / (gpu.max_warps_per_sm * 202)
    # One block at a time on one SM: between the exit of the first and the dispatch of the second it is not active.
    one_sm = gpu.replace(sms=1, max_blocks_per_sm=1)
    assert run(one_sm, [UNIT], [UNIT]).kernels[0].sm_active_cycles == 200


def test_a_long_block_covers_the_short_ones_beside_it() -> None:
    """I7: blocks that come and go while another stays add no active cycles; one that bridges a gap joins stretches."""
    gpu = TINY.replace(sms=1, max_blocks_per_sm=2)
    timeline = run(gpu, [chain(100)], *[[chain(5)]] * 4)
    assert timeline.kernels[0].sm_active_cycles == 400


def test_a_block_retires_with_its_last_warp() -> None:
    """G3: the end counts from the last exit, here of warp 0."""
    timeline = run(TINY.replace(block_end=7), [chain(10), chain(1)])
    assert spans(timeline) == [(0, 0, 0, 47)]


def test_empty_blocks_take_start_and_end_only() -> None:
    """G3: a kernel that does nothing."""
    timeline = run(TINY.replace(block_start=5, block_end=7), [[]], [[]])
    assert spans(timeline) == [(0, 0, 0, 12), (1, 0, 1, 13)]
    assert spans(run(TINY, [[]], [[]])) == [(0, 0, 0, 0), (0, 0, 1, 1)]


# Residency (I1) -----------------------------------------------------------------------------------------------------


def most_resident(blocks: Sequence[BlockSpan]) -> int:
    """Largest number of blocks on one SM at a time; a slot that is freed and refilled at once counts once."""
    changes: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for b in blocks:
        changes[b.sm] += [(b.start_fs, 1), (b.end_fs, -1)]
    most = 0
    for moments in changes.values():
        resident = 0
        for _, change in sorted(moments):
            resident += change
            most = max(most, resident)
    return most


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "expected"),
    [
        (256, 32, 0, 8),  # 64 warps of 8
        (256, 64, 0, 4),  # 65536 / (64 × 256)
        (1024, 32, 0, 2),
        (32, 16, 0, 32),  # block slots
        (128, 32, 100 * 1024, 2),  # 228 KiB hold two of 100 + 1
        (96, 32, 0, 21),  # 64 warps / 3
    ],
)
def test_as_many_blocks_are_resident_as_the_occupancy_says(
    threads: int, registers: int, shared: int, expected: int
) -> None:
    """I1: the same allocation rules as the occupancy calculator."""
    gpu = load_gpu("h100-sxm").replace(sms=2, block_start=0, block_end=0)
    kernel = equal_blocks(chain(60), 5 * expected, threads // 32, registers=registers, shared_bytes=shared)
    timeline = simulate(gpu, [kernel], caches="off")
    assert most_resident(timeline.blocks) == expected
    assert occupancy(gpu, threads=threads, registers=registers, shared_bytes=shared).blocks_per_sm == expected
    assert timeline.kernels[0].blocks_per_sm == expected
    assert timeline.kernels[0].theoretical_occupancy == expected * threads / 2048
    slots = {b.slot for b in timeline.blocks}
    assert slots == set(range(expected))


def test_a_block_that_fits_nowhere_is_refused() -> None:
    """I1: 16 warps of 64 registers need 32768 of 16384 registers."""
    with pytest.raises(LaunchError, match=r"'k' never starts: .*512 threads with 64 registers.*limiter: registers"):
        simulate(TINY, [equal_blocks(chain(1), 1, 16, registers=64)], caches="off")


# Barriers (I6) ------------------------------------------------------------------------------------------------------


def test_a_barrier_releases_ten_cycles_after_the_last_arrival() -> None:
    """I6: warp 1 arrives at 8, both go on at 18."""
    timeline = run(TINY, [[BARRIER, fp32()], [*chain(2), op(OpClass.BARRIER, 1), fp32()]])
    assert pictures(timeline) == ["S" + "B" * 17 + "Swww", "SwwwSwwwS" + "B" * 9 + "Swww"]
    assert issues(timeline, 1)[2][1] == 8


def test_a_warp_that_left_is_not_waited_for() -> None:
    """I6: warp 1 leaves at 4, so warp 0 goes on at 14."""
    assert pictures(run(TINY, [[BARRIER, fp32()], chain(1)])) == ["S" + "B" * 13 + "Swww", "Swww"]


def test_a_warp_that_left_earlier_does_not_matter() -> None:
    """I6: warp 1 leaves at 4, warp 0 arrives at 20 and goes on at 30."""
    program = [*chain(5), op(OpClass.BARRIER, 4), fp32()]
    assert pictures(run(TINY, [program, chain(1)])) == ["Swww" * 5 + "S" + "B" * 9 + "Swww", "Swww"]


def test_a_warp_leaves_when_its_load_is_back() -> None:
    """I6: all instructions of warp 1 are issued at 0, but it leaves at 200; warp 0 goes on at 210."""
    timeline = run(TINY, [[BARRIER, fp32()], [load([0])]])
    assert pictures(timeline) == ["S" + "B" * 209 + "Swww", "S" + "D" * 199]


def test_results_arrive_while_a_warp_waits_at_a_barrier() -> None:
    """I6 and I7: the load is complete at 200, long before the barrier opens at 410."""
    timeline = run(TINY, [[load([0]), BARRIER, fp32(0)], chain(100)])
    assert pictures(timeline)[0] == "SS" + "B" * 408 + "Swww"


def test_a_warp_waits_for_a_load_after_the_barrier() -> None:
    """I7: the barrier opens at 11, the load is complete at 200."""
    timeline = run(TINY, [[load([0]), BARRIER, fp32(0)], [BARRIER]])
    assert pictures(timeline) == ["SS" + "B" * 9 + "L" * 189 + "Swww", "S" + "B" * 10]


def test_barriers_follow_each_other() -> None:
    """I6: the first opens at 10, the second at 20."""
    assert pictures(run(TINY, [[BARRIER, BARRIER]] * 2)) == ["SBBBBBBBBBSBBBBBBBBB"] * 2


def test_without_latency_a_barrier_still_costs_a_cycle() -> None:
    """I3 and I6: the last arrival takes the scheduler's cycle 1, so the released warps go on from 2."""
    gpu = TINY.replace(barrier_latency=0, sub_partitions=1)
    assert pictures(run(gpu, [[BARRIER, fp32()]] * 2)) == ["SBnSwww", "nSSwww"]
    assert pictures(run(gpu, [[BARRIER, fp32()], chain(1)])) == ["SBBBBSwww", "nSwww"]


def test_blocks_have_barriers_of_their_own() -> None:
    """I6: block 1's warps wait for each other only."""
    timeline = run(TINY.replace(sms=1), [[BARRIER], chain(100)], [[BARRIER]] * 2)
    assert [h.end_cycle for h in timeline.warps[2:]] == [11, 11]


def test_a_deadlock_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """I6: an SM that never opens barriers gets stuck; the report names kernel, blocks and warps."""
    monkeypatch.setattr(StreamingMultiprocessor, "_release_if_full", lambda *_: None)
    with pytest.raises(DeadlockError) as caught:
        run(TINY, [chain(1), chain(1), chain(1)], [chain(1), [BARRIER, fp32()], [fp32(), BARRIER]])
    message = str(caught.value)
    assert "'k' is stuck" in message
    assert "1 block left" in message
    assert "block (1, 0, 0) on SM 1: warps 1, 2 at a barrier" in message


# Kernels one after another ------------------------------------------------------------------------------------------


def test_a_kernel_starts_when_the_one_before_has_ended() -> None:
    """M8: the first ends with its write at 109.5 ns; the second starts then and issues at the next edge."""
    timeline = simulate(TINY, [trace([[store(range(4))]]), trace([chain(1)])], detail="warp", caches="off")
    first, second = timeline.kernels
    assert (first.start_fs, first.end_fs) == (0, 109_500_000)
    assert (second.start_fs, second.end_fs, second.cycles) == (109_500_000, 114 * NS, 5)
    assert [(h.kernel, h.start_cycle, h.end_cycle) for h in timeline.warps] == [(0, 0, 1), (1, 110, 114)]
    assert [(b.kernel, b.block) for b in timeline.blocks] == [(0, 0), (1, 0)]
    assert timeline.end_fs == 114 * NS


def test_progress_hears_of_every_block() -> None:
    """The callback hears the kernel's name, the blocks retired and the blocks in all."""
    heard: list[tuple[str, int, int]] = []
    simulate(TINY, [trace(*[[chain(1)]] * 3)], progress=lambda *news: heard.append(news), caches="off")
    assert heard == [("k", 1, 3), ("k", 2, 3), ("k", 3, 3)]

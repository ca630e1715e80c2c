"""Rules I2 to I5 and I7: hand-computed cycles of issue, waiting and leaving on the GPU `tiny`."""

from __future__ import annotations

import pytest

from gpusim_des.timing.simulate import simulate
from gpusim_des.trace import OpClass
from tests.programs import BARRIER, BRANCH, TINY, chain, fp32, issues, load, op, pictures, run, sfu, store, trace

ONE_SCHEDULER = TINY.replace(sub_partitions=1)


@pytest.mark.parametrize("length", [1, 2, 3, 7])
def test_a_chain_takes_its_latency_per_instruction(length: int) -> None:
    """I4: a dependent instruction issues when its operand is complete, four cycles later."""
    timeline = run(TINY, [chain(length)])
    assert pictures(timeline) == ["Swww" * length]
    assert issues(timeline) == [(i, 4 * i, 4 * i + 4) for i in range(length)]
    assert timeline.kernels[0].cycles == 4 * length


@pytest.mark.parametrize(
    ("width", "expected"),
    [(2, "SSwwSSwwSSwww"), (3, "SSSwSSSwSSSwww"), (4, "SSSSSSSSSSSSwww"), (5, "SSSSSSSSSSSSSSSwww")],
)
def test_independent_chains_hide_each_other(width: int, expected: str) -> None:
    """I4: with three rounds of `width` independent chains, a latency of four is hidden from width 4 on."""
    program = [fp32(*([i - width] if i >= width else [])) for i in range(3 * width)]
    assert pictures(run(TINY, [program])) == [expected]


def test_two_warps_on_one_scheduler() -> None:
    """I3: one instruction per scheduler and cycle; the younger warp fills a gap of the older one."""
    timeline = run(ONE_SCHEDULER, [chain(2), chain(2)])
    assert pictures(timeline) == ["SwwwSwww", "nSwwwSwww"]
    assert issues(timeline, 1) == [(0, 1, 5), (1, 5, 9)]
    assert timeline.kernels[0].stalls["not_selected"] == 1


def test_two_schedulers_issue_in_the_same_cycle() -> None:
    """I3: the limit holds per scheduler, not per SM."""
    assert pictures(run(TINY, [chain(2), chain(2)])) == ["SwwwSwww", "SwwwSwww"]


# Pipes --------------------------------------------------------------------------------------------------------------


def test_fp64_takes_two_cycles_per_warp() -> None:
    """I5: sixteen lanes take a warp instruction every second cycle."""
    double = op(OpClass.FP64)
    timeline = run(ONE_SCHEDULER, [[double] * 3])
    assert pictures(timeline) == ["SPSPS" + "w" * 7]
    assert issues(timeline) == [(0, 0, 8), (1, 2, 10), (2, 4, 12)]


def test_a_busy_pipe_turns_other_warps_away() -> None:
    """I7: in the cycle of the issue the other warp was only not selected, afterwards the pipe is busy."""
    double = op(OpClass.FP64)
    assert pictures(run(ONE_SCHEDULER, [[double], [double]])) == ["S" + "w" * 7, "nPS" + "w" * 7]


def test_a_busy_pipe_leaves_the_scheduler_to_others() -> None:
    """I4: a warp with a free pipe issues while the greedy one's is busy."""
    double = op(OpClass.FP64)
    assert pictures(run(ONE_SCHEDULER, [[double, double], [fp32()]])) == ["SPS" + "w" * 7, "nSwww"]


def test_every_sub_partition_has_its_own_pipe() -> None:
    """I5: fp64 of `tiny` is not shared, so two warps on two sub-partitions do not meet."""
    double = op(OpClass.FP64)
    assert pictures(run(TINY, [[double, double]] * 2)) == ["SPS" + "w" * 7] * 2


def test_a_shared_unit_is_granted_round_robin() -> None:
    """I5: the two sub-partitions take turns at the sfu: warp 0 at 0 and 8, warp 1 at 4 and 12."""
    timeline = run(TINY, [[sfu(), sfu()], [sfu(), sfu()]])
    assert pictures(timeline) == [
        "S" + "P" * 7 + "S" + "w" * 19,
        "PPPP" + "S" + "P" * 7 + "S" + "w" * 19,
    ]
    assert issues(timeline, 1) == [(0, 4, 24), (1, 12, 32)]


def test_turns_go_by_sub_partition_not_by_age() -> None:
    """I5: warps 0 and 2 share sub-partition 0; after warp 0, warp 1's second sfu waits for warp 2's first."""
    timeline = run(TINY, [[sfu()], [sfu(), sfu()], [sfu(), sfu()]])
    assert pictures(timeline) == [
        "S" + "w" * 19,
        "PPPP" + "S" + "P" * 7 + "S" + "w" * 19,  # issues at 4 and 12
        "n" + "P" * 7 + "S" + "P" * 7 + "S" + "w" * 19,  # at 8 and 16; cycle 0 went to a warp of its own scheduler
    ]


# Policies -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        # Warp 0 has two dependent instructions, warps 1 and 2 four independent ones each.
        ("gto", ["SwwwnSwww", "nSSSSwww", "nnnnnnSSSSwww"]),
        ("oldest", ["SwwwSwww", "nSSSnSwww", "nnnnnnSSSSwww"]),
        ("lrr", ["SwwwnSwww", "nSnSnnSnSwww", "nnSnSnnSnSwww"]),
    ],
)
def test_policies(policy: str, expected: list[str]) -> None:
    """I3: greedy stays with warp 1 until it is through; oldest returns to warp 0 at once; lrr goes round."""
    gpu = ONE_SCHEDULER.replace(scheduler_policy=policy)
    assert pictures(run(gpu, [chain(2), [fp32()] * 4, [fp32()] * 4])) == expected


@pytest.mark.parametrize("policy", ["gto", "lrr", "oldest"])
def test_every_kernel_starts_with_the_oldest_warp(policy: str) -> None:
    """I3: what an earlier kernel issued last does not favour a warp of the next one."""
    gpu = ONE_SCHEDULER.replace(scheduler_policy=policy, sms=1)
    timeline = simulate(
        gpu, [trace([[fp32()], [fp32()]]), trace([[fp32()], [fp32()], [fp32()]])], detail="warp", caches="off"
    )
    assert [history.issues[0].cycle for history in timeline.warps] == [0, 1, 5, 6, 7]


# Dependencies and branches ------------------------------------------------------------------------------------------


def test_the_slower_of_two_producers_counts() -> None:
    """I4 and I7: fp32 is complete at 4, the sfu at 21; short_scoreboard comes before wait."""
    timeline = run(TINY, [[fp32(), sfu(), fp32(0, 1)]])
    assert pictures(timeline) == ["SS" + "s" * 19 + "Swww"]
    assert issues(timeline) == [(0, 0, 4), (1, 1, 21), (2, 21, 25)]


def test_reasons_follow_each_other_in_the_order_of_priority() -> None:
    """I7: with an fp32 of 30 cycles the sfu is the reason until 21, the fp32 until 30."""
    gpu = TINY.replace(fp32_latency_cycles=30)
    assert pictures(run(gpu, [[fp32(), sfu(), fp32(0, 1)]])) == ["SS" + "s" * 19 + "w" * 9 + "S" + "w" * 29]


def test_only_the_named_producer_counts() -> None:
    """I4: the third instruction reads the first result and issues at 4 although the sfu is under way."""
    assert pictures(run(TINY, [[fp32(), sfu(), fp32(0)]])) == ["SSwwS" + "w" * 16]


def test_a_load_before_an_sfu_before_fp32() -> None:
    """I7: long_scoreboard hides the others while it lasts."""
    timeline = run(TINY, [[load([0]), sfu(), fp32(), fp32(0, 1, 2)]])
    assert pictures(timeline) == ["SSS" + "L" * 197 + "Swww"]


def test_a_branch_holds_the_next_instruction_back() -> None:
    """I7: the next instruction issues branch_latency = 10 cycles later at the earliest."""
    timeline = run(TINY, [[BRANCH, fp32()]])
    assert pictures(timeline) == ["S" + "r" * 9 + "Swww"]
    assert issues(timeline)[1] == (1, 10, 14)


def test_branch_resolving_comes_before_the_scoreboard() -> None:
    """I7: the branch at 1 resolves at 11, the sfu result is complete at 20."""
    assert pictures(run(TINY, [[sfu(), BRANCH, fp32(0)]])) == ["SS" + "r" * 9 + "s" * 9 + "Swww"]


def test_a_warp_leaves_after_its_last_branch_resolved() -> None:
    """I7: a branch at the end still takes its ten cycles."""
    assert pictures(run(TINY, [[BRANCH]])) == ["S" + "r" * 9]


# Beginning and end --------------------------------------------------------------------------------------------------


def test_the_start_of_a_block_is_no_instruction() -> None:
    """I7 and G3: five cycles from dispatch until the warps are eligible."""
    timeline = run(TINY.replace(sub_partitions=1, block_start=5), [chain(1), chain(1)])
    assert pictures(timeline) == ["-----Swww", "-----nSwww"]


def test_a_warp_drains_its_stores() -> None:
    """I7: the load/store unit needs three cycles for the store."""
    assert pictures(run(TINY, [[store([0], quarters=12)]])) == ["SDD"]


def test_draining_comes_before_waiting() -> None:
    """I7: the store is taken at 3, the fp32 result is complete at 4."""
    assert pictures(run(TINY, [[fp32(), store([0], quarters=8)]])) == ["SSDw"]


def test_a_load_that_nobody_reads_is_drained() -> None:
    """I7: a warp leaves when its last result is complete."""
    assert pictures(run(TINY, [[load([0])]])) == ["S" + "D" * 199]


def test_an_empty_warp_is_resident_for_the_start_only() -> None:
    """G3: a warp without instructions leaves as soon as it could start."""
    timeline = run(TINY.replace(block_start=3), [[], chain(1)])
    assert pictures(timeline) == ["---", "---Swww"]
    timeline = run(TINY, [[], chain(1)])
    assert pictures(timeline)[-1] == "Swww"
    assert timeline.kernels[0].resident_warp_cycles == 4


# Placement of warps -------------------------------------------------------------------------------------------------


def test_warps_go_to_the_emptier_sub_partition() -> None:
    """I2: five warps of block 0 leave sub-partition 1 emptier, so block 1 begins there."""
    timeline = run(TINY.replace(sms=1), *[[chain(25)] * 5] * 2)
    assert [history.sub_partition for history in timeline.warps] == [0, 1, 0, 1, 0, 1, 0, 1, 0, 1]


def test_an_exited_warp_keeps_its_slot() -> None:
    """I2: at 20 warp 0 of block 0 has left sub-partition 0, but its slot counts until the block retires at 40."""
    gpu = TINY.replace(sms=1, dispatch_interval="20 ns")
    timeline = run(gpu, [chain(1), chain(10)], [chain(1), chain(1)])
    assert [history.sub_partition for history in timeline.warps] == [0, 1, 0, 1]
    assert [history.start_cycle for history in timeline.warps] == [0, 0, 20, 20]


def test_a_barrier_needs_no_pipe() -> None:
    """I4: a barrier issues although every cycle of the fp64 pipe is taken."""
    double = op(OpClass.FP64)
    timeline = run(ONE_SCHEDULER, [[double, BARRIER]])
    assert issues(timeline)[1][1] == 1

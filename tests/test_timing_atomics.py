"""Rules M7 and M8: hand-computed atomics, fences and full store buffers on the GPU `tiny`.

With caches on an access is 1 cycle in the load/store unit, 0.5 for its request and 0.5 per sector that it carries in
the port out, 48.75 on the way, 0.5 per sector in its slice, 48.75 on the way back and 0.5 per sector in the port in.
What is not in the slice comes from DRAM after 49 + 2 per sector + 49. An atomic unit takes 4 cycles per operation.
"""

from __future__ import annotations

import pytest

from gpusim_des.errors import TraceError
from gpusim_des.gpu import GPU
from gpusim_des.timeline import Timeline
from gpusim_des.timing.simulate import simulate
from gpusim_des.trace import OpClass
from tests.programs import (
    FENCE,
    TINY,
    Part,
    async_copy,
    atomic,
    fp32,
    issues,
    load,
    op,
    pictures,
    run,
    run_cached,
    store,
    trace,
)


def warm(*warps: list[Part], sectors: list[int], gpu: GPU = TINY) -> list[tuple[int, int, int]]:
    """First issue, its completion, and the exit of every warp, counted from the start of its kernel.

    An earlier kernel has brought the sectors into the L2.
    """
    timeline = simulate(gpu, [trace([[load(sectors)]]), trace([*warps])], detail="warp")
    start = -(-timeline.kernels[1].start_fs // 10**6)
    return [
        (history.issues[0].cycle - start, history.issues[0].complete_cycle - start, history.end_cycle - start)
        for history in timeline.warps[1:]
    ]


# Atomics ------------------------------------------------------------------------------------------------------------


def test_an_atomic_whose_result_is_read_and_not_in_the_l2() -> None:
    """M7: 1 + 1 + 48.75 + 0.5 + 100 + 4 + 48.75 + 0.5 = 204.5."""
    timeline = run_cached(TINY, [[atomic([0]), fp32(0)]])
    assert pictures(timeline) == ["S" + "L" * 204 + "Swww"]
    kernel = timeline.kernels[0]
    assert (kernel.l1_sectors, kernel.l2_sectors, kernel.l2_hit_sectors) == (0, 1, 0)
    assert (kernel.dram_read_bytes, kernel.dram_write_bytes) == (32, 0)


def test_an_atomic_whose_result_is_read_and_in_the_l2() -> None:
    """M7: 1 + 1 + 48.75 + 0.5 + 4 + 48.75 + 0.5 = 104.5."""
    assert warm([atomic([0]), fp32(0)], sectors=[0]) == [(0, 105, 109)]


def test_operations_on_one_address_are_done_one_by_one() -> None:
    """M7: eight lanes on one address take 32 cycles in the atomic unit: 132.5."""
    assert warm([atomic([0], passes=[8]), fp32(0)], sectors=[0]) == [(0, 133, 137)]


def test_the_passes_of_all_sectors_add_up() -> None:
    """M7: 3 and 5 operations are 32 cycles; two sectors are half a cycle more in port, slice and port: 134."""
    assert warm([atomic([0, 1], passes=[3, 5]), fp32(0)], sectors=[0, 1]) == [(0, 134, 138)]


def test_an_atomic_whose_result_nobody_reads_is_a_store_for_its_warp() -> None:
    """M7 and M8: the warp goes on at once and leaves; the kernel ends when the operation is done, at 155.25."""
    timeline = run_cached(TINY, [[atomic([0]), fp32()]])
    assert pictures(timeline) == ["SSwww"]
    assert timeline.kernels[0].end_fs == 155_250_000


def test_two_warps_queue_for_one_address() -> None:
    """M7: the second leaves unit and port a cycle later, is in the slice at 52.25 and waits from there to 55.25.

    It is done at 59.25 and in at 108.5. On another channel it does not wait: done at 56.25, in at 105.5.
    """
    read = [atomic([0]), fp32(0)]
    assert warm(read, read, sectors=[0]) == [(0, 105, 109), (0, 109, 113)]
    assert warm(read, [atomic([8]), fp32(0)], sectors=[0, 8]) == [(0, 105, 109), (0, 106, 110)]


def test_32_warps_on_one_address_take_the_interval_each() -> None:
    """M7: the last of sixteen warps on one SM and sixteen on the other waits for 31 others.

    The first is in its slice at 51.25; after 32 × 4 cycles the last is done at 179.25, and in at 228.5.
    """
    timeline = simulate(TINY, [trace([[load([0])]]), trace(*[[[atomic([0]), fp32(0)]] * 16] * 2)], detail="warp")
    start = timeline.kernels[1].start_fs // 10**6
    assert max(history.issues[0].complete_cycle for history in timeline.warps) - start == 229


def test_atomics_of_an_sm_see_the_stores_before_them() -> None:
    """M5 and M7: a store leaves its sector in the L2, where the atomic behind it finds it."""
    # Store: port 2, slice 51.25. Atomic: unit 2, port 3, slice 51.75 to 52.25, done 56.25, in at 105.5.
    assert issues(run_cached(TINY, [[store([0]), atomic([0]), fp32(1)]]))[1] == (1, 1, 106)


def test_what_an_atomic_changed_is_written_back() -> None:
    """M5 and M7: the atomic's sector is dirty; a load of the other line of the slice drives it out."""
    gpu = TINY.replace(l2_size="512 B")
    kernel = run_cached(gpu, [[atomic([0]), load([4], 0)]]).kernels[0]
    assert (kernel.dram_read_bytes, kernel.dram_write_bytes) == (64, 32)


def test_atomics_with_caches_off() -> None:
    """M7 and M9: read from 100 to 102, written until 104, the operation is done at 106, and in at 204.5."""
    timeline = run(TINY, [[atomic([0]), fp32(0)]])
    assert issues(timeline)[0] == (0, 0, 205)
    assert (timeline.kernels[0].dram_read_bytes, timeline.kernels[0].dram_write_bytes) == (32, 32)
    unread = run(TINY, [[atomic([0])]])
    assert pictures(unread) == ["S"]
    assert unread.kernels[0].end_fs == 106_000_000


def test_shared_atomics_are_shared_loads_or_stores() -> None:
    """M1 and M7: a result that is read comes 20 cycles after the last pass; one that is not does not matter."""
    kind = OpClass.SHARED_ATOMIC
    assert pictures(run_cached(TINY, [[op(kind), fp32(0)]])) == ["S" + "s" * 19 + "Swww"]
    assert pictures(run_cached(TINY, [[op(kind, quarters=32), fp32(0)]])) == ["S" + "s" * 26 + "Swww"]
    assert pictures(run_cached(TINY, [[op(kind, quarters=32), fp32()]])) == ["SSDDDDDD"]


def test_passes_are_checked() -> None:
    """M7: one number for every sector, between 1 and 32."""
    for passes in ([1, 1], [0], [33]):
        with pytest.raises(TraceError, match="one for each, between 1 and 32"):
            trace([[atomic([0], passes=passes)]])


# Fences -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "until"),
    [
        ([store([0])], 100),  # accepted at 51.25, known 48.75 later
        ([store(range(4))], 103),  # 1 + 2.5 + 48.75 + 2 + 48.75
        ([atomic([0])], 204),  # done at 155.25
        ([load([0])], 200),
        ([async_copy([0])], 200),
        ([load([0]), store([8])], 200),
        ([store([0]), store([8])], 101),  # the second is a cycle behind
        ([op(OpClass.SHARED_LOAD)], 20),
    ],
)
def test_a_fence_waits_for_what_was_sent_before(before: list[Part], until: int) -> None:
    """M8: stores until they are known to be accepted, loads until they are back, all in `membar`."""
    selected = len(before) + 1
    timeline = run_cached(TINY, [[*before, FENCE, fp32()]])
    assert pictures(timeline) == ["S" * selected + "F" * (until - selected) + "Swww"]


def test_a_fence_with_nothing_before_it_costs_its_issue() -> None:
    """M8: at the beginning, and when everything is back."""
    assert pictures(run_cached(TINY, [[FENCE, fp32()]])) == ["SSwww"]
    assert pictures(run_cached(TINY, [[load([0]), fp32(0), FENCE, fp32()]])) == ["S" + "L" * 199 + "SSSwww"]


def test_a_warp_leaves_behind_its_fence() -> None:
    """M8 and I7: `membar` comes before `drain`."""
    assert pictures(run_cached(TINY, [[store([0]), FENCE]])) == ["SS" + "F" * 98]


def test_a_fence_waits_for_its_own_warp_only() -> None:
    """M8: the other warp's store is its own affair."""
    assert pictures(run_cached(TINY, [[store([0])], [FENCE, fp32()]]))[1] == "SSwww"


def test_a_fence_waits_for_the_dirty_line_that_its_store_drove_out() -> None:
    """M5 and M8: accepted at 103.25, known at 152."""
    gpu = TINY.replace(l2_size="512 B")
    assert pictures(run_cached(gpu, [[store([0]), store([4]), FENCE, fp32()]])) == ["SSS" + "F" * 149 + "Swww"]


def test_a_fence_with_caches_off() -> None:
    """M8 and M9: 1 + 1 + 98 + 2 + 98 = 200."""
    assert pictures(run(TINY, [[store([0]), FENCE, fp32()]])) == ["SS" + "F" * 198 + "Swww"]


# The store buffer ---------------------------------------------------------------------------------------------------

FOUR = TINY.replace(store_buffer="128 B")
"""A store buffer of four sectors."""


def finish(timeline: Timeline) -> list[int]:
    """Cycle of completion of every instruction of the first warp."""
    return [complete for _, _, complete in issues(timeline)]


def test_a_full_store_buffer_stops_the_next_store() -> None:
    """M8: the first four sectors are acknowledged at 103; the second store is in the unit from then to 104.

    It leaves the port at 106.5 and is accepted at 106.5 + 48.75 + 2.
    """
    timeline = run_cached(FOUR, [[store(range(4)), store(range(4, 8))]])
    assert pictures(timeline) == ["SS" + "D" * 102]
    assert finish(timeline) == [1, 104]
    assert timeline.kernels[0].end_fs == 157_250_000


def test_stores_that_fit_together_go_on() -> None:
    """M8: two and two sectors fill the buffer; the first two are acknowledged at 1 + 1.5 + 48.75 + 1 + 48.75 = 101."""
    pair = [store([0, 1]), store([8, 9]), store([16, 17]), store([24, 25])]
    # The second leaves the port at 4 and is acknowledged at 102.5, where the quarter-cycle lets the fourth begin.
    assert finish(run_cached(FOUR, [pair])) == [1, 2, 102, 104]


def test_a_store_larger_than_the_buffer_waits_until_it_is_empty() -> None:
    """M8: eight sectors do not fit beside one; alone they pass, and nothing fits beside them."""
    program = [store([8]), store(range(8)), store([16])]
    # The first is acknowledged at 100. The second leaves the unit at 101, the port at 105.5; 48.75 + 4 + 48.75 = 207.
    assert finish(run_cached(FOUR, [program])) == [1, 101, 208]


def test_what_comes_behind_a_stopped_store_waits_in_line() -> None:
    """M8: the load is in the unit from 104 to 105, and behind the store in the port, from 106.5 to 107.

    Its slice has it at 156.25, and it is in at 156.25 + 49 + 2 + 49 + 48.75 + 0.5 = 305.5.
    """
    timeline = run_cached(FOUR, [[store(range(4)), store(range(4, 8)), load([8])]])
    assert finish(timeline) == [1, 104, 306]


def test_other_warps_wait_behind_a_stopped_store() -> None:
    """M8: the unit is the SM's, so a shared load of another sub-partition, issued at 9, is in it from 104 to 105."""
    branch = [op(OpClass.BRANCH), op(OpClass.SHARED_LOAD, 0)]
    timeline = run_cached(FOUR, [[store(range(4)), store(range(4, 8))], branch])
    assert issues(timeline, 1)[1] == (1, 10, 124)


@pytest.mark.parametrize(
    ("behind", "letter"), [(op(OpClass.SHARED_STORE), "M"), (load([64]), "G"), (async_copy([64]), "G")]
)
def test_a_full_queue_behind_a_stopped_store_throttles(behind: Part, letter: str) -> None:
    """M8, I4 and I7: four entries are under way at 4, and the next instruction finds no room until the store left.

    It left at 104, when the others were accepted as well, to leave at 105, 106 and 107.
    """
    program = [store(range(4)), store(range(4, 8)), *[op(OpClass.SHARED_STORE)] * 3, behind]
    picture = pictures(run_cached(FOUR, [program]))[0]
    assert picture.startswith("SSSSS" + letter * 99 + "SDDD")


def test_unread_atomics_fill_the_buffer_and_read_ones_do_not() -> None:
    """M7 and M8: four sectors that nobody waits for are acknowledged at 1 + 2.5 + 48.75 + 2 + 106 + 16 + 48.75 = 225.

    The DRAM brings them in 49 + 8 + 49, and the atomic unit takes 4 × 4.
    """
    assert finish(run_cached(FOUR, [[atomic(range(4)), store([8])]])) == [1, 226]
    assert finish(run_cached(FOUR, [[atomic(range(4)), store([8]), fp32(0)]]))[1] == 2


def test_caches_off_have_a_store_buffer_too() -> None:
    """M8 and M9: acknowledged at 1 + 2.5 + 98 + 8 + 98 = 207.5; the unit counts in quarters: until 208.5."""
    timeline = run(FOUR, [[store(range(4)), store([8])]])
    assert finish(timeline) == [1, 209]


def test_a_fence_behind_a_stopped_store() -> None:
    """M8: the second store is acknowledged at 157.25 + 48.75."""
    picture = pictures(run_cached(FOUR, [[store(range(4)), store(range(4, 8)), FENCE, fp32()]]))[0]
    assert picture == "SSS" + "F" * 203 + "Swww"


def test_a_barrier_behind_a_stopped_store() -> None:
    """I6 and M8: a barrier does not wait for stores; the warp then drains until its store has passed."""
    program = [store(range(4)), store(range(4, 8)), op(OpClass.BARRIER)]
    assert pictures(run_cached(FOUR, [program])) == ["SSS" + "B" * 9 + "D" * 92]

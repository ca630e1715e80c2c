"""Rules M2, M5 and M11: hand-computed ways through the L1 and the L2 of the GPU `tiny`.

A lone load that hits the L1 takes 30 cycles. One that hits the L2 takes 100: 1 in the load/store unit, 0.5 for the
request in the port out, 48.75 on the way, 0.5 per sector in the slice, 48.75 on the way back, 0.5 per sector in the
port in. One that misses takes 200: from the slice 49 to the channel, 2 per sector there, and 49 back to the slice.
"""

from __future__ import annotations

import pytest

from gpusim_des.gpu import GPU
from gpusim_des.timeline import Timeline
from gpusim_des.timing.simulate import simulate
from tests.programs import TINY, Part, atomic, fp32, issues, load, pictures, run_cached, store, trace

Program = list[Part]

SMALL_L1 = TINY.replace(
    l1_size="1 KiB",
    shared_per_sm="1 KiB",
    shared_per_block="1 KiB",
    shared_per_block_optin="1 KiB",
    shared_carveouts=("0 KiB", "1 KiB"),
)
"""An L1 of eight lines."""

ONE_LINE = TINY.replace(l2_size="512 B")
"""One line in each of the four slices. Lines 0 and 1, and 8 and 9, share slice 0."""


def completions(program: Program, gpu: GPU = TINY) -> list[int]:
    """Cycle of completion of every instruction of a lone warp."""
    return [complete for _, _, complete in issues(run_cached(gpu, [program]))]


def chained(*accesses: Program) -> Program:
    """Loads, each of which waits for the one before."""
    return [
        Part(part.kind, (number - 1,) if number else (), part.quarters, part.sectors)
        for number, (part,) in enumerate(accesses)
    ]


def latencies(*sectors: list[int], gpu: GPU = TINY) -> list[int]:
    """Cycles that loads of a lone warp take, each waiting for the one before."""
    return [c - at for _, at, c in issues(run_cached(gpu, [chained(*([load(s)] for s in sectors))]))]


def counted(timeline: Timeline, kernel: int = 0) -> tuple[int | None, ...]:
    """Sectors asked of and found in the L1, then of the L2; bytes read from and written to DRAM."""
    k = timeline.kernels[kernel]
    return k.l1_sectors, k.l1_hit_sectors, k.l2_sectors, k.l2_hit_sectors, k.dram_read_bytes, k.dram_write_bytes


# L1 -----------------------------------------------------------------------------------------------------------------


def test_a_miss_and_then_a_hit() -> None:
    """M2: 200 cycles from DRAM, then 30 from the L1."""
    timeline = run_cached(TINY, [[load([5]), load([5], 0), fp32(1)]])
    assert pictures(timeline) == ["S" + "L" * 199 + "S" + "L" * 29 + "Swww"]
    assert counted(timeline) == (2, 1, 1, 0, 32, 0)


def test_another_sector_of_the_line_is_not_there() -> None:
    """M2 and M5: neither cache fetches more than what was asked for, with bursts of 32 bytes."""
    assert latencies([0], [1], [0, 1]) == [200, 200, 30]


def test_a_hit_takes_its_passes_first() -> None:
    """M1 and M2: eight passes end seven cycles later than one."""
    assert completions([load([0]), load([0], 0, quarters=32)]) == [200, 237]


def test_a_load_joins_the_request_that_is_on_its_way() -> None:
    """M2: the second load sends nothing and is complete with the first; its sector counts as found."""
    timeline = run_cached(TINY, [[load([0]), load([0])]])
    assert issues(timeline) == [(0, 0, 200), (1, 1, 200)]
    assert counted(timeline) == (2, 1, 1, 0, 32, 0)


def test_a_load_that_joins_late_takes_a_hit_at_least() -> None:
    """M2: at 197 the sector is about to come, but the L1 answers 30 cycles later."""
    wait = [fp32(*([n] if n else [])) for n in range(49)]  # issues at 1, 5, ..., the last at 193, complete at 197
    timeline = run_cached(TINY, [[load([0]), *wait, load([0], 49)]])
    assert issues(timeline)[-1] == (50, 197, 227)


def test_a_load_that_joins_asks_for_the_rest() -> None:
    """M2: sector 0 comes at 200; sector 1 is asked for at 2.5.

    It is in its slice at 51.75, at the channel at 100.75, where sector 0 is served until 101.75; so it leaves at 103.75
    and is in the SM after 49 + 48.75 + 0.5: at 202.
    """
    timeline = run_cached(TINY, [[load([0]), load([0, 1])]])
    assert issues(timeline) == [(0, 0, 200), (1, 1, 202)]
    assert counted(timeline) == (3, 1, 2, 0, 64, 0)


def test_sectors_in_the_port_can_still_be_joined() -> None:
    """M2 and M3: the sectors arrive at the port at 203.5 and are in the SM at 219.5; at 205 they are in between.

    At 8 bytes a cycle a sector is 4 cycles in the port, and the ways take 47: 1.5 + 47 + 2 + 49 + 8 + 49 + 47 = 203.5.
    """
    slow = TINY.replace(port_in="8 B/cycle", l1_latency=5)
    late = [fp32(*([n] if n else [])) for n in range(51)]  # from 1 on, four cycles each: complete at 205
    timeline = run_cached(slow, [[load(range(4)), *late, load([3], 51)]])
    assert issues(timeline)[0] == (0, 0, 220)
    assert issues(timeline)[-1] == (52, 205, 220)
    assert counted(timeline)[:2] == (5, 1)


def test_a_store_allocates_nothing_in_the_l1() -> None:
    """M2 and M5: the load finds the sector in the L2, where the store left it.

    The store is in the slice from 50.75 to 51.25, the load until 51.75; back after 48.75 + 0.5, at 101.
    """
    timeline = run_cached(TINY, [[store([0]), load([0])]])
    assert issues(timeline)[1] == (1, 1, 101)
    assert counted(timeline) == (1, 0, 1, 1, 0, 0)


def test_a_store_passes_through_and_leaves_the_copy_in_the_l1() -> None:
    """M2: write-through; the sector that was in the L1 is there afterwards."""
    timeline = run_cached(TINY, [[load([0]), store([0], 0), load([0])]])
    assert issues(timeline)[2] == (2, 201, 231)
    assert timeline.kernels[0].l2_sectors == 1


def test_the_line_used_least_recently_leaves_the_l1() -> None:
    """M2: after lines 0 to 7 and 0 again, line 8 drives line 1 out, which is still in the L2."""
    lines = [[4 * n] for n in (*range(8), 0, 8, 0, 2, 1)]
    assert latencies(*lines, gpu=SMALL_L1) == [200] * 8 + [30, 200, 30, 30, 100]


def test_a_line_that_left_with_its_sectors_on_the_way_is_asked_for_again() -> None:
    """M2: one access of nine lines drives its first one out, which the next load finds on its way into the L2.

    Lines 0, 1 and 8 are one packet to slice 0: unit 2.25, port 2.75, slice 51.5 to 53, channel 102 to 108; sector 0
    leaves it at 104 and is in the slice at 153. The second load leaves the unit at 3.25 and the port, behind the four
    packets of the first, at 4.75; it waits in the slice from 54 to 153 and is in at 153 + 48.75 + 0.5 = 202.25.
    """
    timeline = run_cached(SMALL_L1, [[load([4 * n for n in range(9)], quarters=9), load([0])]])
    assert counted(timeline) == (10, 0, 10, 1, 9 * 32, 0)
    assert issues(timeline)[1] == (1, 1, 203)


@pytest.mark.parametrize(("shared", "lines"), [(0, 256), (100, 192), (9000, 128)])
def test_the_l1_is_what_the_carve_out_leaves(shared: int, lines: int) -> None:
    """M2: 32 KiB less 0, 8 and 16 KiB, the least carve-outs for eight blocks of 256 bytes and for one of 9216."""

    def hits(touched: int) -> int | None:
        program = [load(range(4 * n, min(4 * n + 128, 4 * touched))) for n in range(0, touched, 32)]
        again = load([0], len(program) - 1)
        return run_cached(TINY, [[*program, again]], shared_bytes=shared).kernels[0].l1_hit_sectors

    assert hits(lines) == 1
    assert hits(lines + 1) == 0


def test_without_room_there_is_no_l1() -> None:
    """M2: where shared memory takes all, every load goes to the L2, even for what is on its way."""
    gpu = SMALL_L1
    timeline = run_cached(gpu, [[load([0]), load([0], 0), load([0])]], shared_bytes=1024)
    assert counted(timeline) == (3, 0, 3, 2, 32, 0)
    assert issues(timeline) == [(0, 0, 200), (1, 200, 300), (2, 201, 301)]


@pytest.mark.parametrize("read", [True, False])
def test_atomics_drop_their_sectors_from_the_l1(read: bool) -> None:
    """M7: of sectors 0 and 1 the atomic changes 0; the last load finds 1 in the L1 and asks the L2 for 0.

    The first load takes 1.5 + 48.75 + 1 + 49 + 4 + 49 + 48.75 + 1 = 203. The atomic, issued then, leaves the port at
    205; the load behind it at 205.5. It is in the slice from 254.25 to 254.75, back at 303.5, in at 304.
    """
    program = [load([0, 1]), atomic([0], 0), load([0, 1], 0), *([fp32(1)] if read else [])]
    timeline = run_cached(TINY, [program])
    assert issues(timeline)[0] == (0, 0, 203)
    assert issues(timeline)[2] == (2, 204, 304)
    assert counted(timeline)[:2] == (4, 1)


def test_every_sm_has_an_l1_of_its_own() -> None:
    """M2: SM 1 asks the L2 for what SM 0 has."""
    wait = [fp32(*([n - 1] if n else [])) for n in range(60)]
    timeline = run_cached(TINY, [[load([0])]], [[*wait, load([0], 59)]])
    assert issues(timeline, 1)[-1] == (60, 241, 341)


def test_a_kernel_starts_with_an_empty_l1_and_a_full_l2() -> None:
    """M11: 200 cycles, then 100 in the next kernel, then 30."""
    kernels = [trace([[load([0])]]), trace([[load([0]), load([0], 0)]])]
    timeline = simulate(TINY, kernels, detail="warp")
    assert [issues(timeline, n)[0][2] - issues(timeline, n)[0][1] for n in (0, 1)] == [200, 100]
    assert issues(timeline, 1)[1] == (1, 300, 330)


# L2 -----------------------------------------------------------------------------------------------------------------


def test_two_sms_share_one_fetch() -> None:
    """M5: SM 1 asks a cycle later, finds the sector on its way, and has it when it has come, at 200 as well."""
    timeline = run_cached(TINY, [[load([0])]], [[load([0])]])
    assert [issues(timeline, n) for n in (0, 1)] == [[(0, 0, 200)], [(0, 1, 200)]]
    assert counted(timeline) == (2, 0, 2, 1, 32, 0)


def test_a_store_stays_in_the_l2() -> None:
    """M5: write-back: accepted at 1 + 1 + 48.75 + 0.5, and nothing goes to DRAM, not even the rest of the line."""
    timeline = run_cached(TINY, [[store([0])]])
    assert timeline.kernels[0].end_fs == 51_250_000
    assert counted(timeline) == (0, 0, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("sectors", "passes", "end_fs"),
    [([0], [1], 51_750_000), ([0], [2], 53_250_000), ([0, 1], [1, 2], 54_750_000), ([0, 1], [], 53_250_000)],
)
def test_writes_take_longer_in_a_slice(sectors: list[int], passes: list[int], end_fs: int) -> None:
    """M5: two services of half a cycle for a whole sector, five for a part, behind 1 + 0.5 + 0.5 each + 48.75."""
    gpu = TINY.replace(l2_write_services=2, l2_partial_write_services=5)
    assert run_cached(gpu, [[store(sectors, passes=passes)]]).kernels[0].end_fs == end_fs


def test_a_write_waits_for_the_dirty_line_that_it_drives_out() -> None:
    """M5 and M8: the second store is in the slice at 52.25; line 0 is at the channel at 101.25, written at 103.25."""
    timeline = run_cached(ONE_LINE, [[store([0]), store([4])]])
    assert timeline.kernels[0].end_fs == 103_250_000
    assert counted(timeline) == (0, 0, 0, 0, 0, 32)


def test_all_dirty_sectors_of_a_line_are_written_back() -> None:
    """M5: stores to two sectors of a line are one write of 64 bytes; sectors that were read are not written."""
    program = [load([2, 3]), store([0], 0), store([1]), store([4])]
    assert counted(run_cached(ONE_LINE, [program]))[-2:] == (64, 64)


def test_a_read_that_drives_out_a_dirty_line_comes_behind_it() -> None:
    """M5 and M6: both are at the channel at 100.75; the write until 102.75, the read until 104.75, in the SM at 203."""
    timeline = run_cached(ONE_LINE, [[store([0]), load([4])]])
    assert issues(timeline)[1] == (1, 1, 203)
    assert counted(timeline)[-2:] == (32, 32)


def test_a_clean_line_leaves_without_notice() -> None:
    """M5: what was only read is gone and costs 200 cycles again; the L1 would have it, so two SMs take turns."""
    late = [fp32(*([n - 1] if n else [])) for n in range(150)]  # the last is complete 600 cycles after the first
    timeline = run_cached(ONE_LINE, [[load([0]), load([4], 0)]], [[*late, load([0], 149)]])
    assert issues(timeline, 1)[-1] == (150, 601, 801)
    assert counted(timeline) == (3, 0, 3, 0, 96, 0)


def test_the_line_used_least_recently_leaves_the_l2() -> None:
    """M5: two lines a slice; line 0 was used after line 1, so line 8 drives out line 1. Kernels empty the L1."""
    gpu = TINY.replace(l2_size="1 KiB")
    order = [0, 4, 0, 32, 0, 4]
    timeline = simulate(gpu, [trace([[load([sector])]]) for sector in order], detail="warp")
    assert [history.end_cycle - history.start_cycle for history in timeline.warps] == [200, 200, 100, 200, 100, 200]


def test_two_sms_queue_at_a_slice() -> None:
    """M5: at 16 bytes a cycle four sectors are 8 cycles in their slice, and ways take 48.

    SM 0 is in the slice from 49.5 to 57.5, back at 105.5, in at 107.5. SM 1 comes at 50.5, is served until 65.5, and
    is in at 115.5.
    """
    gpu = TINY.replace(l2_bandwidth="64 GB/s")
    read = trace(*[[[load(range(4))]]] * 2)
    timeline = simulate(gpu, [read, read], detail="warp")
    start = timeline.kernels[1].start_fs // 10**6
    assert timeline.kernels[1].start_fs % 10**6 == 0
    assert [issues(timeline, n)[0][1:] for n in (2, 3)] == [(start, start + 108), (start + 1, start + 116)]


def test_bursts_of_64_bytes_bring_the_neighbour() -> None:
    """M5 and M6: sector 1 comes with sector 0 and is then in the L2, but not in the L1; sector 2 is in neither."""
    gpu = TINY.replace(dram_granule="64 B")
    timeline = run_cached(gpu, [chained([load([0])], [load([1])], [load([2])])])
    assert [c - at for _, at, c in issues(timeline)] == [200, 100, 200]
    assert counted(timeline) == (3, 0, 3, 1, 128, 0)


def test_the_neighbour_on_its_way_is_joined() -> None:
    """M5: both sectors are in the slice at 150.75 and back at 199.5; the second follows in the port, until 200.5."""
    timeline = run_cached(TINY.replace(dram_granule="64 B"), [[load([0]), load([1])]])
    assert issues(timeline) == [(0, 0, 200), (1, 1, 201)]


def test_a_dirty_half_granule_is_written_whole() -> None:
    """M6: bursts are whole: a dirty sector costs 64 bytes, two of one granule as many."""
    gpu = ONE_LINE.replace(dram_granule="64 B")
    assert counted(run_cached(gpu, [[store([1]), store([4])]]))[-1] == 64
    assert counted(run_cached(gpu, [[store([0, 1]), store([4])]]))[-1] == 64
    assert counted(run_cached(gpu, [[store([1, 2]), store([4])]]))[-1] == 128


# Two halves ---------------------------------------------------------------------------------------------------------

HALVES = TINY.replace(l2_partitions=2)
"""SM 0 is near one half, SM 1 near the other."""


def seen_by_both(gpu: GPU, *kernels: tuple[Program, Program]) -> list[tuple[int, int]]:
    """Cycles that the only instruction of SM 0 and of SM 1 takes in every kernel; 0 where SM 1 has none.

    SM 0 has one always: from an empty SM 0 the block of SM 1 would not go elsewhere.
    """
    timeline = simulate(gpu, [trace([both[0]], [both[1]]) for both in kernels], detail="warp")
    assert all(history.sm == history.block for history in timeline.warps if history.issues)
    taken = [issues(timeline, n) for n in range(2 * len(kernels))]
    cycles = [events[0][2] - events[0][1] if events else 0 for events in taken]
    return list(zip(cycles[::2], cycles[1::2], strict=True))


def test_near_far_and_dram() -> None:
    """M5: SM 0 fetches from DRAM; afterwards it is near for SM 0 and far for SM 1; then near for both."""
    read = [load([0])]
    assert seen_by_both(HALVES, (read, []), (read, read), (read, read)) == [(200, 0), (100, 140), (100, 100)]


def test_a_fetch_on_its_way_is_shared_by_the_halves() -> None:
    """M5: SM 1 asks at 1 and has the sector when it has come, at 200."""
    assert seen_by_both(HALVES, ([load([0])], [load([0])])) == [(200, 199)]


def test_a_half_holds_half_of_the_lines() -> None:
    """M5: of two lines in a slice one is near; the other is there, but far, even for the SM that read it."""
    gpu = HALVES.replace(l2_size="1 KiB")
    lines: list[tuple[Program, Program]] = [([load([4 * n])], []) for n in (0, 1, 1, 0, 0, 1)]
    assert [taken for taken, _ in seen_by_both(gpu, *lines)] == [200, 200, 100, 140, 100, 140]


@pytest.mark.parametrize("write", [store([0]), atomic([0])])
def test_a_write_removes_the_other_halfs_copy(write: Part) -> None:
    """M5 and M7: after SM 0 wrote, its own copy is still near, and SM 1's is gone."""
    read = [load([0])]
    both = (read, read)
    assert seen_by_both(HALVES, both, both, ([write], []), both)[1::2] == [(100, 100), (100, 140)]


def test_what_leaves_the_l2_leaves_its_halves() -> None:
    """M5: with one line a slice, line 1 drives out line 0 from everywhere, also from the half that did not ask."""
    gpu = HALVES.replace(l2_size="512 B")
    lines: list[tuple[Program, Program]] = [([load([0])], []), ([fp32()], [load([4])]), ([load([0])], [])]
    assert seen_by_both(gpu, *lines) == [(200, 0), (4, 200), (200, 0)]


def test_a_copy_that_was_removed_on_its_way_is_not_waited_for() -> None:
    """M5: SM 0 stores, SM 1 reads that sector and one from DRAM, SM 0 stores again, and SM 1 reads again, past its L1.

    Both sectors are near SM 1 when the one from DRAM is there, at 152.25. The second store, in the slice until 52.75,
    takes the first of them away. The last read leaves the slice at 53.25, and home is 40 cycles farther: 93.25 + 48.75
    + 0.5 = 142.5.
    """
    gpu = SMALL_L1.replace(l2_partitions=2)
    timeline = run_cached(gpu, [[store([0]), store([0])]], [[load([0, 1]), load([0])]], shared_bytes=1024)
    assert issues(timeline, 1)[1] == (1, 2, 143)

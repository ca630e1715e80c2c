"""Rules M1, M3, M4, M6, M8 and M9: hand-computed ways of loads and stores on the GPU `tiny`.

There a lone load of 200 cycles is 1 in the load/store unit, 0.5 for the request in the port out, 98 on the way, 2 per
sector on the channel, 98 on the way back and 0.5 per sector in the port in.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from gpusim_des.gpu import list_gpus, load_gpu
from gpusim_des.timing.address_hash import channels_of
from gpusim_des.timing.hbm import Channel
from gpusim_des.trace import OpClass
from tests.programs import TINY, Part, fp32, issues, load, op, pictures, run, store


def completions(*program: Part, **changes: object) -> list[int]:
    """Cycle of completion of every instruction of a lone warp."""
    return [complete for _, _, complete in issues(run(TINY.replace(**changes), [program]))]


# Loads --------------------------------------------------------------------------------------------------------------


def test_a_lone_load_takes_the_dram_latency() -> None:
    """M9: 1 + 0.5 + 98 + 2 + 98 + 0.5 = 200 cycles until a dependent instruction issues."""
    timeline = run(TINY, [[load([7]), fp32(0)]])
    assert pictures(timeline) == ["S" + "L" * 199 + "Swww"]
    assert issues(timeline) == [(0, 0, 200), (1, 200, 204)]
    assert timeline.kernels[0].cycles == 204
    assert timeline.kernels[0].dram_read_bytes == 32


def test_a_coalesced_load() -> None:
    """M6 and M3: four sectors take 8 on the channel and 2 in the port: 1.5 + 98 + 8 + 98 + 2 = 207.5."""
    timeline = run(TINY, [[load(range(4)), fp32(0)]])
    assert pictures(timeline) == ["S" + "L" * 207 + "Swww"]
    assert timeline.kernels[0].dram_bytes == 128


def test_two_loads_queue_at_one_channel() -> None:
    """M6: the second arrives at 100.5, waits until 107.5, leaves at 115.5, is back at 213.5, and in at 215.5."""
    assert completions(load(range(4)), load(range(4, 8))) == [208, 216]


def test_two_loads_on_two_channels_queue_at_the_port_only() -> None:
    """M3: the second is back at 206.5, the port is busy until 207.5, and it is in at 209.5."""
    assert completions(load(range(4)), load(range(8, 12))) == [208, 210]


def test_an_access_over_two_channels_is_complete_with_its_last_packet() -> None:
    """M1, M3 and M4: unit until 1.25; requests out at 1.75 and 2.25; 98 + 2 + 98; in at 200.25 and 200.75."""
    assert completions(load([0, 8], quarters=5)) == [201]


def test_sectors_on_one_channel_travel_together() -> None:
    """M4: sectors 0 and 4 of two lines are one request: 1.25 + 0.5 + 98 + 4 + 98 + 1 = 202.75."""
    assert completions(load([0, 4], quarters=5)) == [203]


def test_a_fraction_of_a_cycle_adds_up_in_the_unit() -> None:
    """M1: three accesses of 1.25 cycles leave the unit at 1.25, 2.5 and 3.75, not at 2, 4 and 6."""
    # Out at 1.75, 3, 4.25; channels 0, 1, 2, so nobody queues: back at 199.75, 201, 202.25, in half a cycle later.
    assert completions(load([0], quarters=5), load([8], quarters=5), load([16], quarters=5)) == [201, 202, 203]


def test_the_width_of_the_port_in() -> None:
    """M3: at 32 bytes per cycle four sectors take 4 cycles; a lone load stays 200: 1.5 + 97.75 + 8 + 97.75 + 4."""
    assert completions(load([0]), port_in="32 B/cycle") == [200]
    assert completions(load(range(4)), port_in="32 B/cycle") == [209]


def test_the_width_of_the_port_out() -> None:
    """M3: a store of four sectors leaves after 1 + 1 + 4 cycles; it arrives at 103.75 and is accepted at 111.75."""
    timeline = run(TINY.replace(port_out="32 B/cycle"), [[store(range(4))]])
    assert timeline.kernels[0].end_fs == 111_750_000


# Stores -------------------------------------------------------------------------------------------------------------


def test_a_store_releases_the_warp_but_not_the_kernel() -> None:
    """M8: the warp leaves at 5; unit 1, port 0.5 + 2, way 98, channel 8: the write is accepted at 109.5."""
    timeline = run(TINY, [[store(range(4)), fp32()]])
    kernel = timeline.kernels[0]
    assert pictures(timeline) == ["SSwww"]
    assert timeline.blocks[0].end_fs == 5_000_000
    assert (kernel.end_fs, kernel.cycles) == (109_500_000, 110)
    assert (kernel.dram_read_bytes, kernel.dram_write_bytes) == (0, 128)


def test_a_store_that_is_accepted_early_does_not_shorten_the_kernel() -> None:
    """M8: the kernel ends with its last block where that is later."""
    assert run(TINY, [[store([0]), *[op(OpClass.SFU)] * 40]]).kernels[0].cycles == 1 + 4 * 39 + 20


# Shared memory and the load/store unit ------------------------------------------------------------------------------


def test_a_shared_load_and_a_bank_conflict() -> None:
    """M1: eight wavefronts are 32 quarter-cycles, seven cycles more than one wavefront."""
    shared = OpClass.SHARED_LOAD
    assert pictures(run(TINY, [[op(shared), fp32(0)]])) == ["S" + "s" * 19 + "Swww"]
    assert pictures(run(TINY, [[op(shared, quarters=32), fp32(0)]])) == ["S" + "s" * 26 + "Swww"]


def test_conflicting_shared_loads_queue_in_the_unit() -> None:
    """M1: the unit is free at 8 and at 16, so the results come at 27 and 35."""
    shared = op(OpClass.SHARED_LOAD, quarters=32)
    timeline = run(TINY, [[shared, shared, fp32(0), fp32(1)]])
    assert pictures(timeline) == ["SS" + "s" * 25 + "S" + "s" * 7 + "Swww"]


def test_a_shuffle_passes_through_the_unit() -> None:
    """M1: after a shared store of four cycles, a shuffle is through at 5: 4 + 30 in all."""
    shuffle, shared_store = op(OpClass.SHUFFLE), op(OpClass.SHARED_STORE, quarters=16)
    assert completions(shared_store, shuffle, shuffle_latency=30) == [4, 34]


def test_the_unit_serves_sub_partitions_in_their_order() -> None:
    """M1 and T2: both issue at 0; sub-partition 1 gets the unit from 4 to 8."""
    shared = op(OpClass.SHARED_LOAD, quarters=16)
    timeline = run(TINY, [[shared], [shared]])
    assert [issues(timeline, w)[0] for w in (0, 1)] == [(0, 0, 23), (0, 0, 27)]


@pytest.mark.parametrize(
    ("part", "letter"), [(op(OpClass.SHARED_STORE, quarters=16), "M"), (store([0], quarters=16), "G")]
)
def test_a_full_queue_throttles(part: Part, letter: str) -> None:
    """I4 and I7: of four places the first is free again at 4, the next at 8; the unit is through at 24."""
    timeline = run(TINY, [[part] * 6])
    assert pictures(timeline) == ["SSSSS" + letter * 3 + "S" + "D" * 15]
    suffix = {"M": "mio_throttle", "G": "lg_throttle"}[letter]
    assert timeline.kernels[0].stalls[suffix] == 3


def test_a_queue_of_one_place() -> None:
    """I4: the load's two cycles in the unit keep the only place until 2."""
    timeline = run(TINY.replace(load_store_queue_depth=1), [[load([0], quarters=8), load([8])]])
    assert pictures(timeline) == ["SGS" + "D" * 199]  # issued at 2, complete at 202


def test_a_full_queue_leaves_the_scheduler_to_arithmetic() -> None:
    """I4: warp 1 computes while warp 0 waits for room."""
    gpu = TINY.replace(load_store_queue_depth=1, sub_partitions=1)
    shared_store = op(OpClass.SHARED_STORE, quarters=12)
    assert pictures(run(gpu, [[shared_store] * 2, [fp32()] * 2])) == ["SMMSDD", "nSSwww"]


# Channels -----------------------------------------------------------------------------------------------------------


def test_a_granule_of_64_bytes() -> None:
    """M6: a burst takes 4 cycles; sectors 0 and 1 share one, sectors 1 and 2 need two."""
    assert completions(load([0]), dram_granule="64 B") == [200]
    assert completions(load([0, 1]), dram_granule="64 B") == [201]  # 1.5 + 97 + 4 + 97 + 1 = 200.5
    assert completions(load([1, 2]), dram_granule="64 B") == [205]  # 1.5 + 97 + 8 + 97 + 1 = 204.5
    gpu = TINY.replace(dram_granule="64 B")
    assert run(gpu, [[load([0, 1])]]).kernels[0].dram_bytes == 64
    assert run(gpu, [[load([1, 2])]]).kernels[0].dram_bytes == 128


def test_mixed_traffic_has_an_efficiency_of_its_own() -> None:
    """M6: the write arrives at 100 and takes 2, the read arrives at 100.5, starts at 102 and takes 4."""
    program = [store([0]), load([1])]
    assert completions(*program) == [1, 203]  # 102 + 2 + 98 + 0.5 = 202.5
    assert completions(*program, dram_efficiency_mixed="1/2") == [1, 205]


def test_mixed_efficiency_ends_with_the_window() -> None:
    """M6: sixteen reads after a write are mixed traffic, the seventeenth is not; a write after it is again."""
    channel = Channel(TINY.replace(dram_efficiency_mixed="1/2", dram_efficiency_write="1/4"))
    assert channel.write(0, 1) == 8_000_000
    assert [channel.read(0, 1) for _ in range(17)][-2:] == [(8 + 16 * 4) * 10**6, (8 + 16 * 4 + 2) * 10**6]
    assert channel.write(0, 1) == (8 + 16 * 4 + 2 + 4) * 10**6


def test_a_channel_serves_in_the_order_of_arrival() -> None:
    """M6: SM 0 issues its load first, but its unit is busy, and it reaches the channel second.

    SM 0 issues at 1; the unit is busy from 0 to 6, so the load is out at 7.5 and arrives at 105.5. SM 1 issues at 5
    (its block is dispatched at 1) and arrives at 104.5: served until 112.5, in at 212.5. SM 0 follows until 120.5.
    """
    timeline = run(
        TINY,
        [[op(OpClass.SHARED_STORE, quarters=24), load(range(4))]],
        [[fp32(), load(range(4, 8), 0)]],
    )
    assert [issues(timeline, w)[1] for w in (0, 1)] == [(1, 1, 221), (1, 5, 213)]


def test_of_two_that_arrive_together_the_lower_sm_is_served_first() -> None:
    """T2: both loads issue at 5 and arrive at 104.5."""
    timeline = run(TINY, [[fp32(), fp32(), load(range(4), 1)]], [[fp32(), load(range(4, 8), 0)]])
    assert [issues(timeline, w)[-1][1:] for w in (0, 1)] == [(5, 213), (5, 221)]


def test_the_sm_comes_before_the_age() -> None:
    """T2: a store of SM 1 and a load of SM 0, whose block is younger, arrive at 103.5; the load is served first.

    Block 1: store at 3, 1.5 cycles in the unit, 1 in the port. Block 2 follows block 0 at 4: load at 4, out at 5.5.
    """
    gpu = TINY.replace(max_blocks_per_sm=1)
    timeline = run(gpu, [[fp32()]], [[fp32(), fp32(), store([1], quarters=6)]], [[load([0])]])
    assert issues(timeline, 2) == [(0, 4, 204)]  # 103.5 + 2 + 98 + 0.5
    assert timeline.kernels[0].end_fs == 204_000_000


# Address hash -------------------------------------------------------------------------------------------------------


def test_linear_deals_units_out_in_turn() -> None:
    """M4: the channel of an address is (address / interleave) modulo channels."""
    gpu = TINY.replace(channel_interleave="512 B", dram_channels=3)
    addresses = np.arange(0, 20_000, 32)
    assert channels_of(addresses // 32, gpu).tolist() == [a // 512 % 3 for a in addresses.tolist()]


def test_linear_shows_partition_camping() -> None:
    """M4: a stride of channels × interleave meets one channel only."""
    assert set(channels_of(np.arange(1000) * 4 * 8, TINY).tolist()) == {0}


@pytest.mark.parametrize("channels", [160, 19, 96, 24])
def test_rotated_meets_every_channel_once_in_a_round(channels: int) -> None:
    """M4: a stream spreads exactly evenly."""
    gpu = TINY.replace(channel_hash="rotated", dram_channels=channels)
    rounds = channels_of(np.arange(100 * channels) * 8, gpu).reshape(-1, channels)
    assert (np.sort(rounds, axis=1) == np.arange(channels)).all()
    assert len(set(rounds[:, 0].tolist())) > min(channels, 100) // 2


@pytest.mark.parametrize("channels", [160, 19, 96, 24, 4, 256])
@pytest.mark.parametrize("factor", [1, 3, 5, 7])
@pytest.mark.parametrize("power", range(0, 17, 2))
def test_rotated_has_no_bad_stride(channels: int, factor: int, power: int) -> None:
    """M4: whatever the stride, no channel gets more than twice its share, strides that skip channels apart."""
    gpu = TINY.replace(channel_hash="rotated", dram_channels=channels, dram_bandwidth="1 TB/s")
    units = np.arange(64 * channels) * (factor << power)
    counts = np.bincount(channels_of(units * 8, gpu), minlength=channels)
    assert counts.max() <= 2 * 64


@pytest.mark.parametrize("name", list_gpus())
def test_a_line_lies_on_one_channel(name: str) -> None:
    """M4: the interleave is a multiple of a line."""
    lines = channels_of(np.arange(4 * 4096), load_gpu(name)).reshape(-1, 4)
    assert (lines == lines[:, :1]).all()
    assert len(Counter(lines[:, 0].tolist())) == load_gpu(name).dram_channels

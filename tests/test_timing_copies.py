"""Rules I5 and ASYNC, BULK, TENSOR: hand-computed copies to shared memory and tensor instructions on the GPU `tiny`.

With caches off a packet is 1 cycle in the load/store unit, 0.5 for its request in the port out, 98 on the way, 2 per
sector on its channel, 98 on the way back and 0.5 per sector in the port in. A bulk copy leaves the unit for the SM's
copy unit, which takes a quarter of a cycle per sector, and ends 50 cycles after its last sector.
"""

from __future__ import annotations

import pytest

from gpusim_des.errors import TraceError
from gpusim_des.gpu import load_gpu
from gpusim_des.timing.simulate import simulate
from gpusim_des.trace import OpClass
from tests.programs import (
    FENCE,
    TINY,
    Part,
    async_copy,
    async_wait,
    bulk_copy,
    bulk_wait,
    chain,
    fp32,
    issues,
    load,
    op,
    pictures,
    run,
    run_cached,
    store,
    tensor,
    trace,
)

COMMIT = op(OpClass.ASYNC_COMMIT)


def shifted(parts: list[Part], by: int) -> list[Part]:
    """A piece of a program that begins at instruction `by`."""
    return [part._replace(deps=tuple(d + by for d in part.deps)) for part in parts]


# Asynchronous copies ------------------------------------------------------------------------------------------------


def test_only_the_wait_waits_for_a_copy() -> None:
    """ASYNC: the copy takes what a load takes, 200 cycles; arithmetic goes on, the wait does not."""
    program = [async_copy([0]), COMMIT, fp32(), async_wait(0), fp32(2)]
    assert pictures(run(TINY, [program])) == ["SSS" + "L" * 197 + "SSwww"]


def test_a_wait_for_the_older_copy_lets_the_younger_go_on() -> None:
    """ASYNC: the copies are complete at 200 and, four sectors of another channel, at 209."""
    program = [async_copy([0]), async_copy(range(8, 12)), async_wait(0), async_wait(0, 1)]
    # 2.5 + 98 + 8 + 98 + 2 = 208.5
    assert [at for _, at, _ in issues(run(TINY, [program]))] == [0, 1, 200, 209]


def test_a_wait_without_copies_passes() -> None:
    """ASYNC: nothing to wait for."""
    assert pictures(run(TINY, [[async_wait(), fp32()]])) == ["SSwww"]


def test_a_copy_that_nobody_waits_for_is_drained() -> None:
    """ASYNC and I7: a warp leaves when its copy has arrived."""
    assert pictures(run(TINY, [[async_copy([0])]])) == ["S" + "D" * 199]


def test_copies_pass_through_the_l1() -> None:
    """ASYNC and M2: a copy finds what a load has brought, and the other way round."""
    timeline = run_cached(TINY, [[load([0]), async_copy([0], 0), async_copy([1], 0), load([1], 1, 2)]])
    assert [(at, complete) for _, at, complete in issues(timeline)] == [(0, 200), (200, 230), (201, 401), (401, 431)]


def test_double_buffering_hides_the_second_copy() -> None:
    """ASYNC: two tiles of 200 cycles of copy and 200 of arithmetic take 802 cycles in turn, 601 overlapped.

    In turn: copy 0 to 200, wait at 200, arithmetic 201 to 401, and the same again from 401. Overlapped: the second copy
    is issued at 1 and there at 201; its wait issues at 398, after the last of the first fifty, and costs nothing.
    """
    work = chain(50)
    first = [async_copy([0]), async_wait(0), *shifted(work, 2)]
    first[2] = fp32(1)
    then = [async_copy([8], 51), async_wait(52), *shifted(work, 54)]
    then[2] = fp32(53)
    assert run(TINY, [[*first, *then]]).kernels[0].cycles == 802
    both = [async_copy([0]), async_copy([8]), async_wait(0), *shifted(work, 3), async_wait(1), *shifted(work, 54)]
    both[3], both[54] = fp32(2), fp32(52, 53)
    assert run(TINY, [both]).kernels[0].cycles == 601


def test_a_copy_of_several_passes() -> None:
    """ASYNC and M1: like a load, it occupies the unit for its passes, here three cycles more."""
    assert issues(run(TINY, [[async_copy([0], quarters=16)]])) == [(0, 0, 203)]


# Bulk copies --------------------------------------------------------------------------------------------------------


def test_a_bulk_copy() -> None:
    """BULK: 1 + 4 × 0.25 + 0.5 + 98 + 8 + 98 + 2 = 208.5, seen at 209, and 50 cycles more."""
    program = [bulk_copy(range(4)), fp32(), bulk_wait(), fp32(1)]
    assert pictures(run(TINY, [program])) == ["SS" + "L" * 257 + "SSwww"]
    assert issues(run(TINY, [program]))[0] == (0, 0, 259)


def test_a_bulk_copy_with_caches_on() -> None:
    """BULK and M5: 2.5 + 48.75 + 2 + 49 + 8 + 49 + 48.75 + 2 = 210, and 50 more; it passes the L1 by."""
    timeline = run_cached(TINY, [[bulk_copy(range(4)), bulk_wait(), load(range(4), 0)]])
    assert issues(timeline)[0] == (0, 0, 260)
    kernel = timeline.kernels[0]
    assert (kernel.l1_sectors, kernel.l1_hit_sectors, kernel.l2_sectors, kernel.l2_hit_sectors) == (4, 0, 8, 4)


def test_a_bulk_copy_comes_in_pieces_of_the_interleave() -> None:
    """BULK and M4: eight sectors a piece, asked for 2 cycles apart; each channel serves two pieces of 16 cycles.

    Piece n is out at 3.5 + 2 n. Pieces 0 to 3 are served until 117.5, 119.5, 121.5 and 123.5, pieces 4 to 7 16 cycles
    later. The port takes 4 cycles for each from 215.5 on and never runs dry: the last is in at 247.5.
    """
    assert issues(run(TINY, [[bulk_copy(range(64))]]))[0] == (0, 0, 248 + 50)


def test_a_wait_waits_for_the_copies_of_all_warps() -> None:
    """BULK: warp 0's copy is there at 259. Warp 1's is in the unit from 1 to 2 and asked for at 3: in at 211.5.

    Back at 3.5 + 98 + 8 + 98 = 207.5, when warp 0's sectors, back at 206.5, are in the port until 208.5; in at 210.5.
    """
    timeline = run(TINY, [[bulk_copy(range(4))], [bulk_copy(range(8, 12))], [bulk_wait(), fp32(0)]])
    assert [issues(timeline, n)[0][2] for n in (0, 1)] == [259, 261]
    assert pictures(timeline)[2] == "L" * 261 + "SSwww"


def test_a_wait_before_the_copy_in_program_order_of_another_warp() -> None:
    """BULK: the copy is issued at 20, but the wait knows from the start that it will come."""
    slow = [*chain(5), bulk_copy([0], 4)]
    timeline = run(TINY, [slow, [bulk_wait(), fp32(0)]])
    # 20 + 1 + 0.25 + 0.5 + 98 + 2 + 98 + 0.5 = 220.25
    assert issues(timeline, 0)[-1] == (5, 20, 271)
    assert pictures(timeline)[1] == "L" * 271 + "SSwww"


def test_phases_are_waited_for_one_by_one() -> None:
    """BULK: the wait for phase 0 passes at 251, that for phase 1 at 252; one without copies passes at once."""
    program = [bulk_copy([0], phase=0), bulk_copy([8], phase=1), bulk_wait(2), bulk_wait(0), bulk_wait(1)]
    # 1 + 0.25 + 0.5 + 98 + 2 + 98 + 0.5 = 200.25, and a cycle later for the other
    assert [at for _, at, _ in issues(run(TINY, [program]))] == [0, 1, 2, 251, 252]


def test_blocks_have_phases_of_their_own() -> None:
    """BULK: a block without copies does not wait for another's."""
    timeline = run(TINY.replace(sms=1), [[bulk_copy([0])]], [[bulk_wait()]])
    assert pictures(timeline)[1] == " S"


def test_a_block_waits_for_its_start_and_then_for_its_copy() -> None:
    """BULK, G3 and I7: five cycles of start, in which no warp can wait for anything."""
    timeline = run(TINY.replace(block_start=5), [[bulk_copy([0])], [bulk_wait()]])
    assert pictures(timeline)[1] == "-----" + "L" * 251 + "S"


def test_a_copy_does_not_hold_up_the_requests_of_others() -> None:
    """BULK and M3: the port serves in the order of arrival; the copy asks for 32 pieces between 3 and 65.

    A load that is issued at 1 is in the port from 2 on and takes 200 cycles, whatever comes after it.
    """
    timeline = run(TINY, [[bulk_copy(range(256))], [op(OpClass.INT), load([2048])]])
    assert issues(timeline, 1)[1] == (1, 1, 201)


def test_a_long_copy_shares_the_port_with_stores() -> None:
    """BULK and M3: a store issued at 20 is accepted long before the copy has asked for all of its pieces at 512."""
    wait = chain(5)
    timeline = run_cached(TINY, [[bulk_copy(range(2048))], [*wait, store([4096], 4), FENCE, fp32()]])
    membar = pictures(timeline)[1].count("F")
    # Out at 22, plus half a cycle per request of the copy that happens to be in the port, and back after 98 cycles.
    assert 98 <= membar <= 100


def test_a_fence_waits_for_bulk_copies() -> None:
    """M8 and BULK: all accesses before the fence are through."""
    assert pictures(run(TINY, [[bulk_copy([0]), FENCE, fp32()]])) == ["SS" + "F" * 249 + "Swww"]


def test_pieces_of_64_bytes() -> None:
    """BULK and M6: sectors 1 and 2 lie in two bursts of 64 bytes, as for a load."""
    gpu = TINY.replace(dram_granule="64 B")
    assert run(gpu, [[load([1, 2])]]).kernels[0].dram_read_bytes == 128
    assert run(gpu, [[bulk_copy([1, 2])]]).kernels[0].dram_read_bytes == 128


# Tensor cores -------------------------------------------------------------------------------------------------------


def test_tensor_instructions_keep_their_interval() -> None:
    """TENSOR: 16 × 8 × 16 multiply-adds at 256 a cycle are 8 cycles; the result comes after 20."""
    assert pictures(run(TINY, [[tensor(), tensor(), fp32(0)]])) == ["S" + "P" * 7 + "S" + "w" * 11 + "S" + "w" * 7]
    assert issues(run(TINY, [[tensor(), tensor(0)]])) == [(0, 0, 20), (1, 20, 40)]


@pytest.mark.parametrize(
    ("of", "shape", "interval"),
    [
        ("fp16", (16, 8, 8), 4),
        ("bf16", (16, 8, 16), 8),
        ("tf32", (16, 8, 8), 8),
        ("int8", (16, 8, 32), 8),
        ("fp8", (16, 8, 32), 8),
        ("fp64", (8, 8, 4), 16),
        ("fp16", (8, 8, 4), 1),
        ("int8", (8, 8, 4), 1),  # half a cycle's work takes a cycle: one instruction per scheduler and cycle
    ],
)
def test_the_interval_is_multiply_adds_over_rate(of: str, shape: tuple[int, int, int], interval: int) -> None:
    """TENSOR: twenty instructions are apart by m n k over the type's rate."""
    program = [tensor(shape=shape, of=of)] * 20
    assert [at for _, at, _ in issues(run(TINY, [program]))] == [interval * n for n in range(20)]


def test_a_large_shape_takes_its_own_time_at_least() -> None:
    """TENSOR: 16 × 8 × 16 at 16 a cycle are 128 cycles, more than the latency of 20."""
    assert issues(run(TINY, [[tensor(of="fp64"), fp32(0)]])) == [(0, 0, 128), (1, 128, 132)]


def test_a_shape_that_divides_unevenly_keeps_its_mean() -> None:
    """TENSOR and I5: 8 × 8 × 6 at 256 a cycle are one and a half cycles."""
    program = [tensor(shape=(8, 8, 6))] * 64
    assert [at for _, at, _ in issues(run(TINY, [program]))] == [(3 * n + 1) // 2 for n in range(64)]


def test_every_sub_partition_has_its_tensor_core() -> None:
    """TENSOR: two warps on two sub-partitions do not meet; on one they do, and types share the core."""
    program = [tensor(), tensor()]
    assert [issues(run(TINY, [program] * 2), n)[1][1] for n in (0, 1)] == [8, 8]
    mixed = run(TINY.replace(sub_partitions=1), [[tensor()], [tensor(of="int8", shape=(16, 8, 32))]])
    assert [issues(mixed, n)[0][1] for n in (0, 1)] == [0, 8]


def test_the_tensor_utilization() -> None:
    """TENSOR: eight cycles of work in twenty active cycles of one of two sub-partitions."""
    assert run(TINY, [[tensor()]]).kernels[0].pipe_utilization == {"tensor": 8 / 40}


# What a GPU does not have -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gpu", "of"), [("v100-sxm2", "bf16"), ("t4", "tf32"), ("a100-sxm-80gb", "fp8"), ("rtx-3090", "fp64")]
)
def test_types_that_a_gpu_does_not_multiply(gpu: str, of: str) -> None:
    """TENSOR: refused before anything is simulated, with the GPU and the type."""
    with pytest.raises(TraceError, match=f"type {of}: .*compute capability .* has no tensor cores for it"):
        simulate(load_gpu(gpu), [trace([[tensor(of=of)]])])


@pytest.mark.parametrize("gpu", ["v100-sxm2", "t4"])
def test_asynchronous_copies_need_8_0(gpu: str) -> None:
    """ASYNC: refused with the GPU and the compute capability that has them."""
    kernel = trace([[async_copy([0]), async_wait(0)]])
    with pytest.raises(TraceError, match=r"async_copy instructions.*copies from global to shared memory need 8\.0"):
        simulate(load_gpu(gpu), [kernel])
    simulate(load_gpu("a100-sxm-80gb"), [kernel])


@pytest.mark.parametrize("gpu", ["a100-sxm-80gb", "rtx-4090", "t4"])
def test_bulk_copies_need_9_0(gpu: str) -> None:
    """BULK: refused, also if the kernel comes second."""
    kernel = trace([[bulk_copy([0]), bulk_wait()]])
    with pytest.raises(TraceError, match=r"bulk_copy instructions.*bulk copies need 9\.0"):
        simulate(load_gpu(gpu), [trace([chain(1)]), kernel])
    simulate(load_gpu("h100-sxm"), [kernel])


# Sustained rates ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sustained", "parts"),
    [("1", 64), ("2/3", 96), ("1/2", 128), ("4/5", 80), ("64/65", 65), ("1/3", 192)],
)
def test_a_sustained_rate_is_kept_exactly(sustained: str, parts: int) -> None:
    """I5: instruction n of 64 independent ones issues when n intervals of parts / 64 cycles are over, rounded up."""
    program = [fp32()] * 64
    timeline = run(TINY.replace(fp32_sustained=sustained), [program])
    assert [at for _, at, _ in issues(timeline)] == [-(-n * parts // 64) for n in range(64)]
    assert timeline.kernels[0].pipe_utilization["fp32"] == 64 * parts / 64 / (2 * timeline.kernels[0].cycles)


def test_a_pipe_that_idled_does_not_catch_up() -> None:
    """I5: after a pause the mean holds anew; at most the fraction of a cycle before the first is made up."""
    program = [fp32(), fp32(), op(OpClass.SFU), *[fp32(2)] * 33]
    cycles = [at for _, at, _ in issues(run(TINY.replace(fp32_sustained="2/3"), [program]))]
    assert cycles[:4] == [0, 2, 3, 23]
    assert 48 - 1 <= cycles[-1] - cycles[3] <= 48

"""Branches as regions in block style: only their threads execute, arithmetic included."""

import numpy as np
import pytest

import gpusim_des as gs


@gs.block_kernel
def two_sides(blk: gs.Block, a: gs.DeviceArray, out: gs.DeviceArray) -> None:
    x = blk.load(a, blk.tid)
    with blk.branch(blk.lane < 8) as taken:
        y = x * 2
    with taken.orelse:
        z = (x + 1) * 3
        z = z - 4
    blk.store(out, blk.tid, np.where(taken, y, z))


def test_arithmetic_counts_for_the_threads_of_its_side() -> None:
    """8 lanes multiply, the other 24 add, multiply and subtract: (x + 1) * 3 - 4 is an addition and a multiply-add."""
    dev = gs.Device("tiny")
    a = dev.to_device(np.arange(32, dtype=np.float32))
    out = dev.malloc(32, np.float32)

    launch = dev.launch(two_sides, 1, 32, a, out)

    x = np.arange(32, dtype=np.float32)
    assert np.array_equal(dev.to_host(out), np.where(x < 8, x * 2, (x + 1) * 3 - 4))
    stream = launch.trace.block(0)[0].stream
    assert stream.lanes[stream.ops == 1].tolist() == [8, 24, 24]
    c = launch.counters
    assert (c.branches, c.divergent_branches) == (1, 1)
    others = 32 * (c.warp_instructions - 3)
    assert c.active_lanes == others + 8 + 24 + 24


@gs.block_kernel
def one_warp_works(blk: gs.Block, a: gs.DeviceArray) -> None:
    v = blk.load(a, blk.tid)
    with blk.branch(blk.warp == 0) as first:
        for _ in range(50):
            v += 1
    blk.store(a, blk.tid, v, mask=first)


def test_warps_outside_of_a_region_do_not_pay() -> None:
    dev = gs.Device("tiny")
    a = dev.to_device(np.zeros(128, np.float32))

    launch = dev.launch(one_warp_works, 1, 128, a)

    assert launch.counters.instruction_mix["fp32"] == 50
    assert dev.to_host(a).tolist() == [50.0] * 32 + [0.0] * 96


@gs.block_kernel
def updated_in_place(blk: gs.Block, out: gs.DeviceArray) -> None:
    v = blk.tid * 1
    with blk.branch(blk.tid % 2 == 0):
        v += 100
        with blk.branch(blk.tid < 4) as inner:
            v += 1000
        with inner.orelse:
            v += 5000
    blk.store(out, blk.tid, v)


def test_in_place_updates_leave_the_other_threads_alone_and_regions_nest() -> None:
    dev = gs.Device("tiny")
    out = dev.malloc(8, np.int32)

    launch = dev.launch(updated_in_place, 1, 8, out)

    assert dev.to_host(out).tolist() == [1100, 1, 1102, 3, 5104, 5, 5106, 7]
    assert launch.counters.branches == 2
    assert launch.counters.divergent_branches == 2


@gs.block_kernel
def merged_value(blk: gs.Block, out: gs.DeviceArray) -> None:
    v = blk.tid * 3
    with blk.branch(blk.tid < 32):
        v += 1
    blk.store(out, blk.tid, v)


def test_a_merged_value_depends_on_what_each_warp_executed() -> None:
    """Warp 0 ran both producers, and its store reads the second only; warp 1 ran the first one only."""
    dev = gs.Device("tiny")
    out = dev.malloc(64, np.int32)
    first, second = dev.launch(merged_value, 1, 64, out, count="auto").trace.block(0)

    # Both: 0 product, 1 compare, 2 branch; warp 0: 3 addition, 4 address, 5 store; warp 1: 3 address, 4 store.
    assert [first.stream.depends_on(k) for k in range(6)] == [(), (), (1,), (0,), (), (3, 4)]
    assert [second.stream.depends_on(k) for k in range(5)] == [(), (), (1,), (), (0, 3)]


@gs.block_kernel
def else_of_some(blk: gs.Block, out: gs.DeviceArray) -> None:
    taken = blk.branch(blk.tid % 2 == 0, mask=blk.tid < 8)
    blk.store(out, blk.tid, 1, mask=taken)
    blk.store(out, blk.tid, 2, mask=~taken)


def test_the_other_side_respects_the_outer_mask() -> None:
    dev = gs.Device("tiny")
    out = dev.to_device(np.zeros(32, np.int32))
    dev.launch(else_of_some, 1, 32, out)
    assert dev.to_host(out).tolist() == [1, 2] * 4 + [0] * 24


@gs.block_kernel
def memory_in_a_region(blk: gs.Block, a: gs.DeviceArray) -> None:
    with blk.branch(blk.tid < 4):
        blk.store(a, blk.tid, blk.load(a, blk.tid) + 1)


def test_memory_operations_in_a_region_are_masked() -> None:
    dev = gs.Device("tiny")
    a = dev.to_device(np.zeros(4, np.float32))
    launch = dev.launch(memory_in_a_region, 1, 64, a)  # threads 4 to 63 would be out of bounds
    assert dev.to_host(a).tolist() == [1.0] * 4
    assert launch.counters.global_load_requests == 1


@gs.block_kernel
def wrong_join(blk: gs.Block, out: gs.DeviceArray) -> None:
    v = blk.tid * np.float32(1)
    with blk.branch(blk.tid < 4):
        v = v + 1  # a new value: poison for the threads that did not compute it
    blk.store(out, blk.tid, v)


def test_a_value_of_a_region_is_poison_outside() -> None:
    dev = gs.Device("tiny")
    out = dev.malloc(8, np.float32)
    dev.launch(wrong_join, 1, 8, out)
    assert np.isnan(dev.to_host(out)[4:]).all()
    assert dev.to_host(out)[:4].tolist() == [1, 2, 3, 4]


def test_a_barrier_in_a_region_is_a_deadlock() -> None:
    def kernel(blk: gs.Block) -> None:
        with blk.branch(blk.tid < 32):
            blk.sync()

    with pytest.raises(gs.DeadlockError, match=r"32 of 64 threads never reach it \(warps 1, first thread 32\)"):
        gs.Device("tiny").launch(gs.block_kernel(kernel), 1, 64)


def test_the_region_ends_with_an_error() -> None:
    def kernel(blk: gs.Block, out: gs.DeviceArray) -> None:
        try:
            with blk.branch(blk.tid < 1):
                raise LookupError
        except LookupError:
            pass
        blk.store(out, blk.tid, 7)

    dev = gs.Device("tiny")
    out = dev.malloc(32, np.int32)
    dev.launch(gs.block_kernel(kernel), 1, 32, out)
    assert dev.to_host(out).tolist() == [7] * 32


# Multiply-adds ------------------------------------------------------------------------------------------------------


def mix_of(body: object, dtype: type = np.float32) -> dict[str, int]:
    def kernel(blk: gs.Block, a: gs.DeviceArray) -> None:
        x = blk.load(a, blk.tid)
        blk.store(a, blk.tid, body(x))  # type: ignore[operator]

    dev = gs.Device("tiny")
    a = dev.to_device(np.arange(32).astype(dtype))
    mix = dict(dev.launch(gs.block_kernel(kernel), 1, 32, a).counters.instruction_mix)
    return {k: n for k, n in mix.items() if k in {"fp32", "fp64"}}


def test_a_product_that_is_added_is_one_instruction() -> None:
    assert mix_of(lambda x: x * 2 + 1) == {"fp32": 1}
    assert mix_of(lambda x: 1 - x * 2) == {"fp32": 1}
    assert mix_of(lambda x: x * x + x * 3) == {"fp32": 2}  # the left product is absorbed, the right one stays
    assert mix_of(lambda x: x * 2 + 1, np.float64) == {"fp64": 1}


def test_a_product_that_somebody_else_reads_stays() -> None:
    def twice(x: gs.functional.lanes.Lanes) -> object:
        product = x * 2
        return (product + 1) * product  # the multiply-add needs no product, the multiplication does

    assert mix_of(twice) == {"fp32": 3}


def test_sums_are_no_products() -> None:
    assert mix_of(lambda x: x + 1 + 2) == {"fp32": 2}

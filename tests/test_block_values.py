"""Per-thread values in block style: indices, element types, arithmetic and what each operator costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpusim_des as gs

Array = np.ndarray[Any, Any]


@gs.block_kernel
def who_am_i(blk: gs.Block, out: gs.DeviceArray) -> None:
    block = (blk.bz * blk.gdy + blk.by) * blk.gdx + blk.bx
    row = block * (blk.bdx * blk.bdy * blk.bdz) + blk.tid
    for column, value in enumerate(
        [blk.tx, blk.ty, blk.tz, blk.bx, blk.by, blk.bz, blk.tid, blk.lane, blk.warp, blk.bdx, blk.bdy, blk.bdz]
    ):
        blk.store(out, (row, column), value)


@pytest.mark.parametrize(
    ("grid", "block"),
    [(3, 40), ((2, 3), (5, 4)), ((3, 2, 2), (4, 3, 2)), ((1, 1, 5), (1, 2, 9)), (np.int64(2), np.int32(33))],
)
def test_names_of_threads_and_blocks(grid: Any, block: Any) -> None:
    gx, gy, gz = (*grid, 1, 1)[:3] if isinstance(grid, tuple) else (grid, 1, 1)
    x, y, z = (*block, 1, 1)[:3] if isinstance(block, tuple) else (block, 1, 1)
    expected = []
    for bz in range(gz):
        for by in range(gy):
            for bx in range(gx):
                for tid, (tz, ty, tx) in enumerate(np.ndindex(int(z), int(y), int(x))):
                    expected.append([tx, ty, tz, bx, by, bz, tid, tid % 32, tid // 32, x, y, z])
    dev = gs.Device("h100-sxm")
    out = dev.malloc((len(expected), 12), np.int32)
    dev.launch(who_am_i, grid, block, out)
    assert dev.to_host(out).tolist() == expected


@gs.block_kernel
def transpose(blk: gs.Block, a: gs.DeviceArray, b: gs.DeviceArray) -> None:
    x, y = blk.bx * blk.bdx + blk.tx, blk.by * blk.bdy + blk.ty
    rows, columns = a.shape
    m = (x < columns) & (y < rows)
    blk.store(b, (x, y), blk.load(a, (y, x), mask=m), mask=m)


def test_two_dimensional_arrays() -> None:
    dev = gs.Device("h100-sxm")
    host = np.arange(50 * 70, dtype=np.float32).reshape(50, 70)
    a, b = dev.to_device(host), dev.malloc((70, 50))
    dev.launch(transpose, (9, 7), (8, 8), a, b)
    assert np.array_equal(dev.to_host(b), host.T)


@gs.block_kernel
def by_flat_index(blk: gs.Block, a: gs.DeviceArray) -> None:
    blk.store(a, blk.tid, blk.tid)


def test_a_flat_index_reaches_a_two_dimensional_array() -> None:
    dev = gs.Device("h100-sxm")
    a = dev.malloc((3, 8), np.int32)
    dev.launch(by_flat_index, 1, 24, a)
    assert dev.to_host(a).tolist() == np.arange(24).reshape(3, 8).tolist()


@gs.block_kernel
def one_index_or_three(blk: gs.Block, a: gs.DeviceArray, index: int) -> None:
    blk.load(a, blk.tid if index == 1 else (blk.tid, 0, 0))


def test_every_further_dimension_costs_a_multiply_add() -> None:
    dev = gs.Device("h100-sxm")
    a = dev.malloc((32, 2, 2))
    for dimensions in (1, 3):
        mix = dev.launch(one_index_or_three, 1, 32, a, dimensions).counters.instruction_mix
        assert mix == {"int": dimensions, "global_load": 1, "exit": 1}


@gs.block_kernel
def far_away(blk: gs.Block, a: gs.DeviceArray, out: gs.DeviceArray) -> None:
    row = blk.tid + 46_318
    blk.store(a, (row, 7), blk.tid)
    blk.store(out, blk.tid, blk.load(a, 46_350 * row.astype(np.int64) + 7))


@pytest.mark.slow
def test_an_array_of_more_elements_than_a_32_bit_number_counts() -> None:
    dev = gs.Device("h100-sxm")
    a, out = dev.malloc((46_350, 46_350), np.int8), dev.malloc(32, np.int8)
    launch = dev.launch(far_away, 1, 32, a, out)
    assert dev.to_host(out).tolist() == list(range(32))
    sectors = launch.trace.block(0)[0].sectors(0)
    assert sectors.tolist() == [(a.address + 46_350 * (46_318 + t) + 7) // 32 for t in range(32)]


def evaluate(compute: Callable[[Any], Any], values: Array, result: Any = None) -> tuple[Array, dict[str, int]]:
    """Results of ``compute(x)`` for one thread per value, and its instructions per warp."""

    def kernel(blk: gs.Block, a: gs.DeviceArray, out: gs.DeviceArray) -> None:
        blk.store(out, blk.tid, compute(blk.load(a, blk.tid)))

    dev = gs.Device("h100-sxm")
    a, out = dev.to_device(values), dev.malloc(len(values), result or values.dtype)
    mix = dev.launch(gs.block_kernel(kernel), 1, len(values), a, out).counters.instruction_mix
    frame = {"int": 2, "global_load": 1, "global_store": 1, "exit": 1}  # two addresses around the computation
    warps = gs.cdiv(len(values), 32)
    assert all(n % warps == 0 for n in mix.values())
    return dev.to_host(out), {
        name: n // warps - frame.get(name, 0) for name, n in mix.items() if n != warps * frame.get(name, 0)
    }


@pytest.mark.parametrize(
    ("dtype", "addition", "product"),
    [
        (np.float16, {"fp16": 1}, {"fp16": 1}),
        (np.float32, {"fp32": 1}, {"fp32": 1}),
        (np.float64, {"fp64": 1}, {"fp64": 1}),
        (np.int8, {"int": 1}, {"int": 1}),
        (np.int32, {"int": 1}, {"int": 1}),
        (np.int64, {"int": 2}, {"int": 3}),
        (np.complex128, {"fp64": 2}, {"fp64": 4}),
    ],
)
def test_element_types(dtype: Any, addition: dict[str, int], product: dict[str, int]) -> None:
    values = (np.arange(64) % 11).astype(dtype)
    total, mix = evaluate(lambda x: x + x, values)
    assert (total.tolist(), mix) == ([2 * (k % 11) for k in range(64)], addition)
    assert total.dtype == dtype
    square, mix = evaluate(lambda x: x * x, values)
    assert (square.tolist(), mix) == ([(k % 11) ** 2 for k in range(64)], product)


def test_complex_numbers() -> None:
    values = np.array([1 + 2j, 3 - 1j] * 16)
    assert evaluate(lambda x: x * x, values)[0].tolist() == [-3 + 4j, 8 - 6j] * 16
    assert evaluate(np.absolute, values, np.float64)[0][:2].tolist() == [5**0.5, 10**0.5]


def test_whole_numbers_wrap_around() -> None:
    top = np.full(32, 2**31 - 1, np.int32)
    assert evaluate(lambda x: x + 1, top)[0].tolist() == [-(2**31)] * 32
    assert evaluate(lambda x: x * 2, top)[0].tolist() == [-2] * 32
    assert evaluate(lambda x: x + 1, np.full(32, 127, np.int8))[0].tolist() == [-128] * 32


@pytest.mark.parametrize(
    ("compute", "expected", "mix"),
    [
        (lambda x: x // 32, [k // 32 for k in range(100, 132)], {"int": 1}),
        (lambda x: x % 32, [k % 32 for k in range(100, 132)], {"int": 1}),
        (lambda x: x // 10, [k // 10 for k in range(100, 132)], {"int": 3}),
        (lambda x: x % np.int32(10), [k % 10 for k in range(100, 132)], {"int": 3}),
        (lambda x: 1000 // x, [1000 // k for k in range(100, 132)], {"int": 12, "conversion": 2, "sfu": 1}),
        (lambda x: x % x, [0] * 32, {"int": 12, "conversion": 2, "sfu": 1}),
    ],
)
def test_division_of_whole_numbers(compute: Any, expected: list[int], mix: dict[str, int]) -> None:
    values = np.arange(100, 132, dtype=np.int32)
    result, counted = evaluate(compute, values)
    assert (result.tolist(), counted) == (expected, mix)


@pytest.mark.parametrize(
    ("compute", "mix"),
    [
        (lambda x: x / 3, {"sfu": 1, "fp32": 7}),
        (np.sqrt, {"sfu": 1, "fp32": 7}),
        (np.floor, {"conversion": 1}),
        (lambda x: -x, {"int": 1}),
        (lambda x: np.maximum(x, 3), {"int": 1}),
        (lambda x: np.where(x < 10, x, 0), {"int": 2}),
        (lambda x: 2 * x + 1, {"fp32": 1}),
    ],
)
def test_floats(compute: Any, mix: dict[str, int]) -> None:
    values = np.arange(32, dtype=np.float32)
    result, counted = evaluate(compute, values)
    assert np.array_equal(result, compute(values).astype(np.float32))
    assert counted == mix


def test_conversions() -> None:
    values = np.arange(32, dtype=np.int32)
    result, mix = evaluate(lambda x: x.astype(np.float32) * 0.5, values, np.float32)
    assert (result.tolist(), mix) == ([k / 2 for k in range(32)], {"conversion": 1, "fp32": 1})
    assert evaluate(lambda x: x.astype(np.int32), values)[1] == {}
    assert evaluate(lambda x: x.astype(np.int64), values, np.int64)[1] == {"int": 1}
    halves = np.arange(32, dtype=np.float32) / 2
    result, mix = evaluate(lambda x: x.astype(np.int32), halves, np.int32)
    assert (result.tolist(), mix) == ([k // 2 for k in range(32)], {"conversion": 1})


def test_a_store_converts_to_the_element_type() -> None:
    result, mix = evaluate(lambda x: x, np.arange(32, dtype=np.int32), np.float32)
    assert (result.tolist(), mix) == ([float(k) for k in range(32)], {"conversion": 1})


def test_no_arithmetic_exceptions() -> None:
    """A GPU raises none: it makes infinities and NaN."""
    zeros = np.zeros(32, np.float32)
    assert evaluate(lambda x: (x + 1) / x, zeros)[0].tolist() == [np.inf] * 32
    assert np.isnan(evaluate(lambda x: x / x, zeros)[0]).all()
    assert evaluate(lambda x: 1e300, zeros)[0].tolist() == [np.inf] * 32
    assert evaluate(lambda x: (x + 1e30) * 1e30, zeros)[0].tolist() == [np.inf] * 32


def test_augmented_assignment_makes_a_new_value() -> None:
    def compute(x: Any) -> Any:
        old = x
        x += 1
        return x * 100 + old

    assert evaluate(compute, np.arange(32, dtype=np.int32))[0].tolist() == [101 * k + 100 for k in range(32)]


@gs.block_kernel
def threads_below(blk: gs.Block, a: gs.DeviceArray, out: gs.DeviceArray, limit: int) -> None:
    x = blk.load(a, blk.bx * blk.bdx + blk.tx)
    some, every = (x < limit).any(), (x < limit).all()
    blk.store(out, (blk.bx, 0), some)
    blk.store(out, (blk.bx, 1), every)


def test_any_and_all_of_a_block() -> None:
    dev = gs.Device("h100-sxm")
    a, out = dev.to_device(np.arange(4 * 48, dtype=np.int32)), dev.malloc((4, 2), np.bool_)
    launch = dev.launch(threads_below, 4, 48, a, out, 100)
    assert dev.to_host(out).tolist() == [[True, True], [True, True], [True, False], [False, False]]
    assert launch.counters.branches == 4 * 2 * 2, "two questions in two warps of four blocks"
    assert launch.counters.divergent_branches == 0


@gs.block_kernel
def masked_arithmetic(blk: gs.Block, a: gs.DeviceArray) -> None:
    x = blk.load(a, blk.tid, mask=blk.tid < 8)
    y = blk.load(a, blk.tid, mask=blk.tid >= 40)
    blk.store(a, blk.tid, 2 * x, mask=blk.tid < 8)
    blk.store(a, blk.tid, x + y, mask=blk.tid >= 40)


def test_arithmetic_runs_where_its_operands_mean_something() -> None:
    dev = gs.Device("h100-sxm")
    a = dev.to_device(np.arange(64, dtype=np.float32))
    launch = dev.launch(masked_arithmetic, 1, 64, a)
    assert dev.to_host(a).tolist() == [*range(0, 16, 2), *range(8, 64)]
    first, second = launch.trace.block(0)
    fp32 = 1  # OpClass.FP32
    assert first.stream.lanes[first.stream.ops == fp32].tolist() == [8, 8]  # 2 * x, then x + y for the lanes of x
    assert second.stream.lanes[second.stream.ops == fp32].tolist() == [24]


@gs.block_kernel
def branch_of_some(blk: gs.Block, a: gs.DeviceArray) -> None:
    taken = blk.branch(blk.tid % 2 == 0, mask=blk.tid < 8)
    blk.store(a, blk.tid, 1, mask=taken)


def test_a_branch_returns_the_threads_that_take_it() -> None:
    dev = gs.Device("h100-sxm")
    a = dev.to_device(np.zeros(64, np.int32))
    launch = dev.launch(branch_of_some, 1, 64, a)
    assert dev.to_host(a).nonzero()[0].tolist() == [0, 2, 4, 6]
    assert (launch.counters.branches, launch.counters.divergent_branches) == (1, 1)


@gs.block_kernel
def same_cell(blk: gs.Block, a: gs.DeviceArray) -> None:
    blk.store(a, blk.tid // 32, blk.bx * 100 + blk.tid, mask=blk.tid != 63)


def test_of_several_writers_the_highest_thread_wins() -> None:
    dev = gs.Device("h100-sxm")
    a = dev.malloc(2, np.int32)
    dev.launch(same_cell, 3, 64, a)
    assert dev.to_host(a).tolist() == [231, 262]


def test_records() -> None:
    kind = np.dtype([("x", "f4"), ("y", "f4"), ("z", "f4")])
    records = np.array([(k, 2 * k, 3 * k) for k in range(40)], kind)
    dev = gs.Device("h100-sxm")
    a, b = dev.to_device(records), dev.malloc(40, kind)

    @gs.block_kernel
    def copy(blk: gs.Block, a: gs.DeviceArray, b: gs.DeviceArray) -> None:
        m = blk.tid < 40
        blk.store(b, blk.tid, blk.load(a, blk.tid, mask=m), mask=m)

    counters = dev.launch(copy, 1, 64, a, b).counters
    assert dev.to_host(b).tolist() == records.tolist()
    assert counters.global_load_sectors == 12 + 3  # 32 records are 384 bytes, the other 8 are 96
    assert counters.global_load_bytes_requested == 480

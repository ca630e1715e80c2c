"""Block style: atomics, shuffles and votes."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpusim_des as gs


def run(body: Any, out: np.ndarray[Any, Any], threads: int = 32, blocks: int = 1) -> tuple[np.ndarray[Any, Any], Any]:
    def kernel(blk: gs.Block, out: gs.DeviceArray) -> None:
        body(blk, out)

    dev = gs.Device("tiny")
    array = dev.to_device(out)
    launch = dev.launch(gs.block_kernel(kernel), blocks, threads, array)
    return dev.to_host(array), launch.counters


def test_atomics_return_the_old_value() -> None:
    """x = [10, 0]; x[1] = atomic add of 1 to x[0]."""

    def body(blk: gs.Block, x: gs.DeviceArray) -> None:
        old = blk.atomic_add(x, 0, 1, mask=blk.tid == 0)
        blk.store(x, 1, old, mask=blk.tid == 0)

    assert run(body, np.array([10, 0], np.int32))[0].tolist() == [11, 10]


@pytest.mark.parametrize(
    ("name", "expected", "old"),
    [
        ("atomic_add", 5 + sum(range(32)), [5 + k * (k - 1) // 2 for k in range(32)]),
        ("atomic_max", 31, [5] * 7 + list(range(6, 31))),
        ("atomic_min", 0, [5] + [0] * 31),
        ("atomic_exch", 31, [5, *range(31)]),
    ],
)
def test_atomics_of_a_warp_on_one_element(name: str, expected: int, old: list[int]) -> None:
    def body(blk: gs.Block, out: gs.DeviceArray) -> None:
        got = getattr(blk, name)(out, 32, blk.tid)
        blk.store(out, blk.tid, got)

    result, counters = run(body, np.full(33, 5, np.int32))

    assert result[32] == expected
    assert result[:32].tolist() == old
    assert (counters.global_atomic_requests, counters.global_atomic_sectors) == (1, 1)
    assert (counters.thread_atomics, counters.atomic_serialization) == (32, 32)


def test_compare_and_swap_lets_one_thread_win() -> None:
    def body(blk: gs.Block, out: gs.DeviceArray) -> None:
        old = blk.atomic_cas(out, 0, 0, blk.tid + 1)
        blk.store(out, blk.tid + 1, old)

    result, _ = run(body, np.zeros(33, np.int32))
    assert result.tolist() == [1, 0] + [1] * 31


def test_shared_atomics_make_a_histogram() -> None:
    def body(blk: gs.Block, out: gs.DeviceArray) -> None:
        bins = blk.shared(4, np.int32)
        blk.sstore(bins, blk.tid, 0, mask=blk.tid < 4)
        blk.sync()
        blk.atomic_add(bins, blk.tid % 3, 1)
        blk.sync()
        blk.atomic_add(out, blk.tid, blk.sload(bins, blk.tid, mask=blk.tid < 4), mask=blk.tid < 4)

    result, counters = run(body, np.zeros(4, np.int32), threads=64, blocks=3)

    assert result.tolist() == [66, 63, 63, 0]
    assert counters.shared_atomic_requests == 6
    # Per block and warp: the store, the atomic (11 lanes on one bin), the load of warp 0 only.
    assert counters.shared_wavefronts == 3 * (1 + 11 + 11 + 1)


@given(
    st.lists(st.integers(0, 4), min_size=32, max_size=32), st.sampled_from(["atomic_add", "atomic_max", "atomic_min"])
)
def test_atomics_equal_a_loop_over_the_threads(index: list[int], name: str) -> None:
    def body(blk: gs.Block, out: gs.DeviceArray) -> None:
        got = getattr(blk, name)(out, np.array(index, np.int32), blk.tid * 3 % 7)
        blk.store(out, blk.tid + 8, got)

    result, _ = run(body, np.full(40, 2, np.int32))

    cells, old = [2] * 5, []
    for thread, cell in enumerate(index):
        value = thread * 3 % 7
        old.append(cells[cell])
        cells[cell] = {
            "atomic_add": cells[cell] + value,
            "atomic_max": max(cells[cell], value),
            "atomic_min": min(cells[cell], value),
        }[name]
    assert result[:5].tolist() == cells
    assert result[8:].tolist() == old


@pytest.mark.parametrize(
    ("name", "argument", "source"),
    [
        ("shfl", 3, lambda k: 3),
        ("shfl", 35, lambda k: 3),
        ("shfl_up", 2, lambda k: k - 2 if k >= 2 else k),
        ("shfl_down", 2, lambda k: k + 2 if k + 2 < 32 else k),
        ("shfl_xor", 5, lambda k: k ^ 5),
    ],
)
def test_shuffles(name: str, argument: int, source: Any) -> None:
    def body(blk: gs.Block, out: gs.DeviceArray) -> None:
        blk.store(out, blk.tid, getattr(blk, name)(blk.tid * 10, argument))

    result, counters = run(body, np.zeros(64, np.int32), threads=64)
    assert result.tolist() == [10 * (32 * w + source(k)) for w in range(2) for k in range(32)]
    assert counters.instruction_mix["shuffle"] == 2


def test_a_shuffle_in_a_part_filled_warp_and_under_a_mask() -> None:
    def body(blk: gs.Block, out: gs.DeviceArray) -> None:
        blk.store(out, blk.tid, blk.shfl_down(blk.tid, 1, mask=blk.tid % 4 != 2))

    result, _ = run(body, np.zeros(6, np.int32), threads=6)
    # 0 reads 1; 1 and 5 find no active neighbour; 2 does not take part; 3 reads 4; 4 reads 5.
    assert result.tolist() == [1, 1, 2, 4, 5, 5]


def test_votes() -> None:
    def body(blk: gs.Block, out: gs.DeviceArray) -> None:
        some = blk.tid < 40
        blk.store(out, (0, blk.tid), blk.ballot(blk.tid % 2 == 0, mask=some))
        blk.store(out, (1, blk.tid), blk.activemask(mask=some))
        blk.store(out, (2, blk.tid), blk.any(blk.tid == 39, mask=some))
        blk.store(out, (3, blk.tid), blk.all(blk.tid < 33, mask=some))

    result, counters = run(body, np.zeros((4, 64), np.uint32), threads=64)
    assert result[0, [0, 32]].tolist() == [0x55555555, 0x55]
    assert result[1, [0, 32]].tolist() == [0xFFFFFFFF, 0xFF]
    assert result[2, [0, 32]].tolist() == [0, 1]
    assert result[3, [0, 32]].tolist() == [1, 0]
    assert counters.instruction_mix["vote"] == 8


def test_warp_barriers_and_fences_are_instructions() -> None:
    def body(blk: gs.Block, out: gs.DeviceArray) -> None:
        blk.syncwarp()
        blk.threadfence(mask=blk.tid < 1)

    _, counters = run(body, np.zeros(1, np.int32), threads=64)
    assert (counters.instruction_mix["vote"], counters.instruction_mix["fence"]) == (2, 1)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (lambda blk, out: blk.shfl_down(blk.tid, -1), r"shfl_down delta = -1 .*at least 0"),
        (lambda blk, out: blk.ballot(blk.tid), "ballot of a value of type int32 .*truth value"),
        (lambda blk, out: blk.atomic_add([0], 0, 1), "atomic_add .* on a list: give an array in global or shared"),
        (lambda blk, out: blk.atomic_add(out, 9, 1), r"atomic_add on 'out' .*index 9 is outside 0…7"),
    ],
)
def test_wrong_calls(body: Any, message: str) -> None:
    with pytest.raises(gs.KernelError, match=message):
        run(body, np.zeros(8, np.int32))

"""Every error in a kernel names the value, the rule and the remedy; afterwards the device works as before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpusim_des as gs
from tests.kernels import Body, assert_usable, kernel_of, line_of

HERE = Path(__file__).name


@pytest.fixture
def dev() -> gs.Device:
    return gs.Device("h100-sxm")


# Indices --------------------------------------------------------------------------------------------------------------


@gs.block_kernel
def reads_behind(blk: gs.Block, data: gs.DeviceArray) -> None:
    i = blk.bx * blk.bdx + blk.tx
    blk.load(data, i)


@gs.block_kernel
def writes_before(blk: gs.Block, data: gs.DeviceArray, result: gs.DeviceArray) -> None:
    i = blk.bx * blk.bdx + blk.tx
    x = blk.load(data, i)
    blk.store(
        result,
        i - 5,
        x,
    )


def test_index_behind_the_end(dev: gs.Device) -> None:
    a = dev.malloc(100, name="host_name")
    message = (
        rf"^reads_behind: load of 'data' in line {line_of(reads_behind, 2)} of {HERE}: index 100 is outside 0…99 "
        r"\(block \(3, 0, 0\), thread \(4, 0, 0\); 28 threads of these blocks outside\); "
        r"keep such threads out with a mask, for example mask=i < 100$"
    )
    with pytest.raises(gs.BoundsError, match=message):
        dev.launch(reads_behind, 4, 32, a)
    with pytest.raises(IndexError):
        dev.launch(reads_behind, 4, 32, a)
    assert_usable(dev)


def test_index_before_the_start(dev: gs.Device) -> None:
    a, result = dev.malloc(128), dev.malloc(128)
    message = (
        rf"writes_before: store to 'result' in line {line_of(writes_before, 3)} of {HERE}: index -5 is outside 0…127 "
        r"\(block \(0, 0, 0\), thread \(0, 0, 0\); 5 threads .*mask=i >= 0 "
        r"\(a negative index does not count from the end on a GPU\)"
    )
    with pytest.raises(gs.BoundsError, match=message):
        dev.launch(writes_before, 4, 32, a, result)
    assert_usable(dev)


def test_names_the_block_and_thread_in_three_dimensions(dev: gs.Device) -> None:
    def k(blk: gs.Block, data: gs.DeviceArray) -> None:
        wrong = (blk.bx == 1) & (blk.by == 2) & (blk.ty == 3) & (blk.tz == 1) & (blk.tx == 2)
        blk.load(data, np.where(wrong, 77, 0))

    with pytest.raises(gs.BoundsError, match=r"77 .*\(block \(1, 2, 0\), thread \(2, 3, 1\); 1 thread of these"):
        dev.launch(gs.block_kernel(k), (2, 3), (4, 4, 2), dev.malloc(10))


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ((0, 8), r"index 8 of dimension 1 \(shape \(2, 8\)\) is outside 0…7"),
        ((0, -1), r"index -1 of dimension 1 \(shape \(2, 8\)\) is outside 0…7"),
        ((2, 0), r"index 2 of dimension 0 \(shape \(2, 8\)\) is outside 0…1"),
        ((2**29, 0), r"index 536,870,912 of dimension 0"),
        (16, "index 16 is outside 0…15"),
    ],
)
@pytest.mark.parametrize("memory", ["load of 'data'", "shared load of 'tile'"])
def test_index_outside_of_a_row(dev: gs.Device, index: Any, message: str, memory: str) -> None:
    """An index beyond its row must not reach the next one, and a large one must not wrap around."""

    def k(blk: gs.Block, data: gs.DeviceArray) -> None:
        parts = index if isinstance(index, tuple) else (index,)
        place: Any = tuple(blk.tx * 0 + part for part in parts)
        if memory.startswith("shared"):
            blk.sload(blk.shared((2, 8), name="tile"), place)
        else:
            blk.load(data, place)

    with pytest.raises(gs.BoundsError, match=f"k: {memory} in line .*{message}"):
        dev.launch(gs.block_kernel(k), 1, 32, dev.malloc((2, 8)))


def test_threads_outside_of_the_mask_may_have_any_index(dev: gs.Device) -> None:
    a = dev.to_device(np.zeros((2, 8), np.float32))

    def k(blk: gs.Block, data: gs.DeviceArray) -> None:
        blk.store(data, (blk.tx - 3, 5 - blk.tx), 1, mask=(blk.tx >= 3) & (blk.tx < 5))

    dev.launch(gs.block_kernel(k), 1, 32, a)
    assert dev.to_host(a).nonzero()[1].tolist() == [2, 1]


def test_number_of_indices(dev: gs.Device) -> None:
    a = dev.malloc((2, 3, 4))
    with pytest.raises(gs.KernelError, match=r"2 indices in line .* shape \(2, 3, 4\): give 3, or one flat index"):
        dev.launch(kernel_of(lambda blk: blk.load(a, (0, 0))), 1, 32)


def test_an_index_that_is_no_whole_number(dev: gs.Device) -> None:
    a = dev.malloc(8, name="a")
    message = r"load of 'a' in line .* index of type float32: indices are integers; convert with .astype\(np.int32\)"
    with pytest.raises(gs.KernelError, match=message):
        dev.launch(kernel_of(lambda blk: blk.load(a, blk.tx.astype(np.float32))), 1, 8)
    with pytest.raises(gs.KernelError, match="index of type bool"):
        dev.launch(kernel_of(lambda blk: blk.load(a, blk.tx == 0)), 1, 8)
    assert_usable(dev)


# Operations in kernels ------------------------------------------------------------------------------------------------


def wrong_memory(blk: gs.Block) -> object:
    tile: Any = blk.shared(32, name="tile")
    return blk.load(tile, 0)


CASES: dict[str, tuple[Body, type[Exception], str]] = {
    "short mask": (
        lambda blk: blk.sync(mask=np.ones(5, bool)),
        gs.MaskError,
        r"k: line \d+ of .* array of shape \(5,\) per thread: the block has 64 threads, .* shape \(64,\)",
    ),
    "mask of numbers": (
        lambda blk: blk.compute(1, mask=blk.tid),
        gs.MaskError,
        "k: mask of type int32 in line .*: a mask holds truth values, for example i < n",
    ),
    "condition of numbers": (
        lambda blk: blk.branch(blk.tid),
        gs.MaskError,
        "k: condition of type int32 in line .*: a condition holds truth values",
    ),
    "mask is a list": (lambda blk: blk.compute(1, mask=[True]), gs.KernelError, "computes with a list: per-thread"),
    "operand of another length": (
        lambda blk: blk.tid + np.arange(5),
        gs.MaskError,
        r"array of shape \(5,\) per thread: the block has 64 threads",
    ),
    "operand is text": (lambda blk: blk.tid + "1", gs.KernelError, "computes with a str: per-thread values, numbers"),
    "condition per thread": (
        lambda blk: 1 if blk.tid < 3 else 0,
        gs.KernelError,
        r"k: line \d+ .* differs from thread to thread as a condition; .* pass the condition as mask=.*any\(\) or .all",
    ),
    "and": (lambda blk: (blk.tid > 1) and (blk.tid < 3), gs.KernelError, "thread to thread as a condition"),
    "loop bound per thread": (lambda blk: range(blk.tid), gs.KernelError, "thread to thread as an index or a loop"),
    "number per thread": (lambda blk: float(blk.tid), gs.KernelError, "thread to thread as a number"),
    "loop bound that is no whole number": (
        lambda blk: range(blk.bx * 1.5),
        TypeError,
        r"0.0 is no whole number: convert it with int\(\) first",
    ),
    "sum over threads": (lambda blk: np.sum(blk.tid), gs.KernelError, "np.sum in line .* not .* one thread can do"),
    "reduction": (lambda blk: np.add.reduce(blk.tid), gs.KernelError, "np.add.reduce in line .* ufuncs and np.where"),
    "matrix product": (lambda blk: blk.tid @ blk.tid, gs.KernelError, "np.matmul in line .* one thread can do"),
    "two results": (lambda blk: divmod(blk.tid, 2), gs.KernelError, "np.divmod .two results"),
    "out=": (lambda blk: np.add(1, 2, out=blk.tid), gs.KernelError, "np.add with out in line"),
    "where=": (lambda blk: np.add(blk.tid, 2, where=True), gs.KernelError, "np.add with where in line"),
    "plain array": (
        lambda blk: np.asarray(blk.tid),
        gs.KernelError,
        r"k: line \d+ of .* turns a per-thread value into a plain array, which would no longer be counted; keep it",
    ),
    "complex to real": (
        lambda blk: (blk.tid * 1j).astype(np.float32),
        gs.KernelError,
        "complex64 value into float32, which would drop its imaginary part: .*np.absolute",
    ),
    "load from shared memory": (
        wrong_memory,
        gs.KernelError,
        "load in line .* from a SharedArray: .* use sload and sstore for shared memory",
    ),
    "load from a list": (
        lambda blk: blk.load([1], 0),
        gs.KernelError,
        "load in line .* from a list: global memory is reached through arrays made by dev.to_device or dev.malloc",
    ),
    "sload from a list": (
        lambda blk: blk.sload([1], 0),
        gs.KernelError,
        r"sload in line .* from a list: shared memory is declared with blk.shared\(shape, dtype\)",
    ),
    "shuffle by less than 0": (
        lambda blk: blk.shfl_down(blk.tid, -1),
        gs.KernelError,
        "shfl_down delta = -1 in line .*: must be a whole number of lanes, at least 0",
    ),
    "shuffle by a fraction": (
        lambda blk: blk.shfl_down(blk.tid, 0.5),
        gs.KernelError,
        "shfl_down delta = 0.5 in line .*: must be a whole number of lanes",
    ),
    "unknown operation": (
        lambda blk: blk.compute(1, op="fp128"),
        gs.KernelError,
        "compute op 'fp128' in line .*: possible are int, fp32, fp64, fp16, conversion, sfu",
    ),
    "less than no operations": (
        lambda blk: blk.compute(-1),
        gs.KernelError,
        "compute n = -1 in line .*: must be a whole number of instructions, at least 0",
    ),
    "compute on a number": (
        lambda blk: blk.compute(1, value=3.0),
        gs.KernelError,
        "compute value = 3.0 in line .*: a per-thread value, such as blk.load returns",
    ),
    "shared array of no words": (
        lambda blk: blk.shared(0),
        gs.KernelError,
        "k: shared array of shape 0 in line .*: sizes are whole numbers of at least 1",
    ),
    "shared array of a fraction": (lambda blk: blk.shared((2, 1.5)), gs.KernelError, r"shape \(2, 1.5\) in line"),
    "shared array of objects": (
        lambda blk: blk.shared(4, object, name="tile"),
        gs.KernelError,
        "k: shared array 'tile' of type object: shared memory holds numbers, truth values and records",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_wrong_operations(dev: gs.Device, case: str) -> None:
    body, error, message = CASES[case]
    with pytest.raises(error, match=message):
        dev.launch(kernel_of(body), 2, 64)
    assert_usable(dev)


def test_a_value_of_another_launch(dev: gs.Device) -> None:
    kept: list[Any] = []
    dev.launch(kernel_of(lambda blk: kept.append(blk.tid)), 1, 32)
    uses: list[Body] = [
        lambda blk: blk.tid + kept[0],
        lambda blk: blk.compute(1, value=kept[0]),
        lambda blk: blk.sync(mask=kept[0] == 0),
    ]
    for use in uses:
        with pytest.raises(gs.KernelError, match=r"k: line \d+ of .* uses a value of another launch"):
            dev.launch(kernel_of(use), 1, 32)


# Shared memory and barriers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "dynamic", "message"),
    [
        (
            58_113,
            0,
            r"brings the block to 232,452 bytes of shared memory \(0 of them dynamic\): this GPU allows 232,448",
        ),
        (
            58_111,
            8,
            r"brings the block to 232,452 bytes of shared memory \(8 of them dynamic\): this GPU allows 232,448",
        ),
        (10**12, 0, "4,000,000,000,000 bytes of shared memory .*use a smaller tile or a smaller element type"),
    ],
)
def test_too_much_shared_memory(dev: gs.Device, words: int, dynamic: int, message: str) -> None:
    with pytest.raises(gs.LaunchError, match="k: shared array 'tile' .*" + message):
        dev.launch(kernel_of(lambda blk: blk.shared(words, name="tile")), 1, 32, dynamic_shared=dynamic)
    assert_usable(dev)


def test_shared_memory_up_to_the_limit(dev: gs.Device) -> None:
    launch = dev.launch(kernel_of(lambda blk: blk.shared(12_288, name="tile")), 1, 32, dynamic_shared=183_296)
    assert launch.trace.shared_bytes == 232_448
    assert launch.counters.shared_bytes_per_block == 49_152


def test_arrays_of_shared_memory_add_up(dev: gs.Device) -> None:
    def two(blk: gs.Block) -> None:
        blk.shared(1, np.int8)
        blk.shared(6_000)
        blk.shared(6_288, name="second")

    message = r"'second' of shape \(6288,\) brings static shared memory to 49,156 bytes"
    with pytest.raises(gs.LaunchError, match=message):
        dev.launch(gs.block_kernel(two), 1, 32)


@gs.block_kernel
def barrier_in_a_branch(blk: gs.Block) -> None:
    blk.sync(mask=(blk.bx != 2) | (blk.tid < 70) | (blk.warp == 4))


def test_a_barrier_that_threads_miss(dev: gs.Device) -> None:
    message = (
        r"barrier_in_a_branch: block \(2, 0, 0\) waits forever at the barrier in "
        rf"line {line_of(barrier_in_a_branch, 1)} of {HERE}: "
        r"90 of 192 threads never reach it \(warps 2-3, 5, first thread 70\); "
        "a barrier must be reached by all threads of the block, so move it out of the branch"
    )
    with pytest.raises(gs.DeadlockError, match=message):
        dev.launch(barrier_in_a_branch, 4, 192)
    assert_usable(dev)


def test_a_failed_launch_is_not_simulated(dev: gs.Device) -> None:
    with pytest.raises(gs.DeadlockError):
        dev.launch(barrier_in_a_branch, 4, 192)
    assert dev.launches == []


def test_an_error_of_the_user_passes_through(dev: gs.Device) -> None:
    def own(blk: gs.Block) -> None:
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match=r"^mine$"):
        dev.launch(gs.block_kernel(own), 1, 32)
    assert_usable(dev)

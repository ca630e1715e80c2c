"""Many blocks at once are the same as block by block, also where Python control flow depends on the block."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpusim_des as gs
from gpusim_des.functional import executor

Array = np.ndarray[Any, Any]


def observe(launch: gs.Launch) -> tuple[dict[str, Any], list[Any]]:
    """Counters, and for every warp of every block what it did."""
    warps = [
        (
            warp.stream.ops.tolist(),
            warp.stream.lanes.tolist(),
            warp.stream.lines.tolist(),
            [warp.stream.depends_on(k) for k in range(len(warp.stream))],
            [warp.sectors(k).tolist() for k in range(len(warp.bases))],
            warp.footprint.quarter_cycles.tolist(),
        )
        for block in launch.trace
        for warp in block
    ]
    return dict(vars(launch.counters)), warps


def run(
    kernel: gs.BlockKernel,
    grid: int,
    block: int,
    arrays: Sequence[Array],
    *args: Any,
    at_once: int,
    most_instructions: int = executor.CHUNK_INSTRUCTIONS,
    count: str = "auto",
) -> tuple[list[Array], tuple[dict[str, Any], list[Any]]]:
    """Launch with `at_once` blocks in flight; returns the arrays afterwards and what was observed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(executor, "CHUNK_THREADS", at_once * block)
        patch.setattr(executor, "CHUNK_INSTRUCTIONS", most_instructions)
        dev = gs.Device("h100-sxm")
        on_device = [dev.to_device(a) for a in arrays]
        launch = dev.launch(kernel, grid, block, *on_device, count=count)  # type: ignore[arg-type]
        return [dev.to_host(a) for a in on_device], observe(launch)


def check_same(kernel: gs.BlockKernel, grid: int, block: int, arrays: Sequence[Array]) -> list[Array]:
    alone, seen_alone = run(kernel, grid, block, arrays, at_once=1)
    for at_once, most in ((2, executor.CHUNK_INSTRUCTIONS), (grid, executor.CHUNK_INSTRUCTIONS), (grid, 30)):
        together, seen = run(kernel, grid, block, arrays, at_once=at_once, most_instructions=most)
        assert [a.tobytes() for a in together] == [a.tobytes() for a in alone]
        assert seen[0] == seen_alone[0]
        assert seen[1] == seen_alone[1]
    return alone


@gs.block_kernel
def increment_then_decide(blk: gs.Block, a: gs.DeviceArray) -> None:
    i = blk.bx * blk.bdx + blk.tx
    blk.store(a, i, blk.load(a, i) + 1)
    if blk.bx % 3 == 1:
        blk.store(a, i, blk.load(a, i) * 10)
    elif blk.bx == 5:
        blk.store(a, i, -1)


def test_writes_of_an_abandoned_try_are_undone() -> None:
    (result,) = check_same(increment_then_decide, 7, 40, [np.arange(280, dtype=np.int32)])
    by_block = [lambda k: k + 1, lambda k: 10 * (k + 1), lambda k: k + 1, lambda k: k + 1, lambda k: 10 * (k + 1)]
    expected = [by_block[k // 40](k) for k in range(200)] + [-1] * 40 + [k + 1 for k in range(240, 280)]
    assert result.tolist() == expected


@gs.block_kernel
def write_twice_then_decide(blk: gs.Block, a: gs.DeviceArray, seen: gs.DeviceArray) -> None:
    blk.store(seen, (blk.bx, blk.tx), blk.load(a, blk.bx))
    blk.store(a, blk.bx, blk.tx)  # many threads, one element
    blk.store(a, blk.bx, 7, mask=blk.tx == 0)
    if blk.bx == 1:
        blk.sync()


def test_several_writes_to_one_element_are_undone_in_reverse() -> None:
    a, seen = check_same(write_twice_then_decide, 3, 32, [np.array([5, 6, 8], np.int32), np.zeros((3, 32), np.int32)])
    assert a.tolist() == [7, 7, 7]
    assert seen.tolist() == [[5] * 32, [6] * 32, [8] * 32]


@gs.block_kernel
def trips(blk: gs.Block, a: gs.DeviceArray) -> None:
    for k in range(blk.bx):
        blk.store(a, (blk.bx, blk.tx), k + int(blk.bx))


def test_loops_as_long_as_the_block_says() -> None:
    (result,) = check_same(trips, 4, 32, [np.zeros((4, 32), np.int32)])
    assert result[:, 0].tolist() == [0, 1, 3, 5]


@gs.block_kernel
def not_a_number(blk: gs.Block, a: gs.DeviceArray) -> None:
    root = np.sqrt(blk.bx - 1.5)
    blk.store(a, blk.bx, 1.0 if float(root) != float(root) else 2.0)


def test_blocks_may_agree_on_nan() -> None:
    (result,) = check_same(not_a_number, 4, 32, [np.zeros(4, np.float32)])
    assert result.tolist() == [1, 1, 2, 2]


@gs.block_kernel
def until_small(blk: gs.Block, a: gs.DeviceArray) -> None:
    i = blk.bx * blk.bdx + blk.tx
    x: Any = blk.load(a, i)
    while (x >= 10).any():
        x = np.where(x >= 10, x // 2, x)
    blk.store(a, i, x)


def test_loops_as_long_as_the_data_says() -> None:
    (result,) = check_same(until_small, 5, 33, [np.arange(165, dtype=np.int32) ** 2])
    expected = []
    for k in range(165):
        x = k * k
        while x >= 10:
            x //= 2
        expected.append(x)
    assert result.tolist() == expected


def test_progress_counts_every_block_once() -> None:
    heard: list[tuple[int, int]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(executor, "CHUNK_THREADS", 3 * 32)
        dev = gs.Device("h100-sxm")
        a = dev.malloc(7 * 32, np.int32)
        dev.launch(increment_then_decide, 7, 32, a, progress=lambda done, of: heard.append((done, of)))
    assert heard == [(3, 7), (6, 7), (7, 7)]


@gs.kernel
def many_steps(t: Any, a: Any, steps: int) -> None:
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    for _ in range(steps):
        a[i] = a[i] + 1


@pytest.mark.parametrize("grid", [1, 7, 8])
def test_a_long_kernel_runs_fewer_blocks_at_once(grid: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a chunk's blocks, and half of those, until their instructions fit; a block alone always does."""
    monkeypatch.setattr(executor, "CHUNK_THREADS", 4 * 32)
    monkeypatch.setattr(executor, "CHUNK_INSTRUCTIONS", 400)
    heard: list[int] = []
    dev = gs.Device("h100-sxm")
    a = dev.to_device(np.arange(grid * 32, dtype=np.int32))
    launch = dev.launch(many_steps, grid, 32, a, 20, progress=lambda done, _: heard.append(done))
    assert dev.to_host(a).tolist() == list(range(20, grid * 32 + 20))
    per_warp = launch.counters.warp_instructions // grid
    assert 100 < per_warp < 200  # four warps are too many, two are not
    assert heard == {1: [1], 7: [4, 6, 7], 8: [4, 6, 8]}[grid]
    assert launch.trace.rows(0, 4)[1].tolist() == list(range(min(2, grid)))


@gs.block_kernel
def use_a_tile(blk: gs.Block, a: gs.DeviceArray, out: gs.DeviceArray, stride: int, shift: int, left_out: int) -> None:
    """Blocks use the same places of their tiles where `shift` is 0, all threads or all but some."""
    tile, i = blk.shared(512, np.float32), blk.bx * blk.bdx + blk.tid
    m = blk.tid % 5 != left_out
    place = blk.tid * stride if not shift else blk.tid * stride + blk.bx * shift
    blk.sstore(tile, blk.tid, blk.load(a, i))
    blk.pipeline_memcpy_async(tile, place, a, i, mask=m)
    blk.pipeline_commit()
    blk.pipeline_wait_prior(0)
    blk.sync()
    blk.atomic_add(tile, place // 4, 1.0, mask=m)
    blk.store(out, i, blk.sload(tile, place) + blk.sload(tile, place, mask=m))


@pytest.mark.parametrize("left_out", [9, 2])
@pytest.mark.parametrize(("stride", "shift"), [(1, 0), (8, 0), (3, 2)])
@pytest.mark.parametrize("threads", [64, 47])
def test_one_block_stands_for_all_that_use_the_same_places(
    stride: int, shift: int, left_out: int, threads: int
) -> None:
    def kernel(blk: gs.Block, a: gs.DeviceArray, out: gs.DeviceArray) -> None:
        use_a_tile.function(blk, a, out, stride, shift, left_out)

    data = np.arange(5 * threads, dtype=np.float32)
    check_same(gs.block_kernel(kernel), 5, threads, [data, np.zeros_like(data)])


# Random kernels -------------------------------------------------------------------------------------------------------

Step = tuple[Any, ...]
SIZE = 500


def interpreter(steps: list[Step]) -> gs.BlockKernel:
    """Make a kernel of a list of operations; every block writes only its own rows of `tally` and `out`."""

    @gs.block_kernel
    def random_kernel(blk: Any, a: Any, tally: Any, out: Any) -> None:
        state: dict[str, Any] = {"v": blk.tid * 3 + blk.bx, "m": None, "tile": blk.shared(blk.bdx, np.int32)}
        blk.sstore(state["tile"], blk.tid, 0)
        blk.sync()
        interpret(blk, a, tally, steps, state)
        blk.store(out, (blk.bx, blk.tid), state["v"], mask=state["m"])

    return random_kernel


def interpret(blk: Any, a: Any, tally: Any, steps: list[Step], s: dict[str, Any]) -> None:
    for name, *rest in steps:
        if name == "if":
            modulus, body, other = rest
            interpret(blk, a, tally, body if blk.bx % modulus == 0 else other, s)
        elif name == "loop":
            modulus, body = rest
            for _ in range(blk.bx % modulus):
                interpret(blk, a, tally, body, s)
        elif name == "while":
            left = (s["v"] % 16).astype(np.int32)
            while (left > rest[0]).any():
                left = left // 2
                s["v"] = s["v"] + left
        else:
            straight(blk, a, tally, name, rest, s)


def straight(blk: Any, a: Any, tally: Any, name: str, numbers: list[int], s: dict[str, Any]) -> None:
    """Run one operation without control flow."""
    if name == "load":
        stride, offset = numbers
        s["v"] = s["v"] + blk.load(a, (blk.tid * stride + blk.bx * 7 + offset) % SIZE, mask=s["m"])
    elif name == "multiply":
        s["v"] = s["v"] * numbers[0] + blk.lane
    elif name == "divide":
        s["v"] = np.where(blk.tid % 2 == 0, s["v"] // numbers[0], s["v"])
    elif name == "mask":
        s["m"] = (blk.tid + blk.bx) % numbers[0] != 0
    elif name == "unmask":
        s["m"] = None
    elif name == "increment":
        mine = (blk.bx, blk.tid)
        blk.store(tally, mine, blk.load(tally, mine, mask=s["m"]) + 1, mask=s["m"])
    elif name == "exchange":
        blk.sstore(s["tile"], blk.tid, s["v"], mask=s["m"])
        blk.sync()
        s["v"] = blk.sload(s["tile"], (blk.tid * numbers[0] + 1) % blk.bdx)
        blk.sync()


class PlainBlock:
    """One block on plain NumPy arrays: right results, nothing counted."""

    def __init__(self, bx: int, threads: int) -> None:
        self.bx, self.bdx = np.int32(bx), threads
        self.tid = np.arange(threads, dtype=np.int32)
        self.lane = self.tid % 32

    @staticmethod
    def shared(size: int, dtype: Any) -> Array:
        return np.zeros(size, dtype)

    def load(self, array: Array, index: Any, mask: Any = None) -> Array:
        on = np.ones(self.bdx, bool) if mask is None else mask
        return np.where(on, array[index], 0)

    def store(self, array: Array, index: Any, value: Any, mask: Any = None) -> None:
        on = np.ones(self.bdx, bool) if mask is None else mask
        array[index] = np.where(on, value, array[index])

    sload, sstore = load, store

    def sync(self) -> None:
        pass


small = st.integers(1, 9)
plain_steps = st.one_of(
    st.tuples(st.just("load"), st.integers(0, 40), st.integers(0, SIZE)),
    st.tuples(st.just("multiply"), small),
    st.tuples(st.just("divide"), small),
    st.tuples(st.just("mask"), st.sampled_from([1, 2, 3, 40])),
    st.just(("unmask",)),
    st.just(("increment",)),
    st.tuples(st.just("exchange"), small),
    st.tuples(st.just("while"), st.integers(0, 9)),
)


def with_control(body: st.SearchStrategy[list[Step]]) -> st.SearchStrategy[list[Step]]:
    branch = st.tuples(st.just("if"), st.integers(1, 4), body, body)
    loop = st.tuples(st.just("loop"), st.integers(1, 4), body)
    return st.lists(st.one_of(plain_steps, branch, loop), max_size=5)


all_steps = with_control(with_control(st.lists(plain_steps, max_size=4)))


@settings(max_examples=40, deadline=None)
@given(all_steps, st.integers(1, 6), st.sampled_from([1, 7, 32, 48, 70]))
def test_random_kernels_run_at_once_as_they_run_alone(steps: list[Step], grid: int, block: int) -> None:
    host = (np.arange(SIZE, dtype=np.int32) * 37) % 101 + 1
    kernel, zeros = interpreter(steps), np.zeros((grid, block), np.int32)
    _, tally, out = check_same(kernel, grid, block, [host, zeros, zeros])
    expected_tally, expected_out = zeros.copy(), zeros.copy()
    for bx in range(grid):
        with np.errstate(over="ignore"):
            kernel.function(PlainBlock(bx, block), host, expected_tally, expected_out)
    assert tally.tolist() == expected_tally.tolist()
    assert out.tolist() == expected_out.tolist()


@settings(max_examples=20, deadline=None)
@given(all_steps)
def test_declared_counts_are_those_of_auto_without_the_operators(steps: list[Step]) -> None:
    host = np.arange(SIZE, dtype=np.int32) % 9
    arrays = [host, np.zeros((3, 48), np.int32), np.zeros((3, 48), np.int32)]
    _, (auto, _) = run(interpreter(steps), 3, 48, arrays, at_once=3)
    _, (declared, _) = run(interpreter(steps), 3, 48, arrays, at_once=3, count="declared")
    of_instructions = {"warp_instructions", "active_lanes", "instruction_mix", "branches", "lines"}
    of_instructions |= {
        "idle_warps",
        *(f"{what}_instructions" for what in ("idle_warp", "lone_warp", "behind_barrier")),
    }
    for name in auto:
        if name not in of_instructions:
            assert declared[name] == auto[name], name
    operators = {"int", "conversion", "sfu", "branch", "exit"}

    def declared_only(mix: Counter[str]) -> dict[str, int]:
        return {label: count for label, count in mix.items() if label not in operators}

    assert declared_only(auto["instruction_mix"]) == declared["instruction_mix"]
    for site, counts in declared["lines"].items():
        assert declared_only(auto["lines"][site].instruction_mix) == declared_only(counts.instruction_mix)

"""What kernels in Numba's style can ask for, in both ways of running: worked out by hand, or held against NumPy."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpusim_des as gs
from gpusim_des import cuda
from gpusim_des.cuda import blockIdx, grid, laneid, threadIdx
from gpusim_des.functional import number_functions, warp_groups
from gpusim_des.functional.scalar_meetings import meet_lanes
from gpusim_des.functional.scalar_steps import Meeting
from gpusim_des.functional.source import UNKNOWN

BOTH = pytest.mark.parametrize("vectorize", [True, False])
TABLE = np.arange(12, dtype=np.float32).reshape(3, 4)


def run(kernel: Any, size: Any, blocks: Any, *arrays: Any, vectorize: bool = True, **options: Any) -> gs.Launch:
    """Launch on arrays that are copied in and back."""
    dev = gs.Device("tiny")
    copies = [dev.to_device(x) if isinstance(x, np.ndarray) else x for x in arrays]
    done = dev.launch(kernel, blocks, size, *copies, vectorize=vectorize, **options)
    for x, copy in zip(arrays, copies, strict=True):
        if isinstance(x, np.ndarray):
            x[...] = dev.to_host(copy)
    return done


@cuda.jit
def names_without_a_module(out: Any) -> None:
    i = grid(1)
    out[i, 0] = threadIdx.x
    out[i, 1] = blockIdx.x
    out[i, 2] = laneid


@BOTH
def test_names_can_be_imported_one_by_one(vectorize: bool) -> None:
    out = np.zeros((80, 3), np.int32)
    run(names_without_a_module, 40, 2, out, vectorize=vectorize)
    assert out[0].tolist() == [0, 0, 0]
    assert out[79].tolist() == [39, 1, 7]


@cuda.jit
def grids(out: Any) -> None:
    x, y, z = cuda.grid(3)
    nx, ny, nz = cuda.gridsize(3)
    out[z, y, x] = nx * 10000 + ny * 100 + nz + cuda.gridDim.y + cuda.blockDim.z


@BOTH
def test_grids_of_three_dimensions(vectorize: bool) -> None:
    """A grid of 1 × 2 × 2 blocks of 3 × 2 × 1 threads."""
    out = np.zeros((2, 4, 3), np.int64)
    run(grids, (3, 2, 1), (1, 2, 2), out, vectorize=vectorize)
    assert set(out.ravel().tolist()) == {30402 + 2 + 1}


# Local arrays -------------------------------------------------------------------------------------------------------


@cuda.jit
def in_registers(a: Any, out: Any) -> None:
    i = cuda.grid(1)
    mine = cuda.local.array(3, np.float32)
    for k in range(3):
        mine[k] = a[i]
    out[i] = mine[0] + mine[1] + mine[2]


@cuda.jit
def in_memory(a: Any, out: Any) -> None:
    i = cuda.grid(1)
    mine = cuda.local.array(3, np.float32)
    for k in range(3):
        mine[k] = a[i]
    out[i] = mine[i % 3]


@BOTH
def test_local_arrays_cost_nothing_where_all_indices_are_constants(vectorize: bool) -> None:
    """One block of 32 threads: three loads of ``a`` and a store to ``out``, each a request."""
    a, out = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    counters = run(in_registers, 32, 1, a, out, vectorize=vectorize).counters
    assert out.tolist() == [3.0 * k for k in range(32)]
    assert (counters.global_load_requests, counters.global_store_requests) == (3, 1)


@BOTH
def test_local_arrays_are_in_memory_where_an_index_is_none(vectorize: bool) -> None:
    """Three stores and a load more, with the lanes side by side: 4 sectors a store; the load meets three elements.

    Element k of lane l is number 32 k + l: lanes of the same remainder by 3 share an element, so that all four sectors
    of three lines are touched.
    """
    a, out = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    counters = run(in_memory, 32, 1, a, out, vectorize=vectorize).counters
    assert out.tolist() == list(range(32))
    mine = counters.by_array()["mine"]
    assert (mine.requests, mine.sectors, mine.threads) == (4, 3 * 4 + 12, 4 * 32)


@cuda.jit
def a_matrix_of_its_own(out: Any) -> None:
    i = cuda.grid(1)
    mine = cuda.local.array((2, 3), np.int32)
    for row in range(2):
        for column in range(3):
            mine[row, column] = 10 * row + column + i
    line = mine[i % 2]
    out[i] = line[-1] + mine[-1, 0]


@BOTH
def test_local_arrays_of_two_dimensions_and_their_rows(vectorize: bool) -> None:
    out = np.zeros(4, np.int64)
    run(a_matrix_of_its_own, 4, 1, out, vectorize=vectorize)
    assert out.tolist() == [(2 if i % 2 == 0 else 12) + i + 10 + i for i in range(4)]


@cuda.jit
def fresh(out: Any) -> None:
    mine = cuda.local.array(1, np.float64)
    out[cuda.grid(1)] = mine[0]


@BOTH
def test_fresh_local_memory_is_poison(vectorize: bool) -> None:
    out = np.zeros(3)
    run(fresh, 3, 1, out, vectorize=vectorize)
    assert np.isnan(out).all()


# Constants ----------------------------------------------------------------------------------------------------------


@cuda.jit
def looks_up(out: Any) -> None:
    i = cuda.grid(1)
    table = cuda.const.array_like(TABLE)
    out[i] = table[i % 3, 1] + TABLE[2, i % 4]


@BOTH
def test_constant_arrays_are_read_where_they_stand(vectorize: bool) -> None:
    out = np.zeros(12, np.float32)
    counters = run(looks_up, 12, 1, out, vectorize=vectorize).counters
    assert out.tolist() == [float(TABLE[i % 3, 1] + TABLE[2, i % 4]) for i in range(12)]
    assert counters.by_array()["constant 1"].requests == 2


@cuda.jit
def writes_constants(out: Any) -> None:
    cuda.const.array_like(TABLE)[0, 0] = 1


HUGE = np.zeros(20_000)


@cuda.jit
def reads_too_much(out: Any) -> None:
    out[0] = cuda.const.array_like(HUGE)[0]


# Shared memory ------------------------------------------------------------------------------------------------------


@cuda.jit
def two_types_of_one_memory(out: Any) -> None:
    words = cuda.shared.array(0, dtype=np.uint32)
    small = cuda.shared.array(0, dtype=np.uint8)
    t = cuda.threadIdx.x
    words[t] = 0x01020304 + t
    cuda.syncthreads()
    out[t] = small[4 * t] + 256 * small[4 * t + 3]


@BOTH
def test_dynamic_shared_arrays_are_one_memory(vectorize: bool) -> None:
    out = np.zeros(4, np.int64)
    run(two_types_of_one_memory, 4, 1, out, vectorize=vectorize, dynamic_shared=16)
    assert out.tolist() == [4 + t + 256 for t in range(4)]


@cuda.jit(device=True)
def sum_of_block(value: Any) -> Any:
    line = cuda.shared.array(64, np.int64)
    line[cuda.threadIdx.x] = value
    cuda.syncthreads()
    total = 0
    for k in range(cuda.blockDim.x):
        total += line[k]
    cuda.syncthreads()
    return total


@cuda.jit
def sums_twice(out: Any) -> None:
    t = cuda.threadIdx.x
    line = cuda.shared.array(64, np.int64)
    line[t] = sum_of_block(t)
    line[t] += sum_of_block(2 * t)
    out[t] = line[t]


@BOTH
def test_device_functions_have_shared_arrays_and_barriers_of_their_own(vectorize: bool) -> None:
    out = np.zeros(8, np.int64)
    done = run(sums_twice, 8, 1, out, vectorize=vectorize)
    assert out.tolist() == 8 * [28 + 56]
    assert done.counters.shared_bytes_per_block == 2 * 64 * 8  # one array of the function, however often it is called
    assert done.counters.barriers == 4


# Lanes --------------------------------------------------------------------------------------------------------------


@cuda.jit
def all_agree(values: Any, out: Any) -> None:
    t = cuda.threadIdx.x
    mask, same = cuda.match_all_sync(cuda.activemask(), values[t])
    out[t, 0] = mask
    out[t, 1] = same


@BOTH
def test_lanes_that_have_one_value(vectorize: bool) -> None:
    out = np.zeros((20, 2), np.int64)
    run(all_agree, 20, 1, np.full(20, 7), out, vectorize=vectorize)
    assert set(map(tuple, out.tolist())) == {(0xFFFFF, 1)}


@cuda.jit
def not_in_its_mask(out: Any) -> None:
    out[cuda.grid(1)] = cuda.ballot_sync(0xFFFE, True)


NAMES = ["ballot", "any", "all", "eq", "match_any", "match_all", "shfl", "shfl_up", "shfl_down", "shfl_xor"]


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(NAMES),
    values=st.lists(st.integers(0, 3), min_size=32, max_size=32),
    cuts=st.lists(st.integers(0, 2), min_size=32, max_size=32),
    active=st.lists(st.booleans(), min_size=32, max_size=32).filter(any),
    other=st.integers(0, 40),
)
def test_groups_of_lanes_equal_the_interpreters(
    name: str, values: list[int], cuts: list[int], active: list[bool], other: int
) -> None:
    """Three groups of lanes, each with the mask of its own: arrays for all warps, dictionaries for one."""
    masks = [sum(1 << k for k in range(32) if cuts[k] == cuts[lane]) for lane in range(32)]
    rows, on = np.array([values]), np.array([active])
    members = np.array([masks], np.uint32)
    shuffle, match = name.startswith("shfl"), name.startswith("match")
    if shuffle:
        mine = warp_groups.shuffled(name, rows, np.full((1, 32), other), members, on)[0]
    else:
        mine = warp_groups.voted(name, rows if match else rows > 1, members, on)[0]
    arguments: dict[int, dict[str, Any]] = {
        lane: {"value": values[lane], "other": other, "members": masks[lane]}
        if shuffle
        else {("value" if match else "predicate"): values[lane] if match else values[lane] > 1, "members": masks[lane]}
        for lane in range(32)
        if active[lane]
    }
    theirs = meet_lanes({lane: Meeting((), name, UNKNOWN, asked) for lane, asked in arguments.items()})
    assert [int(mine[lane]) for lane in arguments] == [int(x) for x in theirs]


# Numbers ------------------------------------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(x=st.integers(-(2**63), 2**63 - 1), bits=st.sampled_from([32, 64]))
def test_functions_of_bits_equal_pythons(x: int, bits: int) -> None:
    text = format(x % 2**bits, f"0{bits}b")
    number = np.array([int(text, 2)], f"u{bits // 8}")
    signed = number.view(f"i{bits // 8}")
    for array in (number, signed):
        assert int(number_functions.popc(array)[0]) == text.count("1")
        assert int(number_functions.clz(array)[0]) == len(text) - len(text.lstrip("0"))
        assert int(number_functions.ffs(array)[0]) == (len(text) - len(text.rstrip("0")) + 1 if "1" in text else 0)
        assert int(number_functions.brev(array)[0]) == int(text[::-1], 2)


def exact(a: float, b: float, c: float) -> float:
    """``a * b + c`` rounded once, by fractions."""
    return float(Fraction(a) * Fraction(b) + Fraction(c))


@settings(max_examples=200, deadline=None)
@given(
    a=st.floats(-1e100, 1e100, allow_subnormal=False),
    b=st.floats(-1e100, 1e100, allow_subnormal=False),
    c=st.floats(-1e100, 1e100, allow_subnormal=False),
)
def test_a_fused_multiply_add_is_rounded_once(a: float, b: float, c: float) -> None:
    """To the last digit, or its neighbour where the exact sum lies halfway; tiny products lose digits on the way."""
    if 0 < abs(a * b) < 1e-200:
        return
    fused = float(number_functions.fma(np.float64(a), np.float64(b), np.float64(c)))
    assert abs(fused - exact(a, b, c)) <= math.ulp(exact(a, b, c))


@cuda.jit
def functions(x: Any, out: Any) -> None:
    i = cuda.grid(1)
    v = x[i]
    out[i, 0] = cuda.fma(v, v, -1.0)
    out[i, 1] = cuda.cbrt(v)
    out[i, 2] = math.erf(v) + math.lgamma(v + 2.5)
    out[i, 3] = math.copysign(2.0, v - 0.5)
    out[i, 4] = abs(complex(v, 2 * v))
    out[i, 5] = math.pow(v, 2) + round(v) + math.floor(v)


@BOTH
def test_functions_of_numbers(vectorize: bool) -> None:
    x = np.array([0.25, 1.5, 3.0])
    out = np.zeros((3, 6))
    run(functions, 3, 1, x, out, vectorize=vectorize)
    wanted = [
        [
            v * v - 1,
            v ** (1 / 3),
            math.erf(v) + math.lgamma(v + 2.5),
            math.copysign(2, v - 0.5),
            abs(complex(v, 2 * v)),
            v**2 + round(v) + math.floor(v),
        ]
        for v in x.tolist()
    ]
    np.testing.assert_allclose(out, wanted, rtol=1e-14)

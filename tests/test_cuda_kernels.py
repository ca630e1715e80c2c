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


# Views --------------------------------------------------------------------------------------------------------------


@cuda.jit
def walks_over_views(a: Any, out: Any) -> None:
    i = cuda.grid(1)
    if i < 2:
        part = a[:, 1:4, ::2]
        plane = part[i]
        total = 0
        for j in range(plane.shape[0]):
            for k in range(plane.shape[1]):
                total += plane[j, k] * (10 * j + k + 1)
        out[i] = total + a[..., -1][i, 0] + plane.T[1, 2] + a[i, 2 * i : 2 * i + 2].size


@BOTH
def test_views_of_views(vectorize: bool) -> None:
    a = np.arange(2 * 5 * 6).reshape(2, 5, 6)
    out = np.zeros(2, np.int64)
    run(walks_over_views, 2, 1, a, out, vectorize=vectorize)
    for i in range(2):
        plane = a[:, 1:4, ::2][i]
        total = sum(int(plane[j, k]) * (10 * j + k + 1) for j in range(3) for k in range(3))
        assert out[i] == total + a[..., -1][i, 0] + plane.T[1, 2] + a[i, 2 * i : 2 * i + 2].size


@cuda.jit
def windows(a: Any, out: Any) -> None:
    i = cuda.grid(1)
    window = a[i : i + 3]
    window[0] = 100 + i
    out[i] = window[-1]


@BOTH
def test_slices_with_bounds_that_differ_from_thread_to_thread(vectorize: bool) -> None:
    a, out = np.arange(10), np.zeros(4, np.int64)
    run(windows, 4, 1, a, out, vectorize=vectorize)
    assert a.tolist() == [100, 101, 102, 103, *range(4, 10)]
    assert out.tolist() == ([102, 103, 4, 5] if vectorize else [2, 3, 4, 5])  # by statements, or by threads


PARTS = st.one_of(
    st.integers(-4, 3),
    st.builds(slice, *(3 * [st.none() | st.integers(-6, 6)])).filter(lambda s: s.step != 0),
)


@settings(max_examples=60, deadline=None)
@given(parts=st.lists(PARTS, max_size=2))
def test_views_of_the_host_are_numpys(parts: list[Any]) -> None:
    cuda.select("tiny")
    host = np.arange(4 * 5).reshape(4, 5)
    wanted = host[tuple(parts)]
    if wanted.size == 0:
        return
    found = cuda.to_device(host)[tuple(parts)]
    if wanted.ndim == 0:
        assert found == wanted
        return
    assert found.shape == wanted.shape
    assert [s for s, n in zip(found.strides, found.shape, strict=True) if n > 1] == [
        s for s, n in zip(wanted.strides, wanted.shape, strict=True) if n > 1
    ]
    copy = cuda.device_array(found.shape, np.int64)
    copies[1, (4, 5)](*(_plane(x) for x in (found, copy)))
    assert copy.copy_to_host().tolist() == wanted.tolist()


def _plane(array: Any) -> Any:
    """As a view of two dimensions."""
    if array.ndim == 2:
        return array
    return cuda.DeviceNDArray(array.base, array.start, (1, *array.shape), (0, *array.steps))


@cuda.jit
def copies(source: Any, target: Any) -> None:
    i, j = cuda.threadIdx.x, cuda.threadIdx.y
    if i < source.shape[0] and j < source.shape[1]:
        target[i, j] = source[i, j]


# What is refused ----------------------------------------------------------------------------------------------------


@cuda.jit
def four_dimensions(out: Any) -> None:
    out[0] = cuda.grid(4)


@cuda.jit
def a_negative_shape(out: Any) -> None:
    cuda.local.array(-1, np.float32)


@cuda.jit
def a_shape_that_varies(out: Any) -> None:
    cuda.shared.array(cuda.threadIdx.x, np.float32)


@cuda.jit
def no_type(out: Any) -> None:
    cuda.shared.array(4, "nothing")


@cuda.jit
def much_local_memory(out: Any) -> None:
    cuda.local.array(1 << 20, np.float32)


@cuda.jit
def nothing_reserved(out: Any) -> None:
    cuda.shared.array(0, np.float32)


@cuda.jit
def an_atomic_on_its_own(out: Any) -> None:
    cuda.atomic.add(cuda.local.array(1, np.int32), 0, 1)


@cuda.jit
def bits_of_a_float(out: Any) -> None:
    cuda.atomic.or_(out, 0, 1)


@cuda.jit
def counts_in_floats(out: Any) -> None:
    cuda.atomic.inc(out, 0, 1)


@cuda.jit
def beyond_the_end(out: Any) -> None:
    out[-5] = 0


@cuda.jit
def beyond_a_view(out: Any) -> None:
    out[1:3][2] = 0


@cuda.jit
def too_many_indices(out: Any) -> None:
    out[0, 0] = 0


@cuda.jit
def an_index_that_is_no_number(out: Any) -> None:
    out[0.5 * cuda.threadIdx.x] = 0


@cuda.jit
def asks_for_the_mean(out: Any) -> None:
    out[0] = out.mean()


@cuda.jit
def asks_for_more(out: Any) -> None:
    out[0] = cuda.everything


@cuda.jit
def popc_of_a_float(out: Any) -> None:
    out[0] = cuda.popc(0.5 * cuda.threadIdx.x)


@cuda.jit
def part_of_a_number(out: Any) -> None:
    out[0] = cuda.threadIdx.x.magnitude


@cuda.jit
def calls_it_wrongly(out: Any) -> None:
    cuda.syncthreads_count()


@cuda.jit
def a_barrier_for_some(out: Any) -> None:
    if cuda.threadIdx.x == 0:
        cuda.syncthreads()


@cuda.jit
def returns_something(out: Any) -> Any:
    return 1


@cuda.jit
def constants_of_a_list(out: Any) -> None:
    cuda.const.array_like([1, 2])


@cuda.jit
def a_mask_with_a_fraction(out: Any) -> None:
    cuda.syncwarp(0.5)


@cuda.jit
def a_lane_with_a_fraction(out: Any) -> None:
    cuda.shfl_sync(0xFFFFFFFF, 1, 0.5 * cuda.threadIdx.x)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (four_dimensions, r"cuda.grid\(4\): a grid has 1, 2 or 3 dimensions"),
        (a_negative_shape, r"cuda.local.array of shape -1: sizes are constants of at least 1$"),
        (
            a_shape_that_varies,
            r"cuda.shared.array of shape that the kernel computes: sizes are constants",
        ),
        (no_type, r"cuda.shared.array: 'nothing' is no element type: give a NumPy type"),
        (much_local_memory, r"local array of 4,194,304 bytes in line \d+ .*: a thread has 512 KiB of local memory"),
        (an_atomic_on_its_own, r"cuda.atomic.add on a LocalArray: give an array in global or shared memory"),
        (bits_of_a_float, r"atomic_or in line \d+ .* on array 'out' of type float64: bits are those of whole numbers"),
        (counts_in_floats, r"atomic_inc in line \d+ .* on array 'out' of type float64: it counts unsigned numbers"),
        (beyond_the_end, r"store to 'out' in line \d+ .*: index -1 is outside 0…3"),
        (beyond_a_view, r"store to 'out' in line \d+ .*: index 2 is outside 0…1"),
        (too_many_indices, r"2 indices in line \d+ .* for an array of shape \(4,\): give 1$"),
        (an_index_that_is_no_number, r"has an index of type float64: indices are whole numbers; convert with int"),
        (asks_for_the_mean, r"attribute 'mean' of array 'out' in line \d+ .*: kernels ask for shape, size"),
        (asks_for_more, r"gpusim_des.cuda has no 'everything'; it has "),
        (popc_of_a_float, r"cuda.popc of a number of type float64: bits are those of whole numbers"),
        (part_of_a_number, r"attribute 'magnitude' of a number: it has .real and .imag"),
        (calls_it_wrongly, r"syncthreads_count\(predicate\) called wrongly in line \d+"),
        (a_barrier_for_some, r"31 of 32 threads never reach it"),
        (returns_something, r"a kernel returns nothing"),
        (constants_of_a_list, r"cuda.const.array_like of a list: give a NumPy array"),
        (writes_constants, r"writes to a ConstantArray of the host: kernels write to device arrays"),
        (reads_too_much, r"160,000 bytes in line \d+ .*: a kernel has 64 KiB; pass the array as an argument"),
        (a_mask_with_a_fraction, r"cuda.syncwarp membermask of type float64: give a whole number; convert with int"),
        (a_lane_with_a_fraction, r"cuda.shfl_sync src_lane of type float64: give a whole number"),
        (not_in_its_mask, r"lane 0 calls an operation of a warp in line \d+ .* with the mask 0x0000fffe, in which"),
    ],
    ids=lambda x: getattr(x, "name", ""),
)
@BOTH
def test_mistakes_are_explained(kernel: Any, message: str, vectorize: bool) -> None:
    with pytest.raises(gs.KernelError, match=message):
        run(kernel, 32, 1, np.zeros(4), vectorize=vectorize)


@BOTH
def test_dynamic_shared_memory_must_be_reserved(vectorize: bool) -> None:
    with pytest.raises(gs.LaunchError, match=r"'shared array' of shape 0 .* reserved 0 bytes: reserve some"):
        run(nothing_reserved, 32, 1, np.zeros(4), vectorize=vectorize)


def test_names_of_kernels_mean_nothing_on_the_host() -> None:
    with pytest.raises(gs.KernelError, match=r"cuda.threadIdx.x has a meaning inside of a kernel only"):
        print(cuda.threadIdx.x)
    with pytest.raises(gs.KernelError, match=r"cuda.grid\(...\) has a meaning inside of a kernel only: mark"):
        cuda.grid(1)
    assert repr(cuda.atomic.add) == "<cuda.atomic.add(ary, idx, val)>"
    assert repr(cuda.laneid) == "<cuda.laneid, in kernels only>"
    assert cuda.syncthreads.__doc__ == "Barrier of the block."

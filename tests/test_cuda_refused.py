"""What kernels in Numba's style cannot ask for: the message names it, and what to use instead."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpusim_des as gs
from gpusim_des import cuda
from tests.test_cuda_kernels import BOTH, not_in_its_mask, reads_too_much, run, writes_constants

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

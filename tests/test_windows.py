"""Dynamic shared memory in Numba's way: arrays of several types show the same bytes, and mistakes are found in all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpusim_des as gs
from gpusim_des import cuda
from tests.test_races import found, launched

WAYS = pytest.mark.parametrize("vectorize", [True, False], ids=["vectorized", "interpreted"])


@cuda.jit
def pairs(a: Any, c: Any, meet: Any) -> None:
    """64 threads write a number each, and half of them read two as one."""
    singles = cuda.shared.array(0, np.float32)
    doubles = cuda.shared.array(0, np.int64)
    i = cuda.threadIdx.x
    singles[i] = i
    if meet:
        cuda.syncthreads()
    if i < 32:
        c[i] = doubles[i]


@WAYS
def test_types_of_other_sizes_race(vectorize: bool) -> None:
    """Threads 16 to 31 read what the other warp wrote, the others what lanes of theirs did: each element once."""
    launch = launched(pairs, 2, 64, False, dynamic_shared=256, vectorize=vectorize)
    assert found(launch) == [("write-read", "block", False, 32), ("write-read", "warp", False, 32)]
    assert (launch.races[0].array, launch.races[0].element) == ("doubles", (16,))
    assert launched(pairs, 2, 64, True, dynamic_shared=256, vectorize=vectorize).mistakes == ()


@cuda.jit
def bytes_later(a: Any, c: Any, far: Any) -> None:
    """A type of smaller elements comes when something is known of the others already."""
    words = cuda.shared.array(0, np.int32)
    i = cuda.threadIdx.x
    words[i] = i
    if i == 0:
        c[0] = words[0]
    octets = cuda.shared.array(0, np.uint8)
    octets[4 * ((i + far) % 64) + 1] = 7


@WAYS
def test_parts_of_elements_race(vectorize: bool) -> None:
    """Each thread writes a byte of its own word, or of that of the other warp; thread 0's is read as well."""
    assert found(launched(bytes_later, 1, 64, 0, dynamic_shared=256, vectorize=vectorize)) == []
    launch = launched(bytes_later, 1, 64, 32, dynamic_shared=256, vectorize=vectorize)
    assert sum(race.count for race in launch.races) == 64
    assert {(race.array, race.scope) for race in launch.races} == {("octets", "block")}


@cuda.jit
def same_pairs(a: Any, c: Any, value: Any) -> None:
    """Two threads write one element of two parts."""
    cuda.shared.array(0, np.int32)[4] = 3
    doubles = cuda.shared.array(0, np.int64)
    again = cuda.shared.array(0, np.int64)
    i = cuda.threadIdx.x
    if i == 0:
        doubles[0] = 5
    if i == 32:
        again[0] = value


@WAYS
@pytest.mark.parametrize(("value", "equal"), [(5, True), (0, False)])
def test_values_are_those_of_whole_elements(value: int, equal: bool, vectorize: bool) -> None:
    races = found(launched(same_pairs, 1, 64, value, dynamic_shared=64, vectorize=vectorize))
    assert [race for race in races if race[3] == 1] == [("write-write", "block", equal, 1)]


@cuda.jit
def partly_written(a: Any, c: Any, both: Any) -> None:
    """Thread i writes one half of element i, or both, reads it, and the one behind the last."""
    halves = cuda.shared.array(0, np.int32)
    doubles = cuda.shared.array(0, np.int64)
    i = cuda.threadIdx.x
    halves[2 * i] = 1
    if both:
        halves[2 * i + 1] = 0
    c[i] = doubles[i]
    cuda.syncthreads()
    if i == 7:
        c[i] = doubles[32]


@WAYS
def test_what_nobody_wrote_is_found_in_every_type(vectorize: bool) -> None:
    """264 bytes are 33 elements, of which the last has none written, in 2 blocks."""
    launch = launched(partly_written, 2, 32, False, dynamic_shared=264, vectorize=vectorize)
    half, none = launch.unwritten_reads
    assert (half.array, half.element, half.count) == ("doubles", (0,), 64)
    assert (none.array, none.element, none.thread, none.count) == ("doubles", (32,), gs.Dim3(7, 0, 0), 2)
    (none,) = launched(partly_written, 2, 32, True, dynamic_shared=264, vectorize=vectorize).unwritten_reads
    assert (none.element, none.count) == ((32,), 2)


@cuda.jit
def side_by_side(a: Any, c: Any) -> None:
    """Two arrays in one piece of memory, as kernels divide it, and its last bytes."""
    first = cuda.shared.array(0, np.float32)[:32]
    second = cuda.shared.array(0, np.int16)[64:96]
    octets = cuda.shared.array(0, np.uint8)
    i = cuda.threadIdx.x
    first[i] = a[i]
    second[i] = a[i]
    if i < 2:
        octets[192 + i] = 9
    cuda.syncthreads()
    c[i] = first[31 - i] + second[31 - i] + octets[192 + i % 2]


@WAYS
def test_arrays_side_by_side_are_no_mistake(vectorize: bool) -> None:
    launch = launched(side_by_side, 3, 32, dynamic_shared=194, vectorize=vectorize)
    assert launch.mistakes == ()
    assert launch.races == ()

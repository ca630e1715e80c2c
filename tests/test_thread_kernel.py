"""Kernels in thread style: what every construct does, checked by hand, vectorized and thread by thread."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import gpusim_des as gs

BOTH = pytest.mark.parametrize("vectorize", [True, False], ids=["vectorized", "interpreted"])
Array = np.ndarray[Any, Any]


def results(
    kernel: gs.ThreadKernel, grid: Any, block: Any, *args: Any, vectorize: bool | None, count: Any = "auto"
) -> list[list[Any]]:
    """Launch a kernel; arrays are copied in, and come back as lists."""
    dev = gs.Device("tiny")
    arguments = [dev.to_device(a) if isinstance(a, np.ndarray) else a for a in args]
    dev.launch(kernel, grid, block, *arguments, vectorize=vectorize, count=count)
    return [dev.to_host(a).tolist() for a in arguments if isinstance(a, gs.DeviceArray)]


def ints(n: int) -> Array:
    return np.zeros(n, np.int32)


def floats(n: int) -> Array:
    return np.zeros(n, np.float32)


# Vector add ---------------------------------------------------------------------------------------------------------


@gs.kernel
def vector_add(t: Any, a: Any, b: Any, c: Any, n: Any) -> Any:
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    if i < n:
        c[i] = a[i] + b[i]


@BOTH
def test_vector_add(vectorize: bool) -> None:
    """4,000 bytes are 125 sectors; of 32 warps the last has 8 threads inside."""
    dev = gs.Device("tiny")
    a, b = dev.to_device(np.arange(1000, dtype=np.float32)), dev.to_device(np.ones(1000, np.float32))
    c = dev.malloc(1000, np.float32)
    counters = dev.launch(vector_add, 4, 256, a, b, c, 1000, vectorize=vectorize).counters
    assert dev.to_host(c).tolist() == [k + 1.0 for k in range(1000)]
    assert (counters.global_load_sectors, counters.global_store_sectors) == (250, 125)
    assert (counters.global_load_requests, counters.global_store_requests) == (64, 32)
    assert (counters.branches, counters.divergent_branches) == (32, 1)
    # i is a multiply-add, then compare, branch, 2 × (address, load), add, address, store, exit.
    assert counters.warp_instructions == 32 * 11
    assert counters.active_lanes == 1024 * 4 + 1000 * 7
    assert dict(counters.instruction_mix) == {
        "int": 32 * 5,
        "branch": 32,
        "global_load": 64,
        "fp32": 32,
        "global_store": 32,
        "exit": 32,
    }


# Control flow -------------------------------------------------------------------------------------------------------


@gs.kernel
def branches(t: Any, out: Any) -> Any:
    i = t.threadIdx.x
    if i < 2:
        x = 10
    elif i < 4:
        x = 20
        if i == 3:
            x += 1
    else:
        x = 30
    out[i] = x


@gs.kernel
def while_loop(t: Any, out: Any) -> Any:
    i = t.threadIdx.x
    n, steps = i + 1, 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    out[i] = steps


@gs.kernel
def ranges(t: Any, out: Any, n: Any) -> Any:
    i = t.threadIdx.x
    total = 0
    for k in range(n):
        total += k
    for k in range(i, n):
        total += 100 * k
    for k in range(n, i, -2):
        total += 10000 * k
    for _ in range(5, 0):
        total += 1000000
    out[i] = total


@gs.kernel
def tuples(t: Any, out: Any) -> Any:
    total = 0
    for k in (3, 1, 4):
        total = total * 10 + k
    for a, b in ((1, 2), (3, 4)):
        total += a * b
    out[t.threadIdx.x] = total


@gs.kernel
def jumps(t: Any, out: Any) -> Any:
    i = t.threadIdx.x
    total = 0
    for a in range(5):
        if a == i:
            continue
        for b in range(10):
            if b > a:
                break
            if b == 1:
                continue
            total += 1
        total += 100
        if a == 3 and i > 4:
            break
    out[i] = total


@gs.kernel
def early_return(t: Any, out: Any) -> Any:
    i = t.threadIdx.x
    if i % 2:
        return
    for k in range(8):
        if k == i:
            out[i] = 100 + k
            return
    out[i] = 7


@gs.kernel
def jump_out_of_while(t: Any, out: Any) -> Any:
    i = t.threadIdx.x
    k = 0
    while True:
        k += 1
        if k > i:
            break
        if k == 3:
            out[i] = -1
            return
    out[i] = k


def collatz(n: int) -> int:
    return 0 if n == 1 else 1 + collatz(n // 2 if n % 2 == 0 else 3 * n + 1)


def jumped(i: int) -> int:
    total = 0
    for a in range(5):
        if a != i:
            total += len([b for b in range(a + 1) if b != 1]) + 100
            if a == 3 and i > 4:
                break
    return total


@BOTH
@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (branches, [10, 10, 20, 21, *[30] * 28]),
        (while_loop, [collatz(i + 1) for i in range(32)]),
        (tuples, [314 + 2 + 12] * 32),
        (jumps, [jumped(i) for i in range(32)]),
        (early_return, [0 if i % 2 else 100 + i if i < 8 else 7 for i in range(32)]),
        (jump_out_of_while, [1, 2, 3, *[-1] * 29]),
    ],
    ids=lambda x: getattr(x, "name", ""),
)
def test_control_flow(kernel: gs.ThreadKernel, expected: list[int], vectorize: bool) -> None:
    assert results(kernel, 1, 32, ints(32), vectorize=vectorize) == [expected]


@BOTH
def test_ranges(vectorize: bool) -> None:
    expected = [
        sum(range(6)) + 100 * sum(range(i, 6)) + 10000 * sum(range(6, i, -2)) for i in range(32)
    ]  # range(5, 0) is empty
    assert results(ranges, 1, 32, ints(32), 6, vectorize=vectorize) == [expected]


@gs.kernel
def skips(t: Any, out: Any, n: Any) -> Any:
    i = t.threadIdx.x
    total = 0
    for k in range(n):
        if k % 3 == i % 3:
            continue
        total += 10**k
    out[i] = total


@BOTH
def test_continue_goes_to_the_next_number(vectorize: bool) -> None:
    """Bounds that are not constants: the loop counts with an instruction, for the threads that skipped as well."""
    expected = [(10110110, 1101101, 11011011)[i % 3] for i in range(32)]
    assert results(skips, 1, 32, ints(32), 8, vectorize=vectorize) == [expected]


# Expressions --------------------------------------------------------------------------------------------------------


@gs.kernel
def guarded(t: Any, a: Any, out: Any, n: Any) -> Any:
    i = t.threadIdx.x
    if i < n and a[i] > 0:
        out[i] = 1
    if i >= n or a[i] < 0:
        out[i] = 2
    if not (i < n and a[i] != 0) and i != 9:
        out[i] += 10


@gs.kernel
def conditional(t: Any, a: Any, out: Any, n: Any) -> Any:
    i = t.threadIdx.x
    out[i] = a[i] if i < n else -i


@gs.kernel
def chained(t: Any, a: Any, out: Any, n: Any) -> Any:
    i = t.threadIdx.x
    if 0 <= i - 2 < n - 3 <= n:
        out[i] = 1
    if -2 < a[i % n] + 1 <= 2:
        out[i] += 2


@gs.kernel
def augmented(t: Any, a: Any, out: Any) -> Any:
    i = t.threadIdx.x
    S = t.shared("S", 32, np.int32)
    S[i] = i
    S[i] *= 3
    out[i] += S[i]
    out[i] -= 1
    out[i] <<= 2


@gs.kernel
def functions(t: Any, out: Any) -> Any:
    i = t.threadIdx.x
    x = i - 1.5
    if i == 5:
        out[0] = min(i, 3, x + 9)
        out[1] = max(x, 0)
        out[2] = abs(-i) + abs(x)
        out[3] = int(x * -1.5)
        out[4] = float(i) / 2
        out[5] = math.floor(-x) + math.sqrt(i + 4)
        out[6] = np.maximum(x, 4) + np.sqrt(np.float32(16))
        out[7] = round(x + 0.25) + math.pi


@BOTH
def test_guards(vectorize: bool) -> None:
    """The second operand of `and` and `or` is computed by the threads that need it: a[8] does not exist."""
    a = np.array([1, -1, 0, 5, -5, 0, 2, -2], np.int32)
    inside = [1 if x > 0 else 2 if x < 0 else 10 for x in a.tolist()]
    outside = [2 if i == 9 else 12 for i in range(8, 32)]
    assert results(guarded, 1, 32, a, ints(32), 8, vectorize=vectorize)[1] == inside + outside


@BOTH
def test_conditional_expressions(vectorize: bool) -> None:
    a = np.arange(100, 108, dtype=np.int32)
    expected = [*range(100, 108), *(-i for i in range(8, 32))]
    assert results(conditional, 1, 32, a, ints(32), 8, vectorize=vectorize)[1] == expected


@BOTH
def test_chained_comparisons(vectorize: bool) -> None:
    """The middle of a chain is computed once."""
    a = np.array([-4, -2, 1, 9, 0], np.int32)
    expected = [(1 if 0 <= i - 2 < 2 else 0) + (2 if a[i % 5] in (-2, 1, 0) else 0) for i in range(32)]
    assert results(chained, 1, 32, a, ints(32), 5, vectorize=vectorize)[1] == expected
    dev = gs.Device("tiny")
    counters = dev.launch(chained, 1, 32, dev.to_device(a), dev.to_device(ints(32)), 5, vectorize=vectorize).counters
    assert counters.thread_loads == 32 + 18 + 1  # a[i % n] once per thread, and out[i] where 2 is added


@BOTH
def test_augmented_assignment_to_elements(vectorize: bool) -> None:
    """A load and a store each."""
    dev = gs.Device("tiny")
    out = dev.to_device(np.arange(32, dtype=np.int32))
    counters = dev.launch(augmented, 1, 32, dev.to_device(ints(1)), out, vectorize=vectorize).counters
    assert dev.to_host(out).tolist() == [(i + 3 * i - 1) * 4 for i in range(32)]
    assert (counters.global_load_requests, counters.global_store_requests) == (3, 3)
    assert counters.shared_requests == 4  # a store, a load and a store, a load


@BOTH
def test_functions_of_numbers(vectorize: bool) -> None:
    (values,) = results(functions, 1, 8, floats(8), vectorize=vectorize)
    assert values == pytest.approx([3, 3.5, 8.5, -5, 2.5, -4 + 3, 8, 4 + math.pi], rel=1e-6)


# Helpers, lists, tuples ---------------------------------------------------------------------------------------------


def classify(t: Any, x: Any, limit: Any = 4) -> Any:
    for k in range(limit):
        if k == x:
            return 10 * k
    if x > 20:
        return -1.5
    return x


def two(x: Any, y: Any) -> Any:
    if x > y:
        return y, x
    return x, y


@gs.kernel
def with_helpers(t: Any, out: Any, low: Any) -> Any:
    i = t.threadIdx.x
    out[i] = classify(t, i) + classify(t, i, limit=2)
    a, b = two(i, 7)
    low[i] = 100 * a + b


@gs.kernel
def with_lists(t: Any, out: Any) -> Any:
    i = t.threadIdx.x
    bins: Any = [0] * 4
    for k in range(8):
        if k <= i:
            bins[k % 4] += k
    if i == 2:
        bins[0] = 0.5
    out[i] = bins[0] + 10 * bins[1] + 100 * bins[2] + 1000 * bins[3] + len(bins)


@gs.kernel
def with_rebinding(t: Any, out: Any) -> Any:
    i = t.threadIdx.x
    pair = [i, 1]
    point = (i, 2)
    if i % 2:
        pair = [7, 1]
        point = (0.5, i)
    x, y = point
    out[i] = pair[0] + pair[1] + x + y


@BOTH
def test_helpers_with_several_returns(vectorize: bool) -> None:
    """One result type for all returns: 10 * k, -1.5 and x make floats."""

    def classified(x: int, limit: int) -> float:
        return 10 * x if x < limit else -1.5 if x > 20 else x

    out, low = results(with_helpers, 1, 32, floats(32), ints(32), vectorize=vectorize)
    assert out == [classified(i, 4) + classified(i, 2) for i in range(32)]
    assert low == [100 * min(i, 7) + max(i, 7) for i in range(32)]


@BOTH
def test_local_lists(vectorize: bool) -> None:
    def binned(i: int) -> float:
        bins = [float(sum(k for k in range(8) if k <= i and k % 4 == b)) for b in range(4)]
        if i == 2:
            bins[0] = 0.5
        return bins[0] + 10 * bins[1] + 100 * bins[2] + 1000 * bins[3] + 4

    assert results(with_lists, 1, 32, floats(32), vectorize=vectorize) == [[binned(i) for i in range(32)]]


@BOTH
def test_lists_and_tuples_that_some_threads_replace(vectorize: bool) -> None:
    expected = [7 + 1 + 0.5 + i if i % 2 else i + 1 + i + 2 for i in range(32)]
    assert results(with_rebinding, 1, 32, floats(32), vectorize=vectorize) == [expected]

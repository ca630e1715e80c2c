"""Types of thread-style kernels: C's rules, one type per variable, and what an operator costs for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpusim_des as gs
from tests.test_thread_kernel import BOTH, floats, ints, results


@gs.kernel
def wraps(t: Any, big: Any, out: Any, unsigned: Any) -> Any:
    i = t.threadIdx.x
    out[0] = big[0] + 1
    out[1] = big[0] * big[0]
    out[2] = big[0] * 65536 * 65536 + i
    unsigned[0] = np.uint32(i) - 1
    unsigned[1] = unsigned[2] * 2654435761
    unsigned[3] = (unsigned[2] * 2654435761) >> 8


@BOTH
def test_integers_wrap_at_32_bits(vectorize: bool) -> None:
    big = np.array([2**31 - 1], np.int32)
    unsigned = np.array([0, 0, 3, 9], np.uint32)
    _, out, after = results(wraps, 1, 1, big, ints(3), unsigned, vectorize=vectorize)
    assert out == [-(2**31), 1, 0]
    assert after == [2**32 - 1, 3 * 2654435761 % 2**32, 3, 3 * 2654435761 % 2**32 >> 8]


@gs.kernel
def wide(t: Any, out: Any) -> Any:
    i = t.threadIdx.x + 2**31 - 1
    out[0] = np.int64(t.threadIdx.x) + 2**31
    out[1] = i
    out[2] = t.threadIdx.x + 2**31


@BOTH
def test_64_bits_only_where_asked(vectorize: bool) -> None:
    """2**31 is a 64-bit constant, as in C; 2**31 - 1 + int is not."""
    assert results(wide, 1, 1, np.zeros(3, np.int64), vectorize=vectorize) == [[2**31, 2**31 - 1, 2**31]]


@gs.kernel
def mixed(t: Any, a: Any, b: Any, half: Any, out: Any, wide: Any) -> Any:
    i = t.threadIdx.x
    out[0] = 16777216 + a[0] * i + 1
    x = b[0] + i
    x = x * 0.1
    wide[0] = x
    wide[1] = np.float64(b[0]) * 0.1
    wide[2] = a[0] / 3
    half[0] = half[1] * half[1] + 1


@BOTH
def test_integer_and_float_stay_in_32_bits(vectorize: bool) -> None:
    a, b, half = np.array([7], np.int32), np.array([0.3], np.float32), np.array([0, 300], np.float16)
    _, _, half_out, out, wide_out = results(mixed, 1, 1, a, b, half, floats(1), np.zeros(3), vectorize=vectorize)
    assert out == [16777216.0]  # 16,777,217 is no float32
    assert wide_out == [
        float(np.float32(0.3) * np.float32(0.1)),
        float(np.float64(np.float32(0.3)) * 0.1),
        float(np.float32(7) / np.float32(3)),
    ]
    assert half_out == [np.inf, 300.0]  # 90,000 is beyond float16


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.uint8, np.int32, np.int64, np.float16, np.float64, np.bool_])
@BOTH
def test_arrays_of_all_types(dtype: Any, vectorize: bool) -> None:
    data = np.array([1, 0, 3, 100], dtype)
    expected = (data.astype(np.int64) * 2 + 1).astype(dtype).tolist()  # 201 wraps in 8 bits; C converts at the store
    assert results(doubled, 1, 4, data, vectorize=vectorize) == [expected]


@gs.kernel
def doubled(t: Any, a: Any) -> Any:
    i = t.threadIdx.x
    a[i] = int(a[i]) * 2 + 1


@gs.kernel
def promotions(t: Any, small: Any, out: Any) -> Any:
    i = t.threadIdx.x
    x = 300
    if i == 0:
        x = small[0]
    out[i] = x + small[0] * small[1]


@BOTH
def test_narrow_integers_become_int(vectorize: bool) -> None:
    """100 * 100 is no int8, and neither is the constant 300 that some threads keep."""
    assert results(promotions, 1, 2, np.array([100, 100], np.int8), ints(2), vectorize=vectorize)[1] == [10100, 10300]


@gs.kernel
def truths(t: Any, flags: Any, out: Any) -> Any:
    i = t.threadIdx.x
    inside = i < 3
    other = False
    if i > 1:
        other = flags[i]
    flags[i] = inside and not other
    out[i] = (inside | other) + (inside & other) + (inside ^ flags[i])


@BOTH
def test_truth_values(vectorize: bool) -> None:
    flags, out = results(truths, 1, 4, np.array([True, True, True, False]), ints(4), vectorize=vectorize)
    assert flags == [True, True, False, False]
    assert out == [1, 1, 3, 0]


@gs.kernel
def joined(t: Any, a: Any, f: Any, out: Any) -> Any:
    i = t.threadIdx.x
    x = a[i]
    if i % 2:
        x = f[i]
    out[i] = x / 2


@BOTH
def test_a_variable_has_one_type(vectorize: bool) -> None:
    """Assigned from an int and from a float array, it is a float in all threads: no division is an integer one."""
    a, f = np.array([5, 5, 7, 7], np.int32), np.array([0.5, 0.5, 1.5, 1.5], np.float32)
    assert results(joined, 1, 4, a, f, floats(4), vectorize=vectorize)[2] == [2.5, 0.25, 3.5, 0.75]
    dev = gs.Device("tiny")
    counters = dev.launch(joined, 1, 4, *map(dev.to_device, (a, f, floats(4))), vectorize=vectorize).counters
    assert counters.instruction_mix["conversion"] == 1  # a[i] to float, where x is assigned


@gs.kernel
def python_division(t: Any, a: Any, out: Any) -> Any:
    i = t.threadIdx.x
    out[2 * i] = a[i] // 3
    out[2 * i + 1] = a[i] % 3


@BOTH
def test_division_rounds_down_as_in_python(vectorize: bool) -> None:
    a = np.array([7, -7, 0, -1], np.int32)
    assert results(python_division, 1, 4, a, ints(8), vectorize=vectorize)[1] == [2, 1, -3, 2, 0, 0, -1, 2]


@gs.kernel
def no_exceptions(t: Any, a: Any, f: Any, out: Any) -> Any:
    i = t.threadIdx.x
    out[i] = a[i] // (a[i] - a[i])
    f[0] = f[0] / (f[0] - f[0])
    f[1] = 2 ** (a[i] - 3)


@BOTH
def test_a_gpu_raises_no_arithmetic_exceptions(vectorize: bool) -> None:
    _, f, out = results(no_exceptions, 1, 1, np.array([5], np.int32), floats(2) + 1, ints(1), vectorize=vectorize)
    assert f == [np.inf, 4.0]
    assert out == [0]


@gs.kernel
def guarded_power(t: Any, out: Any) -> Any:
    i = t.threadIdx.x - 2
    if i >= 0:
        out[i + 2] = 3**i


@BOTH
def test_powers_of_threads_that_are_not_asked(vectorize: bool) -> None:
    assert results(guarded_power, 1, 5, ints(5), vectorize=vectorize) == [[0, 0, 1, 3, 9]]


@gs.kernel
def bits_of_a_float(t: Any, f: Any) -> Any:
    f[0] = f[0] & 1


@gs.kernel
def zero_divisor(t: Any, out: Any, n: Any) -> Any:
    out[0] = 1 // n


@gs.kernel
def float_index(t: Any, f: Any) -> Any:
    f[f[0]] = 1


@gs.kernel
def list_border(t: Any, f: Any) -> Any:
    values = [1, 2, 3]
    f[0] = values[t.threadIdx.x + 3]


@BOTH
@pytest.mark.parametrize(
    ("kernel", "arguments", "message"),
    [
        (bits_of_a_float, 1, r"line \d+ of .*: ufunc 'bitwise_and' not supported"),
        (zero_divisor, 2, r"line \d+ of .*: .*(division|modulo) by zero"),
        (float_index, 1, r"has an index of type float32: indices are whole numbers; convert with int"),
        (list_border, 1, r"index 3 in line \d+ .* is outside 0…2 of a local list"),
    ],
    ids=lambda x: getattr(x, "name", ""),
)
def test_refused(kernel: gs.ThreadKernel, arguments: int, message: str, vectorize: bool) -> None:
    dev = gs.Device("tiny")
    given = [dev.to_device(floats(4)), 0][:arguments]
    with pytest.raises(gs.KernelError, match=message):
        dev.launch(kernel, 1, 1, *given, vectorize=vectorize)

"""What masked execution cannot do runs thread by thread, with one notice that names line and construct."""

from __future__ import annotations

import inspect
import random
from typing import Any

import numpy as np
import pytest

import gpusim_des as gs
from tests.test_thread_kernel import floats, ints


def factorial(n: Any) -> Any:
    if n <= 1:
        return 1
    return n * factorial(n - 1)


@gs.kernel
def recursive(t: Any, out: Any) -> Any:
    i = t.threadIdx.x
    out[i] = factorial(i)


@gs.kernel
def comprehension(t: Any, out: Any) -> Any:
    i = t.threadIdx.x
    out[i] = sum([k * k for k in range(i)])


@gs.kernel
def per_thread_element(t: Any, out: Any) -> Any:
    i = t.threadIdx.x
    table = [3, 1, 4, 1, 5, 9, 2, 6]
    out[i] = table[i]


@gs.kernel
def appended(t: Any, out: Any) -> Any:
    i = t.threadIdx.x
    items = [0]
    if i > 2:
        items.append(5)
    out[i] = len(items) * 10 + items[-1]


@gs.kernel
def chosen_array(t: Any, a: Any, out: Any) -> Any:
    i = t.threadIdx.x
    source = out
    if i % 2:
        source = a
    out[i] = source[i] + 1


@gs.kernel
def caught(t: Any, out: Any) -> Any:
    i = t.threadIdx.x
    try:
        out[i] = 7
    finally:
        out[i] += 1


@gs.kernel
def foreign(t: Any, out: Any) -> Any:
    i = t.threadIdx.x
    out[i] = random.Random(i).randint(5, 5)


@pytest.mark.parametrize(
    ("kernel", "construct", "offset", "expected"),
    [
        (recursive, "recursion of factorial", None, [1, 1, 2, 6, 24, 120, 720, 5040]),
        (comprehension, "a list comprehension", 3, [0, 0, 1, 5, 14, 30, 55, 91]),
        (per_thread_element, "a value that differs from thread to thread as an index", 4, [3, 1, 4, 1, 5, 9, 2, 6]),
        (appended, "a call of append of a list", 5, [10, 10, 10, 25, 25, 25, 25, 25]),
        (caught, "try … except", 3, [8] * 8),
        (foreign, "a call of Random with a per-thread value", 3, [5] * 8),
    ],
    ids=lambda x: getattr(x, "name", None),
)
def test_falls_back_with_one_notice(
    kernel: gs.ThreadKernel, construct: str, offset: int | None, expected: list[int]
) -> None:
    dev = gs.Device("tiny")
    out = dev.to_device(ints(8))
    with pytest.warns(gs.InterpretedWarning) as notices:
        launch = dev.launch(kernel, 1, 8, out)
    assert dev.to_host(out).tolist() == expected
    assert not launch.vectorized
    (notice,) = notices
    assert construct in str(notice.message)
    assert notice.filename == __file__  # it points at the launch, not into the package
    if offset is not None:
        line = inspect.getsourcelines(kernel.function)[1] + offset
        assert f"line {line} of test_thread_fallback.py" in str(notice.message)


def test_an_array_that_some_threads_choose() -> None:
    dev = gs.Device("tiny")
    a, out = dev.to_device(np.arange(8, dtype=np.float32)), dev.to_device(floats(8) + 100)
    with pytest.warns(gs.InterpretedWarning, match="becomes a DeviceArray in some threads only"):
        dev.launch(chosen_array, 1, 8, a, out)
    assert dev.to_host(out).tolist() == [101, 2, 101, 4, 101, 6, 101, 8]


def test_vectorize_true_insists() -> None:
    dev = gs.Device("tiny")
    with pytest.raises(gs.KernelError, match="cannot be vectorized: recursion of factorial in line"):
        dev.launch(recursive, 1, 8, dev.to_device(ints(8)), vectorize=True)


def test_vectorize_false_says_nothing() -> None:
    dev = gs.Device("tiny")
    out = dev.to_device(ints(8))
    assert not dev.launch(recursive, 1, 8, out, vectorize=False).vectorized
    assert dev.to_host(out).tolist()[-1] == 5040

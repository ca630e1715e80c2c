"""Rows, slices and transposes of arrays in kernels of Numba's style, and on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusim_des import cuda
from tests.test_cuda_kernels import BOTH, run

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

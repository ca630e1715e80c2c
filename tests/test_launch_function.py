"""``gs.launch``: a kernel on NumPy arrays, copied in, and back where the kernel changed them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpusim_des as gs


@gs.kernel
def add(t: Any, a: Any, b: Any, c: Any, n: int) -> None:
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    if i < n:
        c[i] = a[i] + b[i]


@gs.block_kernel
def add_blocks(blk: gs.Block, a: gs.DeviceArray, b: gs.DeviceArray, c: gs.DeviceArray, n: int) -> None:
    i = blk.bx * blk.bdx + blk.tx
    m = i < n
    blk.store(c, i, blk.load(a, i, mask=m) + blk.load(b, i, mask=m), mask=m)


@pytest.mark.parametrize("kernel", [add, add_blocks])
def test_vector_add(kernel: Any) -> None:
    a, b, c = np.arange(1000, dtype=np.float32), np.ones(1000, np.float32), np.zeros(1000, np.float32)
    launch = gs.launch(kernel, gs.cdiv(1000, 256), 256, a, b, c, 1000)
    assert c.tolist() == [k + 1.0 for k in range(1000)]
    assert a.tolist() == list(range(1000))
    assert isinstance(launch, gs.Launch)
    assert launch.name == kernel.name
    assert (launch.counters.global_load_sectors, launch.counters.global_store_sectors) == (250, 125)


def test_elements_that_the_kernel_leaves_alone_stay() -> None:
    a, c = np.ones(64, np.float32), np.full(64, 7, np.float32)
    gs.launch(add, 1, 32, a, a, c, 20)
    assert c.tolist() == [2.0] * 20 + [7.0] * 44


def test_the_gpu_and_the_options() -> None:
    arrays = [np.zeros(32, np.float32) for _ in range(3)]
    tiny = gs.launch(add, 1, 32, *arrays, 32, gpu="tiny", registers=40, dynamic_shared=1000, vectorize=False)
    assert (tiny.trace.registers, tiny.trace.shared_bytes, tiny.vectorized) == (40, 1000, False)
    own = gs.load_gpu("tiny").replace(memory_bytes=256)
    with pytest.raises(
        gs.DeviceMemoryError, match="128 bytes requested, 0 of 256 free; largest live arrays: 'a' 128 bytes"
    ):
        gs.launch(add, 1, 32, *arrays, 32, gpu=own)
    with pytest.raises(gs.ModelError, match="h101"):
        gs.launch(add, 1, 32, *arrays, 32, gpu="h101")
    with pytest.raises(TypeError, match="colour"):
        gs.launch(add, 1, 32, *arrays, 32, colour="red")


def test_one_array_given_twice_is_one_array() -> None:
    a = np.arange(32, dtype=np.float32)
    gs.launch(add, 1, 32, a, a, a, 32)
    assert a.tolist() == [2.0 * k for k in range(32)]


def test_strided_and_reversed_arrays() -> None:
    base = np.zeros((32, 3), np.float32)
    a = np.arange(64, dtype=np.float32)[::-2]
    gs.launch(add, 1, 32, a, a, base[:, 1], 32)
    assert base[:, 1].tolist() == [2 * x for x in a.tolist()]
    assert not base[:, [0, 2]].any()


@gs.kernel
def transpose(t: Any, a: Any, b: Any) -> None:
    b[t.threadIdx.x, t.threadIdx.y] = a[t.threadIdx.y, t.threadIdx.x]


def test_matrices_keep_their_shape() -> None:
    a, b = np.arange(12, dtype=np.int64).reshape(3, 4), np.asfortranarray(np.zeros((4, 3), np.int64))
    gs.launch(transpose, 1, (4, 3), a, b)
    assert b.tolist() == a.T.tolist()


@gs.kernel
def scale(t: Any, a: Any, factor: Any) -> None:
    a[t.threadIdx.x] = a[t.threadIdx.x] * factor


def test_numbers_pass_as_they_are() -> None:
    for factor in (3, np.float32(3), np.array(3, np.float32)):
        a = np.ones(32, np.float32)
        gs.launch(scale, 1, 32, a, factor)
        assert a.tolist() == [3.0] * 32


def test_read_only_arrays_may_be_read() -> None:
    a, c = np.broadcast_to(np.float32(4), 32), np.zeros(32, np.float32)
    gs.launch(add, 1, 32, a, a, c, 32)
    assert c.tolist() == [8.0] * 32


def test_read_only_arrays_may_not_be_written() -> None:
    a, c = np.ones(32, np.float32), np.zeros(32, np.float32)
    c.flags.writeable = False
    message = r"the kernel wrote to argument 'c', which is a read-only array: .* pass a copy, c.copy\(\)"
    with pytest.raises(gs.DeviceMemoryError, match=message):
        gs.launch(add, 1, 32, a, a, c, 32)


def test_a_not_a_number_is_no_change() -> None:
    a = np.full(32, np.nan, np.float32)
    a.flags.writeable = False
    c = np.zeros(32, np.float32)
    gs.launch(add, 1, 32, a, a, c, 32)
    assert np.isnan(c).all()


def test_a_change_of_the_sign_of_zero_comes_back() -> None:
    a = np.zeros(32, np.float32)
    gs.launch(scale, 1, 32, a, -1.0)
    assert np.signbit(a).all()


def test_views_of_one_array() -> None:
    a = np.zeros(64, np.float32)
    message = "arguments 'a' and 'c' are views of the same memory: on the device they would be two arrays; pass a copy"
    with pytest.raises(gs.DeviceMemoryError, match=message):
        gs.launch(add, 1, 32, a[:32], np.ones(32, np.float32), a[1:33], 32)
    gs.launch(add, 1, 32, a[::2], np.ones(32, np.float32), a[1::2], 32)
    assert a.tolist() == [0.0, 1.0] * 32


def test_a_failed_launch_changes_nothing() -> None:
    a, b, c = np.ones(40, np.float32), np.ones(40, np.float32), np.zeros(32, np.float32)
    with pytest.raises(gs.BoundsError, match="'c'"):
        gs.launch(add, 2, 32, a, b, c, 40)
    assert not c.any()


def test_arguments_refused() -> None:
    a: Any = np.zeros(32, np.float32)
    with pytest.raises(TypeError, match=r"is no kernel: mark the function with @gs.kernel"):
        gs.launch(lambda t, x: None, 1, 32, a)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"kernel 'scale' takes \(a, factor\), got 1 argument"):
        gs.launch(scale, 1, 32, a)
    with pytest.raises(TypeError, match=r"kernel 'scale' takes \(a, factor\), got 4 arguments"):
        gs.launch(scale, 1, 32, a, 1.0, 2.0, np.zeros(3))
    with pytest.raises(gs.DeviceMemoryError, match=r"array of shape \(0,\): there is nothing to copy"):
        gs.launch(scale, 1, 32, a[:0], 1.0)
    with pytest.raises(gs.DeviceMemoryError, match="belongs to another device: use it there"):
        gs.launch(scale, 1, 32, gs.Device("tiny").malloc(32), 1.0)

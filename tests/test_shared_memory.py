"""Shared memory: poison, the limit of the static part, and the dynamic part beyond it, in both styles."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import gpusim_des as gs

STYLES = ["block", "thread", "interpreted"]
KIB = 1024


@gs.kernel
def thread_store(t: Any, out: Any, shape: Any, dtype: Any, dynamic: bool, write: bool) -> Any:
    tile = t.shared("tile", shape, dtype, dynamic=dynamic)
    if write:
        tile[t.linear] = t.linear
    yield t.syncthreads()
    out[t.linear] = tile[t.linear]


@gs.block_kernel
def block_store(blk: gs.Block, out: gs.DeviceArray, shape: Any, dtype: Any, dynamic: bool, write: bool) -> None:
    tile = blk.shared(shape, dtype, "tile", dynamic=dynamic)
    if write:
        blk.sstore(tile, blk.tid, blk.tid)
    blk.sync()
    blk.store(out, blk.tid, blk.sload(tile, blk.tid))


def run(
    style: str, shape: Any, dtype: Any = np.float32, *, dynamic: bool = False, reserve: int = 0, write: bool = True
) -> tuple[gs.Launch, np.ndarray[Any, Any]]:
    dev = gs.Device("h100-sxm")
    out = dev.malloc(64, dtype)
    kernel = block_store if style == "block" else thread_store
    options: dict[str, Any] = {} if style == "block" else {"vectorize": style == "thread"}
    launch = dev.launch(kernel, 1, 64, out, shape, dtype, dynamic, write, dynamic_shared=reserve, **options)
    return launch, dev.to_host(out)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("dynamic", [False, True])
def test_fresh_shared_memory_is_poison(style: str, dynamic: bool) -> None:
    floats = run(style, 64, np.float32, dynamic=dynamic, reserve=256, write=False)[1]
    assert np.isnan(floats).all()
    integers = run(style, 64, np.int32, dynamic=dynamic, reserve=256, write=False)[1]
    assert set(integers.tolist()) == {-842150451}


@pytest.mark.parametrize("style", STYLES)
def test_blocks_do_not_see_what_others_left(style: str) -> None:
    dev = gs.Device("h100-sxm")
    out = dev.malloc(64)
    kernel = block_store if style == "block" else thread_store
    dev.launch(kernel, 3, 64, out, 64, np.float32, False, True)
    dev.launch(kernel, 3, 64, out, 64, np.float32, False, False)
    assert np.isnan(dev.to_host(out)).all()


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(
    ("words", "dynamic", "reserve", "static"),
    [(12_288, False, 0, 48 * KIB), (12_289, True, 49_156, 0), (58_112, True, 227 * KIB, 0), (64, False, 183_296, 256)],
)
def test_what_is_allowed(style: str, words: int, dynamic: bool, reserve: int, static: int) -> None:
    launch, result = run(style, words, dynamic=dynamic, reserve=reserve)
    assert result.tolist() == list(range(64))
    assert launch.trace.shared_bytes == static + reserve
    assert launch.counters.shared_bytes_per_block == static


REFUSED: dict[str, tuple[int, bool, int, str]] = {
    "static": (
        12_289,
        False,
        0,
        (
            "brings static shared memory to 49,156 bytes: a kernel declares at most 49,152 (48 KiB); take more from "
            "the dynamic part, up to 232,448 bytes in all: shared(…, dynamic=True) in the kernel and "
            "dev.launch(…, dynamic_shared=nbytes)"
        ),
    ),
    "dynamic": (
        65,
        True,
        256,
        (
            "brings dynamic shared memory to 260 bytes: the launch reserved 256; reserve enough, "
            "dev.launch(…, dynamic_shared=260), at most 232,448 bytes per block with the static part"
        ),
    ),
    "nothing reserved": (64, True, 0, "brings dynamic shared memory to 256 bytes: the launch reserved 0; reserve"),
    "both": (
        64,
        False,
        227 * KIB,
        (
            "brings the block to 232,704 bytes of shared memory (232,448 of them dynamic): this GPU allows 232,448 per "
            "block; use a smaller tile"
        ),
    ),
}


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(style: str, name: str) -> None:
    words, dynamic, reserve, message = REFUSED[name]
    start = rf"(block|thread)_store: shared array 'tile' of shape \({words},\) "
    with pytest.raises(gs.LaunchError, match=start + re.escape(message)):
        run(style, words, dynamic=dynamic, reserve=reserve)


@gs.block_kernel
def two_blocks_style(blk: gs.Block, out: gs.DeviceArray, words: int) -> None:
    first = blk.shared(64, np.int8, "first", dynamic=True)
    second = blk.shared(words, np.int32, "second", dynamic=True)
    third = blk.shared(64, np.int32, "third")
    blk.sstore(first, blk.tx, blk.tx)
    blk.sstore(second, blk.tx, 2 * blk.tx)
    blk.sstore(third, blk.tx, 3 * blk.tx)
    blk.sync()
    blk.store(out, blk.tx, blk.sload(first, blk.tx) + blk.sload(second, blk.tx) + blk.sload(third, blk.tx))


@gs.kernel
def two_thread_style(t: Any, out: Any, words: int) -> Any:
    i = t.threadIdx.x
    first = t.shared("first", 64, np.int8, dynamic=True)
    second = t.shared("second", words, np.int32, dynamic=True)
    third = t.shared("third", 64, np.int32)
    first[i] = i
    second[i] = 2 * i
    third[i] = 3 * i
    yield t.syncthreads()
    out[i] = first[i] + second[i] + third[i]


@pytest.mark.parametrize("kernel", [two_blocks_style, two_thread_style])
def test_dynamic_arrays_share_what_the_launch_reserved(kernel: Any) -> None:
    dev = gs.Device("h100-sxm")
    out = dev.malloc(64, np.int32)
    dev.launch(kernel, 4, 64, out, 64, dynamic_shared=320)
    assert dev.to_host(out).tolist() == [6 * k for k in range(64)]
    with pytest.raises(gs.LaunchError, match=r"'second' of shape \(65,\) brings dynamic shared memory to 324 bytes"):
        dev.launch(kernel, 4, 64, out, 65, dynamic_shared=320)


def test_the_same_conflicts_in_both_parts() -> None:
    """Every 32nd word lies in one bank, wherever the array is."""

    @gs.block_kernel
    def columns(blk: gs.Block, dynamic: bool) -> None:
        blk.sload(blk.shared((32, 32), dynamic=dynamic), (blk.tx, 0))

    dev = gs.Device("h100-sxm")
    for dynamic in (False, True):
        counters = dev.launch(columns, 1, 32, dynamic, dynamic_shared=4096).counters
        assert counters.shared_wavefronts == 32


def test_the_limits_are_those_of_the_model() -> None:
    dev = gs.Device("tiny")
    out = dev.malloc(64)
    dev.launch(block_store, 1, 64, out, 4096, np.float32, False, True)
    with pytest.raises(
        gs.LaunchError, match=r"16,388 bytes of shared memory .* allows 16,384 per block; use a smaller"
    ):
        dev.launch(block_store, 1, 64, out, 4097, np.float32, False, True)


@gs.block_kernel
def reverse_through_tile(blk: gs.Block, out: gs.DeviceArray, dtype: Any) -> None:
    tile = blk.shared(64, np.int32)
    blk.sstore(tile, (63 - blk.tid).astype(dtype), blk.tid)
    blk.sync()
    blk.store(out, blk.bx * 64 + blk.tid, blk.sload(tile, blk.tid.astype(dtype)))


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.uint32, np.int64, np.uint64])
def test_indices_of_any_integer_type(dtype: Any) -> None:
    dev = gs.Device("h100-sxm")
    out = dev.malloc(128, np.int32)
    dev.launch(reverse_through_tile, 2, 64, out, dtype)
    assert dev.to_host(out).tolist() == [*range(63, -1, -1)] * 2

"""Every condition of the reference that concerns memory: refused or accepted as there, or with the reason why not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpusim_des as gs

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parent / "data" / "golden_device.json").read_text())
ROWS: list[list[str]] = GOLDEN["errors"]["rows"]

ACCEPTED = "accepted"

Action = Callable[[gs.Device], object]
Outcome = tuple[type[gs.SimError], str] | str


@gs.kernel
def read(t: Any, a: Any, b: Any) -> None:
    b[t.threadIdx.x] = a[t.threadIdx.x]


@gs.kernel
def declare_in_thread_style(t: Any, words: int, dtype: Any, dynamic: bool) -> None:
    t.shared("tile", words, dtype, dynamic=dynamic)


@gs.block_kernel
def declare_in_block_style(blk: gs.Block, words: int, dtype: Any, dynamic: bool) -> None:
    blk.shared(words, dtype, name="tile", dynamic=dynamic)


@gs.kernel
def declare_twice(t: Any) -> None:
    t.shared("tile", 8, np.float32)
    t.shared("tile", 8, np.int32)


def declaring(words: int, dtype: Any = np.float32, dynamic: int = 0) -> Action:
    def action(dev: gs.Device) -> None:
        for kernel in (declare_in_thread_style, declare_in_block_style):
            dev.launch(kernel, 1, 32, words, dtype, bool(dynamic), dynamic_shared=dynamic)

    return action


def allocating(dtype: Any) -> Action:
    return lambda dev: dev.to_host(dev.malloc(4, dtype))


def copying(dst: Any, src: Any, **options: Any) -> Action:
    """A copy between host arrays and, for ``None``, a device array of 8 floats."""

    def action(dev: gs.Device) -> None:
        array = dev.malloc(8)
        dev.memcpy(array if dst is None else dst, array if src is None else src, **options)

    return action


def copying_to_a_freed_array(dev: gs.Device) -> None:
    array = dev.malloc(8)
    dev.free(array)
    dev.memcpy(array, np.zeros(8, np.float32))


def copying_to_another_device(dev: gs.Device) -> None:
    dev.memcpy(gs.Device("h100-sxm").malloc(8), dev.malloc(8))


def freeing_twice(dev: gs.Device) -> None:
    array = dev.malloc(8)
    dev.free(array)
    dev.free(array)


def using_after_free(dev: gs.Device) -> None:
    array = dev.malloc(32)
    dev.free(array)
    dev.launch(read, 1, 32, array, dev.malloc(32))


MEMORY = gs.DeviceMemoryError
STATIC: Outcome = (gs.LaunchError, "bytes: a kernel declares at most 49,152")
HOST = np.zeros(8, np.float32)
STRIDED = np.zeros(16, np.float32)[::2]

CONDITIONS: dict[str, tuple[Action, Outcome]] = {
    "host.read": (lambda dev: dev.malloc(8)[0], (MEMORY, "lives in device memory, the host cannot touch")),
    "host.write": (lambda dev: dev.malloc(8).__setitem__(0, 1), (MEMORY, "lives in device memory, the host cannot")),
    "shared.redeclared": (lambda dev: dev.launch(declare_twice, 1, 32), (gs.KernelError, "one name is one array")),
    "shared.words12288": (declaring(12288), ACCEPTED),
    "shared.words12289": (declaring(12289), STATIC),
    "shared.words58112": (declaring(58112), STATIC),
    "shared.words58113": (declaring(58113), (gs.LaunchError, "232,452 bytes of shared memory .* allows 232,448")),
    "shared.words58113.limit_raised": (
        declaring(58113, dynamic=4 * 58113),
        (gs.LaunchError, r"shared_mem = 232452 per block: must lie between 0 and 227 KiB"),
    ),
    **{f"shared.type_{t}": (declaring(4, t), ACCEPTED) for t in ("int8", "int32", "uint32", "float16", "float64")},
    "shared.type_bool": (declaring(4, np.bool_), ACCEPTED),
    **{f"malloc.type_{t}{n}": (allocating(f"{t}{n}"), ACCEPTED) for t in ("int", "uint") for n in (8, 16, 32, 64)},
    **{f"malloc.type_{t}": (allocating(t), ACCEPTED) for t in ("float16", "float64", "bool", "complex128")},
    "malloc.zero": (lambda dev: dev.malloc(0), (MEMORY, "shape 0: sizes are whole numbers, at least 1")),
    "free.twice": (freeing_twice, (MEMORY, "was freed already: free each array once")),
    "free.foreign": (lambda dev: dev.free(gs.Device("h100-sxm").malloc(8)), (MEMORY, "another device: free it there")),
    "use_after_free": (using_after_free, (MEMORY, "was freed: allocate it again before using it")),
    "memcpy.direction": (copying(None, HOST, kind="d2h"), (MEMORY, r"the order is memcpy\(dst, src\)")),
    "memcpy.kind": (copying(None, HOST, kind="x"), (MEMORY, "kind = 'x': possible are")),
    "memcpy.odd_bytes": (copying(None, HOST, nbytes=30), (MEMORY, "30: must be a multiple of the 4 bytes")),
    "memcpy.too_long": (copying(None, np.zeros(9, np.float32), nbytes=36), (MEMORY, "36: dst, .* has 32 bytes")),
    "memcpy.type": (copying(None, np.zeros(8)), (MEMORY, "from float64 to float32")),
    "memcpy.freed": (copying_to_a_freed_array, (MEMORY, "was freed: allocate it again")),
    "memcpy.strided_src": (copying(None, STRIDED), (MEMORY, r"src is a host array .*np.ascontiguousarray\(src\)")),
    "memcpy.strided_dst": (copying(STRIDED, None), (MEMORY, "dst is a host array .* with strides")),
    "memcpy.list": (copying(None, [0.0] * 8), (MEMORY, "src is a list: give a device array or a NumPy array")),
    "memcpy.zero": (copying(None, HOST, nbytes=0), ACCEPTED),
    "memcpy.other_device": (copying_to_another_device, ACCEPTED),
}

ANY_TYPE = "device and shared memory hold every type of fixed size"

DIFFERENT: dict[tuple[str, str], str] = {
    ("shared.words12289", "B"): "CUDA allows 48 KiB of static shared memory; more is dynamic",
    ("shared.words58112", "B"): "CUDA allows 48 KiB of static shared memory; more is dynamic",
    ("shared.words58113.limit_raised", "T"): "the limit is the GPU's; change the model to change it",
    ("shared.type_int8", "T"): ANY_TYPE,
    ("shared.type_int8", "B"): ANY_TYPE,
    ("shared.type_uint32", "T"): ANY_TYPE,
    ("shared.type_float16", "B"): ANY_TYPE,
    ("shared.type_float64", "B"): ANY_TYPE,
    ("shared.type_bool", "B"): ANY_TYPE,
    **{(f"malloc.type_{t}", "T"): ANY_TYPE for t in ("int8", "uint8", "int16", "uint16", "uint32", "uint64")},
}
"""Where the outcome is not the reference's, and why."""


def test_every_condition_of_the_reference_has_a_test() -> None:
    assert {row[0] for row in ROWS} == set(CONDITIONS)
    assert set(DIFFERENT) <= {(row[0], row[1]) for row in ROWS}


@pytest.mark.parametrize("name", CONDITIONS)
def test_condition(name: str) -> None:
    action, outcome = CONDITIONS[name]
    dev = gs.Device("h100-sxm")
    if isinstance(outcome, str):
        action(dev)
    else:
        with pytest.raises(outcome[0], match=outcome[1]):
            action(dev)
        x = np.arange(32, dtype=np.float32)  # the device is as good as before
        a, b = dev.to_device(x), dev.malloc(32)
        dev.launch(read, 1, 32, a, b)
        assert dev.to_host(b).tolist() == x.tolist()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[1]}.{row[0]}")
def test_outcome(row: list[str]) -> None:
    """Accepted or refused as in the reference, whose classes of errors are others."""
    name, executor, _, outcome = row
    same = (outcome == ACCEPTED) == (CONDITIONS[name][1] == ACCEPTED)
    assert same == ((name, executor) not in DIFFERENT)

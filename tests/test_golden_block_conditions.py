"""Launches, indices and declarations that the hand-checkable reference accepts or refuses, and what this project does.

``DIFFERENT`` lists where the outcome is another one on purpose. A strided host array (``gidx.not_contiguous``) is
refused as a kernel argument, as every host array is, and copied when it goes to the device.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpusim_des as gs

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parent / "data" / "golden_block.json").read_text())


@gs.block_kernel
def nothing(blk: gs.Block) -> None:
    pass


@gs.block_kernel
def returns_one(blk: gs.Block) -> Any:
    return 1


@gs.block_kernel
def launches(blk: gs.Block, dev: gs.Device) -> None:
    dev.launch(nothing, 1, 32)


@gs.block_kernel
def load_one(blk: gs.Block, a: gs.DeviceArray, index: Any) -> None:
    blk.load(a, index)


@gs.block_kernel
def load_with_short_mask(blk: gs.Block, a: gs.DeviceArray) -> None:
    blk.load(a, 0, mask=np.ones(5, bool))


@gs.block_kernel
def load_last_four(blk: gs.Block, a: gs.DeviceArray) -> None:
    blk.load(a, blk.tid + 60, mask=blk.tid < 4)


@gs.block_kernel
def load_shared(blk: gs.Block, index: int) -> None:
    blk.sload(blk.shared(8), index)


@gs.block_kernel
def declare(blk: gs.Block, words: int, dtype: Any) -> None:
    blk.shared(words, dtype)


Action = Callable[[gs.Device], object]


def launching(grid: Any, block: Any) -> Action:
    return lambda dev: dev.launch(nothing, grid, block)


def loading(index: Any) -> Action:
    return lambda dev: dev.launch(load_one, 1, 32, dev.malloc(64), index)


def declaring(words: int, dtype: Any = np.float32) -> Action:
    return lambda dev: dev.launch(declare, 1, 32, words, dtype)


ACCEPTED = (None, "")
STRIDED = np.arange(128, dtype=np.float32)[::2]

CONDITIONS: dict[str, tuple[Action, tuple[type[Exception] | None, str]]] = {
    "cfg.block_1025": (launching(1, 1025), (gs.LaunchError, "block.x = 1,025: must lie between 1 and 1,024")),
    "cfg.block_32x33": (launching(1, (32, 33)), (gs.LaunchError, r"\(32, 33, 1\) has 1,056 threads: .* at most 1,024")),
    "cfg.block_z65": (launching(1, (1, 1, 65)), (gs.LaunchError, "block.z = 65: must lie between 1 and 64")),
    "cfg.block_y1024": (launching(1, (1, 1024)), ACCEPTED),
    "cfg.block_z64": (launching(1, (1, 1, 64)), ACCEPTED),
    "cfg.grid_0": (launching(0, 32), (gs.LaunchError, "grid.x = 0: must lie between 1 and 2,147,483,647")),
    "cfg.grid_negative": (launching(-1, 32), (gs.LaunchError, "grid.x = -1: must lie between 1 and")),
    "cfg.block_0": (launching(1, 0), (gs.LaunchError, "block.x = 0: must lie between 1 and 1,024")),
    "cfg.dims_4": (launching((1, 1, 1, 1), 1), (gs.LaunchError, r"\(1, 1, 1, 1\): give one, two or three .*, not 4")),
    "cfg.dims_float": (launching(1.5, 1), (gs.LaunchError, "grid.x = 1.5 is a float: .* whole numbers; use gs.cdiv")),
    "cfg.dims_empty": (launching((), 1), (gs.LaunchError, r"grid = \(\): give one, two or three sizes .*, not 0")),
    "cfg.dims_numpy_int": (launching(np.int64(1), np.int64(1)), ACCEPTED),
    "kernel.returns": (
        lambda dev: dev.launch(returns_one, 1, 32),
        (gs.KernelError, "'returns_one' returned 1: .*store"),
    ),
    "kernel.nested": (
        lambda dev: dev.launch(launches, 1, 32, dev),
        (gs.LaunchError, "'launches' launches 'nothing': .* from the host"),
    ),
    "gidx.minus1": (
        loading(-1),
        (gs.BoundsError, "index -1 is outside 0…63 .*negative index does not count from the end"),
    ),
    "gidx.past_end": (loading(64), (gs.BoundsError, "index 64 is outside 0…63")),
    "gidx.float": (loading(1.5), (gs.KernelError, r"index of type float64: .*convert with .astype\(np.int32\)")),
    "gidx.masked_off": (lambda dev: dev.launch(load_last_four, 1, 32, dev.malloc(64)), ACCEPTED),
    "gidx.not_contiguous": (
        lambda dev: dev.launch(load_one, 1, 32, STRIDED, 0),
        (gs.DeviceMemoryError, r"argument 'a' of kernel 'load_one' is a host array: .*a = dev.to_device\(a\)"),
    ),
    "gidx.mask_length": (
        lambda dev: dev.launch(load_with_short_mask, 1, 32, dev.malloc(64)),
        (gs.MaskError, r"shape \(5,\) .* the block has 32 threads"),
    ),
    "sidx.minus1": (lambda dev: dev.launch(load_shared, 1, 32, -1), (gs.BoundsError, "index -1 is outside 0…7")),
    "sidx.past_end": (lambda dev: dev.launch(load_shared, 1, 32, 8), (gs.BoundsError, "index 8 is outside 0…7")),
    "shared.words12288": (declaring(12288), ACCEPTED),
    "shared.words12289": (declaring(12289), (gs.LaunchError, "49,156 bytes: a kernel declares at most 49,152")),
    "shared.words58112": (declaring(58112), (gs.LaunchError, "232,448 bytes: a kernel declares at most 49,152")),
    "shared.words58113": (declaring(58113), (gs.LaunchError, "232,452 bytes of shared memory .* allows 232,448")),
    "shared.type_int8": (declaring(4, np.int8), ACCEPTED),
    "shared.type_int32": (declaring(4, np.int32), ACCEPTED),
    "shared.type_uint32": (declaring(4, np.uint32), ACCEPTED),
    "shared.type_float16": (declaring(4, np.float16), ACCEPTED),
    "shared.type_float64": (declaring(4, np.float64), ACCEPTED),
    "shared.type_bool": (declaring(4, np.bool_), ACCEPTED),
}

DIFFERENT = {
    "cfg.block_z65": "CUDA's limit in z is 64",
    "cfg.grid_0": "CUDA refuses an empty launch",
    "cfg.grid_negative": "CUDA refuses it",
    "cfg.block_0": "CUDA refuses an empty block",
    "cfg.dims_empty": "no size given",
    "cfg.dims_numpy_int": "NumPy integers are whole numbers",
    "kernel.returns": "nobody would see the value",
    "kernel.nested": "dynamic parallelism is not modelled",
    "gidx.float": "an element number is whole",
    "shared.words12289": "CUDA allows 48 KiB of static shared memory; more is dynamic",
    "shared.words58112": "CUDA allows 48 KiB of static shared memory; more is dynamic",
    "shared.type_int8": "shared memory holds elements of any size",
    "shared.type_float16": "shared memory holds elements of any size",
    "shared.type_float64": "shared memory holds elements of any size",
    "shared.type_bool": "shared memory holds elements of any size",
}
"""Where the outcome is not the reference's, and why."""

ELSEWHERE = {"occupancy.threads0", "amdahl.n0"}
"""Formulas: their errors are tested with them."""

BUILTIN = {"ValueError": ValueError, "TypeError": ValueError, "IndexError": IndexError, "MemoryError": ValueError}
"""Which built-in class the project's error is as well; a wrong type of a launch argument is a `LaunchError`."""


def test_every_condition_of_the_reference_has_a_test() -> None:
    assert {row[0] for row in GOLDEN["errors"]} == set(CONDITIONS) | ELSEWHERE


@pytest.mark.parametrize("row", [r for r in GOLDEN["errors"] if r[0] not in ELSEWHERE], ids=lambda row: row[0])
def test_condition(row: list[str]) -> None:
    name, _, _, outcome = row
    action, (error, message) = CONDITIONS[name]
    dev = gs.Device("h100-sxm")
    if error is None:
        action(dev)
    else:
        assert issubclass(error, gs.SimError)
        with pytest.raises(error, match=message):
            action(dev)
    same = outcome == "accepted" if error is None else outcome in BUILTIN and issubclass(error, BUILTIN[outcome])
    assert same == (name not in DIFFERENT)


def test_a_strided_host_array_is_copied() -> None:
    dev = gs.Device("h100-sxm")
    assert dev.to_host(dev.to_device(STRIDED)).tolist() == list(range(0, 128, 2))

"""Tensor cores in block style: every mistake is named, with the place and the remedy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpusim_des as gs
from tests.kernels import run_block as run

F16, F32, I32 = np.float16, np.float32, np.int32


def fill(blk: gs.Block, shape: tuple[int, int], dtype: Any = F16) -> gs.Fragment:
    return blk.fill_fragment(shape, 0.0, dtype)


OUTSIDE: list[tuple[Any, str]] = [
    (
        lambda blk, a: blk.load_fragment(a, blk.warp * 16 + 16, 24, (16, 16)),
        (
            r"k: load_fragment of 'a' in line \d+ of \w+.py: 16 × 16 elements at \(32, 24\): index 47 of "
            r"dimension 0 \(shape \(32, 40\)\) is outside 0…31 \(warp 1 of block \(0, 0, 0\)\)"
        ),
    ),
    (
        lambda blk, a: blk.store_fragment(a, 0, 32, fill(blk, (16, 16))),
        r"store_fragment to 'a' .*at \(0, 32\): index 47 of dimension 1 \(shape \(32, 40\)\) is outside 0…39 \(warp 0",
    ),
    (
        lambda blk, a: blk.load_fragment(a, 0, -8, (16, 16)),
        r"at \(0, -8\): index -8 of dimension 1 .*outside 0…39",
    ),
    (
        lambda blk, a: blk.load_fragment(blk.shared((16, 16), F16, name="s"), 8, 0, (8, 16), transposed=True),
        r"load_fragment of 's' .*16 × 8 elements at \(8, 0\): index 23 of dimension 0 .*outside 0…15",
    ),
]

PLACES: list[tuple[Any, str]] = [
    (
        lambda blk, a: blk.load_fragment(a, blk.tid, 0, (16, 16)),
        (
            r"load_fragment of 'a' in line \d+ of \w+.py: row differs between the lanes of warp 0 of block "
            r"\(0, 0, 0\) \(values 0, 1, 2, 3, …\): a warp has one fragment"
        ),
    ),
    (
        lambda blk, a: blk.load_fragment(a, 0, blk.warp + blk.lane // 16, (16, 16)),
        r"col differs between the lanes of warp 0 of block \(0, 0, 0\) \(values 0, 1\)",
    ),
    (lambda blk, a: blk.load_fragment(a, 0.5, 0, (16, 16)), "has a row of type float64: indices are integers"),
    (
        lambda blk, a: blk.load_fragment(a, 0, 4 + 8 * blk.warp, (16, 16)),
        (
            r"each lane moves 16 bytes, at an address that must be a multiple of 16; the fragment of warp 0 of block "
            r"\(0, 0, 0\) begins 8 bytes beyond one, its rows lie 80 bytes apart: move the corner, or pad"
        ),
    ),
    (
        lambda blk, a: blk.load_fragment(blk.shared((16, 65), F16), 0, 0, (16, 16)),
        "must be a multiple of 16; .*its rows lie 130 bytes apart: move the corner, or pad the array's rows",
    ),
    (
        lambda blk, a: blk.load_fragment(blk.shared(64, F16, name="s"), 0, 0, (8, 8)),
        r"array 's' has shape \(64,\): a fragment is a part of a two-dimensional array",
    ),
    (
        lambda blk, a: blk.load_fragment([1], 0, 0, (8, 8)),
        "load_fragment .*on a list: give an array in global or shared",
    ),
    (
        lambda blk, a: blk.load_fragment(blk.shared((16, 16), np.int16), 0, 0, (8, 8)),
        "a fragment of int16: possible are float16, float32, float64, int8, int32",
    ),
    (lambda blk, a: blk.load_fragment(a, 0, 0, (16, 0)), r"shape = \(16, 0\): give two whole numbers of at least 1"),
    (lambda blk, a: blk.load_fragment(a, 0, 0, 16), "shape = 16: give two whole numbers"),
    (
        lambda blk, a: blk.store_fragment(a, 0, 0, fill(blk, (16, 16), F32)),
        r"a fragment of float32 into an array of float16: convert it first, fragment.astype\(np.float16\)",
    ),
    (lambda blk, a: blk.store_fragment(a, 0, 0, blk.tid), "store_fragment .*on a Lanes: give a fragment, made by"),
]

ARITHMETIC: list[tuple[Any, str]] = [
    (lambda blk, a: blk.fill_fragment((1, 2, 3), 0.0), r"shape = \(1, 2, 3\): give two whole numbers"),
    (lambda blk, a: blk.fill_fragment((8, 8), 0.0, np.uint8), "fill_fragment .*a fragment of uint8: possible are"),
    (lambda blk, a: blk.fill_fragment((8, 8), blk.tid), "fill_fragment .*takes a Lanes: a fragment combines with"),
    (lambda blk, a: blk.fill_fragment((8, 8), 0.5, I32), "takes 0.5: a fragment of int32 holds whole numbers"),
    (
        lambda blk, a: blk.mma(fill(blk, (16, 16)), fill(blk, (16, 16), F32), fill(blk, (16, 16), F32)),
        (
            "mma in .* multiplies float16 by float32 and adds to float32: tensor cores can do float16 → float32 or "
            "float16, float32 → float32, float64 → float64, int8 → int32"
        ),
    ),
    (
        lambda blk, a: blk.mma(fill(blk, (16, 16), F32), fill(blk, (16, 16), F32), fill(blk, (16, 16), F16)),
        "multiplies float32 by float32 and adds to float16",
    ),
    (
        lambda blk, a: blk.mma(fill(blk, (16, 16)), fill(blk, (8, 16)), fill(blk, (16, 16))),
        "mma in .* does not fit together, A of 16 × 16, B of 8 × 16, C of 16 × 16: A is m × k, B is k × n, C is m × n",
    ),
    (
        lambda blk, a: blk.mma(fill(blk, (8, 16)), fill(blk, (16, 32)), fill(blk, (8, 32))),
        (
            r"is a product of m × n × k = 8 × 32 × 16 \(A of 8 × 16, B of 16 × 32, C of 8 × 32\), which no fp16 "
            "instruction divides: they are 16 × 8 × 8, 16 × 8 × 16"
        ),
    ),
    (lambda blk, a: blk.mma(a, a, a), "mma in .* on a DeviceArray: give a fragment, made by"),
    (lambda blk, a: fill(blk, (16, 8)) + fill(blk, (8, 16)), "add in .*combines <Fragment 16 × 8 float16> with <Frag"),
    (lambda blk, a: fill(blk, (16, 8)) - fill(blk, (16, 8), F32), "subtract .*shape and type must be the same"),
    (lambda blk, a: blk.tid * fill(blk, (16, 8)), "multiply in .*takes a Lanes: a fragment combines with"),
    (lambda blk, a: fill(blk, (16, 8), I32) * 1.5, "takes 1.5: a fragment of int32 holds whole numbers"),
    (lambda blk, a: fill(blk, (16, 8)).astype(np.int16), "astype in .*a fragment of int16: possible are"),
]


@pytest.mark.parametrize(("body", "message"), OUTSIDE)
def test_fragments_outside_of_an_array(body: Any, message: str) -> None:
    with pytest.raises(gs.BoundsError, match=message):
        run(body, np.zeros((32, 40), F16), block=64)


@pytest.mark.parametrize(("body", "message"), PLACES + ARITHMETIC)
def test_mistakes(body: Any, message: str) -> None:
    with pytest.raises(gs.KernelError, match=message):
        run(body, np.zeros((32, 40), F16), block=64)


def test_a_branch_within_a_warp_is_refused() -> None:
    def body(blk: gs.Block, a: gs.DeviceArray) -> None:
        x = blk.fill_fragment((16, 16), 0.0, F16)
        with blk.branch((blk.warp == 0) | (blk.lane < 8) | (blk.lane == 20)):
            blk.mma(x, x, x)

    with pytest.raises(
        gs.KernelError,
        match=r"k: mma in line \d+ of \w+.py: mma needs all 32 lanes of a warp: warp 1 of block "
        r"\(0, 0, 0\) has 9 \(lanes 0-7, 20\); branch on blk.warp, which keeps warps whole",
    ):
        run(body, np.zeros(1), block=64)


@pytest.mark.parametrize("branch", [False, True])
def test_a_block_with_a_part_filled_warp_is_refused(branch: bool) -> None:
    def body(blk: gs.Block, a: gs.DeviceArray) -> None:
        if branch:
            with blk.branch(blk.warp == 0):
                blk.fill_fragment((16, 16), 0.0)
        blk.fill_fragment((16, 16), 0.0)

    with pytest.raises(
        gs.KernelError,
        match=r"mma needs all 32 lanes of a warp: warp 1 of block \(0, 0, 0\) has 16 \(lanes 0-15\); a block of 48 "
        "threads is no multiple of 32",
    ):
        run(body, np.zeros(1), block=48)


def test_a_fragment_of_another_launch_is_refused() -> None:
    kept: list[gs.Fragment] = []

    def body(blk: gs.Block, a: gs.DeviceArray) -> None:
        kept.append(blk.fill_fragment((16, 16), 0.0, F16))
        blk.mma(kept[0], kept[0], kept[0])

    run(body, np.zeros(1))
    with pytest.raises(gs.KernelError, match=r"mma in .*uses a fragment of another launch"):
        run(body, np.zeros(1))
    with pytest.raises(gs.KernelError, match=r"add in .*uses a fragment of another launch"):
        run(lambda blk, a: fill(blk, (16, 16)) + kept[0], np.zeros(1))

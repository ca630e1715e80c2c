"""What a piece of advice says that it costs is near what its remedy gains in simulated time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpusim_des as gs
from tests import advised_kernels as k

N = 512
Run = Callable[[gs.Device], gs.Launch]


def on_two(kernel: Any, grid: Any, block: Any, *more: Any) -> Run:
    def run(dev: gs.Device) -> gs.Launch:
        a, out = (dev.malloc(4 * N * N, np.float32, name) for name in ("a", "out"))
        return dev.launch(kernel, grid, block, a, out, *more)

    return run


def counting(keys: Any) -> Run:
    def run(dev: gs.Device) -> gs.Launch:
        array, bins = dev.to_device(keys.astype(np.int32), "keys"), dev.to_device(np.zeros(256, np.int32), "bins")
        dev.forget_launches()
        return dev.launch(k.shared_histogram, N * N // 256, 256, array, bins)

    return run


def adding(threads: int) -> Run:
    def run(dev: gs.Device) -> gs.Launch:
        a, b, c = (dev.malloc(N * N, np.float32, name) for name in "abc")
        return dev.launch(k.vector_add, N * N // threads, threads, a, b, c, N * N)

    return run


KEYS = np.random.default_rng(4).integers(0, 256, N * N)
TILES = (N // 32, N // 32), (32, 8), N
PAIRS: dict[str, tuple[Run, Run]] = {
    "bank_conflicts": (on_two(k.through_tile, *TILES, 32), on_two(k.through_tile, *TILES, 33)),
    "uncoalesced": (on_two(k.records, 1024, 256), on_two(k.shifted, 1024, 256)),
    "loop_bookkeeping": (on_two(k.counted_loop, 1024, 256, 16), on_two(k.constant_loop, 1024, 256)),
    "hot_atomics": (counting(np.where(np.arange(N * N) % 100 < 97, 7, KEYS)), counting(KEYS)),
    "tiny_blocks": (adding(32), adding(64)),
}


@pytest.mark.parametrize("check", PAIRS)
def test_a_remedy_gains_about_what_was_said(check: str) -> None:
    def play(run: Run) -> tuple[float, list[gs.Advice]]:
        dev = gs.Device(gs.load_gpu("h100-sxm").slice(sms=4))
        launch = run(dev)
        return dev.simulate(engine="compiled").kernels[-1].seconds, launch.advice()

    (before, said), (after, left) = map(play, PAIRS[check])
    assert said[0].check == check
    assert said[0].share == pytest.approx(1 - after / before, abs=0.15)
    assert check not in [advice.check for advice in left]

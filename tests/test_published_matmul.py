"""A published matrix multiplication, played back: what it costs to deal the threads of a warp out along rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpusim_des as gs
from gpusim_des.gpu import load_gpu
from tests.published import PUBLISHED

M, N, K = 64, 32, 96
"""C is M × N: a block of 32 × 32 threads for each of the two SMs; no SM holds more at a time, as on the chip."""

UNROLLED = 4
"""The loads of four turns come before their multiply-adds, as compilers unroll such a loop."""


def multiply(blk: gs.Block, a: Any, b: Any, c: Any, row: Any, column: Any) -> None:
    total: Any = 0.0
    for k in range(0, K, UNROLLED):
        left = [blk.load(a, row * K + k + u) for u in range(UNROLLED)]
        right = [blk.load(b, (k + u) * N + column) for u in range(UNROLLED)]
        for x, y in zip(left, right, strict=True):
            total = total + x * y
    blk.store(c, row * N + column, total)


@gs.block_kernel
def naive(blk: gs.Block, a: gs.DeviceArray, b: gs.DeviceArray, c: gs.DeviceArray) -> None:
    multiply(blk, a, b, c, blk.bx * 32 + blk.tx % 32, blk.by * 32 + blk.tx // 32)


@gs.block_kernel
def coalesced(blk: gs.Block, a: gs.DeviceArray, b: gs.DeviceArray, c: gs.DeviceArray) -> None:
    multiply(blk, a, b, c, blk.bx * 32 + blk.tx // 32, blk.by * 32 + blk.tx % 32)


def test_coalescing_a_matrix_multiplication() -> None:
    """siboehm/SGEMM_CUDA, README, an RTX A6000, 4096³: 309 GFLOP/s naive, 1986.5 coalesced, 6.43 times as fast.

    The RTX 3090 stands in for the A6000, which has the same SMs. For each k a warp of the naive kernel asks for 32
    sectors of A and 1 of B, a warp of the coalesced one for 1 and 4: 33 and 5. The 32 elements of A lie in one bank
    and take the load/store unit 32 cycles; with 84 SMs at about 1.8 GHz the published rate is 31 cycles for each k, the
    coalesced one 4.9, which is the latency of B from the L2 behind four loads at a time. A block here meets every line
    of B once, as there, so that the small K is enough for the steady state. The ratio of the times within 25 %.
    """
    gpu = load_gpu("rtx-3090").slice(sms=2)
    rng = np.random.default_rng(0)
    left, right = rng.random((M, K), dtype=np.float32), rng.random((K, N), dtype=np.float32)
    cycles, sectors = {}, {}
    for kernel in (naive, coalesced):
        dev = gs.Device(gpu)
        a, b, c = (dev.to_device(x) for x in (left.ravel(), right.ravel(), np.zeros(M * N, np.float32)))
        dev.forget_launches()  # the published matrices are much larger than the L2: a cold one stands for that
        launch = dev.launch(kernel, (M // 32, N // 32), 1024, a, b, c)
        assert dev.to_host(c) == pytest.approx((left @ right).ravel(), rel=1e-4)
        sectors[launch.name] = launch.counters.global_load_sectors
        cycles[launch.name] = dev.simulate().kernels[0].cycles
    steps = M * N // 32 * K
    assert sectors == {"naive": 33 * steps, "coalesced": 5 * steps}
    published = PUBLISHED["sgemm_a6000"]
    ratio = published["coalesced_gflops"] / published["naive_gflops"]
    assert cycles["naive"] / cycles["coalesced"] == pytest.approx(ratio, rel=0.25)

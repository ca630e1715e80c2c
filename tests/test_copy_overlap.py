"""Copies that run beside arithmetic, and tensor cores at their rate: what these instructions are for, in time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpusim_des as gs
from gpusim_des.timeline import KernelTiming

THREADS, TILES = 128, 12
WORK = 160
"""fp32 instructions on each tile: 4 warps on 4 sub-partitions, 4 cycles each as a chain, about a trip to DRAM."""


@gs.block_kernel
def one_buffer(blk: gs.Block, a: gs.DeviceArray, out: gs.DeviceArray) -> None:
    tile = blk.shared((THREADS,), np.float32, "tile")
    total = np.float32(0)
    for k in range(TILES):
        blk.sstore(tile, blk.tx, blk.load(a, (blk.bx * TILES + k) * THREADS + blk.tx))
        blk.sync()
        total = work(blk, total, tile, blk.tx)
        blk.sync()
    blk.store(out, blk.bx * THREADS + blk.tx, total)


@gs.block_kernel
def two_buffers(blk: gs.Block, a: gs.DeviceArray, out: gs.DeviceArray) -> None:
    tile = blk.shared((2, THREADS), np.float32, "tile")
    total = np.float32(0)

    def fetch(k: int) -> None:
        if k < TILES:
            blk.pipeline_memcpy_async(tile, (k % 2, blk.tx), a, (blk.bx * TILES + k) * THREADS + blk.tx)
        blk.pipeline_commit()

    fetch(0)
    for k in range(TILES):
        fetch(k + 1)
        blk.pipeline_wait_prior(1)
        blk.sync()
        total = work(blk, total, tile, (k % 2, blk.tx))
        blk.sync()
    blk.store(out, blk.bx * THREADS + blk.tx, total)


@gs.block_kernel
def two_buffers_in_bulk(blk: gs.Block, a: gs.DeviceArray, out: gs.DeviceArray) -> None:
    tile = blk.shared((2, THREADS), np.float32, "tile")
    full = [blk.shared_barrier("even"), blk.shared_barrier("odd")]
    total = np.float32(0)

    def fetch(k: int) -> None:
        if k < TILES:
            start = (blk.bx * TILES + k) * THREADS
            blk.memcpy_async_bulk(tile, k % 2 * THREADS, a, start, THREADS, full[k % 2], mask=blk.tx == 0)

    fetch(0)
    for k in range(TILES):
        fetch(k + 1)
        blk.barrier_wait(full[k % 2])
        total = work(blk, total, tile, (k % 2, blk.tx))
        blk.sync()
    blk.store(out, blk.bx * THREADS + blk.tx, total)


def work(blk: gs.Block, total: Any, tile: Any, index: Any) -> Any:
    """WORK dependent multiply-adds that leave the sum of the tiles."""
    total = total + blk.sload(tile, index)
    for _ in range(WORK - 1):
        total = total * np.float32(1) + np.float32(0)
    return total


def time_of(kernel: Any, blocks: int) -> KernelTiming:
    """Simulate it on SMs of its own and check its result."""
    dev = gs.Device(gs.load_gpu("h100-sxm").slice(sms=4))
    data = np.arange(blocks * TILES * THREADS, dtype=np.float32) % 64
    a, out = dev.to_device(data), dev.malloc(blocks * THREADS, np.float32)
    dev.forget_launches()  # otherwise the copies leave the data in the L2
    dev.launch(kernel, blocks, THREADS, a, out)
    expected = data.reshape(blocks, TILES, THREADS).sum(axis=1).reshape(-1)
    assert dev.to_host(out).tolist() == expected.tolist()
    return dev.simulate(detail="kernel").kernels[0]


@pytest.mark.parametrize("kernel", [two_buffers, two_buffers_in_bulk], ids=["by threads", "in bulk"])
def test_double_buffering_hides_the_copies(kernel: Any) -> None:
    """One block per SM: latency + work for each tile becomes work alone, or half of both where the latency is longer.

    A copy is started one round before it is needed: a round lasts as long as the work, and if the copy takes longer, by
    what two rounds lack.
    """
    alone, hidden = time_of(one_buffer, 4), time_of(kernel, 4)
    gpu = gs.load_gpu("h100-sxm")
    work_cycles = WORK * gpu.pipe("fp32").latency_cycles
    fixed = gpu.block_start_cycles + gpu.block_end_cycles
    one_after_the_other = TILES * (gpu.dram_latency_cycles + work_cycles) + fixed
    latency = gpu.dram_latency_cycles + gpu.bulk_overhead_cycles * (kernel is two_buffers_in_bulk)
    overlapped = gpu.dram_latency_cycles + TILES * max(work_cycles, (latency + work_cycles) // 2) + fixed
    # Barriers, addresses and shared accesses come on top, 100 to 200 cycles for each tile; they hide latency, too.
    assert one_after_the_other < alone.cycles < one_after_the_other + TILES * 200
    assert overlapped - TILES * 50 < hidden.cycles < overlapped + TILES * 200
    assert alone.stalls["long_scoreboard"] > 2 * hidden.stalls["long_scoreboard"]


@gs.block_kernel
def tensor_chains(blk: gs.Block, out: gs.DeviceArray, dtype: Any, rounds: int) -> None:
    a = blk.fill_fragment((16, 16), 1, dtype)
    b = blk.fill_fragment((16, 8), 1, dtype)
    sums = [blk.fill_fragment((16, 8), 0, np.float32) for _ in range(4)]
    for _ in range(rounds):
        sums = [blk.mma(a, b, c) for c in sums]
    total = sums[0] + sums[1] + sums[2] + sums[3]
    blk.store_fragment(out, blk.warp * 16, 0, total)


@pytest.mark.parametrize(("gpu", "dtype", "kind"), [("a100-sxm-80gb", "f2", "fp16"), ("h100-sxm", "f2", "fp16")])
def test_tensor_cores_reach_their_rate(gpu: str, dtype: str, kind: str) -> None:
    """Sixteen warps with four independent chains keep the tensor cores busy at the model's multiply-adds per cycle.

    Round robin, because the greedy policy leaves the youngest warp of each scheduler to run alone at the end.
    """
    dev = gs.Device(gs.load_gpu(gpu).slice(sms=1).replace(scheduler_policy="lrr"))
    rounds, warps = 128, 16
    out = dev.malloc((16 * warps, 8), np.float32)
    dev.launch(tensor_chains, 1, 32 * warps, out, np.dtype(dtype), rounds, registers=64)
    assert (dev.to_host(out) == 4 * 16 * rounds).all()
    kernel = dev.simulate(detail="kernel").kernels[0]
    multiply_adds = warps * rounds * 4 * 16 * 8 * 16
    busy = multiply_adds / (4 * dev.gpu.tensor_rate(kind))
    assert kernel.pipe_utilization["tensor"] == pytest.approx(busy / kernel.sm_active_cycles)
    start_and_end = dev.gpu.block_start_cycles + dev.gpu.block_end_cycles
    assert kernel.cycles == pytest.approx(busy + start_and_end, rel=0.06)
    assert "tensor pipes limit" in kernel.explain()


def test_what_a_gpu_does_not_have_is_refused() -> None:
    dev = gs.Device("v100-sxm2")
    dev.launch(two_buffers, 1, THREADS, dev.to_device(np.ones(TILES * THREADS, np.float32)), dev.malloc(THREADS))
    with pytest.raises(
        gs.TraceError, match=r"'two_buffers' uses async_copy instructions, which .* does not have: .* 8.0"
    ):
        dev.simulate()
    dev = gs.Device("a100-sxm-80gb")
    dev.launch(
        two_buffers_in_bulk, 1, THREADS, dev.to_device(np.ones(TILES * THREADS, np.float32)), dev.malloc(THREADS)
    )
    with pytest.raises(
        gs.TraceError, match=r"uses bulk_copy instructions, .* bulk copies need 9.0; choose a newer GPU"
    ):
        dev.simulate()


def test_tensor_types_that_a_gpu_does_not_have_are_refused() -> None:
    @gs.block_kernel
    def in_double(blk: gs.Block, out: gs.DeviceArray) -> None:
        a, b, c = (blk.fill_fragment(shape, 1, np.float64) for shape in ((8, 4), (4, 8), (8, 8)))
        blk.store_fragment(out, 0, 0, blk.mma(a, b, c))

    dev = gs.Device("rtx-4090")
    dev.launch(in_double, 1, 32, dev.malloc((8, 8), np.float64))
    with pytest.raises(
        gs.TraceError, match=r"mma of type fp64: NVIDIA GeForce RTX 4090 \(compute capability 8.9\) has no tensor cores"
    ):
        dev.simulate()

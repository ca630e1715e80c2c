"""A report of the measuring kit about a GPU that does not exist: its microbenchmarks, simulated on a known model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import gpusim_des as gs
from gpusim_des.gpu import GPU
from gpusim_des.silicon.chases import cycles_per_hop
from gpusim_des.silicon.launches import us_of_empty_kernels, us_of_empty_nodes
from gpusim_des.silicon.steady import cycles_per_step, kernel_of
from gpusim_des.silicon.streams import bandwidth_of_one_element, seconds_of_a_reading_block
from gpusim_des.timeline import KernelTiming

Rows = list[dict[str, Any]]

BUS_BITS = 512


def report(gpu: GPU) -> dict[str, Any]:
    """All records that a calibration reads."""
    parts: dict[str, Callable[[GPU], Rows]] = {
        "device_properties": device_properties,
        "sm_clock": lambda gpu: [{"load": "all SMs, FP32", "ghz": gpu.sm_clock_hz / 1e9}],
        "memory_latency": memory_latency,
        "instruction_latency": instruction_latency,
        "dram_bandwidth": dram_bandwidth,
        # The kit goes around the L1, which a simulated load cannot: the figure is the model's own.
        "l2_bandwidth": lambda gpu: [{"kernel": "read", "gb_per_s": gpu.l2_bandwidth_bytes_per_s / 1e9}],
        "launch_cost": launch_cost,
        "block_dispatch": block_dispatch,
        "pcie_copy": pcie_copy,
    }
    records = [{"id": name, "rows": make(gpu)} for name, make in parts.items()]
    return {"schema": "gpusim-des-measured/1", "program": "micro", "dry_run": False, "records": records}


def device_properties(gpu: GPU) -> Rows:
    return [
        {
            "name": "Synthetic",
            "compute_capability": gpu.compute_capability,
            "sms": gpu.sms,
            "copy_engines": gpu.copy_engines,
            "l2_bytes": gpu.l2_bytes,
            "memory_bytes": gpu.memory_bytes,
            "memory_clock_khz": gpu.dram_bandwidth_bytes_per_s * 8 // (2000 * BUS_BITS),
            "memory_bus_bits": BUS_BITS,
        }
    ]


def memory_latency(gpu: GPU) -> Rows:
    @gs.block_kernel
    def shared_chase(blk: gs.Block, out: gs.DeviceArray, hops: int) -> None:
        ring = blk.shared(32, np.int32)
        blk.sstore(ring, blk.tx, 0)
        at: Any = 0
        for _ in range(hops):
            at = blk.sload(ring, at)
        blk.store(out, blk.tx, at)

    def walked(hops: int) -> KernelTiming:
        dev = gs.Device(gpu.slice(sms=1))
        dev.launch(shared_chase, 1, 1, dev.malloc(1, np.int32), hops, registers=32, count="declared")
        return kernel_of(dev)

    rows: Rows = [{"space": "shared", "load": "shared", "lanes": 1, "cycles": cycles_per_step(walked, 32)}]
    l2, l1 = gpu.l2_bytes, gpu.l1_bytes
    levels = [("ca", min(l1 // 4, 32 * 1024)), ("cg", max(l2 // gpu.l2_partitions // 2, l1 * 5 // 4)), ("cg", 4 * l2)]
    if gpu.l2_partitions > 1:
        levels.append(("cg", 3 * l2 // 4))
    return rows + [
        {
            "space": "global",
            "load": load,
            "lanes": 1,
            "footprint_bytes": nbytes,
            "cycles": cycles_per_hop(gpu, {"kib": nbytes / 1024}),
        }
        for load, nbytes in levels
    ]


def instruction_latency(gpu: GPU) -> Rows:
    @gs.block_kernel
    def chain(blk: gs.Block, out: gs.DeviceArray, op: str, steps: int) -> None:
        value: Any = blk.tx.astype(np.float32)
        if op == "shuffle":
            for _ in range(steps):
                value = blk.shfl(value, 0)
        else:
            value = blk.compute(steps, op=op, value=value)
        blk.store(out, blk.tx, value)

    def cycles(op: str) -> float:
        def run(steps: int) -> KernelTiming:
            dev = gs.Device(gpu.slice(sms=1))
            dev.launch(chain, 1, 32, dev.malloc(32), op, steps, registers=32, count="declared")
            return kernel_of(dev)

        return cycles_per_step(run, 64)

    names = {"FFMA": "fp32", "LOP3": "int", "DFMA": "fp64", "SHFL.IDX": "shuffle"}
    return [{"instruction": name, "cycles": cycles(op)} for name, op in names.items()]


def dram_bandwidth(gpu: GPU) -> Rows:
    threads = gpu.max_threads_per_sm // 2
    style = {"style": "one element per thread", "forced_by": "shared", "warps_per_sm": 2 * threads // 32}
    rows: Rows = [
        {
            **style,
            "kernel": name,
            "gb_per_s": bandwidth_of_one_element(gpu, {"kernel": name, "threads": threads, "blocks": 2}),
        }
        for name in ("read", "write", "scale")
    ]
    alone = gpu.sms * 32 * 4 / seconds_of_a_reading_block(gpu) / 1e9
    return [*rows, {**style, "warps_per_sm": 1, "kernel": "read", "gb_per_s": alone}]


def launch_cost(gpu: GPU) -> Rows:
    ahead = gpu.replace(launch_call_fs=0)
    call = gpu.launch_call_fs / 1e9
    return [
        {"how": "stream, queued ahead", "us": us_of_empty_kernels(ahead, {"blocks": 1}), "host_us": call},
        {"how": "graph, queued ahead", "us": us_of_empty_nodes(ahead, {"blocks": 1}), "host_us": call},
    ]


def block_dispatch(gpu: GPU) -> Rows:
    @gs.block_kernel
    def near_nothing(blk: gs.Block, out: gs.DeviceArray) -> None:
        blk.store(out, 0, 1.0, mask=blk.bx < 0)

    def us(blocks: int) -> float:
        dev = gs.Device(gpu)
        dev.launch(near_nothing, blocks, 32, dev.malloc(1), registers=32)
        return 1e6 * dev.simulate(engine="simpy", detail="kernel").kernels[0].seconds

    return [{"threads": 32, "blocks": blocks, "us": us(blocks)} for blocks in (4096, 8192)]


def pcie_copy(gpu: GPU) -> Rows:
    rows: Rows = []
    for direction in ("h2d", "d2h"):
        for memory in ("pinned", "pageable"):
            for nbytes in (1024, 1 << 20, 1 << 22):
                dev = gs.Device(gpu)
                host = dev.pinned(nbytes, np.uint8) if memory == "pinned" else np.zeros(nbytes, np.uint8)
                there = dev.to_device(np.zeros(nbytes, np.uint8))
                dev.forget_launches()
                dev.memcpy(*((there, host) if direction == "h2d" else (host, there)))
                sim = dev.simulate(engine="simpy", detail="kernel")
                us = 1e6 * sim.copies[0].seconds
                times = {"us": us, "host_us": us} if memory == "pinned" else {"host_us": 1e6 * sim.seconds}
                rows.append({"direction": direction, "memory": memory, "bytes": nbytes, **times})
    return rows

"""What reproductions share: a kernel's time in the steady state, on a part of a GPU that is small enough."""

from __future__ import annotations

from collections.abc import Callable

from gpusim_des.device import Device
from gpusim_des.gpu import GPU
from gpusim_des.timeline import KernelTiming
from gpusim_des.timing.choice import Engine

COMPILED_FROM = 2_000
"""Warp instructions from which on the compiled engine is taken, which most validations have loaded anyway."""

STREAMED_L2_BYTES = 16 * 1024
"""L2 of an SM's part of a GPU whose arrays are much larger than the L2.

It is soon full of what was written, as the chip's is for most of a run that goes on for milliseconds.
"""

STREAMED_BYTES = 10 * STREAMED_L2_BYTES
"""What an SM writes before the steady state is taken for granted: the L2 is full, and DRAM writes what leaves it."""


def engine_for(dev: Device) -> Engine:
    """Return the engine that is quicker for what a device was asked to do."""
    work = sum(trace.warp_instructions for trace in dev.program.traces())
    return "compiled" if work >= COMPILED_FROM else "simpy"


def kernel_of(dev: Device) -> KernelTiming:
    """Simulate what a device was asked to do; returns its last kernel."""
    return dev.simulate(engine=engine_for(dev), detail="kernel").kernels[-1]


def seconds_per_step(run: Callable[[int], KernelTiming], steps: int) -> float:
    """Seconds that each of `steps` more steps takes: the time of twice as many less that of so many."""
    return (run(2 * steps).seconds - run(steps).seconds) / steps


def cycles_per_step(run: Callable[[int], KernelTiming], steps: int) -> float:
    """The same in cycles of the SM clock."""
    return (run(2 * steps).cycles - run(steps).cycles) / steps


def filling_steps(bytes_per_step: int, least: int = 4) -> int:
    """Steps in which an SM writes `STREAMED_BYTES`.

    >>> filling_steps(2 * 1024 * 8), filling_steps(512)
    (10, 320)
    """
    return max(least, -(-STREAMED_BYTES // bytes_per_step))


def part(gpu: GPU, sms: int) -> GPU:
    """Slice `sms` SMs, or all of a smaller GPU."""
    return gpu.slice(sms=min(sms, gpu.sms))


def streaming_part(gpu: GPU, sms: int) -> GPU:
    """Slice `sms` SMs with an L2 that is small against what they read and write."""
    small = part(gpu, sms)
    return small.replace(l2_bytes=min(small.l2_bytes, small.sms * STREAMED_L2_BYTES))


def whole(gpu: GPU, sliced: GPU) -> float:
    """SMs of a GPU over those of its slice: what rates of a slice are multiplied with."""
    return gpu.sms / sliced.sms

"""Loads from shared memory with a stride: their passes, and the cycles that each of many takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpusim_des.analytic import strided_passes
from gpusim_des.check_result import check_result
from gpusim_des.device import Device
from gpusim_des.functional.thread_kernel import ThreadKernel
from gpusim_des.gpu import GPU
from gpusim_des.grid import WARP_SIZE

TYPES: dict[int, np.dtype[Any]] = {4: np.dtype(np.int32), 8: np.dtype(np.float64), 16: np.dtype(np.complex128)}
"""By width in bytes; a type of 16 bytes stands for float4."""
ELEMENTS = 1024
"""In shared memory."""
LOADS = 64
"""Of a warp, in the shorter one of two runs."""


@dataclass(frozen=True)
class BankPoint:
    """One stride and width."""

    stride: int
    width: int
    passes: float
    """Of a load, counted."""
    cycles: float
    """Of a load, simulated: what twice the loads take longer, over the loads more."""
    in_turn: float
    """Cycles of a load that waits for the one before: the latency, and the passes beyond the first."""
    chain: bool = False

    @property
    def label(self) -> str:
        """Stride, width, and whether it is a chain."""
        return f"{self.width} bytes, stride {self.stride}" + (", a chain" if self.chain else "")

    @property
    def formula(self) -> int:
        """Passes by the gcd rule."""
        return int(strided_passes(self.stride, self.width))


def measure(
    chip: GPU,
    maker: Callable[[np.dtype[Any], int], ThreadKernel],
    stride: int,
    width: int,
    warps: int,
    *,
    chain: bool = False,
) -> BankPoint:
    """Run two lengths of the kernel that `maker` makes for a type and a number of loads; what both have cancels out.

    The kernel copies `ELEMENTS` numbers to shared memory and loads every `stride`-th of them.
    """
    found = []
    for loads in (LOADS, 2 * LOADS):
        dev = Device(chip)
        a, out = dev.to_device(np.arange(ELEMENTS).astype(TYPES[width])), dev.malloc(WARP_SIZE * warps, TYPES[width])
        dev.forget_launches()
        launch = dev.launch(maker(TYPES[width], loads), 1, WARP_SIZE * warps, a, out, stride, registers=32)
        check_result(dev.to_host(out), np.tile(np.arange(WARP_SIZE) * stride, warps), f"stride {stride}")
        seconds = dev.simulate(detail="kernel").kernels[0].seconds
        found.append((launch.counters.shared_requests, launch.counters.shared_wavefronts, seconds))
    requests, all_passes, seconds = (long - short for short, long in zip(*found, strict=True))
    passes = all_passes / requests
    cycles = chip.cycles(seconds) / requests
    return BankPoint(stride, width, passes, cycles, chip.shared_latency_cycles + passes - 1, chain)

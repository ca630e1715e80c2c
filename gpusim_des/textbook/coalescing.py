"""Loads of many layouts: strides, offsets, structures; the sectors that they touch, and the time of DRAM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from gpusim_des.analytic import strided_sectors
from gpusim_des.check_result import check_result
from gpusim_des.device import Device
from gpusim_des.explanations import reading_s
from gpusim_des.functional.thread_kernel import ThreadKernel
from gpusim_des.gpu import GPU
from gpusim_des.grid import cdiv
from gpusim_des.timing.simulate import Caches
from gpusim_des.trace import SECTOR_BYTES

OFFSETS = (1, 4, 8)
LOADS = 8
"""Of each thread, all before the first use: enough under way to keep DRAM busy."""
THREADS, REGISTERS = 256, 32
FLOAT, FLOAT4 = np.dtype(np.float32), np.dtype(np.complex128)
"""A type of 16 bytes stands for float4."""


class Layout(NamedTuple):
    """How the elements of a thread lie; distances in elements."""

    label: str
    stride: int
    """Between the elements of neighbouring threads."""
    steps: tuple[int, int, int]
    """Between the loads of one thread."""
    first: int = 0
    dtype: np.dtype[Any] = FLOAT


@dataclass(frozen=True)
class CoalescingPoint:
    """What one layout did, with one setting of the caches."""

    layout: Layout
    caches: Caches
    sectors_per_request: float
    formula_sectors: int
    seconds: float
    formula_s: float
    """Latency + sectors × 32 bytes / bandwidth."""
    distinct_s: float
    """The same with the distinct sectors of the whole kernel."""
    useful_bytes: int

    @property
    def label(self) -> str:
        """Layout and caches."""
        return self.layout.label + (", with caches" if self.caches == "on" else "")

    @property
    def gbs(self) -> float:
        """Bandwidth of the useful bytes, GB/s."""
        return self.useful_bytes / self.seconds / 1e9

    @property
    def formula_gbs(self) -> float:
        """The same by the formula."""
        return self.useful_bytes / self.formula_s / 1e9

    @property
    def moved_gbs(self) -> float:
        """Bandwidth of the bytes moved, of which four sectors are useful in a request, GB/s."""
        return self.sectors_per_request / 4 * self.gbs

    @property
    def formula_moved_gbs(self) -> float:
        """The same by the formula."""
        return self.formula_sectors / 4 * self.formula_gbs


def layouts(n: int, strides: Sequence[int]) -> list[Layout]:
    """Strides, offsets, and records of four floats x, y, z, w."""
    eighth, half = n // LOADS, n // 2
    return [
        *(Layout(f"stride {s}", s, (eighth * s, 2 * eighth * s, 4 * eighth * s)) for s in strides),
        *(Layout(f"offset {o}", 1, (eighth, 2 * eighth, 4 * eighth), o) for o in OFFSETS),
        Layout("SoA, all fields", 1, (n // 4, half, eighth)),
        Layout("AoS, all fields", 4, (1, 2, half)),
        Layout("AoS, field x", 4, (4 * eighth, 8 * eighth, 16 * eighth)),
        Layout("AoS as float4", 1, (eighth, 2 * eighth, 4 * eighth), 0, FLOAT4),
    ]


def measure(chip: GPU, kernel: ThreadKernel, layout: Layout, n: int, caches: Caches = "off") -> CoalescingPoint:
    """Run one layout, check the sums against NumPy's, and simulate the same kernel without its stores."""
    dev = Device(chip)
    threads = n // LOADS
    blocks, x_y_z = cdiv(threads, THREADS), layout.steps
    size = layout.first + (threads - 1) * layout.stride + sum(x_y_z) + 1
    values = np.arange(1, size + 1, dtype=np.int32) % 1000
    a, c = dev.to_device(values.astype(layout.dtype)), dev.malloc(threads, layout.dtype)
    arguments = (a, c, layout.first, layout.stride, *x_y_z)
    dev.launch(kernel, blocks, THREADS, *arguments, np.float32(1e9), registers=REGISTERS)
    places = layout.first + np.arange(threads) * layout.stride
    sums = sum(values[places + sum(steps)] for steps in product(*((0, step) for step in x_y_z)))
    check_result(dev.to_host(c), sums, layout.label)
    dev.forget_launches()  # the kernel alone, and nothing in the L2
    counters = dev.launch(kernel, blocks, THREADS, *arguments, np.float32(-1), registers=REGISTERS).counters
    granule = max(SECTOR_BYTES, chip.dram_granule_bytes)

    def touched(unit: int) -> int:
        return int(strided_sectors(layout.stride, layout.dtype.itemsize, first=layout.first, sector_bytes=unit))

    return CoalescingPoint(
        layout,
        caches,
        counters.load_sectors_per_request,
        touched(SECTOR_BYTES),
        dev.simulate(caches=caches, detail="kernel").kernels[0].seconds,
        reading_s(chip, counters.global_load_requests * touched(granule) * granule),
        reading_s(chip, counters.distinct_sectors * SECTOR_BYTES),
        counters.global_load_bytes_requested,
    )

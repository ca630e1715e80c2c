"""What experiments say of a difference: how far an explanation reaches, what ends and latency take, who waits for what.

The public names are those of `gpusim_des.experiment`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from gpusim_des.analytic import roofs
from gpusim_des.device import Device
from gpusim_des.functional.block_kernel import KernelFunction
from gpusim_des.gpu import GPU
from gpusim_des.grid import DimLike
from gpusim_des.timeline import KernelTiming
from gpusim_des.timing.simulate import Caches
from gpusim_des.units import FS_PER_S

NOTABLE = 0.01
"""Waits are told from this share of the time on."""


def reach(formula: float, better: float, more: float = 0.02) -> float:
    """Largest difference that an explanation covers whose own figure is known: `explained_up_to` of `gs.compare`.

    Parameters
    ----------
    formula
        The formula that leaves something out.
    better
        What it comes to with that, in the same unit.
    more
        What may be beyond, as a share of `better`.

    Returns
    -------
    float
        Of `better`, and `more` beyond it, against `formula`: above 0 if it is larger, below 0 if it is smaller.

    Raises
    ------
    ValueError
        If `formula` is not above 0.

    Examples
    --------
    Ten blocks that share four SMs take three waves of 2 µs and not 2.5; 2 % more is explained, too:

    >>> round(reach(5.0, 6.0), 3), round(reach(6.0, 5.0), 3)
    (0.224, -0.183)
    """
    if formula <= 0:
        raise ValueError(f"formula = {formula}: must be above 0, differences are shares of it")
    return (better * (1 + more if better >= formula else 1 - more) - formula) / formula


def alone_s(
    chip: GPU,
    kernel: KernelFunction,
    block: DimLike,
    *arguments: Any,
    caches: Caches = "off",
    warm: bool = False,
    **launch: Any,
) -> float:
    """Time that a block holds its slot which has the GPU for itself, in seconds.

    Blocks among others take longer, for they share the parts of the chip; but `gs.analytic.waves` times this is what
    latency alone takes, however fast these parts are.

    Parameters
    ----------
    chip, kernel, block
        Of the launch; its grid is one block.
    arguments
        Of the kernel; NumPy arrays are copied to the GPU before.
    caches, launch
        As in `Device.simulate` and `Device.launch`.
    warm
        Whether the arguments are in the L2 when the block starts, as they are for most blocks of a large grid.

    Examples
    --------
    ``tiny``: five instructions that wait four cycles of a nanosecond for each other:

    >>> import gpusim_des as gs
    >>> @gs.block_kernel
    ... def chain(blk):
    ...     blk.compute(5)
    >>> round(alone_s(gs.load_gpu("tiny"), chain, 32) * 1e9)
    20
    """
    dev = Device(chip)
    there = [dev.to_device(a) if isinstance(a, np.ndarray) else a for a in arguments]
    if not warm:
        dev.forget_launches()
    dev.launch(kernel, 1, block, *there, **launch)
    (span,) = dev.simulate(caches=caches).timeline.blocks
    return (span.end_fs - span.start_fs) / FS_PER_S


def ends_s(chip: GPU) -> float:
    """Seconds at the two ends of a kernel that reads memory: a block starts, a load comes from DRAM, a block ends.

    Meanwhile DRAM has nothing to do.

    >>> from gpusim_des.gpu import load_gpu
    >>> round(ends_s(load_gpu("tiny")) * 1e9)  # blocks start and end at once; 200 cycles of a nanosecond to DRAM
    200
    """
    return chip.seconds(chip.block_start_cycles + chip.dram_latency_cycles + chip.block_end_cycles)


def reading_s(chip: GPU, nbytes: float) -> float:
    """Seconds of a kernel that reads so many bytes where DRAM is the limit: its two ends, and the bytes in between.

    >>> from gpusim_des.gpu import load_gpu
    >>> round(reading_s(load_gpu("tiny"), 64_000) * 1e9)  # at 64 bytes a nanosecond
    1200
    """
    return ends_s(chip) + nbytes / roofs(chip).memory["DRAM"]


WAITS = {
    "long_scoreboard": "for values from global memory",
    "short_scoreboard": "for shared memory",
    "barrier": "at barriers",
    "mio_throttle": "for the load/store unit",
    "lg_throttle": "for room for their loads and stores",
    "math_pipe_throttle": "for an arithmetic pipe",
    "not_selected": "for an issue slot",
    "wait": "for the instruction before",
    "branch_resolving": "for branches",
    "no_instruction": "for their block to start",
    "drain": "for their last stores",
}
"""What warps wait for, by the stall's name."""


def waits(kernel: KernelTiming, but: Collection[str] = ()) -> str:
    """Say what a kernel's warps waited for most: the two longest waits, with their shares of the warps' time.

    Parameters
    ----------
    kernel
        As simulated.
    but
        Stalls that do not count, such as those from the queue in front of the busiest part, which keep nobody from
        working.

    Examples
    --------
    ``tiny``: a chain of five instructions, each waits three cycles for the one before; and then the block ends:

    >>> import gpusim_des as gs
    >>> dev = gs.Device("tiny")
    >>> _ = dev.launch(gs.block_kernel(lambda blk: blk.compute(5)), 1, 32)
    >>> waits(dev.simulate().kernels[0])
    'warps wait for the instruction before (70%)'
    """
    shares = {stall: kernel.stalls[stall] / kernel.resident_warp_cycles for stall in WAITS if stall not in but}
    most = sorted((stall for stall in shares if shares[stall] > NOTABLE), key=lambda stall: -shares[stall])[:2]
    return "warps wait " + (" and ".join(f"{WAITS[s]} ({shares[s]:.0%})" for s in most) or "for nothing else")

"""Data copied to the GPU in chunks, computed and copied back: the program, and its time on paper."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field

import numpy as np

from gpusim_des.analytic import Issue, blocking_seconds, link, pipeline_seconds
from gpusim_des.check_result import check_result
from gpusim_des.device import Device
from gpusim_des.errors import PageableCopyWarning
from gpusim_des.functional.block_kernel import BlockKernel
from gpusim_des.gpu import GPU
from gpusim_des.grid import cdiv
from gpusim_des.simulation import Simulation
from gpusim_des.units import to_us

THREADS = 32
ROUNDS = 16
"""Elements of each thread, one after another."""


@dataclass(frozen=True)
class OverlapPoint:
    """One way to run it; times in microseconds."""

    chunks: int
    pinned: bool
    engines: int
    issue: Issue
    kernel_us: float
    """Of one chunk, alone on the GPU."""
    simulated_us: float
    formula_us: float
    sim: Simulation = field(repr=False)

    @property
    def memory(self) -> str:
        """Kind of the host's memory."""
        return "pinned" if self.pinned else "pageable"

    @property
    def label(self) -> str:
        """All that is chosen, the chunks aside."""
        return f"{self.memory}, {self.engines} copy engine{'s' * (self.engines > 1)}, {self.issue}"


def run(chip: GPU, kernel: BlockKernel, nbytes: int, chunks: int, issue: Issue, *, pinned: bool) -> Simulation:
    """Copy in, halve by `kernel` and copy out `nbytes` in `chunks`, each in a stream of its own.

    Each block takes an SM, and each of its threads `ROUNDS` elements.
    """
    whole_bytes = 4 * ROUNDS * THREADS * chunks
    if nbytes % whole_bytes:
        raise ValueError(f"{nbytes:,} bytes in {chunks} chunks of whole blocks: take a multiple of {whole_bytes:,}")
    dev = Device(chip)
    size = nbytes // 4 // chunks
    whole_sm = min(chip.shared_bytes_per_block_optin, chip.shared_bytes_per_sm)
    host_in, host_out = (
        dev.pinned((chunks, size)) if pinned else np.zeros((chunks, size), np.float32) for _ in range(2)
    )
    host_in[:] = np.arange(chunks * size, dtype=np.float32).reshape(chunks, size)
    streams = [dev.stream() for _ in range(chunks)]
    a = [dev.malloc(size, np.float32, f"a{k}") for k in range(chunks)]
    c = [dev.malloc(size, np.float32, f"c{k}") for k in range(chunks)]
    steps = (
        lambda k: dev.memcpy_async(a[k], host_in[k], streams[k]),
        lambda k: dev.launch(
            *(kernel, size // (ROUNDS * THREADS), THREADS, a[k], c[k]), dynamic_shared=whole_sm, stream=streams[k]
        ),
        lambda k: dev.memcpy_async(host_out[k], c[k], streams[k]),
    )
    if issue == "depth-first":
        order = [(step, k) for k in range(chunks) for step in steps]
    else:
        order = [(step, k) for step in steps for k in range(chunks)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PageableCopyWarning)  # it is what the experiment is about
        for step, k in order:
            step(k)
    dev.synchronize()
    check_result(host_out, host_in / 2)
    return dev.simulate(detail="kernel", caches="off")  # a kernel takes the same time per byte in every chunk


def formula_us(chip: GPU, nbytes: int, chunks: int, issue: Issue, kernel_us: float, *, pinned: bool) -> float:
    """Time by the formula: the link's rates, the latencies of the host, and the kernel's time as simulated."""
    call, launch, arrival = to_us(chip.copy_call_fs), to_us(chip.launch_call_fs), to_us(chip.launch_latency_fs)
    gap, back = to_us(chip.kernel_gap_fs), to_us(chip.synchronize_latency_fs)
    rates = (link(chip, direction, pinned=pinned).bytes_per_s for direction in ("h2d", "d2h"))
    copy_in, copy_out = (to_us(chip.copy_latency_fs) + nbytes / chunks / rate * 1e6 for rate in rates)
    breadth, blocks = issue == "breadth-first", cdiv(nbytes // chunks, 4 * ROUNDS * THREADS)
    together = kernel_us * cdiv(chunks * blocks, chip.sms) / cdiv(blocks, chip.sms)  # all kernels, one on an SM
    # No copy out hears of its kernel before the last one ends.
    late = breadth and chunks > 1 and chip.late_kernel_signals == "yes"
    if pinned:
        engines = 1 if chip.copy_engines == 1 or chip.link_duplex == "half" else 2
        stages = copy_in, kernel_us + gap, copy_out
        total = float(pipeline_seconds(chunks, *stages, engines=engines))
        if not breadth and engines == chip.hardware_queues == 1:  # the next copy in waits behind the copy out
            total = chunks * sum(stages)
        if late:
            total = max(total, max(chunks * copy_in + kernel_us, copy_in + together) + gap + chunks * copy_out)
        if breadth:  # the host calls for all copies in and all kernels before the first copy out
            total = max(total, chunks * (call + launch + copy_out))
        return call + arrival + total + back
    copy_in += call + arrival + back  # every copy waits for a call, and the host for every copy
    copy_out += back + (call + arrival) * breadth  # depth-first the kernel hides the call
    computed = launch + arrival + kernel_us
    total = float(blocking_seconds(chunks, copy_in, computed, copy_out, issue=issue)) + back
    if breadth:  # the call of one copy out passes while its kernel runs, as far as that goes
        first = launch + arrival + max(together, (chunks - 1) * launch + kernel_us) if late else computed
        total += max(first, chunks * launch + call + arrival) - computed - (call + arrival)
    return total


def measure(chip: GPU, kernel: BlockKernel, nbytes: int, chunks: int, issue: Issue, *, pinned: bool) -> OverlapPoint:
    """Run it one way, and ask the formula."""
    sim = run(chip, kernel, nbytes, chunks, issue, pinned=pinned)
    kernel_us = min(k.seconds for k in sim.kernels) * 1e6  # others may have waited for SMs
    predicted = formula_us(chip, nbytes, chunks, issue, kernel_us, pinned=pinned)
    return OverlapPoint(chunks, pinned, chip.copy_engines, issue, kernel_us, sim.seconds * 1e6, predicted, sim)

"""Latency hiding, measured: one memory-bound kernel at several occupancies, beside what Little's law predicts.

The demo of the command line and the experiment of the same name share this file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from gpusim_des.analytic import littles_law_bandwidth
from gpusim_des.check_result import check_result
from gpusim_des.device import Device
from gpusim_des.errors import LaunchError
from gpusim_des.explanations import alone_s
from gpusim_des.functional.block_kernel import Block, block_kernel
from gpusim_des.functional.machine import Counting
from gpusim_des.functional.memory import DeviceArray
from gpusim_des.gpu import GPU, occupancy, shared_for_blocks
from gpusim_des.grid import WARP_SIZE
from gpusim_des.simulation import Simulation
from gpusim_des.timeline import FS_PER_S

THREADS = 128
"""Threads per block."""

WAVES = 8
"""Waves of blocks at full occupancy: enough that the steady state rules."""

ELEMENTS_PER_THREAD = 2
"""With one element per thread and 128 threads per block, a chip that starts a block every 0.6 ns gets no more than
128 × 12 bytes / 0.6 ns = 2.56 TB/s: the block scheduler would be the limit, not the latency."""

BYTES_PER_WARP = ELEMENTS_PER_THREAD * 3 * 4 * WARP_SIZE
"""What a warp moves in its life: two loads and a store of 4 bytes per element and thread."""


NEAR = 0.05
"""Closer than this to a law or a limit counts as reaching it."""


@block_kernel
def vector_add(blk: Block, a: DeviceArray, b: DeviceArray, c: DeviceArray, n: int) -> None:
    """``c = a + b``, two elements per thread, half a grid apart; all loads are under way before the first use."""
    first = blk.bx * blk.bdx + blk.tx
    second = first + blk.gdx * blk.bdx
    near, far = first < n, second < n
    a1, b1 = blk.load(a, first, mask=near), blk.load(b, first, mask=near)
    a2, b2 = blk.load(a, second, mask=far), blk.load(b, second, mask=far)
    blk.store(c, first, a1 + b1, mask=near)
    blk.store(c, second, a2 + b2, mask=far)


@dataclass(frozen=True)
class OccupancyPoint:
    """One run of the kernel at one occupancy; bandwidths in GB/s = 10^9 bytes per second."""

    label: str
    blocks_per_sm: int
    warps_per_sm: int
    occupancy: float
    """Theoretical occupancy, 0…1."""
    achieved_occupancy: float
    microseconds: float
    gbs: float
    littles_law_gbs: float
    """Warps × bytes / DRAM latency, at most the DRAM's bandwidth, and what the block scheduler can start."""
    with_block_cost_gbs: float
    """The same with the time a block takes to start and end added to the latency."""
    slot_cycles: float
    """Cycles that a block holds its slot, mean."""
    with_measured_time_gbs: float
    """The same with that time in place of the latency: L = λW as Little proved it."""
    with_ends_gbs: float
    """The same of a run that starts and ends: once more the time of a block, in which DRAM has little to do."""
    while_busy_gbs: float
    """What DRAM moves while it is busy."""
    main_stall: str

    @property
    def difference(self) -> float:
        """Simulated bandwidth against Little's law, as a fraction."""
        return self.gbs / self.littles_law_gbs - 1

    @property
    def difference_with_block_cost(self) -> float:
        """Simulated bandwidth against Little's law with block start and end, as a fraction."""
        return self.gbs / self.with_block_cost_gbs - 1


def dynamic_shared_for(gpu: GPU, blocks_per_sm: int) -> int:
    """Dynamic shared memory in bytes by which an SM holds so many blocks: `shared_for_blocks`, but 0 if none is needed.

    >>> from gpusim_des.gpu import load_gpu
    >>> [dynamic_shared_for(load_gpu("h100-sxm"), blocks) for blocks in (4, 16)]
    [57344, 0]
    """
    if occupancy(gpu, THREADS).blocks_per_sm == blocks_per_sm:
        return 0
    return shared_for_blocks(gpu, THREADS, blocks_per_sm)


def occupancies(gpu: GPU, fractions: Sequence[float] = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1)) -> list[int]:
    """Blocks per SM nearest to these fractions of full occupancy, ascending, each once, leaving out impossible ones."""
    full = occupancy(gpu, THREADS).blocks_per_sm
    possible = []
    for blocks in sorted({max(1, round(full * f)) for f in fractions}):
        try:
            dynamic_shared_for(gpu, blocks)
        except LaunchError:
            continue
        possible.append(blocks)
    return possible


def measure(
    gpu: GPU,
    blocks_per_sm: int,
    progress: Callable[[str, int, int], None] | None = None,
    count: Counting = "auto",
) -> tuple[OccupancyPoint, Simulation]:
    """Run the kernel with `blocks_per_sm` blocks on every SM, check its results against NumPy, and time it.

    With ``count="declared"`` loads and stores alone take time, as Little's law has it, and not the arithmetic.
    """
    dev = Device(gpu)
    blocks = WAVES * gpu.sms * occupancy(gpu, THREADS).blocks_per_sm
    n = blocks * THREADS * ELEMENTS_PER_THREAD
    x = np.arange(n, dtype=np.float32)
    y = np.sqrt(x)
    a, b, c = dev.to_device(x), dev.to_device(y), dev.malloc(n, np.float32)
    shared = dynamic_shared_for(gpu, blocks_per_sm)
    dev.launch(vector_add, blocks, THREADS, a, b, c, n, dynamic_shared=shared, count=count)
    check_result(dev.to_host(c), x + y, "vector_add")
    sim = dev.simulate(progress=progress, caches="off")
    kernel = sim.kernels[0]
    warps = kernel.blocks_per_sm * kernel.warps_per_block
    latency_s = gpu.seconds(gpu.dram_latency_cycles)
    block_cost_s = gpu.seconds(gpu.block_start_cycles + gpu.block_end_cycles)
    spans = sim.timeline.blocks
    slot_s = sum(s.end_fs - s.start_fs for s in spans) / len(spans) / FS_PER_S
    measured_gbs = law_gbs(gpu, warps, slot_s)
    point = OccupancyPoint(
        label=f"{100 * kernel.theoretical_occupancy:.4g}%",
        blocks_per_sm=kernel.blocks_per_sm,
        warps_per_sm=warps,
        occupancy=kernel.theoretical_occupancy,
        achieved_occupancy=kernel.achieved_occupancy,
        microseconds=kernel.seconds * 1e6,
        gbs=kernel.dram_bytes_per_second / 1e9,
        littles_law_gbs=law_gbs(gpu, warps, latency_s),
        with_block_cost_gbs=law_gbs(gpu, warps, latency_s + block_cost_s),
        slot_cycles=gpu.cycles(slot_s),
        with_measured_time_gbs=measured_gbs,
        with_ends_gbs=kernel.dram_bytes / 1e9 / (kernel.dram_bytes / 1e9 / measured_gbs + _ends_s(gpu, measured_gbs)),
        while_busy_gbs=kernel.dram_bytes_per_second / kernel.dram_utilization / 1e9,
        main_stall=kernel.main_stall,
    )
    return point, sim


def law_gbs(gpu: GPU, warps: int, seconds: float) -> float:
    """Little's law for `warps` on each SM that take so many seconds, GB/s; DRAM and block scheduler are the limits."""
    law = float(littles_law_bandwidth(gpu, warps, BYTES_PER_WARP, seconds, "mixed")) / 1e9
    return min(law, dispatch_limit_gbs(gpu))


def _ends_s(gpu: GPU, gbs: float) -> float:
    """Seconds at the two ends of a run: a block starts, loads and ends; and writes, where blocks start one by one."""
    start, end = gpu.block_start_cycles + gpu.dram_latency_cycles, gpu.block_end_cycles
    # Writes go half of the way to DRAM and back while the block ends; elsewhere DRAM has others' writes to do then.
    writes = gpu.dram_latency_cycles / 2 if gbs >= dispatch_limit_gbs(gpu) else 0
    return gpu.seconds(start + max(end, writes))


def lone_block_s(gpu: GPU, count: Counting) -> float:
    """Seconds that a block holds its slot which has the GPU for itself."""
    n = THREADS * ELEMENTS_PER_THREAD
    a, b, c = (np.zeros(n, np.float32) for _ in range(3))
    return alone_s(gpu, vector_add, THREADS, a, b, c, n, count=count)


def without_turning(gpu: GPU) -> GPU:
    """Return the chip whose DRAM moves reads and writes apart as fast as both mixed: the law has one bandwidth."""
    mixed = gpu.dram_efficiency_mixed
    return gpu.replace(title=gpu.title, dram_efficiency_read=mixed, dram_efficiency_write=mixed)


def table(points: Sequence[OccupancyPoint]) -> str:
    """Lines of a table: simulation beside formula."""
    head = (
        "blocks  warps     occupancy       time simulated  Little's law with  Little's law with   main stall\n"
        "per SM per SM  theor. achieved      µs      GB/s  W = DRAM latency   W = latency+block   reason\n"
        "                                                     GB/s     diff      GB/s     diff\n"
    )
    rows = [
        f"{p.blocks_per_sm:6d} {p.warps_per_sm:6d} {p.label:>7} {p.achieved_occupancy:8.1%} "
        f"{p.microseconds:7.2f} {p.gbs:9.1f} {p.littles_law_gbs:9.1f} {p.difference:+8.1%} "
        f"{p.with_block_cost_gbs:9.1f} {p.difference_with_block_cost:+8.1%}   {p.main_stall}"
        for p in points
    ]
    return head + "\n".join(rows)


def dram_limit_gbs(gpu: GPU) -> float:
    """What the DRAM gives to mixed reads and writes, GB/s."""
    return gpu.dram_bandwidth_bytes_per_s * float(gpu.dram_efficiency_mixed) / 1e9


def dispatch_limit_gbs(gpu: GPU) -> float:
    """What the blocks move that the block scheduler can start, GB/s, however many fit.

    Examples
    --------
    >>> from gpusim_des.gpu import load_gpu
    >>> dispatch_limit_gbs(load_gpu("h100-sxm"))  # 128 × 2 × 12 bytes / 0.6 ns
    5120.0
    """
    return BYTES_PER_WARP * (THREADS // WARP_SIZE) * FS_PER_S / gpu.dispatch_interval_fs / 1e9


def explanation(gpu: GPU, points: Sequence[OccupancyPoint]) -> str:
    """Say where simulation and formula differ, and why, with the figures of the first run and of the last."""
    return _about_the_law(gpu, points[0]) + "\n" + _about_the_limit(gpu, points[0], points[-1])


def _about_the_law(gpu: GPU, least: OccupancyPoint) -> str:
    cost = gpu.block_start_cycles + gpu.block_end_cycles
    rest = least.slot_cycles - cost - gpu.dram_latency_cycles
    text = (
        f"Little's law counts {gpu.dram_latency_cycles} cycles of DRAM latency per warp. At {least.label} occupancy a "
        f"block holds its slot for\n{least.slot_cycles:.0f} cycles: {cost} more to start and end the block, {rest:.0f} "
        "more for arithmetic, issue, transfer and queues."
    )
    if least.difference > -NEAR:
        return f"{text}\nThat costs little here: the simulation is within {NEAR:.0%} of the law."
    below = f"{-least.difference:.0%} below the law"
    return f"{text}\nA slot therefore moves its bytes less often, and the bandwidth stays {below}."


def _about_the_limit(gpu: GPU, least: OccupancyPoint, most: OccupancyPoint) -> str:
    limit, dispatch = dram_limit_gbs(gpu), dispatch_limit_gbs(gpu)
    share = most.gbs / limit
    reached = "all" if share >= 0.995 else f"{share:.0%}"
    text = (
        f"At {most.label} occupancy the simulation reaches {reached} of the {limit:.0f} GB/s that the DRAM gives to "
        "mixed reads and writes:\n"
    )
    if share >= 1 - NEAR:
        return f"{text}more warps would only wait longer."
    if dispatch < limit and dispatch <= most.with_block_cost_gbs:
        interval_ns = gpu.dispatch_interval_fs * 1e9 / FS_PER_S
        return (
            f"{text}the block scheduler is the limit: one block per {interval_ns:.3g} ns gives at most {dispatch:.0f} "
            "GB/s;\nmore elements per thread or larger blocks would help."
        )
    if most.with_block_cost_gbs < (1 - NEAR) * limit:
        return (
            f"{text}{most.warps_per_sm} warps per SM keep too little in flight, at most "
            f"{most.with_block_cost_gbs:.0f} GB/s with the block cost;\nmore elements per thread would help."
        )
    ends_us = gpu.seconds(least.slot_cycles) * 1e6
    if share * most.microseconds >= (1 - NEAR) * (most.microseconds - ends_us):
        return (
            f"{text}the run is short. A block takes {ends_us:.2f} of its {most.microseconds:.2f} µs, and while the "
            "first blocks start and\nthe last ones end, the DRAM is less busy; a longer run would come closer."
        )
    return f"{text}no single limit explains it; warps wait most for {most.main_stall}."


def as_rows(points: Sequence[OccupancyPoint]) -> list[dict[str, Any]]:
    """Plain dictionaries of the points, for JSON."""
    return [
        {**asdict(p), "difference": p.difference, "difference_with_block_cost": p.difference_with_block_cost}
        for p in points
    ]

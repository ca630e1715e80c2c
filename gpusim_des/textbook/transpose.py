"""Transposes of a matrix of floats: kernels, what each part of the chip has to do for them, measurements.

The kernels of `gpusim_des.silicon.transposes` are of any shape and in block style, as measurements of several papers
need them; these are as a reader of CUDA would write them, four elements a thread.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpusim_des import explanations
from gpusim_des.analytic import Roofline, bytes_needed, roofline, roofs, waves
from gpusim_des.check_result import check_result
from gpusim_des.device import Device
from gpusim_des.explanations import ends_s, reach
from gpusim_des.functional.thread_kernel import ThreadKernel, kernel
from gpusim_des.gpu import GPU
from gpusim_des.launched import Launch
from gpusim_des.textbook.chips import LOAD_STORE, limited_by
from gpusim_des.textbook.counted import load_cycles
from gpusim_des.timeline import KernelTiming
from gpusim_des.timing.simulate import Caches

TILE, ROWS = 32, 8
REGISTERS = 32
QUEUES = 0.45  # of the time: blocks among others take longer than alone
BUSY = 0.9
"""Share of the time from which on the slices of the L2 are told of."""
LOADED_BYTES = 16
"""Of a thread: four loads before its first store."""


@kernel
def copy(t: Any, a: Any, c: Any, n: int) -> None:
    """Rows to rows: what a transpose can be at best."""
    i, step = (t.blockIdx.y * TILE + t.threadIdx.y) * n + t.blockIdx.x * TILE + t.threadIdx.x, ROWS * n
    v0, v1, v2, v3 = a[i], a[i + step], a[i + 2 * step], a[i + 3 * step]
    c[i], c[i + step], c[i + 2 * step], c[i + 3 * step] = v0, v1, v2, v3


@kernel
def read_rows(t: Any, a: Any, c: Any, n: int) -> None:
    """Reads rows and writes columns."""
    x, y = t.blockIdx.x * TILE + t.threadIdx.x, t.blockIdx.y * TILE + t.threadIdx.y
    i, o, step = y * n + x, x * n + y, ROWS * n
    v0, v1, v2, v3 = a[i], a[i + step], a[i + 2 * step], a[i + 3 * step]
    c[o], c[o + ROWS], c[o + 2 * ROWS], c[o + 3 * ROWS] = v0, v1, v2, v3


@kernel
def write_rows(t: Any, a: Any, c: Any, n: int) -> None:
    """Reads columns and writes rows."""
    x, y = t.blockIdx.x * TILE + t.threadIdx.x, t.blockIdx.y * TILE + t.threadIdx.y
    i, o, step = x * n + y, y * n + x, ROWS * n
    v0, v1, v2, v3 = a[i], a[i + ROWS], a[i + 2 * ROWS], a[i + 3 * ROWS]
    c[o], c[o + step], c[o + 2 * step], c[o + 3 * step] = v0, v1, v2, v3


def tiled(width: int) -> ThreadKernel:
    """Reads and writes rows; a tile with rows of `width` words in between."""

    @kernel
    def tile(t: Any, a: Any, c: Any, n: int) -> Any:
        s = t.shared("tile", (TILE, width), np.float32)
        x, y = t.threadIdx.x, t.threadIdx.y
        i, step = (t.blockIdx.y * TILE + y) * n + t.blockIdx.x * TILE + x, ROWS * n
        v0, v1, v2, v3 = a[i], a[i + step], a[i + 2 * step], a[i + 3 * step]
        s[y, x], s[y + ROWS, x], s[y + 2 * ROWS, x], s[y + 3 * ROWS, x] = v0, v1, v2, v3
        yield t.syncthreads()
        o = (t.blockIdx.x * TILE + y) * n + t.blockIdx.y * TILE + x
        v0, v1, v2, v3 = s[x, y], s[x, y + ROWS], s[x, y + 2 * ROWS], s[x, y + 3 * ROWS]
        c[o], c[o + step], c[o + 2 * step], c[o + 3 * step] = v0, v1, v2, v3

    return tile


VARIANTS = {
    "copy": (copy, (4, 4, 0)),
    "naive, reads rows": (read_rows, (4, 32, 0)),
    "naive, writes rows": (write_rows, (32, 4, 0)),
    "tile of 32 columns": (tiled(TILE), (4, 4, 32)),
    "tile of 33 columns": (tiled(TILE + 1), (4, 4, 1)),
}
"""Kernel; sectors of a load and of a store, passes of a load from the tile."""


@dataclass(frozen=True)
class TransposePoint:
    """What one kernel did."""

    name: str
    caches: Caches
    counted: tuple[float, float, float]
    """Sectors of a load and of a store, passes of a load from the tile."""
    formula: tuple[int, int, int]
    kernel: KernelTiming
    formula_s: float
    """Start and latency, and what the busiest part takes."""
    alone_formula_s: float
    """What the busiest part takes longer for a larger matrix where it is the only limit."""
    alone_s: float
    """What that takes longer, simulated; both are 0 with caches."""
    limiter: str
    useful_bytes: int
    latency_s: float
    """What the blocks take one after the other in their slots, each as long as one that is alone."""
    stores_s: float
    """What the stores take through the store buffers, by Little's law."""
    l2_s: float
    """With caches: start and latency, and what slices of the L2 take; for a part of a sector as long as for several."""
    cached_s: float
    """Start and latency, and the busiest part if DRAM only reads each element once; at least `latency_s` and `l2_s`."""

    @property
    def reach(self) -> float:
        """How far the explanation of another time than the formula's goes."""
        if self.kernel.seconds < self.formula_s:
            return reach(self.formula_s, self.cached_s if self.caches == "on" else self.formula_s)
        return reach(self.formula_s, max(self.formula_s, self.latency_s, self.stores_s, self.l2_s), QUEUES)

    @property
    def label(self) -> str:
        """Kernel and caches."""
        return self.name + (", with caches" if self.caches == "on" else "")


def ideal(chip: GPU) -> GPU:
    """Return the chip of the textbook: DRAM does not mind turning, and no channel is everybody's."""
    mixed = chip.dram_efficiency_mixed
    return chip.replace(
        dram_efficiency_read=mixed, dram_efficiency_write=mixed, channel_hash="rotated", title=chip.title
    )


def run(chip: GPU, name: str, n: int, caches: Caches) -> tuple[Launch, KernelTiming]:
    """Run one kernel, check its result and simulate it."""
    dev, x = Device(chip), np.arange(n * n, dtype=np.float32)
    a, c = dev.to_device(x), dev.malloc(n * n, np.float32)
    dev.forget_launches()
    launch = dev.launch(VARIANTS[name][0], (n // TILE, n // TILE), (TILE, ROWS), a, c, n, registers=REGISTERS)
    check_result(dev.to_host(c), x if name == "copy" else x.reshape(n, n).T.ravel(), name)
    return launch, dev.simulate(caches=caches, detail="kernel").kernels[0]


def buffered(chip: GPU) -> float:
    """Bytes per second that full store buffers let through, by Little's law."""
    return chip.sms * chip.store_buffer_bytes * chip.sm_clock_hz / chip.dram_latency_cycles


def l2_seconds(chip: GPU, name: str, n: int) -> float:
    """What the slices of the L2 take: a sector that is written takes as many services as the GPU says (rule M5).

    One that is read takes one, and the L1 keeps it for those who read the rest.
    """
    _, stored, _ = VARIANTS[name][1]
    services = 4 + stored * (chip.l2_partial_write_services if stored == 32 else chip.l2_write_services)
    return n * n // 32 * services * 32 / chip.l2_bandwidth_bytes_per_s


def alone_s(chip: GPU, name: str, n: int, caches: Caches) -> float:
    """Seconds of a block that is alone; with caches it finds in the L2 what blocks before it have brought."""
    arguments = np.zeros(n * n, np.float32), np.zeros(n * n, np.float32), n
    return explanations.alone_s(
        chip, VARIANTS[name][0], (TILE, ROWS), *arguments, caches=caches, warm=True, registers=REGISTERS
    )


def parts(chip: GPU, name: str, n: int, launch: Launch) -> Roofline:
    """On paper: each of the n² / 32 warp accesses needs its sectors in DRAM and its passes in the load/store unit.

    A column of 32 lines takes (32 + 3) / 4 cycles there, a row that is loaded the time to hand it to registers; then a
    pass to write the tile and those to read it.
    """
    loaded, stored, passes = VARIANTS[name][1]
    accesses, granule = n * n // 32, chip.dram_granule_bytes / 32
    lines = {4: 1, 32: 32}  # of 128 bytes, by sectors
    cycles = accesses * (load_cycles(chip, lines[loaded]) + (lines[stored] + 3) / 4 + passes + (passes > 0))
    moved = sum(s * granule if s == 32 else s for s in (loaded, stored))
    return roofline(
        chip,
        instructions=launch.counters.instruction_mix,
        load_store_cycles=cycles,
        dram_bytes=accesses * moved * 32,
        kind="mixed",
    )


def alone(chip: GPU, name: str, n: int, part: str) -> tuple[float, float]:
    """What a matrix with twice the elements takes longer where `part` is the only limit: formula and simulated."""
    chip = limited_by(chip, part)
    found = []
    for size in (n, round(2**0.5 * n / TILE) * TILE):
        launch, timing = run(chip, name, size, "off")
        found.append((parts(chip, name, size, launch).seconds, timing.seconds))
    return found[1][0] - found[0][0], found[1][1] - found[0][1]


def measure(chip: GPU, name: str, n: int, caches: Caches) -> TransposePoint:
    """Count, simulate as it is and where nothing else limits, and ask the formulas."""
    launch, timing = run(chip, name, n, caches)
    counters, limits, (loaded, stored, passes) = launch.counters, parts(chip, name, n, launch), VARIANTS[name][1]
    tile = [counts for site, counts in counters.accesses.items() if (site.memory, site.operation) == ("shared", "load")]
    tile_passes = sum(counts.wavefronts for counts in tile) / max(1, sum(counts.requests for counts in tile))
    elsewhere_s = max(seconds for part, seconds in limits.ceilings.items() if part != "DRAM")
    latency_s = waves(launch.config.blocks, timing.blocks_per_sm, chip.sms).count * alone_s(chip, name, n, caches)
    once = ends_s(chip)
    l2_s = once + l2_seconds(chip, name, n) if caches == "on" else 0.0
    return TransposePoint(
        name,
        caches,
        (counters.load_sectors_per_request, counters.store_sectors_per_request, tile_passes),
        (loaded, stored, passes),
        timing,
        once + limits.seconds,
        *((0.0, 0.0) if caches == "on" else alone(chip, name, n, limits.limiter)),
        limits.limiter,
        2 * 4 * n * n,
        latency_s,
        n * n * stored / buffered(chip),
        l2_s,
        max(l2_s, latency_s, once + 4 * n * n / roofs(chip).memory["DRAM"], once + elsewhere_s),
    )


def explanation(chip: GPU, p: TransposePoint) -> str:
    """Why the time is another one: what the caches kept from DRAM, or what kept the busiest part waiting."""
    if p.caches == "on":
        moved = (p.counted[0] + p.counted[1]) / 8 * p.useful_bytes
        left = f"the caches leave {p.kernel.dram_bytes / moved:.0%} of the sectors to DRAM: neighbours share the others"
        if p.kernel.l2_utilization is None or p.kernel.l2_utilization < BUSY:
            return left
        return f"{left}; slices of the L2 busy {p.kernel.l2_utilization:.0%} of the time, with parts of sectors"
    k = p.kernel
    if p.limiter == LOAD_STORE:
        elsewhere = sum(k.stalls[state] for state in ("long_scoreboard", "barrier", "no_instruction", "drain"))
        share = elsewhere / k.resident_warp_cycles
        return (
            f"the load/store units are busy {k.load_store_utilization:.0%} of the time: now and then all blocks of an "
            f"SM wait elsewhere, for rows from DRAM, barriers and their start ({share:.0%} of the warps' time)"
        )
    size = f"{chip.store_buffer_bytes >> 10} KiB"
    if k.main_stall == "lg_throttle":
        written = buffered(chip)
        if written > chip.dram_bandwidth_bytes_per_s:
            return f"bursts of stores fill the store buffer of {size} and hold up the loads behind them"
        return (
            f"stores wait for room: {size} of store buffer an SM let {written / 1e9:.0f} GB/s of writes through at "
            f"most, by Little's law, where DRAM moves {chip.dram_bandwidth_bytes_per_s / 1e9:.0f}"
        )
    latency_s = chip.seconds(chip.dram_latency_cycles)
    loads = chip.max_threads_per_sm * LOADED_BYTES / bytes_needed(chip, latency_s, "mixed")
    return (
        f"DRAM is busy {k.dram_utilization:.0%} of the time: all threads of an SM together load {loads:.1f} times the "
        "bytes that Little's law asks for, and those that store, meet at barriers or start load nothing"
    )

"""Transpose: reading and writing cannot both be coalesced, until a tile in shared memory turns the matrix.

A warp that reads a row of the matrix writes a column of the result: 4 sectors in, 32 out, of which an eighth each is
wanted; and the other way round. Through a tile of 32 × 32 both sides are rows of 4 sectors, but the column is now read
from shared memory, where the rows of the tile begin in the same bank: 32 passes. A tile of 33 columns spreads them over
all banks, and the transpose is as fast as a copy.

Time = start and latency + the longer of DRAM (sectors × 32 bytes / bandwidth) and load/store unit (a cycle for a pass).
It assumes that nothing is moved twice or merged, caches="off", that DRAM is as fast for reads and writes apart as for
both mixed, that addresses are spread over the channels, and that enough is under way to keep the busiest part busy.
On a chip with next to no latencies and room in every queue, where other parts are far from busy, that is so: there a
larger matrix takes longer by just that.
With caches the naive kernels come closer: the L2 collects a sector from eight warps, and the L1 keeps what is read.

    gpusim-des experiment transpose --gpu h100-sxm --out out
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import gpusim_des as gs
from gpusim_des.timing.simulate import Caches

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GPU = "h100-sxm"
SMS = 2
N, QUICK_N = 768, 320
TILE, ROWS = 32, 8
REGISTERS = 32
BARRIERS = 0.06  # of the time, on load/store units
QUEUES = 0.45  # of the time: blocks among others take longer than alone
LOADED_BYTES = 16
"""Of a thread: four loads before its first store."""


@gs.kernel
def copy(t: Any, a: Any, c: Any, n: int) -> None:
    """Rows to rows: what a transpose can be at best."""
    i, step = (t.blockIdx.y * TILE + t.threadIdx.y) * n + t.blockIdx.x * TILE + t.threadIdx.x, ROWS * n
    v0, v1, v2, v3 = a[i], a[i + step], a[i + 2 * step], a[i + 3 * step]
    c[i], c[i + step], c[i + 2 * step], c[i + 3 * step] = v0, v1, v2, v3


@gs.kernel
def read_rows(t: Any, a: Any, c: Any, n: int) -> None:
    """Reads rows and writes columns."""
    x, y = t.blockIdx.x * TILE + t.threadIdx.x, t.blockIdx.y * TILE + t.threadIdx.y
    i, o, step = y * n + x, x * n + y, ROWS * n
    v0, v1, v2, v3 = a[i], a[i + step], a[i + 2 * step], a[i + 3 * step]
    c[o], c[o + ROWS], c[o + 2 * ROWS], c[o + 3 * ROWS] = v0, v1, v2, v3


@gs.kernel
def write_rows(t: Any, a: Any, c: Any, n: int) -> None:
    """Reads columns and writes rows."""
    x, y = t.blockIdx.x * TILE + t.threadIdx.x, t.blockIdx.y * TILE + t.threadIdx.y
    i, o, step = x * n + y, y * n + x, ROWS * n
    v0, v1, v2, v3 = a[i], a[i + ROWS], a[i + 2 * ROWS], a[i + 3 * ROWS]
    c[o], c[o + step], c[o + 2 * step], c[o + 3 * step] = v0, v1, v2, v3


def tiled(width: int) -> gs.ThreadKernel:
    """Reads and writes rows; a tile with rows of `width` words in between."""

    @gs.kernel
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
    kernel: gs.KernelTiming
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
    cached_s: float
    """Start and latency, and what the busiest part takes if DRAM only reads each element once; at least `latency_s`."""

    @property
    def reach(self) -> float:
        """How far the explanation of another time than the formula's goes."""
        if self.kernel.seconds < self.formula_s:
            return gs.experiment.reach(self.formula_s, self.cached_s if self.caches == "on" else self.formula_s)
        return gs.experiment.reach(self.formula_s, max(self.formula_s, self.latency_s, self.stores_s), QUEUES)

    @property
    def label(self) -> str:
        """Kernel and caches."""
        return self.name + (", with caches" if self.caches == "on" else "")


def ideal(chip: gs.GPU) -> gs.GPU:
    """Return the chip of the textbook: DRAM does not mind turning, and no channel is everybody's."""
    mixed = chip.dram_efficiency_mixed
    return chip.replace(
        dram_efficiency_read=mixed, dram_efficiency_write=mixed, channel_hash="rotated", title=chip.title
    )


def run(chip: gs.GPU, name: str, n: int, caches: Caches) -> tuple[gs.Launch, gs.KernelTiming]:
    """Run one kernel, check its result and simulate it."""
    dev, x = gs.Device(chip), np.arange(n * n, dtype=np.float32)
    a, c = dev.to_device(x), dev.malloc(n * n, np.float32)
    dev.forget_launches()
    launch = dev.launch(VARIANTS[name][0], (n // TILE, n // TILE), (TILE, ROWS), a, c, n, registers=REGISTERS)
    wanted = x.reshape(n, n) if name == "copy" else x.reshape(n, n).T
    if not (dev.to_host(c).reshape(n, n) == wanted).all():
        raise AssertionError(f"{name}: results differ from NumPy's: this is a bug of the simulator")
    return launch, dev.simulate(caches=caches, detail="kernel").kernels[0]


def buffered(chip: gs.GPU) -> float:
    """Bytes per second that full store buffers let through, by Little's law."""
    return chip.sms * chip.store_buffer_bytes * chip.sm_clock_hz / chip.dram_latency_cycles


def alone_s(chip: gs.GPU, name: str, n: int, caches: Caches) -> float:
    """Seconds of a block that is alone; with caches it finds in the L2 what blocks before it have brought."""
    arguments = np.zeros(n * n, np.float32), np.zeros(n * n, np.float32), n
    return gs.experiment.alone_s(
        chip, VARIANTS[name][0], (TILE, ROWS), *arguments, caches=caches, warm=True, registers=REGISTERS
    )


def parts(chip: gs.GPU, name: str, n: int, launch: gs.Launch) -> gs.analytic.Roofline:
    """On paper: each of the n² / 32 warp accesses needs its sectors in DRAM and its passes in the load/store unit.

    A column of 32 lines takes (32 + 3) / 4 cycles there; then a pass to write the tile and those to read it.
    """
    loaded, stored, passes = VARIANTS[name][1]
    accesses, granule = n * n // 32, chip.dram_granule_bytes / 32
    cycles = accesses * (sum(max(1, (s + 3) / 4) if s == 32 else 1 for s in (loaded, stored)) + passes + (passes > 0))
    moved = sum(s * granule if s == 32 else s for s in (loaded, stored))
    return gs.analytic.roofline(
        chip,
        instructions=launch.counters.instruction_mix,
        load_store_cycles=cycles,
        dram_bytes=accesses * moved * 32,
        kind="mixed",
    )


def alone(chip: gs.GPU, name: str, n: int, part: str) -> tuple[float, float]:
    """What a matrix with twice the elements takes longer where `part` is the only limit: formula and simulated."""
    chip = gs.experiment.limited_by(chip, part)
    found = []
    for size in (n, round(2**0.5 * n / TILE) * TILE):
        launch, kernel = run(chip, name, size, "off")
        found.append((parts(chip, name, size, launch).seconds, kernel.seconds))
    return found[1][0] - found[0][0], found[1][1] - found[0][1]


def measure(chip: gs.GPU, name: str, n: int, caches: Caches) -> TransposePoint:
    """Count, simulate as it is and where nothing else limits, and ask the formulas."""
    launch, kernel = run(chip, name, n, caches)
    counters, limits, (loaded, stored, passes) = launch.counters, parts(chip, name, n, launch), VARIANTS[name][1]
    tile = [counts for site, counts in counters.accesses.items() if (site.memory, site.operation) == ("shared", "load")]
    tile_passes = sum(counts.wavefronts for counts in tile) / max(1, sum(counts.requests for counts in tile))
    elsewhere_s = max(seconds for part, seconds in limits.ceilings.items() if part != "DRAM")
    waves = gs.analytic.waves(launch.config.blocks, kernel.blocks_per_sm, chip.sms).count
    latency_s = waves * alone_s(chip, name, n, caches)
    once = gs.experiment.ends_s(chip)
    return TransposePoint(
        name,
        caches,
        (counters.load_sectors_per_request, counters.store_sectors_per_request, tile_passes),
        (loaded, stored, passes),
        kernel,
        once + limits.seconds,
        *((0.0, 0.0) if caches == "on" else alone(chip, name, n, limits.limiter)),
        limits.limiter,
        2 * 4 * n * n,
        latency_s,
        n * n * stored / buffered(chip),
        max(latency_s, once + 4 * n * n / gs.analytic.roofs(chip).memory["DRAM"], once + elsewhere_s),
    )


def explanation(chip: gs.GPU, p: TransposePoint) -> str:
    """Why the time is another one: what the caches kept from DRAM, or what kept the busiest part waiting."""
    if p.caches == "on":
        moved = (p.counted[0] + p.counted[1]) / 8 * p.useful_bytes
        return f"the caches leave {p.kernel.dram_bytes / moved:.0%} of the sectors to DRAM: neighbours share the others"
    k = p.kernel
    if p.limiter == "load/store units":
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
    latency_s = chip.dram_latency_cycles * chip.sm_period_fs / 1e15
    loads = chip.max_threads_per_sm * LOADED_BYTES / gs.analytic.bytes_needed(chip, latency_s, "mixed")
    return (
        f"DRAM is busy {k.dram_utilization:.0%} of the time: all threads of an SM together load {loads:.1f} times the "
        "bytes that Little's law asks for, and those that store, meet at barriers or start load nothing"
    )


def compared(chip: gs.GPU, points: Sequence[TransposePoint]) -> gs.Comparison:
    """Sectors and passes, which are equal, and time."""
    off = [p for p in points if p.caches == "off"]
    counts = [
        gs.compare(
            *([p.formula[k] for p in shown], [p.counted[k] for p in shown]),
            name=name,
            quantity=quantity,
            labels=[p.label for p in shown],
            tolerance=0,
        )
        for k, name, quantity, shown in (
            (0, "4 for a row, 32 for a column", "sectors of a load", off),
            (1, "4 for a row, 32 for a column", "sectors of a store", off),
            (2, "gcd(columns of the tile, 32)", "passes of a load from the tile", [p for p in off if p.formula[2]]),
        )
    ]
    time = gs.compare(
        *([p.formula_s * 1e6 for p in points], [p.kernel.seconds * 1e6 for p in points]),
        name="latency + max(DRAM, load/store unit)",
        quantity="time (µs)",
        labels=[p.label for p in points],
        explain={p.label: explanation(chip, p) for p in points},
        explained_up_to={p.label: p.reach for p in points},
        assumes="nothing is moved twice or merged, and the busiest part never waits",
    )
    only = gs.compare(
        *([p.alone_formula_s * 1e6 for p in off], [p.alone_s * 1e6 for p in off]),
        name="busiest part, where nothing else limits",
        quantity="what twice the elements take longer (µs)",
        labels=[p.label for p in off],
        explain={
            p.label: "few blocks fit: now and then all of an SM wait at their barriers"
            for p in off
            if p.limiter == "load/store units"
        },
        explained_up_to=BARRIERS,
        assumes="next to no latencies, and other parts far from busy",
    )
    return sum(counts, start=counts.pop(0)) + time + only


def draw(chip: gs.GPU, points: Sequence[TransposePoint], n: int) -> Axes:
    return gs.views.bars(
        [p.label for p in points],
        [p.useful_bytes / p.kernel.seconds / 1e9 for p in points],
        [p.useful_bytes / p.formula_s / 1e9 for p in points],
        xlabel="useful bandwidth, reads and writes (GB/s)",
        title=f"Transpose of {n:,} × {n:,} floats on {chip.title}",
        notes=[
            f"{p.useful_bytes / p.kernel.seconds / 1e9:.0f}   {p.counted[0]:.0f} + {p.counted[1]:.0f} sectors"
            + (f", passes: {p.counted[2]:.0f}" if p.formula[2] else "")
            for p in points
        ],
        formula_label="formula, without caches",
    )


def main(gpu: str = GPU, out: Path | None = None, *, quick: bool = False) -> tuple[list[TransposePoint], gs.Comparison]:
    whole = gs.load_gpu(gpu)
    chip = ideal(whole.slice(sms=min(SMS, whole.sms)))
    n = QUICK_N if quick else N
    points = [measure(chip, name, n, "off") for name in VARIANTS]
    points += [measure(chip, name, n, "on") for name in VARIANTS if name.startswith("naive")]
    print(f"{n:,} × {n:,} floats on {chip.title}")
    table = compared(chip, points)
    print(table)
    if out is not None:
        gs.views.save(draw(chip, points, n), out / "transpose.png")
        print(f"written: {out / 'transpose.png'}")
    return points, table


if __name__ == "__main__":
    gs.experiment.script(main)

"""A first estimate of a kernel's time: the longer of moving its bytes and issuing its instructions, and its launch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from gpusim_des.analytic.arguments import require_amount
from gpusim_des.analytic.latency import Traffic
from gpusim_des.gpu import GPULike, load_gpu
from gpusim_des.trace import SECTOR_BYTES


class Counted(Protocol):
    """What an estimate needs of a kernel's counters; ``launch.counters`` has it."""

    warp_instructions: int
    global_load_sectors: int
    global_store_sectors: int
    global_atomic_sectors: int
    shared_requests: int
    shared_wavefronts: int


@dataclass(frozen=True)
class Estimate:
    """Least time of a kernel without caches, by the two limits that all kernels have."""

    memory_s: float
    """Bytes of all sectors over DRAM bandwidth."""
    issue_s: float
    """Issue slots of all warp instructions, those again that bank conflicts repeat included."""
    launch_s: float

    @property
    def seconds(self) -> float:
        """The longer of the two, and the launch."""
        return max(self.memory_s, self.issue_s) + self.launch_s

    @property
    def bound(self) -> Literal["memory", "issue"]:
        """The longer one; ``memory`` where they are equal."""
        return "memory" if self.memory_s >= self.issue_s else "issue"


def estimate_seconds(
    gpu: GPULike,
    *,
    sectors: float = 0,
    warp_instructions: float = 0,
    replays: float = 0,
    launch_s: float | None = None,
    kind: Traffic = "read",
) -> Estimate:
    """Estimate a kernel's time from what it counts: ``max(sectors × 32 / bandwidth, slots / issue rate) + launch``.

    Latency, occupancy, waves and caches are left out on purpose: it is the bound that simulated time is compared with.

    Parameters
    ----------
    gpu
        A model, or the name or path of one.
    sectors
        Sectors of 32 bytes that DRAM moves.
    warp_instructions
        Warp instructions issued.
    replays
        Wavefronts of shared memory beyond one per access, each of which takes an issue slot: bank conflicts.
    launch_s
        Seconds of the launch; without it the model's call and launch latency.
    kind
        Traffic of the DRAM: ``"read"``, ``"write"`` or ``"mixed"``.

    Raises
    ------
    ValueError
        If a number is negative or not finite, or the traffic is unknown.
    ModelError
        If there is no such GPU.

    References
    ----------
    Hong, S. and Kim, H. (2009). An Analytical Model for a GPU Architecture. ISCA; here without its latency terms.

    Examples
    --------
    On ``tiny``, 2,000 sectors at 64 bytes per cycle take 1 µs, 2,000 instructions of 4 schedulers 0.5:

    >>> e = estimate_seconds("tiny", sectors=2000, warp_instructions=2000, launch_s=0)
    >>> e.memory_s, e.issue_s, e.seconds, e.bound
    (1e-06, 5e-07, 1e-06, 'memory')
    """
    model = load_gpu(gpu)
    if launch_s is None:
        launch_s = (model.launch_call_fs + model.launch_latency_fs) / 10**15
    require_amount(sectors=sectors, warp_instructions=warp_instructions, replays=replays, launch_s=launch_s)
    bandwidth = float(model.dram_bandwidth_bytes_per_s * model.efficiency(kind))
    slots_per_s = model.sms * model.sub_partitions * model.sm_clock_hz
    return Estimate(sectors * SECTOR_BYTES / bandwidth, (warp_instructions + replays) / slots_per_s, launch_s)


def estimate(gpu: GPULike, counters: Counted, *, launch_s: float | None = None) -> Estimate:
    """Estimate the time of a counted kernel, ``launch.counters``; see `estimate_seconds`.

    All sectors count, as without caches, and the DRAM's traffic is mixed if the kernel both reads and writes.

    Raises
    ------
    ValueError
        If `launch_s` is negative or not finite.
    ModelError
        If there is no such GPU.
    """
    reads = counters.global_load_sectors + counters.global_atomic_sectors
    writes = counters.global_store_sectors + counters.global_atomic_sectors
    kind: Traffic = "mixed" if reads and writes else "write" if writes else "read"
    return estimate_seconds(
        gpu,
        sectors=counters.global_load_sectors + counters.global_store_sectors + counters.global_atomic_sectors,
        warp_instructions=counters.warp_instructions,
        replays=counters.shared_wavefronts - counters.shared_requests,
        launch_s=launch_s,
        kind=kind,
    )

"""Every number that the simulator knows about a chip, and what follows from them directly."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from gpusim_des import units
from gpusim_des.errors import ModelError
from gpusim_des.gpu.schema import TENSOR_TYPES, suggest
from gpusim_des.gpu.sm_limits import SMLimits
from gpusim_des.grid import WARP_SIZE, cdiv

Traffic = Literal["read", "write", "mixed"]

PIPE_FRACTION = 64
"""Parts of a cycle in which the mean interval of a pipe is counted."""

SECTOR_BYTES = 32
"""Bytes of a sector, the unit in which caches and DRAM move data (CUDA C++ Best Practices Guide, coalescing)."""


@dataclass(frozen=True)
class Pipe:
    """An arithmetic pipe: how many lanes it has, who shares it, how long a result takes (rule I5)."""

    name: str
    lanes: int
    """Threads that it takes per cycle; for fp16, pairs of halves (``half2``)."""
    shared_by_sm: bool
    """True: one unit for the whole SM. False: one in every sub-partition."""
    latency_cycles: int
    """Cycles from issue until a dependent instruction can issue."""
    sustained: Fraction = Fraction(1)
    """Share of its peak that the pipe keeps up over many instructions, where it was measured to be below 1."""

    @property
    def interval_cycles(self) -> int:
        """Cycles that one warp instruction occupies the pipe at its peak: 32 / lanes, rounded up.

        >>> Pipe("sfu", lanes=4, shared_by_sm=False, latency_cycles=18).interval_cycles
        8
        """
        return cdiv(WARP_SIZE, self.lanes)

    @property
    def sustained_interval(self) -> int:
        """Mean time between warp instructions that the pipe keeps up, in parts of a cycle (`PIPE_FRACTION`).

        >>> Pipe("fp32", 32, shared_by_sm=False, latency_cycles=4, sustained=Fraction(1, 2)).sustained_interval
        128
        """
        return round(PIPE_FRACTION * self.interval_cycles / self.sustained)


@dataclass(frozen=True)
class Parameters(SMLimits):
    """The numbers of a GPU, not yet checked; `gpusim_des.gpu.GPU` is this and checked."""

    title: str = dataclasses.field(compare=False)
    """The product, for people, with remarks on what was sliced and changed."""
    sms: int
    sm_clock_hz: int

    shared_banks: int
    async_copies: str
    """``yes`` where threads can copy from global to shared memory without registers (cp.async)."""
    bulk_copies: str
    """``yes`` where one thread can start the copy of a whole range (cp.async.bulk)."""

    scheduler_policy: str
    barrier_latency_cycles: int
    """From the last arrival until the released warps are eligible (rule I6)."""
    branch_latency_cycles: int
    block_start_cycles: int
    """From dispatch until a block's warps are eligible (rule G3)."""
    block_end_cycles: int
    """From the last exit until the block's slot is free (rule G3)."""
    load_store_queue_depth: int
    """Memory instructions that a sub-partition can have queued."""
    dispatch_interval_fs: int
    """Least time between two block placements on the whole GPU (rule G1)."""

    pipes: tuple[Pipe, ...]
    """In the order of `gpusim_des.gpu.schema.PIPE_CLASSES`."""

    tensor_fp16: int
    """Multiply-adds per cycle of a sub-partition's tensor cores, by type of the factors; 0 where there are none."""
    tensor_bf16: int
    tensor_tf32: int
    tensor_fp64: int
    tensor_int8: int
    tensor_fp8: int
    tensor_latency_cycles: int
    """From issue until a dependent instruction can issue, for an instruction that takes no longer than that."""

    shared_latency_cycles: int
    shuffle_latency_cycles: int
    l1_bytes: int
    """L1 and shared memory together, per SM."""
    l1_bytes_per_cycle: int
    """What a load from global memory hands to registers, all lanes together (rule M1)."""
    l1_latency_cycles: int
    l2_bytes: int
    l2_bandwidth_bytes_per_s: int
    """Of all slices together, where all is read."""
    l2_write_services: int
    """Sectors that a slice could have read in the time in which it takes a whole one that is written (rule M5)."""
    l2_partial_write_services: int
    """The same for a sector of which an access writes a part."""
    l2_latency_cycles: int
    """Load to use in the near half of the L2."""
    l2_partitions: int
    """2 where every SM has a near and a far half of the L2 (rule M5)."""
    l2_far_latency_cycles: int
    """Load to use in the far half of the L2; without meaning where there is one partition."""
    atomic_interval_cycles: int
    """Between two atomic operations on one address (rule M7)."""
    dram_latency_cycles: int
    """Load to use of a lone sector: what a pointer chase through DRAM measures."""
    port_out_bytes_per_cycle: int
    """From an SM to the L2: requests and store data (rule M3)."""
    port_in_bytes_per_cycle: int
    """From the L2 to an SM: replies (rule M3)."""
    request_bytes: int
    """Bytes of a request on the way out."""
    store_buffer_bytes: int
    """Written data of an SM that may be on its way to the L2 (rule M8)."""
    bulk_bytes_per_cycle: int
    """Rate at which an SM's copy unit asks for the sectors of a bulk copy."""
    bulk_overhead_cycles: int
    """What a bulk copy takes longer than a load of its last sector."""
    memory_bytes: int
    dram_bandwidth_bytes_per_s: int
    """Peak of all channels together."""
    dram_channels: int
    channel_interleave_bytes: int
    """Bytes in a row that lie on one channel (rule M4)."""
    channel_hash: str
    dram_granule_bytes: int
    """Least that a channel moves (rule M6)."""
    dram_read_batch_bytes: int
    """Reads that a channel serves together while others wait (rule M6)."""
    dram_write_batch_bytes: int
    """Writes that a channel serves together while reads wait (rule M6)."""
    dram_efficiency_read: Fraction
    """Share of the peak that streams of reads reach."""
    dram_efficiency_write: Fraction
    dram_efficiency_mixed: Fraction
    """Share of the peak that streams of reads and writes reach."""

    launch_call_fs: int
    """Time of the host in a call that launches a kernel or a graph (rule H1)."""
    copy_call_fs: int
    """Time of the host in a call that starts a copy or a memset, and in other calls that reach the device."""
    launch_latency_fs: int
    """From the end of the host's call until the device can start what it asks for."""
    kernel_gap_fs: int
    """Between the end of an operation and the start of a kernel that waited for it."""
    graph_gap_fs: int
    """The same between nodes of a graph, which the device knows before."""
    synchronize_latency_fs: int
    """From the end of the last operation until the host that waits for it goes on."""
    hardware_queues: int
    """Streams whose work the device can tell apart: 1 on Fermi, 32 since Kepler (rule H1)."""
    max_concurrent_kernels: int
    late_kernel_signals: str
    """``yes`` where the end of a kernel is signalled only when no other kernel follows it at once (Fermi)."""
    copy_engines: int
    """With one, both directions share it; with two or more, each direction has its own (rule H2)."""
    link_duplex: str
    copy_latency_fs: int
    """Part of a copy's time that does not depend on its size."""
    h2d_pinned_bytes_per_s: int
    d2h_pinned_bytes_per_s: int
    h2d_pageable_bytes_per_s: int
    """Through the driver's staging buffer."""
    d2h_pageable_bytes_per_s: int

    product: str = dataclasses.field(default="", compare=False, repr=False)
    """The title without remarks; empty where nothing was sliced or changed."""
    slice_of: tuple[int, int] | None = dataclasses.field(default=None, compare=False, repr=False)
    """SMs of the slice and of the whole GPU."""
    changed: tuple[str, ...] = dataclasses.field(default=(), compare=False, repr=False)
    """Fields that `replace` changed."""

    def pipe(self, name: str) -> Pipe:
        """Return the pipe of an operation class; raises `ModelError` for an unknown one."""
        for pipe in self.pipes:
            if pipe.name == name:
                return pipe
        raise ModelError(f"there is no pipe {name!r}: {suggest(name, (pipe.name for pipe in self.pipes))}")

    @property
    def sm_period_fs(self) -> int:
        """Femtoseconds of an SM clock cycle, rounded to nearest (rule T1)."""
        return units.to_fs(Fraction(1, self.sm_clock_hz))

    def seconds(self, cycles: float) -> float:
        """Seconds of so many SM clock cycles.

        >>> from gpusim_des.gpu import load_gpu
        >>> load_gpu("tiny").seconds(3)  # at 1 GHz
        3e-09
        """
        return cycles * self.sm_period_fs / units.FS_PER_S

    def cycles(self, seconds: float) -> float:
        """SM clock cycles in so many seconds.

        >>> from gpusim_des.gpu import load_gpu
        >>> load_gpu("tiny").cycles(3e-9)
        3.0
        """
        return seconds * units.FS_PER_S / self.sm_period_fs

    @property
    def channel_bandwidth_bytes_per_s(self) -> Fraction:
        """Peak of one DRAM channel, bytes per second."""
        return Fraction(self.dram_bandwidth_bytes_per_s, self.dram_channels)

    def efficiency(self, kind: Traffic) -> Fraction:
        """Share of the DRAM peak that traffic of `kind` reaches."""
        shares = {
            "read": self.dram_efficiency_read,
            "write": self.dram_efficiency_write,
            "mixed": self.dram_efficiency_mixed,
        }
        if kind not in shares:
            raise ModelError(f"there is no traffic {kind!r}: {suggest(str(kind), shares)}")
        return shares[kind]

    def granule_fs(self, kind: Traffic) -> int:
        """Femtoseconds that one granule occupies a DRAM channel (rule M6).

        >>> from gpusim_des.gpu import load_gpu
        >>> load_gpu("tiny").granule_fs("read")  # 32 B at 16 GB/s
        2000000
        """
        return units.to_fs(self.dram_granule_bytes / (self.channel_bandwidth_bytes_per_s * self.efficiency(kind)))

    def dram_batch_fs(self, kind: Literal["read", "write"]) -> int:
        """Femtoseconds for which one batch of reads, or of writes, occupies a DRAM channel (rule M6).

        >>> from gpusim_des.gpu import load_gpu
        >>> load_gpu("tiny").replace(dram_read_batch="1 KiB").dram_batch_fs("read")  # 32 granules of 2 ns
        64000000
        """
        nbytes = self.dram_read_batch_bytes if kind == "read" else self.dram_write_batch_bytes
        return nbytes * self.granule_fs(kind) // self.dram_granule_bytes

    def port_out_fs(self, nbytes: int) -> int:
        """Femtoseconds that `nbytes` occupy an SM's port to the L2, rounded to nearest."""
        return units.to_fs(Fraction(nbytes, self.port_out_bytes_per_cycle * self.sm_clock_hz))

    def port_in_fs(self, nbytes: int) -> int:
        """Femtoseconds that `nbytes` occupy an SM's port from the L2, rounded to nearest."""
        return units.to_fs(Fraction(nbytes, self.port_in_bytes_per_cycle * self.sm_clock_hz))

    def tensor_rate(self, kind: str) -> int:
        """Multiply-adds per cycle and sub-partition for factors of type `kind`; 0 where the GPU has none for it."""
        if kind not in TENSOR_TYPES:
            raise ModelError(f"there is no tensor type {kind!r}: {suggest(kind, TENSOR_TYPES)}")
        rate = getattr(self, f"tensor_{kind}")
        assert isinstance(rate, int)
        return rate

    @property
    def l2_sector_fs(self) -> int:
        """Femtoseconds that one sector occupies an L2 slice; there is one slice for every DRAM channel (rule M5).

        >>> from gpusim_des.gpu import load_gpu
        >>> load_gpu("tiny").l2_sector_fs  # 32 B at 64 GB/s
        500000
        """
        return units.to_fs(Fraction(SECTOR_BYTES * self.dram_channels, self.l2_bandwidth_bytes_per_s))

    @property
    def l2_slice_lines(self) -> int:
        """Lines of 128 bytes in one slice."""
        return max(1, self.l2_bytes // (4 * SECTOR_BYTES * self.dram_channels))

    @property
    def l2_fixed_latency_fs(self) -> int:
        """The part of the L2 latency that is neither queueing nor service, in femtoseconds.

        It is what remains of `l2_latency_cycles` without a cycle in the load/store unit, the request on the way out,
        one sector in its slice and one on the way in, so that a lone hit takes `l2_latency_cycles`.

        >>> from gpusim_des.gpu import load_gpu
        >>> load_gpu("tiny").l2_fixed_latency_fs  # 100 ns - 1 ns - 0.5 ns - 0.5 ns - 0.5 ns
        97500000
        """
        return (
            (self.l2_latency_cycles - 1) * self.sm_period_fs
            - self.port_out_fs(self.request_bytes)
            - self.l2_sector_fs
            - self.port_in_fs(SECTOR_BYTES)
        )

    @property
    def l2_far_extra_fs(self) -> int:
        """What a hit in the far half of the L2 takes longer than one in the near half, in femtoseconds."""
        return (self.l2_far_latency_cycles - self.l2_latency_cycles) * self.sm_period_fs

    @property
    def dram_extra_fs(self) -> int:
        """What a miss in the L2 takes longer than a near hit, its granule's time on the channel aside, in femtoseconds.

        >>> from gpusim_des.gpu import load_gpu
        >>> load_gpu("tiny").dram_extra_fs  # 200 ns - 100 ns - 2 ns
        98000000
        """
        return (self.dram_latency_cycles - self.l2_latency_cycles) * self.sm_period_fs - self.granule_fs("read")

    @property
    def dram_fixed_latency_fs(self) -> int:
        """The part of the DRAM latency that is neither queueing nor service, in femtoseconds.

        It is what remains of `dram_latency_cycles` without a cycle in the load/store unit, the request on the way
        out, one granule on its channel and one sector on the way in, so that a lone load takes `dram_latency_cycles`.

        >>> from gpusim_des.gpu import load_gpu
        >>> load_gpu("tiny").dram_fixed_latency_fs  # 200 ns - 1 ns - 0.5 ns - 2 ns - 0.5 ns
        196000000
        """
        return (
            (self.dram_latency_cycles - 1) * self.sm_period_fs
            - self.port_out_fs(self.request_bytes)
            - self.granule_fs("read")
            - self.port_in_fs(SECTOR_BYTES)
        )

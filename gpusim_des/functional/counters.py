"""What a launch counted, under the field's names."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpusim_des.functional.line_counts import AccessPattern, LineCounts
from gpusim_des.functional.source import Site
from gpusim_des.grid import WARP_SIZE
from gpusim_des.line_site import LineSite
from gpusim_des.trace import SECTOR_BYTES


class AccessSite(NamedTuple):
    """One memory access of the kernel: which array, what it does, where it stands."""

    array: str
    memory: str
    """``global`` or ``shared``."""
    operation: str
    """``load``, ``store`` or ``atomic``."""
    line: int
    column: int
    """1 for the first character; 0 where Python does not know it."""
    filename: str = ""


@dataclass
class AccessCounts:
    """What one access of the kernel cost."""

    requests: int = 0
    threads: int = 0
    nbytes: int = 0
    """Bytes that threads asked for."""
    sectors: int = 0
    """0 for shared memory."""
    wavefronts: int = 0
    ideal_wavefronts: int = 0
    """Wavefronts of shared accesses of this width without any bank conflict."""
    ideal_sectors: int = 0
    """Sectors that the bytes of each request would fill if its lanes were neighbours; 0 for shared memory."""
    serial_passes: int = 0
    """Of atomics: per request the largest number of lanes that hit one address."""

    def add(self, other: AccessCounts) -> None:
        """Add the counts of other blocks."""
        for f in fields(self):
            setattr(self, f.name, getattr(self, f.name) + getattr(other, f.name))


@dataclass
class Counters:
    """Counters of one launch; all are sums over the grid except ``shared_bytes_per_block``.

    A *request* is one warp executing one memory operation with at least one active lane; a *sector* is 32 bytes.
    Names follow Nsight Compute (``l1tex__t_requests…``, ``l1tex__t_sectors…``, ``smsp__inst_executed``).
    """

    blocks: int = 0
    threads: int = 0
    warp_instructions: int = 0
    active_lanes: int = 0
    """Active lanes summed over warp instructions (Nsight: ``smsp__thread_inst_executed``)."""
    global_load_requests: int = 0
    global_store_requests: int = 0
    global_load_sectors: int = 0
    global_store_sectors: int = 0
    global_load_bytes_requested: int = 0
    global_store_bytes_requested: int = 0
    global_atomic_requests: int = 0
    global_atomic_sectors: int = 0
    global_atomic_bytes_requested: int = 0
    thread_loads: int = 0
    """Elements that threads loaded from global memory."""
    thread_stores: int = 0
    thread_atomics: int = 0
    atomic_serialization: int = 0
    """Passes of global atomics: per request the largest number of lanes that hit one address."""
    shared_requests: int = 0
    shared_accesses: int = 0
    """Elements that threads accessed in shared memory."""
    shared_atomic_requests: int = 0
    shared_wavefronts: int = 0
    shared_ideal_wavefronts: int = 0
    """What `shared_wavefronts` would be without bank conflicts, for the widths accessed."""
    distinct_sectors: int = 0
    """Different sectors of global memory that the launch touched: compulsory traffic."""
    idle_lanes: int = 0
    """Lanes without a thread, in the last warps of blocks that are no multiple of 32."""
    barriers: int = 0
    """Block-wide barriers, counted once per block."""
    branches: int = 0
    """Warps that met a branch."""
    divergent_branches: int = 0
    """Warps whose lanes went both ways at a branch."""
    shared_bytes_per_block: int = 0
    races: int = 0
    """Accesses that race with an earlier one (`Launch.races`)."""
    equal_value_races: int = 0
    """Writes that race with a write of the same value, beside ``races``."""
    idle_warps: int = 0
    """Warps that loaded data and never computed with any, in blocks in which other warps did."""
    idle_warp_instructions: int = 0
    """Instructions of those."""
    lone_warp_instructions: int = 0
    """Instructions of warps that waited while one warp of their block worked, up to a barrier; idle warps aside."""
    behind_barrier_instructions: int = 0
    """Instructions behind the first barrier of their block."""
    instruction_mix: Counter[str] = field(default_factory=Counter)
    """Warp instructions by operation class."""
    accesses: dict[AccessSite, AccessCounts] = field(default_factory=dict)
    """Memory accesses by array and place in the source."""
    patterns: dict[AccessSite, AccessPattern] = field(default_factory=dict, repr=False)
    """What the addresses of accesses look like that are not ideal, and of atomics."""
    shared_arrays: dict[str, tuple[tuple[int, ...], str]] = field(default_factory=dict, repr=False)
    """Shape and element type of every shared array."""
    lines: dict[LineSite, LineCounts] = field(default_factory=dict, repr=False)
    """What warps did, line by line; instructions and lanes add up to those of the launch."""

    def line(self, site: Site) -> LineCounts:
        """Counts of the line of a place in the source."""
        key = LineSite(site.filename, site.line)
        if key not in self.lines:
            self.lines[key] = LineCounts()
        return self.lines[key]

    def count_instruction(self, label: str, warps: int, lanes: int) -> None:
        """Count an instruction of a class that some warps executed, with so many active lanes together."""
        self.warp_instructions += warps
        self.active_lanes += lanes
        self.instruction_mix[label] += warps

    def count_branch(self, site: Site, lanes: NDArray[np.uint8], taken: NDArray[np.uint8]) -> None:
        """Count a branch that `lanes` of each warp met, and `taken` of them took."""
        met = int(np.count_nonzero(lanes))
        if not met:
            return
        divergent, line = (taken > 0) & (taken < lanes), self.line(site)
        split = int(np.count_nonzero(divergent))
        self.branches += met
        line.branches += met
        self.divergent_branches += split
        line.divergent_branches += split
        if split:
            line.divergent_lanes += int(lanes[divergent].sum(dtype=np.int64))
            line.taken_lanes += int(taken[divergent].sum(dtype=np.int64))

    def count_barriers(self, site: Site, blocks: int) -> None:
        """Count a barrier that so many blocks reached."""
        self.barriers += blocks
        self.line(site).barriers += blocks

    def count_global(self, kind: str, requests: int, sectors: int, threads: int, nbytes: int) -> None:
        """Count requests to global memory; `kind` is ``load``, ``store`` or ``atomic``."""
        for name, amount in (
            (f"global_{kind}_requests", requests),
            (f"global_{kind}_sectors", sectors),
            (f"global_{kind}_bytes_requested", nbytes),
            (f"thread_{kind}s", threads),
        ):
            setattr(self, name, getattr(self, name) + amount)

    def add(self, other: Counters) -> None:
        """Add the counts of other blocks of the same launch."""
        for f in fields(self):
            mine, theirs = getattr(self, f.name), getattr(other, f.name)
            if f.name == "shared_bytes_per_block":
                self.shared_bytes_per_block = max(mine, theirs)
            elif isinstance(mine, Counter) or f.name == "shared_arrays":
                mine.update(theirs)
            elif isinstance(mine, dict):
                for site, counts in theirs.items():
                    mine.setdefault(site, type(counts)()).add(counts)
            else:
                setattr(self, f.name, mine + theirs)

    @property
    def global_bytes_requested(self) -> int:
        """Bytes that active lanes asked for, loads and stores."""
        atomics = self.global_atomic_bytes_requested
        return self.global_load_bytes_requested + self.global_store_bytes_requested + atomics

    @property
    def sector_bytes(self) -> int:
        """Bytes in all sectors: what memory must move without caches."""
        return SECTOR_BYTES * (self.global_load_sectors + self.global_store_sectors + self.global_atomic_sectors)

    @property
    def coalescing_efficiency(self) -> float:
        """Requested bytes over moved bytes; 1 without accesses. Above 1 when lanes share elements."""
        return self.global_bytes_requested / self.sector_bytes if self.sector_bytes else 1.0

    @property
    def load_sectors_per_request(self) -> float:
        """Sectors per load request; 4 is ideal for 4-byte elements."""
        return self.global_load_sectors / self.global_load_requests if self.global_load_requests else 0.0

    @property
    def store_sectors_per_request(self) -> float:
        """Sectors per store request; 4 is ideal for 4-byte elements."""
        return self.global_store_sectors / self.global_store_requests if self.global_store_requests else 0.0

    @property
    def bank_conflicts(self) -> int:
        """Wavefronts of shared accesses beyond those that their width needs."""
        return self.shared_wavefronts - self.shared_ideal_wavefronts

    def by_array(self) -> dict[str, AccessCounts]:
        """Memory accesses per array, all its places together."""
        arrays: dict[str, AccessCounts] = {}
        for site, counts in self.accesses.items():
            arrays.setdefault(site.array, AccessCounts()).add(counts)
        return arrays

    def access_table(self) -> str:
        """Readable table of the memory accesses, in the order of the source."""
        head = f"{'line':>6}:{'col':<4}{'array':<16}{'access':<15}{'requests':>12}{'sectors':>12}{'wavefronts':>12}"
        rows = [
            f"{site.line:>6}:{site.column:<4}{site.array:<16}{site.memory + ' ' + site.operation:<15}"
            f"{counts.requests:>12,}{counts.sectors:>12,}{counts.wavefronts:>12,}"
            for site, counts in sorted(self.accesses.items(), key=lambda item: (item[0].line, item[0].column))
        ]
        return "\n".join([head, *rows])

    @property
    def simt_efficiency(self) -> float:
        """Active lanes over lane slots of all issued instructions, 0…1; 1 without instructions."""
        return self.active_lanes / (WARP_SIZE * self.warp_instructions) if self.warp_instructions else 1.0

    @property
    def bank_conflict_factor(self) -> float:
        """Wavefronts per shared request; 1 without requests."""
        return self.shared_wavefronts / self.shared_requests if self.shared_requests else 1.0

    def summary(self) -> str:
        """Readable table of the counters.

        >>> print(Counters(blocks=4, threads=1024, warp_instructions=128, active_lanes=4000).summary().splitlines()[2])
        warp instructions                     128
        """
        rows: list[tuple[str, str]] = [
            ("blocks", f"{self.blocks:,}"),
            ("threads", f"{self.threads:,}"),
            ("warp instructions", f"{self.warp_instructions:,}"),
            *((f"  {name}", f"{n:,}") for name, n in self.instruction_mix.most_common()),
            ("SIMT efficiency", f"{self.simt_efficiency:.1%}"),
            ("global load requests", f"{self.global_load_requests:,}"),
            ("global load sectors", f"{self.global_load_sectors:,}"),
            ("sectors per load request", f"{self.load_sectors_per_request:.2f}"),
            ("global store requests", f"{self.global_store_requests:,}"),
            ("global store sectors", f"{self.global_store_sectors:,}"),
            ("sectors per store request", f"{self.store_sectors_per_request:.2f}"),
            ("global atomic requests", f"{self.global_atomic_requests:,}"),
            ("global atomic sectors", f"{self.global_atomic_sectors:,}"),
            ("atomic serialization", f"{self.atomic_serialization:,}"),
            ("distinct sectors", f"{self.distinct_sectors:,}"),
            ("coalescing efficiency", f"{self.coalescing_efficiency:.1%}"),
            ("shared requests", f"{self.shared_requests:,}"),
            ("shared wavefronts", f"{self.shared_wavefronts:,}"),
            ("ideal shared wavefronts", f"{self.shared_ideal_wavefronts:,}"),
            ("bank conflict factor", f"{self.bank_conflict_factor:.2f}"),
            ("barriers", f"{self.barriers:,}"),
            ("branches", f"{self.branches:,}"),
            ("divergent branches", f"{self.divergent_branches:,}"),
            ("shared bytes per block", f"{self.shared_bytes_per_block:,}"),
            ("races", f"{self.races:,}"),
            ("equal value races", f"{self.equal_value_races:,}"),
        ]
        return "\n".join(f"{name:<27}{value:>14}" for name, value in rows)

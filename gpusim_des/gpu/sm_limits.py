"""What an SM has and in which portions it gives it away: all that the allocation rules need to know of a GPU."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from gpusim_des.grid import WARP_SIZE


@dataclass(frozen=True)
class SMLimits:
    """The limits of one SM. A GPU model is these and more; a compute capability alone is only these."""

    name: str
    """What messages call it: the file's name of a model without ``.toml``, or ``compute capability 9.0``."""
    compute_capability: str

    max_warps_per_sm: int
    max_threads_per_sm: int
    max_blocks_per_sm: int
    max_threads_per_block: int
    registers_per_sm: int
    """32-bit registers."""
    registers_per_block: int
    register_allocation_unit: int
    """A warp's registers are rounded up to a multiple of it."""
    warp_allocation_granularity: int
    """A block's warps are rounded up to it where registers per block are compared with their limit."""
    max_registers_per_thread: int
    sub_partitions: int
    """Parts of an SM with a warp scheduler and a register file each."""
    shared_bytes_per_sm: int
    """Largest carve-out for shared memory."""
    shared_bytes_per_block: int
    """Shared memory that a block may use without asking."""
    shared_bytes_per_block_optin: int
    """Shared memory that a block may use when the kernel opts in."""
    shared_bytes_reserved_per_block: int
    """What the system takes for itself in every block."""
    shared_allocation_unit_bytes: int
    shared_carveouts_bytes: tuple[int, ...]
    """Sizes of shared memory that the unified L1 can be set to, rising."""

    barriers_per_sm: int | None = dataclasses.field(default=None, kw_only=True)
    """Block barriers that all blocks share; ``None`` where they are no limit."""
    source_notes: tuple[tuple[str, str], ...] = dataclasses.field(default=(), compare=False, repr=False, kw_only=True)
    """Pairs of field and source; read them through `sources`."""

    @property
    def sources(self) -> Mapping[str, str]:
        """Field name → where its number comes from; a pipe's fields are named like ``fp32_lanes``."""
        return MappingProxyType(dict(self.source_notes))

    @property
    def warp_size(self) -> int:
        """Threads in a warp."""
        return WARP_SIZE

"""How many blocks fit on an SM: the allocation rules behind the occupancy of a launch.

They are the rules of NVIDIA's occupancy calculator (``cuda_occupancy.h`` in the CUDA toolkit), written anew; the tests
compare them with results of that header for compute capabilities 3.5 to 12.0.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gpusim_des.errors import LaunchError
from gpusim_des.gpu.sm_limits import SMLimits
from gpusim_des.grid import cdiv
from gpusim_des.notebook import facts_table
from gpusim_des.units import format_bytes, size

MOST_BARRIERS = 16
"""Barriers that a block can name (PTX ISA, bar)."""


@dataclass(frozen=True)
class Occupancy:
    """What one launch shape makes of an SM.

    ``limits`` maps each resource, ``warps``, ``registers``, ``shared_mem`` and ``blocks``, to the blocks that it
    admits; ``None`` where the launch uses none of it. ``barriers`` are among them where they admit no more blocks than
    the block slots: that is so for every kernel on 12.0, which has a barrier for each slot.
    """

    blocks_per_sm: int
    active_warps: int
    """Warps of those blocks, per SM."""
    occupancy: float
    """Active warps over the SM's warp slots, 0…1."""
    limiter: str
    """The resources that admit the fewest blocks, joined by ``+``."""
    limits: Mapping[str, int | None]
    allocated_registers_per_block: int
    allocated_shared_bytes_per_block: int
    """The system's reserve included."""
    allocated_registers_per_warp: int
    warps_per_sub_partition: int | None
    """Warps whose registers fit into the register file of one sub-partition; ``None`` without registers."""
    carveout_bytes: int
    """Shared memory of the SM that the blocks were counted with."""

    @property
    def limiters(self) -> tuple[str, ...]:
        """The resources that admit the fewest blocks."""
        return tuple(self.limiter.split("+"))

    def _repr_html_(self) -> str:
        """Notebooks show the blocks that each resource admits, and which is the limit."""
        admitted = [
            (f"{name} admit", "any number" if blocks is None else f"{blocks}{' ← limit' * (name in self.limiters)}")
            for name, blocks in self.limits.items()
        ]
        facts = [
            ("occupancy", f"{self.occupancy:.1%}"),
            ("blocks per SM", str(self.blocks_per_sm)),
            ("active warps per SM", str(self.active_warps)),
            *admitted,
            ("registers per block, allocated", f"{self.allocated_registers_per_block:,}"),
            ("shared memory per block, allocated", size(self.allocated_shared_bytes_per_block)),
        ]
        return facts_table(f"Occupancy, limited by {' and '.join(self.limiters)}", facts)


def occupancy(
    gpu: SMLimits,
    threads: int,
    registers: int = 32,
    shared_bytes: int = 0,
    carveout: int | None = None,
    barriers: int = 1,
) -> Occupancy:
    """Count the blocks of a launch that one SM holds at a time.

    Parameters
    ----------
    gpu
        A model, or the limits of a compute capability.
    threads
        Threads per block.
    registers
        32-bit registers per thread; 0 means that registers do not matter.
    shared_bytes
        Static and dynamic shared memory per block together.
    carveout
        Share of the unified L1 that the kernel prefers as shared memory, in percent of the most that there can be, as
        ``cudaFuncAttributePreferredSharedMemoryCarveout`` has it; ``None``: the most.
    barriers
        Block barriers that the kernel uses, as ``ptxas -v`` counts them. NVIDIA's calculator assumes one.

    Raises
    ------
    LaunchError
        If no launch may have this shape: threads, registers per thread or shared memory per block outside the limits
        of the GPU, or a carve-out that is no percentage, or more than 16 barriers. A
        shape that is legal but fits no block has ``blocks_per_sm == 0``.

    References
    ----------
    NVIDIA, CUDA C++ Programming Guide, "Compute Capabilities"; ``cuda_occupancy.h``, CUDA 13.

    Examples
    --------
    Twelve KiB per block on an H100 are thirteen, because the system reserves one:

    >>> from gpusim_des.gpu import load_gpu
    >>> o = occupancy(load_gpu("h100-sxm"), threads=32, registers=8, shared_bytes=12 * 1024)
    >>> o.blocks_per_sm, o.limiter, o.limits["blocks"]
    (17, 'shared_mem', 32)
    """
    asked = (_whole("threads", threads), _whole("registers", registers), _whole("shared_mem", shared_bytes))
    _refuse_impossible(gpu, *asked)
    percent = None if carveout is None else _whole("carveout", carveout)
    if percent is not None and not 0 <= percent <= 100:
        raise LaunchError(f"carveout = {percent}: must be a percentage, 0 to 100; leave it out for the largest")
    used = _whole("barriers", barriers)
    if not 0 <= used <= MOST_BARRIERS:
        raise LaunchError(f"barriers = {used} per block: must lie between 0 and {MOST_BARRIERS}")
    return fit(gpu, *asked, percent, used)


def shared_for_blocks(gpu: SMLimits, threads: int, blocks_per_sm: int, registers: int = 32) -> int:
    """Most dynamic shared memory per block, in bytes, with which an SM holds exactly `blocks_per_sm` blocks.

    With it a kernel is held to a lower occupancy and remains as it is otherwise, which is how bandwidth against
    occupancy is measured.

    Raises
    ------
    LaunchError
        If shared memory cannot bring this number about.

    Examples
    --------
    >>> from gpusim_des.gpu import load_gpu
    >>> shared_for_blocks(load_gpu("h100-sxm"), 256, 4) // 1024  # a quarter of 228 KiB, less the one of the system
    56
    """
    blocks = _whole("blocks per SM", blocks_per_sm)
    if blocks < 1:
        raise LaunchError(f"{blocks} blocks per SM: ask for one at least")
    unit = gpu.shared_allocation_unit_bytes
    share = gpu.shared_bytes_per_sm // blocks - gpu.shared_bytes_reserved_per_block
    nbytes = max(0, min(share // unit * unit, gpu.shared_bytes_per_block_optin))
    found = occupancy(gpu, threads, registers, nbytes)
    if found.blocks_per_sm != blocks:
        most = found.blocks_per_sm < blocks
        raise LaunchError(
            f"{nbytes} bytes of shared memory let {found.blocks_per_sm} blocks of {threads} threads on an SM of "
            f"{gpu.name}, not {blocks}: ask for {'at most' if most else 'at least'} {found.blocks_per_sm} (limiter: "
            f"{found.limiter if most else 'the most shared memory of a block'})"
        )
    return nbytes


def carveout_bytes(gpu: SMLimits, percent: int | None, block_bytes: int = 0) -> int:
    """Shared memory of an SM that prefers `percent` of the most, given blocks that take `block_bytes` each.

    The preference is rounded up to a size that the SM can be set to, and it grows until one block fits.

    Examples
    --------
    >>> from gpusim_des.gpu import load_gpu
    >>> h100 = load_gpu("h100-sxm")
    >>> [carveout_bytes(h100, percent) // 1024 for percent in (0, 25, 50, 100)]  # of 228 KiB
    [0, 64, 132, 228]
    >>> carveout_bytes(h100, 0, block_bytes=40 * 1024) // 1024
    64
    """
    if percent is None:
        return gpu.shared_bytes_per_sm
    wanted = max(gpu.shared_bytes_per_sm * percent // 100, block_bytes)
    return next((size for size in gpu.shared_carveouts_bytes if size >= wanted), gpu.shared_bytes_per_sm)


def _whole(what: str, value: int) -> int:
    try:
        return operator.index(value)  # NumPy's integers are welcome
    except TypeError:
        raise LaunchError(f"{what} = {value!r}: must be a whole number, not a {type(value).__name__}") from None


def _refuse_impossible(gpu: SMLimits, threads: int, registers: int, shared_bytes: int) -> None:
    for what, value, low, high, remedy in (
        ("threads", threads, 1, gpu.max_threads_per_block, "use smaller blocks and more of them"),
        ("registers", registers, 0, gpu.max_registers_per_thread, "the compiler would spill the rest to memory"),
        ("shared_mem", shared_bytes, 0, gpu.shared_bytes_per_block_optin, "use smaller tiles"),
    ):
        if not low <= value <= high:
            limit = format_bytes(high) if what == "shared_mem" else str(high)
            unit = {"threads": "per block", "registers": "per thread", "shared_mem": "per block"}[what]
            raise LaunchError(
                f"{what} = {value} {unit}: must lie between {low} and {limit} on {gpu.name}; {remedy} (limiter: {what})"
            )


def fit(
    gpu: SMLimits, threads: int, registers: int, shared_bytes: int, carveout: int | None = None, barriers: int = 1
) -> Occupancy:
    """Count as `occupancy` does but refuse nothing: a shape beyond a limit fits no block, as in the header."""
    warps = cdiv(threads, gpu.warp_size)
    warp_slots = min(gpu.max_warps_per_sm, gpu.max_threads_per_sm // gpu.warp_size)
    registers_per_warp = _round_up(registers * gpu.warp_size, gpu.register_allocation_unit)
    shared = _round_up(shared_bytes + gpu.shared_bytes_reserved_per_block, gpu.shared_allocation_unit_bytes)
    shared_per_sm = carveout_bytes(gpu, carveout, shared)
    per_sub_partition = gpu.registers_per_sm // gpu.sub_partitions // registers_per_warp if registers else None
    limits: dict[str, int | None] = {
        "warps": warp_slots // warps,
        "registers": (
            None
            if per_sub_partition is None
            else _blocks_by_registers(gpu, warps, registers_per_warp, per_sub_partition)
        ),
        # Beyond the limit of a block nothing fits, however large the carve-out.
        "shared_mem": shared_per_sm // shared * (shared_bytes <= gpu.shared_bytes_per_block_optin) if shared else None,
        "blocks": gpu.max_blocks_per_sm,
    }
    if gpu.barriers_per_sm is not None and barriers and gpu.barriers_per_sm // barriers <= gpu.max_blocks_per_sm:
        limits["barriers"] = gpu.barriers_per_sm // barriers
    blocks = min(limit for limit in limits.values() if limit is not None)
    return Occupancy(
        blocks_per_sm=blocks,
        active_warps=blocks * warps,
        occupancy=blocks * warps / gpu.max_warps_per_sm,
        limiter="+".join(name for name, limit in limits.items() if limit == blocks),
        limits=limits,
        allocated_registers_per_block=registers_per_warp * warps,
        allocated_shared_bytes_per_block=shared,
        allocated_registers_per_warp=registers_per_warp,
        warps_per_sub_partition=per_sub_partition,
        carveout_bytes=shared_per_sm,
    )


def misfit(gpu: SMLimits, threads: int, registers: int, shared_bytes: int) -> str:
    """Say why not one block of a launch fits on an SM, and what would.

    Examples
    --------
    >>> from gpusim_des.gpu import load_gpu
    >>> print(misfit(load_gpu("tiny"), 512, 64, 0))
    a block of 512 threads with 64 registers each takes 32,768 registers, but there are 16,384 for a block and 16,384 \
on an SM of tiny; use at most 32 registers per thread or at most 256 threads per block (limiter: registers)
    """

    def most(values: range, shape: Callable[[int], tuple[int, int, int]]) -> int:
        return next((v for v in reversed(values) if fit(gpu, *shape(v)).blocks_per_sm), 0)

    needed = fit(gpu, threads, registers, shared_bytes)
    fewer = most(range(gpu.warp_size, threads, gpu.warp_size), lambda v: (v, registers, shared_bytes))
    less = most(range(1, registers), lambda v: (threads, v, shared_bytes)) if "registers" in needed.limiter else 0
    remedies = [f"at most {less} registers per thread"] * bool(less) + [f"at most {fewer} threads per block"] * bool(
        fewer
    )
    facts = {
        "registers": f"takes {needed.allocated_registers_per_block:,} registers, but there are "
        f"{gpu.registers_per_block:,} for a block and {gpu.registers_per_sm:,} on an SM of {gpu.name}",
        "shared_mem": f"takes {format_bytes(needed.allocated_shared_bytes_per_block)} of shared memory, the system's "
        f"share included, but an SM of {gpu.name} has {format_bytes(gpu.shared_bytes_per_sm)}",
        "warps": f"has {cdiv(threads, gpu.warp_size)} warps, but an SM of {gpu.name} has room for fewer",
    }
    fact = next(text for name, text in facts.items() if name in needed.limiter)
    return (
        f"a block of {threads} threads with {registers} registers each {fact}; "
        f"use {' or '.join(remedies) or 'smaller tiles'} (limiter: {needed.limiter})"
    )


def _round_up(value: int, unit: int) -> int:
    return cdiv(value, unit) * unit


def _blocks_by_registers(gpu: SMLimits, warps: int, registers_per_warp: int, per_sub_partition: int) -> int:
    # The limit per block counts the warps as if every sub-partition had the same number of them.
    if registers_per_warp * _round_up(warps, gpu.warp_allocation_granularity) > gpu.registers_per_block:
        return 0
    # A warp's registers lie in one sub-partition: what is left over in each of them cannot be joined.
    fitting = per_sub_partition * gpu.sub_partitions
    if gpu.registers_per_block < gpu.registers_per_sm:
        # NVIDIA's spreadsheet counts such an SM in parts of the size that one block may have.
        unit = gpu.warp_allocation_granularity
        per_part = gpu.registers_per_block // registers_per_warp // unit * unit
        fitting = min(fitting, per_part * gpu.registers_per_sm // gpu.registers_per_block)
    return fitting // warps

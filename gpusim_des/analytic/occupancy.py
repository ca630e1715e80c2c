"""How many blocks of a launch an SM holds at a time, which resource stops it from holding more, and what would help."""

from __future__ import annotations

from dataclasses import dataclass

from gpusim_des.gpu import GPULike, Occupancy, SMLimits, fit, sm_limits
from gpusim_des.gpu import occupancy as _occupancy
from gpusim_des.gpu import shared_for_blocks as _shared_for_blocks


def occupancy(
    gpu: GPULike | SMLimits,
    threads: int,
    registers: int = 32,
    shared_bytes: int = 0,
    carveout: int | None = None,
    barriers: int = 1,
) -> Occupancy:
    """Occupancy of a launch by the allocation rules of the GPU.

    Parameters
    ----------
    gpu
        A model, the name or path of one, or a compute capability: ``"8.6"``, ``"sm_86"``.
    threads
        Threads per block.
    registers
        32-bit registers per thread; 0 means that registers do not matter.
    shared_bytes
        Static and dynamic shared memory per block together, in bytes.
    carveout
        Share of the unified L1 that the kernel prefers as shared memory, in percent; ``None``: as much as there can be.
    barriers
        Block barriers that the kernel uses; they are a limit since compute capability 9.0.

    Raises
    ------
    LaunchError
        A `ValueError`: the launch is impossible on this GPU; the message names the limiter. A launch that is legal in
        form but fits no block has ``blocks_per_sm == 0`` instead.
    ModelError
        If there is no such GPU or compute capability.

    References
    ----------
    NVIDIA, CUDA C++ Programming Guide, "Compute Capabilities"; ``cuda_occupancy.h``, CUDA 13.

    Examples
    --------
    34 registers are stored as 40, so six blocks fit and not the seven of plain division:

    >>> o = occupancy("a100-sxm-80gb", threads=256, registers=34)
    >>> o.blocks_per_sm, o.occupancy, o.limiter
    (6, 0.75, 'registers')
    >>> occupancy("12.0", threads=32).limiters
    ('blocks', 'barriers')
    """
    return _occupancy(sm_limits(gpu), threads, registers, shared_bytes, carveout, barriers)


def shared_for_blocks(gpu: GPULike | SMLimits, threads: int, blocks_per_sm: int, registers: int = 32) -> int:
    """Most dynamic shared memory per block, in bytes, with which an SM holds exactly `blocks_per_sm` blocks.

    Launched with it, a kernel has this occupancy and remains as it is otherwise: how bandwidth against occupancy is
    measured.

    Raises
    ------
    LaunchError
        A `ValueError`: shared memory cannot bring this number about; the message says how many blocks it gives.
    ModelError
        If there is no such GPU or compute capability.

    Examples
    --------
    >>> nbytes = shared_for_blocks("h100-sxm", threads=256, blocks_per_sm=4)
    >>> nbytes, occupancy("h100-sxm", 256, shared_bytes=nbytes).blocks_per_sm
    (57344, 4)
    """
    return _shared_for_blocks(sm_limits(gpu), threads, blocks_per_sm, registers)


@dataclass(frozen=True)
class Change:
    """A launch shape near another one that has a higher occupancy."""

    what: str
    """What is changed: ``registers``, ``shared_mem``, ``registers+shared_mem`` or ``threads``."""
    threads: int
    registers: int
    shared_bytes: int
    occupancy: Occupancy

    def __str__(self) -> str:
        """The changed values: what a person would try next."""
        texts = {
            "registers": f"at most {self.registers} registers per thread",
            "shared_mem": f"at most {self.shared_bytes:,} B of shared memory per block",
            "threads": f"{self.threads} threads per block",
        }
        return " and ".join(texts[name] for name in self.what.split("+"))


def next_better(
    gpu: GPULike | SMLimits,
    threads: int,
    registers: int = 32,
    shared_bytes: int = 0,
    carveout: int | None = None,
    barriers: int = 1,
) -> tuple[Change, ...]:
    """Find the smallest changes that raise the occupancy of a launch.

    First, where registers or shared memory are the limiter, the most of them with which one more block fits; where
    both are, both must change. Then the nearest smaller and the nearest larger block size, in whole warps, at which
    more warps are resident. Parameters and errors are those of `occupancy`.

    Returns
    -------
    tuple of Change
        Empty if nothing helps, above all at full occupancy.

    Examples
    --------
    >>> for change in next_better("h100-sxm", threads=256, registers=65):
    ...     print(f"{change}: {change.occupancy.blocks_per_sm} blocks, {change.occupancy.occupancy:.2%}")
    at most 64 registers per thread: 4 blocks, 50.00%
    224 threads per block: 4 blocks, 43.75%
    288 threads per block: 3 blocks, 42.19%
    """
    limits = sm_limits(gpu)
    now = _occupancy(limits, threads, registers, shared_bytes, carveout, barriers)
    found = []
    one_more = _one_more_block(limits, threads, registers, shared_bytes, carveout, barriers, now)
    if one_more is not None:
        found.append(one_more)
    warp = limits.warp_size
    below = range((threads - 1) // warp * warp, 0, -warp)
    above = range(threads // warp * warp + warp, limits.max_threads_per_block + 1, warp)
    for sizes in (below, above):
        for size in sizes:
            shape = (size, registers, shared_bytes)
            then = fit(limits, *shape, carveout, barriers)
            if then.active_warps > now.active_warps:
                found.append(Change("threads", *shape, then))
                break
    return tuple(found)


def _one_more_block(
    limits: SMLimits,
    threads: int,
    registers: int,
    shared_bytes: int,
    carveout: int | None,
    barriers: int,
    now: Occupancy,
) -> Change | None:
    target = now.blocks_per_sm + 1
    what = []
    if "registers" in now.limiters:
        what.append("registers")
        fewer = (r for r in range(registers - 1, 0, -1) if _limit(limits, (threads, r, 0), "registers") >= target)
        registers = next(fewer, 0)
    if "shared_mem" in now.limiters:
        what.append("shared_mem")
        unit = limits.shared_allocation_unit_bytes
        # The most that is stored as a given number of units, so that no smaller step is passed over.
        stored = range(now.allocated_shared_bytes_per_block - unit, limits.shared_bytes_reserved_per_block - 1, -unit)
        sizes = (size - limits.shared_bytes_reserved_per_block for size in stored)
        shared_bytes = next((s for s in sizes if _limit(limits, (threads, 0, s), "shared_mem", carveout) >= target), -1)
    if not what or shared_bytes < 0 or not (registers or "registers" not in what):
        return None
    then = fit(limits, threads, registers, shared_bytes, carveout, barriers)
    if then.blocks_per_sm <= now.blocks_per_sm:  # warps, block slots or barriers stand in the way, too
        return None
    return Change("+".join(what), threads, registers, shared_bytes, then)


def _limit(limits: SMLimits, shape: tuple[int, int, int], resource: str, carveout: int | None = None) -> int:
    limit = fit(limits, *shape, carveout).limits[resource]
    return limits.max_warps_per_sm if limit is None else limit

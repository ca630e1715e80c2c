"""How many blocks of a launch an SM holds at a time, and which resource stops it from holding more."""

from __future__ import annotations

from gpusim_des.gpu import GPULike, Occupancy, load_gpu
from gpusim_des.gpu import occupancy as _occupancy


def occupancy(gpu: GPULike, threads: int, registers: int = 32, shared_bytes: int = 0) -> Occupancy:
    """Occupancy of a launch by the allocation rules of the GPU.

    Parameters
    ----------
    gpu
        A model, or the name or path of one.
    threads
        Threads per block.
    registers
        32-bit registers per thread; 0 means that registers do not matter.
    shared_bytes
        Static and dynamic shared memory per block together, in bytes.

    Raises
    ------
    LaunchError
        A `ValueError`: the launch is impossible on this GPU; the message names the limiter. A launch that is legal in
        form but fits no block has ``blocks_per_sm == 0`` instead.
    ModelError
        If there is no such GPU.

    References
    ----------
    NVIDIA, CUDA C++ Programming Guide, "Compute Capabilities"; ``cuda_occupancy.h``, CUDA 13.

    Examples
    --------
    34 registers are stored as 40, so six blocks fit and not the seven of plain division:

    >>> o = occupancy("a100-sxm-80gb", threads=256, registers=34)
    >>> o.blocks_per_sm, o.occupancy, o.limiter
    (6, 0.75, 'registers')
    """
    return _occupancy(load_gpu(gpu), threads, registers, shared_bytes)

"""Occupancy over block sizes, registers or shared memory: what-if curves, as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpusim_des.errors import LaunchError
from gpusim_des.gpu import GPULike, SMLimits, occupancy, sm_limits

Axis = Literal["block", "registers", "shared"]
AXES: tuple[Axis, ...] = ("block", "registers", "shared")


@dataclass(frozen=True, eq=False)
class OccupancyArrays:
    """Occupancies of many launches; all arrays have one shape."""

    threads: NDArray[np.int64]
    registers: NDArray[np.int64]
    shared_bytes: NDArray[np.int64]
    blocks_per_sm: NDArray[np.int64]
    active_warps: NDArray[np.int64]
    occupancy: NDArray[np.float64]
    limiter: NDArray[np.str_]


@dataclass(frozen=True, eq=False)
class OccupancyCurve(OccupancyArrays):
    """Occupancy over one of the three, the other two held."""

    axis: Axis
    limits: SMLimits
    chosen: int | None
    """Value on the axis that was asked about; ``None`` if none was."""

    @property
    def values(self) -> NDArray[np.int64]:
        """What varies: threads, registers or bytes of shared memory, rising."""
        return {"block": self.threads, "registers": self.registers, "shared": self.shared_bytes}[self.axis]

    def steps(self) -> list[tuple[int, int, int]]:
        """Runs of neighbouring points with one result: first and last index, and the blocks per SM.

        >>> curve = what_if("h100-sxm", "registers", threads=256)
        >>> [(int(curve.values[a]), int(curve.values[b]), blocks) for a, b, blocks in curve.steps()][:3]
        [(1, 24, 8), (25, 32, 8), (33, 40, 6)]
        """
        same = (np.diff(self.blocks_per_sm) == 0) & (self.limiter[1:] == self.limiter[:-1])
        starts = [0, *(int(i) + 1 for i in np.flatnonzero(~same))]
        ends = [*(start - 1 for start in starts[1:]), len(self.values) - 1]
        return [(a, b, int(self.blocks_per_sm[a])) for a, b in zip(starts, ends, strict=True)]


def occupancy_arrays(
    gpu: GPULike | SMLimits,
    threads: ArrayLike,
    registers: ArrayLike = 32,
    shared_bytes: ArrayLike = 0,
    carveout: int | None = None,
    barriers: int = 1,
) -> OccupancyArrays:
    """Occupancy of many launches; the arguments are broadcast against each other as NumPy does it.

    Parameters and errors are those of `occupancy`, for each element.

    Examples
    --------
    >>> o = occupancy_arrays("a100-sxm-80gb", threads=[128, 256, 512], registers=[[32], [64]])
    >>> o.blocks_per_sm
    array([[16,  8,  4],
           [ 8,  4,  2]])
    """
    limits = sm_limits(gpu)
    asked = zip(_NAMES, (threads, registers, shared_bytes), strict=True)
    shapes = np.broadcast_arrays(*(_whole(name, value) for name, value in asked))
    results = [
        occupancy(limits, int(t), int(r), int(s), carveout, barriers)
        for t, r, s in zip(*(array.ravel() for array in shapes), strict=True)
    ]
    fields: dict[str, Any] = {
        name: np.array([getattr(r, name) for r in results]).reshape(shapes[0].shape)
        for name in ("blocks_per_sm", "active_warps", "occupancy", "limiter")
    }
    return OccupancyArrays(**dict(zip(_NAMES, shapes, strict=True)), **fields)


def what_if(
    gpu: GPULike | SMLimits,
    axis: Axis,
    threads: int = 256,
    registers: int = 32,
    shared_bytes: int = 0,
    carveout: int | None = None,
    barriers: int = 1,
) -> OccupancyCurve:
    """Occupancy over everything that `axis` can be, the other two held.

    Block sizes are multiples of a warp, registers 1 to the most, shared memory multiples of its allocation unit; the
    value that is asked about is a point of the curve, too. Other parameters are those of `occupancy`.

    Raises
    ------
    LaunchError
        If the launch that is asked about is impossible, or the axis is none of the three.

    Examples
    --------
    >>> curve = what_if("t4", "block", threads=96, registers=64)
    >>> curve.values[:3], curve.occupancy[:3]
    (array([32, 64, 96]), array([0.5   , 1.    , 0.9375]))
    """
    if axis not in AXES:
        raise LaunchError(f"axis = {axis!r}: must be one of {', '.join(AXES)}")
    limits = sm_limits(gpu)
    shape = {"block": threads, "registers": registers, "shared": shared_bytes}
    occupancy(limits, threads, registers, shared_bytes, carveout, barriers)  # refuses what is impossible
    spans: dict[Axis, range] = {
        "block": range(limits.warp_size, limits.max_threads_per_block + 1, limits.warp_size),
        "registers": range(1, limits.max_registers_per_thread + 1),
        "shared": range(0, limits.shared_bytes_per_block_optin + 1, limits.shared_allocation_unit_bytes),
    }
    values = np.union1d(np.array(spans[axis], dtype=np.int64), [shape[axis]])
    arguments: dict[str, Any] = {**shape, axis: values}
    arrays = occupancy_arrays(
        limits, arguments["block"], arguments["registers"], arguments["shared"], carveout, barriers
    )
    return OccupancyCurve(**vars(arrays), axis=axis, limits=limits, chosen=shape[axis])


_NAMES = ("threads", "registers", "shared_bytes")


def _whole(name: str, value: ArrayLike) -> NDArray[np.int64]:
    array = np.asarray(value)
    if array.dtype.kind not in "iu" or not array.size:
        raise LaunchError(f"{name} = {value!r}: must be whole numbers, at least one")
    return array.astype(np.int64)

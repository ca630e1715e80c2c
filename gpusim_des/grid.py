"""The shape of a launch: three-dimensional sizes, linear numbers and warps."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import NamedTuple, SupportsIndex, Union

from gpusim_des.errors import LaunchError

WARP_SIZE = 32
"""Threads in a warp, on every NVIDIA GPU so far (CUDA C++ Programming Guide, "SIMT architecture")."""

MAX_GRID = (2**31 - 1, 65_535, 65_535)
"""Largest grid in x, y, z (CUDA C++ Programming Guide, "Technical specifications per compute capability")."""

MAX_BLOCK = (1024, 1024, 64)
"""Largest block in x, y, z (same table); the product has a limit of its own."""

DimLike = Union[SupportsIndex, tuple[SupportsIndex, ...], "Dim3"]


def cdiv(a: int, b: int) -> int:
    """Divide and round up: how many pieces of `b` cover `a`.

    >>> cdiv(1000, 256), cdiv(1024, 256)
    (4, 4)
    """
    if b <= 0:
        raise ValueError(f"cdiv({a}, {b}): the divisor must be positive")
    return -(-a // b)


class Dim3(NamedTuple):
    """A size or an index in x, y and z, x varying fastest."""

    x: int
    y: int = 1
    z: int = 1

    @property
    def size(self) -> int:
        """Number of elements, ``x * y * z``."""
        return self.x * self.y * self.z

    def at(self, linear: int) -> Dim3:
        """Index of element number `linear`, x varying fastest.

        >>> Dim3(4, 3).at(5)
        Dim3(x=1, y=1, z=0)
        """
        return Dim3(linear % self.x, linear // self.x % self.y, linear // (self.x * self.y))

    def __str__(self) -> str:
        return f"({self.x}, {self.y}, {self.z})"


def dim3(value: DimLike, what: str, limits: tuple[int, int, int]) -> Dim3:
    """Turn an integer or a tuple of one to three integers into a checked `Dim3`.

    Raises
    ------
    LaunchError
        If a size is not a whole number, below 1 or above `limits`.

    Examples
    --------
    >>> dim3(7, "grid", MAX_GRID), dim3((8, 4), "block", MAX_BLOCK)
    (Dim3(x=7, y=1, z=1), Dim3(x=8, y=4, z=1))
    """
    parts = value if isinstance(value, tuple) else (value,)
    if not 1 <= len(parts) <= 3:
        raise LaunchError(f"{what} = {value!r}: give one, two or three sizes (x, y, z), not {len(parts)}")
    sizes: list[int] = []
    for axis, part, limit in zip("xyz", parts, limits, strict=False):
        try:
            size = operator.index(part)
        except TypeError:
            raise LaunchError(
                f"{what}.{axis} = {part!r} is a {type(part).__name__}: sizes are whole numbers; "
                "use gs.cdiv(n, block) to divide and round up"
            ) from None
        if not 1 <= size <= limit:
            remedy = "leave out a launch with nothing to do" if size < 1 else "spread it over the other dimensions"
            if size > limit == MAX_BLOCK[0]:  # as many as a block holds in all
                remedy = "launch more blocks of fewer threads"
            raise LaunchError(f"{what}.{axis} = {size:,}: must lie between 1 and {limit:,}; {remedy}")
        sizes.append(size)
    return Dim3(*sizes)


@dataclass(frozen=True)
class LaunchConfig:
    """Grid and block of one launch, checked against CUDA's limits.

    Examples
    --------
    >>> c = LaunchConfig.of(4, 96)
    >>> c.blocks, c.threads_per_block, c.warps_per_block
    (4, 96, 3)
    """

    grid: Dim3
    block: Dim3

    @classmethod
    def of(cls, grid: DimLike, block: DimLike, max_threads_per_block: int = 1024) -> LaunchConfig:
        """Check `grid` and `block` and return the configuration; raises `LaunchError`."""
        g, b = dim3(grid, "grid", MAX_GRID), dim3(block, "block", MAX_BLOCK)
        if b.size > max_threads_per_block:
            raise LaunchError(
                f"block = {b} has {b.size:,} threads: a block holds at most {max_threads_per_block:,}; "
                "use a smaller block and more blocks"
            )
        return cls(g, b)

    @property
    def blocks(self) -> int:
        """Blocks in the grid."""
        return self.grid.size

    @property
    def threads_per_block(self) -> int:
        """Threads in a block."""
        return self.block.size

    @property
    def warps_per_block(self) -> int:
        """Warps in a block; the last one may be partly empty."""
        return cdiv(self.block.size, WARP_SIZE)

"""Matrix multiply-accumulate instructions of tensor cores: their shapes, and how a trace writes them down."""

from __future__ import annotations

from typing import NamedTuple

from gpusim_des.errors import TraceError

MMA_TYPES = ("fp16", "bf16", "tf32", "fp64", "int8", "fp8")
"""Element types of the factors (PTX ISA, "Warp-level matrix instructions": mma)."""

LARGEST = 255
"""Largest extent of a shape that a trace can hold."""


class Mma(NamedTuple):
    """One warp-wide ``D = A @ B + C``: A is m × k, B is k × n, C and D are m × n.

    Examples
    --------
    >>> Mma(16, 8, 16, "fp16").multiply_adds
    2048
    >>> Mma.decode(Mma(16, 8, 16, "fp16").encode())
    Mma(m=16, n=8, k=16, type='fp16')
    """

    m: int
    n: int
    k: int
    type: str
    """Type of the factors, one of `MMA_TYPES`."""

    @property
    def multiply_adds(self) -> int:
        """Multiply-adds of the whole warp."""
        return self.m * self.n * self.k

    def encode(self) -> int:
        """Write shape and type as one number below 2^31; raises `TraceError` for what no number can hold."""
        if self.type not in MMA_TYPES:
            raise TraceError(f"mma of type {self.type!r}: must be one of {', '.join(MMA_TYPES)}")
        for name, extent in zip("mnk", self[:3], strict=True):
            if not 1 <= extent <= LARGEST:
                raise TraceError(f"mma with {name} = {extent}: must lie between 1 and {LARGEST}")
        return self.m | self.n << 8 | self.k << 16 | MMA_TYPES.index(self.type) << 24

    @classmethod
    def decode(cls, number: int) -> Mma:
        """Read what `encode` wrote."""
        return cls(number & 255, number >> 8 & 255, number >> 16 & 255, MMA_TYPES[number >> 24])

"""One operation of a chunk of blocks: what becomes an instruction of every warp that took part."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpusim_des.functional import coalescing
from gpusim_des.functional.source import Site
from gpusim_des.trace import OpClass


class TooLong(Exception):  # noqa: N818 - a signal to the executor, not an error of the user
    """The blocks in flight have more operations than may be held at once."""


@dataclass(slots=True)
class Event:
    """One operation of the chunk; arrays have one entry per warp of the chunk, block after block."""

    op: OpClass
    lanes: NDArray[np.uint8]
    producers: tuple[int, ...]
    """Events that all warps read which executed both."""
    site: Site
    """Where in the source it stands."""
    quarter_cycles: NDArray[np.int32] | None = None
    sectors: coalescing.Sectors | None = None
    passes: NDArray[np.uint8] | None = None
    """Operations on the busiest address of each of ``sectors``, for atomics (M7)."""
    columns: tuple[NDArray[np.int32], ...] = ()
    """Further events that each warp reads, -1 for none: where threads got a value from different events."""
    operand: NDArray[np.int32] | int = 0
    """What `Stream.operands` says of the instruction, per warp where warps differ."""

    @property
    def line(self) -> int:
        """Source line, 0 if unknown."""
        return self.site.line

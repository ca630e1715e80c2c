"""Which threads of a launch may print and stop in the debugger: all, or one that the user picked."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpusim_des.errors import LaunchError
from gpusim_des.grid import Dim3, LaunchConfig

Which = int | tuple[int, ...] | None
"""A linear number, or up to three indices (x, y, z); ``None``: all."""


class Watched(NamedTuple):
    """Linear numbers of the block and of the thread in its block; ``None``: every one.

    >>> Watched(block=2, thread=7).includes(2, 7), Watched(thread=7).includes(5, 7), Watched(thread=7).includes(5, 6)
    (True, True, False)
    """

    block: int | None = None
    thread: int | None = None

    def includes(self, block: int, thread: int) -> bool:
        """Tell whether this thread is watched."""
        return self.block in {None, block} and self.thread in {None, thread}


def watched(config: LaunchConfig, only_block: Which, only_thread: Which) -> Watched:
    """Return what was picked; raises `LaunchError` for a block or thread that the launch does not have.

    Examples
    --------
    >>> config = LaunchConfig.of((4, 2), (8, 8), 1024)
    >>> watched(config, (1, 1), 9), watched(config, None, (1, 1, 0))
    (Watched(block=5, thread=9), Watched(block=None, thread=9))
    """
    return Watched(
        _number("only_block", "grid", config.grid, only_block),
        _number("only_thread", "block", config.block, only_thread),
    )


def _number(what: str, whole: str, sizes: Dim3, given: Which) -> int | None:
    if given is None:
        return None
    parts: tuple[Any, ...] = given if isinstance(given, tuple) else (given,)
    if not 0 < len(parts) < 4 or any(isinstance(p, bool) or not isinstance(p, int | np.integer) for p in parts):
        raise LaunchError(f"{what} = {given!r}: give its linear number, or a tuple (x, y, z) of whole numbers")
    if isinstance(given, tuple):
        x, y, z = (*(int(p) for p in parts), 0, 0)[:3]
        inside = 0 <= x < sizes.x and 0 <= y < sizes.y and 0 <= z < sizes.z
        number = x + sizes.x * (y + sizes.y * z)
    else:
        number = int(given)
        inside = 0 <= number < sizes.x * sizes.y * sizes.z
    if not inside:
        raise LaunchError(
            f"{what} = {given!r} is not in the {whole} {tuple(sizes)}: numbers run from 0 to "
            f"{sizes.x * sizes.y * sizes.z - 1:,}, indices from (0, 0, 0) to {tuple(n - 1 for n in sizes)}"
        )
    return number

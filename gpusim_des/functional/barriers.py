"""Barriers that not all threads of a block reach: an error, or a report where the others have left the kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gpusim_des.functional import complaints
from gpusim_des.functional.source import Site, text_of
from gpusim_des.grid import Dim3

if TYPE_CHECKING:
    from gpusim_des.functional.machine import Machine


@dataclass(frozen=True)
class LeftBeforeBarrier:
    """A barrier that threads reach although others of their block have left the kernel.

    Attributes
    ----------
    kernel
        Its name.
    site
        The barrier.
    block
        The first block in which it happened.
    threads
        Its threads that had left, as text: ``36-95``.
    count
        How many blocks met so, each as often as it did.
    """

    kernel: str
    site: Site
    block: Dim3
    threads: str
    count: int

    @property
    def rank(self) -> int:
        """All are equally bad."""
        return 0

    @property
    def where(self) -> Dim3:
        """The block of the example."""
        return self.block

    @property
    def key(self) -> tuple[object, ...]:
        """What is the same for all that are counted together."""
        return (self.site,)

    @property
    def line(self) -> int:
        """Source line of the barrier, 0 if unknown."""
        return self.site.line

    @property
    def remedy(self) -> str:
        """What to do about it."""
        return (
            "the rules want every thread at every barrier, although most GPUs count those that left as arrived: do not "
            "return before a barrier, put the work under an if instead"
        )

    def __str__(self) -> str:
        often = f" ({self.count:,} times)" if self.count > 1 else ""
        shown = f"\n  line {self.line}: {text_of(self.site)}" if text_of(self.site) else ""
        return (
            f"threads {self.threads} of block {self.block} have left before the barrier in line {self.line} that the "
            f"others reach{often}; {self.remedy}{shown}"
        )


def check(machine: Machine, on: NDArray[np.bool_], site: Site) -> int:
    """Check a barrier that the threads `on` reach; returns how many blocks meet there.

    Raises
    ------
    DeadlockError
        If threads that are still running do not reach it.
    """
    there: NDArray[np.bool_] = np.asarray(on.any(axis=1))
    away: NDArray[np.bool_] = there[:, None] & ~on
    if away.any():
        stuck: NDArray[np.bool_] = away if machine.left is None else away & ~machine.left
        rows: NDArray[np.intp] = np.flatnonzero(stuck.any(axis=1))
        if rows.size:
            row = int(rows[0])
            raise complaints.barrier_not_reached(
                machine.kernel_name, site, on[row], machine.config, int(machine.blocks[row])
            )
        rows = np.flatnonzero(away.any(axis=1))
        block = machine.config.grid.at(int(machine.blocks[rows[0]]))
        gone = complaints.ranges(np.flatnonzero(away[rows[0]]).tolist())
        machine.watch.left.add(LeftBeforeBarrier(machine.kernel_name, site, block, gone, len(rows)))
    return int(np.count_nonzero(there))

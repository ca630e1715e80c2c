"""Barriers of blocks and of warps, and fences: what puts accesses of several threads in order.

A barrier that not all threads of a block reach is an error, or a report where the others have left the kernel. Shuffles
and votes let lanes meet, too, but order no memory: CUDA's guide says so of both, and of ``__syncwarp`` that it does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gpusim_des.functional import complaints
from gpusim_des.functional.handover import FenceScope
from gpusim_des.functional.provenance import Producers
from gpusim_des.functional.reports import KernelReport
from gpusim_des.functional.source import Site
from gpusim_des.trace import OpClass

if TYPE_CHECKING:
    from gpusim_des.functional.machine import Machine, Mask


@dataclass(frozen=True, kw_only=True)
class LeftBeforeBarrier(KernelReport):
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

    threads: str

    @property
    def key(self) -> tuple[object, ...]:
        """What is the same for all that are counted together."""
        return (self.site,)

    @property
    def remedy(self) -> str:
        """What to do about it."""
        return (
            "the rules want every thread at every barrier, although most GPUs count those that left as arrived: do not "
            "return before a barrier, put the work under an if instead"
        )

    @property
    def finding(self) -> str:
        """What is wrong in the example."""
        return (
            f"threads {self.threads} of block {self.block} have left before the barrier in line {self.line} that the "
            "others reach"
        )


def meet(machine: Machine, mask: Mask, producers: Producers, site: Site) -> int:
    """Barrier of blocks; returns its event. Raises `DeadlockError` as `check`."""
    machine.counters.count_barriers(site, check(machine, machine.everyone(mask), site))
    event = machine.instruction(OpClass.BARRIER, mask, producers, site)
    if event >= 0:
        machine.watch.barrier(mask)
    return event


def meet_in_warps(
    machine: Machine, mask: Mask, producers: Producers, site: Site, members: NDArray[np.uint32] | None = None
) -> int:
    """Barrier of the active lanes of each warp, or of those whose `members` are the same mask; returns its event."""
    event = machine.instruction(OpClass.VOTE, mask, producers, site)
    if event >= 0:
        machine.watch.warp_barrier(mask, members)
    return event


def fence(machine: Machine, mask: Mask, producers: Producers, site: Site, scope: FenceScope = "device") -> int:
    """Fence of the active threads; returns its event. It costs the same whoever sees it."""
    event = machine.instruction(OpClass.FENCE, mask, producers, site)
    if event >= 0:
        machine.watch.fence(mask, scope)
    return event


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
        machine.watch.left.add(
            LeftBeforeBarrier(kernel=machine.kernel_name, site=site, block=block, threads=gone, count=len(rows))
        )
    return int(np.count_nonzero(there))

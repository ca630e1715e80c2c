"""What a thread of the interpreter shares with its block: numbers, shared memory, barriers of bulk copies."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from gpusim_des.functional.bulk_copies import SharedBarrier
from gpusim_des.functional.machine import Machine
from gpusim_des.functional.memory import DeviceArray, SharedArray
from gpusim_des.functional.scalar_steps import Key
from gpusim_des.functional.shared_names import SharedNames
from gpusim_des.functional.source import Site


class BlockState:
    """What the threads of one block have in common.

    Attributes
    ----------
    machine
        The machine that has this block only.
    names
        Its shared arrays.
    barriers
        Barriers of bulk copies by name, with the first step that declares them.
    """

    def __init__(self, machine: Machine, labels: dict[int, str]) -> None:
        self.machine = machine
        self.labels = labels
        self.names = SharedNames()
        self.barriers: dict[str, Key] = {}


class Neighbours:
    """The block as one of its threads sees it.

    Attributes
    ----------
    number, thread
        Linear numbers of the block in the grid and of the thread in the block.
    """

    def __init__(self, state: BlockState, thread: int) -> None:
        self._state = state
        self.thread = thread
        self.number = int(state.machine.blocks[0])

    @property
    def machine(self) -> Machine:
        """The machine of the block."""
        return self._state.machine

    @property
    def shared_names(self) -> SharedNames:
        """The shared arrays of the block."""
        return self._state.names

    def shared(self, name: str, shape: Any, dtype: Any, dynamic: bool, site: Site) -> SharedArray:
        """Return the shared array of this name."""
        return self._state.names.declare(self.machine, name, shape, dtype, site, dynamic=dynamic)

    def barrier(self, name: Any, key: Key, site: Site) -> SharedBarrier:
        """Return the barrier for bulk copies of this name."""
        barrier = self.machine.bulk_copies.barrier(name, site)
        barriers = self._state.barriers
        barriers[name] = min(key, barriers.get(name, key))
        return barrier

    def refuse(
        self, verb: str, array: DeviceArray | SharedArray, size: int, index: int, where: str, site: Site
    ) -> NoReturn:
        """Raise `BoundsError` for an index of this thread."""
        only = (np.arange(self.machine.shape[1]) == self.thread)[None, :]
        label = self._state.labels.get(id(array), array.name)
        self.machine.check_bounds(verb, label, size, np.full((1, 1), index), only, site, where)
        raise AssertionError(f"index {index} of size {size} is not outside: this is a bug of the simulator")

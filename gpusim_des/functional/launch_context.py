"""What all runtimes of one launch of a thread-style kernel share."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpusim_des.functional.private_arrays import Constants, LocalArray, LocalWindow, Shaped
from gpusim_des.functional.variable_types import Types
from gpusim_des.functional.watched import Watched


class LaunchContext:
    """Names, types, constants and local memory of a launch, and whose prints are heard.

    Attributes
    ----------
    names
        Names of arrays by identity, for messages.
    types
        Type of every variable.
    constants, window
        Its constant arrays, and where its local arrays lie.
    watched
        Which threads may print and stop in the debugger.
    """

    def __init__(
        self, kernel_name: str, names: dict[int, str], types: Types, threads: int, watched: Watched | None = None
    ) -> None:
        self.names = names
        self.types = types
        self.constants = Constants(kernel_name)
        self.window = LocalWindow(threads)
        self.watched = Watched() if watched is None else watched

    def local_array(self, slot: tuple[Any, ...], declared: Shaped, threads: tuple[int, int]) -> LocalArray:
        """Make a local array for so many blocks and threads in flight.

        It is in registers if the whole kernel was seen, and indexes it with constants only.
        """
        shape, dtype, label = declared
        nbytes = int(np.prod(shape, dtype=object)) * dtype.itemsize
        in_memory = not self.types.learnt or slot in self.types.indexed
        address = self.window.address(slot, nbytes)
        return LocalArray(slot, shape, dtype, label, address, threads, in_memory=in_memory)

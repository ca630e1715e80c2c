"""A branch in block style: a mask, and a region of code that only its threads execute."""

from __future__ import annotations

from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpusim_des.errors import KernelError
from gpusim_des.functional.lanes import Lanes, within
from gpusim_des.functional.machine import Machine, Mask
from gpusim_des.functional.provenance import Producers
from gpusim_des.functional.source import caller


class BranchMask(Lanes):
    """Threads that take a branch, as ``blk.branch(condition)`` returns them.

    Use it as ``mask=``, or as a region: inside ``with taken:`` only its threads execute, arithmetic included, and
    regions nest. ``taken.orelse`` (or ``~taken``) are the threads that met the branch and go the other way.
    """

    __slots__ = ("_met", "_outer", "_parent")

    def __init__(self, machine: Machine, taken: NDArray[np.bool_], producers: Producers, met: Mask) -> None:
        super().__init__(machine, taken if met is None else taken & met, producers)
        self._met = met
        self._outer: list[Mask] = []
        self._parent: BranchMask | None = None

    @property
    def orelse(self) -> BranchMask:
        """The threads that met the branch and do not take it; the same branch, so nothing more is counted."""
        other = BranchMask(self.machine, ~self.value, self.producers, self._met)
        other._parent = self
        return other

    def __invert__(self) -> BranchMask:
        return self.orelse

    def __enter__(self) -> BranchMask:
        if self._parent is not None and self._parent._outer:
            raise KernelError(
                f"{self.machine.kernel_name}: {caller()} opens the other side of a branch inside of the branch itself, "
                "where none of its threads are: end the first region before it"
            )
        self._outer.append(self.machine.active)
        self.machine.active = within(self.machine, np.broadcast_to(self.value, self.machine.shape))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.machine.active = self._outer.pop()

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Combined with other conditions it is an ordinary truth value."""
        return super().__array_ufunc__(ufunc, method, *inputs, **kwargs)

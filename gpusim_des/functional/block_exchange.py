"""Block style: atomics, and lanes of a warp exchanging values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from gpusim_des.errors import KernelError
from gpusim_des.functional import barriers, provenance
from gpusim_des.functional.lanes import Lanes, joint_producers, values_of
from gpusim_des.functional.machine import Machine, Mask
from gpusim_des.functional.memory import DeviceArray, SharedArray
from gpusim_des.functional.provenance import Producers
from gpusim_des.functional.source import Site, caller

if TYPE_CHECKING:
    from gpusim_des.functional.block_kernel import Index


class Exchange(ABC):
    """The part of a `Block` in which threads meet one by one; all results are per-thread values."""

    _machine: Machine

    # Supplied by the block ------------------------------------------------------------------------------------------

    @abstractmethod
    def _mask(self, mask: Any, site: Site, what: str = "mask") -> tuple[Mask, Producers]:
        """Threads of a mask, and what made it."""

    @abstractmethod
    def _value(self, value: Any, dtype: np.dtype[Any]) -> tuple[np.ndarray[Any, Any], Producers]:
        """Numbers of a value in a type, and what made them."""

    @abstractmethod
    def _flat_index(
        self, verb: str, array: DeviceArray | SharedArray, index: Index, mask: Mask, site: Site
    ) -> tuple[np.ndarray[Any, Any], Producers]:
        """Row-major position of an index, and what made it."""

    @abstractmethod
    def _name(self, array: DeviceArray) -> str:
        """Name of an array for messages."""

    # Atomics --------------------------------------------------------------------------------------------------------

    def atomic_add(self, array: DeviceArray | SharedArray, index: Index, value: Any, mask: Any = None) -> Lanes:
        """Add `value` to elements of a global or shared array; returns the old values."""
        return self._atomic("atomic_add", array, index, (value,), mask)

    def atomic_max(self, array: DeviceArray | SharedArray, index: Index, value: Any, mask: Any = None) -> Lanes:
        """Raise elements to `value`; returns the old values."""
        return self._atomic("atomic_max", array, index, (value,), mask)

    def atomic_min(self, array: DeviceArray | SharedArray, index: Index, value: Any, mask: Any = None) -> Lanes:
        """Lower elements to `value`; returns the old values."""
        return self._atomic("atomic_min", array, index, (value,), mask)

    def atomic_exch(self, array: DeviceArray | SharedArray, index: Index, value: Any, mask: Any = None) -> Lanes:
        """Replace elements; returns the old values."""
        return self._atomic("atomic_exch", array, index, (value,), mask)

    def atomic_cas(
        self, array: DeviceArray | SharedArray, index: Index, compare: Any, value: Any, mask: Any = None
    ) -> Lanes:
        """Replace elements that equal `compare`; returns the old values."""
        return self._atomic("atomic_cas", array, index, (value, compare), mask)

    def _atomic(
        self, name: str, array: DeviceArray | SharedArray, index: Index, operands: tuple[Any, ...], mask: Any
    ) -> Lanes:
        site = caller()
        if not isinstance(array, DeviceArray | SharedArray):
            raise KernelError(
                f"{self._machine.kernel_name}: {name} in {site} on a {type(array).__name__}: give an array in global "
                "or shared memory"
            )
        on, made = self._mask(mask, site)
        plain, producers = [], [made]
        for operand in operands:
            numbers, made_operand = self._value(operand, array.dtype)
            plain.append(numbers)
            producers.append(made_operand)
        flat, made_index = self._flat_index(f"{name} on", array, index, on, site)
        label = self._name(array) if isinstance(array, DeviceArray) else array.name
        together = provenance.joint(*producers, made_index)
        old, event = self._machine.atomic(array, label, name, flat, plain, on, together, site)
        return Lanes(self._machine, old, (event,), on)

    # Shuffles and votes ---------------------------------------------------------------------------------------------

    def shfl(self, value: Any, lane: Any, mask: Any = None) -> Lanes:
        """Value of lane `lane` modulo 32 of the same warp."""
        return self._shuffle("shfl", value, lane, mask)

    def shfl_up(self, value: Any, delta: Any, mask: Any = None) -> Lanes:
        """Value of the lane `delta` lower in the same warp, the own value where there is no such active lane."""
        return self._shuffle("shfl_up", value, delta, mask)

    def shfl_down(self, value: Any, delta: Any, mask: Any = None) -> Lanes:
        """Value of the lane `delta` higher in the same warp, the own value where there is no such active lane."""
        return self._shuffle("shfl_down", value, delta, mask)

    def shfl_xor(self, value: Any, lane_mask: Any, mask: Any = None) -> Lanes:
        """Value of the lane whose number is this one's exclusive or `lane_mask`."""
        return self._shuffle("shfl_xor", value, lane_mask, mask)

    def _shuffle(self, name: str, value: Any, other: Any, mask: Any) -> Lanes:
        site = caller()
        number = np.asarray(values_of(self._machine, other))
        if number.dtype.kind not in "iu" or (number.size and number.min() < 0):
            what, unit = ("delta", "lanes") if name in {"shfl_up", "shfl_down"} else ("lane", "a lane")
            raise KernelError(
                f"{name} {what} = {other!r} in {site}: must be a whole number of {unit}, at least 0"
                if unit == "lanes"
                else f"{name} {what} = {other!r} in {site}: must be the number of {unit}, at least 0"
            )
        on, made = self._mask(mask, site)
        plain = np.asarray(values_of(self._machine, value))
        together = provenance.joint(made, joint_producers(value, other))
        moved, event = self._machine.shuffle(name, plain, number, on, together, site)
        return Lanes(self._machine, moved, (event,), on)

    def ballot(self, predicate: Any, mask: Any = None) -> Lanes:
        """Bit k set if lane k is active and its predicate holds (32-bit unsigned)."""
        return self._vote("ballot", predicate, mask)

    def any(self, predicate: Any, mask: Any = None) -> Lanes:
        """Tell whether the predicate holds for any active lane of the warp."""
        return self._vote("any", predicate, mask)

    def all(self, predicate: Any, mask: Any = None) -> Lanes:
        """Tell whether the predicate holds for all active lanes of the warp."""
        return self._vote("all", predicate, mask)

    def activemask(self, mask: Any = None) -> Lanes:
        """Bit k set if lane k is active (32-bit unsigned)."""
        return self._vote("activemask", True, mask)

    def syncwarp(self, mask: Any = None) -> None:
        """Barrier of the active lanes of each warp."""
        site = caller()
        on, made = self._mask(mask, site)
        barriers.meet_in_warps(self._machine, on, made, site)

    def threadfence(self, mask: Any = None) -> None:
        """Order each thread's writes before its later ones, as others see them."""
        site = caller()
        on, made = self._mask(mask, site)
        barriers.fence(self._machine, on, made, site)

    def _vote(self, name: str, predicate: Any, mask: Any) -> Lanes:
        site = caller()
        on, made = self._mask(mask, site)
        holds = np.ones((1, 1), bool)
        made_predicate: Producers = ()
        if predicate is not True:
            value = np.asarray(values_of(self._machine, predicate))
            if value.dtype != np.bool_:
                raise KernelError(
                    f"{name} of a value of type {value.dtype} in {site}: give a truth value, such as x > 0"
                )
            holds, made_predicate = value, joint_producers(predicate)
        together = provenance.joint(made, made_predicate)
        answer, event = self._machine.vote(name, holds, on, together, site)
        return Lanes(self._machine, answer, (event,), on)

"""Local arrays in masked execution: in registers, where an access costs nothing, or in local memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gpusim_des.functional import provenance
from gpusim_des.functional.private_arrays import LocalArray
from gpusim_des.functional.tracked import Value
from gpusim_des.trace import OpClass

if TYPE_CHECKING:
    from gpusim_des.functional.masked_runtime import MaskedRuntime


def read(runtime: MaskedRuntime, place: int, array: LocalArray, flat: NDArray[Any], producers: Any) -> Value:
    """Read each active thread's own element."""
    rows, columns = np.ogrid[: array.slots.shape[1], : array.slots.shape[2]]
    if not array.in_memory:
        element = int(flat)
        return Value(runtime, array.slots[element].copy(), array.made.get(element, ()))
    picked = flat if runtime.mask is None else np.where(runtime.mask, flat, 0)
    values = array.slots[picked, rows, columns]
    return Value(runtime, values, (_access(runtime, place, OpClass.GLOBAL_LOAD, array, picked, producers),))


def write(
    runtime: MaskedRuntime, place: int, array: LocalArray, flat: NDArray[Any], numbers: NDArray[Any], producers: Any
) -> None:
    """Write each active thread's own element."""
    rows, columns = np.ogrid[: array.slots.shape[1], : array.slots.shape[2]]
    mask = runtime.mask
    picked = flat if mask is None else np.where(mask, flat, 0)
    old = array.slots[picked, rows, columns]
    array.slots[picked, rows, columns] = numbers if mask is None else np.where(mask, numbers, old)
    if array.in_memory:
        _access(runtime, place, OpClass.GLOBAL_STORE, array, picked, producers)
        return
    element = int(flat)
    before = array.made.get(element, ())
    shape = runtime.machine.shape
    array.made[element] = producers if mask is None else provenance.merged(mask, producers, before, shape)


def _access(
    runtime: MaskedRuntime, place: int, op: OpClass, array: LocalArray, flat: NDArray[Any], producers: Any
) -> int:
    machine = runtime.machine
    threads = np.arange(machine.shape[1])[None, :]
    position = array.position(flat, machine.blocks[:, None], threads, machine.shape[1])
    return machine.access(op, array, position, runtime.mask, producers, runtime.sites[place])

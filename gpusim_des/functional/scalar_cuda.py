"""Operations of ``numba.cuda`` in the interpreter: barriers that count, declared arrays, local memory."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import numpy as np

from gpusim_des.functional import complaints, scalar_operations, warp_groups
from gpusim_des.functional.cuda_translation import Request
from gpusim_des.functional.memory import SharedArray
from gpusim_des.functional.private_arrays import LocalArray, Shaped, check_local
from gpusim_des.functional.scalar_steps import Meeting
from gpusim_des.functional.tracked import Value
from gpusim_des.trace import OpClass

if TYPE_CHECKING:
    from gpusim_des.functional.scalar_runtime import ScalarRuntime


def operate(runtime: ScalarRuntime, place: int, found: Any) -> Generator[Meeting, Any, Any]:
    """Do what `found` requests; anything else is a result already."""
    if not isinstance(found, Request):
        return found
    name = found.operation.name
    if name == "shared.array":
        return _shared_array(runtime, place, **found.arguments)
    if name == "local.array":
        return _local_array(runtime, place, **found.arguments)
    if name.startswith("syncthreads"):
        return (yield from _barrier(runtime, place, name, **found.arguments))
    if "members" in found.arguments:
        found.arguments["members"] = _members(runtime, place, found.arguments["members"])
    return (yield from scalar_operations.operate(runtime, place, found.operation, found.arguments))


def _members(runtime: ScalarRuntime, place: int, given: Any) -> Any:
    """Return the member mask, in which the lane's own bit must be set."""
    runtime.operand_type(place, given)
    number = int(given.value if isinstance(given, Value) else given) & warp_groups.FULL
    lane = int(runtime.thread.lane.value)
    if not number >> lane & 1:
        raise complaints.not_in_mask(runtime.kernel_name, runtime.sites[place], lane, number)
    return Value(runtime, np.uint32(number), given.producers if isinstance(given, Value) else ())


def _shared_array(runtime: ScalarRuntime, place: int, declared: Shaped) -> SharedArray:
    return runtime.block.shared_names.declare_at(runtime.block.machine, declared, runtime.sites[place])


def _local_array(runtime: ScalarRuntime, place: int, declared: Shaped) -> LocalArray:
    slot = (*runtime.frame_key(), place)
    array = runtime.local_arrays.get(slot)
    if array is None:
        check_local(runtime.kernel_name, runtime.sites[place], declared.shape, declared.dtype)
        array = runtime.context.local_array(slot, declared, (1, 1))
        runtime.local_arrays[slot] = array
    return array


def _barrier(runtime: ScalarRuntime, place: int, name: str, predicate: Any = True) -> Generator[Meeting, Any, Any]:
    """Barrier; what it returns is known when the last thread has come."""
    truth = runtime.truth(place, predicate)
    made = runtime.step(place, OpClass.BARRIER, runtime.joint_producers((truth,)))
    held = bool(truth.value) if isinstance(truth, Value) else truth
    answer = yield Meeting(made[0], "barrier", runtime.sites[place], {"returns": name, "predicate": held})
    return None if name == "syncthreads" else Value(runtime, np.int32(answer), made)


def barrier_answer(meetings: list[Meeting]) -> int:
    """What a barrier returns to all threads of the block that have come to it."""
    held = [bool(m.arguments.get("predicate", True)) for m in meetings]
    returns = meetings[0].arguments.get("returns")
    if returns == "syncthreads_count":
        return sum(held)
    return int(any(held) if returns == "syncthreads_or" else all(held))


def read_local(runtime: ScalarRuntime, place: int, array: LocalArray, element: int, producers: Any) -> Value:
    """Read the thread's own element."""
    made = array.made.get(element, ())
    if array.in_memory:
        made = runtime.step(place, OpClass.GLOBAL_LOAD, producers, array=array, flat=_position(runtime, array, element))
    return Value(runtime, array.slots[element, 0, 0], made)


def write_local(
    runtime: ScalarRuntime, place: int, array: LocalArray, element: int, number: Any, producers: Any
) -> None:
    """Write the thread's own element."""
    array.slots[element, 0, 0] = number
    if not array.in_memory:
        array.made[element] = producers
        return
    runtime.step(place, OpClass.GLOBAL_STORE, producers, array=array, flat=_position(runtime, array, element))


def _position(runtime: ScalarRuntime, array: LocalArray, element: int) -> int:
    block = runtime.block
    return int(array.position(element, block.number, block.thread, block.machine.shape[1]))

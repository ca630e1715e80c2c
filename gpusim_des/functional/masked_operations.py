"""Operations by name in masked execution: shared arrays, barriers, atomics, and lanes of a warp exchanging values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gpusim_des.functional import atomics, barriers, masked_groups, thread_atomics
from gpusim_des.functional.array_view import base_of
from gpusim_des.functional.masked_copies import copy
from gpusim_des.functional.operations import ATOMICS, COPIES, Barrier, Operation
from gpusim_des.functional.tracked import Value
from gpusim_des.functional.warp_groups import FULL

if TYPE_CHECKING:
    from gpusim_des.functional.masked_runtime import MaskedRuntime


def operate(runtime: MaskedRuntime, place: int, operation: Operation, arguments: dict[str, Any]) -> Any:
    """Do a named operation for the active threads."""
    name = operation.name
    if name in ATOMICS:
        return _atomic(runtime, place, operation.owner, name, **arguments)
    if name == "shared":
        return runtime.shared_names.declare(runtime.machine, **arguments, site=runtime.sites[place])
    if name == "syncthreads":
        return Barrier()
    if name == "threadfence":
        barriers.fence(runtime.machine, runtime.mask, (), runtime.sites[place], arguments.get("scope", "device"))
        return None
    if name in COPIES:
        return copy(runtime, place, name, arguments)
    return _meet(runtime, place, name, arguments)


def _meet(runtime: MaskedRuntime, place: int, name: str, arguments: dict[str, Any]) -> Any:
    """Shuffles and votes."""
    machine, mask, site = runtime.machine, runtime.mask, runtime.sites[place]
    if "members" in arguments:
        members = arguments.pop("members")
        if isinstance(members, Value) or members & FULL != FULL or name in masked_groups.ALONE:
            return masked_groups.meet(runtime, place, name, arguments, members)
    tracked = tuple(v for v in arguments.values() if isinstance(v, Value))
    if name.startswith("shfl"):
        (_, value), (_, other) = arguments.items()
        if not isinstance(value, Value):
            value = runtime.constant(value, runtime.rules.constant_type(value))
        with_numbers = np.asarray(other.value if isinstance(other, Value) else other)
        producers = runtime.joint_producers(tracked)
        result, event = machine.shuffle(name, value.value, with_numbers, mask, producers, site)
        return Value(runtime, result, (event,))
    if name == "syncwarp":
        barriers.meet_in_warps(machine, mask, runtime.joint_producers(tracked), site)
        return None
    predicate: Any = np.ones((1, 1), bool)
    if "predicate" in arguments:
        truth = runtime.truth(place, arguments["predicate"])
        tracked = (truth,) if isinstance(truth, Value) else ()
        predicate = truth.value if isinstance(truth, Value) else np.full((1, 1), bool(truth))
    result, event = machine.vote(name, predicate, mask, runtime.joint_producers(tracked), site)
    if name == "ballot":
        result = result.astype(runtime.rules.lane_mask)
    return Value(runtime, result, (event,))


def _atomic(runtime: MaskedRuntime, place: int, array: Any, name: str, **arguments: Any) -> Value:
    flat, operands, producers = thread_atomics.access(runtime, place, name, array, **arguments)
    array = base_of(array)
    numbers = [np.asarray(number) for number in operands]
    label, site = runtime.name_of(array), runtime.sites[place]
    old, event = runtime.machine.atomic(array, label, name, np.asarray(flat), numbers, runtime.mask, producers, site)
    changed = atomics.changes(name, old, numbers)
    if (changed if runtime.mask is None else changed & runtime.mask).any():
        runtime.changes += 1
    return Value(runtime, old, (event,))

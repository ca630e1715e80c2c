"""Operations by name in the interpreter: what one thread does alone, and where it waits for the lanes of its warp."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import numpy as np

from gpusim_des.functional import arithmetic_rules as rules
from gpusim_des.functional import atomics, thread_atomics
from gpusim_des.functional.array_view import base_of
from gpusim_des.functional.memory import DeviceArray
from gpusim_des.functional.operations import ATOMICS, COPIES, Barrier, Operation
from gpusim_des.functional.scalar_copies import copy
from gpusim_des.functional.scalar_steps import Meeting
from gpusim_des.functional.tracked import Value
from gpusim_des.functional.warp_groups import FULL
from gpusim_des.trace import OpClass

if TYPE_CHECKING:
    from gpusim_des.functional.scalar_runtime import ScalarRuntime


def operate(
    runtime: ScalarRuntime, place: int, operation: Operation, arguments: dict[str, Any]
) -> Generator[Meeting, Any, Any]:
    """Do a named operation for one thread."""
    name = operation.name
    if name in ATOMICS:
        return _atomic(runtime, place, operation.owner, name, **arguments)
    if name == "shared":
        return runtime.block.shared(**arguments, site=runtime.sites[place])
    if name == "syncthreads":
        return Barrier()
    if name == "threadfence":
        runtime.step(place, OpClass.FENCE, (), value=arguments.get("scope", "device"))
        return None
    if name in COPIES:
        return (yield from copy(runtime, place, name, arguments))
    return (yield from _meet(runtime, place, name, arguments))


def _meet(runtime: ScalarRuntime, place: int, name: str, arguments: dict[str, Any]) -> Generator[Meeting, Any, Any]:
    """Shuffles and votes."""
    value = arguments.get("value")
    if value is not None and not isinstance(value, Value):
        arguments = {**arguments, "value": runtime.constant(value, runtime.rules.constant_type(value))}
    if "predicate" in arguments:
        truth = runtime.truth(place, arguments["predicate"])
        arguments["predicate"] = truth if isinstance(truth, Value) else runtime.constant(truth, rules.BOOL)
    op = OpClass.SHUFFLE if name.startswith("shfl") else OpClass.VOTE
    plain = {k: v.value if isinstance(v, Value) else v for k, v in arguments.items()}
    members = int(plain.get("members", FULL)) & FULL if name == "syncwarp" else None
    made = runtime.step(place, op, runtime.joint_producers(tuple(arguments.values())), value=members)
    result = yield Meeting(made[0], name, runtime.sites[place], plain)
    if name in {"ballot", "match_any", "match_all"}:
        bits = Value(runtime, result.astype(runtime.rules.lane_mask), made)
        return bits if name != "match_all" else (bits, Value(runtime, np.bool_(result != 0), made))
    return None if result is None else Value(runtime, result, made)


def _atomic(runtime: ScalarRuntime, place: int, array: Any, name: str, **arguments: Any) -> Value:
    flat, numbers, producers = thread_atomics.access(runtime, place, name, array, **arguments)
    array = base_of(array)
    op = OpClass.GLOBAL_ATOMIC if isinstance(array, DeviceArray) else OpClass.SHARED_ATOMIC
    made = runtime.step(place, op, producers, array=array, flat=int(flat), value=name)
    old, changed = atomics.perform_one(name, runtime.data_of(array), int(flat), numbers[0], numbers[-1])
    runtime.changes += changed
    return Value(runtime, old, made)

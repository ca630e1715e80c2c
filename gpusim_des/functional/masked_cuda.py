"""Operations of ``numba.cuda`` in masked execution: barriers that count, and arrays that the kernel declares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gpusim_des.functional import barriers, masked_operations
from gpusim_des.functional.cuda_translation import Request
from gpusim_des.functional.memory import SharedArray
from gpusim_des.functional.private_arrays import LocalArray, Shaped, check_local
from gpusim_des.functional.tracked import Value

if TYPE_CHECKING:
    from gpusim_des.functional.masked_runtime import MaskedRuntime


def operate(runtime: MaskedRuntime, place: int, found: Any) -> Any:
    """Do what `found` requests; anything else is a result already."""
    if not isinstance(found, Request):
        return found
    name = found.operation.name
    if name == "shared.array":
        return shared_array(runtime, place, **found.arguments)
    if name == "local.array":
        return _local_array(runtime, place, **found.arguments)
    if name.startswith("syncthreads"):
        return _barrier(runtime, place, name, **found.arguments)
    return masked_operations.operate(runtime, place, found.operation, found.arguments)


def shared_array(runtime: MaskedRuntime, place: int, declared: Shaped) -> SharedArray:
    """Array in the shared memory of every block in flight."""
    return runtime.shared_names.declare_at(runtime.machine, declared, runtime.sites[place])


def _local_array(runtime: MaskedRuntime, place: int, declared: Shaped) -> LocalArray:
    slot = (*runtime.frame_key(), place)
    array = runtime.local_arrays.get(slot)
    if array is None:
        check_local(runtime.kernel_name, runtime.sites[place], declared.shape, declared.dtype)
        array = runtime.context.local_array(slot, declared, runtime.machine.shape)
        runtime.local_arrays[slot] = array
    return array


def _barrier(runtime: MaskedRuntime, place: int, name: str, predicate: Any = True) -> Any:
    """Barrier; what it returns is known when the last thread has come."""
    truth = runtime.truth(place, predicate)
    held = np.asarray(truth.value if isinstance(truth, Value) else truth)
    machine, mask = runtime.machine, runtime.mask
    event = -1
    if not runtime.learning:
        event = barriers.meet(machine, mask, runtime.joint_producers((truth,)), runtime.sites[place])
    if name == "syncthreads":
        return None
    everyone = machine.everyone(mask)
    count = (everyone & held).sum(axis=1, keepdims=True, dtype=np.int32)
    answer = {
        "syncthreads_count": count,
        "syncthreads_and": (count == everyone.sum(axis=1, keepdims=True)).astype(np.int32),
        "syncthreads_or": (count > 0).astype(np.int32),
    }[name]
    return Value(runtime, answer, (event,))

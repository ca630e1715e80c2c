"""Kernels written for ``numba.cuda``, run on the simulated GPU: change one import line.

``from numba import cuda, float32`` becomes ``from gpusim_des import cuda, float32``. Kernels, device arrays, streams
and events have the names and types that they have there. What is beyond them: `device` is the simulated `Device` in
use, `select` changes it, and ``kernel.launches[-1]`` is what the last launch counted.
"""

import re
from typing import NoReturn

from gpusim_des.cuda import random
from gpusim_des.cuda.arrays import (
    DeviceNDArray,
    device_array,
    device_array_like,
    is_cuda_array,
    pinned_array,
    pinned_array_like,
    to_device,
)
from gpusim_des.cuda.current import device, get_current_device, is_available, select, select_device
from gpusim_des.cuda.dispatcher import Kernel, jit
from gpusim_des.cuda.passing import In, InOut, Out
from gpusim_des.cuda.streams import Event, Stream, default_stream, event, event_elapsed_time, stream, synchronize
from gpusim_des.functional.cuda_operations import (
    activemask,
    all_sync,
    any_sync,
    atomic,
    ballot_sync,
    blockDim,
    blockIdx,
    brev,
    cbrt,
    clz,
    const,
    eq_sync,
    ffs,
    fma,
    grid,
    gridDim,
    gridsize,
    laneid,
    lanemask_lt,
    local,
    match_all_sync,
    match_any_sync,
    popc,
    selp,
    shared,
    shfl_down_sync,
    shfl_sync,
    shfl_up_sync,
    shfl_xor_sync,
    syncthreads,
    syncthreads_and,
    syncthreads_count,
    syncthreads_or,
    syncwarp,
    threadfence,
    threadfence_block,
    threadfence_system,
    threadIdx,
    warpsize,
)

__all__ = [
    "DeviceNDArray",
    "Event",
    "In",
    "InOut",
    "Kernel",
    "Out",
    "Stream",
    "activemask",
    "all_sync",
    "any_sync",
    "atomic",
    "ballot_sync",
    "blockDim",
    "blockIdx",
    "brev",
    "cbrt",
    "clz",
    "const",
    "default_stream",
    "device",
    "device_array",
    "device_array_like",
    "eq_sync",
    "event",
    "event_elapsed_time",
    "ffs",
    "fma",
    "get_current_device",
    "grid",
    "gridDim",
    "gridsize",
    "is_available",
    "is_cuda_array",
    "jit",
    "laneid",
    "lanemask_lt",
    "local",
    "match_all_sync",
    "match_any_sync",
    "pinned_array",
    "pinned_array_like",
    "popc",
    "random",
    "select",
    "select_device",
    "selp",
    "shared",
    "shfl_down_sync",
    "shfl_sync",
    "shfl_up_sync",
    "shfl_xor_sync",
    "stream",
    "synchronize",
    "syncthreads",
    "syncthreads_and",
    "syncthreads_count",
    "syncthreads_or",
    "syncwarp",
    "threadIdx",
    "threadfence",
    "threadfence_block",
    "threadfence_system",
    "to_device",
    "warpsize",
]

_INSTEAD = {
    "cg": "a barrier of the whole grid is not simulated: end the kernel there and launch a second one",
    "mapped_array": "memory that both sides reach is not simulated: use cuda.device_array and copies",
    "mapped": "memory that both sides reach is not simulated: use cuda.to_device",
    "managed_array": "memory that both sides reach is not simulated: use cuda.device_array and copies",
    "pinned": "an array cannot be pinned afterwards: make it with cuda.pinned_array",
    "reduce": "write the reduction as a kernel",
    "Reduce": "write the reduction as a kernel",
    "fp16": "use arithmetic on np.float16 numbers",
    "libdevice": "use the functions of math and cuda.fma, cuda.cbrt, cuda.popc",
    "nanosleep": "leave it out: threads of the simulator do not spin",
    "vote_sync_intrinsic": "use cuda.all_sync, any_sync, eq_sync and ballot_sync",
    "shfl_sync_intrinsic": "use cuda.shfl_sync, shfl_up_sync, shfl_down_sync and shfl_xor_sync",
    "declare_device": "code in CUDA C cannot run here: write it as a function with @cuda.jit(device=True)",
    "compile_ptx": "nothing is compiled here",
    "compile": "nothing is compiled here",
    "profile_start": "launches are counted anyway: kernel.launches[-1].counters",
    "profile_stop": "launches are counted anyway: kernel.launches[-1].counters",
    "current_context": "cuda.device() knows what is allocated: used_bytes, free_bytes, leaks()",
    "as_cuda_array": "copy the array with cuda.to_device",
    "vectorize": "write the loop over elements as a kernel",
    "list_devices": "there is one device: cuda.get_current_device() tells about it, cuda.select() changes it",
    "gpus": "there is one device: cuda.get_current_device() tells about it, cuda.select() changes it",
    "detect": "cuda.get_current_device() tells about the GPU in use, gpusim_des.list_gpus() which there are",
    "close": "leave it out, or begin anew with cuda.select()",
    "ldg": "index the array: what a kernel only reads needs no other load here",
    "defer_cleanup": "leave it out: memory is freed at once",
    "external_stream": "use cuda.stream(): nobody else has streams here",
    "legacy_default_stream": "use cuda.default_stream()",
    "per_thread_default_stream": "give cuda.select() a gpusim_des.Device(gpu, default_stream='per-thread')",
}

_VECTOR = re.compile(r"(u?(char|short|int|long|longlong)|float|double)[1-4]|(u?int|float)\d+x[1-4]")
_NUMBER = re.compile(r"boolean|void|u?int(8|16|32|64|p)|float(32|64)|complex(64|128)")


def __getattr__(name: str) -> NoReturn:
    known = _INSTEAD.get(name)
    if _VECTOR.fullmatch(name):
        known = "vectors of numbers are not simulated: use one array for each part, or one with a dimension more"
    elif _NUMBER.fullmatch(name):
        known = f"types are beside it: from gpusim_des import cuda, {name}"
    about = f"; {known}" if known else f"; it has {', '.join(n for n in __all__ if not n.startswith('_'))}"
    raise AttributeError(f"gpusim_des.cuda has no {name!r}{about}")


def __dir__() -> list[str]:
    return list(__all__)

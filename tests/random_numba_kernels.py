"""Random kernels of thread style, translated to Numba's: names become global ones, barriers are called."""

from __future__ import annotations

import re
from typing import Any

from tests.random_kernels import random_kernel

LINEAR = "(cuda.threadIdx.x + cuda.blockDim.x * (cuda.threadIdx.y + cuda.blockDim.y * cuda.threadIdx.z))"

RULES = (
    (r"(?m)^( *).*(?:memcpy_async|shared_barrier|pipeline_|barrier_wait).*$", r"\1pass"),
    (r"import gpusim_des as gs", "from gpusim_des import cuda"),
    (r"@gs\.kernel", "@cuda.jit"),
    (r"def kern\(t, ", "def kern("),
    (r"(def helper\d+)\(t, ", r"@cuda.jit(device=True)\n\1("),
    (r"(helper\d+)\(t, ", r"\1("),
    (r"yield from ", ""),
    (r"yield t\.syncthreads", "cuda.syncthreads"),
    (r"\bt\.(shfl|shfl_up|shfl_down|shfl_xor|ballot|any|all)\(", r"cuda.\1_sync(0xFFFFFFFF, "),
    (r"\bt\.shared\(\"\w+\", ", "cuda.shared.array("),
    (r"(\w+)\.atomic_(\w+)\(", r"cuda.atomic.\2(\1, "),
    (r"\bt\.linear\b", LINEAR),
    (r"\bt\.lane\b", "cuda.laneid"),
    (r"\bt\.", "cuda."),
    # In Numba a rounded number is no whole one, and a variable that is int64 and uint64 becomes a float64.
    (r"math\.floor\(", "int("),
    (r"np\.uint32\(", "np.int32("),
)


def random_numba_kernel(seed: int) -> tuple[str, Any, Any]:
    """Source of a module with a kernel ``kern``, grid and block."""
    source, grid, block = random_kernel(seed)
    for pattern, by in RULES:
        source = re.sub(pattern, by, source)
    return source, grid, block

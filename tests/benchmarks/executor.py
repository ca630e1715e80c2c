"""Speed of the functional executor in CPU time, and ratios within one run; nothing here passes or fails.

python tests/benchmarks/executor.py [--large]
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # a script sees its own folder only

import gpusim_des as gs
from gpusim_des.functional import executor
from tests.benchmarks.kernels import (
    TILE,
    Start,
    add_vectors,
    matmul_naive,
    matmul_tiled,
    multiply,
    vector_add,
    vector_add_blocks,
)


def best(action: Start, runs: int = 3) -> tuple[float, gs.Launch]:
    """Shortest CPU time of some runs, in seconds, and the last launch."""
    shortest, launch = float("inf"), None
    for _ in range(runs):
        start = time.process_time()
        launch = action()
        shortest = min(shortest, time.process_time() - start)
    assert launch is not None
    return shortest, launch


def report(name: str, seconds: float, launch: gs.Launch) -> None:
    c = launch.counters
    accesses = c.thread_loads + c.thread_stores + c.thread_atomics + c.shared_accesses
    print(
        f"{name:<44}{seconds:>9.3f} s{c.threads / seconds / 1e6:>10.3f} M threads/s"
        f"{accesses / seconds / 1e6:>10.2f} M accesses/s"
    )


def add(kernel: Any, n: int, block: int, **options: Any) -> Start:
    return add_vectors(gs.Device("h100-sxm"), n, kernel, block, **options)


def matmul(kernel: Any, n: int) -> Start:
    return multiply(gs.Device("h100-sxm"), n, kernel, TILE)


def main(*, large: bool) -> None:
    if large:
        action = add(vector_add_blocks, 1 << 26, 256)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        seconds, launch = best(action, runs=1)
        report("block style, vector add 2^26", seconds, launch)
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**20
        print(f"{'':<44}{grown:.2f} GiB beyond its arrays, {launch.trace.spilled_bytes / 2**20:.0f} MiB spilled")
        for kernel in (matmul_naive, matmul_tiled):
            seconds, launch = best(matmul(kernel, 512), runs=1)
            report(f"{kernel.name} n = 512", seconds, launch)
    fast, launch = best(add(vector_add, 1 << 20, 256))
    report("thread style, vector add 2^20, vectorized", fast, launch)
    slow, launch = best(add(vector_add, 1 << 13, 256, vectorize=False), runs=1)
    report("thread style, vector add 2^13, interpreted", slow, launch)
    print(f"{'':<44}vectorized is {(1 << 20) / fast / ((1 << 13) / slow):,.0f} times as fast")
    seconds, launch = best(matmul(matmul_tiled, 128))
    report("thread style, tiled matmul n = 128", seconds, launch)
    at_once, launch = best(add(vector_add_blocks, 1 << 18, 64))
    report("block style, 64-thread blocks, many at once", at_once, launch)
    executor.CHUNK_THREADS = 64
    alone, launch = best(add(vector_add_blocks, 1 << 18, 64), runs=1)
    report("block style, 64-thread blocks, one by one", alone, launch)
    executor.CHUNK_THREADS = 1 << 16
    print(f"{'':<44}many at once is {alone / at_once:.1f} times as fast")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true", help="n = 512 matmuls and a vector add of 2^26 elements")
    main(large=parser.parse_args().large)

"""How well a sweep keeps two cores busy: its time with one process over that with two, in one run.

Asked is 1.7 for 200 small configurations. Nothing here passes or fails: where other work runs on the machine, the ratio
of wall times says little. Beside it stands what two free cores would give: the CPU time of one process, over that of
two, times the cores that these two wanted at a time (on a core or waiting for one, as Linux counts it).

python tests/benchmarks/sweeps.py [--quick]
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # a script sees its own folder only

import gpusim_des as gs
from tests.benchmarks.kernels import vector_add

AXES: dict[str, Any] = {
    "block": [64, 128, 192, 256],
    "registers": [16, 24, 32, 48, 64],
    "shared": [0, 1024, 2048, 4096, 8192],
    "caches": ["on", "off"],
}
"""200 configurations."""

QUICK: dict[str, Any] = {"block": [64], "registers": [16, 32], "shared": [0], "caches": ["on", "off"]}


class Times(NamedTuple):
    """What a sweep took, seconds."""

    wall: float
    cpu: float
    """Of this process and its workers."""
    wanted: float
    """Time of workers on a core or waiting for one."""


def children() -> dict[int, tuple[float, float]]:
    """Seconds on a core, and waiting for one, of each process that this one started; none where there is no /proc."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it may end meanwhile
            if int((folder / "stat").read_text().rpartition(")")[2].split()[1]) == os.getpid():
                on, waiting, _ = (folder / "schedstat").read_text().split()
                found[int(folder.name)] = int(on) / 1e9, int(waiting) / 1e9
    return found


def measure(workers: int, axes: dict[str, Any], n: int) -> Times:
    """Time a sweep whose rows go to a folder."""
    args = {"n": n, "a": "f32[n]:random", "b": "f32[n]:random", "c": "f32[n]"}
    with TemporaryDirectory() as folder:
        began, before, cpu = time.perf_counter(), children(), time.process_time()
        table = gs.sweep(
            vector_add, gpu="tiny", grid="cdiv(n, block)", args=args, folder=folder, workers=workers, **axes
        )
        wall, after, cpu = time.perf_counter() - began, children(), time.process_time() - cpu
    assert not table.failed, table.failed[0]["error"]
    assert table.computed == len(table)
    spent = [(on - before.get(pid, (0, 0))[0], wait - before.get(pid, (0, 0))[1]) for pid, (on, wait) in after.items()]
    return Times(wall, cpu + sum(on for on, _ in spent), sum(map(sum, spent)))


def main(*, quick: bool) -> dict[str, float]:
    """Measure one process and two in turn; returns the ratio of the best times, and that of two free cores."""
    axes, n = (QUICK, 1 << 8) if quick else (AXES, 1 << 12)
    first = measure(2, axes, n)  # starts the processes
    one, two = (min(measure(workers, axes, n) for _ in range(1 if quick else 2)) for workers in (1, 2))
    results = {"ratio": one.wall / two.wall, "free": one.cpu / two.cpu * two.wanted / two.wall}
    configurations = math.prod(map(len, axes.values()))
    print(f"{configurations} configurations, vector add of {n:,} elements on tiny; {os.cpu_count()} cores, ", end="")
    print(f"load of the last minute {os.getloadavg()[0]:.1f}")
    for what, times in (("two processes that start", first), ("one process", one), ("two processes", two)):
        print(f"{what:<26}{times.wall:7.2f} s, CPU {times.cpu:7.2f} s")
    print(f"ratio                     {results['ratio']:7.2f}")
    print(f"with two free cores       {results['free']:7.2f}")
    return results


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few small configurations, once")
    main(quick=parser.parse_args().quick)

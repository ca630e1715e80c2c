"""What looking for mistakes costs: CPU time with checks over time without, in one run; nothing here passes or fails.

The base, ``none``, is the executor with everything replaced by nothing that looks for mistakes and no launch can turn
off: reads of what nobody wrote, overflows of indices, barriers. Bounds are checked, as part of every access.

python tests/benchmarks/checks.py [--quick]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # a script sees its own folder only

import gpusim_des as gs
from gpusim_des.functional import barriers, machine, overflow
from gpusim_des.functional.reports import Reports
from tests.benchmarks.kernels import (
    TILE,
    Start,
    add_vectors,
    matmul_naive,
    matmul_tiled,
    multiply,
    reduce,
    vector_add,
    vector_add_blocks,
)

MODES = ("none", "off", "shared", "global")


class NoWatch:
    """Stands for the watch of a machine, and sees nothing."""

    def __init__(self, *_: Any) -> None:
        self.races, self.left, self.overflows = (Reports[Any]() for _ in range(3))
        self.unwritten = SimpleNamespace(found=Reports[Any]())

    def __getattr__(self, name: str) -> Callable[..., None]:
        return nothing


def nothing(*_: Any, **__: Any) -> None:
    """Look at nothing."""


def blocks_there(_: Any, on: Any, __: Any) -> int:
    """Count the blocks at a barrier, and check nothing."""
    return int(np.count_nonzero(on.any(axis=1)))


@contextmanager
def no_checks() -> Iterator[None]:
    """Leave out what no launch can turn off."""
    with ExitStack() as stack:
        for where, name, new in (
            (machine, "Watch", NoWatch),
            (overflow, "follow", nothing),
            (overflow, "follow_product", nothing),
            (barriers, "check", blocks_there),
        ):
            stack.enter_context(mock.patch.object(where, name, new))
        yield


class Subject(NamedTuple):
    """A kernel to measure, with a size and a small one."""

    name: str
    prepare: Callable[..., Start]
    size: int
    quick: int


def add(kernel: Any) -> Callable[..., Start]:
    return lambda n, **how: add_vectors(gs.Device("h100-sxm"), n, kernel, 256, **how)


def product(kernel: Any) -> Callable[..., Start]:
    return lambda n, **how: multiply(gs.Device("h100-sxm"), n, kernel, TILE, **how)


SUBJECTS = (
    Subject("vector add, thread style", add(vector_add), 1 << 21, 1 << 12),
    Subject("vector add, block style", add(vector_add_blocks), 1 << 21, 1 << 12),
    Subject("tiled matmul", product(matmul_tiled), 256, 32),
    Subject("naive matmul", product(matmul_naive), 128, 32),
    Subject("reduction in shared memory", lambda n, **how: reduce(gs.Device("h100-sxm"), n, **how), 1 << 20, 1 << 12),
)


def measure(subject: Subject, *, quick: bool) -> dict[str, float]:
    """CPU time of a launch in every mode, in seconds: the best of some, the modes in turn."""
    best = dict.fromkeys(MODES, float("inf"))
    for _ in range(1 if quick else 5):
        for mode in MODES:
            races = "off" if mode == "none" else mode
            start_it = subject.prepare(subject.quick if quick else subject.size, races=races)
            with no_checks() if mode == "none" else ExitStack():
                began = time.process_time()
                launch = start_it()
                best[mode] = min(best[mode], time.process_time() - began)
            assert not launch.mistakes, launch.mistakes[0]
    return best


def main(*, quick: bool) -> dict[str, dict[str, float]]:
    """Measure all; returns the times by kernel and mode."""
    results = {}
    print(f"{'':<28}{'none':>9}{'off':>16}{'shared':>16}{'global':>16}")
    for subject in SUBJECTS:
        best = results[subject.name] = measure(subject, quick=quick)
        parts = [f"{best[mode]:>7.3f} s ({best[mode] / best['none']:.2f})" for mode in MODES[1:]]
        print(f"{subject.name:<28}{best['none']:>7.3f} s{''.join(f'{part:>16}' for part in parts)}")
    return results


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, once")
    main(quick=parser.parse_args().quick)

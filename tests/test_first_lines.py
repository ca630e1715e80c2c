"""Kernels as newcomers write them, wrong or slow: the first line says what it is, where, and what to do."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import gpusim_des as gs
from tests import advised_kernels as k
from tests.advised_kernels import number_of

pytestmark = [
    pytest.mark.filterwarnings(f"ignore::gpusim_des.{kind}Warning")
    for kind in ("Race", "Barrier", "IndexOverflow", "UnwrittenRead")
]

N = 1 << 14


@gs.kernel
def reverse(t: Any, a: Any) -> Any:
    s = t.shared("s", 256, np.float32)
    i = t.threadIdx.x
    s[i] = a[i]
    a[i] = s[255 - i]


@gs.kernel
def last_warp(t: Any, a: Any) -> Any:
    s = t.shared("s", 64, np.float32)
    i = t.threadIdx.x
    s[i] = a[i]
    yield t.syncthreads()
    if i < 32:
        s[i] += s[i + 32]
        s[i + 1] = 0.0


@gs.kernel
def half_of_the_block(t: Any, a: Any) -> Any:
    if t.threadIdx.x < 128:
        yield t.syncthreads()
    a[t.threadIdx.x] = 1


@gs.kernel
def tail_returns(t: Any, a: Any, n: int) -> Any:
    if t.threadIdx.x >= n:
        return
    a[t.threadIdx.x] = 1
    yield t.syncthreads()


@gs.kernel
def no_yield(t: Any, a: Any) -> None:
    a[t.threadIdx.x] = 1
    t.syncthreads()


@gs.kernel
def stencil(t: Any, a: Any, out: Any) -> None:
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    out[i] = a[i - 1] + a[i]


@gs.kernel
def fill(t: Any, a: Any) -> None:
    a[t.blockIdx.x * t.blockDim.x + t.threadIdx.x] = 1


@gs.kernel
def count(t: Any, keys: Any, bins: Any) -> None:
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    bins[keys[i]] += 1


@gs.kernel
def half_a_tile(t: Any, a: Any) -> Any:
    s = t.shared("s", 64, np.float32)
    i = t.threadIdx.x
    if i < 32:
        s[i] = 1
    yield t.syncthreads()
    a[i] = s[i]


@gs.kernel
def rows_of_a_large_matrix(t: Any, rows: Any, a: Any) -> None:
    where = rows[t.threadIdx.x] * 8960 + 8959
    a[where % 64] = 1


@gs.kernel
def two_phases(t: Any, a: Any, out: Any) -> Any:
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    a[i] = i
    yield t.syncthreads()
    out[i] = a[(i + 64) % 1024]


@dataclass(frozen=True)
class Case:
    """A launch, and the line that explains it; ``{1}`` is the line of the first place in the kernel."""

    kernel: Any
    grid: Any
    block: Any
    arguments: tuple[Any, ...]
    said: str
    places: tuple[str, ...] = ()
    races: Any = "shared"


def floats(n: int = N, name: str = "a") -> Callable[[gs.Device], Any]:
    return lambda dev: dev.to_device(np.zeros(n, np.float32), name)


def integers(values: Any, name: str) -> Callable[[gs.Device], Any]:
    return lambda dev: dev.to_device(np.asarray(values, np.int32), name)


WRONG = [
    Case(
        reverse,
        1,
        256,
        (floats(),),
        "race on shared array s[255] in block (0, 0, 0): thread (255, 0, 0) writes it in line {1}, thread (0,"
        " 0, 0) reads it in line {2}, …; put yield t.syncthreads() between line {1} and line {2}",
        ("s[i] = a[i]", "a[i] = s[255 - i]"),
    ),
    Case(
        last_warp,
        1,
        64,
        (floats(),),
        "race on shared array s[…] in block (0, 0, 0): … in line {1}, … in line {2}, …; lanes of a warp are "
        "in step only before Volta: put t.syncwarp() between line {1} and line {2}",
        ("s[i] += s[i + 32]", "s[i + 1] = 0.0"),
    ),
    Case(
        half_of_the_block,
        1,
        256,
        (floats(),),
        "half_of_the_block: block (0, 0, 0) waits forever at the barrier in line {1} of test_first_lines.py: "
        "128 of 256 threads never reach it (threads 0-127 wait in line {1}; threads 128-255 have ended); a "
        "barrier must be reached by all threads of the block at the same place, so move it out of the branch",
        ("yield t.syncthreads()",),
    ),
    Case(
        tail_returns,
        1,
        256,
        (floats(), 100),
        "threads 100-255 of block (0, 0, 0) have left before the barrier in line {1} that the others reach; "
        "…: do not return before a barrier, put the work under an if instead",
        ("yield t.syncthreads()",),
    ),
    Case(no_yield, 1, 64, (floats(),), "…has no effect: write `yield t.syncthreads()`…", ("t.syncthreads()",)),
    Case(
        stencil,
        N // 256,
        256,
        (floats(), floats(name="out")),
        "stencil: load of 'a' in line {1} of test_first_lines.py: index -1 is outside 0…16,383 (block (0, 0, "
        "0), thread (0, 0, 0); …); keep such threads out with an if, for example if i >= 0: (a negative index"
        " does not count from the end on a GPU)",
        ("a[i - 1]",),
    ),
    Case(
        fill,
        2,
        256,
        (floats(300),),
        "fill: store to 'a' in line {1} of test_first_lines.py: index 300 is outside 0…299 (block (1, 0, 0), "
        "thread (44, 0, 0); 212 threads of these blocks outside); keep such threads out with an if, for "
        "example if i < 300:",
        ("] = 1",),
    ),
    Case(
        count,
        4,
        64,
        (integers(np.full(256, 3), "keys"), integers(np.zeros(8), "bins")),
        "race on global array bins[3]: … in line {1} …, use atomic operations for all accesses, …",
        ("bins[keys[i]] += 1",),
        "global",
    ),
    Case(
        half_a_tile,
        1,
        64,
        (floats(),),
        "read of shared array s[32], which nobody has written: thread (32, 0, 0) of block (0, 0, 0) in line "
        "{1} (32 times); shared memory is not cleared: let a thread store to the element first, then put a "
        "barrier",
        ("a[i] = s[i]",),
    ),
    Case(
        rows_of_a_large_matrix,
        1,
        32,
        (integers([239_673] * 31 + [239_674], "rows"), floats()),
        "… line {1} … 2,147,487,999 … more than 2,147,483,647, so an int32 wraps; compute the index in 64 bits…",
        ("where = ",),
    ),
    Case(
        two_phases,
        16,
        64,
        (floats(), floats(name="out")),
        "race on global array a[…]: … in line {1} in block …; a block barrier does not order blocks, which "
        "run in any order: …, or launch a second kernel for what comes after",
        ("a[i] = i",),
        "global",
    ),
]

SLOW = [
    Case(
        k.by_column,
        (4, 16),
        (32, 8),
        (floats(), floats(name="out"), 128),
        "Load of a at line {1}: 32 sectors per request (ideal 4); neighbouring lanes are 512 bytes apart; "
        "swap the roles of x and y, or stage through shared memory (about … % of the time)",
        ("out[y * n + x] = a[x * n + y]",),
    ),
    Case(
        k.through_tile,
        (4, 4),
        (32, 8),
        (floats(), floats(name="out"), 128, 32),
        "Store to tile at line {1}: 32 passes (ideal 1), lane stride 32 words; pad the row to 33 (about … % "
        "of the time)",
        ("tile[x, y + k] = ",),
    ),
    Case(
        k.odd_and_even,
        N // 256,
        256,
        (floats(),),
        "Branch at line {1}: the lanes of 512 of 512 warps part here; 16 lanes are active in the code behind "
        "it, mean (ideal 32); let whole warps take the same way: … (about … % of the time)",
        ("if i % 2",),
    ),
    Case(
        k.doubled_by_accident,
        N // 256,
        256,
        (floats(), floats(name="out")),
        "float64 by accident at line {1}: 512 fp64 instructions in a kernel whose arrays are float32; …; make"
        " it np.float32(…), or a plain Python number (about … % of the time)",
        ("np.float64",),
    ),
    Case(
        k.histogram,
        N // 256,
        256,
        (integers(np.full(N, 7), "keys"), integers(np.zeros(256), "bins")),
        "Atomic on bins at line {1}: 100 % of atomics go to 1 address, 32 serial passes per warp (ideal 1); "
        "use per-block copies or aggregate per warp (about … % of the time)",
        ("bins.atomic_add",),
    ),
    Case(
        k.scaled,
        N // 64,
        40,
        (floats(), floats(name="out"), 2.0),
        "Block of 40 threads: the last of its 2 warps has 24 idle lanes, 38 % of all; make the block size a "
        "multiple of 32, for example 64 (about … % of the time)",
    ),
    Case(
        k.scaled,
        17,
        256,
        (floats(), floats(name="out"), 2.0),
        "Grid of 17 blocks: 1 wave of 16 (8 per SM, limiter: warps+registers), and a last wave of only 1 "
        "block; launch a multiple of 16 blocks, or let that many blocks stride over the data (about 47 % of "
        "the time)",
    ),
]


def first_line(case: Case) -> str:
    """What a user reads first: of the error, or of ``print(launch)``."""
    dev = gs.Device(gs.load_gpu("h100-sxm").slice(sms=2))
    arguments = [argument(dev) if callable(argument) else argument for argument in case.arguments]
    try:
        launch = dev.launch(case.kernel, case.grid, case.block, *arguments, races=case.races)
    except gs.KernelError as error:
        return str(error).splitlines()[0]
    return str(launch).splitlines()[0]


@pytest.mark.parametrize("case", [*WRONG, *SLOW], ids=lambda case: case.kernel.name)
def test_the_first_line_explains_it(case: Case) -> None:
    lines = ["", *(str(number_of(case.kernel, place)) for place in case.places)]
    pattern = re.sub(r"\\{(\d)\\}", lambda found: lines[int(found[1])], re.escape(case.said)).replace("…", ".*")
    said = first_line(case)
    assert re.fullmatch(pattern, said), said


@pytest.mark.parametrize("case", SLOW, ids=lambda case: case.kernel.name)
def test_a_slow_kernel_is_not_called_wrong(case: Case) -> None:
    """The same line is the first of the advice."""
    dev = gs.Device(gs.load_gpu("h100-sxm").slice(sms=2))
    arguments = [argument(dev) if callable(argument) else argument for argument in case.arguments]
    launch = dev.launch(case.kernel, case.grid, case.block, *arguments)
    assert not launch.mistakes
    assert str(launch).splitlines()[0] == str(launch.advice()[0])


def test_a_kernel_without_faults_begins_with_its_name() -> None:
    dev = gs.Device(gs.load_gpu("h100-sxm").slice(sms=2))
    launch = dev.launch(k.scaled, 16, 256, floats()(dev), floats(name="out")(dev), 2.0)
    assert str(launch).splitlines()[0] == "kernel 'scaled', grid (16, 1, 1), block (256, 1, 1)"

"""The reference's single-purpose cases for thread style, and the values that are right where the reference is blind."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpusim_des as gs
from tests.test_golden_thread import COLUMNS

MICRO: dict[str, dict[str, Any]] = {
    case["id"]: case
    for case in json.loads((Path(__file__).parent / "data" / "golden_thread.json").read_text())["micro"]
}
RECORD = np.dtype([("x", "f4"), ("y", "f4"), ("z", "f4")])

CASES: dict[str, tuple[gs.ThreadKernel, int, int, list[np.ndarray[Any, Any]]]] = {}
"""Case: kernel, grid, block and arrays."""


def case(name: str, grid: int, block: int, *arrays: np.ndarray[Any, Any]) -> Callable[[Any], Any]:
    """Note a kernel as that of a case."""

    def note(kernel: Any) -> Any:
        CASES[name] = (kernel, grid, block, list(arrays))
        return kernel

    return note


def floats(n: int) -> np.ndarray[Any, Any]:
    return np.arange(n, dtype=np.float32)


@case("three_loads_one_line", 1, 32, floats(64), floats(32))
@gs.kernel
def three_loads(t: Any, A: Any, C: Any) -> Any:
    i = t.threadIdx.x
    C[i] = A[i] + A[i + 1] + A[i]


@case("divergent_one_line", 1, 32, floats(128), floats(32))
@gs.kernel
def one_line(t: Any, A: Any, C: Any) -> Any:
    i = t.threadIdx.x
    C[i] = A[i] if i % 2 else A[i + 64]


@case("divergent_two_lines", 1, 32, floats(128), floats(32))
@gs.kernel
def two_lines(t: Any, A: Any, C: Any) -> Any:
    i = t.threadIdx.x
    if i % 2:  # noqa: SIM108
        x = A[i]
    else:
        x = A[i + 64]
    C[i] = x


@case("pairing_late_start", 1, 32, floats(256), floats(32))
@gs.kernel
def late_start(t: Any, A: Any, C: Any) -> Any:
    i = t.threadIdx.x
    acc = 0
    for k in range(8):
        if k < i % 8:
            continue
        acc += A[32 * k + i]
    C[i] = acc


@case("atomic_one_address", 1, 32, np.zeros(1, np.int32))
@gs.kernel
def one_address(t: Any, H: Any) -> Any:
    H.atomic_add(0, 1)


@case("shared_atomic", 1, 32)
@gs.kernel
def shared_atomic(t: Any) -> Any:
    S = t.shared("S", 1, np.int32)
    S.atomic_add(0, 1)


@case("record12", 1, 32, np.zeros(32, RECORD))
@gs.kernel
def records(t: Any, P: Any) -> Any:
    v = P[t.threadIdx.x]  # noqa: F841


@case("record12_one", 1, 1, np.zeros(32, RECORD))
@gs.kernel
def one_record(t: Any, P: Any) -> Any:
    v = P[t.threadIdx.x + 2]  # noqa: F841


@gs.kernel
def around_a_barrier(t: Any, A: Any, C: Any) -> Any:
    i = t.threadIdx.x
    A[i] = 1
    yield t.syncthreads()
    C[i] = A[(i + 1) % 64]


case("race.global_barrier_g1", 1, 64, floats(64), floats(64))(around_a_barrier)
case("race.global_barrier_g2", 2, 64, floats(64), floats(64))(around_a_barrier)


@case("two_barriers_one_line", 1, 32, floats(1))
@gs.kernel
def two_barriers(t: Any, A: Any) -> Any:
    yield t.syncthreads(); yield t.syncthreads()  # fmt: skip # noqa: E702
    A[0] = 1


@case("while3", 1, 32)
@gs.kernel
def while_loop(t: Any) -> Any:
    k = 0
    while k < 3:
        k += 1


@case("for3", 1, 32)
@gs.kernel
def for_loop(t: Any) -> Any:
    for k in range(3):
        x = k  # noqa: F841


DIFFERENCES: dict[tuple[str, str], tuple[int, str]] = {
    ("divergent_one_line", "ld_requests"): (2, "two accesses on one line are two places, here of 16 lanes each"),
    # In iteration k the lanes with i % 8 <= k load, at least one from each group of 8: 4 sectors, 8 times.
    ("pairing_late_start", "ld_sectors"): (32, "lanes in different iterations never share a request"),
    ("shared_atomic", "sh_wavefronts"): (32, "lanes that hit one word take turns"),
    ("two_barriers_one_line", "warp_issues"): (3, "counts do not depend on how statements are put on lines"),
    ("two_barriers_one_line", "thread_instructions"): (96, "as above"),
}


def test_all_cases_have_a_kernel() -> None:
    assert set(CASES) == set(MICRO)
    assert {name for name, _ in DIFFERENCES} <= set(MICRO)


@pytest.mark.parametrize("vectorize", [True, False], ids=["vectorized", "interpreted"])
@pytest.mark.parametrize("name", MICRO)
def test_micro(name: str, vectorize: bool) -> None:
    kernel, grid, block, arrays = CASES[name]
    dev = gs.Device("h100-sxm")
    counters = dev.launch(
        kernel, grid, block, *(dev.to_device(a) for a in arrays), count="lines", vectorize=vectorize
    ).counters
    published = {column: value for column, value in MICRO[name].items() if column in COLUMNS}
    assert published
    expected = {column: DIFFERENCES.get((name, column), (value, ""))[0] for column, value in published.items()}
    assert {column: COLUMNS[column](counters) for column in expected} == expected


def test_one_address_takes_turns() -> None:
    """What the reference does not count: 32 additions to one address, one after the other."""
    dev = gs.Device("h100-sxm")
    data = dev.to_device(np.zeros(1, np.int32))
    assert dev.launch(one_address, 1, 32, data).counters.atomic_serialization == 32
    assert dev.to_host(data).tolist() == [32]

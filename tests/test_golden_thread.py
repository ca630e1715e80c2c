"""Hand-checkable counters for kernels in thread style, and where this executor differs from them on purpose.

The reference lists for every kernel its statements, one counted line each, and for every run its counters and
checksums; `test_golden_races` has its race counts. `DIFFERENCES` lists every column in which this executor is right
and the reference is not, or where both are possible, with the value that is right here and the reason.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpusim_des as gs
from tests.test_golden_block import TYPES, checksums, shape
from tests.thread_modules import module_of

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parent / "data" / "golden_thread.json").read_text())
RUNS: list[dict[str, Any]] = GOLDEN["runs"]

RULES: dict[str, Callable[[int], int]] = {
    "k": lambda k: k,
    "k%7": lambda k: k % 7,
    "k%5": lambda k: k % 5,
    "k%16": lambda k: k % 16,
    "k*k%8": lambda k: k * k % 8,
    "(k*37)%101": lambda k: k * 37 % 101,
    "0": lambda _: 0,
    "1": lambda _: 1,
    "7": lambda _: 7,
}


def requests(c: gs.Counters) -> int:
    return c.global_load_requests + c.global_store_requests + c.global_atomic_requests


COLUMNS: dict[str, Callable[[gs.Counters], float]] = {
    "threads": lambda c: c.threads,
    "blocks": lambda c: c.blocks,
    "warps": lambda c: (c.threads + c.idle_lanes) // 32,
    "idle_lanes": lambda c: c.idle_lanes,
    "ld_requests": lambda c: c.global_load_requests,
    "ld_sectors": lambda c: c.global_load_sectors,
    "st_requests": lambda c: c.global_store_requests,
    "st_sectors": lambda c: c.global_store_sectors,
    "atom_requests": lambda c: c.global_atomic_requests,
    "atom_sectors": lambda c: c.global_atomic_sectors,
    "thread_loads": lambda c: c.thread_loads,
    "thread_stores": lambda c: c.thread_stores,
    "thread_atomics": lambda c: c.thread_atomics,
    "bytes_requested": lambda c: c.global_bytes_requested,
    "unique_sectors": lambda c: c.distinct_sectors,
    "sh_requests": lambda c: c.shared_requests,
    "sh_wavefronts": lambda c: c.shared_wavefronts,
    "thread_shared": lambda c: c.shared_accesses,
    "barriers": lambda c: c.barriers,
    "warp_issues": lambda c: c.warp_instructions,
    "thread_instructions": lambda c: c.active_lanes,
    "sector_bytes": lambda c: c.sector_bytes,
    "sectors_per_request": lambda c: c.sector_bytes / 32 / requests(c) if requests(c) else 0.0,
    "ld_sectors_per_request": lambda c: c.load_sectors_per_request,
    "bank_conflict_factor": lambda c: c.bank_conflict_factor if c.shared_requests else 0.0,
    "simt_efficiency": lambda c: c.simt_efficiency,
}

_ATOMIC = "lanes of a warp that hit one shared word take turns, and the reference lets them pass at once"
_LOCKSTEP = (
    "every lane takes every second iteration, half of the lanes the even ones and half the odd ones: lockstep makes "
    "one request per iteration, and the reference pairs the k-th loads of lanes that are in different iterations"
)

DIFFERENCES: dict[tuple[str, str], tuple[float, str]] = {
    # 4 warps in 8 blocks; stores of zeros and reads for the flush make 8 + 8 wavefronts, and of the 32 warps of atomics
    # 31 have 32 lanes and 1 has 8. X is k % 16: 2 lanes on a word, 1 in the last warp.
    ("hist_shared.spread", "sh_wavefronts"): (16 + 31 * 2 + 1, _ATOMIC),
    ("hist_shared.spread", "bank_conflict_factor"): (79 / 48, _ATOMIC),
    # X is 7 everywhere: all lanes on one word.
    ("hist_shared.onebin", "sh_wavefronts"): (16 + 31 * 32 + 8, _ATOMIC),
    ("hist_shared.onebin", "bank_conflict_factor"): (1016 / 48, _ATOMIC),
    # Squares modulo 8 are 0, 1, 4, 1, 0, 1, 4, 1: half of the lanes on word 1.
    ("hist_shared.squares", "sh_wavefronts"): (16 + 31 * 16 + 4, _ATOMIC),
    ("hist_shared.squares", "bank_conflict_factor"): (516 / 48, _ATOMIC),
    # 4 iterations, in each 16 lanes load every second element of 128 bytes: 4 requests of 4 sectors.
    ("pairing.m4", "ld_requests"): (4, _LOCKSTEP),
    # Lines: i, acc, C once, 5 for-headers, 4 ifs, 4 loads; executed by 8 × 32 + 4 × 32 + 4 × 16 lanes.
    ("pairing.m4", "warp_issues"): (3 + 5 + 4 + 4, _LOCKSTEP),
    ("pairing.m4", "simt_efficiency"): ((8 * 32 + 4 * 32 + 4 * 16) / (32 * 16), _LOCKSTEP),
    ("pairing.m4", "sectors_per_request"): (20 / 5, _LOCKSTEP),
    ("pairing.m4", "ld_sectors_per_request"): (16 / 4, _LOCKSTEP),
    # 5 iterations in 2 warps, the second of 16 lanes: 5 requests of 4 sectors and 5 of 2.
    ("pairing.m5b48", "ld_requests"): (10, _LOCKSTEP),
    ("pairing.m5b48", "warp_issues"): (2 * (3 + 6 + 5 + 5), _LOCKSTEP),
    ("pairing.m5b48", "simt_efficiency"): (48 * (3 + 6 + 5 + 2.5) / (32 * 38), _LOCKSTEP),
    ("pairing.m5b48", "sectors_per_request"): (36 / 12, _LOCKSTEP),
    ("pairing.m5b48", "ld_sectors_per_request"): (30 / 10, _LOCKSTEP),
}
"""(run, column): the right value and why the reference has another one."""

ARRAY_DIFFERENCES: dict[tuple[str, str, str], int] = {
    ("hist_shared.spread", "S", "sh_wavefronts"): 79,
    ("hist_shared.onebin", "S", "sh_wavefronts"): 1016,
    ("hist_shared.squares", "S", "sh_wavefronts"): 516,
    ("pairing.m4", "A", "ld_requests"): 4,
    ("pairing.m5b48", "A", "ld_requests"): 10,
}
"""(run, array, count): the values of `DIFFERENCES` by array."""

RACY = {"reduce_nosync", "reverse_nosync", "war_shared", "neighbour_global"}
"""Kernels with a race. The reference runs one thread after the other, and so does the interpreter; vectorized, threads
go in lockstep. Both results are possible, and the tests below say which one lockstep gives."""

NAMES = {
    **{f"t{axis}": f"t.threadIdx.{axis}" for axis in "xyz"},
    **{f"b{axis}": f"t.blockIdx.{axis}" for axis in "xyz"},
    **{f"bd{axis}": f"t.blockDim.{axis}" for axis in "xyz"},
    **{f"gd{axis}": f"t.gridDim.{axis}" for axis in "xyz"},
    "f4": "np.float32",
    "i4": "np.int32",
    "barrier": "yield t.syncthreads()",
    "shared": "t.shared",
}


def published_source(lines: list[str], parameters: list[str]) -> str:
    """Source of a kernel with these statements, its names written as fields of ``t``: no line more than published."""
    names = {word: field for word, field in NAMES.items() if word not in parameters}
    word = re.compile(rf"(?<![\w.\"])({'|'.join(sorted(names, key=len, reverse=True))})(?![\w\"])")
    body = [re.sub(word, lambda m: names[m.group(1)], line) for line in lines]
    head = ["import numpy as np", "import gpusim_des as gs", "@gs.kernel", f"def k({', '.join(['t', *parameters])}):"]
    return "\n".join([*head, *(f"    {line}" for line in body), ""])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("golden_thread")


def run_published(
    run: dict[str, Any], folder: Path, *, vectorize: bool, races: Any = "shared"
) -> tuple[gs.Launch, dict[str, np.ndarray[Any, Any]]]:
    dev = gs.Device("h100-sxm")
    host: dict[str, np.ndarray[Any, Any]] = {
        name: np.array([RULES[rule](k) for k in range(length)]).astype(TYPES[code])
        for name, (code, length, rule) in run["arrays"].items()
    }
    arrays = {name: dev.to_device(values) for name, values in host.items()}
    scalars = {name: TYPES[value] if name == "dt" else value for name, value in run["scalars"].items()}
    source = published_source(GOLDEN["kernels"][run["kernel"]], [*arrays, *scalars])
    kernel = module_of(source, folder).k
    launch = dev.launch(
        kernel,
        shape(run["grid"]),
        shape(run["block"]),
        *arrays.values(),
        *scalars.values(),
        count="lines",
        vectorize=vectorize,
        races=races,
    )
    return launch, {name: dev.to_host(array) for name, array in arrays.items()}


def by_array(c: gs.Counters) -> dict[str, dict[str, int]]:
    """Counts by array under the names of the reference."""
    found: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for site, counts in c.accesses.items():
        kind = "sh" if site.memory == "shared" else {"load": "ld", "store": "st", "atomic": "atom"}[site.operation]
        passes = counts.wavefronts if kind == "sh" else counts.sectors
        found[site.array][f"{kind}_requests"] += counts.requests
        found[site.array]["sh_wavefronts" if kind == "sh" else f"{kind}_sectors"] += passes
        found[site.array][f"thread_{kind}"] += counts.threads
    return {name: dict(counts) for name, counts in found.items()}


def assert_as_published(run: dict[str, Any], folder: Path, *, vectorize: bool) -> None:
    launch, results = run_published(run, folder, vectorize=vectorize)
    names = [*GOLDEN["counters"], *GOLDEN["derived"]]
    published = dict(zip(names, [*run["counters"], *run["derived"]], strict=True))
    expected = {n: DIFFERENCES.get((run["id"], n), (value, ""))[0] for n, value in published.items()}
    assert {name: COLUMNS[name](launch.counters) for name in names} == pytest.approx(expected, rel=1e-12)
    arrays = {
        array: {n: ARRAY_DIFFERENCES.get((run["id"], array, n), count) for n, count in counts.items()}
        for array, counts in run["by_array"].items()
    }
    assert by_array(launch.counters) == arrays
    if not (vectorize and run["kernel"] in RACY):
        for name, sums in run["result"].items():
            assert checksums(results[name]) == pytest.approx(sums, nan_ok=True), name


def test_the_reference_is_complete() -> None:
    assert len(RUNS) == 118
    assert {run["kernel"] for run in RUNS} == set(GOLDEN["kernels"])
    assert set(COLUMNS) == {*GOLDEN["counters"], *GOLDEN["derived"]}
    assert {name for name, _ in DIFFERENCES} <= {run["id"] for run in RUNS}


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run["id"])
def test_published_run(run: dict[str, Any], folder: Path) -> None:
    assert_as_published(run, folder, vectorize=True)


SMALL = [run for run in RUNS if run["counters"][GOLDEN["counters"].index("thread_instructions")] <= 3000]


@pytest.mark.parametrize("run", SMALL, ids=lambda run: run["id"])
def test_published_run_interpreted(run: dict[str, Any], folder: Path) -> None:
    assert_as_published(run, folder, vectorize=False)


def test_racy_kernels_in_lockstep(folder: Path) -> None:
    """Vectorized, all threads of a block do one statement before the next, as if barriers stood in between."""
    runs = {run["id"]: run for run in RUNS}
    _, reverse = run_published(runs["reverse_nosync.n128b64"], folder, vectorize=True)
    _, reverse_sync = run_published(runs["reverse_sync.n128b64"], folder, vectorize=True)
    assert reverse["C"].tolist() == reverse_sync["C"].tolist() == [*range(63, -1, -1), *range(127, 63, -1)]
    _, total = run_published(runs["reduce_nosync.n1024b256"], folder, vectorize=True)
    assert total["O"].tolist() == [sum(k % 7 for k in range(256 * b, 256 * b + 256)) for b in range(4)]
    _, rotated = run_published(runs["war_shared.b64"], folder, vectorize=True)
    assert rotated["C"].tolist() == [*range(1, 64), 0]
    for name in ("neighbour_global.g2b32", "neighbour_global.g1b64"):
        _, neighbour = run_published(runs[name], folder, vectorize=True)
        assert neighbour["C"].tolist() == [*range(1, 64), 0]

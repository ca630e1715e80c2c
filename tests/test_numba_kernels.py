"""Kernels written for ``numba.cuda``: the same results here, in both ways, after one import line has changed."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import gpusim_des as gs
from gpusim_des import cuda
from gpusim_des.launched import Launch
from tests.random_numba_kernels import random_numba_kernel
from tests.test_thread_equality import LENGTH, QUICK, assert_equal_traces
from tests.thread_modules import module_of

FOLDER = Path(__file__).parent / "numba_kernels"
IMPORT, OURS = "from numba import cuda\n", "from gpusim_des import cuda\n"

IN_NUMBA = ("elementwise", "matrices", "memory", "reductions", "scans_and_sorts", "simulations", "stencils")
ALL = (*IN_NUMBA, "warps")

Results = dict[str, NDArray[Any]]
Ran = tuple[Results, list[Launch]]


@pytest.fixture(scope="module")
def numba_results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """What Numba's own simulator makes of the files as they are."""
    to = tmp_path_factory.mktemp("numba") / "results.npz"
    command = [sys.executable, str(FOLDER / "run_in_numba.py"), str(to), *IN_NUMBA]
    subprocess.run(command, check=True, timeout=120, capture_output=True)
    with np.load(to) as loaded:
        return dict(loaded)


def run_here(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, *, vectorize: bool
) -> tuple[Results, list[Launch]]:
    """Run a file with its import line changed, on a fresh device."""
    source = (FOLDER / f"{name}.py").read_text()
    assert source.count(IMPORT) == 1
    launched: list[Launch] = []
    launch = gs.Device.launch

    def watched(*args: Any, **options: Any) -> Launch:
        launched.append(launch(*args, **options, vectorize=vectorize))
        return launched[-1]

    monkeypatch.setattr(gs.Device, "launch", watched)
    cuda.select("h100-sxm")
    results: Results = module_of(source.replace(IMPORT, OURS), folder).run()
    assert all(done.vectorized is vectorize for done in launched)
    return results, launched


@pytest.mark.parametrize("name", IN_NUMBA)
def test_results_are_those_of_numba(
    name: str, numba_results: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole numbers to the last bit.

    Numba's simulator computes with Python's numbers, so that ``0.0 + float32`` is a ``float32`` there, where Numba on a
    GPU and this simulator add in ``float64``: single precision agrees to what the size of the sums allows. Double
    precision differs by the last digits of NumPy's and Python's ``exp``, ``erf`` and powers.
    """
    results, _ = run_here(name, tmp_path, monkeypatch, vectorize=True)
    assert len(results) >= 5
    for key, mine in results.items():
        theirs = numba_results[f"{name}.{key}"]
        assert mine.dtype == theirs.dtype
        if mine.dtype.kind == "f":
            size = float(np.abs(theirs).max())
            np.testing.assert_allclose(
                mine, theirs, rtol=0, atol=size * (1e-6 if mine.itemsize == 4 else 1e-14), err_msg=key
            )
        else:
            np.testing.assert_array_equal(mine, theirs, err_msg=key)


def test_two_dozen_kernels_and_more() -> None:
    """Every result is one kernel's, or more."""
    sources = [(FOLDER / f"{name}.py").read_text() for name in ALL]
    assert sum(source.count("\n@cuda.jit") - source.count("\n@cuda.jit(device") for source in sources) >= 36


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] if n == "simulations" else []) for n in ALL])
def test_both_ways_are_equal(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter finds the same results, counters and traces as masked execution."""
    fast, launches = run_here(name, tmp_path, monkeypatch, vectorize=True)
    monkeypatch.undo()
    slow, references = run_here(name, tmp_path, monkeypatch, vectorize=False)
    for key, mine in fast.items():
        assert np.array_equal(mine, slow[key], equal_nan=mine.dtype.kind == "f"), key
    assert len(launches) == len(references)
    for launch, reference in zip(launches, references, strict=True):
        assert_same(launch, reference)


def assert_same(launch: Launch, reference: Launch) -> None:
    """Counters and traces."""
    for field in fields(reference.counters):
        mine, theirs = getattr(launch.counters, field.name), getattr(reference.counters, field.name)
        assert mine == theirs, f"{launch.name} {field.name}: {mine} vectorized, {theirs} interpreted"
    assert_equal_traces(launch, reference)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("random_numba_kernels")


def run_random(kernel: Any, grid: Any, block: Any, *, vectorize: bool) -> tuple[list[Any], Launch]:
    threads = int(np.prod(grid) * np.prod(block))
    rng = np.random.default_rng(7)
    whole = [rng.integers(-(2**31), 2**31, LENGTH).astype(t) for t in (np.int32, np.int8, np.int32, np.int64)]
    inputs: list[NDArray[Any]] = [*whole, rng.normal(size=LENGTH).astype(np.float32), rng.normal(size=LENGTH)]
    outputs: list[NDArray[Any]] = [
        np.arange(threads, dtype=np.int32),
        np.zeros(threads, np.float32),
        np.zeros(threads, np.int8),
    ]
    dev = gs.Device("tiny")
    arrays = [dev.to_device(x) for x in (*inputs, *outputs, np.zeros(16, np.int32), np.zeros(16, np.int32))]
    launch = dev.launch(kernel, grid, block, *arrays, LENGTH, vectorize=vectorize)
    assert launch.vectorized is vectorize
    return [dev.to_host(x) for x in arrays], launch


def check_random(folder: Path, seed: int) -> None:
    source, grid, block = random_numba_kernel(seed)
    kernel = module_of(source, folder).kern
    fast, launch = run_random(kernel, grid, block, vectorize=True)
    slow, reference = run_random(kernel, grid, block, vectorize=False)
    for number, (x, y) in enumerate(zip(fast, slow, strict=True)):
        assert np.array_equal(x, y, equal_nan=x.dtype.kind == "f"), f"array {number}"
    assert_same(launch, reference)


@settings(QUICK, max_examples=4)
@given(seed=st.integers(0, 2**32))
def test_random_kernels_are_equal_both_ways(folder: Path, seed: int) -> None:
    check_random(folder, seed)


@pytest.mark.slow
@settings(QUICK, max_examples=20)
@given(seed=st.integers(0, 2**32))
def test_many_random_kernels_are_equal_both_ways(folder: Path, seed: int) -> None:
    check_random(folder, seed)


def test_lanes_exchange_values_as_cuda_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numba's simulator has no warps; these results are worked out by hand."""
    got, _ = run_here("warps", tmp_path, monkeypatch, vectorize=True)
    assert got["sum_with_shuffles"].tolist() == [4950]
    values = np.random.default_rng(8).normal(size=64)
    assert got["running_maximum"].tolist() == [*np.maximum.accumulate(values[:32]), *np.maximum.accumulate(values[32:])]
    assert got["kept"].tolist() == values[values > 0].tolist()
    assert got["butterfly"].tolist() == 32 * [496]
    assert got["masks"].tolist() == 8 * [0x11111111, 0x22222222, 0x44444444, 0x88888888]
    assert set(got["agree"].tolist()) == {0}  # four keys: they do not agree
    low, high = got["half"][3], got["half"][31]
    ballot = 0xEEEE  # every fourth lane has the key 0
    assert low.tolist() == [1, 0, 1, 3, ballot, -1 & 0xFFFFFFFF]  # lane 20 is in the other half: the own value
    assert high.tolist() == [1, 0, 1, 0, np.int32(np.uint32(ballot << 16)), -1 & 0xFFFFFFFF]
    assert got["bits"].tolist() == [
        [0, 32, 0, 0, 2],
        [1, 31, 1, 0x80000000, 2],
        [2, 28, 3, 0x30000000, 1],
        [1, 0, 32, 1, 1],
        [32, 0, 1, 0xFFFFFFFF, 1],
        [1, 11, 21, 0x800, 1],
    ]

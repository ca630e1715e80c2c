"""The benchmarks run, and what they print has its figures; how fast they are is not tested."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpusim_des as gs
from gpusim_des.timing.simulate import simulate
from tests.benchmarks import checks, engines, sweeps
from tests.benchmarks.kernels import CASES, Case


def test_every_section_has_its_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = engines.main(quick=True, out=tmp_path)

    assert list(results) == ["start-up", "rates", "grid", "sms", "memory"]
    assert [(row["kernel"], row["caches"]) for row in results["rates"]] == [
        (case.name, caches) for case in CASES for caches in ("off", "on")
    ]
    for rows in results.values():
        for row in rows:
            assert all(math.isfinite(value) for value in row.values() if not isinstance(value, str))
    assert all(row[key] > 0 for row in results["rates"] for key in ("simpy", "compiled", "ratio", "large", "sectors"))
    (row,) = results["memory"]
    assert row["arrays"] == 3 * 4 * 2**12 / 2**20
    assert row["all"] > row["arrays"] + row["launch"] + row["timing"]
    assert {path.name for path in tmp_path.iterdir()} == {"engines_grid.png", "engines_sms.png"}
    said = capsys.readouterr().out
    assert all(case.name in said for case in CASES)


def test_as_a_script_it_runs_the_sections_that_are_asked_for() -> None:
    script = Path(engines.__file__)
    said = subprocess.run(
        [sys.executable, script, "--quick", "--only", "sms"], check=True, capture_output=True, text=True
    ).stdout
    assert [line.split()[:2] for line in said.splitlines()[-2:]] == [["16", "0"], ["32", "16"]]


def test_checks_are_measured_on_kernels_without_mistakes(capsys: pytest.CaptureFixture[str]) -> None:
    results = checks.main(quick=True)
    assert list(results) == [subject.name for subject in checks.SUBJECTS]
    assert all(seconds > 0 for times in results.values() for seconds in times.values())
    assert all(name in capsys.readouterr().out for name in list(results)[:1])


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="only Linux tells how long processes wait")
def test_sweeps_are_measured(capsys: pytest.CaptureFixture[str]) -> None:
    results = sweeps.main(quick=True)
    assert list(results) == ["ratio", "free"]
    assert all(value > 0 for value in results.values())
    said = capsys.readouterr().out
    assert said.startswith("4 configurations, vector add of 256 elements on tiny")
    assert f"with two free cores       {results['free']:7.2f}" in said


@gs.kernel
def wrong_everywhere(t: Any, a: Any, c: Any, big: Any) -> Any:
    """A read of what nobody wrote, a barrier that threads have left, a race, and an index that wraps."""
    s = t.shared("s", 64, np.int32)
    if t.threadIdx.x > 40:
        return
    s[0] = t.threadIdx.x
    yield t.syncthreads()
    c[t.threadIdx.x] = a[t.threadIdx.x] + s[(t.threadIdx.x * big) & 63]


def test_the_base_of_that_measurement_looks_for_nothing() -> None:
    def launched(**how: Any) -> gs.Launch:
        dev = gs.Device("tiny")
        arrays = dev.malloc(64, np.int32), dev.to_device(np.zeros(64, np.int32))
        return dev.launch(wrong_everywhere, 1, 64, *arrays, np.int32(2**30), vectorize=True, **how)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert {type(mistake) for mistake in launched().mistakes} == {
            *(gs.Race, gs.LeftBeforeBarrier, gs.IndexOverflow, gs.UnwrittenRead)
        }
        with checks.no_checks():
            assert launched(races="off").mistakes == ()


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_engines_agree_on_the_kernels_of_the_benchmarks(case: Case) -> None:
    gpu = gs.load_gpu("h100-sxm").slice(sms=2)
    launch = case.prepare(gs.Device(gpu), case.tiny)()
    simpy, compiled = (simulate(gpu, [launch.trace], engine=engine) for engine in ("simpy", "compiled"))
    assert simpy.kernels == compiled.kernels


@pytest.mark.slow
def test_memory_does_not_grow_with_the_grid() -> None:
    """W4: four times as many blocks take no more memory, but for the trace, which moves to a file past its limit."""
    small, large = (
        json.loads(engines.run_script("--measure", name).stdout) for name in ("vector add 2^22", "vector add 2^24")
    )
    assert large["trace"] == pytest.approx(4 * small["trace"], rel=0.01)
    assert large["launch"] - large["trace"] < small["launch"] - small["trace"] + 25
    assert large["timing"] < 1.2 * small["timing"] + 25

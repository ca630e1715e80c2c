"""Experiments on memory accesses, branches and atomics: counts by hand, relations of times, quick runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import gpusim_des as gs
from gpusim_des.experiment import load


def check_quick(name: str, gpu: str | None, out: Path) -> gs.Comparison:
    """Run an experiment as ``--quick`` does; every difference is within its tolerance or explained."""
    main: Any = load(name).main
    _, table = main(**({} if gpu is None else {"gpu": gpu}), out=out, quick=True)
    assert isinstance(table, gs.Comparison)
    assert table.passed, str(table)
    assert {p.suffix for p in out.iterdir()} == {".png"}
    return table


def test_sectors_of_strides_and_offsets() -> None:
    """A warp that loads floats from address 4 · offset on, neighbours 4 · stride bytes apart."""
    touched = load("coalescing").touched

    assert [touched(s, 0, 4, 32) for s in (1, 2, 3, 4, 7, 8, 9, 32)] == [4, 8, 12, 16, 28, 32, 32, 32]
    assert [touched(1, o, 4, 32) for o in (0, 1, 7, 8, 9, 16)] == [4, 5, 5, 4, 5, 4]
    assert [touched(s, 0, 4, 64) for s in (1, 2, 8, 16, 32)] == [2, 4, 16, 32, 32]  # where DRAM moves 64 bytes
    assert [touched(1, 0, size, 32) for size in (1, 4, 8, 16)] == [1, 4, 8, 16]  # float4: four passes of four


@pytest.mark.parametrize("gpu", ["tiny", None])
def test_coalescing(gpu: str | None, tmp_path: Path) -> None:
    table = check_quick("coalescing", gpu, tmp_path)

    sectors, time, distinct = table.sections
    assert [row.simulated for row in sectors.rows] == [4, 8, 32, 32, 5, 5, 4, 4, 16, 16, 16]
    us = {row.label: row.simulated for row in time.rows}
    assert us["stride 1"] < 0.6 * us["stride 2"] < 0.2 * us["stride 8"]
    assert us["stride 8, with caches"] > 0.99 * us["stride 8"]  # what a stride moves, nobody asks for later
    assert us["offset 1, with caches"] < 1.02 * us["stride 1"] < 0.85 * us["offset 1"]
    assert us["AoS, all fields, with caches"] < 1.03 * us["SoA, all fields"] < 0.3 * us["AoS, all fields"]
    assert us["AoS as float4"] == pytest.approx(us["AoS, field x"], rel=0.01)  # the same sectors, four times the data
    assert (sectors.verdict, time.verdict, distinct.verdict) == ("pass", "explained", "pass")
    assert {row.label for row in time.rows if row.verdict == "explained"} == {
        *("offset 1, with caches", "AoS, all fields, with caches"),
    }

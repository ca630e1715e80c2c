"""Experiments about parallelism, occupancy, waves, queues and roofs: exact counts by hand, and the phenomena."""

from __future__ import annotations

from pathlib import Path

import pytest

import gpusim_des as gs
from gpusim_des.experiment import load


def rows(table: gs.Comparison, section: int) -> dict[str, gs.ComparisonRow]:
    """Rows of a section of a comparison, by label."""
    return {row.label: row for row in table.sections[section].rows}


def test_ilp_vs_tlp_by_hand(tmp_path: Path) -> None:
    """``tiny``: two schedulers, an instruction a cycle each, a result after four cycles."""
    points, table = load("ilp_vs_tlp").main("tiny", tmp_path, quick=True)

    by_hand = {(1, 1): 0.5, (1, 2): 1, (1, 4): 2, (1, 8): 2, (2, 1): 1, (2, 2): 2, (2, 4): 2, (2, 8): 2}
    by_hand |= {(4, warps): 2 for warps in (1, 2, 4, 8)}
    assert {(p.ilp, p.warps): p.simulated for p in points} == by_hand
    law, better = table.sections
    assert {row.label: row.simulated for row in law.rows[12:] if "ILP" in row.label and "loop" not in row.label} == {
        "3 warps, ILP 4": 1.5,  # three warps' work while one scheduler works for two
        "10 warps, ILP 1, greedy": 1.25,  # four of five warps at the peak, then the fifth at a quarter of it
    }
    assert law.verdict == "explained"
    assert max(abs(row.difference) for row in better.rows if "loop" not in row.label) < 0.004
    assert rows(table, 1)["16 warps, ILP 4, loop"].formula == pytest.approx(2 * 4 / 7)  # add, comparison, branch
    assert [p.name for p in tmp_path.iterdir()] == ["ilp_vs_tlp.png"]


def test_ilp_vs_tlp_loop_of_unknown_length() -> None:
    """What a round of four multiply-adds issues."""
    module = load("ilp_vs_tlp")
    found = module.slope(gs.load_gpu("tiny").slice(sms=1), module.loop, 4, 2)
    rounds = 2 * module.LENGTH // 4  # of two warps
    assert found.instructions == {"fp32": 4 * rounds, "int": 2 * rounds, "branch": rounds}


@pytest.mark.parametrize("name", ["ilp_vs_tlp"])
def test_quick_on_the_default_gpu(name: str, tmp_path: Path) -> None:
    _, table = load(name).main(out=tmp_path, quick=True)
    assert table.passed

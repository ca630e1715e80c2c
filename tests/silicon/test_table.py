"""The error table: cells by hand, and the README's block, which is what the generator writes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusim_des.silicon import as_records, as_text, block, list_targets, put_block, read_block, run
from gpusim_des.silicon.held import KINDS, held, occupied_points, plateau_points
from gpusim_des.silicon.table import Row, as_markdown, row, summary
from gpusim_des.silicon.target import Point, Target, load_target
from gpusim_des.silicon.validation import SECTIONS, Outcome, Result
from tests.silicon.test_validation import result

README = Path(__file__).resolve().parent.parent.parent / "README.md"


def test_a_row_by_hand() -> None:
    found = row(result([0.0, 0.5], why="everything", unit="ns"))
    assert found.cells == (
        *("pchase_v100", "v100-pcie", "100 ns", "100 to 150 ns"),
        *("25.0%", "+50.0% at n 1", "everything"),
    )


def test_what_the_model_lacks_is_said_of_large_errors_only() -> None:
    assert row(result([0.2], why="everything")).why == ""
    assert row(result([-0.21], why="everything")).why == "everything"


def test_the_summary_is_of_predictions_and_their_groups() -> None:
    results = [
        result([0.1], cited=(), group="a"),
        result([0.3], cited=(), group="b"),
        result([9.0]),
        result([5.0], kind="count"),
    ]
    found = {name: (errors.count, round(errors.mean, 3)) for name, errors in summary(results)}
    assert found == {
        "all predictions": (2, 0.2),
        "a": (1, 0.1),
        "b": (1, 0.3),
        "(calibration)": (1, 9.0),
        "(counts)": (1, 5.0),
    }


def test_the_text_has_every_section_once() -> None:
    text = as_text([result([0.1], cited=()), result([0.3], why="rows of DRAM"), result([0.0], kind="count")])
    lines = text.splitlines()
    assert [line.rstrip(":") for line in lines if line.rstrip(":") in SECTIONS] == [
        "predictions",
        "calibration",
        "counts",
    ]
    assert "pchase_v100: rows of DRAM" in lines
    assert lines[-1].split() == ["(counts)", "1", "0.0%", "0.0%", "0.0%", "0.0%"]


def test_records_hold_every_point() -> None:
    (record,) = as_records([run(load_target("shared_latency_2070"))])
    assert record["points"] == [{"stride": 1, "measured": 23.0, "simulated": 23.0}]
    assert record["section"] == "calibration"
    assert record["parameters_from_it"] == ["l1_latency_cycles", "l2_latency_cycles", "shared_latency_cycles"]


@pytest.mark.parametrize(
    ("name", "points_of", "bound"),
    [("occupancy_curve_a40", occupied_points, 0.15), ("pchase_h100_pcie", plateau_points, 0.05)],
)
def test_points_that_are_not_held_do_not_count(
    name: str, points_of: Callable[[Target], tuple[Point, ...]], bound: float
) -> None:
    """All other points are 50 % off, those that are held 1 %, and the last one of them 2 % below."""
    target = load_target(name)
    points = points_of(target)
    assert 0 < len(points) < len(target.points)
    off = {**dict.fromkeys([p.label for p in target.points], 1.5), **dict.fromkeys([p.label for p in points], 1.01)}
    off[points[-1].label] = 0.98
    outcomes = tuple(Outcome(p, off[p.label] * p.measured) for p in target.points)
    ((_, number, asked, worst),) = held([Result(target, outcomes, 0.0)])
    assert (number, asked) == (len(points), bound)
    assert worst == pytest.approx(-0.02)


# The block of a README ----------------------------------------------------------------------------------------------

texts = st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=1, max_size=12)
rows = st.builds(Row, st.sampled_from(SECTIONS), texts, texts, texts, texts, texts, texts, texts | st.just(""))


@given(
    st.lists(rows, max_size=8),
    st.lists(st.tuples(*[texts] * 6), max_size=4),
    st.lists(st.tuples(*[texts] * 4), max_size=3),
    texts,
)
def test_a_block_is_read_back(
    members: list[Row], summaries: list[tuple[str, ...]], points: list[tuple[str, ...]], made: str
) -> None:
    ordered = sorted(members, key=lambda r: SECTIONS.index(r.section))
    text = as_markdown(ordered, summaries, points, made)
    assert read_block(text) == (ordered, summaries, points, made)
    assert put_block(f"before\n{text}\nafter", text) == f"before\n{text}\nafter"


def test_a_text_without_a_block_is_refused() -> None:
    with pytest.raises(ValueError, match="no validation table: the lines '<!-- validation: begin -->' and"):
        put_block("# A README", block([result([0.1])], "by hand"))


def test_the_block_of_the_readme_is_the_generators() -> None:
    """Read back and written again it is the same, it has every target, and large errors say what is lacking."""
    text = README.read_text(encoding="utf-8")
    members, summaries, points, made = read_block(text)
    assert as_markdown(members, summaries, points, made) in text
    assert made.startswith("Made by `gpusim-des validate` with version 0.1.0 on 20")
    assert {r.target for r in members} == {target.name for target in list_targets()}
    assert summaries[0][0] == "all predictions"
    assert [name for name, *_ in points] == [name for name, *_ in KINDS]
    for _, _, asked, worst in points:
        assert abs(float(worst.rstrip("%"))) <= float(asked.rstrip("%"))
    for r in members:
        large = float(r.error.rstrip("%")) > 20
        assert bool(r.why) == large, r.target
        assert not large or r.why == load_target(r.target).why

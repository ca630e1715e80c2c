"""Formula beside simulation: differences, verdicts, texts and files."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpusim_des as gs

NUMBERS = st.floats(-1e12, 1e12, allow_nan=False)


def table() -> gs.Comparison:
    return gs.compare(
        [100, 200, 300],
        [101, 150, 299],
        name="Little's law",
        quantity="GB/s",
        labels=["a", "b", "c"],
        explain={"b": "queues"},
    )


def test_differences_and_verdicts() -> None:
    found = table()
    assert [row.difference for row in found.rows] == [0.01, -0.25, -1 / 300]
    assert [row.verdict for row in found.rows] == ["pass", "explained", "pass"]
    assert (found.verdict, found.passed, found.worst_difference, found.worst.label) == ("explained", True, -0.25, "b")


def test_an_explanation_is_needed_only_beyond_the_tolerance() -> None:
    assert gs.compare(100, 102).verdict == "pass"  # 2 % is within 2 %
    assert gs.compare(100, 102.1).verdict == "unexplained"
    assert gs.compare(100, 102.1, explain="why").verdict == "explained"
    assert gs.compare(100, 101, explain="why").verdict == "pass"
    assert gs.compare(7, 8, tolerance=0).verdict == "unexplained"


@pytest.mark.parametrize(
    ("bound", "below", "above"),
    [
        (None, "explained", "explained"),
        (0.4, "unexplained", "explained"),
        (-0.4, "explained", "unexplained"),
        (0.2, "unexplained", "unexplained"),
        (math.inf, "unexplained", "explained"),
    ],
)
def test_an_explanation_reaches_as_far_as_its_bound_and_to_one_side(
    bound: float | None, below: str, above: str
) -> None:
    found = gs.compare([100, 100, 100], [70, 130, 101], explain="why", explained_up_to=bound)
    assert [row.verdict for row in found.rows] == [below, above, "pass"]


def test_bounds_by_label() -> None:
    bounds = {"a": 0.5, "b": 0.2}
    found = gs.compare([1, 1, 1], [1.5, 1.5, 1.5], labels="abc", explain={"a": "x", "b": "y"}, explained_up_to=bounds)
    assert [row.verdict for row in found.rows] == ["explained", "unexplained", "unexplained"]
    assert [row.explained_up_to for row in found.rows] == [0.5, 0.2, None]
    assert str(found).splitlines()[-3:] == [
        "* a: x",
        "! c: beyond 0.02 of the formula, unexplained",
        "! b: beyond the +20% that are explained: y",
    ]
    assert list(csv.DictReader(io.StringIO(found.to_csv())))[1]["explained_up_to"] == "0.2"
    assert [row["explained_up_to"] for row in json.loads(found.to_json())] == [0.5, 0.2, None]


def test_wrong_bounds_are_refused() -> None:
    with pytest.raises(ValueError, match=r"explained_up_to for 'c': there is no such label; labels are a, b"):
        gs.compare([1, 2], [1, 2], labels="ab", explain="why", explained_up_to={"a": 1, "b": 1, "c": 1})
    with pytest.raises(ValueError, match=r"explained_up_to has no bound for 'b', which is explained: give one for"):
        gs.compare([1, 2], [1, 2], labels="ab", explain="why", explained_up_to={"a": 1})
    with pytest.raises(ValueError, match=r"explained_up_to = nan for '1': must be a number with its sign"):
        gs.compare(1, 2, explain="why", explained_up_to=math.nan)


@given(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3), st.floats(0, 0.5))
def test_reach_is_a_bound_of_the_better_figure(formula: float, better: float, more: float) -> None:
    """What the better formula says is explained, and four times or a quarter of it is not."""
    bound = gs.experiment.reach(formula, better, more)
    up = better >= formula
    for simulated, verdict in ((better, "explained"), (4 * max(formula, better) if up else better / 4, "unexplained")):
        row = gs.ComparisonRow("law", "time", "1", formula, simulated, 0.0, "why", "", bound)
        assert row.verdict == ("pass" if simulated == formula else verdict)
    with pytest.raises(ValueError, match=r"formula = 0: must be above 0, differences are shares of it"):
        gs.experiment.reach(0, better)


def test_points_are_compared_as_their_numbers_are() -> None:
    """The same table as by lists and mappings; a point without a reason has no bound."""
    points = [("a", 1.0, 1.5), ("b", 1.0, 1.5), ("c", 1.0, 1.0)]
    found = gs.experiment.compare_points(
        points,
        lambda p: p[1],
        lambda p: p[2],
        label=lambda p: p[0],
        because=lambda p: (f"{p[0]} is late", 0.5 if p[0] == "a" else 0.2) if p[0] != "c" else None,
        name="law",
        quantity="time",
        assumes="nothing",
        tolerance=0.1,
    )
    assert found == gs.compare(
        [1.0, 1.0, 1.0],
        [1.5, 1.5, 1.0],
        labels="abc",
        explain={"a": "a is late", "b": "b is late"},
        explained_up_to={"a": 0.5, "b": 0.2},
        name="law",
        quantity="time",
        assumes="nothing",
        tolerance=0.1,
    )
    assert [row.verdict for row in found.rows] == ["explained", "unexplained", "pass"]
    assert found + gs.experiment.compare_points([], float, float, name="law", quantity="time") == found


@pytest.mark.parametrize(
    ("formula", "simulated", "difference"),
    [
        (0, 0, 0),
        (0, 1, math.inf),
        (0, -1, -math.inf),
        (-100, -110, -0.1),
        (math.inf, math.inf, 0),
        (math.inf, 1, -math.inf),
    ],
)
def test_differences_at_the_edges(formula: float, simulated: float, difference: float) -> None:
    assert gs.compare(formula, simulated, explain="edge").worst_difference == pytest.approx(difference)


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=8), st.floats(0, 2))
def test_the_worst_row_decides(pairs: list[tuple[float, float]], tolerance: float) -> None:
    formula, simulated = zip(*pairs, strict=True)
    found = gs.compare(formula, simulated, tolerance=tolerance)
    worst = max(abs(row.difference) for row in found.rows)
    assert abs(found.worst_difference) == worst
    assert found.passed == (worst <= tolerance)


def test_mappings_are_matched_by_label() -> None:
    assert gs.compare({"a": 1, "b": 2}, {"b": 2, "a": 1}, tolerance=0).verdict == "pass"
    assert [row.label for row in gs.compare(np.array([1.0, 2.0]), (1, 2)).rows] == ["1", "2"]


def test_tables_are_joined_and_printed_by_formula() -> None:
    joined = table() + gs.compare(2048, 2049, name="2n³ / T", quantity="loads", tolerance=0, assumes="whole tiles")
    assert len(joined) == 4
    assert [len(section) for section in joined.sections] == [3, 1]
    assert str(joined) == (
        "Little's law: GB/s\n"
        "  | formula | simulated | difference\n"
        "a |     100 |       101 |     +1.00%\n"
        "b |     200 |       150 |    -25.00% *\n"
        "c |     300 |       299 |     -0.33%\n"
        "* b: queues\n"
        "\n"
        "2n³ / T: loads (assumes: whole tiles)\n"
        "  | formula | simulated | difference\n"
        "1 |   2,048 |     2,049 |     +0.05% !\n"
        "! 1: beyond 0 of the formula, unexplained"
    )
    with pytest.raises(TypeError):
        joined + 1  # type: ignore[operator]


def test_one_explanation_of_all_is_said_once() -> None:
    assert str(gs.compare([1, 2], [2, 3], explain="why")).endswith("\n* all: why")


def test_files_hold_what_the_table_holds(tmp_path: Path) -> None:
    found = table() + gs.compare(0, 1, explain="nothing, in theory")
    text = found.to_csv(tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text() == text
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [float(row["difference"]) for row in rows] == [row.difference for row in found.rows]
    assert [row["verdict"] for row in rows] == ["pass", "explained", "pass", "explained"]
    assert rows[1]["explanation"] == "queues"
    assert json.loads(found.to_json(tmp_path / "t.json"))[3]["difference"] is None  # JSON has no infinity
    assert json.loads((tmp_path / "t.json").read_text())[:3] == found.to_rows()[:3]
    assert {p.name for p in tmp_path.iterdir()} == {"t.csv", "t.json"}  # no drafts are left
    with pytest.raises(FileNotFoundError, match=r"cannot write t\.csv: there is no folder"):
        found.to_csv(tmp_path / "no" / "t.csv")


def test_notebooks_show_escaped_html() -> None:
    html = gs.compare(1, 2, labels=["<b>"], explain="a & b")._repr_html_()
    assert "<td>&lt;b&gt;</td><td>1</td><td>2</td><td>+100.00%</td><td>a &amp; b</td>" in html


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1], [1, 2]), r"1 numbers of the formula, 2 simulated, 1 labels: give at least one, and as many of each"),
        (([], []), r"0 numbers of the formula"),
        (([[1, 2]], [[1, 2]]), r"formula: an array of shape \(1, 2\): must have one dimension"),
        (([1], [math.nan]), r"simulated: nan among the numbers"),
        (({"a": 1}, {"b": 1}), r"name different points: a, b on one side only"),
        (({"a": 1}, [1]), r"one side is a mapping and the other is not"),
    ],
)
def test_what_does_not_match_is_refused(arguments: tuple[gs.comparison.Numbers, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        gs.compare(*arguments)


def test_wrong_labels_and_tolerances_are_refused() -> None:
    with pytest.raises(ValueError, match=r"the label 'a' occurs twice"):
        gs.compare([1, 2], [1, 2], labels=["a", "a"])
    with pytest.raises(ValueError, match=r"explanation for 'c': there is no such label; labels are a, b"):
        gs.compare([1, 2], [1, 2], labels="ab", explain={"c": "why"})
    with pytest.raises(ValueError, match=r"tolerance = -0.1: must be a finite number, at least 0"):
        gs.compare(1, 1, tolerance=-0.1)

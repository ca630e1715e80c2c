"""Curves of simulated numbers, and the formulas of pipelines: what is refused and what is drawn."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusim_des import views
from gpusim_des.analytic import blocking_seconds, launch_interval_seconds, pipeline_seconds
from gpusim_des.timeline import Operation, Timeline
from tests.test_views import draw, legend

US = 10**9
times = st.integers(0, 1000)


def played(chunks: int, stages: tuple[int, int, int], *, engines: int) -> int:
    """End of the last chunk, with every stage or shared engine serving whoever is ready first."""
    free = {"in": 0, "compute": 0, "out": 0}
    units = ("in", "compute", "out" if engines > 1 else "in")
    ready = [(0, chunk, 0) for chunk in range(chunks)]
    end = 0
    while ready:
        ready.sort(key=lambda r: (max(r[0], free[units[r[2]]]), r[0], r[2], r[1]))
        since, chunk, stage = ready.pop(0)
        end = max(since, free[units[stage]]) + stages[stage]
        free[units[stage]] = end
        if stage < 2:
            ready.append((end, chunk, stage + 1))
    return max(free.values())


@given(chunks=st.integers(1, 20), stages=st.tuples(times, times, times))
def test_the_pipeline_is_what_three_servers_in_a_row_take(chunks: int, stages: tuple[int, int, int]) -> None:
    assert pipeline_seconds(chunks, *stages) == played(chunks, stages, engines=2)


@given(chunks=st.integers(1, 20), stages=st.tuples(times, times, times))
def test_one_engine_takes_no_less_than_the_formula(chunks: int, stages: tuple[int, int, int]) -> None:
    bound = pipeline_seconds(chunks, *stages, engines=1)
    assert bound <= played(chunks, stages, engines=1)
    assert pipeline_seconds(chunks, *stages) <= bound <= blocking_seconds(chunks, *stages)


def test_formulas_refuse_what_makes_no_sense() -> None:
    with pytest.raises(ValueError, match="chunks = 0: must be a whole number, at least 1"):
        pipeline_seconds(0, 1, 1, 1)
    with pytest.raises(ValueError, match="engines = 0: must be a whole number, at least 1"):
        pipeline_seconds(1, 1, 1, 1, engines=0)
    with pytest.raises(ValueError, match="compute_s = -1: must be a finite number, at least 0"):
        blocking_seconds(1, 1, -1, 1)
    with pytest.raises(ValueError, match="= inf: must be a finite number"):
        launch_interval_seconds(1, float("inf"))
    with pytest.raises(ValueError, match="issue = 'last': possible are 'depth-first' and 'breadth-first'"):
        blocking_seconds(1, 1, 1, 1, issue="last")  # type: ignore[arg-type]


def test_curves_show_points_and_formulas() -> None:
    lines = [views.Curve("pinned", [3.0, 2.0], [3.5, 1.5]), views.Curve("$x", [4.0, 5.0])]
    ax = views.curves([1, 16], lines, xlabel="chunks", ylabel="time (µs)", title="Totals", logarithmic=True)
    drawn = [xy.tolist() for xy in (np.asarray(line.get_xydata()) for line in ax.lines) if xy.size]
    assert drawn == [[[1, 3.5], [16, 1.5]], [[1, 3.0], [16, 2.0]], [[1, 4.0], [16, 5.0]]]
    assert legend(ax) == ["pinned", r"\$x", "lines: formula"]
    assert [t.get_text() for t in ax.get_xticklabels()] == ["1", "16"]
    assert ax.get_ylim() == (0, 5.4)
    draw(ax)
    top = views.curves([1, 2], lines[1:], xlabel="", ylabel="", title="", top=100)
    assert top.get_ylim() == (0, 100)
    assert legend(top) == [r"\$x"]


def test_curves_over_powers_of_two() -> None:
    lines = [views.Curve("passes", [1.0, 12.0], [1.0, 20.0])]
    ax = views.curves([1, 2], lines, xlabel="", ylabel="", title="", powers_of_two=True)
    assert ax.get_ylim() == pytest.approx((0.8, 25))
    assert [t.get_text() for t in ax.get_yticklabels()] == ["1", "2", "4", "8", "16"]
    draw(ax)
    with pytest.raises(ValueError, match="0 on a logarithmic axis: must be positive"):
        views.curves([1], [views.Curve("a", [0])], xlabel="", ylabel="", title="", powers_of_two=True)


def test_curves_refuse_numbers_that_do_not_match() -> None:
    def refuse(x: list[float], lines: list[views.Curve], match: str) -> None:
        with pytest.raises(ValueError, match=match):
            views.curves(x, lines, xlabel="", ylabel="", title="")

    refuse([], [], "nothing to draw")
    refuse([2, 1], [views.Curve("a", [1, 2])], "x must rise")
    refuse([1, 2], [views.Curve("a", [1])], "curve 'a': 1 simulated and 0 predicted numbers for 2 values")
    refuse([1, 2], [views.Curve("a", [1, 2], [1])], "2 simulated and 1 predicted")


def test_runs_are_compared_on_one_scale() -> None:
    runs = {
        name: Timeline(
            "tiny", 2, 500_000, operations=(Operation(0, "h2d", "h2d a", 1, 0, 0, end * US, engine="copy engine 0"),)
        )
        for name, end in (("long", 200), ("short", 50))
    }
    ax = views.compare_streams(runs)
    panels = ax.figure.axes
    assert [panel.get_title(loc="left") for panel in panels] == ["long: 200 µs", "short: 50 µs"]
    assert {panel.get_xlim() for panel in panels} == {(0, 200)}
    assert [panel.get_xlabel() for panel in panels] == ["", "time (µs)"]
    assert legend(ax) == ["copy to device"]
    assert panels[1].get_legend() is None
    draw(ax)
    with pytest.raises(ValueError, match="sims is empty"):
        views.compare_streams({})

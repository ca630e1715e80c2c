"""The figure that joins simulated numbers with those of a formula."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gpusim_des.views import Panel, comparison

LABELS = ["naive", "a way with a name that is longer than any name should ever be", "T = 32", "$T$"]


def draw(ax: Axes) -> list[Axes]:
    """Render everything; returns the Axes of all panels."""
    assert isinstance(ax.figure, Figure)
    ax.figure.draw_without_rendering()
    return ax.figure.axes


def test_a_row_for_each_label_and_a_panel_for_each_number() -> None:
    loads = Panel("loads", [8.0, 4.0, 2.0, 1.0], [8.0, 4.0, 2.0, 1.0], "counted", "2n³ / T")
    time = Panel(
        "time (µs)", [9.0, 5.0, 3.0, 2.0], [7.0, 4.0, 2.5, 2.0], notes=["a", "b", "c", "$d$"], notes_title="speed"
    )
    left, right = draw(comparison(LABELS, [loads, time], title="matrices"))

    labels = [text.get_text() for text in left.get_yticklabels()]
    assert labels[0] == "naive"
    assert labels[1].endswith("…")
    assert left.get_ylim()[0] > left.get_ylim()[1]  # the first one on top
    simulated, formula = (next(line for line in right.lines if line.get_label() == n) for n in ("simulated", "formula"))
    assert np.asarray(simulated.get_xydata()).tolist() == [[9, 0], [5, 1], [3, 2], [2, 3]]
    assert np.asarray(formula.get_xydata()).tolist() == [[7, 0], [4, 1], [2.5, 2], [2, 3]]
    assert [text.get_text() for text in right.texts] == ["a", "b", "c", r"\$d\$", "speed"]
    assert (left.get_xlabel(), right.get_xlabel(), right.get_xscale()) == ("loads", "time (µs)", "log")
    legends = [ax.get_legend() for ax in (left, right)]
    said = [[t.get_text() for t in legend.get_texts()] for legend in legends if legend is not None]
    assert said == [["counted", "2n³ / T"], ["simulated", "formula"]]


def test_nothing_overlaps_and_nothing_is_cut_off() -> None:
    notes = [f"{n:,} GFLOP/s, load/store units" for n in (100, 20_000, 7, 9)]
    panels = [
        Panel("time (µs)", [1e3, 1.0, 5.0, 7.0], [1.0, 0.5, 5.0, 1e-3], notes=notes, notes_title="what limits it")
    ] * 2
    axes = draw(comparison(LABELS, panels, title="a title"))
    root = axes[0].figure
    assert isinstance(root, Figure)
    boxes = [text.get_window_extent() for ax in axes for text in (*ax.texts, *ax.get_xticklabels()) if text.get_text()]
    boxes += [text.get_window_extent() for text in axes[0].get_yticklabels()]
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))
    assert all(box.x0 >= 0 and box.x1 <= root.bbox.x1 and box.y0 >= 0 for box in boxes)
    assert not any(ax.get_window_extent().overlaps(t.get_window_extent()) for ax in axes for t in ax.texts)


def test_one_row_is_enough() -> None:
    (ax,) = draw(comparison(["only"], [Panel("x", [2.0], [2.0])], title="t"))
    assert ax.get_xlim()[0] < 2 < ax.get_xlim()[1]


def test_refusals() -> None:
    with pytest.raises(ValueError, match="nothing to draw"):
        comparison([], [Panel("x", [], [])], title="t")
    with pytest.raises(ValueError, match="panel 'x': 1 simulated for 2 labels: one for each"):
        comparison(["a", "b"], [Panel("x", [1.0], [1.0, 2.0])], title="t")
    with pytest.raises(ValueError, match="panel 'x': 1 notes for 2 labels: one for each"):
        comparison(["a", "b"], [Panel("x", [1.0, 2.0], [1.0, 2.0], notes=["c"])], title="t")
    with pytest.raises(ValueError, match=r"panel 'x': 0\.0 on a logarithmic axis: must be positive and finite"):
        comparison(["a"], [Panel("x", [1.0], [0.0])], title="t")

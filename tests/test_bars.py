"""Bars with their formula, and several drawings in one figure."""

from __future__ import annotations

import math

import numpy as np
import pytest
from matplotlib.figure import Figure

from gpusim_des import views


def test_a_bar_for_each_label_and_a_mark_for_each_formula() -> None:
    ax = views.bars(["naive", "a $ sign"], [8.0, 1234.5], [8.0, math.nan], xlabel="time (µs)", title="t")

    assert isinstance(ax.figure, Figure)
    ax.figure.draw_without_rendering()
    assert [bar.get_extents().width > 0 for bar in ax.patches] == [True, True]
    assert ax.dataLim.x1 == 1234.5
    assert np.asarray(ax.lines[0].get_xdata()).tolist()[0] == 8.0
    assert [text.get_text() for text in ax.texts] == ["8", "1,234"]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["naive", r"a \$ sign"]
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # the first one on top
    assert ax.get_xlim()[1] > 1234.5
    legend = ax.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["simulated", "formula"]


def test_bars_without_a_formula_have_no_legend() -> None:
    ax = views.bars(["a"], [0.0], xlabel="x", title="t", notes=["nothing"])

    assert [text.get_text() for text in ax.texts] == ["nothing"]
    assert ax.get_legend() is None


@pytest.mark.parametrize(
    ("labels", "simulated", "formula", "said"),
    [
        ([], [], [], "nothing to draw"),
        (["a"], [], [], "0 simulated for 1 labels"),
        (["a"], [1.0], [1.0, 2.0], "2 formula for 1 labels"),
        (["a"], [-1.0], [], "-1.0 as the length of a bar"),
        (["a"], [math.nan], [], "nan as the length of a bar"),
    ],
)
def test_what_cannot_be_drawn(labels: list[str], simulated: list[float], formula: list[float], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        views.bars(labels, simulated, formula, xlabel="x", title="t")


def test_side_by_side() -> None:
    left, right = views.side_by_side([4.0, 2.0], height=3.0, title="both")

    assert left.figure is right.figure
    with pytest.raises(ValueError, match=r"widths = \[\], height = 4.8"):
        views.side_by_side([])
    with pytest.raises(ValueError, match="height = 0"):
        views.side_by_side([1.0], height=0)

"""The curves: bandwidth against warps with Little's law, and the staircase of waves."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gpusim_des import views


@dataclass
class Row:
    warps_per_sm: float
    occupancy: float
    gbs: float
    littles_law_gbs: float
    label: str


def legend(ax: Axes) -> list[str]:
    found = ax.get_legend()
    assert found is not None
    return [text.get_text() for text in found.get_texts()]


def texts(ax: Axes) -> list[str]:
    return [t.get_text() for t in ax.texts]


def draw(ax: Axes) -> None:
    """Render everything; warnings, for example of missing glyphs, are errors."""
    assert isinstance(ax.figure, Figure)
    ax.figure.draw_without_rendering()


def rows(labels: list[str]) -> list[Row]:
    """Sixteen GB/s for each warp up to a peak of 256 GB/s, on an SM of 64 warp slots."""
    warps = [2 ** (n % 6 + 1) for n in range(len(labels))]
    return [Row(w, w / 64, min(15.0 * w, 250.0), 16.0 * w, label) for w, label in zip(warps, labels, strict=True)]


def test_latency_curve_marks_the_knee_where_littles_law_meets_the_peak() -> None:
    ax = views.latency_curve(rows([f"{n} warps" for n in range(6)]), peak_gbs=256.0)
    assert legend(ax) == ["peak, 256 GB/s", "simulated", "Little's law"]
    assert "knee: 16 warps (25%)" in texts(ax)
    assert np.asarray(ax.lines[1].get_xdata()).tolist() == [2, 4, 8, 16, 32, 64]
    assert np.asarray(ax.lines[2].get_ydata()).tolist()[:2] == [0.0, 256.0]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("active warps per SM", "bandwidth (GB/s)")
    draw(ax)


def test_latency_curve_groups_rows_of_one_label() -> None:
    own = Figure().add_subplot()
    ax = views.latency_curve(rows(["ILP 1"] * 6) + rows(["ILP 2"] * 6), ax=own, title="copy on tiny")
    assert ax is own
    assert legend(ax) == ["simulated, ILP 1", "simulated, ILP 2", "Little's law, ILP 1 / ILP 2"]  # of the same slope
    assert ax.get_title() == "copy on tiny"
    draw(ax)


def test_labels_of_knees_do_not_overlap() -> None:
    near = [replace(row, label="b", littles_law_gbs=1.1 * row.littles_law_gbs) for row in rows(["b"] * 6)]
    nearer = [replace(row, label="c", littles_law_gbs=1.2 * row.littles_law_gbs) for row in rows(["c"] * 6)]
    ax = views.latency_curve(rows(["a"] * 6) + near + nearer, peak_gbs=256.0)
    draw(ax)
    boxes = [text.get_window_extent() for text in ax.texts]
    assert len(boxes) == 3
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))
    inside = ax.get_window_extent()
    assert all(inside.y1 > box.y1 and inside.x0 <= box.x0 and box.x1 <= inside.x1 for box in boxes)


def test_a_knee_at_the_edge_keeps_its_label_inside() -> None:
    for peak in (16.0, 1000.0):
        ax = views.latency_curve(rows([f"{n}" for n in range(6)]), peak_gbs=peak)
        draw(ax)
        inside = ax.get_window_extent()
        (box,) = [text.get_window_extent() for text in ax.texts if text.get_text().startswith("knee")]
        assert inside.x0 <= box.x0
        assert box.x1 <= inside.x1


@pytest.mark.parametrize("label", ["a", "a label that is rather long to stand beside the data, very long"])
def test_the_data_keep_two_thirds_of_the_width(label: str) -> None:
    ax = views.latency_curve(rows([label] * 6), peak_gbs=256.0, peak_label="DRAM, reads and writes mixed")
    draw(ax)
    assert ax.get_position().width >= 2 / 3
    assert ax.get_position().height >= 0.4
    assert legend(ax)[0] == "DRAM, reads and writes mixed, 256 GB/s"


def test_latency_curve_draws_further_laws() -> None:
    data = rows([f"{n} warps" for n in range(6)])
    ax = views.latency_curve(data, peak_gbs=256.0, more_laws={"with cost": [8.0 * r.warps_per_sm for r in data]})
    assert legend(ax) == ["peak, 256 GB/s", "simulated", "Little's law", "with cost"]
    line = next(line for line in ax.lines if line.get_label() == "with cost")
    assert np.asarray(line.get_xydata())[:2].tolist() == [[0.0, 0.0], [32.0, 256.0]]
    with pytest.raises(ValueError, match=r"law 'with cost' has 1 numbers for 6 rows: pass one for each row"):
        views.latency_curve(data, more_laws={"with cost": [1.0]})


def test_laws_are_lines_over_values_of_their_own() -> None:
    points = [views.Simulated("simulated", [1, 2], [3.0, 5.0]), views.Simulated("none", [], [])]
    lines = [views.Law("", [1, 4], [2, 8], 1), views.Law("lines: formula", [], [], None)]
    ax = views.laws(points, lines, xlabel="warps", ylabel="GB/s", title="Law", right=4, top=10)
    assert [np.asarray(line.get_xydata()).tolist() for line in ax.lines] == [[[1, 3], [2, 5]], [[1, 2], [4, 8]], []]
    assert legend(ax) == ["simulated", "lines: formula"]
    assert (ax.get_xlim(), ax.get_ylim()) == ((0, 4), (0, 10))
    draw(ax)
    ticks = views.laws(points, lines, xlabel="", ylabel="", title="", ticks=(1, 2, 4))
    assert [[t.get_text() for t in a.get_ticklabels()] for a in (ticks.xaxis, ticks.yaxis)] == [["1", "2", "4"]] * 2
    with pytest.raises(ValueError, match="nothing to draw: pass at least one line, or points"):
        views.laws([], [], xlabel="", ylabel="", title="")
    with pytest.raises(ValueError, match=r"'a': 1 numbers for 2 values of x: pass one for each"):
        views.laws([views.Simulated("a", [1, 2], [3])], [], xlabel="", ylabel="", title="")


def test_latency_curve_refuses_nothing_to_draw() -> None:
    with pytest.raises(ValueError, match="rows is empty"):
        views.latency_curve([])
    with pytest.raises(ValueError, match=r"row 'x': warps_per_sm = 0 must be positive"):
        views.latency_curve([Row(0, 0, 1, 1, "x")])


def test_waves_curve_shows_both_staircases_and_full_waves() -> None:
    blocks = list(range(1, 13))
    formula = [-(-b // 4) * 2.0 for b in blocks]
    ax = views.waves_curve(blocks, [t + 0.1 for t in formula], formula, capacity=4)
    assert legend(ax) == ["full waves of 4 blocks", "simulated", "formula"]
    assert np.asarray(ax.lines[0].get_ydata()).tolist()[::3] == formula
    assert texts(ax) == ["1", "2", "3"]
    assert [np.asarray(line.get_xdata())[0] for line in ax.lines[3:]] == [4.5, 8.5, 12.5]
    draw(ax)


def test_waves_curve_steps_where_a_wave_ends_even_between_sparse_points() -> None:
    ax = views.waves_curve([2, 7, 10], [1.0, 2.0, 2.5], [1.0, 2.0, 3.0], capacity=5)
    assert np.asarray(ax.lines[0].get_xdata()).tolist() == [2, 5.5, 5.5, 7, 8.5, 8.5, 10]
    assert np.asarray(ax.lines[0].get_ydata()).tolist() == [1, 1, 2, 2, 2, 3, 3]


def test_waves_curve_checks_its_numbers() -> None:
    with pytest.raises(ValueError, match="blocks is empty"):
        views.waves_curve([], [], [])
    with pytest.raises(ValueError, match="2 numbers of blocks, 1 simulated and 2 formula times"):
        views.waves_curve([1, 2], [1.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="blocks must rise"):
        views.waves_curve([2, 1], [1.0, 1.0], [1.0, 1.0])
    with pytest.raises(ValueError, match="capacity = 0"):
        views.waves_curve([1], [1.0], [1.0], capacity=0)

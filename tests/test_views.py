from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.container import BarContainer
from matplotlib.figure import Figure

from gpusim_des import views
from gpusim_des.gpu import load_gpu
from gpusim_des.timeline import BlockSpan, StateSpan, Timeline, WarpState
from gpusim_des.views.palette import STATE_STYLES, kernel_color, lighter
from gpusim_des.views.residency import mean_blocks

pytest_plugins = ["tests.timelines"]


@dataclass
class Run:
    """What ``simulate()`` returns, as far as views care."""

    timeline: Timeline


def legend(ax: Axes) -> list[str]:
    found = ax.get_legend()
    assert found is not None
    return [text.get_text() for text in found.get_texts()]


def legend_title(ax: Axes) -> str:
    found = ax.get_legend()
    assert found is not None
    return found.get_title().get_text()


def bars(ax: Axes) -> dict[str, list[tuple[float, float, float, float]]]:
    """Left, right, top and bottom of all bars by colour, in data coordinates."""
    found: dict[str, list[tuple[float, float, float, float]]] = {}
    for collection in ax.collections:
        boxes = [path.get_extents() for path in collection.get_paths()]
        color = to_hex(cast("Any", collection.get_facecolor())[0])
        found[color] = [(b.x0, b.x1, b.y0, b.y1) for b in boxes]
    return found


def texts(ax: Axes) -> list[str]:
    return [t.get_text() for t in ax.texts]


def draw(ax: Axes) -> None:
    """Render everything; warnings, for example of missing glyphs, are errors."""
    assert isinstance(ax.figure, Figure)
    ax.figure.draw_without_rendering()


# timeline


def test_timeline_draws_each_block_once_where_and_when_it_was_resident(three_waves: Timeline) -> None:
    ax = views.timeline(Run(three_waves), unit="cycles")
    dark, light = bars(ax)[kernel_color(0, 0)], bars(ax)[kernel_color(0, 1)]
    assert [(left, right) for left, right, _, _ in dark] == [(10, 40), (10, 40), (70, 100), (70, 100)]
    assert [(left, right) for left, right, _, _ in light] == [(40, 70), (40, 70)]
    assert [round((top + bottom) / 2, 9) for _, _, top, bottom in dark] == [0, 1, 0, 1]  # the SM is the row
    assert ax.get_xlim() == (10, 100)
    assert ax.get_ylim() == (1.5, -0.5)
    assert legend(ax) == ["add, waves 1, 3", "add, wave 2"]
    assert texts(ax) == ["0", "1", "2", "3", "4", "5"]
    assert ax.get_title() == "Resident blocks: add on tiny"
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("time (SM cycles)", "SM")
    draw(ax)


def test_timeline_in_microseconds_is_the_exact_quotient(three_waves: Timeline) -> None:
    odd = replace(three_waves, blocks=(BlockSpan(0, 0, 0, 0, 123_456_789, 9_876_543_211),))
    ax = views.timeline(odd)
    ((left, right, _, _),) = bars(ax)[kernel_color(0)]
    assert (left, right) == (123_456_789 / 10**9, 9_876_543_211 / 10**9)
    assert ax.get_xlabel() == "time (µs)"


def test_timeline_stacks_slots_without_overlap_and_separates_kernels(two_kernels: Timeline) -> None:
    ax = views.timeline(two_kernels, unit="cycles")
    ((_, _, top0, bottom0), (_, _, top1, bottom1)) = sorted(bars(ax)[kernel_color(1)], key=lambda b: b[2])
    assert 0.5 < top0 < bottom0 < top1 + 1e-9 < bottom1 < 1.5
    assert legend(ax) == ["add, wave 1", "add, wave 2", "\N{NO-BREAK SPACE}_scale"]
    draw(ax)


def test_timeline_shows_the_chosen_kernel_and_sms_only(two_kernels: Timeline) -> None:
    ax = views.timeline(two_kernels, kernel="_scale", sms=[1], unit="cycles")
    assert list(bars(ax)) == [kernel_color(1)]
    assert ax.get_xlim() == (40, 90)
    assert [t.get_text() for t in ax.get_yticklabels()] == ["1"]
    assert bars(views.timeline(two_kernels, kernel=0, sms=[1])) == bars(
        views.timeline(two_kernels, kernel="add", sms=[1])
    )


def test_launches_of_one_name_are_numbered_and_long_legends_say_what_is_left(three_waves: Timeline) -> None:
    add = three_waves.kernels[0]
    many = replace(
        three_waves, kernels=(add,) * 20, blocks=tuple(BlockSpan(k, 0, 0, 0, k, k + 1) for k in range(20)), warps=()
    )
    ax = views.timeline(many)
    assert legend(ax)[:2] == ["add #1", "add #2"]
    assert legend(ax)[-1] == "… and 5 more"
    assert len(legend(ax)) == 16
    draw(ax)


def test_timeline_of_twenty_thousand_blocks_is_fast(three_waves: Timeline) -> None:
    spans = tuple(
        BlockSpan(0, n, n % 132, n // 132 % 8, n // 1056 * 10**9, (n // 1056 + 1) * 10**9) for n in range(20_000)
    )
    began = time.perf_counter()
    ax = views.timeline(replace(three_waves, sms=132, blocks=spans))
    draw(ax)
    assert time.perf_counter() - began < 6  # about one second; a loaded machine may be slow
    assert len(ax.get_yticks()) <= 24
    assert texts(ax) == []


def test_bars_thinner_than_two_pixels_become_rows_of_shades(three_waves: Timeline) -> None:
    """Eight slots on 132 SMs: SM 0 holds eight blocks, SM 1 four, the others none."""
    spans = tuple(BlockSpan(0, n, n % 3 // 2, n // 3 * 2 + n % 3 % 2, 0, 10**9) for n in range(12))
    whole = replace(three_waves.kernels[0], start_fs=0, end_fs=10**9)
    ax = views.timeline(replace(three_waves, sms=132, blocks=spans, kernels=(whole,)))
    assert not ax.collections
    image = np.asarray(ax.images[0].get_array())
    assert image.shape[0] == 132
    assert [to_hex(image[sm, column]) for sm, column in ((0, 0), (0, -1))] == [kernel_color(0)] * 2
    assert to_hex(image[1, 400]) == lighter(kernel_color(0), 1 - 0.5**0.6)
    assert (image[2:] == 1).all()
    assert legend(ax) == ["add, 8 blocks", "4 blocks", "1 block"]
    draw(ax)
    # The same blocks on two SMs have room for bars.
    assert views.timeline(replace(three_waves, blocks=spans)).collections


def test_shades_mix_the_kernels_that_run_together(two_kernels: Timeline) -> None:
    both = replace(two_kernels, sms=2000, blocks=(BlockSpan(0, 0, 0, 0, 0, 10**8), BlockSpan(1, 0, 0, 1, 0, 10**8)))
    image = np.asarray(views.timeline(both).images[0].get_array())
    assert image[0, 5] == pytest.approx((np.array(to_rgb(kernel_color(0))) + to_rgb(kernel_color(1))) / 2)


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1000), st.integers(0, 1000)), max_size=12))
def test_shades_hold_all_the_time_of_all_blocks(spans: list[tuple[int, int, int]]) -> None:
    blocks = [BlockSpan(0, n, sm, n, min(a, b), max(a, b)) for n, (sm, a, b) in enumerate(spans)]
    means = mean_blocks(blocks, {0: 0, 1: 1}, np.linspace(0.0, 1000.0, 8))
    for sm in (0, 1):
        assert means[sm].sum() * 1000 / 7 == pytest.approx(sum(b.end_fs - b.start_fs for b in blocks if b.sm == sm))


@pytest.mark.parametrize("name", ["timeline", "warp_timeline", "stalls"])
def test_figures_draw_on_the_axes_they_get(three_waves: Timeline, name: str) -> None:
    ax = Figure(layout="constrained").add_subplot()
    assert getattr(views, name)(three_waves, ax=ax) is ax
    draw(ax)


def test_zoom_to_warps_is_the_warp_timeline(three_waves: Timeline) -> None:
    ax = views.timeline(three_waves, zoom="warps", sms=[1], unit="cycles")
    assert ax.get_title() == "Warps on SM 1: add on tiny"
    with pytest.raises(ValueError, match=r'zoom="warps" shows one SM, but sms names 2'):
        views.timeline(three_waves, zoom="warps", sms=[0, 1])
    with pytest.raises(ValueError, match=r"zoom = 'threads': choose"):
        views.timeline(three_waves, zoom=cast("Any", "threads"))


def test_missing_detail_is_named(no_detail: Timeline) -> None:
    with pytest.raises(ValueError, match=r'no blocks: simulate with detail="sm" or detail="warp"'):
        views.timeline(no_detail)
    with pytest.raises(ValueError, match=r'no warps: simulate with detail="warp"'):
        views.warp_timeline(no_detail)


def test_wrong_choices_are_refused(three_waves: Timeline) -> None:
    with pytest.raises(ValueError, match=r"kernel = 'mul': the simulation ran add"):
        views.timeline(three_waves, kernel="mul")
    with pytest.raises(ValueError, match=r"kernel = 1: the simulation ran 1 kernels"):
        views.stalls(three_waves, kernel=1)
    with pytest.raises(ValueError, match=r"sms contains 2: tiny has SMs 0 to 1"):
        views.timeline(three_waves, sms=range(3))
    with pytest.raises(ValueError, match="sms is empty"):
        views.timeline(three_waves, sms=[])
    with pytest.raises(ValueError, match=r"unit = 'ms': choose"):
        views.timeline(three_waves, unit=cast("Any", "ms"))
    with pytest.raises(TypeError, match=r"int has no timeline: pass what simulate\(\) returned"):
        views.timeline(cast("Any", 3))
    with pytest.raises(ValueError, match="ran no kernel"):
        views.stalls(Timeline("tiny", 2, 500_000))


# warp_timeline


def test_warp_timeline_tiles_each_row_with_states(three_waves: Timeline) -> None:
    ax = views.warp_timeline(three_waves, sm=1)
    assert [t.get_text() for t in ax.get_yticklabels()] == ["1.0", "1.1", "3.0", "3.1", "5.0", "5.1"]
    rows: dict[int, list[tuple[float, float]]] = {}
    for boxes in bars(ax).values():
        for left, right, top, bottom in boxes:
            rows.setdefault(round((top + bottom) / 2), []).append((left, right))
    for row, spans in rows.items():
        spans.sort()
        assert all(a[1] == b[0] for a, b in pairwise(spans))
        assert (spans[0][0], spans[-1][1]) == (10 + 30 * (row // 2), 40 + 30 * (row // 2))
    assert legend(ax) == ["selected", "drain", "long_scoreboard", "no_instruction"]
    assert ax.get_title() == "Warps on SM 1: add on tiny"


def test_rows_with_more_states_than_a_picture_shows_get_columns(three_waves: Timeline) -> None:
    (warp, *_), cycles = three_waves.warps, 3 * 5000
    edges = [(WarpState.WAIT, n, n + 2) for n in range(0, cycles, 3)]
    edges += [(WarpState.SELECTED, n + 2, n + 3) for n in range(0, cycles, 3)]
    states = tuple(StateSpan(*edge) for edge in sorted(edges, key=lambda edge: edge[1]))
    long = replace(warp, start_cycle=0, end_cycle=cycles, states=states, issues=())
    ax = views.warp_timeline(replace(three_waves, warps=(long,)))
    assert ax.get_title().endswith("\n(longest states)")
    assert sum(map(len, bars(ax).values())) < 4000
    assert list(bars(ax)) == [STATE_STYLES[WarpState.WAIT].color]


def test_warp_timeline_colours_say_the_state(three_waves: Timeline) -> None:
    selected = bars(views.warp_timeline(three_waves, warps=1))[STATE_STYLES[WarpState.SELECTED].color]
    assert [(left, right) for left, right, _, _ in selected] == [(14, 15), (34, 35)]
    in_us = bars(views.warp_timeline(three_waves, warps=1, unit="us"))[STATE_STYLES[WarpState.SELECTED].color]
    assert [(left, right) for left, right, _, _ in in_us] == [(0.007, 0.0075), (0.017, 0.0175)]


def test_warp_timeline_names_instructions_where_there_is_room(three_waves: Timeline) -> None:
    near = views.warp_timeline(three_waves, warps=[0, 1], start=0, end=36)
    # Each name stands in the time before its issue, in which the warp waits to issue it.
    assert texts(near) == ["global_load", "fp32", "global_load", "fp32"]
    ends = [text.get_position()[0] for text in near.texts]
    assert [round(end) for end in ends] == [14, 34, 15, 34]
    assert all(text.get_horizontalalignment() == "right" for text in near.texts)
    assert "it waits to issue" in legend_title(near)
    assert near.get_xlim() == (0, 36)
    inside = views.warp_timeline(three_waves, warps=[0], start=33, end=36)
    assert texts(inside) == ["fp32"]
    assert inside.texts[0].get_position() == (34.5, 0)
    far = views.warp_timeline(replace(three_waves, warps=three_waves.warps * 40))
    assert texts(far) == []
    assert legend_title(far) == "state of the warp"
    draw(far)


def test_titles_say_that_other_kernels_are_left_out(two_kernels: Timeline, three_waves: Timeline) -> None:
    some = three_waves.warps[0]
    places = ((0, 0), (0, 1), (1, 1))  # kernel and SM
    first = replace(two_kernels, warps=tuple(replace(some, kernel=kernel, sm=sm) for kernel, sm in places))
    assert views.warp_timeline(first, sm=0).get_title() == "Warps on SM 0: add (1 of 2 kernels) on tiny"
    assert views.warp_timeline(first, sm=1).get_title() == "Warps on SM 1: add, _scale on tiny"
    assert views.timeline(two_kernels, kernel=1).get_title() == "Resident blocks: _scale (1 of 2 kernels) on tiny"
    thrice = replace(three_waves, kernels=three_waves.kernels * 3)
    assert views.stalls(thrice, kernel=1).get_title() == "Where the warps' time went: add #2 (1 of 3 kernels) on tiny"


def test_long_names_of_a_gpu_are_told_in_full(three_waves: Timeline) -> None:
    name = load_gpu("h100-sxm").slice(sms=16).replace(dram_bandwidth="300 GB/s").title
    title = views.stalls(replace(three_waves, gpu_name=name)).get_title()
    assert title == f"Where the warps' time went: add\non {name}"


def test_warp_timeline_shows_warps_of_the_window_only(three_waves: Timeline) -> None:
    ax = views.warp_timeline(three_waves, sm=0, start=45, end=60)
    assert [t.get_text() for t in ax.get_yticklabels()] == ["2.0", "2.1"]
    with pytest.raises(ValueError, match=r"start = 50, end = 50: the end must come after"):
        views.warp_timeline(three_waves, start=50, end=50)
    with pytest.raises(ValueError, match="no warp was resident on the SM from 200 to 300"):
        views.warp_timeline(three_waves, start=200, end=300)
    with pytest.raises(ValueError, match=r"sm = 7: warps were recorded on SMs 0, 1"):
        views.warp_timeline(three_waves, sm=7)
    with pytest.raises(ValueError, match=r"warps = \[6\]: SM 0 has 6 warps, numbered from 0"):
        views.warp_timeline(three_waves, warps=[6])


# stalls


def widths(ax: Axes) -> list[list[float]]:
    return [[bar.get_width() for bar in c] for c in ax.containers if isinstance(c, BarContainer)]


def test_stalls_of_one_kernel_add_up_and_list_every_state(three_waves: Timeline) -> None:
    ax = views.stalls(three_waves)
    assert widths(ax) == [[30.0], [60.0], [10.0]]
    assert legend(ax) == ["selected  30.0%", "long_scoreboard  60.0%", "wait  10.0%"]
    assert texts(ax) == ["30%", "60%", "10%"]
    assert [t.get_text() for t in ax.get_yticklabels()] == ["add\n0.045 µs, 90 cycles"]


def test_stalls_keep_states_too_small_to_see(three_waves: Timeline) -> None:
    stalls = dict.fromkeys((s.suffix for s in WarpState), 1) | {"selected": 1_000_000}
    total = sum(stalls.values())
    kernel = replace(three_waves.kernels[0], stalls=stalls, resident_warp_cycles=total)
    ax = views.stalls(replace(three_waves, kernels=(kernel,)))
    assert len(widths(ax)) == len(WarpState)
    assert sum(itertools.chain(*widths(ax))) == pytest.approx(100)
    assert legend(ax)[1] == "barrier  < 0.1%"
    assert [label.split()[0] for label in legend(ax)] == [s.suffix for s in WarpState]
    draw(ax)


def test_stalls_of_several_kernels_share_a_legend(two_kernels: Timeline) -> None:
    ax = views.stalls(two_kernels, percent=False)
    assert legend(ax) == ["selected", "barrier", "branch_resolving", "long_scoreboard", "wait"]
    assert widths(ax) == [[30, 5], [0, 94], [0, 1], [60, 0], [10, 0]]
    assert ax.get_xlabel() == "resident warp-cycles"
    assert ax.get_title() == "Where the warps' time went: add, _scale on tiny"
    draw(ax)


def test_stalls_of_a_kernel_without_cycles_are_empty(three_waves: Timeline) -> None:
    empty = replace(three_waves.kernels[0], stalls={s.suffix: 0 for s in WarpState}, resident_warp_cycles=0)
    for percent in (True, False):
        ax = views.stalls(replace(three_waves, kernels=(empty,)), percent=percent)
        assert widths(ax) == []
        draw(ax)


# palette


def lab(rgb: np.ndarray) -> np.ndarray:
    """CIE L*a*b* of linear RGB."""
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    xyz = to_xyz @ np.clip(rgb, 0, 1) / np.array([0.9505, 1.0, 1.089])
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


VISION = {  # full dichromacy after Machado, Oliveira and Fernandes (2009), on linear RGB
    "normal": np.eye(3),
    "protan": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deutan": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritan": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}


@pytest.mark.parametrize("vision", VISION)
def test_states_can_be_told_apart_by_colour_or_hatch(vision: str) -> None:
    assert set(STATE_STYLES) == set(WarpState)
    seen = {}
    for state, style in STATE_STYLES.items():
        srgb = np.array(to_rgb(style.color))
        linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
        seen[state] = lab(VISION[vision] @ linear)
    for a, b in itertools.combinations(WarpState, 2):
        distance = float(np.linalg.norm(seen[a] - seen[b]))
        assert distance >= 15 or STATE_STYLES[a].hatch != STATE_STYLES[b].hatch, (a, b, distance)
    others = [float(c[0]) for s, c in seen.items() if s is not WarpState.SELECTED]
    assert seen[WarpState.SELECTED][0] + 25 < min(others)  # the only dark one


# the package


def test_matplotlib_is_imported_at_the_first_figure_only() -> None:
    code = "import sys, gpusim_des.views; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_new_figures_need_no_display_and_stay_unknown_to_pyplot() -> None:
    code = "import sys; from gpusim_des import views; views.waves_curve([1], [1.0], [1.0]).figure.savefig(sys.argv[1])"
    code += "; sys.exit('matplotlib.pyplot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code, os.devnull], check=False).returncode == 0


def test_public_names_exist_and_are_sorted() -> None:
    assert all(hasattr(views, name) for name in views.__all__)
    assert all(re.fullmatch(r"[A-Za-z_]+", name) for name in views.__all__)

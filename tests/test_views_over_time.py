"""Figures over time and of two runs: heights worked out by hand, what they say, what they refuse."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.patches import StepPatch

import gpusim_des as gs
from gpusim_des import views
from gpusim_des.line_site import NO_SITE, LineSite
from gpusim_des.simulation import Simulation
from gpusim_des.timeline import Operation, Timeline
from gpusim_des.views.residency import mean_running

pytest_plugins = ["tests.timelines"]

CYCLE = 500_000
"""Femtoseconds."""


def curve(ax: Axes, label: str) -> list[float]:
    """Heights of a curve's columns."""
    (found,) = (p for p in ax.patches if isinstance(p, StepPatch) and p.get_label() == label)
    return cast("list[float]", cast("Any", found.get_data()).values.tolist())


def names(ax: Axes) -> list[str]:
    found = ax.get_legend()
    return [] if found is None else [text.get_text() for text in found.get_texts()]


def at(ax: Axes, label: str, moment: float) -> float:
    """Height of a curve at a moment in the axis' unit."""
    (patch,) = (p for p in ax.patches if p.get_label() == label)
    values, edges, _ = cast("Any", patch).get_data()
    return float(values[np.searchsorted(edges, moment, side="right") - 1])


# Warps: three waves of one block on each of two SMs, two warps each, from cycle 10 to 100.


def test_resident_and_eligible_warps_are_means_of_an_sm(three_waves: Timeline) -> None:
    ax = views.active_warps(three_waves, unit="cycles")
    assert curve(ax, "resident") == pytest.approx([2.0] * 240)
    # In each block's 30 cycles the warps issue in cycles 4 and 5, and both in cycle 24: 4 warp-cycles on an SM.
    assert np.mean(curve(ax, "eligible")) == pytest.approx(4 / 30)
    assert at(ax, "eligible", 14.5) == pytest.approx(1.0)
    assert at(ax, "eligible", 34.5) == pytest.approx(2.0)
    assert at(ax, "eligible", 25.0) == pytest.approx(0.0, abs=1e-9)
    assert names(ax) == ["resident", "eligible", "schedulers (1)"]
    assert ax.get_title() == "Warps on all 2 SMs: add on tiny"


def test_without_warps_blocks_tell_how_many_are_resident(three_waves: Timeline) -> None:
    ax = views.active_warps(replace(three_waves, warps=()), unit="cycles")
    assert curve(ax, "resident") == pytest.approx([2.0] * 240)
    assert names(ax) == []


def test_warps_of_some_sms_are_means_of_those(three_waves: Timeline) -> None:
    watched = replace(three_waves, warps=tuple(w for w in three_waves.warps if w.sm == 1))
    ax = views.active_warps(watched)
    assert curve(ax, "resident") == pytest.approx([2.0] * 240)
    assert ax.get_title() == "Warps on 1 of 2 SMs: add on tiny"


def test_issue_slots_are_shares_of_all_schedulers(three_waves: Timeline) -> None:
    (kernel,) = three_waves.kernels
    half = replace(three_waves, kernels=(replace(kernel, sub_partitions=2),))
    ax = views.issue_utilization(half, unit="cycles")
    assert np.mean(curve(ax, "issue slots")) == pytest.approx(100 * 4 / 30 / 2)
    assert at(ax, "issue slots", 34.5) == pytest.approx(100.0)
    assert at(ax, "issue slots", 14.5) == pytest.approx(50.0)


# Bandwidth ----------------------------------------------------------------------------------------------------------


def test_bandwidth_adds_up_what_runs_at_once(three_waves: Timeline) -> None:
    # 4096 bytes of the kernel in 45 ns; a copy of 800 bytes in 20 ns that also moves 400 bytes of DRAM.
    copy = Operation(0, "h2d", "h2d a", 1, 0, 10 * CYCLE, 50 * CYCLE, 800, "copy engine 0", dram_bytes=400)
    kernel = Operation(1, "kernel", "add", 1, 0, 10 * CYCLE, 100 * CYCLE, dram_bytes=4096, kernel=0)
    ax = views.bandwidth(replace(three_waves, operations=(copy, kernel)), unit="cycles")
    assert names(ax) == ["DRAM", "host to device"]
    assert at(ax, "host to device", 30) == pytest.approx(40.0)
    assert at(ax, "host to device", 60) == pytest.approx(0.0, abs=1e-6)
    assert at(ax, "DRAM", 30) == pytest.approx(4096 / 45 + 20)
    assert at(ax, "DRAM", 80) == pytest.approx(4096 / 45)


@given(st.lists(st.tuples(st.integers(0, 900), st.integers(0, 100), st.floats(0, 50)), max_size=30), st.integers(1, 60))
def test_weighted_means_keep_the_sum(parts: list[tuple[int, int, float]], columns: int) -> None:
    spans = [(start, start + length) for start, length, _ in parts]
    means = mean_running(spans, np.linspace(0.0, 1000.0, columns + 1), [weight for *_, weight in parts])
    whole = sum(length * weight for _, length, weight in parts)
    assert means.sum() * 1000 / columns == pytest.approx(whole, rel=1e-9, abs=1e-6)


# Lines and runs -----------------------------------------------------------------------------------------------------


def widths(ax: Axes) -> dict[str, list[float]]:
    """Lengths of all bars by the first word of their label."""
    return {str(c.get_label()).split()[0]: [b.get_width() for b in cast("Any", c)] for c in ax.containers}


def test_stalls_of_lines_stand_in_the_order_of_the_source(three_waves: Timeline) -> None:
    (kernel,) = three_waves.kernels
    lines = {7: {"selected": 3, "wait": 4}, 0: {"selected": 2}, 3: {"long_scoreboard": 60}, 5: {"wait": 1}, 4: {}}
    stalls = {LineSite("k.py" if line else "", line): states for line, states in lines.items()}
    ax = views.line_stalls(replace(three_waves, kernels=(replace(kernel, line_stalls=stalls),)), most=3)
    assert [t.get_text() for t in ax.get_yticklabels()] == ["3", "7", "no line", "1 other line"]
    assert widths(ax) == {"selected": [0, 3, 2, 0], "long_scoreboard": [60, 0, 0, 0], "wait": [0, 4, 0, 1]}


def test_lines_of_several_files_name_them(three_waves: Timeline) -> None:
    (kernel,) = three_waves.kernels
    stalls = {LineSite("src/k.py", 3): {"selected": 5}, LineSite("src/help$.py", 3): {"wait": 4}, NO_SITE: {"wait": 1}}
    ax = views.line_stalls(replace(three_waves, kernels=(replace(kernel, line_stalls=stalls),)))
    assert [t.get_text() for t in ax.get_yticklabels()] == [r"help\$.py:3", "k.py:3", "no line"]
    assert widths(ax) == {"selected": [0, 5, 0], "wait": [4, 0, 1]}


def test_a_simulation_knows_the_text_of_its_lines() -> None:
    dev = gs.Device("tiny")
    dev.launch(price, 2, 64, dev.to_device(np.zeros(128, np.float32)))
    sim = dev.simulate()
    ax = views.line_stalls(sim)
    labels = [t.get_text() for t in ax.get_yticklabels()]
    assert any(label.startswith(r"a[i] = a[i] + 1.0  # \$") for label in labels)
    assert sum(map(sum, widths(ax).values())) == sim.kernels[0].resident_warp_cycles
    ax.figure.canvas.draw()  # Matplotlib would read two dollars as a formula


@gs.kernel
def price(t: Any, a: Any) -> None:
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    a[i] = a[i] + 1.0  # $ and $


def test_two_runs_are_compared_state_by_state(three_waves: Timeline) -> None:
    (kernel,) = three_waves.kernels
    stalls = kernel.stalls | {"long_scoreboard": 15, "barrier": 5}
    faster = replace(
        kernel, end_fs=55 * CYCLE, stalls=stalls, resident_warp_cycles=60, warp_instructions=30, sm_active_cycles=90
    )
    ax = views.compare_runs(three_waves, replace(three_waves, kernels=(faster,)), labels=("naive", "tiled"))
    assert ax.get_title() == "tiled takes 0.5 times the kernel time of naive"
    # 45 ns are divided as 30, 60 and 10, 22.5 ns as 30, 5, 15 and 10.
    changes = ["selected  -0.00225 µs", "barrier  +0.00187 µs", "long_scoreboard  -0.0214 µs", "wait  -0.00075 µs"]
    assert names(ax) == changes
    assert widths(ax)["long_scoreboard"] == pytest.approx([0.027, 0.005625])
    assert [sum(of_run) for of_run in zip(*widths(ax).values(), strict=True)] == pytest.approx([0.045, 0.0225])
    first, second = (t.get_text().split("\n") for t in ax.get_yticklabels())
    assert first == ["naive", "45 ns, 30 instructions", "3.33 warp-cycles each", "4 KiB of DRAM", "occupancy 14%"]
    assert second == ["tiled", "22.5 ns, 30 instructions", "2 warp-cycles each", "4 KiB of DRAM", "occupancy 14%"]


def test_comparing_needs_the_kernel_in_both_runs(three_waves: Timeline, two_kernels: Timeline) -> None:
    ax = views.compare_runs(three_waves, two_kernels, kernel="add")
    assert ax.get_title() == "B takes 0.667 times the kernel time of add of A"
    with pytest.raises(ValueError, match=r"kernel = '_scale': the simulation ran add"):
        views.compare_runs(three_waves, two_kernels, kernel="_scale")


# What is refused ----------------------------------------------------------------------------------------------------


def test_missing_data_is_named(no_detail: Timeline, three_waves: Timeline) -> None:
    with pytest.raises(ValueError, match='the timeline holds no blocks: simulate with detail="sm"'):
        views.active_warps(no_detail)
    with pytest.raises(ValueError, match='the timeline holds no warps: simulate with detail="warp"'):
        views.issue_utilization(replace(three_waves, warps=()))
    with pytest.raises(ValueError, match="the timeline holds nothing that moves bytes: launch or copy something"):
        views.bandwidth(Timeline("tiny", 2, CYCLE))
    with pytest.raises(ValueError, match="most = 0: must be at least 1; leave it out for 14"):
        views.line_stalls(three_waves, most=0)
    with pytest.raises(ValueError, match="unit = 'ms': choose"):
        views.active_warps(three_waves, unit=cast("Any", "ms"))


# Folders ------------------------------------------------------------------------------------------------------------

ALWAYS = ["bandwidth.png", "stalls.png"]
PAGES = ["report.html", "trace.json.gz"]


def test_a_report_has_the_figures_that_there_is_data_for(
    three_waves: Timeline, no_detail: Timeline, tmp_path: Path
) -> None:
    (kernel,) = three_waves.kernels
    full = replace(
        three_waves,
        kernels=(replace(kernel, line_stalls={LineSite("k.py", 3): kernel.stalls}),),
        operations=(Operation(0, "h2d", "h2d a", 1, 0, 0, 8 * CYCLE, 4096, "copy engine 0"),),
    )
    copies = Timeline("tiny", 2, CYCLE, operations=full.operations)
    blocks = ["blocks.png", "active_warps.png"]
    warps = ["issue_utilization.png", "warps.png"]
    expected = {
        "full": (full, ["streams.png", *ALWAYS, "line_stalls.png", *blocks, *warps, *PAGES]),
        "kernels": (no_detail, [*ALWAYS, *PAGES]),
        "copies": (copies, ["streams.png", "bandwidth.png", *PAGES]),
        "nothing": (Timeline("tiny", 2, CYCLE), PAGES),
    }
    for name, (record, files) in expected.items():
        written = Simulation(record, "simpy").report(tmp_path / "a" / name)
        assert written == [tmp_path / "a" / name / file for file in files]
        assert sorted(p.name for p in (tmp_path / "a" / name).iterdir()) == sorted(files)
        assert all(path.stat().st_size > 100 for path in written)


def test_a_folder_that_is_a_file_is_named(three_waves: Timeline, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    for folder in (tmp_path / "out", tmp_path / "out" / "deeper"):
        with pytest.raises(NotADirectoryError, match=r"cannot write a report to .*out.*: it is a file, or lies in one"):
            Simulation(three_waves, "simpy").report(folder)
    assert (tmp_path / "out").read_text() == "mine"

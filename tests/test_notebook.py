"""What notebooks show of launches, simulations, occupancies and comparisons: right figures, escaped, in no colour."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

import gpusim_des as gs
from gpusim_des.simulation import Simulation
from gpusim_des.timeline import Timeline

pytest_plugins = ["tests.timelines"]

HOSTILE = "<script>alert('1')</script> & é"


class Reader(HTMLParser):
    """Rows of cells, other texts, and elements."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.texts: list[str] = []
        self.tags: list[str] = []
        self._cell = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert tag in {"div", "b", "table", "tr", "th", "td", "p"}
        assert "color" not in str(attrs)
        assert "background" not in str(attrs)
        if tag == "tr":
            self.rows.append([])
        self._cell = tag in {"th", "td"}
        if self._cell:
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        self._cell = False

    def handle_data(self, data: str) -> None:
        if self._cell:
            self.rows[-1][-1] += data
        else:
            self.texts.append(data)


@gs.block_kernel
def double(blk: Any, a: Any) -> None:
    i = blk.bx * blk.bdx + blk.tx
    blk.store(a, i, 2 * blk.load(a, i))


def launch() -> tuple[gs.Device, Any]:
    dev = gs.Device("tiny")
    a = dev.to_device(np.zeros(256, np.float32))
    return dev, dev.launch(double, 4, 64, a, registers=20)


def test_a_launch_shows_what_it_counted() -> None:
    reader = Reader(launch()[1]._repr_html_())
    assert reader.texts == ["double, launched on tiny (two SMs, round numbers)"]
    assert reader.rows == [
        ["grid × block", "(4, 1, 1) × (64, 1, 1)"],
        ["blocks", "4 of 2 warps"],
        ["registers per thread", "20"],
        ["shared memory per block", "0 B"],
        ["warp instructions", "56"],
        ["active lanes, mean", "32 of 32"],
        ["sectors per load request", "4"],
        ["sectors per store request", "4"],
    ]


def test_a_captured_launch_says_that_it_has_not_run() -> None:
    found = replace(launch()[1], captured=True, name=HOSTILE)
    reader = Reader(found._repr_html_())
    assert reader.texts[0].startswith(HOSTILE)
    assert reader.texts[1:] == ["It went into a graph and has not run."]


def test_a_simulation_shows_kernels_and_what_limits_them() -> None:
    dev, _ = launch()
    sim = dev.simulate()
    reader = Reader(sim._repr_html_())
    assert reader.texts == [f"Simulation on {sim.timeline.gpu_name}", *sim.explain().split("\n")]
    assert reader.rows[1:4] == [["kernels", "1"], ["copies", "1, 1 KiB"], ["engine", "simpy"]]
    (kernel,) = sim.kernels
    assert reader.rows[5][0] == "double"
    assert reader.rows[5][3] == f"{kernel.cycles:,}"
    assert reader.rows[5][5] == kernel.main_stall


def test_a_simulation_of_many_kernels_shows_twenty(three_waves: Timeline) -> None:
    (first,) = three_waves.kernels
    kernels = tuple(replace(first, name=f"{HOSTILE}{n}") for n in range(30))
    reader = Reader(Simulation(replace(three_waves, kernels=kernels, complete=False), "simpy")._repr_html_())
    assert len(reader.rows) == 4 + 1 + 20
    assert reader.rows[5][0] == HOSTILE + "0"
    assert reader.texts[1] == "The simulation was stopped: this is what had happened until then."
    assert reader.texts[2] == "The first 20 of 30 kernels are shown."
    assert len(reader.texts) == 3 + 20


def test_a_simulation_without_kernels() -> None:
    reader = Reader(Simulation(Timeline("tiny", 2, 500_000), "simpy")._repr_html_())
    assert reader.rows[0] == ["time", "0 µs"]
    assert reader.texts[1].startswith("No kernel ran")


def test_an_occupancy_shows_its_limit() -> None:
    reader = Reader(gs.analytic.occupancy("a100-sxm-80gb", threads=256, registers=34)._repr_html_())
    assert reader.texts == ["Occupancy, limited by registers"]
    assert reader.rows == [
        ["occupancy", "75.0%"],
        ["blocks per SM", "6"],
        ["active warps per SM", "48"],
        ["warps admit", "8"],
        ["registers admit", "6 ← limit"],
        ["shared_mem admit", "164"],
        ["blocks admit", "32"],
        ["registers per block, allocated", "10,240"],
        ["shared memory per block, allocated", "1 KiB"],
    ]


@pytest.mark.parametrize("label", ["4 warps", HOSTILE])
def test_a_comparison_is_escaped(label: str) -> None:
    table = gs.compare([100.0], [99.0], name=HOSTILE, labels=[label])
    with pytest.raises(AssertionError):
        Reader("<script>")
    assert Reader(table._repr_html_().replace(' style="text-align:left"', "")).rows[2][:3] == [label, "100", "99"]

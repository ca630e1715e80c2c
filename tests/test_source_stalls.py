"""Stall cycles beside source lines: they add up, and stand where the warp waited to issue."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpusim_des as gs
from gpusim_des.line_site import LineSite
from gpusim_des.timing.line_states import scaled_states
from gpusim_des.timing.simulate import simulate
from tests import advised_kernels as k
from tests.advised_kernels import number_of
from tests.programs import TINY, chain, trace
from tests.test_source_view import cubes


@gs.kernel
def load_then_use(t: Any, a: Any, out: Any) -> Any:
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    v = a[i]
    w = v * 2.0
    yield t.syncthreads()
    out[i] = w


def program() -> gs.Device:
    dev = gs.Device(gs.load_gpu("h100-sxm").slice(sms=2))
    a, b, out = (dev.to_device(np.zeros(1 << 12, np.float32), name) for name in ("a", "b", "out"))
    dev.launch(k.vector_add, 17, 240, a, b, out, 1 << 12)
    dev.launch(load_then_use, 8, 256, a, out)
    dev.launch(k.odd_and_even, 4, 96, out)
    dev.launch(load_then_use, 4, 64, a, out)
    return dev


@pytest.mark.parametrize("engine", ["simpy", "compiled"])
def test_stalls_of_lines_add_up(engine: Any) -> None:
    sim = program().simulate(engine=engine)
    for number, kernel in enumerate(sim.kernels):
        rows = sim.source(number).rows()
        assert sum(row["cycles"] for row in rows) == kernel.resident_warp_cycles
        states: Counter[str] = Counter()
        for row in rows:
            assert row["cycles"] == sum(row["stalls"].values())
            assert row["stalls"].get("selected", 0) == row["instructions"]
            states.update(row["stalls"])
        assert states == {state: cycles for state, cycles in kernel.stalls.items() if cycles}
        assert sum(row["instructions"] for row in rows) == kernel.warp_instructions


def test_every_kernel_has_its_own_source() -> None:
    sim = program().simulate()
    assert [kernel.number for kernel in sim.kernels] == [0, 1, 2, 3]
    assert [str(sim.source(n)).split(":")[0] for n in range(4)] == [kernel.name for kernel in sim.kernels]
    twice = [sum(row["instructions"] for row in sim.source(n).rows()) for n in (1, 3)]
    assert twice[0] == 8 * twice[1]
    with pytest.raises(IndexError, match="kernel = 4: this simulation has 4 kernels"):
        sim.source(4)


def test_a_wait_stands_at_the_line_that_waits() -> None:
    sim = program().simulate(engine="simpy")
    by_line = {row["line"]: row["stalls"] for row in sim.source(1).rows()}
    use, after = number_of(load_then_use, "w = v * 2.0"), number_of(load_then_use, "out[i] = w")
    assert {line for line, stalls in by_line.items() if stalls.get("long_scoreboard")} == {use}
    assert {line for line, stalls in by_line.items() if stalls.get("barrier")} == {after}
    first = number_of(load_then_use, "i = t.blockIdx.x")
    assert {line for line, stalls in by_line.items() if stalls.get("no_instruction")} == {first}
    shown = next(line for line in str(sim.source(1)).splitlines() if line.endswith("w = v * 2.0"))
    worst, *others = sorted(by_line[use].items(), key=lambda item: -item[1])
    assert worst[0] == "long_scoreboard"
    assert f"  long_scoreboard {worst[1]:,}, {others[0][0]} {others[0][1]:,}" in shown
    assert "rgba" in sim.source(1).to_html()


def test_all_cycles_stand_beside_their_reason() -> None:
    """The text sums what it does not name; the page has a column for each state."""
    sim = program().simulate()
    rows = sim.source(1).rows()
    for row, text in zip(rows, str(sim.source(1)).splitlines()[2:], strict=True):
        told = re.findall(r"(?:[a-z]+_?[a-z]+|others) ([\d,]+)(?=,|  )", text.split(" %  ")[1]) if row["cycles"] else []
        assert sum(int(number.replace(",", "")) for number in told) == row["cycles"]
    html = sim.source(1).html_table()
    heads = re.findall(r"<th>(.+?)</th>", html)
    figures = [re.findall(r"<td>(.*?)</td>", line) for line in html.split("<tr>")[2:]]
    states = [state for state, cycles in sim.kernels[1].stalls.items() if cycles]
    assert [head for head in heads if head in sim.kernels[1].stalls] == states
    for state in states:
        shown = [int(line[heads.index(state)].replace(",", "") or 0) for line in figures]
        assert shown == [row["stalls"].get(state, 0) for row in rows]


def test_kernels_of_graphs_have_sources() -> None:
    dev = gs.Device("tiny")
    a, stream = dev.to_device(np.zeros(64, np.float32), "a"), dev.stream()
    with dev.capture(stream) as graph:
        dev.launch(k.scaled, 1, 64, a, a, 2, stream=stream)
    dev.launch(k.odd_and_even, 1, 64, a)
    graph.launch(stream)
    graph.launch(stream)
    sim = dev.simulate()
    assert [str(sim.source(n)).split(":")[0] for n in range(3)] == ["odd_and_even", "scaled", "scaled"]


def test_helpers_in_other_files_have_their_stalls() -> None:
    dev = gs.Device("tiny")
    a, out = (dev.to_device(np.zeros(256, np.float32), name) for name in ("a", "out"))
    dev.launch(cubes, 4, 64, a, out)
    sim = dev.simulate()
    rows = sim.source().rows()
    helper = next(row for row in rows if row["text"] == "    return x * x * x")
    assert helper["stalls"]["wait"] > 0
    assert sum(row["cycles"] for row in rows) == sim.kernels[0].resident_warp_cycles


def test_traces_without_a_source_show_their_lines() -> None:
    timeline = simulate(TINY, [trace([chain(4)])])
    view = gs.Simulation(timeline, "simpy").source()
    assert [row["line"] for row in view.rows()] == [0, 1]  # two instructions on each
    assert [row["stalls"]["selected"] for row in view.rows()] == [2, 2]
    assert sum(row["cycles"] for row in view.rows()) == timeline.kernels[0].resident_warp_cycles


@given(
    played=st.dictionaries(st.integers(0, 9), st.lists(st.integers(0, 50), min_size=3, max_size=3), max_size=5),
    totals=st.lists(st.integers(0, 500), min_size=3, max_size=3),
)
def test_scaled_states_add_up_and_keep_their_proportions(played: dict[int, list[int]], totals: list[int]) -> None:
    by_site = {LineSite("k.py" if n else "", n): states for n, states in played.items()}
    scaled = scaled_states(by_site, totals)
    for state, total in enumerate(totals):
        assert sum(states[state] for states in scaled.values()) == total
        before = sum(states[state] for states in by_site.values())
        if before:
            assert all(abs(scaled[n][state] - by_site[n][state] * total / before) < 1 for n in by_site)

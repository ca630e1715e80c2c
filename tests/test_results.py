"""Results as data: what is loaded is what was saved."""

from __future__ import annotations

import json
import linecache
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gpusim_des as gs
from gpusim_des.functional.counters import AccessCounts, AccessSite, Counters
from gpusim_des.functional.line_counts import AccessPattern
from gpusim_des.functional.source_text import source_text
from gpusim_des.report.page import report_page
from gpusim_des.results import VERSION, from_plain, to_plain
from gpusim_des.timeline import BlockSpan, Cause, HostSpan, IssueEvent, Operation, StateSpan, WarpHistory, WarpState
from tests.results import ALL, every_warp, sampled, streams, totals

pytest_plugins = ["tests.timelines"]

each = pytest.mark.parametrize("make", ALL.values(), ids=list(ALL))


@each
@pytest.mark.parametrize("name", ["run.json", "run.json.gz"])
def test_what_is_loaded_equals_what_was_saved(make: Callable[[], gs.Simulation], name: str, tmp_path: Path) -> None:
    sim = make()
    sim.save(tmp_path / name)
    back = gs.load_result(tmp_path / name)

    assert back == sim
    assert back.counters == sim.counters
    assert [type(c) for c in back.counters] == [type(c) for c in sim.counters]
    assert back.explain() == sim.explain()
    assert back.advice() == sim.advice()
    for number in range(len(sim.kernels)):
        assert str(back.source(number)) == str(sim.source(number))
        assert back.source(number).rows() == sim.source(number).rows()
    assert report_page(back) == report_page(sim)
    assert back.to_dict() == sim.to_dict()
    assert str(back.overlap()) == str(sim.overlap())
    assert [k.metrics() for k in back.kernels] == [k.metrics() for k in sim.kernels]
    assert gs.views.chrome_trace(back) == gs.views.chrome_trace(sim)
    assert [p.name for p in tmp_path.iterdir()] == [name]
    assert ((tmp_path / name).read_bytes()[:2] == b"\x1f\x8b") == name.endswith(".gz")


def test_figures_are_those_of_the_original(tmp_path: Path) -> None:
    sim = every_warp()
    sim.save(tmp_path / "run.json")
    back = gs.load_result(tmp_path / "run.json")
    views = gs.views
    for figure in (
        *(views.timeline, views.warp_timeline, views.stalls, views.stream_timeline),
        *(views.bandwidth, views.line_stalls),
    ):
        pictures = []
        for which, name in ((sim, "a.png"), (back, "b.png")):
            gs.views.save(figure(which), tmp_path / name)
            pictures.append((tmp_path / name).read_bytes())
        assert pictures[0] == pictures[1], figure.__name__


def test_why_follows_waits_in_a_loaded_result() -> None:
    sim = every_warp()
    back = gs.Simulation.from_dict(json.loads(json.dumps(sim.to_dict())))
    cycle = sim.timeline.warps[0].start_cycle + 100
    assert back.why(0, cycle) == sim.why(0, cycle)
    assert back.why(0, cycle)


def test_a_loaded_result_needs_no_source_file(tmp_path: Path) -> None:
    """The kernel's text and what costs it time are in the file; the module that it stood in is gone."""
    text = """\
import gpusim_des as gs

@gs.kernel
def spread(t, a, b):
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    b[i] = a[8 * i]
"""
    names: dict[str, Any] = {}
    linecache.cache["<spread>"] = (len(text), None, text.splitlines(keepends=True), "<spread>")
    exec(compile(text, "<spread>", "exec"), names)
    dev = gs.Device("tiny")
    a, b = dev.malloc(8192, np.float32, "a"), dev.malloc(1024, np.float32, "b")
    dev.memset(a, 0)
    dev.launch(names["spread"], 8, 128, a, b)
    dev.simulate().save(tmp_path / "run.json.gz")
    del linecache.cache["<spread>"]
    source_text.cache_clear()
    back = gs.load_result(tmp_path / "run.json.gz")
    assert not back.launches
    (found,) = (advice for advice in back.advice() if advice.check == "uncoalesced")
    assert (found.array, found.figure, found.line, found.code) == ("a", 32, 6, "b[i] = a[8 * i]")
    (row,) = (row for row in back.source().rows() if row["line"] == 6)
    assert (row["text"], row["sectors"]) == ("    b[i] = a[8 * i]", 32 * (32 + 4))
    assert "b[i] = a[8 * i]" in report_page(back)


def test_two_saves_are_equal_to_the_byte(tmp_path: Path) -> None:
    for name in ("a.json.gz", "b.json.gz"):
        streams().save(tmp_path / name)
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()


def test_the_form_of_a_small_timeline(no_detail: gs.Timeline) -> None:
    data = gs.Simulation(replace(no_detail, blocks=(BlockSpan(0, 3, 1, 0, 5, 9),)), "simpy").to_dict()
    assert data["format"] == "gpusim_des result"
    assert data["version"] == VERSION == 2
    assert data["engine"] == "simpy"
    assert data["timeline"]["blocks"] == {
        "kernel": [0],
        "block": [3],
        "sm": [1],
        "slot": [0],
        "start_fs": [5],
        "end_fs": [9],
    }
    assert data["timeline"]["kernels"]["stalls"][0]["long_scoreboard"] == 60
    assert data["timeline"]["event_times"] == {}
    assert data["counters"] == []


# Round trip of anything ----------------------------------------------------------------------------------------------

names = st.text(st.characters(codec="utf-8"), max_size=12)
fs = st.integers(0, 2**60)
small = st.integers(0, 1000)
causes = st.none() | st.builds(Cause, names, st.none() | small, st.none() | small)
histories = st.builds(
    WarpHistory,
    *[small] * 7,
    states=st.lists(st.builds(StateSpan, st.sampled_from(WarpState), small, small, causes), max_size=4).map(tuple),
    issues=st.lists(st.builds(IssueEvent, small, small, names, small, small), max_size=3).map(tuple),
)
operations = st.builds(Operation, small, names, names, small, fs, fs, fs, pageable=st.booleans(), waited_for=names)
timelines = st.builds(
    gs.Timeline,
    names,
    small,
    fs,
    blocks=st.lists(st.builds(BlockSpan, small, small, small, small, fs, fs), max_size=4).map(tuple),
    warps=st.lists(histories, max_size=4).map(tuple),
    complete=st.booleans(),
    operations=st.lists(operations, max_size=3).map(tuple),
    host=st.lists(st.builds(HostSpan, names, fs, fs, st.booleans()), max_size=3).map(tuple),
    event_times=st.dictionaries(small, fs, max_size=3),
    stream_names=st.dictionaries(small, names, max_size=3),
)


@given(timelines)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_records_survive_json(timeline: gs.Timeline) -> None:
    data = json.loads(json.dumps(to_plain(timeline, gs.Timeline)))
    assert from_plain(data, gs.Timeline, "timeline") == timeline


HITS = np.array([1, 0, 5])


def test_counters_survive_json() -> None:
    counters = Counters(blocks=3, instruction_mix=Counter(fp32=7, int=2))
    counters.accesses[AccessSite("a", "global", "load", 4, 9)] = AccessCounts(1, 32, 128, 4, 1, 1)
    counters.patterns[AccessSite("h", "global", "atomic", 5, 1)] = AccessPattern(Counter({None: 3, -128: 2}), HITS)
    counters.shared_arrays["tile"] = (32, 33), "float32"
    data = json.loads(json.dumps(to_plain(counters, Counters)))
    back = from_plain(data, Counters, "counters")
    assert back == counters
    assert type(back.instruction_mix) is Counter
    (pattern,) = back.patterns.values()
    assert pattern.strides == Counter({None: 3, -128: 2})
    assert pattern.hits is not None
    assert (pattern.hits == HITS).all()
    assert pattern.hits.dtype == np.int64
    assert data["instruction_mix"] == {"fp32": 7, "int": 2}
    ((site, counts),) = data["accesses"]
    assert (site["array"], site["line"], counts["sectors"]) == ("a", 4, 4)


def test_a_launch_as_data() -> None:
    dev = gs.Device("tiny")
    from tests.results import saxpy  # noqa: PLC0415 - the fixture module's kernel, by its own name

    x, y = dev.malloc(100, "f4"), dev.malloc(100, "f4")
    data = dev.launch(saxpy, 2, 64, x, y, 100, 2.0, registers=20).to_dict()
    assert (data["name"], data["grid"], data["block"], data["registers"]) == ("saxpy", [2, 1, 1], [64, 1, 1], 20)
    assert data["counters"]["global_load_sectors"] == 2 * 13  # two arrays of 400 bytes
    assert json.loads(json.dumps(data)) == data


@gs.kernel
def reversed_without_barrier(t: Any, a: Any, c: Any) -> Any:
    tile = t.shared("tile", (2, 32), np.int32)
    tile[t.threadIdx.x // 32, t.lane] = 1
    c[t.threadIdx.x] = tile[1 - t.threadIdx.x // 32, t.lane] + a[t.threadIdx.x]


def test_mistakes_as_data() -> None:
    dev = gs.Device("tiny")
    a, c = dev.malloc(64, np.int32, "a"), dev.malloc(64, np.int32, "c")
    launch = dev.launch(reversed_without_barrier, 1, 64, a, c)
    data = launch.to_dict()
    race, read = data["mistakes"]
    assert (race["mistake"], race["array"], race["element"], race["count"]) == ("Race", "tile", [1, 0], 64)
    assert (race["second"]["kind"], race["second"]["thread"]) == ("read", [0, 0, 0])
    assert race["second"]["site"]["file"] == __file__
    assert race["second"]["site"]["line"] == race["first"]["site"]["line"] + 1 == launch.races[0].second.line
    assert f"{race['finding']} (64 times); {race['remedy']}" in str(launch.races[0])
    assert (read["mistake"], read["memory"], read["block"], read["count"]) == ("UnwrittenRead", "global", [0, 0, 0], 64)
    assert "remedies" not in race
    assert data["unreported"] == {}
    assert json.loads(json.dumps(data)) == data


# Rows ----------------------------------------------------------------------------------------------------------------


def test_rows_of_kernels_have_the_same_keys_and_plain_values() -> None:
    rows = every_warp().to_rows()
    assert [row["name"] for row in rows] == ["saxpy", "reverse"]
    assert list(rows[0]) == list(rows[1])
    for row, kernel in zip(rows, every_warp().kernels, strict=True):
        assert all(value is None or isinstance(value, str | int | float) for value in row.values())
        assert row["seconds"] == kernel.seconds
        assert row["gpu"] == "tiny (two SMs, round numbers)"
        stalls = sum(v for name, v in row.items() if name.startswith("stall_"))
        assert stalls == kernel.resident_warp_cycles == row["resident_warp_cycles"]
    assert rows[0]["instructions_barrier"] == 0
    assert rows[1]["instructions_barrier"] == 8
    assert rows[1]["counted_barriers"] == 4


def test_rows_of_other_kinds() -> None:
    sim = streams()
    assert [row["kind"] for row in sim.to_rows("operations")] == ["h2d", "kernel", "d2h"]
    assert len(sim.to_rows("blocks")) == 8
    assert sim.to_rows("host")[0]["name"] == sim.timeline.host[0].name
    assert totals().to_rows()[0]["l2_hit_rate"] is None
    assert sampled().to_rows()[0]["relative_error"] > 0
    with pytest.raises(ValueError, match=r"to_rows\('warps'\): possible are 'kernels', 'operations'"):
        sim.to_rows("warps")  # type: ignore[arg-type]

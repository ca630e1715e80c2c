"""Results as data: what is loaded is what was saved, and what is wrong with a file is said."""

from __future__ import annotations

import gzip
import json
import linecache
import resource
import subprocess
import sys
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


# Files that are wrong ------------------------------------------------------------------------------------------------


def load(tmp_path: Path, content: bytes | str | dict[str, Any]) -> gs.Simulation:
    path = tmp_path / "r.json"
    data = json.dumps(content) if isinstance(content, dict) else content
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return gs.load_result(path)


def good() -> dict[str, Any]:
    data: dict[str, Any] = json.loads(json.dumps(every_warp().to_dict()))
    return data


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"the JSON is cut off"),
        ("{}", r"not a result of gpusim_des: sim\.save\(path\) writes one"),
        ("[1, 2]", r"not a result of gpusim_des"),
        ('{"traceEvents": []}', r"not a result of gpusim_des"),
        ("kernel,seconds\n", r"not JSON"),
        (b"\xff\xfe\x00", r"not a text in UTF-8"),
        ("[" * 200_000, r"nested too deeply"),
        ('{"a":' * 200_000, r"nested too deeply"),
        ('{"format": "gpusim_des result", "version": 3}', r"version 3, this gpusim_des reads up to 2: install a newer"),
        ('{"format": "gpusim_des result", "version": true}', r"version = True: must be a whole number"),
        ('{"format": "gpusim_des result", "version": -1}', r"version = -1: must be a whole number"),
        ('{"format": "gpusim_des result", "version": 1}', r"version 1, this gpusim_des reads 2 and later: simulate"),
        ('{"format": "gpusim_des result", "version": 2}', r"no entry 'engine'"),
        ('{"format": "gpusim_des result", "version": 2, "extra": 1}', r"unknown entry 'extra': a newer"),
        ('{"version": NaN}', r"NaN is no number of JSON"),
        ('{"version": -Infinity}', r"-Infinity is no number of JSON"),
        ('{"version": ' + "9" * 10_000 + "}", r"a number with thousands of digits"),
        (b"\x1f\x8b\x08\x00broken", r"a broken gzip file .*Save the result again"),
    ],
)
def test_files_that_are_no_results(content: bytes | str, message: str, tmp_path: Path) -> None:
    with pytest.raises(gs.ReadError, match=rf"r\.json: .*{message}"):
        load(tmp_path, content)


Edit = Callable[[dict[str, Any]], object]


def put(data: dict[str, Any], path: str, value: object) -> None:
    *parts, last = path.split(".")
    place: Any = data
    for part in parts:
        place = place[int(part)] if isinstance(place, list) else place[part]
    if isinstance(place, list):
        place[int(last)] = value
    else:
        place[last] = value


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("engine", "magic", r"engine = 'magic': must be 'simpy' or 'compiled'"),
        ("counters", {}, r"counters = \{\}: must be a list"),
        ("counters.0.blocks", "4", r"counters\[0\]\.blocks = '4': must be a whole number"),
        ("counters.0.instruction_mix", [1], r"instruction_mix = \[1\]: must be an object"),
        ("counters.0.accesses.0", [1], r"accesses\[0\] = \[1\]: must be a pair"),
        ("timeline.sms", 0, r"timeline\.sms = 0: must lie between 1 and 65,535"),
        ("timeline.sms", 1, r"sm = 1: there are 1 SMs"),
        ("timeline.sms", 2.0, r"timeline\.sms = 2\.0: must be a whole number"),
        ("timeline.sms", True, r"timeline\.sms = True: must be a whole number"),
        ("timeline.sms", 10**30, r"timeline\.sms = 10{30}: must be a whole number of at most 64 bits"),
        ("timeline.sm_period_fs", 0, r"sm_period_fs = 0: must be at least 1"),
        ("timeline.gpu_name", None, r"gpu_name = None: must be a text"),
        ("timeline.gpu_name", "\ud800", r"gpu_name = '\\ud800': must be a text"),
        ("timeline.complete", 1, r"complete = 1: must be true or false"),
        ("timeline.blocks.kernel.0", 2, r"blocks\[0\]\.kernel = 2: there are 2 kernels"),
        ("timeline.blocks.kernel.0", "0", r"blocks\.kernel\[0\] = '0': must be a whole number"),
        ("timeline.blocks.end_fs.0", 0, r"blocks\[0\]\.end_fs = 0: must not lie before start_fs"),
        ("timeline.blocks.sm", [0], r"blocks has columns of different lengths"),
        ("timeline.blocks.place", [0], r"blocks has the unknown entry 'place': a newer gpusim_des wrote it"),
        ("timeline.kernels.name.0", 5, r"kernels\.name\[0\] = 5: must be a text"),
        ("timeline.kernels.stalls.0", {}, r"kernels\[0\]\.stalls = \[\]: must have the states selected, barrier"),
        ("timeline.kernels.cycles.0", -1, r"kernels\[0\]\.cycles = -1: must be at least 0"),
        ("timeline.kernels.blocks_per_sm.0", 0, r"kernels\[0\]\.blocks_per_sm = 0: must be at least 1"),
        ("timeline.kernels.resident_warp_cycles.0", 1, r"resident_warp_cycles = 1: must be the sum of stalls"),
        ("timeline.kernels.achieved_occupancy.0", 1e308, r"achieved_occupancy = 1e\+308: must lie between 0 and 1"),
        ("timeline.kernels.theoretical_occupancy.0", 1.1, r"theoretical_occupancy = 1\.1: must lie between 0 and 1"),
        ("timeline.kernels.achieved_occupancy.0", "x", r"achieved_occupancy\[0\] = 'x': must be a finite number"),
        ("timeline.warps.states.lengths.0", 0, r"states: lengths add up to \d+, but there are \d+ rows"),
        ("timeline.warps.states.rows.state.0", "asleep", r"state\[0\] = 'asleep': must be one of selected, barrier"),
        ("timeline.warps.states.rows.start_cycle.1", 0, r"warps\[0\]\.states = '…': each must start where the one"),
        ("timeline.warps.states.rows.cause.present.0", 1, r"cause\.present = 1: must be true or false"),
        ("timeline.event_times", {"one": 1}, r"event_times = 'one': must be a whole number as a key"),
        (
            "timeline.event_times",
            {"9" * 50: 1},
            r"event_times = '9+… \(str\): must be a whole number",
        ),
        ("launches.spans", [], r"launches\.spans has 0 entries: must have 2, one for each launch that counted"),
        ("launches.spans.0.first", "1", r"spans\[0\]\.first = '1': must be a whole number"),
        ("launches.texts", {"k.py": {"one": "x"}}, r"texts\.'k\.py' = 'one': must be a whole number as a key"),
        ("launches.advice", 7, r"launches\.advice = 7: must be an object"),
        ("timeline.operations", 7, r"operations = 7: must be an object"),
        ("timeline.host", {"name": []}, r"host has no entry 'start_fs'"),
    ],
)
def test_results_that_contradict_themselves(place: str, value: object, message: str, tmp_path: Path) -> None:
    data = good()
    put(data, place, value)
    with pytest.raises(gs.ReadError, match=message):
        load(tmp_path, data)


def test_infinity_in_disguise(tmp_path: Path) -> None:
    text = json.dumps(good())
    number = json.dumps(every_warp().kernels[0].achieved_occupancy)
    with pytest.raises(gs.ReadError, match=r"achieved_occupancy\[0\] = inf: must be a finite number"):
        load(tmp_path, text.replace(f'"achieved_occupancy": [{number}', '"achieved_occupancy": [1e999'))


def test_a_field_that_old_files_do_not_have_takes_its_default(tmp_path: Path) -> None:
    data = good()
    del data["timeline"]["kernels"]["sub_partitions"]
    assert load(tmp_path, data).kernels[0].sub_partitions == 1
    del data["timeline"]["kernels"]["cycles"]
    with pytest.raises(gs.ReadError, match=r"kernels has no entry 'cycles': the file was cut or edited"):
        load(tmp_path, data)


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_every_cut_is_noticed(suffix: str, tmp_path: Path) -> None:
    totals().save(tmp_path / f"whole.json{suffix}")
    data = (tmp_path / f"whole.json{suffix}").read_bytes()
    for end in {*range(0, len(data) - 2, 97), len(data) - 2}:  # the last byte of the plain file is the end of the line
        with pytest.raises(gs.ReadError):
            load(tmp_path, data[:end])


@given(st.data())
@settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
def test_damaged_bytes_are_refused_or_read_but_never_crash(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "damaged.json"
    streams().save(path)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    try:
        back = gs.load_result(path)
    except gs.ReadError as error:
        assert "damaged.json" in str(error)  # noqa: PT017 - either way is right
    else:
        assert back.explain()
        gs.views.chrome_trace(back)


def test_a_small_file_that_holds_much(tmp_path: Path) -> None:
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(gzip.compress(b" " * 50_000_000))
    with pytest.raises(gs.ReadError, match=r"more than 1,000,000 bytes of JSON: give load_result\(path, max_bytes=…\)"):
        gs.load_result(path, max_bytes=1_000_000)


def test_scripts_in_names_stay_names(tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script>\x1b[31m$\\frac{1}{0}$"
    timeline = totals().timeline
    sim = replace(totals(), timeline=replace(timeline, kernels=(replace(timeline.kernels[0], name=evil),)))
    sim.save(tmp_path / "evil.json")
    back = gs.load_result(tmp_path / "evil.json")
    assert back.kernels[0].name == evil
    shown = replace(back.kernels[0], name=evil.replace("\x1b", ""))  # fonts have no glyph for control characters
    gs.views.save(gs.views.stalls(replace(back.timeline, kernels=(shown,))), tmp_path / "evil.svg")
    assert "<script>" not in (tmp_path / "evil.svg").read_text()


def test_no_folder_no_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        totals().save(tmp_path / "nowhere" / "run.json")
    with pytest.raises(FileNotFoundError):
        gs.load_result(tmp_path / "run.json")


def test_numbers_that_json_does_not_have_are_not_written(tmp_path: Path) -> None:
    timeline = totals().timeline
    for value, shown in ((float("nan"), "nan"), (float("inf"), "inf")):
        broken = replace(timeline, kernels=(replace(timeline.kernels[0], dram_utilization=value),))
        with pytest.raises(gs.ReadError, match=rf"a number of the result = {shown}: must be a finite number"):
            gs.Simulation(broken, "simpy").save(tmp_path / "run.json")
    assert not list(tmp_path.iterdir())


def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    program = (
        "import resource, sys; from tests.results import every_warp; sim = every_warp();"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]));"
        "sim.save(sys.argv[1])"
    )
    assert resource.RLIM_INFINITY  # the limit stands for a disk that is full after 1,000 bytes
    run = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "run.json")], check=False, capture_output=True, text=True
    )
    assert run.returncode == 1
    assert run.stderr.splitlines()[-1].startswith("OSError: [Errno 27]")
    assert not list(tmp_path.iterdir())

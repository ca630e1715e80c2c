"""Result files that are cut off, hostile or contradict themselves, and disks that are full."""

from __future__ import annotations

import gzip
import json
import resource
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gpusim_des as gs
from tests.results import ALL, every_warp, streams, totals

pytest_plugins = ["tests.timelines"]

each = pytest.mark.parametrize("make", ALL.values(), ids=list(ALL))


@each

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
        ("timeline.kernels.grid.0", [1, 1, 77], r"kernels\[0\]\.grid = \(1, 1, 77\): must have \d+ blocks"),
        ("timeline.kernels.block.0", [9999, 1, 1], r"kernels\[0\]\.block = \(9999, 1, 1\): must have \d warps"),
        ("timeline.kernels.block.0", [0, 1, 1], r"\.block = \(0, 1, 1\): must be at least 1 in x, y and z"),
        ("timeline.kernels.grid.0", [1, 1], r"grid\[0\] = \[1, 1\]: must be"),
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


def test_sizes_are_kept_and_files_from_before_have_none(tmp_path: Path) -> None:
    dev = gs.Device("tiny")
    for grid, block in ((4, 32), ((2, 3), (8, 4)), ((1, 1, 2), (4, 4, 2))):
        dev.launch(fills, grid, block, dev.to_device(np.zeros(32, np.float32)))
    data = json.loads(json.dumps(dev.simulate().to_dict()))
    back = load(tmp_path, data)
    assert [k.grid for k in back.kernels] == [(4, 1, 1), (2, 3, 1), (1, 1, 2)]
    assert [k.block for k in back.kernels] == [(32, 1, 1), (8, 4, 1), (4, 4, 2)]
    shown = [(4, 32), ("2,3", "8,4"), ("1,1,2", "4,4,2")]
    assert [(row["grid"], row["block"]) for row in back.to_rows()] == shown
    for name in ("grid", "block"):
        del data["timeline"]["kernels"][name]
    old = load(tmp_path, data)
    assert [(k.grid, k.block) for k in old.kernels] == [(None, None)] * 3
    assert [(row["grid"], row["block"]) for row in old.to_rows()] == [(None, None)] * 3


@gs.block_kernel
def fills(blk, a):  # type: ignore[no-untyped-def]
    blk.store(a, blk.tx, 1)


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

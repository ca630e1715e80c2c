"""Rows of sweeps on disk: what is finished survives kills, full disks and workers that die."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
import types
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpusim_des as gs
from gpusim_des.sweeps.axes import plan
from gpusim_des.sweeps.fingerprint import Fingerprints
from gpusim_des.sweeps.store import RowStore, read_rows
from tests.sweep_kernels import dies_at, lacks_memory, scale
from tests.test_sweep import ROOT, TINY

# Rows on disk --------------------------------------------------------------------------------------------------------


def test_a_finished_sweep_is_read_back_and_a_larger_one_measures_the_rest(tmp_path: Path) -> None:
    asked = {**TINY, "folder": tmp_path / "new" / "folder"}
    first = gs.sweep(scale, **{**asked, "block": [32, 64]})
    again = gs.sweep(scale, **{**asked, "block": [32, 64]})
    assert (first.computed, again.computed) == (2, 0)
    assert again.rows == first.rows
    more = gs.sweep(scale, **{**asked, "block": [64, 96, 32, 2048]})
    assert more.computed == 2
    assert more.rows[2] == gs.sweep(scale, **{**TINY, "block": [96, 32, 2048]}).rows[1]
    lines = (tmp_path / "new" / "folder" / "rows.jsonl").read_text().splitlines()
    assert len(lines) == 4
    assert json.loads(lines[0])["config"]["block"] == 32
    assert "LaunchError" in json.loads(lines[3])["error"]


def test_numbers_that_json_does_not_have(tmp_path: Path) -> None:
    @gs.block_kernel
    def fill(blk, x, a, b):  # type: ignore[no-untyped-def]
        blk.store(x, blk.tx, np.float32(a))

    asked: dict[str, Any] = {"gpu": "tiny", "grid": 1, "block": 32, "workers": 1, "folder": tmp_path}
    asked["args"] = {"x": "f32[32]", "a": [float("nan"), -np.inf, np.float32("inf"), 1.0], "b": 1j}
    for computed in (4, 0):
        table = gs.sweep(fill, **asked)
        assert (table.computed, table.failed) == (computed, [])
        assert [(row["arg_a"], row["arg_b"]) for row in table] == [(a, "1j") for a in ("nan", "-inf", "inf", 1.0)]
        assert json.loads(table.to_json()) == table.to_rows()


def test_errors_of_the_machine_are_tried_again(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"gpu": "tiny", "grid": 1, "block": 32, "args": {"x": "f32[32]", "tries": [0, 1]}}
    for _ in range(2):
        table = gs.sweep(lacks_memory, **asked, workers=1, folder=tmp_path)
        assert table.computed == 2
        assert [row["error"] for row in table] == ["MemoryError: no room"] * 2


def test_half_a_row_is_cut_off_and_damaged_ones_are_told(tmp_path: Path) -> None:
    asked = {**TINY, "folder": tmp_path, "block": [32, 64, 96]}
    whole = gs.sweep(scale, **asked)
    file = tmp_path / "rows.jsonl"
    data = file.read_bytes()
    lines = data.splitlines(keepends=True)
    for end in (len(data) - 1, len(data) - 5, len(data) - len(lines[2]) + 1):
        file.write_bytes(data[:end])
        table = gs.sweep(scale, **asked)
        assert table.computed == 1
        assert table.rows == whole.rows
        assert [json.loads(line)["key"] for line in file.read_bytes().splitlines()] == [
            json.loads(line)["key"] for line in lines
        ]
    for damaged in (
        b"\0" * 40 + b"\n",
        b"[1]\n",
        b'{"key": 5}\n',
        b'{"key": "a", "result": 7}\n',
        b"[" * 99_999 + b"\n",
    ):
        file.write_bytes(lines[0] + damaged + lines[2])
        with pytest.warns(gs.SweepWarning, match=r"rows\.jsonl, line 2: damaged, not a row.*moves to rows\.damaged"):
            assert gs.sweep(scale, **asked).computed == 1
        assert gs.sweep(scale, **asked).computed == 0  # and nothing is told again
        assert (tmp_path / "rows.damaged").read_bytes().endswith(damaged)
    assert (tmp_path / "rows.damaged").read_bytes().count(b"\n") == 5


def test_a_damaged_line_before_half_a_row(tmp_path: Path) -> None:
    row = b'{"key":"a","error":"no"}\n'
    (tmp_path / "rows.jsonl").write_bytes(b"?\n" + row + b'{"key":')
    with pytest.warns(gs.SweepWarning, match=r"line 1: damaged"), RowStore(tmp_path) as store:
        store.append({"key": "b", "error": "yes"})
    lines = (tmp_path / "rows.jsonl").read_bytes().splitlines(keepends=True)
    assert lines[0] == row
    assert [json.loads(line)["key"] for line in lines] == ["a", "b"]


SOUND = {"seconds": 1e-6, "achieved_occupancy": 0.5, "main_stall": "wait", "mistakes": ""}


@pytest.mark.parametrize(
    ("line", "sound"),
    [
        ({"result": SOUND}, True),
        ({"error": "no"}, True),
        ({"result": {**SOUND, "seconds": float("nan")}}, False),
        ({"result": {**SOUND, "seconds": -float("inf")}}, False),
        ({"result": {**SOUND, "seconds": "x"}}, False),
        ({"result": {**SOUND, "seconds": True}}, False),
        ({"result": {**SOUND, "mistakes": 5}}, False),
        ({"result": {**SOUND, "cycles": [1]}}, False),
        ({"result": {**SOUND, "block": "zzz"}}, False),
        ({"result": {**SOUND, "arg_n": 1}}, False),
        ({"result": {**SOUND, "error": ""}}, False),
        ({"result": {}}, False),
        ({"result": SOUND, "error": "no"}, False),
        ({"error": ""}, False),
    ],
)
def test_rows_that_no_sweep_wrote_are_no_rows(line: dict[str, Any], sound: bool, tmp_path: Path) -> None:
    data = json.dumps({"format": 1, "key": "a", **line}).encode() + b"\n"
    with nullcontext() if sound else pytest.warns(gs.SweepWarning, match="line 1: damaged"):
        read = read_rows(data, tmp_path)
    assert (len(read.rows), len(read.damaged)) == ((1, 0) if sound else (0, 1))


def test_a_number_without_end_is_no_number(tmp_path: Path) -> None:
    data = json.dumps({"key": "a", "result": {**SOUND, "seconds": 5.5}}).replace("5.5", "1e999").encode() + b"\n"
    with pytest.warns(gs.SweepWarning, match="line 1: damaged"):
        assert not read_rows(data, tmp_path).rows


def test_rows_of_a_newer_version_are_refused(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"format": 2, "key": "a", "result": {}}\n')
    for _ in range(2):  # and the folder is free again
        with pytest.raises(gs.SweepError, match=r"line 1: a row of format 2, this gpusim_des reads 1: install a newer"):
            RowStore(tmp_path)
    assert (tmp_path / "rows.jsonl").read_text().count("\n") == 1


def test_one_sweep_at_a_time_in_a_folder(tmp_path: Path) -> None:
    with (
        RowStore(tmp_path),
        pytest.raises(gs.SweepError, match=rf"in use by a sweep of process {os.getpid()}: wait for"),
    ):
        gs.sweep(scale, **{**TINY, "folder": tmp_path, "block": 32})
    assert gs.sweep(scale, **{**TINY, "folder": tmp_path, "block": 32}).computed == 1


def test_a_file_in_the_way_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(gs.SweepError, match=r"taken: a file of this name is in the way; choose another folder"):
        gs.sweep(scale, **{**TINY, "folder": tmp_path / "taken", "block": 32})


PROGRAM = """
import sys
import gpusim_des as gs
from tests.sweep_kernels import scale
def told(done, total):
    print(done, total, flush=True)
args = {"n": range(100, 100 + int(sys.argv[3])), "x": "f32[n]"}
gs.sweep(scale, gpu="tiny", grid="cdiv(n, block)", block=[32, 64], args=args,
         folder=sys.argv[1], workers=int(sys.argv[2]), progress=told)
"""


def start(folder: Path, workers: int, numbers: int) -> subprocess.Popen[str]:
    """A sweep of two configurations for each of some numbers."""
    words = [sys.executable, "-c", PROGRAM, str(folder), str(workers), str(numbers)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)


def finished(folder: Path) -> dict[str, str]:
    """Rows whose line is whole, by key, read as text: nothing of the package takes part."""
    file = folder / "rows.jsonl"
    data = file.read_bytes() if file.exists() else b""
    lines = data[: data.rfind(b"\n") + 1].decode().splitlines()
    return {json.loads(line)["key"]: line for line in lines}


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2])
def test_kill_9_at_random_moments_loses_nothing(workers: int, tmp_path: Path) -> None:
    """Whatever was told as done is on the disk afterwards, whole, and stays; at the end all rows are right."""
    chance = random.Random(5)
    kills = 0
    while len(finished(tmp_path)) < 60:
        before = finished(tmp_path)
        with start(tmp_path, workers, 30) as process:
            assert process.stdout is not None
            told = 0
            wait = chance.randrange(1, 20)
            for line in process.stdout:
                told = int(line.split()[0])
                wait -= 1
                if not wait:
                    time.sleep(chance.random() * 0.02)
                    process.send_signal(signal.SIGKILL)
                    kills += 1
                    break
            told = max([told, *(int(line.split()[0]) for line in process.stdout)])
        after = finished(tmp_path)
        assert len(after) >= told
        assert before.items() <= after.items()
    assert kills >= 3
    asked = {**TINY, "block": [32, 64], "args": {"n": list(range(100, 130)), "x": "f32[n]"}}
    table = gs.sweep(scale, **{**asked, "folder": tmp_path})
    assert table.computed == 0
    assert table.rows == gs.sweep(scale, **asked).rows


def test_a_killed_sweep_ends_without_a_word(tmp_path: Path) -> None:
    """Nor do its processes say anything, which end by themselves: this waits for the last one's standard error."""
    with start(tmp_path, 2, 20) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        for line in process.stdout:
            if line.startswith("3 "):
                process.kill()
                break
        assert process.stderr.read() == ""
    assert process.returncode == -signal.SIGKILL


def test_a_killed_sweep_goes_on(tmp_path: Path) -> None:
    with start(tmp_path, 1, 12) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("7 "):
                process.kill()
                break
    kept = finished(tmp_path)
    assert 7 <= len(kept) < 24
    args = {"n": range(100, 112), "x": "f32[n]"}
    table = gs.sweep(scale, **{**TINY, "block": [32, 64], "args": args, "folder": tmp_path})
    assert table.computed == 24 - len(kept)
    assert kept.items() <= finished(tmp_path).items()


def test_a_process_that_dies_is_an_error_of_its_configuration(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"gpu": "tiny", "grid": 1, "block": 32, "folder": tmp_path, "workers": 2}
    args = {"x": "f32[32]", "deadly": 3, "n": list(range(8))}
    table = gs.sweep(dies_at, **asked, args=args)
    assert [row["arg_n"] for row in table.failed] == [3]
    assert table.failed[0]["error"].startswith("WorkerDied: the process that ran it was killed")
    assert sum(row["seconds"] is not None for row in table) == 7
    records = [json.loads(line) for line in finished(tmp_path).values()]
    # Not the configuration's own error: it is tried again, as errors of the machine are.
    assert [record["config"]["arg_n"] for record in records if record.get("again")] == [3]


def test_a_full_disk_keeps_what_is_finished(tmp_path: Path) -> None:
    limit = f"import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, ({20_000},) * 2)\n"
    run = subprocess.run(
        [sys.executable, "-c", limit + PROGRAM, str(tmp_path), "1", "6"],
        check=False,
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert run.returncode == 1
    last = run.stderr.splitlines()[-1]
    kept = finished(tmp_path)
    assert re.fullmatch(
        rf"gpusim_des\.errors\.SweepError: {tmp_path}/rows\.jsonl: a row cannot be written: File too large; make room "
        rf"and start the sweep again: its {len(kept)} finished rows are kept",
        last,
    )
    assert run.stdout.splitlines() == [f"{done} 12" for done in range(len(kept) + 1)]
    assert len(kept) > 2
    assert (tmp_path / "rows.jsonl").read_bytes().endswith(b"\n")  # nothing of the row that had no room
    args = {"n": range(100, 106), "x": "f32[n]"}
    table = gs.sweep(scale, **{**TINY, "block": [32, 64], "args": args, "folder": tmp_path})
    assert table.computed == 12 - len(kept)
    assert len(finished(tmp_path)) == 12
    assert kept.items() <= finished(tmp_path).items()


def test_a_disk_without_any_room(tmp_path: Path) -> None:
    with RowStore(tmp_path) as store:
        full = os.open("/dev/full", os.O_WRONLY)
        os.dup2(full, store._descriptor)
        os.close(full)
        with pytest.raises(
            gs.SweepError, match=r"rows\.jsonl: a row cannot be written: No space left on device; make room"
        ):
            store.append({"key": "a", "result": {}})
        assert store.rows == {}


def test_a_folder_that_cannot_be_made() -> None:
    with pytest.raises(gs.SweepError, match=r"the folder /proc/foo cannot be made: no such file .*; choose another"):
        RowStore(Path("/proc/foo"))


@pytest.mark.slow
def test_ten_thousand_finished_rows_are_read_and_told_in_a_second_and_a_half(tmp_path: Path) -> None:
    sizes = {"block": [32, 64, 96, 128], "registers": list(range(16, 66)), "shared": list(range(0, 800, 16))}
    asked: dict[str, Any] = {**TINY, **sizes}
    row = gs.sweep(scale, **{**TINY, "block": 32}).rows[0]
    result = dict(list(row.items())[list(row).index("error") + 1 :])
    planned = plan({k: asked[k] for k in ("gpu", "grid", *sizes)}, asked["args"])
    keys = Fingerprints(scale)
    with (tmp_path / "rows.jsonl").open("w") as file:
        for p in planned:
            record = {"format": 1, "key": keys.key(p.configuration), "config": p.columns, "result": result}
            file.write(json.dumps(record) + "\n")
    times = []
    for _ in range(3):
        begin = time.process_time()  # of this process alone: other work may run on the machine
        table = gs.sweep(scale, **asked, folder=tmp_path)
        written = table.to_json()
        times.append(time.process_time() - begin)
        assert (len(table), table.computed) == (10_000, 0)
    assert written == json.dumps(table.to_rows(), indent=1, ensure_ascii=False) + "\n"
    assert min(times) < 1.5


def test_a_notebook_cell_travels() -> None:
    """A kernel whose source only Python's line cache knows."""
    import linecache  # noqa: PLC0415

    source = "import gpusim_des as gs\n@gs.kernel\ndef cell(t, x):\n    x[t.threadIdx.x] = 1\n"
    linecache.cache["<cell 1>"] = (len(source), None, source.splitlines(keepends=True), "<cell 1>")
    module = types.ModuleType("cell_module")
    exec(compile(source, "<cell 1>", "exec"), module.__dict__)
    table = gs.sweep(module.cell, gpu="tiny", grid=1, block=[32, 64], args={"x": "f32[64]"}, workers=2)
    assert not table.failed

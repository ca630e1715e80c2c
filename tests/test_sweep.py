"""Sweeps: axes, rows, tables, and what fails."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpusim_des as gs
from gpusim_des.sweeps.axes import DEFAULTS, plan
from gpusim_des.sweeps.kernel_file import load_module
from gpusim_des.sweeps.task import run_task
from tests.command_kernels import races
from tests.sweep_kernels import scale

ROOT = Path(__file__).resolve().parent.parent
TINY: dict[str, Any] = {"gpu": "tiny", "grid": "cdiv(n, block)", "args": {"n": 100, "x": "f32[n]:arange"}, "workers": 1}
ONE: dict[str, Any] = {"gpu": "tiny", "grid": 4, "block": 32, "args": {"n": 64, "x": "f32[1024]"}, "workers": 1}


def plain(table: gs.SweepTable) -> list[dict[str, Any]]:
    return table.to_rows()


# What a sweep does ---------------------------------------------------------------------------------------------------


def test_rows_hold_what_a_device_measures() -> None:
    table = gs.sweep(scale, **{**TINY, "block": [32, 64], "registers": [32, 128], "caches": ["on", "off"]})
    assert [(r["block"], r["registers"], r["caches"]) for r in table] == [
        (block, registers, caches) for block in (32, 64) for registers in (32, 128) for caches in ("on", "off")
    ]
    assert table.computed == len(table) == 8
    for row in table:
        dev = gs.Device("tiny")
        x = dev.to_device(np.arange(100, dtype=np.float32), "x")
        dev.forget_launches()
        launch = dev.launch(scale, gs.cdiv(100, row["block"]), row["block"], x, 100, registers=row["registers"])
        kernel = dev.simulate(caches=row["caches"]).kernels[0]
        assert row["seconds"] == kernel.seconds
        assert row["l2_hit_rate"] == kernel.l2_hit_rate
        assert row["counted_global_load_sectors"] == launch.counters.global_load_sectors == 13
        assert row["error"] == ""
    assert len({tuple(row) for row in table}) == 1  # the same keys in one order


def test_every_axis() -> None:
    axes: dict[str, list[Any]] = {
        "gpu": ["tiny", "h100-sxm"],
        "sms": [None, 2],
        "grid": [4, (2, 2)],
        "block": [32, "n"],
        "registers": [None, 40],
        "shared": [0, 1024],
        "policy": [None, "lrr"],
        "caches": ["on", "off"],
        "engine": ["auto", "simpy"],
        "sample": [None, "auto"],
    }
    assert list(axes) == list(DEFAULTS)
    table = {name: gs.sweep(scale, **{**ONE, name: several}) for name, several in axes.items()}
    for name, several in axes.items():
        assert [row[name] for row in table[name]] == ["2,2" if value == (2, 2) else value for value in several]
        assert not table[name].failed
    numbers = gs.sweep(scale, **{**ONE, "args": {"n": [32, 64], "x": np.zeros(1024, np.float32)}})
    assert [(row["arg_n"], row["arg_x"]) for row in numbers] == [(32, "float32[1024]"), (64, "float32[1024]")]


def test_rows_hold_what_was_asked_for_and_what_was_done() -> None:
    table = gs.sweep(scale, **{**ONE, "gpu": "h100-sxm", "sms": [None, 2], "engine": ["auto", "simpy"]})
    asked_and_done = [tuple(row[k] for k in ("sms", "engine", "simulated_sms", "played_engine")) for row in table]
    assert asked_and_done == [
        (None, "auto", 132, "simpy"),
        (None, "simpy", 132, "simpy"),
        (2, "auto", 2, "simpy"),
        (2, "simpy", 2, "simpy"),
    ]
    figure = gs.views.heat_map(table.to_rows(), "sms", "engine")
    assert [label.get_text() for label in figure.get_yticklabels()] == ["auto", "simpy"]


def test_policies_and_parameters_are_those_of_a_changed_gpu() -> None:
    asked = {**ONE, "block": 256, "args": {"n": 1024, "x": "f32[1024]"}}
    table = gs.sweep(
        scale,
        **{**asked, "policy": [None, "gto", "lrr"], "sms": [None, 1]},
        parameters={"fp32_latency_cycles": range(4, 45, 40), "dram_bandwidth": ["64 GB/s", "6 GB/s"]},
    )
    # The model's own policy, latency (4) and bandwidth (64 GB/s) are the same as those by name, and all its SMs are 2.
    assert (len(table), table.computed) == (24, 16)
    assert list(table.rows[0])[9:12] == ["sample", "gpu_fp32_latency_cycles", "gpu_dram_bandwidth"]
    for row in table.rows[-8:]:
        changes = {k: row[f"gpu_{k}"] for k in ("fp32_latency_cycles", "dram_bandwidth")}
        gpu = gs.load_gpu("tiny").replace(scheduler_policy=row["policy"], **changes)
        dev = gs.Device(gpu if row["sms"] is None else gpu.slice(sms=row["sms"]))
        x = dev.to_device(np.zeros(1024, np.float32))
        dev.forget_launches()
        dev.launch(scale, 4, 256, x, 1024)
        assert row["seconds"] == dev.simulate().kernels[0].seconds
    assert len({row["seconds"] for row in table}) == 16


def test_a_changed_gpu_shows_what_was_changed() -> None:
    tiny = gs.load_gpu("tiny")
    gpus = [tiny, *(tiny.replace(fp32_latency_cycles=cycles) for cycles in (5, 6))]
    alike = [tiny.replace(title="mine", l2_bytes=size) for size in (2**20, 2**21)]
    table = gs.sweep(scale, **{**ONE, "gpu": [*gpus, tiny.slice(sms=1), *alike]})
    assert [row["gpu"] for row in table] == [
        "tiny (l2_bytes=262144)",
        "tiny (fp32_latency_cycles=5)",
        "tiny (fp32_latency_cycles=6)",
        "tiny (1 of 2 SMs)",
        "tiny (l2_bytes=1048576)",
        "tiny (l2_bytes=2097152)",
    ]


def test_ranges_and_arrays_are_axes() -> None:
    table = gs.sweep(scale, **{**ONE, "block": range(32, 97, 32), "registers": np.array([32, 64])})
    assert [(row["block"], row["registers"]) for row in table] == [(b, r) for b in (32, 64, 96) for r in (32, 64)]
    listed = gs.sweep(scale, **{**ONE, "block": list(np.array([32, 64])), "grid": [(np.int64(2), 2)]})
    assert json.loads(listed.to_json()) == listed.to_rows()
    assert [(row["block"], row["grid"]) for row in listed] == [(32, "2,2"), (64, "2,2")]
    numbers = gs.sweep(scale, **{**ONE, "args": {"n": range(3, 5), "x": np.zeros(1024, np.float32)}})
    assert [(row["arg_n"], row["arg_x"]) for row in numbers] == [(3, "float32[1024]"), (4, "float32[1024]")]


def test_no_figure_has_the_name_of_an_axis(tmp_path: Path) -> None:
    gs.sweep(scale, **ONE, folder=tmp_path)
    record = json.loads((tmp_path / "rows.jsonl").read_text())
    assert record["result"].keys() & record["config"].keys() == set()


def test_equal_configurations_are_measured_once() -> None:
    table = gs.sweep(scale, **{**TINY, "block": [32, 32, "n - 68", (32, 1)], "grid": ["cdiv(n, block)", 4]})
    assert (len(table), table.computed) == (8, 1)
    assert len({row["seconds"] for row in table}) == 1


def test_a_configuration_that_fails_is_a_row_and_the_others_go_on() -> None:
    table = gs.sweep(scale, **{**TINY, "block": [32, 2048], "sms": [2, 77], "registers": [32, 300]})
    errors = {(row["block"], row["sms"] or 77, row["registers"]): row["error"] for row in table}
    assert len(table.failed) == 7
    good = table.rows[0]
    assert good["error"] == ""
    assert good["seconds"] > 0
    assert errors[32, 2, 32] == ""
    assert re.match(r"LaunchError: .*300", table.rows[1]["error"])
    assert re.match(r"ModelError: sms = 77: .* has 2; must lie between 1 and 2", table.rows[4]["error"])
    (row,) = gs.sweep(scale, **{**TINY, "block": 32, "shared": -4})
    assert row["error"] == "LaunchError: shared = -4: bytes of dynamic shared memory, at least 0"
    assert all(row["seconds"] is None for row in table.failed)
    assert "LaunchError" in str(table)
    assert table.best()["block"] == 32


def test_a_kernel_that_raises_is_a_row() -> None:
    @gs.block_kernel
    def divides(blk, n):  # type: ignore[no-untyped-def]
        blk.compute(10 // n)

    table = gs.sweep(divides, gpu="tiny", grid=1, block=32, args={"n": [0, 1]}, workers=1)
    line = divides.function.__code__.co_firstlineno + 2
    reason = "ZeroDivisionError: integer division or modulo by zero"
    assert [row["error"] for row in table] == [f"KernelError: divides in test_sweep.py, line {line}: {reason}", ""]
    assert table.wrong == table.failed


def test_a_kernel_that_runs_thread_by_thread_is_told_once() -> None:
    """Processes that have not seen the kernel come to the same reason again."""

    @gs.kernel
    def slow(t, x):  # type: ignore[no-untyped-def]
        x[t.threadIdx.x] = os.getpid() > 0

    asked: dict[str, Any] = {"gpu": "tiny", "grid": 1, "block": [32, 64, 96], "args": {"x": "f32[96]"}}
    outcomes = []
    for c in plan({k: asked[k] for k in ("gpu", "grid", "block")}, asked["args"]):
        slow.noticed.clear()
        outcomes.append(run_task(slow, c.configuration))
    (note,) = {note for outcome in outcomes for note in outcome.notes}
    assert note.startswith("kernel 'slow' runs thread by thread")
    assert [outcome.error for outcome in outcomes] == [""] * 3
    slow.noticed.clear()
    with pytest.warns(gs.InterpretedWarning, match="kernel 'slow' runs thread by thread") as told:
        assert not gs.sweep(slow, **asked, workers=1).failed
    assert len(told) == 1
    assert told[0].filename == __file__


@pytest.mark.filterwarnings("ignore:kernel 'leaves' runs thread by thread")
@pytest.mark.parametrize("kind", [gs.block_kernel, gs.kernel])
def test_a_kernel_that_ends_python_is_a_row(kind: Any) -> None:
    @kind
    def leaves(blk, n):  # type: ignore[no-untyped-def]
        if n == 0:
            sys.exit(n)

    table = gs.sweep(leaves, gpu="tiny", grid=1, block=32, args={"n": [0, 1]}, workers=1)
    line = leaves.function.__code__.co_firstlineno + 3
    assert [row["error"] for row in table] == [f"KernelError: leaves in test_sweep.py, line {line}: SystemExit: 0", ""]


def test_a_kernel_that_races_says_so_in_its_row() -> None:
    table = gs.sweep(races, gpu="tiny", grid=1, block=[32, 64], args={"a": "f32[64]"}, workers=1)
    assert [row["counted_races"] > 0 for row in table] == [False, True]
    assert "tile" in table.rows[0]["mistakes"]  # half of it is read, and was never written
    assert "tile" in table.rows[1]["mistakes"]
    assert table.wrong == table.to_rows()
    heads, *lines = str(table).splitlines()
    assert heads.endswith("mistakes")
    shown = [line[heads.index("mistakes") :] for line in lines]
    assert shown == [row["mistakes"][:70].rstrip() for row in table]


def test_processes_come_to_the_same_rows() -> None:
    several = {**TINY, "block": [32, 64, 96], "registers": [32, 64]}
    one = gs.sweep(scale, **several)
    two = gs.sweep(scale, **{**several, "workers": 2})
    assert two.rows == one.rows
    assert two.computed == 6


def test_kernels_of_files_that_nobody_can_import_travel(tmp_path: Path) -> None:
    source = "import gpusim_des as gs\nimport neighbour\ndef helper(x):\n    return neighbour.PLUS + x\n"
    source += "@gs.kernel\ndef add(t, x):\n    x[t.threadIdx.x] = helper(x[t.threadIdx.x])\n"
    (tmp_path / "kernels of mine.py").write_text(source)
    (tmp_path / "neighbour.py").write_text("PLUS = 1.5\n")
    kernel = load_module(tmp_path / "kernels of mine.py").add
    asked: dict[str, Any] = {"gpu": "tiny", "grid": 1, "block": [32, 64], "args": {"x": "f32[64]"}}
    table = gs.sweep(kernel, **asked, workers=2)
    assert not table.failed
    assert table.rows == gs.sweep(kernel, **asked, workers=1).rows
    sys.path.remove(str(tmp_path))
    del sys.modules["neighbour"]


def test_progress_counts_configurations(tmp_path: Path) -> None:
    said: list[tuple[int, int]] = []
    asked = {**TINY, "folder": tmp_path, "progress": lambda done, total: said.append((done, total))}
    gs.sweep(scale, **{**asked, "block": [32, 64, 64]})
    assert said == [(0, 2), (1, 2), (2, 2)]
    said.clear()
    gs.sweep(scale, **{**asked, "block": [32, 64, 96]})
    assert said == [(2, 3), (3, 3)]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"blocks": 4}, gs.SweepError, r"no axis 'blocks': did you mean 'block'"),
        ({"grid": None}, gs.SweepError, r"grid is missing: a number, a tuple, an expression such as"),
        ({"block": []}, gs.SweepError, r"block = \[\]: an axis has at least one value"),
        ({"caches": "of"}, gs.SweepError, r"caches = 'of': possible are on, off"),
        ({"policy": "fifo"}, gs.SweepError, r"policy = 'fifo': possible are gto, lrr, oldest"),
        ({"parameters": {"l2_sizes": "1 MiB"}}, gs.SweepError, r"no parameter 'l2_sizes': did you mean 'l2_size'"),
        ({"parameters": {"title": "a"}}, gs.SweepError, r"parameters: a GPU has no parameter 'title'"),
        (
            {"parameters": {"l2_size": "1 MiB", "l2_bytes": 2**20}},
            gs.SweepError,
            r"'l2_bytes' and 'l2_size' are two names of one thing: leave one out",
        ),
        (
            {"parameters": {"scheduler_policy": "lrr"}, "policy": "gto"},
            gs.SweepError,
            r"'scheduler_policy' and 'policy' are two names",
        ),
        ({"parameters": {"sms": None}}, gs.SweepError, r"parameters\['sms'\] = None: a number, or a text such as"),
        ({"registers": {32, 64}}, gs.SweepError, r"registers = \{.*\}: several values are a list, a range or an array"),
        ({"registers": (32, 64)}, gs.SweepError, r"registers = \(32, 64\): several values are a list, \[32, 64\]"),
        ({"block": np.ones((2, 2))}, gs.SweepError, r"(?s)block = array.*: several values are .* with one dimension"),
        ({"block": range(0)}, gs.SweepError, r"block = range\(0, 0\): an axis has at least one value"),
        ({"block": range(10**12)}, gs.SweepError, r"1,000,000,000,000 combinations"),
        ({"engine": "fast"}, gs.SweepError, r"engine = 'fast': possible are auto, simpy, compiled"),
        ({"block": float("nan")}, gs.SweepError, r"block = nan: whole numbers, or an expression"),
        ({"block": 2.5}, gs.SweepError, r"block = 2\.5: whole numbers, or an expression"),
        ({"grid": [(2, 1.5)]}, gs.SweepError, r"grid = \(2, 1\.5\): whole numbers, or an expression"),
        (
            {"sample": "x"},
            gs.LaunchError,
            r"sample = 'x': give the number of waves to play, a whole number of at least",
        ),
        ({"gpu": 3}, gs.SweepError, r"gpu = 3: a name, the path of a \.toml file, or a GPU"),
        ({"registers": "many"}, gs.SweepError, r"registers = 'many': must be a whole number"),
        ({"gpu": "h10"}, gs.ModelError, r"no GPU model 'h10'"),
        ({"args": {"n": object()}}, gs.SweepError, r"arg n = <object .*: a number, a NumPy array"),
        (
            {"args": {"n": 9, "x": np.array([None])}},
            gs.SweepError,
            r"arg x: an array of Python objects \(object\): a kernel takes numbers; give it a type, np\.asarray",
        ),
        ({"args": {"n": 9, "x": "f32[n]", "m": 1}}, gs.UsageError, r"kernel 'scale' has no argument 'm': known: x, n"),
        ({"args": {"n": 9}}, gs.UsageError, r"kernel 'scale' takes \(x, n\), and x is missing: give for example x="),
        ({"args": {"x": "f32[n]:noise"}}, gs.UsageError, r"'noise' is no content of an array"),
        ({"args": {"n": list(range(2000))}, "registers": list(range(1000))}, gs.SweepError, r"2,000,000 combinations"),
        ({"workers": 0}, gs.SweepError, r"workers = 0: a whole number of processes, at least 1"),
    ],
)
def test_wrong_axes(change: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        gs.sweep(scale, **{**TINY, "block": 32, **change})


def test_no_kernel() -> None:
    with pytest.raises(TypeError, match=r"is no kernel: mark the function"):
        gs.sweep(print, grid=1, block=1)  # type: ignore[arg-type]


def test_half_characters_in_a_text(tmp_path: Path) -> None:
    table = gs.SweepTable(({"n": 1, "error": "KernelError: \ud800"},), computed=1)
    table.to_csv(tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text() == "n,error\n1,KernelError: \\ud800\n"
    table.to_json(tmp_path / "t.json")
    assert json.loads((tmp_path / "t.json").read_text()) == table.to_rows()


def test_tables_as_csv_and_json(tmp_path: Path) -> None:
    table = gs.sweep(scale, **{**TINY, "block": [32, 64]})
    text = table.to_csv(tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text() == text
    row = next(csv.DictReader(io.StringIO(text)))
    assert float(row["seconds"]) == table.rows[0]["seconds"]
    assert (
        json.loads(table.to_json(tmp_path / "t.json")) == json.loads((tmp_path / "t.json").read_text()) == plain(table)
    )

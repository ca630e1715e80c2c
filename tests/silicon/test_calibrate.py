"""Calibration: parameters of a known model come back from a report that was simulated on it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpusim_des.cli import main
from gpusim_des.errors import ModelError, ReadError
from gpusim_des.gpu import GPU, load_gpu
from gpusim_des.silicon.calibrate import Taken, calibrate
from gpusim_des.silicon.kit import read_kit
from gpusim_des.silicon.model_file import base_path, write_model
from tests.silicon.synthetic import report

TRUTH = load_gpu("tiny").replace(
    sm_clock="1.25 GHz",
    dram_bandwidth="12.8 GB/s",
    dram_efficiency_read="9/10",
    dram_efficiency_write="8/10",
    dram_efficiency_mixed="7/10",
    l1_latency="33 cycles",
    l2_latency="120 cycles",
    l2_far_latency="120 cycles",
    dram_latency="250 cycles",
    shared_latency="25 cycles",
    shuffle_latency="26 cycles",
    fp32_latency_cycles=5,
    int_latency_cycles=6,
    fp64_latency_cycles=11,
    l2_bandwidth="140 GB/s",
    block_start="30 cycles",
    block_end="30 cycles",
    dispatch_interval="10 ns",
    kernel_gap="1.5 us",
    graph_gap="0.75 us",
    launch_call="3 us",
    copy_latency="12 us",
    h2d_pinned="3 GB/s",
    d2h_pinned="4 GB/s",
    h2d_pageable="1 GB/s",
    d2h_pageable="2 GB/s",
)
"""A GPU of which almost nothing is as in its base."""

EXACT = (
    *("sms", "sm_clock_hz", "copy_engines", "l2_bytes", "memory_bytes", "dram_bandwidth_bytes_per_s"),
    *("l1_latency_cycles", "l2_latency_cycles", "dram_latency_cycles"),
    *("shared_latency_cycles", "shuffle_latency_cycles", "block_start_cycles", "block_end_cycles"),
)
NEAR = (
    *("dispatch_interval_fs", "kernel_gap_fs", "graph_gap_fs", "launch_call_fs", "copy_latency_fs"),
    *("l2_bandwidth_bytes_per_s", "dram_efficiency_read", "dram_efficiency_write", "dram_efficiency_mixed"),
    *("h2d_pinned_bytes_per_s", "d2h_pinned_bytes_per_s", "h2d_pageable_bytes_per_s", "d2h_pageable_bytes_per_s"),
)
"""Measured by a difference of times, or rounded to four or five digits."""


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("kit") / "measured-micro.json"
    path.write_text(json.dumps(report(TRUTH)), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def made(measured: Path) -> GPU:
    path = measured.with_name("mine.toml")
    assert main(["calibrate", str(measured), "--base", "tiny", "-o", str(path)]) == 0
    return load_gpu(path)


def test_parameters_come_back(made: GPU) -> None:
    assert {name: getattr(made, name) for name in EXACT} == {name: getattr(TRUTH, name) for name in EXACT}
    for pipe in ("fp32", "int", "fp64"):
        assert made.pipe(pipe).latency_cycles == TRUTH.pipe(pipe).latency_cycles, pipe


@pytest.mark.parametrize("name", NEAR)
def test_parameters_that_are_differences_come_back_nearly(made: GPU, name: str) -> None:
    assert float(getattr(made, name)) == pytest.approx(float(getattr(TRUTH, name)), rel=0.02)


def test_what_was_not_measured_is_the_bases(made: GPU) -> None:
    base = load_gpu("tiny")
    for name in ("max_warps_per_sm", "registers_per_sm", "barrier_latency_cycles", "atomic_interval_cycles"):
        assert getattr(made, name) == getattr(base, name)
    assert made.title == "Synthetic as measured"
    assert made.sources["barrier_latency_cycles"] == base.sources["barrier_latency_cycles"]


def test_sources_say_which_measurement(made: GPU) -> None:
    assert made.sources["l2_latency_cycles"].startswith("measured-micro.json, memory_latency: 120 cycles, past the L1")
    assert made.sources["sm_clock_hz"] == "measured-micro.json, sm_clock: 1.25 GHz with all FP32 lanes busy"


def test_prints_where_each_parameter_came_from(
    measured: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["calibrate", str(measured), "--base", "tiny", "-o", str(tmp_path / "a.toml"), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    rows = {row["parameter"]: row for row in printed["parameters"]}
    assert rows["pipes.fp64.latency"]["value"] == "11 cycles"
    assert rows["pipes.fp64.latency"]["source"] == "instruction_latency: DFMA, 11 cycles"
    assert printed["title"] == "Synthetic as measured"


def test_a_part_of_a_report_is_enough(measured: Path, tmp_path: Path) -> None:
    """The kit can be stopped, and benchmarks can fail."""
    whole = json.loads(measured.read_text(encoding="utf-8"))
    records = [record for record in whole["records"] if record["id"] in ("device_properties", "sm_clock")]
    records.append({"id": "memory_latency", "error": "left out: no time", "rows": []})
    path = tmp_path / "part.json"
    path.write_text(json.dumps({**whole, "records": records}), encoding="utf-8")
    taken = calibrate(read_kit(path), load_gpu("tiny"))
    assert [entry.label for entry in taken] == [
        *("sms", "sm_clock", "memory.l2_size", "memory.memory_size", "memory.dram_bandwidth", "copies.copy_engines"),
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": "other/1"}, r"schema 'other/1'; give the measured-micro.json of the kit"),
        ({"program": "kernels"}, r"give the measured-micro.json of the kit"),
        ({"dry_run": True}, r"of a dry run, whose times mean nothing"),
        ({"records": []}, r"no record device_properties"),
    ],
)
def test_refuses_other_reports(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = tmp_path / "x.json"
    small = {"schema": "gpusim-des-measured/1", "program": "micro", "records": []}
    path.write_text(json.dumps({**small, **change}), encoding="utf-8")
    with pytest.raises(ReadError, match=message):
        read_kit(path)


def test_refuses_another_compute_capability(measured: Path) -> None:
    with pytest.raises(ReadError, match=r"measured on compute capability .* \(Synthetic\), t4 is 7\.5: take a base"):
        calibrate(read_kit(measured), load_gpu("t4"))


def test_contradicting_parameters_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="l2_latency"):
        write_model(
            tmp_path / "bad.toml", base_path("tiny"), [Taken("memory.l2_latency", "9000 cycles", "a")], "Bad", "b"
        )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("out", "message"),
    [("mine.txt", "a model's file ends in .toml"), ("no/mine.toml", "there is no folder")],
)
def test_refuses_where_it_cannot_write(
    measured: Path, tmp_path: Path, out: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["calibrate", str(measured), "--base", "tiny", "-o", str(tmp_path / out)]) == 2
    assert message in capsys.readouterr().err


def test_the_kit_writes_what_is_read(measured: Path) -> None:
    """Every record, column and text that the synthetic report has is one of the kit's own."""
    kit = Path(__file__).resolve().parent.parent.parent / "experiments" / "hardware"
    written = (kit / "micro.cu").read_text(encoding="utf-8") + (kit / "common.cuh").read_text(encoding="utf-8")
    documented = (kit / "README.md").read_text(encoding="utf-8")
    whole = json.loads(measured.read_text(encoding="utf-8"))
    assert whole["schema"] in written
    for record in whole["records"]:
        assert f"`{record['id']}`" in documented
        assert record["id"] in written
        for row in record["rows"]:
            texts = {value for value in row.values() if isinstance(value, str)} - {
                "Synthetic",
                TRUTH.compute_capability,
            }
            for text in {*row, *texts}:
                assert f'"{text}"' in written, (record["id"], text)

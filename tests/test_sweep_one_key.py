"""One configuration has one key, in whatever way it is written, and is measured once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpusim_des as gs
from gpusim_des.gpu import load_gpu, written_entries
from gpusim_des.grid import Dim3
from gpusim_des.sweeps import fingerprint
from gpusim_des.sweeps.axes import plan
from gpusim_des.sweeps.fingerprint import Fingerprints
from tests.sweep_kernels import scale

TINY_GPU = load_gpu("tiny")
AXES: dict[str, Any] = {"gpu": "tiny", "grid": 4, "block": 32}
ARGS: dict[str, Any] = {"n": 100, "x": "f32[100]"}


def asked(
    kernel: Any = scale, args: dict[str, Any] | None = None, parameters: dict[str, Any] | None = None, **axes: Any
) -> str:
    """Key of what a sweep was asked for."""
    (planned,) = plan({**AXES, **axes}, {**ARGS, **(args or {})}, parameters)
    return Fingerprints(kernel).key(planned.configuration)


SAME: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {"registers": 32}),
    ({}, {"registers": np.int64(32)}),
    ({}, {"shared": 0}),
    ({}, {"caches": "on"}),
    ({}, {"engine": "auto"}),
    ({}, {"sample": None}),
    ({}, {"policy": TINY_GPU.scheduler_policy}),
    ({}, {"sms": TINY_GPU.sms}),
    ({}, {"gpu": TINY_GPU}),
    ({}, {"gpu": Path(str(written_entries("tiny")[0].file))}),
    ({}, {"gpu": TINY_GPU.replace(title="another")}),
    ({}, {"gpu": TINY_GPU.slice(sms=TINY_GPU.sms)}),
    ({}, {"parameters": {"fp32_latency_cycles": TINY_GPU.pipe("fp32").latency_cycles}}),
    ({"sms": 1}, {"gpu": TINY_GPU.slice(sms=1)}),
    ({"policy": "lrr"}, {"parameters": {"scheduler_policy": "lrr"}}),
    ({"policy": "lrr"}, {"gpu": TINY_GPU.replace(scheduler_policy="lrr")}),
    ({"parameters": {"dram_bandwidth": "2 TB/s"}}, {"parameters": {"dram_bandwidth": "2000 GB/s"}}),
    ({"parameters": {"fp32_latency_cycles": 5}}, {"gpu": TINY_GPU.replace(fp32_latency_cycles=5)}),
    *(({}, {"grid": grid}) for grid in ((4,), (4, 1, 1), Dim3(4), np.int32(4), "4", "4, 1", "cdiv(n, block)")),
    *(({}, {"block": block}) for block in ((32,), (32, 1), Dim3(32), "32", "n // 3 - 1")),
    # Sizes that are none, and cannot be computed.
    *(({"block": 4096}, {"block": block}) for block in ((4096,), (4096, 1), Dim3(4096), np.int64(4096))),
    *(({}, {"args": {"n": n}}) for n in ("100", "2*50", "1_00", "cdiv(199, 2)")),
    ({"args": {"n": "i64:100"}}, {"args": {"n": np.int64(100)}}),
    ({"args": {"n": np.int64(100)}}, {"args": {"n": np.array(100)}}),
    ({"args": {"n": "f32:2.5"}}, {"args": {"n": np.float32(2.5)}}),
    *(({}, {"args": {"x": x}}) for x in ("f32[n]", "float32[n]:zeros", "f32[100]:0", np.zeros(100, np.float32))),
    ({"args": {"x": "f32[10, 10]:ones"}}, {"args": {"x": np.ones((10, 10), np.float32)}}),
    ({"args": {"x": "f32[10, 10]:ones"}}, {"args": {"x": np.ones((10, 10), np.float32, order="F")}}),
    ({"args": {"x": "f32[n]:-0.0"}}, {"args": {"x": np.full(100, -0.0, np.float32)}}),
    ({"args": {"x": "i16[n]:7"}}, {"args": {"x": np.full(100, 7, np.int16)}}),
    ({"args": {"x": "c64[n]"}}, {"args": {"x": np.zeros(100, np.complex64)}}),
    ({"args": {"x": "bool[n]:true"}}, {"args": {"x": np.ones(100, bool)}}),
    ({"args": {"x": "f32[n]:arange"}}, {"args": {"x": np.arange(100, dtype=np.float32)}}),
    ({"args": {"x": "f32[4, 25]:arange"}}, {"args": {"x": np.arange(100, dtype=np.float32).reshape(4, 25)}}),
    ({"args": {"x": "f32[1]:arange"}}, {"args": {"x": "f32[1]"}}),
    ({"args": {"x": "u8[n]:random"}}, {"args": {"x": "u8[100]:random(0)"}}),
    ({"args": {"x": np.arange(9.0)}}, {"args": {"x": np.arange(9.0)}}),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_one_configuration_has_one_key_however_it_is_written(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert asked(**one) == asked(**other)


def test_arrays_that_differ_have_keys_that_differ() -> None:
    nan = np.full(100, np.nan, np.float32)
    another_nan = (nan.view(np.uint32) + 1).view(np.float32)
    mixed = np.zeros(100, np.float32)
    mixed[50] = -0.0
    almost = np.arange(100, dtype=np.float32)
    almost[50] += 1
    arrays = ["f32[n]", "f32[n]:-0.0", "f32[n]:arange", "f32[n]:nan", another_nan, mixed, almost, almost.reshape(4, 25)]
    arrays += [np.zeros(100, ">f4"), np.zeros(0, np.float32), np.zeros((0, 1), np.float32)]
    assert len({asked(args={"x": array}) for array in arrays}) == len(arrays)
    assert asked(args={"x": nan}) == asked(args={"x": "f32[n]:nan"})


def with_default(by: Any) -> gs.BlockKernel:
    @gs.block_kernel
    def kernel(blk, x, n=by):  # type: ignore[no-untyped-def]
        blk.store(x, blk.tx, n)

    return kernel


def test_a_default_is_what_it_says() -> None:
    def of(kernel: gs.BlockKernel, args: dict[str, Any]) -> str:
        (planned,) = plan(AXES, args)
        return Fingerprints(kernel).key(planned.configuration)

    array = {"x": "i32[32]"}
    left_out = of(with_default(5), array)
    assert left_out == of(with_default(5), {**array, "n": 5}) != of(with_default(6), array)
    assert left_out != of(with_default(5), {**array, "n": 6})
    assert left_out != of(with_default(np.int64(5)), array)


def closed_over(by: Any) -> gs.BlockKernel:
    @gs.block_kernel
    def kernel(blk, x):  # type: ignore[no-untyped-def]
        blk.store(x, blk.tx, by)

    return kernel


def test_variables_of_outer_functions_and_the_version_are_in_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    (planned,) = plan(AXES, {"x": "i32[32]"})
    keys = [Fingerprints(closed_over(by)).key(planned.configuration) for by in (1, 1, 2, [1], [2])]
    assert keys[0] == keys[1]
    assert len(set(keys)) == 4
    monkeypatch.setattr(fingerprint, "VERSION", "0.0.1")
    fingerprint.simulator_digest.cache_clear()
    try:
        assert Fingerprints(closed_over(1)).key(planned.configuration) not in keys
    finally:
        fingerprint.simulator_digest.cache_clear()


def test_equal_configurations_are_measured_once_and_say_what_each_assumes(tmp_path: Path) -> None:
    axes: dict[str, Any] = {
        "gpu": ["tiny", load_gpu("tiny")],
        "block": [32, (32, 1)],
        "registers": [None, 32],
        "policy": [None, "gto"],
    }
    args: dict[str, Any] = {"n": 100, "x": ["f32[n]:arange", np.arange(100, dtype=np.float32)]}
    table = gs.sweep(scale, grid=4, **axes, args=args, folder=tmp_path, workers=1)
    assert (len(table), table.computed) == (32, 1)
    assert {(row["registers"], row["assumptions"]) for row in table} == {
        (None, "32 registers per thread (not given at launch)"),
        (32, ""),
    }
    for row in table.rows[::7]:  # each is what it would be alone
        alone: dict[str, Any] = {name: row[name] for name in ("gpu", "registers", "policy")}
        (again,) = gs.sweep(scale, grid=4, block=32, **alone, args={**args, "x": "f32[n]:arange"}, workers=1)
        shown = {name: row[name] for name in ("block", "arg_x")}
        assert {**again, **shown} == row
    assert gs.sweep(scale, grid="cdiv(n, 32)", **axes, args=args, folder=tmp_path, workers=1).computed == 0

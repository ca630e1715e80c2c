"""Files of other tools: real output of CUDA 13 for kernels of our own, and small traces with the profiler's fields."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusim_des.errors import ReadError
from gpusim_des.readers import KernelResources, read_cuobjdump, read_profiler, read_ptxas, short_name

DATA = Path(__file__).parent / "data" / "readers"
PTXAS, CUOBJDUMP = (DATA / "ptxas.txt").read_text(), (DATA / "cuobjdump.txt").read_text()
NAMES = ["demo::detail::axpy", "calls", "spills", "tiled<…>", "tiled<…>"]


def test_a_ptxas_log_of_two_architectures() -> None:
    kernels = read_ptxas(PTXAS)
    assert [short_name(k.name) for k in kernels] == NAMES * 2
    assert [k.architecture for k in kernels] == ["sm_80"] * 5 + ["sm_90a"] * 5
    assert [k.registers for k in kernels] == [10, 28, 32, 12, 14, 10, 28, 32, 14, 14]
    assert [k.shared_bytes for k in kernels] == [0, 0, 0, 2176, 4224] * 2
    assert [k.barriers for k in kernels] == [0, 1, 0, 1, 1] * 2
    assert kernels[2] == KernelResources("spills", 32, 0, "sm_80", 0, stack_bytes=672, spill_bytes=1020 + 1312)


def test_cuobjdump_says_what_ptxas_said() -> None:
    """SHARED of sm_90 contains the system's 1 KiB, that of sm_80 does not; ptxas never counts it."""
    assert " SHARED:3200 " in CUOBJDUMP  # 2176 + 1024
    dumped, logged = read_cuobjdump(CUOBJDUMP), read_ptxas(PTXAS)
    assert [(k.name, k.architecture, k.registers, k.shared_bytes, k.stack_bytes) for k in dumped] == [
        (k.name, k.architecture, k.registers, k.shared_bytes, k.stack_bytes) for k in logged
    ]


def test_a_dump_of_a_cubin_names_no_architecture() -> None:
    dump = "\n".join(line for line in CUOBJDUMP.splitlines() if "arch =" not in line)
    assert {k.architecture for k in read_cuobjdump(dump)} == {None}
    assert {k.architecture for k in read_cuobjdump(dump, "sm_80")} == {"sm_80"}


@pytest.mark.parametrize(
    ("used", "registers", "shared", "barriers"),
    [
        ("Used 10 registers, 360 bytes cmem[0]", 10, 0, None),
        ("Used 14 registers, 44+16 bytes smem, 4 bytes cmem[1]", 14, 60, None),
        ("Used 255 registers, 49152 bytes smem, 400 bytes cmem[0], 8 bytes cmem[2]", 255, 49152, None),
        ("Used 168 registers, used 16 barriers, 8 bytes smem", 168, 8, 16),
    ],
)
def test_lines_of_older_and_newer_tools(used: str, registers: int, shared: int, barriers: int | None) -> None:
    log = f"ptxas info    : Compiling entry function 'k' for 'sm_35'\nptxas info    : {used}\n"
    assert read_ptxas(log) == [KernelResources("k", registers, shared, "sm_35", barriers)]


@pytest.mark.parametrize("text", ["", "nvcc warning : nothing\n", "ptxas info    : 0 bytes gmem\n"])
def test_files_without_kernels(text: str) -> None:
    with pytest.raises(ReadError, match=r"a ptxas log without kernels: .* compile with nvcc -Xptxas -v"):
        read_ptxas(text)
    with pytest.raises(ReadError, match=r"a dump without kernels: .*cuobjdump --dump-resource-usage"):
        read_cuobjdump(text)


@given(st.integers(0, len(PTXAS)), st.integers(0, len(CUOBJDUMP)))
def test_files_that_are_cut_off_are_told_or_read_in_part(log: int, dump: int) -> None:
    for read, text, whole in ((read_ptxas, PTXAS[:log], PTXAS), (read_cuobjdump, CUOBJDUMP[:dump], CUOBJDUMP)):
        try:
            found = read(text)
        except ReadError:
            continue
        assert [k.name for k in found] == [k.name for k in read(whole)][: len(found)]


def test_a_log_that_ends_too_early_names_the_kernel() -> None:
    start = PTXAS.index("ptxas info    : Used 28")
    with pytest.raises(ReadError, match=r"does not say what '_Z5callsPf' uses for sm_80"):
        read_ptxas(PTXAS[:start])
    with pytest.raises(ReadError, match=r"does not say what '_Z5callsPf' uses"):
        read_cuobjdump(" Function _Z5callsPf:\n")


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("saxpy", "saxpy"),
        ("_Z6kernelv", "kernel"),
        ("_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEEEEviT0_T1_",
         "at::native::vectorized_elementwise_kernel<…>"),
        ("_ZN43_GLOBAL__N__1c2d3e4f_7_foo_cu_12345678_99993barEPf", "(anonymous namespace)::bar"),
        ("_ZN12_GLOBAL__N_13barEPf", "(anonymous namespace)::bar"),
        ("_ZSt4moveIiEvv", "std::move<…>"),
        ("_Z", "_Z"),
        ("_ZZ1fvENKUlvE_clEv", "_ZZ1fvENKUlvE_clEv"),
        ("void foo<int>(int*, float)", "foo<…>"),
        ("void a::operator()(int)", "a::operator()"),
        ("f(int)::{lambda(float)#1}::operator()(float) const", "f::{…}::operator()"),
        ("triton_poi_fused_add_0", "triton_poi_fused_add_0"),
        ("", ""),
    ],
)  # fmt: skip
def test_short_names(name: str, short: str) -> None:
    assert short_name(name) == short


@given(st.text() | st.text("_ZNISt0123456789EvLKabc<>(){}: ").map("_ZN".__add__))
def test_every_name_has_a_short_one(name: str) -> None:
    assert bool(short_name(name)) == bool(name)


# Traces of the profiler ---------------------------------------------------------------------------------------------


def event(name: str = "k", /, **arguments: object) -> dict[str, Any]:
    numbers = {"device": 0, "registers per thread": 40, "shared memory": 0, "grid": [8, 2, 1], "block": [64, 4, 1]}
    return {"ph": "X", "cat": "kernel", "name": name, "ts": 1, "dur": 2.5, "args": {**numbers, **arguments}}


DEVICE = {"id": 0, "name": "NVIDIA H100", "computeMajor": 9, "computeMinor": 0, "numSms": 132}


def write(path: Path, events: list[Any], **more: Any) -> Path:
    path.write_text(json.dumps({"traceEvents": events, **more}))
    return path


def test_launches_of_one_shape_are_one_entry(tmp_path: Path) -> None:
    events = [
        {"ph": "X", "cat": "cpu_op", "name": "aten::add", "args": {}},
        event("b", **{"est. achieved occupancy %": 31}),
        event("a"),
        {**event("a"), "cat": "Kernel"},
        event("a", grid=[1, 1, 1]),
        {"ph": "M", "name": "process_name"},
    ]
    trace = read_profiler(write(tmp_path / "t.json", events, deviceProperties=[DEVICE]))
    assert [(k.name, k.launches, k.total_us, k.blocks, k.threads) for k in trace.kernels] == [
        ("a", 2, 5.0, 16, 256),
        ("b", 1, 2.5, 16, 256),
        ("a", 1, 2.5, 1, 256),
    ]
    assert [k.profiler_percent for k in trace.kernels] == [None, 31.0, None]
    assert (trace.devices[0].compute_capability, trace.devices[0].sms) == ("9.0", 132)


def test_gzip_lists_and_lenient_json(tmp_path: Path) -> None:
    packed = tmp_path / "t.json.gz"
    packed.write_bytes(gzip.compress(json.dumps([event()]).encode()))
    assert len(read_profiler(packed).kernels) == 1
    sloppy = tmp_path / "sloppy.json"
    text = json.dumps({"traceEvents": [event("C:PATH, ]nan"), {"cat": "x", "v": 0}]})
    sloppy.write_text(text.replace("C:PATH", "C:\\path\\x").replace('"v": 0', '"v": -nan,').replace("]}", ",]}"))
    assert [k.name for k in read_profiler(sloppy).kernels] == ["C:\\path\\x, ]nan"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"traceEvents": [{"cat": "kernel", "na', r"t.json: the JSON is cut off: Unterminated string .* line 1"),
        (b'{"traceEvents": [', r"t.json: the JSON is cut off"),
        (b"", r"the JSON is cut off"),
        (b"<html>no</html>", r"t.json: not JSON: Expecting value in line 1, column 1"),
        (b"{}", r"no list of traceEvents: this is not a trace"),
        (b'"text"', r"no list of traceEvents"),
        (b'{"traceEvents": []}', r"a trace without kernels: none of its 0 events .*ProfilerActivity.CUDA"),
        (b'[{"cat": "cpu_op"}, 3]', r"none of its 2 events"),
        (gzip.compress(b"[" + b"1," * 9999, mtime=0)[:-20], r"a broken gzip file \(.*\); is it cut off"),
        (json.dumps([event(grid=[1, 1])]).encode(), r"kernel 'k': grid = \[1, 1\]: must be three whole numbers"),
        (json.dumps([event(block=[0, 1, 1])]).encode(), r"kernel 'k': block = \[0, 1, 1\]: .* at least 1"),
        (json.dumps([event(**{"shared memory": -1})]).encode(), r"shared memory = -1: .* at least 0"),
        (json.dumps([event(**{"registers per thread": "many"})]).encode(), r"registers per thread = 'many'"),
        (json.dumps([{"cat": "kernel", "name": "k"}]).encode(), r"kernel 'k': grid = None"),
    ],
)
def test_traces_that_cannot_be_read(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(content)
    with pytest.raises(ReadError, match=message):
        read_profiler(path)

"""A kernel and its helper in another file whose lines have equal numbers: nothing of one is told of the other."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpusim_des as gs
from gpusim_des.errors import TraceError
from gpusim_des.line_site import NO_SITE, LineSite
from gpusim_des.timing.simulate import simulate
from gpusim_des.trace import Instruction, KernelTrace, OpClass, WarpTrace
from tests.programs import TINY

HELPER = """\
import numpy as np




def thrice(x):
    return ((x * np.float64(2.5)) * np.float64(1.5)) * np.float64(0.5)
"""

KERNEL = """\
import gpusim_des as gs
import numpy as np
from gpusim_des_helper import thrice

@gs.kernel
def k(t, a, out):
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x + int(np.float64(0.0) * t.threadIdx.x)
    out[i] = thrice(a[i])
"""
"""Lines 7 of both files multiply in float64: once, and three times."""


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "gpusim_des_helper.py").write_text(HELPER)
    (tmp_path / "gpusim_des_main.py").write_text(KERNEL)
    monkeypatch.delitem(__import__("sys").modules, "gpusim_des_helper", raising=False)
    spec = importlib.util.spec_from_file_location("gpusim_des_main", tmp_path / "gpusim_des_main.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.k


def launched(kernel: Any, **options: Any) -> gs.Device:
    dev = gs.Device(gs.load_gpu("h100-sxm").slice(sms=2))
    a, out = (dev.to_device(np.zeros(1024, np.float32), name) for name in ("a", "out"))
    dev.launch(kernel, 4, 256, a, out, **options)
    return dev


@pytest.mark.parametrize("vectorize", [True, False])
def test_stalls_stand_in_the_file_that_waits(kernel: Any, vectorize: bool, tmp_path: Path) -> None:
    dev = launched(kernel, vectorize=vectorize)
    main, helper = (LineSite(str(tmp_path / f"gpusim_des_{name}.py"), 7) for name in ("main", "helper"))
    lines = dev.launches[0].counters.lines
    sims = [dev.simulate(engine=engine) for engine in ("simpy", "compiled")]
    for sim in sims:
        (timing,) = sim.kernels
        assert {site: s["selected"] for site, s in timing.line_stalls.items()} == {
            LineSite(site.filename if site.line else "", site.line): c.instructions for site, c in lines.items()
        }
        assert timing.line_stalls[helper]["long_scoreboard"] > 0  # it waits for a[i]
        assert "long_scoreboard" not in timing.line_stalls[main]
        rows = {LineSite(row["file"], row["line"]): row for row in sim.source().rows()}
        assert all(rows[site]["stalls"] == timing.line_stalls[site] for site in (main, helper))
        shown = [line.split()[0] for line in str(sim.source()).splitlines() if "out[i] =" in line or "2.5" in line]
        assert shown == ["8", "gpusim_des_helper.py:7"]
    assert sims[0].kernels[0].line_stalls == sims[1].kernels[0].line_stalls


def test_float64_is_counted_in_both_files_and_shown_in_the_one_with_most(kernel: Any, tmp_path: Path) -> None:
    dev = launched(kernel)
    (found,) = (a for a in dev.launches[0].advice() if a.check == "accidental_double")
    assert found.figure == 32 * (1 + 3)
    assert found.filename == str(tmp_path / "gpusim_des_helper.py")
    assert (found.line, found.code) == (7, HELPER.splitlines()[6].strip())
    assert "at line 7 of gpusim_des_helper.py and 1 other line: 128 fp64 instructions" in found.finding


def test_a_kernel_of_one_file_says_so_once(kernel: Any) -> None:
    one = launched(kernel).launches[0].trace
    assert len(one.files) == 2
    assert any(len(stream.files) for stream in one.streams)

    @gs.kernel
    def alone(t: Any, a: Any, out: Any) -> None:
        out[t.threadIdx.x] = a[t.threadIdx.x]

    trace = launched(alone).launches[0].trace
    assert trace.files == [__file__]
    assert all(len(stream.files) == 0 for stream in trace.streams)


def by_hand() -> KernelTrace:
    warp = WarpTrace.of(
        [
            Instruction(OpClass.FP32, line=3),
            Instruction(OpClass.FP32, (0,), line=3, file=1),
            Instruction(OpClass.EXIT, (1,)),
        ]
    )
    return KernelTrace.of_blocks("k", [[warp]])


@pytest.mark.parametrize("engine", ["simpy", "compiled"])
def test_files_of_a_trace_by_hand(engine: Any) -> None:
    """Tiny: an addition takes 4 cycles, so the second waits 3."""
    trace = by_hand()
    assert [trace.intern_file(name) for name in ("a.py", "b.py", "a.py")] == [0, 1, 0]
    (timing,) = simulate(TINY, [trace], engine=engine).kernels
    stalls = timing.line_stalls
    assert set(stalls) == {NO_SITE, LineSite("a.py", 3), LineSite("b.py", 3)}
    assert stalls[LineSite("a.py", 3)]["selected"] == 1
    assert "wait" not in stalls[LineSite("a.py", 3)]
    assert stalls[LineSite("b.py", 3)] == {"selected": 1, "wait": TINY.pipe("fp32").latency_cycles - 1}


def test_a_file_that_the_trace_does_not_have() -> None:
    with pytest.raises(TraceError, match=r"instruction 1 stands in file 1: the trace has 1; call intern_file\(\)"):
        simulate(TINY, [by_hand()])
    with pytest.raises(TraceError, match="file of instruction 0 is -1: must lie between 0"):
        WarpTrace.of([Instruction(OpClass.FP32, file=-1)])

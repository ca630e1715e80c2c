"""``gpusim-des occupancy``, called as a function, and its picture."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from gpusim_des import analytic, views
from gpusim_des.cli import main
from tests.test_readers import CUOBJDUMP, DATA, DEVICE, PTXAS, event, write


def say(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(["occupancy", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def numbers(capsys: pytest.CaptureFixture[str], *arguments: object) -> Any:
    return json.loads(say(capsys, *arguments, "--json"))


# Typed in ------------------------------------------------------------------------------------------------------------


def test_limits_limiter_and_what_helps(capsys: pytest.CaptureFixture[str]) -> None:
    text = say(capsys, "--gpu", "h100-sxm", "--threads", 256, "--registers", 65, "--shared", 20000)
    readme = (Path(__file__).parent.parent / "README.md").read_text()
    assert text.split("\n\n", 1)[1] in readme  # the example there is what the command prints
    assert text.startswith("NVIDIA H100 SXM5 80 GB (9.0): 256 threads per block, 65 registers per thread, 20,000 B of")


def test_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    answer = numbers(capsys, "--gpu", "8.6", "--threads", 128, "--registers", 40, "--shared", 9000, "--carveout", 50)
    result = analytic.occupancy("8.6", 128, 40, 9000, 50)
    assert answer["blocks_per_sm"] == result.blocks_per_sm == 6
    assert answer["limits"] == result.limits
    assert answer["limiters"] == ["shared_mem"]
    assert answer["carveout_bytes"] == 64 * 1024
    assert answer["next_better"][0] == {
        "what": "shared_mem",
        "threads": 128,
        "registers": 40,
        "shared_bytes": 64 * 1024 // 7 // 128 * 128 - 1024,
        "blocks_per_sm": 7,
        "occupancy": 28 / 48,
    }


def test_registers_default_to_32_and_full_occupancy_needs_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert numbers(capsys, "--threads", 256)["registers"] == 32
    assert "nothing: every warp slot is taken" in say(capsys, "--threads", 256)
    # One block takes 16 of 24 barriers, and it is as large as blocks can be: 32 of 48 warps.
    text = say(capsys, "--gpu", "12.0", "--threads", 1024, "--barriers", 16)
    assert "no single change" in text
    assert "32 of 48 warps, 1 block per SM" in text


@pytest.mark.parametrize("axis", ["block", "registers", "shared"])
def test_sweeps_and_their_pictures(axis: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shape = ["--gpu", "12.0", "--threads", 96, "--registers", 40, "--shared", 5000, "--sweep", axis]
    curve = analytic.what_if("12.0", axis, 96, 40, 5000)
    sweep = numbers(capsys, *shape)["sweep"]
    assert sweep["values"] == curve.values.tolist()
    assert sweep["blocks_per_sm"] == curve.blocks_per_sm.tolist()
    picture = tmp_path / "what_if.png"
    text = say(capsys, *shape, "--plot", picture)
    table = text[text.index("limited by\n") :].splitlines()[1:-2]
    assert len(table) == len(curve.steps())
    assert sum("<- asked" in line for line in table) == 1
    assert text.endswith(f"written: {picture}\n")
    assert picture.read_bytes().startswith(b"\x89PNG")


# Files ---------------------------------------------------------------------------------------------------------------


def test_a_log_says_for_what_it_was_compiled(capsys: pytest.CaptureFixture[str]) -> None:
    rows = numbers(capsys, "--threads", 512, "--ptxas", DATA / "ptxas.txt")
    assert [row["gpu"] for row in rows] == ["compute capability 8.0"] * 5 + ["compute capability 9.0"] * 5
    assert [row["occupancy"] for row in rows] == [
        analytic.occupancy(r["gpu"].split()[-1], 512, r["registers"], r["shared_bytes"]).occupancy for r in rows
    ]
    only = numbers(capsys, "--threads", 512, "--ptxas", DATA / "ptxas.txt", "--gpu", "h100-sxm")
    assert [row["architecture"] for row in only] == ["sm_90a"] * 5
    other = numbers(capsys, "--threads", 512, "--ptxas", DATA / "ptxas.txt", "--gpu", "t4")
    assert [row["gpu"] for row in other] == ["t4"] * 10


def test_tools_agree_and_dynamic_shared_memory_comes_on_top(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["--threads", 256, "--shared", 100_000, "--gpu", "sm_90"]
    by_ptxas = numbers(capsys, *arguments, "--ptxas", DATA / "ptxas.txt")
    monkeypatch.setattr("sys.stdin", io.StringIO(CUOBJDUMP))
    by_cuobjdump = numbers(capsys, *arguments, "--cuobjdump", "-")
    for row in by_ptxas + by_cuobjdump:
        del row["barriers"], row["spill_bytes"]
    assert by_ptxas == by_cuobjdump
    assert [row["shared_bytes"] for row in by_ptxas] == [100_000] * 3 + [102_176, 104_224]
    assert {row["blocks_per_sm"] for row in by_ptxas} == {2}


def test_kernels_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    text = say(capsys, "--threads", 1024, "--shared", 229_000, "--ptxas", DATA / "ptxas.txt", "--gpu", "9.0")
    lines = text.splitlines()
    assert lines[0] == "1024 threads per block, 229,000 B of dynamic shared memory on compute capability 9.0"
    assert re.match(r"demo::detail::axpy +sm_90a +10 +229000 +1 +50%  shared memory; better: at most 115,", lines[3])
    assert "2332 B spilled" in lines[5]
    assert re.match(r"tiled<…> +sm_90a +14 +233224 +- +-  impossible: shared_mem = 233224 per block: must", lines[7])


def test_a_cubin_needs_a_gpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cubin = tmp_path / "dump.txt"
    cubin.write_text("".join(line + "\n" for line in CUOBJDUMP.splitlines()[20:] if "arch =" not in line))
    rows = numbers(capsys, "--threads", 256, "--cuobjdump", cubin, "--gpu", "h100-sxm")
    assert {row["shared_bytes"] for row in rows} == {0, 2176, 4224}
    assert main(["occupancy", "--threads", "256", "--cuobjdump", str(cubin)]) == 2
    assert "does not say what" in capsys.readouterr().err


SHAPES: list[dict[str, object]] = [
    # registers, shared memory, grid, profiler's figure; 132 SMs.
    {"registers per thread": 40, "grid": [1320, 1, 1], "est. achieved occupancy %": 75},
    {"registers per thread": 32, "grid": [66, 1, 1], "est. achieved occupancy %": 6},  # half a block per SM
    {"registers per thread": 168, "shared memory": 100_000, "grid": [132, 1, 1], "est. achieved occupancy %": 0},
    {"registers per thread": 32, "grid": [1320, 1, 1], "est. achieved occupancy %": 40},
    {"registers per thread": 32, "shared memory": 300_000, "grid": [1, 1, 1]},
]


def test_kernels_of_a_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = [event(f"k{n}", block=[256, 1, 1], **shape) for n, shape in enumerate(SHAPES)]
    trace = write(tmp_path / "t.json", events, deviceProperties=[DEVICE])
    rows = numbers(capsys, "--profiler", trace)
    assert [row["occupancy"] for row in rows] == [0.75, 1.0, 0.125, 1.0, None]
    assert [row["waves"] for row in rows] == pytest.approx([5 / 3, 1 / 16, 1, 5 / 4, None])
    assert [row.get("estimate") for row in rows] == [0.75, 0.0625, 0.125, 1.0, None]
    assert [row["note"][:28] for row in rows] == [
        "",
        "",
        "the profiler's 0% is wrong: ",
        "the profiler says 40%, the r",
        "impossible: shared_mem = 300",
    ]
    text = say(capsys, "--profiler", trace)
    assert text.startswith("NVIDIA H100 (9.0)\n")
    assert re.search(r"\nk2 +1 +2\.5 +132 +256 +168 +100000 +1 +12\.5% +1\.00 +13% +0%  registers \[1\]\n", text)
    assert "\n[1] the profiler's 0% is wrong: it knows no shared memory above 48 KB\n" in text


def test_a_trace_on_another_gpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shape = {"grid": [1320, 1, 1], "block": [256, 1, 1], "est. achieved occupancy %": 75}
    trace = write(tmp_path / "t.json", [event(**shape)], deviceProperties=[DEVICE])
    (row,) = numbers(capsys, "--profiler", trace, "--gpu", "t4")
    assert (row["blocks_per_sm"], row["waves"], row["note"]) == (4, 1320 / (4 * 40), "")
    bare = write(tmp_path / "bare.json", [event(**shape)])
    (row,) = numbers(capsys, "--profiler", bare, "--gpu", "9.0")
    assert (row["blocks_per_sm"], row["waves"]) == (6, None)  # a compute capability has no number of SMs
    assert " - " in say(capsys, "--profiler", bare, "--gpu", "9.0")


# Mistakes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--threads 0", r"threads = 0 per block: must lie between 1 and 1024 on h100-sxm"),
        ("--threads -32", r"threads = -32 per block: must lie between 1 and 1024"),
        ("--threads 32 --registers 256", r"registers = 256 per thread: must lie between 0 and 255"),
        ("--threads 32 --shared 232449", r"shared_mem = 232449 per block: must lie between 0 and 227 KiB"),
        ("--threads 32 --carveout 101", r"carveout = 101: must be a percentage"),
        ("--threads 32 --barriers 17", r"barriers = 17 per block"),
        ("--threads 32 --gpu 9.9", r"no table for compute capability 9.9; known: 3.5, .* 12.1"),
        ("--threads 32 --gpu h100", r"no GPU model 'h100': did you mean"),
        ("", r"--threads is missing: an occupancy is that of a block size"),
        ("--ptxas PTXAS", r"--threads is missing: --ptxas does not say how large blocks are"),
        ("--threads 32 --plot a.png", r"--plot draws a sweep"),
        ("--threads 32 --ptxas PTXAS --registers 5", r"--ptxas takes the registers from the file"),
        ("--threads 32 --ptxas PTXAS --sweep block", r"--ptxas takes the registers from the file"),
        ("--threads 0 --ptxas PTXAS", r"threads = 0 per block"),
        ("--threads 32 --profiler TRACE", r"--profiler takes all of a launch from the trace"),
        ("--profiler TRACE", r"does not describe its device 0: give --gpu"),
        ("--profiler EMPTY", r"empty.json: a trace without kernels"),
        ("--profiler CUT", r"cut.json: the JSON is cut off"),
        ("--threads 32 --ptxas EMPTY", r"a ptxas log without kernels"),
        ("--threads 32 --cuobjdump EMPTY", r"a dump without kernels"),
        ("--threads 32 --ptxas NOWHERE", r"nowhere: no such file"),
        ("--threads 32 --sweep block --plot NOWHERE/a.png", r"--plot .*a\.png: there is no folder .*nowhere; create"),
        ("--threads 32 --sweep block --plot a.foo", r"--plot a\.foo: the ending chooses the format: \.png, \.svg or"),
    ],
)
def test_mistakes_are_told(arguments: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "ptxas.txt").write_text(PTXAS)
    trace = write(tmp_path / "trace.json", [event()])
    (tmp_path / "cut.json").write_text(trace.read_text()[:-30])
    write(tmp_path / "empty.json", [])
    files = {
        "PTXAS": "ptxas.txt",
        "TRACE": "trace.json",
        "EMPTY": "empty.json",
        "CUT": "cut.json",
        "NOWHERE": "nowhere",
    }
    for word, file in files.items():
        arguments = arguments.replace(word, str(tmp_path / file))
    assert main(["occupancy", *arguments.split()]) == 2
    error = capsys.readouterr().err
    assert error.startswith("gpusim-des: ")
    assert error.count("\n") == 1
    assert re.search(message, error)


# The picture ---------------------------------------------------------------------------------------------------------


def test_the_picture_marks_what_was_asked_and_names_limiters() -> None:
    ax = views.occupancy_curve(analytic.what_if("h100-sxm", "registers", 256, 65))
    assert [t.get_text() for t in ax.texts] == ["65 registers: 37.5%, 3 blocks per SM"]
    legend = ax.get_legend()
    assert legend is not None
    assert [t.get_text() for t in legend.get_texts()] == ["warp slots", "registers"]
    assert ax.get_title(loc="left") == "Occupancy on h100-sxm: 256 threads per block, no shared memory"
    outline = ax.patches[0].get_data()  # type: ignore[attr-defined]
    # From just above 64 registers on there are three blocks: that of 65 is between the edges 64 and 65.
    at = list(outline.edges).index(64)
    assert (outline.values[at - 1], outline.values[at]) == (50.0, 37.5)


def test_the_picture_takes_axes_and_a_title() -> None:
    ax = views.occupancy_curve(analytic.what_if("t4", "block", 33, 32, 4096), title="mine")
    assert views.occupancy_curve(analytic.what_if("t4", "shared", 33), ax=ax, title="yours") is ax
    assert ax.get_title(loc="left") == "yours"

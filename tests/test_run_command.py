"""``gpusim-des run``: its figures, its exit codes, and the texts that stand for arrays and sizes."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpusim_des as gs
from gpusim_des.cli import main
from gpusim_des.commands.run_command import ARGUMENTS
from gpusim_des.sweeps.argument import ArraySpec, make_arguments, parse_argument
from gpusim_des.sweeps.expression import evaluate
from tests.test_commands import ADD, ADD_ARGS, KERNELS

# run -----------------------------------------------------------------------------------------------------------------


def test_run_tells_time_and_counters(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*ADD, *ADD_ARGS, "--registers", "40", "--json"]) == 0

    answer = json.loads(capsys.readouterr().out)
    launch = answer["launch"]
    assert (launch["name"], launch["grid"], launch["block"]) == ("vector_add", [4, 1, 1], [64, 1, 1])
    assert launch["registers"] == 40
    assert launch["counters"]["global_load_sectors"] == 2 * 25  # 800 bytes each
    assert answer["kernel"]["blocks"] == 4
    assert answer["kernel"]["seconds"] > 0
    assert answer["kernel"]["counted_thread_loads"] == 400
    assert [(each["check"], each["kernel"]) for each in answer["advice"]] == [("short_kernel", "")]


def test_run_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*ADD, *ADD_ARGS, "--copies"]) == 0

    said = capsys.readouterr()
    assert said.err == ""
    assert said.out.startswith("vector_add on tiny (two SMs, round numbers)\ngrid (4, 1, 1), block (64, 1, 1), 32 reg")
    assert "assumed: 32 registers per thread (not given at launch)" in said.out
    assert "copies to device" in said.out  # of overlap()
    assert "\n\nadvice, worst first:\n- 3 copies h2d of 800 bytes, mean: 10 µs of each is latency" in said.out
    assert re.search(r"global load sectors +50\n", said.out)


def test_run_times_what_python_times(capsys: pytest.CaptureFixture[str]) -> None:
    from tests.command_kernels import scale  # noqa: PLC0415 - the same kernel by its module's name

    assert main(["run", f"{KERNELS}:scale", "--gpu", "tiny", "--grid", "8", "--block", "128", "--arg", "a=f32[1024]:2",
                 "--json", "--caches", "off", "--engine", "simpy", "--shared", "1024"]) == 0  # fmt: skip
    kernel = json.loads(capsys.readouterr().out)["kernel"]

    dev = gs.Device("tiny")
    a = dev.to_device(np.full(1024, 2, np.float32), "a")
    dev.forget_launches()
    dev.launch(scale, 8, 128, a, dynamic_shared=1024)
    assert kernel["seconds"] == dev.simulate(caches="off", engine="simpy").kernels[0].seconds


def test_run_writes_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tests.command_kernels import strided  # noqa: PLC0415 - the same kernel by its module's name

    report, saved = tmp_path / "new" / "report", tmp_path / "run.json.gz"
    assert main(["run", f"{KERNELS}:strided", "--gpu", "tiny", "--grid", "4", "--block", "64", "--arg", "a=f32[8192]",
                 "c=f32[256]", "--report", str(report), "--save", str(saved)]) == 0  # fmt: skip

    said = re.findall(r"^written: (.*)$", capsys.readouterr().out, re.MULTILINE)
    assert sorted(said) == sorted(map(str, [*report.iterdir(), saved]))
    figures = {
        f"{name}.png"
        for name in ("streams", "bandwidth", "stalls", "line_stalls", "blocks", "active_warps", "roofline")
    }
    assert {p.name for p in report.iterdir()} == figures | {"report.txt", "report.html", "result.json", "trace.json.gz"}
    assert gs.load_result(report / "result.json") == gs.load_result(saved)

    dev = gs.Device("tiny")
    arrays = [dev.to_device(np.zeros(n, np.float32), name) for n, name in ((8192, "a"), (256, "c"))]
    dev.forget_launches()
    dev.launch(strided, 4, 64, *arrays)
    advice = dev.simulate(detail="sm").advice()
    assert any("32 sectors" in str(found) for found in advice)
    text = (report / "report.txt").read_text()
    assert "advice, worst first:\n" + "".join(f"- {found}\n" for found in advice) in text
    assert "c[i] = a[32 * i]" in text  # the source view
    assert re.search(r"global load sectors +256\n", text)


def test_run_takes_a_sample_and_a_slice(capsys: pytest.CaptureFixture[str]) -> None:
    size = ["--arg", "n=131072", "a=f32[n]", "b=f32[n]", "c=f32[n]:empty"]
    assert main([*ADD, *size, "--sample", "12", "--sms", "1"]) == 0
    said = capsys.readouterr().out
    assert re.search(r"of 2,048 blocks were executed, the counters are estimates", said)
    assert re.search(r"time +[\d.]+ µs ± [\d.]+%", said)
    assert "(1 of 2 SMs)" in said


@pytest.mark.parametrize(
    ("kernel", "args", "message"),
    [
        (
            "without_guard",
            ["a=f32[100]"],
            r"without_guard: store to 'a' in line \d+ of command_kernels\.py: index 100 is",
        ),
        ("halves_stop", ["a=f32[64]"], r"halves_stop"),
        ("divides_by_zero", ["a=f32[64]"], r"divides_by_zero in .*command_kernels\.py, line \d+: ZeroDivisionError"),
    ],
)
def test_a_wrong_kernel_is_exit_code_3(
    kernel: str, args: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["run", f"{KERNELS}:{kernel}", "--gpu", "tiny", "--grid", "2", "--block", "64", "--arg", *args]
    assert main(command) == 3
    said = capsys.readouterr()
    assert said.out == ""
    assert re.match(rf"gpusim-des: {message}", said.err)


def test_races_are_told_behind_the_figures(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["run", f"{KERNELS}:races", "--gpu", "tiny", "--grid", "1", "--block", "64", "--arg", "a=f32[64]"]
    assert main(command) == 3
    said = capsys.readouterr()
    assert said.out.startswith("races on tiny")
    assert re.match(r"gpusim-des: .*tile", said.err)
    assert main([*command, "--races", "off"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({1: "nowhere.py:k"}, r"kernel 'nowhere\.py:k': there is no file nowhere\.py"),
        ({1: "kernels"}, r"kernel 'kernels': write FILE\.py:KERNEL, for example"),
        ({1: KERNELS}, r"command_kernels\.py has several kernels: say which, .*vector_add"),
        ({1: f"{KERNELS}:vectoradd"}, r"'vectoradd' is not there: did you mean 'vector_add'\?"),
        ({1: f"{KERNELS}:NOT_A_KERNEL"}, r"'NOT_A_KERNEL' is no kernel: mark it with @gs\.kernel"),
        ({3: "h10-sxm"}, r"no GPU model 'h10-sxm': did you mean 'h100-sxm'"),
        ({5: "n +"}, r"grid = 'n \+': not an expression; write for example 64, 16,16 or cdiv\(n, block\)"),
        ({5: "n / 2"}, r"grid = 'n / 2': 'n / 2' is not possible here"),
        ({5: "m"}, r"grid = 'm': 'm' is no argument that is a whole number: "),
        ({5: "cdiv(n, 0)"}, r"grid = 'cdiv\(n, 0\)': .*the divisor must be positive"),
        ({5: "0"}, r"grid\.x = 0: must lie between 1 and"),
        ({5: "__import__('os')"}, r"grid = .* is not possible here"),
        ({7: "2048"}, r"block\.x = 2,048: must lie between 1 and 1,024; launch more blocks of fewer threads"),
        ({10: "a=f32[n"}, r"a = 'f32\[n': the \] is missing; write for example a=f32\[1024\]:random"),
        ({7: "1,2,3,4"}, r"block = \(1, 2, 3, 4\): give one, two or three sizes"),
        ({9: "n"}, r"--arg 'n': write NAME=VALUE, for example n=1024"),
        ({9: "n="}, r"n has no value: write for example n=1024"),
        ({9: "m=200"}, r"kernel 'vector_add' has no argument 'm': known: a, b, c, n"),
        ({9: "n=1e3"}, r"grid = 'cdiv\(n, block\)': n = 1000\.0 is no whole number; write for example n=1000\n"),
        ({9: "n=2.5"}, r"grid = .*: n = 2\.5 is no whole number; write for example n=1024"),
        ({10: "a=f31[n]"}, r"a: there is no type 'f31': "),
        ({10: "a=f32[n]:noise"}, r"a = 'f32\[n\]:noise': 'noise' is no content of an array: zeros, ones, arange"),
        ({10: "a=f32[k]"}, r"size of a = 'k': 'k' is no argument that is a whole number"),
        ({10: "a=f32[0]"}, r"a: an array of sizes \(0,\): each must be at least 1"),
        ({10: "a=f32[1000000,1000000]"}, r"a: an array of sizes .* bytes: at most 17,179,869,184"),
        ({10: "a=u8[n]:300"}, r"a = 300: does not fit uint8, whole numbers 0 to 255"),
        ({10: "a=nowhere.npy"}, r"a: there is no file 'nowhere\.npy'"),
        ({10: "n=7"}, r"--arg n is given twice: 'n=7'"),
        ({10: "c=f32[n]:1", 12: "c=f32[n]"}, r"--arg c is given twice"),
    ],
)
def test_wrong_usage_is_exit_code_2(change: dict[int, str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = [*ADD, *ADD_ARGS]
    for place, text in change.items():
        command[place] = text
    assert main(command) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert re.search(message, said.err)
    assert said.err.count("\n") == 1


def test_a_missing_argument_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*ADD, "--arg", "n=200", "a=f32[n]"]) == 2
    assert re.search(
        r"kernel 'vector_add' takes \(a, b, c, n\), and b, c are missing: give for example b=f32\[1024\]:random",
        capsys.readouterr().err,
    )


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("x = 1\n", r"k\.py has no kernel: mark a function with @gs\.kernel"),
        ("x = (\n", r"k\.py, line 1: '\(' was never closed"),
        ("\nimport gone_with_the_wind\n", r"k\.py, line 2: ModuleNotFoundError"),
        ("raise SystemError('no')\n", r"k\.py, line 1: SystemError: no"),
        ("import sys\nsys.exit(0)\n", r"k\.py, line 2: SystemExit: 0"),
    ],
)
def test_files_that_cannot_be_run(
    source: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "k.py").write_text(source)
    assert main(["run", str(tmp_path / "k.py"), "--grid", "1", "--block", "32"]) == 2
    assert re.search(message, capsys.readouterr().err)


@pytest.mark.filterwarnings("default")
def test_a_kernel_that_runs_thread_by_thread_is_told_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = "import os\nimport gpusim_des as gs\n@gs.kernel\ndef k(t, x):\n    x[t.threadIdx.x] = os.getpid() > 0\n"
    (tmp_path / "k.py").write_text(source)
    command = ["run", str(tmp_path / "k.py"), "--gpu", "tiny", "--grid", "1", "--block", "32", "--arg", "x=f32[32]"]
    assert main(command) == 0
    assert re.fullmatch(r"gpusim-des: kernel 'k' runs thread by thread.*line 5 of k\.py\n", capsys.readouterr().err)


def test_a_folder_that_is_not_there_is_told_before_the_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*ADD, *ADD_ARGS, "--save", str(tmp_path / "no" / "r.json")]) == 2
    assert re.search(r"--save .*r\.json: there is no folder .*create it first", capsys.readouterr().err)


def test_the_example_of_the_help_works(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything a newcomer needs stands in ``run --help``: its kernel, its commands, its exit codes."""
    with pytest.raises(SystemExit):
        main(["run", "--help"])
    said = capsys.readouterr().out
    assert ARGUMENTS.strip() in said
    code = said.split("kernels.py holds\n", 1)[1].split("\n\n  gpusim-des", 1)[0]
    (tmp_path / "kernels.py").write_text("\n".join(line[2:] for line in code.splitlines()))
    commands = re.findall(r"^  (gpusim-des (?:.*\\\n)*.*)$", said, re.MULTILINE)
    assert len(commands) == 3
    monkeypatch.chdir(tmp_path)
    for command in commands:
        words = shlex.split(command.replace("\\\n", ""))[1:]
        assert main([{"h100-sxm": "tiny", "n=65536": "n=6553"}.get(word, word) for word in words]) == 0
    said = capsys.readouterr().out
    assert re.search(r"seconds .*%\n", said)


def test_every_form_of_the_help_is_read() -> None:
    forms = re.findall(r"^  (\w+)=(\S+) ", ARGUMENTS, re.MULTILINE)
    assert len(forms) == 6
    specs = {f"{name}{k}" if name in ("x", "n") and k else name: parse_argument(name, text)
             for k, (name, text) in enumerate(forms) if not text.endswith(".npy")}  # fmt: skip
    made = make_arguments(specs)
    assert made["n"] == 1024
    assert made["n1"] == 1024
    assert parse_argument("n", "1_024") == 1024
    assert parse_argument("n", "-9_223_372_036_854_775_808") == -(2**63)
    assert made["n1"].dtype == np.int64
    assert made["m"] == 512
    assert made["x3"].shape == (1024,)
    assert made["x4"].shape == (64, 64)
    for text, kind in (("1e-3", float), ("2.5", float), ("true", bool)):
        assert type(parse_argument("n", text)) is kind


# Arguments and expressions -------------------------------------------------------------------------------------------


def test_contents_of_arrays() -> None:
    def made(text: str, name: str = "x") -> Any:
        return make_arguments({"n": 3, name: parse_argument(name, text)})[name]

    assert made("i32[n]:arange").tolist() == [0, 1, 2]
    assert made("f64[2,n]:7.5").tolist() == [[7.5] * 3] * 2
    assert made("u8[n]:ones").tolist() == [1, 1, 1]
    assert made("bool[n]:true").tolist() == [True] * 3
    assert made("float16[n]").dtype == np.float16
    random = made("f32[n*1000]:random")
    assert 0 <= random.min() < 0.01
    assert 0.99 < random.max() < 1
    assert (made("f32[n*1000]:random") == random).all()
    assert (made("f32[n*1000]:random", "y") != random).any()
    assert (made("f32[n*1000]:random(1)") != random).any()
    whole = made("i8[n*1000]:random")
    assert (whole.min(), whole.max()) == (0, 99)
    assert make_arguments({"x": parse_argument("x", "f32[2,3]:empty")})["x"] == ArraySpec("float32", "2, 3", "empty")


def test_arrays_from_files(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(4))
    assert make_arguments({"a": parse_argument("a", str(tmp_path / "a.npy"))})["a"].tolist() == [0, 1, 2, 3]
    np.save(tmp_path / "o.npy", np.array([{}], dtype=object), allow_pickle=True)
    (tmp_path / "t.npy").write_text("no array")
    for name in ("o.npy", "t.npy"):
        with pytest.raises(gs.UsageError, match=rf"{name}' is no array of numbers .*numpy\.save"):
            parse_argument("a", str(tmp_path / name))


numbers = st.integers(1, 10**6)


@given(numbers, numbers, st.integers(1, 99))
def test_expressions_are_pythons(n: int, m: int, b: int) -> None:
    text = "cdiv(n, b) + m*2 - -b, min(n, m) // b, max(n % b, 3)"
    expected = (-(-n // b) + m * 2 + b, min(n, m) // b, max(n % b, 3))
    assert evaluate(text, {"n": n, "m": m, "b": b, "x": 2.5, "t": True}, "grid") == expected


@given(st.text(max_size=30))
def test_no_text_does_harm(text: str) -> None:
    try:
        sizes = evaluate(text, {"n": 3}, "grid")
    except gs.UsageError as error:
        assert str(error).startswith("grid = ")  # noqa: PT017 - either way is right
    else:
        assert all(isinstance(size, int) for size in sizes)


@pytest.mark.parametrize("text", ["9" * 30, "n*" * 60 + "n", "(" * 150, "n.real", "n[0]", "lambda: 1", "True", "x"])
def test_expressions_that_are_refused(text: str) -> None:
    with pytest.raises(gs.UsageError):
        evaluate(text, {"n": 10**6, "x": 1.5}, "grid")

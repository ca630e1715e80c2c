"""``run``, ``compare``, ``gpus --show`` and ``completion``, as a user types them."""

from __future__ import annotations

import io
import json
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpusim_des as gs
from gpusim_des.cli import main
from gpusim_des.commands.compare_command import differences
from gpusim_des.commands.output import printable
from gpusim_des.commands.progress import CLEAR_LINE, Progress
from gpusim_des.commands.run_command import ARGUMENTS
from gpusim_des.gpu import load_gpu, written_entries
from gpusim_des.sweeps.argument import ArraySpec, make_arguments, parse_argument
from gpusim_des.sweeps.expression import evaluate
from gpusim_des.units import parse

KERNELS = str(Path(__file__).with_name("command_kernels.py"))
ADD = ["run", f"{KERNELS}:vector_add", "--gpu", "tiny", "--grid", "cdiv(n, block)", "--block", "64"]
ADD_ARGS = ["--arg", "n=200", "a=f32[n]:random", "b=f32[n]:arange", "c=f32[n]"]


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


def test_run_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*ADD, *ADD_ARGS, "--copies"]) == 0

    said = capsys.readouterr()
    assert said.err == ""
    assert said.out.startswith("vector_add on tiny (two SMs, round numbers)\ngrid (4, 1, 1), block (64, 1, 1), 32 reg")
    assert "assumed: 32 registers per thread (not given at launch)" in said.out
    assert "copies to device" in said.out  # of overlap()
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
    report, saved = tmp_path / "new" / "report", tmp_path / "run.json.gz"
    assert main([*ADD, *ADD_ARGS, "--report", str(report), "--save", str(saved)]) == 0

    names = {"report.txt", "report.html", "result.json", "trace.json", "timeline.png", "stalls.png", "streams.png"}
    assert {p.name for p in report.iterdir()} == names
    assert all(
        f"written: {report / name}" in capsys_text for capsys_text in [capsys.readouterr().out] for name in names
    )
    assert gs.load_result(report / "result.json") == gs.load_result(saved)
    text = (report / "report.txt").read_text()
    assert "c[i] = a[i] + b[i]" in text  # the source view
    assert re.search(r"\n(Load|Store|Grid|Block|Kernel|.*%)", text)
    assert re.search(r"global load sectors +50\n", text)


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
        ({7: "2048"}, r"block\.x = 2,048: must lie between 1 and 1,024"),
        ({7: "1,2,3,4"}, r"block = \(1, 2, 3, 4\): give one, two or three sizes"),
        ({9: "n"}, r"--arg 'n': write NAME=VALUE, for example n=1024"),
        ({9: "n="}, r"n has no value: write for example n=1024"),
        ({9: "m=200"}, r"kernel 'vector_add' has no argument 'm': known: a, b, c, n"),
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
    ],
)
def test_files_that_cannot_be_run(
    source: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "k.py").write_text(source)
    assert main(["run", str(tmp_path / "k.py"), "--grid", "1", "--block", "32"]) == 2
    assert re.search(message, capsys.readouterr().err)


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


# compare -------------------------------------------------------------------------------------------------------------


def test_compare_shows_what_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for block in ("64", "128"):
        assert main([*ADD[:-1], block, *ADD_ARGS, "--save", str(tmp_path / f"{block}.json")]) == 0
    capsys.readouterr()
    files = [str(tmp_path / "64.json"), str(tmp_path / "128.json")]
    assert main(["compare", *files, "--json"]) == 0
    (table,) = json.loads(capsys.readouterr().out)["tables"]
    figures = {row["figure"]: row for row in table["figures"]}
    assert (figures["blocks"]["first"], figures["blocks"]["second"], figures["blocks"]["difference"]) == (4, 2, -0.5)
    assert figures["counted_global_load_sectors"]["difference"] == 0
    a, b = (gs.load_result(file).kernels[0].seconds for file in files)
    assert figures["seconds"]["difference"] == (b - a) / a

    assert main(["compare", *files]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "vector_add on tiny (two SMs, round numbers)"
    assert re.fullmatch(r"figure +A +B +difference", lines[1])
    assert any(re.fullmatch(r"blocks +4 +2 +-50\.0%", line) for line in lines)
    assert not any(line.startswith("counted_global_load_sectors") for line in lines)
    assert main(["compare", *files, "--all"]) == 0
    assert re.search(r"counted_global_load_sectors +50 +50 +=\n", capsys.readouterr().out)


def test_compare_a_result_with_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.json"
    assert main([*ADD, *ADD_ARGS, "--save", str(path)]) == 0
    capsys.readouterr()
    assert main(["compare", str(path), str(path)]) == 0
    assert "%" not in capsys.readouterr().out


def test_compare_refuses_other_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.json").write_text("{}")
    assert main(["compare", str(tmp_path / "a.json"), str(tmp_path / "a.json")]) == 2
    assert re.search(r"a\.json: not a result of gpusim_des", capsys.readouterr().err)
    assert main(["compare", str(tmp_path / "b.json"), str(tmp_path / "a.json")]) == 2


def test_differences_by_hand() -> None:
    rows = differences({"name": "a", "cycles": 4, "x": None, "instructions_int": 2}, {"name": "b", "cycles": 5, "x": 0})
    assert [(r["figure"], r["difference"]) for r in rows] == [("cycles", 0.25), ("x", None), ("instructions_int", -1.0)]


def test_names_cannot_steer_the_terminal() -> None:
    assert printable("a\x1b[2Jb\x07\u202ec µ\n") == "a\\x1b[2Jb\\x07\\u202ec µ\n"


# gpus, completion, the parser -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", gs.list_gpus())
def test_show_has_a_source_for_every_number(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gpus", "--show", name]) == 0
    said = capsys.readouterr().out
    assert said.startswith(load_gpu(name).title)
    entries = written_entries(name)
    assert len({e.label for e in entries}) == len(entries) > 40
    assert all(e.label in said and e.source in said for e in entries)


def test_show_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gpus", "--show", "h100-sxm", "--json"]) == 0
    entries = json.loads(capsys.readouterr().out)
    assert parse(entries["sm_clock"]["value"], "Hz") == load_gpu("h100-sxm").sm_clock_hz
    assert entries["sm.max_warps_per_sm"]["file"] == "9.0.toml"
    assert main(["gpus", "--show", "h10"]) == 2


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion_knows_commands_and_options(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert script.startswith("autoload" if shell == "zsh" else "# gpusim-des")
    bash = shutil.which("bash")
    assert bash is not None

    def completed(*words: str) -> set[str]:
        program = (
            f"{script.removeprefix('autoload -U +X bashcompinit && bashcompinit')}\n"
            f"COMP_WORDS=({' '.join(map(shlex.quote, words))}); COMP_CWORD={len(words) - 1}; _gpusim_des\n"
            'printf "%s\\n" "${COMPREPLY[@]}"'
        )
        run = subprocess.run([bash, "-c", program], check=True, capture_output=True, text=True)
        return set(run.stdout.split())

    assert completed("gpusim-des", "co") == {"compare", "completion"}
    assert completed("gpusim-des", "run", "k.py:k", "--gr") == {"--grid"}
    assert completed("gpusim-des", "run", "--gpu", "h100") == {"h100-pcie", "h100-sxm"}
    assert "latency_hiding" in completed("gpusim-des", "experiment", "")


def test_help_does_not_load_numpy() -> None:
    program = "import sys, gpusim_des.cli as c; c._parser(); print({'numpy', 'numba', 'simpy'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert run.stdout.strip() == "set()"


def test_every_public_name_is_there() -> None:
    program = (
        "import gpusim_des as gs\n"
        "assert 'numpy' not in __import__('sys').modules\n"
        "missing = [name for name in gs.__all__ if getattr(gs, name, None) is None or name not in dir(gs)]\n"
        "assert not missing, missing\n"
        "assert callable(gs.launch) and callable(gs.load_result)\n"
        "try:\n    gs.lunch\nexcept AttributeError as error:\n    print(error)\n"
    )
    run = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert run.stdout == "module 'gpusim_des' has no attribute 'lunch'\n"


def test_the_version_is_that_of_the_package() -> None:
    project = (Path(__file__).resolve().parent.parent / "pyproject.toml").read_text()
    assert f'\nversion = "{gs.__version__}"\n' in project


@pytest.mark.slow
def test_help_and_import_are_quick() -> None:
    """Asked: help in 0.3 s, import in 0.5 s; the best of several, since other work may run on the machine."""
    for program, limit in ((["-m", "gpusim_des", "--help"], 0.3), (["-c", "import gpusim_des"], 0.5)):
        times = []
        for _ in range(7):
            start = time.perf_counter()
            subprocess.run([sys.executable, *program], check=True, capture_output=True)
            times.append(time.perf_counter() - start)
        assert min(times) < limit


# Progress ------------------------------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_on_a_terminal() -> None:
    times = iter([0.0, 0.1, 1.0, 1.05, 2.0, 4.0])
    said = Terminal()
    with Progress("add", stream=said, clock=lambda: next(times)) as progress:
        for done in (10, 100, 105, 200, 400):
            progress(done, 400)
    lines = said.getvalue().replace(CLEAR_LINE, "").split("\r")
    assert lines == [
        "",  # nothing after 0.1 s, and nothing 0.05 s after an update
        "add: 100 of 400 blocks (25 %), 100 blocks/s, 3 s left",
        "add: 200 of 400 blocks (50 %), 100 blocks/s, 2 s left",
        "add: 400 of 400 blocks (100 %), 100 blocks/s\n",
    ]


def test_progress_is_silent_elsewhere_and_for_short_work() -> None:
    log = io.StringIO()
    with Progress("add", stream=log) as progress:
        progress(1, 2)
    assert log.getvalue() == ""
    terminal = Terminal()
    with Progress("add", stream=terminal) as progress:
        progress(2, 2)
    assert terminal.getvalue() == ""


def test_a_reader_that_has_seen_enough() -> None:
    command = f"{shlex.quote(sys.executable)} -m gpusim_des gpus --show t4 | head -1"
    run = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}; true"], check=True, capture_output=True, text=True
    )
    assert (run.stdout, run.stderr) == ("NVIDIA T4\n", "")

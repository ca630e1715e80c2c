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
import types
from pathlib import Path

import pytest

import gpusim_des as gs
from gpusim_des.__main__ import main as started
from gpusim_des.cli import main
from gpusim_des.commands.compare_command import differences, names
from gpusim_des.commands.output import in_words, printable
from gpusim_des.commands.progress import CLEAR_LINE, Progress
from gpusim_des.gpu import load_gpu, written_entries
from gpusim_des.silicon import list_targets
from gpusim_des.units import parse
from gpusim_des.whole_file import whole_file

KERNELS = str(Path(__file__).with_name("command_kernels.py"))
ADD = ["run", f"{KERNELS}:vector_add", "--gpu", "tiny", "--grid", "cdiv(n, block)", "--block", "64"]
ADD_ARGS = ["--arg", "n=200", "a=f32[n]:random", "b=f32[n]:arange", "c=f32[n]"]


# compare -------------------------------------------------------------------------------------------------------------


def test_compare_shows_what_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for block in ("64", "128"):
        assert main([*ADD[:-1], block, *ADD_ARGS, "--save", str(tmp_path / f"{block}.json")]) == 0
    capsys.readouterr()
    files = [str(tmp_path / "64.json"), str(tmp_path / "128.json")]
    assert main(["compare", *files, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    (table,) = answer["tables"]
    assert answer["files"] == files
    figures = {row["figure"]: row for row in table["figures"]}
    assert (figures["blocks"]["first"], figures["blocks"]["second"], figures["blocks"]["difference"]) == (4, 2, -0.5)
    assert figures["counted_global_load_sectors"]["difference"] == 0
    a, b = (gs.load_result(file).kernels[0].seconds for file in files)
    assert figures["seconds"]["difference"] == (b - a) / a

    assert main(["compare", *files]) == 0
    head, _, *lines = capsys.readouterr().out.splitlines()
    assert head == f"A is {files[0]}, B is {files[1]}"
    assert lines[0] == "vector_add on tiny (two SMs, round numbers)"
    assert re.fullmatch(r"figure +A +B +difference", lines[1])
    assert [line.split() for line in lines[2:5]] == [
        ["grid", "4", "2", "-50.0%"],
        ["block", "64", "128", "+100.0%"],
        ["blocks", "4", "2", "-50.0%"],
    ]
    assert not any(line.startswith("counted_global_load_sectors") for line in lines)
    assert main(["compare", *files, "--all"]) == 0
    assert re.search(r"counted_global_load_sectors +50 +50 +=\n", capsys.readouterr().out)
    assert main(["compare", files[0], files[0]]) == 0  # what is compared is said where it is equal, too
    assert re.search(r"blocks +4 +4 +=\nwarps_per_block +2 +2 +=\n", capsys.readouterr().out)


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
    gone = str(tmp_path / "b.json")
    assert capsys.readouterr().err == (
        f"gpusim-des: there is no result {gone}: write one with gpusim-des run … --save {gone}, or with sim.save\n"
    )


def test_differences_by_hand() -> None:
    rows = differences({"name": "a", "cycles": 4, "x": None, "instructions_int": 2}, {"name": "b", "cycles": 5, "x": 0})
    assert [(r["figure"], r["difference"]) for r in rows] == [("cycles", 0.25), ("x", None), ("instructions_int", -1.0)]


def test_differences_beyond_every_number() -> None:
    (row,) = differences({"cycles": 1e-300}, {"cycles": 1e300})
    assert row["difference"] is None


def test_headings_end_somewhere() -> None:
    assert (
        names({"name": "k" * 10**6, "gpu": "tiny"}, {"name": "k" * 10**6, "gpu": "t4"}) == f"{'k' * 100}… on tiny | t4"
    )


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

    gs_targets = {target.name for target in list_targets()}

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
    assert completed("gpusim-des", "completion", "") == {"bash", "zsh"}
    assert completed("gpusim-des", "run", "--races", "") == {"shared", "global", "off"}
    assert completed("gpusim-des", "run", "--engine", "c") == {"compiled"}
    assert gs_targets <= completed("gpusim-des", "validate", "--target", "")
    for words in (["compare"], ["run", "k.py:k", "--save"], ["sweep", "--plot"], ["sweep", "f", "--csv"], ["run"]):
        assert completed("gpusim-des", *words, "") == set()  # bash names files then
    assert "--json" in completed("gpusim-des", "compare", "-")
    assert "--list" in completed("gpusim-des", "validate", "")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["runn", "k.py:k"], r"; runn: did you mean 'run'\?"),
        ([*ADD, "--gird", "3"], r"unrecognized arguments: --gird 3; --gird: did you mean '--grid'\?"),
        (["run", "k.py:k", "--gird=3", "--block", "1"], r"are required: --grid; --gird: did you mean '--grid'\?"),
        (
            [*ADD, "--registers", "nan"],
            r"argument --registers: 'nan' is no whole number: write its digits alone, for example 32\n",
        ),
        (
            ["occupancy", "--threads", "1e3"],
            r"argument --threads: '1e3' is no whole number: write its digits alone, for example 1000\n",
        ),
        (["occupancy", "--carveout", "1e99999999"], r"'1e99999999' is no whole number: write its digits alone, for"),
        (
            ["occupancy", "--shared", "9" * 5000],
            r"argument --shared: a whole number of 5,000 digits: at most 9,223,372",
        ),
        (["occupancy", "--barriers", "9" * 20], r"argument --barriers: a whole number of 20 digits: at most 9,223,372"),
        (["run", "k.py:k"], r"are required: --grid, --block\n"),
    ],
)
def test_words_that_are_none(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert re.search(message, capsys.readouterr().err)


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
    times = iter([50.0, 50.1, 51.0, 51.05, 52.0, 54.0])
    said = Terminal()
    with Progress("add", stream=said, clock=lambda: next(times)) as progress:
        for done in (200, 210, 300, 305, 400, 600):
            progress(done, 600)
    lines = said.getvalue().replace(CLEAR_LINE, "").split("\r")
    assert lines == [
        "",  # nothing after 0.1 s, and nothing 0.05 s after an update; 200 lay finished at the first call
        "add: 300 of 600 blocks (50 %), 100 blocks/s, 3 s left",
        "add: 400 of 600 blocks (67 %), 100 blocks/s, 2 s left",
        "add: 600 of 600 blocks (100 %), 100 blocks/s\n",
    ]


def test_progress_begins_again_with_the_next_kernel() -> None:
    times = iter([0.0, 1.0, 9.0, 11.0])
    said = Terminal()
    with Progress("add", stream=said, clock=lambda: next(times)) as progress:
        for kernel, done in (("a", 0), ("a", 100), ("b", 0), ("b", 50)):
            progress.of_kernel(kernel, done, 100)
    lines = said.getvalue().replace(CLEAR_LINE, "").split("\r")
    assert lines == ["", "add: 100 of 100 blocks (100 %), 100 blocks/s",
                     "add: 50 of 100 blocks (50 %), 25 blocks/s, 2 s left\n"]  # fmt: skip


def test_experiments_tell_how_many_are_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("gpusim_des.commands.progress.PATIENCE_S", 0)
    monkeypatch.setattr("sys.stderr", said := Terminal())
    monkeypatch.setattr("gpusim_des.experiment.list_experiments", lambda: ("first", "second"))
    table = gs.compare(100, 99, name="Little's law")
    script = types.SimpleNamespace(main=lambda out, quick: ([], table))
    monkeypatch.setattr("gpusim_des.experiment.load", lambda name: script)
    assert main(["experiment", "all", "--out", str(tmp_path)]) == 0
    lines = said.getvalue().splitlines()
    assert lines[0] == "== first (1 of 2)"
    assert re.fullmatch(r"done: 1 of 2 experiments \(50 %\), .* experiments/(s|min), .* left", lines[1])
    assert re.fullmatch(r"done: 2 of 2 experiments \(100 %\), .* experiments/(s|min)", lines[3])


def test_validation_tells_how_many_points_are_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("gpusim_des.commands.progress.PATIENCE_S", 0)
    monkeypatch.setattr("sys.stderr", said := Terminal())
    targets = ["shared_latency_2070", "blocks_on_an_sm"]
    assert main(["validate", *(word for name in targets for word in ("--target", name))]) == 0
    lines = [line for line in said.getvalue().splitlines() if line.startswith("validation: ")]
    assert [line.partition(" points")[0] for line in lines] == ["validation: 1 of 11", "validation: 11 of 11"]


def test_progress_is_silent_elsewhere_and_for_short_work() -> None:
    log = io.StringIO()
    with Progress("add", stream=log) as progress:
        progress(0, 2)
        progress(1, 2)
    assert log.getvalue() == ""
    terminal = Terminal()
    with Progress("add", stream=terminal) as progress:
        progress(0, 2)
        progress(2, 2)
    assert terminal.getvalue() == ""


def test_a_full_disk_is_told_with_the_file(tmp_path: Path) -> None:
    with (
        pytest.raises(OSError, match="No space left") as told,
        whole_file(tmp_path / "t.csv"),
        open("/dev/full", "w") as file,  # noqa: PTH123
    ):
        file.write("x")
    assert in_words(told.value) == f"{tmp_path}/t.csv: no space left on device; make room, or choose another place"
    with pytest.raises(FileNotFoundError) as other, whole_file(tmp_path / "t.csv"):
        (tmp_path / "gone").read_text()
    assert other.value.filename == str(tmp_path / "gone")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["compare", ".", "."], r"\.: is a directory; name a file in it"),
        (["occupancy", "--threads", "256", "--ptxas", "nofile"], r"nofile: no such file or directory; check the name"),
    ],
)
def test_errors_of_the_system_name_the_file_and_the_remedy(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert re.fullmatch(f"gpusim-des: {message}\n", capsys.readouterr().err)


def test_a_terminal_without_our_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    bare = io.TextIOWrapper(io.BytesIO(), encoding="ascii", write_through=True)
    monkeypatch.setattr(sys, "stdout", bare)
    assert main([*ADD, "--arg", "n=9000", *ADD_ARGS[2:]]) == 0
    assert re.search(r"time +\S+ us, ", bare.buffer.getvalue().decode("ascii"))


def test_an_interrupt_while_it_loads(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    def interrupted() -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("gpusim_des.cli.main", interrupted)
    assert started() == 130
    assert capfd.readouterr().err == "gpusim-des: interrupted\n"


def test_a_reader_that_has_seen_enough() -> None:
    command = f"{shlex.quote(sys.executable)} -m gpusim_des gpus --show t4 | head -1"
    run = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}; true"], check=True, capture_output=True, text=True
    )
    assert (run.stdout, run.stderr) == ("NVIDIA T4\n", "")

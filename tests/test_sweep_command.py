"""``gpusim-des sweep`` and the heat map, as a user meets them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import gpusim_des as gs
from gpusim_des.cli import main
from gpusim_des.commands.sweep_command import FORM, MOST_TOLD
from gpusim_des.sweeps.map_request import BY_CLASS, figures

KERNELS = Path(__file__).with_name("command_kernels.py")

FILE = """
kernel = "kernels.py:vector_add"
grid = "cdiv(n, block)"
block = 64
gpu = "tiny"
registers = [32, 128]
shared = [0, 8192]
[args]
n = 200
a = "f32[n]:random"
b = "f32[n]:random"
c = "f32[n]"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "kernels.py").write_text(KERNELS.read_text())
    path = tmp_path / "occupancy.toml"
    path.write_text(FILE)
    return path


def test_a_sweep_from_a_file(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    csv, plot = file.with_name("t.csv"), file.with_name("map.png")
    command = ["sweep", str(file), "--workers", "1", "--csv", str(csv), "--plot", str(plot)]
    assert main(command) == 0
    said = capsys.readouterr()
    assert said.err == ""
    lines = said.out.splitlines()
    assert re.fullmatch(r"registers +shared +seconds +achieved_occupancy +main_stall", lines[0])
    assert len([line for line in lines if re.match(r"(32|128) ", line)]) == 4
    assert "4 configurations; 4 measured now" in lines
    assert f"written: {file.parent / 'occupancy-sweep' / 'rows.jsonl'}" in lines
    assert csv.read_text().startswith("gpu,sms,grid,block,registers,shared,")
    assert plot.read_bytes()[1:4] == b"PNG"

    assert main([*command, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["registers"], row["shared"]) for row in rows] == [(32, 0), (32, 8192), (128, 0), (128, 8192)]


def test_the_form_of_the_help_works(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = FORM.split("the file:\n", 1)[1].split("more axes", 1)[0]
    text = text.replace('"h100-sxm"', '"t4"').replace("[4096, 65536]", "[40, 65]").replace("16384", "1638")
    file.write_text(text)
    assert main(["sweep", str(file), "--out", str(file.with_name("rows")), "--workers", "1", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == 3 * 2 * 2 * 2 * 2
    assert {row["gpu"] for row in rows} == {"tiny", "t4"}
    options = FORM.split("gpusim-des sweep occupancy.toml --plot map.png ", 1)[1].split("\n", 1)[0]
    words = options.replace("4096", "40").split()
    map_ = file.with_name("map.png")
    assert main(["sweep", str(file), "--out", str(file.with_name("rows")), "--plot", str(map_), *words]) == 0
    assert "0 measured now" in capsys.readouterr().out
    assert map_.read_bytes().startswith(b"\x89PNG")


def test_sizes_in_two_dimensions(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = FILE.replace("block = 64", "block = [[16, 2], [32, 4]]").replace(
        "registers = [32, 128]\nshared = [0, 8192]", ""
    )
    file.write_text(text)
    assert main(["sweep", str(file), "--workers", "1", "--json"]) == 0
    assert [(row["block"], row["warps_per_block"]) for row in json.loads(capsys.readouterr().out)] == [
        ("16,2", 1),
        ("32,4", 4),
    ]


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("block = 64", "blok = 64", r"occupancy\.toml: unknown key 'blok': did you mean 'block'\?"),
        ("block = 64", "", r"occupancy\.toml: the key block is missing, for example block = \[64, 128, 256\]"),
        ("block = 64", "block = []", r"block = \[\]: an axis has at least one value"),
        (
            "block = 64",
            "[block]\nx = 1",
            r"occupancy\.toml: \[block\] is a table: block takes a value or a list of values",
        ),
        ("block = 64", "block = 64 64", r"occupancy\.toml: not a TOML file"),
        ('"kernels.py:vector_add"', '"kernels.py:add"', r"'add' is not there: did you mean 'vector_add'"),
        ('"kernels.py:vector_add"', "5", r'kernel = 5: write kernel = "kernels\.py:vector_add"'),
        ("n = 200", "n = 200\nm = 1", r"kernel 'vector_add' has no argument 'm': known: a, b, c, n"),
        ('b = "f32[n]:random"', "", r"kernel 'vector_add' takes \(a, b, c, n\), and b is missing"),
        ("[args]", "[parameters]\nl2 = 1\n[args]", r"parameters: a GPU has no parameter 'l2': did you mean"),
        ("[args]", "parameters = 1\n[args]", r"parameters = 1: must be a table, \[parameters\]"),
        *(
            ("block = 64", f"block = {written}", rf"occupancy\.toml, line \d+: block = {said}")
            for written, said in (
                ('"n /"', "'n /': not an expression; write for example"),
                ('[64, "cdiv(n"]', r"'cdiv\(n': not an expression"),
                ('"n / 2"', "'n / 2': 'n / 2' is not possible here"),
                ('"m * 2"', "'m \\* 2': 'm' is no argument that is a whole number: known: n"),
                ('"a"', "'a': 'a' is no argument that is a whole number"),
                ('"block"', "'block': 'block' is no argument that is a whole number"),
                ('"cdiv(n)"', r"'cdiv\(n\)': cdiv\(\) missing"),
                ('"n, 1, 1, 1"', "'n, 1, 1, 1': 4 sizes: give at most 3"),
                ("64.5", r"64\.5: whole numbers, or an expression"),
            )
        ),
        (
            '"cdiv(n, block)"',
            '"cdiv(m, block)"',
            r", line \d+: grid = 'cdiv\(m, block\)': 'm' is no argument that is a whole",
        ),
        ('b = "f32[n]:random"', 'b = "f32[m]"', r"occupancy\.toml, line \d+: size of b = 'm': 'm' is no argument"),
        (
            "n = 200",
            'n = "m"',
            r"occupancy\.toml, line \d+: n = 'm': 'm' is no argument that is a whole number: no arg",
        ),
        ("n = 200", "n = 1e99999999", r"occupancy\.toml, line \d+: 1e99999999: beyond float64, which ends at 1\.8e308"),
        (
            "n = 200",
            'n = "1e400"',
            r"occupancy\.toml, line \d+: n = 1e400: beyond float64, .*; write inf where infinity",
        ),
        ("n = 200", 'n = "f32:1e400"', r"occupancy\.toml, line \d+: n = 1e400: beyond float64"),
        ('gpu = "tiny"', 'gpu = "tny"', r"occupancy\.toml, line \d+: there is no GPU model 'tny': did you mean 'tiny'"),
        ('gpu = "tiny"', "[parameters]\nfp32_lanes = {a = 1}", r"\[fp32_lanes\] is a table: fp32_lanes takes a value"),
        ("n = 200", f"n = {'9' * 6000}", r"occupancy\.toml: a whole number of thousands of digits: at most 64 bits"),
        ("n = 200", f"n = 0x{'f' * 6000}", r"arg n: a whole number of 24,000 bits: at most 64"),
        ("n = 200", "n = [[1]]", r"args\.n = \[\[1\]\]: a number, a text such as"),
        ("n = 200", "n = {x = 1}", r"args\.n = \{'x': 1\}: a number"),
        ('gpu = "tiny"', 'gpu = "tiny.toml"', r"there is no GPU model file '.*tiny\.toml'"),
    ],
)
def test_files_that_are_wrong(
    before: str, after: str, message: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert before in FILE
    file.write_text(FILE.replace(before, after))
    assert main(["sweep", str(file), "--workers", "1"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert re.search(message, said.err)
    assert not file.with_name("occupancy-sweep").exists()


@pytest.mark.parametrize("name", [".", "", ".."])
def test_a_folder_is_no_sweep(name: str, file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.chdir(file.parent)
    assert main(["sweep", name]) == 2
    assert re.search(r"gpusim-des: \.+: this is a folder; name a sweep's file in it", capsys.readouterr().err)


def test_other_mistakes(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", str(file.with_name("no.toml"))]) == 2
    assert "there is no sweep file" in capsys.readouterr().err
    assert main(["sweep", str(file), "--x", "block", "--where", "gpu=tiny"]) == 2
    assert capsys.readouterr().err == "gpusim-des: --x, --where: for a heat map, which only --plot FILE draws\n"
    assert main(["sweep", str(file), "--plot", "m.png", "--where", "gpu"]) == 2
    assert "--where 'gpu': write COLUMN=VALUE" in capsys.readouterr().err
    assert main(["sweep", str(file), "--workers", "1", "--plot", str(file.with_name("m.png")), "--x", "regs"]) == 2
    assert capsys.readouterr().err == "gpusim-des: --x regs: no column 'regs': did you mean 'registers'?\n"


@pytest.mark.parametrize(
    ("option", "name", "message"),
    [
        ("--plot", "m.foo", r"--plot .*m\.foo: the ending chooses the format: \.png, \.svg or \.pdf"),
        ("--plot", "no/m.png", r"--plot .*m\.png: there is no folder .*no; create it first"),
        ("--csv", "no/t.csv", r"--csv .*t\.csv: there is no folder .*no; create it first"),
        ("--csv", ".", r"--csv .*: this is a folder; name a file in it"),
    ],
)
def test_files_that_cannot_be_written_are_told_before_the_work(
    option: str, name: str, message: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sweep", str(file), "--workers", "1", option, str(file.parent / name)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert re.search(message, said.err)
    assert not file.with_name("occupancy-sweep").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--x", "registres"], r"--x registres: no column 'registres': did you mean 'registers'"),
        (["--value", "secnds"], r"--value secnds: no column 'secnds': did you mean 'seconds'"),
        (["--value", "occupancy"], r".*'occupancy': did you mean achieved_occupancy, theoretical_occupancy\?\n"),
        (["--x", "occupancy"], r".*'occupancy': did you mean achieved_occupancy, .*occupancy_limiter\?\n"),
        (["--value", "zzz"], r"--value zzz: no column 'zzz': there are gpu, sms, .* and \d+ more"),
        (["--value", "main_stall"], r"--value main_stall: main_stall is no number; choose one"),
        (["--value", "error"], r"--value error: error is no number; choose one"),
        (["--where", "shraed=9"], r"--where shraed: no column 'shraed': did you mean 'shared'"),
        (["--where", "shared=9"], r"--where shared=9: no such configuration; shared is 0, 8192"),
        (["--y", "gpu"], r"--plot: several rows have registers = 32 and gpu = tiny: shared is varied, too: choose one"),
        (["--y", "gpu"], r".* one value, --where shared=0, or --x shared\n"),
    ],
)
def test_heat_maps_that_cannot_be_drawn_are_told_before_the_work(
    options: list[str], message: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sweep", str(file), "--workers", "1", "--plot", str(file.with_name("m.png")), *options]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert re.match(f"gpusim-des: {message}", said.err)
    assert not file.with_name("occupancy-sweep").exists()


def test_figures_of_heat_maps_are_those_of_rows(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", str(file), "--workers", "1", "--json"]) == 0
    for row in json.loads(capsys.readouterr().out):
        measured = dict(list(row.items())[list(row).index("error") :])
        known = {name: number for name, number in figures().items() if name in measured}
        assert all(name in known or name.startswith(BY_CLASS) for name in measured)
        assert all(isinstance(measured[name], int | float) or measured[name] is None for name in known if known[name])
        assert all(isinstance(measured[name], str | None) for name in known if not known[name])


def test_a_map_that_fails_does_not_hide_the_table(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("gpusim_des.views.save", full)
    assert main(["sweep", str(file), "--workers", "1", "--plot", str(file.with_name("m.png"))]) == 2
    said = capsys.readouterr()
    assert "4 configurations; 4 measured now" in said.out
    assert "m.png" not in said.out
    assert "no space left on device; make room" in said.err


@pytest.mark.filterwarnings("default")
def test_warnings_are_one_line(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(FILE.replace("shared = [0, 8192]", ""))
    folder = file.with_name("occupancy-sweep")
    folder.mkdir()
    (folder / "rows.jsonl").write_text("?\n")
    assert main(["sweep", str(file), "--workers", "1"]) == 0
    assert re.fullmatch(r"gpusim-des: .*rows\.jsonl, line 1: damaged, not a row.*\n", capsys.readouterr().err)


def test_files_may_lie_in_the_folder_of_the_rows(file: Path) -> None:
    file.write_text(FILE.replace("[32, 128]", "32").replace("[0, 8192]", "0"))
    assert main(["sweep", str(file), "--workers", "1", "--csv", str(file.with_name("occupancy-sweep") / "t.csv")]) == 0
    assert file.with_name("occupancy-sweep").joinpath("t.csv").exists()


def test_a_sweep_of_which_nothing_can_be_launched_is_wrong_usage(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(FILE.replace("registers = [32, 128]", "registers = 300"))
    assert main(["sweep", str(file), "--workers", "1"]) == 2
    said = capsys.readouterr()
    assert "2 configurations, 2 of them failed" in said.out
    assert re.fullmatch(r"gpusim-des: shared = 0 and 1 more row: LaunchError: .*300.*\n", said.err)
    file.write_text(FILE.replace("registers = [32, 128]", "registers = [32, 300]"))
    assert main(["sweep", str(file), "--workers", "1"]) == 0
    assert capsys.readouterr().err == ""


def test_a_wrong_kernel_is_exit_code_3(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(
        'kernel = "kernels.py:without_guard"\ngpu = "tiny"\ngrid = [1, 2, 3]\nblock = 64\nargs.a = "f32[64]"'
    )
    assert main(["sweep", str(file), "--workers", "1"]) == 3
    said = capsys.readouterr()
    assert "3 configurations, 2 of them failed; 3 measured now" in said.out
    message = "BoundsError: without_guard: store to 'a' in line"
    assert re.fullmatch(rf"gpusim-des: grid = 2: {message} .*\ngpusim-des: grid = 3: {message} .*\n", said.err)

    file.write_text('kernel = "kernels.py:races"\ngpu = "tiny"\ngrid = [1, 2]\nblock = 64\nargs.a = "f32[64]"')
    assert main(["sweep", str(file), "--workers", "1", "--json"]) == 3
    said = capsys.readouterr()
    assert re.match(r"gpusim-des: grid = 1: race on shared array tile\[63\]", said.err)
    assert [row["error"] for row in json.loads(said.out)] == ["", ""]


def test_what_is_wrong_is_told_once_and_not_without_end(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(
        'kernel = "kernels.py:without_guard"\ngpu = "tiny"\ngrid = 2\nregisters = [32, 64]\n'
        f'block = {[*range(64, 65 + MOST_TOLD)]}\nargs.a = "f32[64]"'
    )
    assert main(["sweep", str(file), "--workers", "1"]) == 3
    heads = re.findall(r"^gpusim-des: (.*)$", capsys.readouterr().err, re.MULTILINE)
    assert len(heads) == MOST_TOLD + 1
    assert heads[0].startswith("block = 64, registers = 32 and 1 more row: BoundsError: without_guard: ")
    assert heads[-1] == "1 more in the columns error and mistakes"


# Heat map ------------------------------------------------------------------------------------------------------------

ROWS: list[dict[str, Any]] = [
    {"gpu": gpu, "registers": r, "shared": s, "seconds": None if (r, s) == (64, 8) else r * s * factor * 1e-6}
    for gpu, factor in (("tiny", 1), ("t4", 2))
    for s in (4, 8)
    for r in (16, 32, 64)
]


def test_cells_of_a_heat_map() -> None:
    ax = gs.views.heat_map(ROWS, "registers", "shared", where={"gpu": "tiny"}, scale=1e6, label="time (µs)", title="k")
    cells = {tuple(map(int, text.get_position())): text.get_text() for text in ax.texts}
    assert cells == {(0, 0): "64", (1, 0): "128", (2, 0): "256", (0, 1): "128", (1, 1): "256"}
    assert [t.get_text() for t in ax.get_xticklabels()] == ["16", "32", "64"]
    assert [t.get_text() for t in ax.get_yticklabels()] == ["4", "8"]
    assert (ax.get_ylabel(), ax.get_title()) == ("shared (bytes per block)", "k")
    assert ax.get_xlabel() == "registers (per thread)\nhatched: no number; the row's error says why"
    whole = gs.views.heat_map(ROWS[:2], "registers", "shared", "seconds")
    assert whole.get_xlabel() == "registers (per thread)"
    (bar,) = (axes for axes in whole.figure.axes if axes is not whole)
    assert bar.get_ylabel() == "seconds (s)"


def test_titles_of_heat_maps_name_kernel_and_gpu(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Any] = []
    monkeypatch.setattr("gpusim_des.views.save", lambda ax, path: drawn.append(ax))
    command = ["sweep", str(file), "--workers", "1", "--plot", str(file.with_name("m.png"))]
    file.write_text(FILE.replace("block = 64", "block = [32, 64]").replace('"tiny"', '["tiny", "t4"]'))
    assert main([*command, "--where", "block=64", "gpu=t4"]) == 0
    assert main([*command, "--x", "gpu", "--y", "block", "--where", "registers=32", "shared=0"]) == 0
    assert [ax.get_title() for ax in drawn] == [
        "vector_add on t4, block = 64",
        "vector_add, registers = 32, shared = 0",
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": "regs"}, r"no column 'regs': did you mean 'registers'"),
        ({"where": None}, r"several rows have registers = 16 and shared = 4: choose one gpu with where, tiny or t4"),
        ({"rows": [*ROWS, ROWS[0]]}, r"several rows have registers = 16 and shared = 4: leave one out"),
        ({"where": {"gpu": "v100"}}, r"no rows to draw where gpu = v100"),
        ({"where": {"chip": "v100"}}, r"no column 'chip': there are gpu, registers, shared, seconds"),
        ({"value": "gpu"}, r"gpu is a text, 'tiny' for example: choose a number"),
        ({"rows": []}, r"no rows to draw"),
    ],
)
def test_heat_maps_that_cannot_be_drawn(change: dict[str, Any], message: str) -> None:
    asked = {"rows": ROWS, "x": "registers", "y": "shared", "where": {"gpu": "tiny"}, **change}
    with pytest.raises(ValueError, match=message):
        gs.views.heat_map(**asked)


def test_a_heat_map_without_any_number_and_with_wild_names(tmp_path: Path) -> None:
    rows = [{"a": "$x_", "b": "<script>", "seconds": None}]
    ax = gs.views.heat_map(rows, "a", "b", title="$\\frac{")
    gs.views.save(ax, tmp_path / "m.svg")
    assert "<script>" not in (tmp_path / "m.svg").read_text()
    assert not ax.texts


def test_an_interrupt_is_one_line_and_keeps_what_is_finished(file: Path) -> None:
    file.write_text(FILE.replace("n = 200", f"n = {list(range(2000, 2100))}"))
    rows = file.with_name("occupancy-sweep") / "rows.jsonl"
    command = [sys.executable, "-m", "gpusim_des", "sweep", str(file), "--workers", "2"]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        while not (rows.exists() and rows.read_bytes().count(b"\n") > 5):
            assert process.poll() is None
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all of them
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err.strip()) == (130, "", "gpusim-des: interrupted")
    kept = rows.read_bytes().count(b"\n")
    assert 5 < kept < 400
    file.write_text(FILE.replace("n = 200", "n = 2000"))
    assert main(["sweep", str(file), "--workers", "1"]) == 0
    assert rows.read_bytes().count(b"\n") <= kept + 4

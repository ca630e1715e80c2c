"""The command line, called as a function; the packaging tests call the installed command."""

import errno
import json
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import BinaryIO

import pytest

from gpusim_des.cli import main
from gpusim_des.gpu import list_gpus


def test_gpus_lists_every_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gpus"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == list(list_gpus())
    assert any("h100-sxm" in line and " 132 " in line and "3352" in line for line in lines)


def test_gpus_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gpus", "--json"]) == 0

    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["h100-sxm"]["sms"] == 132
    assert rows["h100-sxm"]["dram_bandwidth_bytes_per_s"] == 3_352_300_000_000


def test_demo_on_a_small_gpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "deep" / "folder"

    assert main(["demo", "--gpu", "tiny", "--out", str(out)]) == 0

    said = capsys.readouterr()
    assert "long_scoreboard" in said.out
    assert said.err == ""  # progress is for terminals
    assert {p.name for p in out.iterdir()} == {"latency_hiding.png", "timeline.png", "trace.json"}
    assert json.loads((out / "trace.json").read_text())["traceEvents"]


def test_demo_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--gpu", "tiny", "--json", "--out", str(tmp_path)]) == 0

    points = json.loads(capsys.readouterr().out)["points"]
    assert [p["blocks_per_sm"] for p in points] == [1, 2, 4]
    assert all(0 < p["gbs"] <= 64 for p in points)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["demo", "--gpu", "h10-sxm"], r"no GPU model 'h10-sxm': did you mean 'h100-sxm'"),
        (["demo", "--sms", "0"], r"slice\(sms=0\).*from 1 to its 132 SMs"),
        (["demo", "--sms", "1000"], r"slice\(sms=1000\) of 'h100-sxm': must be a whole number from 1 to its 132 SMs"),
        (["demo", "--gpu", "tiny", "--sms", "16"], r"slice\(sms=16\) of 'tiny': must be .* from 1 to its 2 SMs"),
        (["demo", "--gpu", "nowhere.toml"], r"nowhere\.toml"),
    ],
)
def test_errors_are_told_not_thrown(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, "--out", str(tmp_path / "out")]) == 2

    error = capsys.readouterr().err
    assert error.startswith("gpusim-des: ")
    assert error.count("\n") == 1
    assert re.search(message, error)
    assert not (tmp_path / "out").exists()


def test_a_file_in_the_way_of_the_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    taken = tmp_path / "taken"
    taken.write_text("mine")
    for out, named in ((taken, ""), (taken / "sub" / "folder", rf" \({taken}\)")):
        assert main(["demo", "--gpu", "tiny", "--out", str(out)]) == 2
        message = rf"cannot write to the folder {out}: a file of this name is in the way{named}; choose .* --out\n"
        assert re.fullmatch("gpusim-des: " + message, capsys.readouterr().err)
    assert taken.read_text() == "mine"


def test_a_folder_that_cannot_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "somewhere")

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)  # root, who may write anywhere, runs tests as well
    out = tmp_path / "new" / "out"
    assert main(["demo", "--gpu", "tiny", "--out", str(out)]) == 2
    message = rf"gpusim-des: cannot write to the folder {out}: permission denied; choose another one with --out\n"
    assert re.fullmatch(message, capsys.readouterr().err)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("stage", ["gpusim_des.textbook.latency_hiding.measure", "gpusim_des.views.save", "savefig"])
def test_an_interrupt_is_one_line_and_leaves_nothing_half_written(
    stage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: object, file: BinaryIO | None = None, *args: object, **options: object) -> None:
        if file is not None and hasattr(file, "write"):
            file.write(b"half of a picture")
        raise KeyboardInterrupt

    monkeypatch.setattr("matplotlib.figure.Figure.savefig" if stage == "savefig" else stage, interrupt)
    out = tmp_path / "new" / "out"
    assert main(["demo", "--gpu", "tiny", "--out", str(out)]) == 130
    assert capsys.readouterr().err.splitlines()[-1] == "gpusim-des: interrupted"
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_before_the_work_begins_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(dir: Path) -> None:  # noqa: A002 - the name of the argument of tempfile's
        raise KeyboardInterrupt

    monkeypatch.setattr("tempfile.TemporaryFile", interrupt)
    assert main(["demo", "--gpu", "tiny", "--out", str(tmp_path / "new" / "out")]) == 130
    assert list(tmp_path.iterdir()) == []


def test_a_signal_interrupts_the_command(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "gpusim_des", "demo", "--out", str(tmp_path / "out")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        while not (tmp_path / "out").exists():  # then the measurements begin
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert err.splitlines()[-1] == "gpusim-des: interrupted"
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


def test_wrong_usage_exits_with_2() -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(["dmeo"])
    assert exit_info.value.code == 2

"""The command line, called as a function; the packaging tests call the installed command."""

import json
import re
from pathlib import Path

import pytest

from gpusim_des import latency_hiding
from gpusim_des.cli import main
from gpusim_des.gpu import list_gpus, load_gpu


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
    assert "tiny" in said.err  # progress
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


def test_wrong_usage_exits_with_2() -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(["dmeo"])
    assert exit_info.value.code == 2


@pytest.mark.slow
def test_demo_shows_latency_hiding_on_the_h100() -> None:
    gpu = load_gpu("h100-sxm").slice(sms=16)

    points = [latency_hiding.measure(gpu, blocks)[0] for blocks in latency_hiding.occupancies(gpu)]

    assert [p.warps_per_sm for p in points] == [4, 8, 16, 32, 64]
    # Far below the knee bandwidth is proportional to warps; above it more warps change nothing.
    assert points[1].gbs == pytest.approx(2 * points[0].gbs, rel=0.02)
    assert points[4].gbs == pytest.approx(points[3].gbs, rel=0.02)
    # The law with the cost of a block explains the linear part but for address arithmetic and the ends of the run.
    for p in points[:2]:
        assert -0.5 < p.difference < -0.35
        assert -0.12 < p.difference_with_block_cost < 0
    assert points[4].gbs / points[4].littles_law_gbs > 0.97

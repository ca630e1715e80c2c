"""What the README promises: its example runs, its files exist, its table is the one that the demo prints."""

import re
import runpy
from pathlib import Path

import numpy as np
import pytest

import gpusim_des as gs
from gpusim_des.cli import main

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()


def test_the_example_runs_and_writes_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    monkeypatch.chdir(tmp_path)

    script = tmp_path / "example.py"
    script.write_text(code)
    runpy.run_path(str(script))

    written = {"blocks.png", "warps.png", "stalls.png", "trace.json", "run.html", "out"}
    assert {p.name for p in tmp_path.iterdir()} == {"example.py"} | written
    assert "long_scoreboard" in capsys.readouterr().out


def test_the_kernel_in_numbas_style_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"## Kernels that you already have\n.*?```py\n(.*?)```", README, flags=re.DOTALL)
    script = tmp_path / "example.py"
    script.write_text(code)
    device = gs.cuda.device()
    runpy.run_path(str(script))
    assert gs.cuda.device().gpu.name == "a100-sxm-80gb"
    gs.cuda.select(device)
    out = capsys.readouterr().out
    assert "ms of simulated time" in out
    assert "warp instructions" in out
    assert "row_sums" in out


@pytest.mark.slow
def test_the_table_is_the_one_that_the_demo_prints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    table = printed[printed.index("blocks  warps") : printed.index("\n\nLittle's law counts")]
    assert f"```\n{table}\n```" in README

    rows = [line.split() for line in table.splitlines()[-5:]]
    warps, gbs, law, off, with_block_cost = (
        [float(row[column].rstrip("%")) for row in rows] for column in (1, 5, 6, 7, 9)
    )
    assert warps == [4, 8, 16, 32, 64]
    # Far below the knee bandwidth is proportional to warps; above it more warps change nothing.
    assert gbs[1] == pytest.approx(2 * gbs[0], rel=0.02)
    assert gbs[4] == pytest.approx(gbs[3], rel=0.02)
    assert gbs[4] / law[4] > 0.97
    # The law with the cost of a block explains the linear part but for address arithmetic and the ends of the run.
    assert all(-50 < each < -35 for each in off[:2])
    assert all(-12 < each < 0 for each in with_block_cost[:2])


def test_the_mistake_is_found_as_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    section = README[README.index("### Is it fast?") :].partition("\n## ")[0]
    code, advice, source = re.findall(r"```(?:py)?\n(.*?)```", section, flags=re.DOTALL)
    script = tmp_path / "example.py"
    script.write_text(code)
    runpy.run_path(str(script), init_globals={"np": np, "gs": gs})
    assert capsys.readouterr().out == advice + source


def test_the_statements_on_numbers_hold() -> None:
    """Promotion, unrolled loops, what is declared, and memory that nobody wrote."""

    @gs.block_kernel
    def mixed(blk: gs.Block, a: gs.DeviceArray, b: gs.DeviceArray) -> None:
        x, y = blk.load(a, blk.tx), blk.load(b, blk.tx)
        for _ in range(3):
            y = y + x
        blk.store(b, blk.tx, y)

    dev = gs.Device("tiny")
    a, b = dev.malloc(32, np.int32), dev.malloc(32, np.float32)
    assert dev.to_host(a).tolist() == [-842150451] * 32
    auto = dev.launch(mixed, 1, 32, a, b).counters.instruction_mix
    assert (auto["fp32"], auto.get("fp64", 0), auto.get("branch", 0)) == (3, 0, 0)
    assert set(dev.launch(mixed, 1, 32, a, b, count="declared").counters.instruction_mix) <= {
        *("global_load", "global_store", "exit"),
    }
    assert np.isnan(dev.to_host(b)).all()
    dev.memset(b, 0)
    assert not dev.to_host(b).any()


def test_linked_files_exist() -> None:
    text = re.sub(r"```.*?```", "", README, flags=re.DOTALL)  # kernel[blocks, threads](arguments) is no link
    for target in re.findall(r"\]\((?!https?:)([^)]+)\)", text):
        assert (ROOT / target).exists(), target


def test_the_commands_are_those_of_ci() -> None:
    """Each whole line, not a part of one: CI must find what a reader would."""
    ci = (ROOT / ".ci" / "run").read_text().splitlines()
    setup = "python3 -m venv .venv && .venv/bin/pip install -e '.[test]' && .venv/bin/"
    assert [line for line in README.splitlines() if line.startswith("python3 ")] == [
        setup + "gpusim-des demo",
        setup + "pytest",
    ]
    assert [line for line in ci if line.startswith("python3 ")] == [setup + "gpusim-des demo", setup + "pytest"]

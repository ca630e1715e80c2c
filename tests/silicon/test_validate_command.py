"""``gpusim-des validate``, from the command line to its files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from gpusim_des import views
from gpusim_des.cli import main
from gpusim_des.silicon import list_targets, read_block

FAST = ("--target", "shared_latency_2070", "--target", "sgemm_sectors")


def test_lists_targets(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [target.name for target in list_targets()]


def test_prints_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", *FAST]) == 0
    out, err = capsys.readouterr()
    lines = [line.split() for line in out.splitlines()]
    assert ["shared_latency_2070", "rtx-2070", "23", "cycles", "23", "cycles", "0.0%", "+0.0%"] in lines
    assert "sgemm_sectors: 2 points, 0.0% off" in err


def test_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", *FAST, "--json"]) == 0
    records = json.loads(capsys.readouterr().out)
    assert [(r["target"], r["error"], r["section"]) for r in records] == [
        ("shared_latency_2070", 0.0, "calibration"),
        ("sgemm_sectors", 0.0, "counts"),
    ]


def test_writes_figure_table_and_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", *FAST, "--out", str(tmp_path / "new")]) == 0
    assert {path.name for path in (tmp_path / "new").iterdir()} == {
        *("validation.png", "validation.txt", "validation.json"),
    }
    assert (tmp_path / "new" / "validation.txt").read_text(encoding="utf-8") == capsys.readouterr().out
    assert len(json.loads((tmp_path / "new" / "validation.json").read_text(encoding="utf-8"))) == 2


def test_writes_the_table_of_a_readme(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text("# Mine\n<!-- validation: begin -->\n<!-- validation: end -->\nmore\n", encoding="utf-8")
    assert main(["validate", *FAST, "--readme", str(readme)]) == 0
    text = readme.read_text(encoding="utf-8")
    rows, _, _, made = read_block(text)
    assert [row.target for row in rows] == ["shared_latency_2070", "sgemm_sectors"]
    assert made.startswith("Made by `gpusim-des validate --target shared_latency_2070 --target sgemm_sectors` with")
    assert text.startswith("# Mine\n<!--")
    assert text.endswith("-->\nmore\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--target", "pchase"], "there is no target 'pchase'"),
        (["--gpu", "b200"], "no target of 'b200'"),
        (["--target", "transpose_a100", "--quick"], "transpose_a100: no quick points; leave out --quick"),
    ],
)
def test_refuses(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_refuses_a_readme_without_a_table_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    readme = tmp_path / "README.md"
    readme.write_text("# Mine\n", encoding="utf-8")
    assert main(["validate", "--readme", str(readme)]) == 2
    assert "README.md: no validation table: the lines" in capsys.readouterr().err


# The figure ---------------------------------------------------------------------------------------------------------


def test_the_figure_marks_every_point() -> None:
    points = [
        views.Measured("a", 1.0, 1.1),
        views.Measured("a", 10.0, 9.0),
        views.Measured("a", 5.0, 5.0, predicted=False),
        views.Measured("b", 100.0, 300.0),
    ]
    ax = views.measured(points, title="t")
    marks = [np.asarray(collection.get_offsets()).tolist() for collection in ax.collections[1:-1]]
    assert marks == [[[1.0, 1.1], [10.0, 9.0]], [[5.0, 5.0]], [[100.0, 300.0]]]
    legend = ax.get_legend()
    assert legend is not None
    labels = [text.get_text() for text in legend.get_texts()]
    assert labels == ["a", "b", "hollow: no prediction"]
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert ax.get_xlim() == ax.get_ylim() == pytest.approx((1 / 1.5, 450))


@pytest.mark.parametrize(
    ("points", "message"),
    [([], "nothing to draw"), ([views.Measured("a", 1.0, 0.0)], r"0\.0 on a logarithmic axis: must be positive")],
)
def test_the_figure_refuses(points: list[views.Measured], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        views.measured(points, title="t")


# Earlier runs -------------------------------------------------------------------------------------------------------


def test_prints_the_table_of_an_earlier_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", *FAST, "--out", str(tmp_path)]) == 0
    table = capsys.readouterr().out
    assert main(["validate", "--from", str(tmp_path / "validation.json")]) == 0
    assert capsys.readouterr().out == table
    assert main(["validate", "--from", str(tmp_path / "validation.json"), "--target", "sgemm_sectors"]) == 0
    assert "shared_latency_2070" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "none of the chosen targets"),
        ("nothing", "not the validation.json of gpusim-des validate --out"),
        ('[{"target": "sgemm_sectors"}]', "not the validation.json"),
        ('[{"target": "gone"}]', "there is no target 'gone'"),
        (
            '[{"target": "sgemm_sectors", "seconds": 1, "points": [{"kernel": "x", "measured": 1, "simulated": 1}]}]',
            "target 'sgemm_sectors' has no point {'kernel': 'x'} of 1: validate it anew",
        ),
    ],
)
def test_refuses_records_that_fit_no_more(
    tmp_path: Path, text: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "validation.json"
    path.write_text(text, encoding="utf-8")
    assert main(["validate", "--from", str(path)]) == 2
    assert message in capsys.readouterr().err

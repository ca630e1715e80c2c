"""What the README promises: its example runs, its files exist, its table is the one that the demo prints."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()


def test_the_example_runs_and_writes_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    monkeypatch.chdir(tmp_path)

    exec(compile(code, str(tmp_path / "example.py"), "exec"), {})

    assert {p.name for p in tmp_path.iterdir()} == {"blocks.png", "warps.png", "stalls.png", "trace.json"}
    assert "long_scoreboard" in capsys.readouterr().out


def test_linked_files_exist() -> None:
    for target in re.findall(r"\]\((?!https?:)([^)]+)\)", README):
        assert (ROOT / target).exists(), target


def test_the_commands_are_those_of_ci() -> None:
    ci = (ROOT / ".ci" / "run").read_text()
    setup = "python3 -m venv .venv && .venv/bin/pip install -e '.[test]' && .venv/bin/"
    assert setup + "gpusim-des demo" in README
    assert setup + "pytest" in README
    assert (setup + "gpusim-des demo").replace("install -e", "install -q -e") in ci

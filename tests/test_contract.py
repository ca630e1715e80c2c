"""The timing contract is kept: every rule is cited where it is written in code and where it is tested."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
RULES = re.findall(
    r"^- \*\*([A-Z]\d+)\*\* (?!\*Not yet)", (ROOT / "gpusim_des/timing/contract.md").read_text(), re.MULTILINE
)
CODE = [*ROOT.glob("gpusim_des/**/*.py")]
TESTS = [path for path in ROOT.glob("tests/*.py") if path != Path(__file__)]


def cites(path: Path, rule: str) -> bool:
    """Tell whether a file names a rule, alone or within a range such as M5 to M8."""
    text = path.read_text()
    if re.search(rf"\b{rule}\b", text):
        return True
    letter, number = rule[0], int(rule[1:])
    ranges = re.findall(rf"\b{letter}(\d+)(?: to |-|–){letter}?(\d+)\b", text)
    return any(int(low) <= number <= int(high) for low, high in ranges)


def test_there_are_rules() -> None:
    assert len(RULES) >= 30
    assert len(set(RULES)) == len(RULES)


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_is_cited(rule: str) -> None:
    assert any(cites(path, rule) for path in CODE), f"no file of the package cites {rule}"
    assert any(cites(path, rule) for path in TESTS), f"no test cites {rule}"


def test_no_rule_is_cited_that_is_not_there() -> None:
    known = set(re.findall(r"^- \*\*([A-Z]\d+)", (ROOT / "gpusim_des/timing/contract.md").read_text(), re.MULTILINE))
    known |= {"H1", "H2", "H3", "E2", "E3"}
    for path in (*CODE, *TESTS):
        for rule in re.findall(r"\brules? ([TWIMGFE]\d+)\b", path.read_text()):
            assert rule in known, f"{path.name} cites {rule}"

"""The programs that both engines play are measured: every rule of the contract occurs in enough of them (E2)."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.equality import cases
from tests.programs import TINY, fp32, load
from tests.random_programs import Kernel, Programs
from tests.rule_coverage import RULES, rules_of, table

CONTRACT = (Path(__file__).parent.parent / "gpusim_des/timing/contract.md").read_text(encoding="utf-8")

LAWS = {"T1", "M10"}
"""They hold for every program, and are tests of their own."""


def test_the_table_has_every_rule_that_an_engine_can_meet() -> None:
    rules = set(re.findall(r"^- \*\*([TWIMGHF]\d+)\*\*", CONTRACT, re.MULTILINE))
    listed = {rule for entry in RULES for rule in re.findall(r"\b[TWIMGHF]\d+\b", entry)}
    assert listed == rules - LAWS


def test_what_occurs_in_a_program_that_can_be_followed_by_hand() -> None:
    """Two warps load a line and use it: the second finds the first's sectors on their way, and waits for its turn."""
    gpu = TINY.replace(sub_partitions=1, dram_channels=1)
    case = Programs(gpu, caches=True, kernels=[Kernel([[load(range(4)), fp32(0)]], [[(0, 0), (0, 0)]])], streams=[0])
    assert rules_of(case) == {
        "W2 global_load",
        "W2 fp32",
        "W3 warps share a stream",
        "I3 a choice by gto",
        "I7 selected",
        "I7 not_selected",
        "I7 long_scoreboard",
        "I7 wait",
        "M2 miss",
        "M2 a sector is on its way",
        "M5 miss",
    }
    alone = Programs(gpu, caches=True, kernels=[Kernel([[fp32()]], [[(0, 0)]])], streams=[0])
    assert rules_of(alone) == {"W2 fp32", "I7 selected", "I7 wait"}


@pytest.mark.slow
def test_every_rule_occurs_in_a_twentieth_of_the_programs() -> None:
    counts: Counter[str] = Counter()
    programs = 600
    for case in cases(0, programs):
        counts.update(rules_of(case))
    rare = {rule for rule in RULES if counts[rule] < programs / 20}
    assert not rare, "\n".join(line for line in table(counts, programs) if line[9:] in rare)

"""A wrong in one rule of one engine is noticed: each mutation within a hundred programs (E2)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gpusim_des.timeline import Timeline
from gpusim_des.timing.compiled_engine import CompiledEngine
from gpusim_des.timing.simpy_engine import SimpyEngine
from tests.equality import cases, differences, report
from tests.mutations import MUTATIONS, Mutation
from tests.shrink import AnyCase

PROGRAMS = 100
"""Within so many programs every mutation is noticed."""


@pytest.fixture(scope="module")
def played() -> list[tuple[AnyCase, Timeline | str]]:
    """Programs, and what the compiled engine makes of them."""
    return [(case, case.play(CompiledEngine)) for case in cases(0, PROGRAMS)]


def outcome(case: AnyCase) -> Timeline | str:
    """Play a case on the SimPy engine; a wrong in it may be so bad that it cannot go on."""
    try:
        return case.play(SimpyEngine)
    except Exception as error:  # noqa: BLE001 - whatever a mutation leads to
        return repr(error)


def noticed(played: list[tuple[AnyCase, Timeline | str]]) -> Iterator[int]:
    """Numbers of the programs on which the SimPy engine comes to something else."""
    return (number for number, (case, expected) in enumerate(played) if outcome(case) != expected)


@pytest.mark.slow
def test_nothing_is_noticed_without_a_mutation(played: list[tuple[AnyCase, Timeline | str]]) -> None:
    assert list(noticed(played)) == []


@pytest.mark.slow
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.rule)
def test_every_mutation_is_noticed(
    mutation: Mutation, played: list[tuple[AnyCase, Timeline | str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutation.apply(monkeypatch)
    assert next(noticed(played), None) is not None


def test_mutations_are_of_many_rules() -> None:
    assert len({mutation.rule.split()[0] for mutation in MUTATIONS}) >= 12


@pytest.mark.slow
def test_the_report_of_a_failure_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a few kernels there remain one or two instructions, and it is code that makes the case again."""
    next(m for m in MUTATIONS if m.rule == "G3 slots free at once").apply(monkeypatch)
    first = next(case for case in cases(0, 100) if differences(case))
    said = report(first)
    assert said.count("Part(OpClass.") <= 2
    assert "block_end_cycles=" in said
    assert len(said) < len(str(first))

"""What a heat map of a sweep is to show, judged by the plan, before anything is measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from gpusim_des.errors import UsageError
from gpusim_des.functional.counters import Counters
from gpusim_des.results.rows import COUNTED, DERIVED
from gpusim_des.timeline import KernelTiming, WarpState
from gpusim_des.views.heat_map import differing, missing_column

BY_CLASS = (*(f"{name}_" for name in COUNTED), "counted_instruction_mix_")
"""Beginnings of columns of which there is one for each class of instructions that a kernel has."""


MOST_GUESSES = 4
"""Columns that a message offers."""

_NO_COLUMNS = ("name", "stalls", "grid", "block")
"""Fields of a kernel that a row of a sweep lacks, or of which it says what was asked for."""


def figures() -> dict[str, bool]:
    """Columns that a row may have beside what was varied, and whether they are numbers.

    >>> known = figures()
    >>> known["seconds"], known["counted_races"], known["main_stall"], "name" in known
    (True, True, False, False)
    """
    kinds = {name: getattr(KernelTiming, name).fget.__annotations__["return"] for name in DERIVED}
    kinds |= {f.name: str(f.type) for f in fields(KernelTiming) if f.name not in (*COUNTED, *_NO_COLUMNS)}
    kinds |= {f"stall_{state.suffix}": "int" for state in WarpState}
    kinds |= {f"counted_{f.name}": str(f.type) for f in fields(Counters)}
    kinds["simulated_sms"] = kinds.pop("sms")
    texts = dict.fromkeys(("assumptions", "played_engine", "mistakes", "error"), False)
    return {name: kind.partition(" ")[0] in ("int", "float", "bool") for name, kind in kinds.items()} | texts


def check_map(planned: Sequence[Mapping[str, Any]], x: str, y: str, value: str, where: Mapping[str, object]) -> None:
    """Refuse a heat map that could not be drawn, whatever is measured.

    Parameters
    ----------
    planned
        What is varied, a row for each configuration.
    x, y, value, where
        As for `gpusim_des.views.heat_map`.

    Raises
    ------
    UsageError
        For a column that will not be there, a value that is no number, rows that will not be there, and several rows
        for one cell.

    Examples
    --------
    >>> planned = [{"block": block, "n": n} for block in (32, 64) for n in (1, 2)]
    >>> check_map(planned, "n", "block", "secnds", {})
    Traceback (most recent call last):
        ...
    gpusim_des.errors.UsageError: --value secnds: no column 'secnds': did you mean 'seconds'?
    """
    known = figures()
    varied = list(planned[0])
    asked = (("--x", x), ("--y", y), ("--value", value), *(("--where", name) for name in where))
    for option, name in asked:
        if name not in varied and name not in known and not name.startswith(BY_CLASS):
            # What is drawn must be a number; and part of a name is a good guess.
            possible = [*varied, *(n for n in known if known[n] or option != "--value")]
            parts = [each for each in possible if name and name in each]
            said = f"no column {name!r}: did you mean {', '.join(parts)}?" if 0 < len(parts) <= MOST_GUESSES else ""
            raise UsageError(f"{option} {name}: {said or missing_column(name, possible)}")
    if known.get(value) is False:
        raise UsageError(f"--value {value}: {value} is no number; choose one, for example --value seconds")
    chosen = list(planned)
    for name, wanted in where.items():
        if name in varied:
            there = dict.fromkeys(str(row[name]) for row in chosen)
            chosen = [row for row in chosen if str(row[name]) == str(wanted)]
            if not chosen:
                raise UsageError(f"--where {name}={wanted}: no such configuration; {name} is {', '.join(there)}")
    if {x, y, *where} <= {*varied}:
        _check_cells(chosen, x, y)


def _check_cells(rows: Sequence[Mapping[str, Any]], x: str, y: str) -> None:
    """Refuse two rows for one cell."""
    cells: dict[tuple[Any, Any], Mapping[str, Any]] = {}
    for row in rows:
        first = cells.setdefault((row[x], row[y]), row)
        if first is not row:
            name = differing(first, row)
            remedy = (
                f"{name} is varied, too: choose one value, --where {name}={first[name]}, or --x {name}"
                if name
                else ("a value stands there twice; leave one out")
            )
            raise UsageError(f"--plot: several rows have {x} = {row[x]} and {y} = {row[y]}: {remedy}")

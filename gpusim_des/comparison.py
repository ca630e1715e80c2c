"""A formula beside the simulation: how far they are apart, and whether that is accounted for."""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from gpusim_des.page_text import page_text
from gpusim_des.whole_file import whole_file

Verdict = Literal["pass", "explained", "unexplained"]
"""Within the tolerance; outside for a stated reason; outside without one."""

Numbers = npt.ArrayLike | Mapping[str, float]
"""One number, several, or several by label."""

ORDER: tuple[Verdict, ...] = ("pass", "explained", "unexplained")


@dataclass(frozen=True)
class ComparisonRow:
    """One number, as the formula has it and as it was simulated."""

    name: str
    """Of the formula."""
    quantity: str
    """What is compared, with its unit."""
    label: str
    """Which point this is."""
    formula: float
    simulated: float
    tolerance: float
    """Largest relative difference that passes."""
    explanation: str = ""
    """Why a difference beyond the tolerance is right."""
    assumes: str = ""
    """Under which conditions the formula holds."""
    explained_up_to: float | None = None
    """Largest difference that the explanation covers, with its sign; None: no bound was stated."""

    @property
    def difference(self) -> float:
        """Simulated against formula, as a fraction of the formula; 0 if both are the same, 0 and 0 too."""
        if self.simulated == self.formula:
            return 0.0
        if self.formula == 0 or math.isinf(self.formula):
            return math.copysign(math.inf, self.simulated - self.formula)
        return (self.simulated - self.formula) / abs(self.formula)

    @property
    def verdict(self) -> Verdict:
        """Whether the two agree, and if not, whether it is said why."""
        if abs(self.difference) <= self.tolerance:
            return "pass"
        return "explained" if self.explanation and self.within_bound else "unexplained"

    @property
    def within_bound(self) -> bool:
        """Whether the difference lies between 0 and the largest one that the explanation covers."""
        bound, difference = self.explained_up_to, self.difference
        return bound is None or (abs(difference) <= abs(bound) and (difference > 0) == (bound > 0))


@dataclass(frozen=True)
class Comparison:
    """A table of formulas beside simulations; tables are joined by ``+``."""

    rows: tuple[ComparisonRow, ...]

    @property
    def worst(self) -> ComparisonRow:
        """The row with the largest difference in either direction, the first of several."""
        return max(self.rows, key=lambda row: abs(row.difference))

    @property
    def worst_difference(self) -> float:
        """Its difference, as a fraction with its sign."""
        return self.worst.difference

    @property
    def verdict(self) -> Verdict:
        """The worst of all rows' verdicts."""
        return max((row.verdict for row in self.rows), key=ORDER.index)

    @property
    def passed(self) -> bool:
        """No difference is without an explanation."""
        return self.verdict != "unexplained"

    @property
    def sections(self) -> tuple[Comparison, ...]:
        """A table for each formula and quantity, in order of appearance."""
        keys = dict.fromkeys((row.name, row.quantity) for row in self.rows)
        return tuple(Comparison(tuple(r for r in self.rows if (r.name, r.quantity) == key)) for key in keys)

    def __add__(self, other: Comparison) -> Comparison:
        if not isinstance(other, Comparison):
            return NotImplemented
        return Comparison(self.rows + other.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __str__(self) -> str:
        return "\n\n".join(_section_text(section.rows) for section in self.sections)

    def _repr_html_(self) -> str:
        """Notebooks show this table."""
        head = ("", "formula", "simulated", "difference", "")
        lines = ["<table>"]
        for section in self.sections:
            title = page_text(_title(section.rows[0]))
            lines.append(f'<tr><th colspan="5" style="text-align:left">{title}</th></tr>')
            lines.append("<tr>" + "".join(f"<th>{h}</th>" for h in head) + "</tr>")
            for row in section.rows:
                note = row.explanation if row.verdict == "explained" else row.verdict
                cells = (row.label, *_numbers(row), note)
                lines.append("<tr>" + "".join(f"<td>{page_text(cell)}</td>" for cell in cells) + "</tr>")
        return "".join([*lines, "</table>"])

    def to_rows(self) -> list[dict[str, str | float]]:
        """Plain dictionaries: the fields of a row, its difference and its verdict."""
        return [{**asdict(row), "difference": row.difference, "verdict": row.verdict} for row in self.rows]

    def finite_rows(self) -> list[dict[str, str | float | None]]:
        """The same for JSON, which has no infinity: None in its place."""
        return [
            {k: None if isinstance(v, float) and math.isinf(v) else v for k, v in row.items()} for row in self.to_rows()
        ]

    def to_csv(self, path: str | os.PathLike[str] | None = None) -> str:
        """The table as CSV with a head line; with a path it is also written there, whole or not at all."""
        text = io.StringIO()
        rows = self.to_rows()
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return _written(text.getvalue(), path)

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """The table as a JSON list of objects; with a path it is also written there, whole or not at all."""
        return _written(json.dumps(self.finite_rows(), indent=1, ensure_ascii=False) + "\n", path)


def compare(
    formula: Numbers,
    simulated: Numbers,
    *,
    name: str = "formula",
    quantity: str = "value",
    labels: Iterable[object] | None = None,
    tolerance: float = 0.02,
    explain: str | Mapping[str, str] = "",
    explained_up_to: float | Mapping[str, float] | None = None,
    assumes: str = "",
) -> Comparison:
    """Set what a formula says beside what was simulated.

    Parameters
    ----------
    formula, simulated
        A number, a sequence or an array of them, or a mapping from labels to numbers; both of the same kind and length,
        in the same unit.
    name
        Of the formula, for example ``"Little's law"``.
    quantity
        What is compared, with its unit, for example ``"bandwidth (GB/s)"``.
    labels
        Names of the points, one for each; without them their keys, or 1, 2, ….
    tolerance
        Largest relative difference that passes, 0.02 = 2 %; 0 for what must be equal.
    explain
        Why differences beyond the tolerance are right: a text for all, or a text by label. It is shown only where the
        difference is beyond the tolerance.
    explained_up_to
        Largest relative difference that the explanation covers, with its sign: 0.5 is up to 50 % above the formula,
        -0.5 up to 50 % below; beyond it, or on the other side, the row is unexplained. One for all, or one by label;
        computed where something is known that limits the difference. None: no bound.
    assumes
        Under which conditions the formula holds.

    Returns
    -------
    Comparison
        Print it, ask for ``worst_difference`` and ``verdict``, save it with ``to_csv`` or ``to_json``, join it with
        another one by ``+``.

    Raises
    ------
    ValueError
        If the numbers do not match one by one, one is not a number, there are none, a label occurs twice, an
        explanation or its bound is for a label that is none, or an explanation by label has no bound where others do.

    Examples
    --------
    >>> table = compare([100, 200], [99, 150], name="Little's law", quantity="bandwidth (GB/s)",
    ...                 labels=["4 warps", "8 warps"], explain={"8 warps": "the DRAM queues near saturation"})
    >>> print(table)
    Little's law: bandwidth (GB/s)
            | formula | simulated | difference
    4 warps |     100 |        99 |     -1.00%
    8 warps |     200 |       150 |    -25.00% *
    * 8 warps: the DRAM queues near saturation
    >>> table.verdict, table.worst_difference
    ('explained', -0.25)

    An explanation with a bound cannot hide a mistake:

    >>> print(compare(200, 100, name="Little's law", quantity="bandwidth (GB/s)", labels=["8 warps"],
    ...               explain="the DRAM queues near saturation", explained_up_to=-0.3))
    Little's law: bandwidth (GB/s)
            | formula | simulated | difference
    8 warps |     200 |       100 |    -50.00% !
    ! 8 warps: beyond the -30% that are explained: the DRAM queues near saturation
    """
    predicted, measured, names = _matched(formula, simulated, labels)
    if isinstance(tolerance, bool) or not 0 <= tolerance < math.inf:
        raise ValueError(f"tolerance = {tolerance}: must be a finite number, at least 0; 0.02 is 2 %")
    reasons = dict.fromkeys(names, explain) if isinstance(explain, str) else dict(explain)
    unknown = next((label for label in reasons if label not in names), None)
    if unknown is not None:
        raise ValueError(f"explanation for {unknown!r}: there is no such label; labels are {', '.join(names)}")
    bounds = _bounds(explained_up_to, names, reasons)
    return Comparison(
        tuple(
            ComparisonRow(
                name, quantity, label, f, s, float(tolerance), reasons.get(label, ""), assumes, bounds.get(label)
            )
            for label, f, s in zip(names, predicted, measured, strict=True)
        )
    )


def _bounds(
    explained_up_to: float | Mapping[str, float] | None, names: Sequence[str], reasons: Mapping[str, str]
) -> dict[str, float]:
    """Bound of each explanation, by label."""
    if explained_up_to is None:
        return {}
    if not isinstance(explained_up_to, Mapping):
        bounds = dict.fromkeys((label for label in names if reasons.get(label)), float(explained_up_to))
    else:
        bounds = {label: float(bound) for label, bound in explained_up_to.items()}
        unknown = next((label for label in bounds if label not in names), None)
        if unknown is not None:
            raise ValueError(f"explained_up_to for {unknown!r}: there is no such label; labels are {', '.join(names)}")
        missing = next((label for label in names if reasons.get(label) and label not in bounds), None)
        if missing is not None:
            raise ValueError(
                f"explained_up_to has no bound for {missing!r}, which is explained: give one for every explanation"
            )
    for label, bound in bounds.items():
        if math.isnan(bound):
            raise ValueError(f"explained_up_to = nan for {label!r}: must be a number with its sign; -0.3 is 30 % below")
    return bounds


def _matched(
    formula: Numbers, simulated: Numbers, labels: Iterable[object] | None
) -> tuple[list[float], list[float], list[str]]:
    keys: list[str] | None = None
    predicted_values: npt.ArrayLike
    measured_values: npt.ArrayLike
    if isinstance(formula, Mapping) and isinstance(simulated, Mapping):
        if set(formula) != set(simulated):
            odd = sorted(map(str, set(formula) ^ set(simulated)))
            raise ValueError(f"formula and simulation name different points: {', '.join(odd)} on one side only")
        keys = [str(key) for key in formula]
        predicted_values, measured_values = list(formula.values()), [simulated[key] for key in formula]
    elif isinstance(formula, Mapping) or isinstance(simulated, Mapping):
        raise ValueError("one side is a mapping and the other is not: give both by label, or both in order")
    else:
        predicted_values, measured_values = formula, simulated
    predicted, measured = _floats("formula", predicted_values), _floats("simulated", measured_values)
    names = [str(label) for label in labels] if labels is not None else keys
    if names is None:
        names = [str(number) for number in range(1, len(predicted) + 1)]
    if not predicted or not len(predicted) == len(measured) == len(names):
        raise ValueError(
            f"{len(predicted)} numbers of the formula, {len(measured)} simulated, {len(names)} labels: give at least "
            "one, and as many of each"
        )
    twice = next((label for label in names if names.count(label) > 1), None)
    if twice is not None:
        raise ValueError(f"the label {twice!r} occurs twice: labels tell points apart, make them different")
    return predicted, measured, names


def _floats(side: str, values: npt.ArrayLike) -> list[float]:
    numbers = np.asarray(values, dtype=float)
    if numbers.ndim > 1:
        raise ValueError(f"{side}: an array of shape {numbers.shape}: must have one dimension, a number for each point")
    if np.isnan(numbers).any():
        raise ValueError(f"{side}: nan among the numbers: leave out points without a result")
    return [float(number) for number in np.atleast_1d(numbers)]


def _title(row: ComparisonRow) -> str:
    return f"{row.name}: {row.quantity}" + (f" (assumes: {row.assumes})" if row.assumes else "")


def _numbers(row: ComparisonRow) -> tuple[str, str, str]:
    difference = f"{row.difference:+.2%}" if math.isfinite(row.difference) else f"{row.difference:+}"
    return _plain(row.formula), _plain(row.simulated), difference


def _plain(value: float) -> str:
    """Five digits, but whole numbers whole: counts are compared to the last one."""
    if value.is_integer() and abs(value) < 1e15:
        return f"{value:,.0f}"
    return f"{value:,.5g}" if 1e-4 <= abs(value) < 1e5 else f"{value:.4e}" if abs(value) < 1e-4 else f"{value:,.1f}"


def _section_text(rows: Sequence[ComparisonRow]) -> str:
    cells = [("", "formula", "simulated", "difference"), *((row.label, *_numbers(row)) for row in rows)]
    widths = [max(len(line[k]) for line in cells) for k in range(4)]
    marks = ["", *({"pass": "", "explained": " *", "unexplained": " !"}[row.verdict] for row in rows)]
    lines = [_title(rows[0])]
    for (label, *numbers), mark in zip(cells, marks, strict=True):
        columns = [f"{label:<{widths[0] + 1}}", *(f" {n:>{w}} " for n, w in zip(numbers, widths[1:], strict=True))]
        lines.append("|".join(columns).rstrip() + mark)
    return "\n".join(lines + _notes(rows))


def _notes(rows: Sequence[ComparisonRow]) -> list[str]:
    """A line for each explanation, with the points that it is for."""
    said: dict[str, list[str]] = {}
    for row in rows:
        if row.verdict == "explained":
            said.setdefault(row.explanation, []).append(row.label)
    everywhere = len(rows) if len(rows) > 1 else 0
    notes = [f"* {'all' if len(ls) == everywhere else '; '.join(ls)}: {text}" for text, ls in said.items()]
    missed = [row for row in rows if row.verdict == "unexplained"]
    bare = [row.label for row in missed if not row.explanation]
    notes += [f"! {'; '.join(bare)}: beyond {rows[0].tolerance:.3g} of the formula, unexplained"] * bool(bare)
    return notes + [
        f"! {row.label}: beyond the {row.explained_up_to:+.0%} that are explained: {row.explanation}"
        for row in missed
        if row.explanation
    ]


def _written(text: str, path: str | os.PathLike[str] | None) -> str:
    if path is not None:
        with whole_file(path) as draft:
            draft.write_text(text, encoding="utf-8", newline="")
    return text

"""The error table: of targets and groups, as text for a terminal and as the block of a README."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from gpusim_des.errors import SimError
from gpusim_des.silicon.held import held
from gpusim_des.silicon.target import load_target
from gpusim_des.silicon.validation import LARGE, SECTIONS, Errors, Outcome, Result

BEGIN, END = "<!-- validation: begin -->", "<!-- validation: end -->"
"""Lines between which a README holds the table."""


@dataclass(frozen=True)
class Row:
    """One target as the table has it; all texts."""

    section: str
    target: str
    gpu: str
    measured: str
    simulated: str
    error: str
    worst: str
    why: str

    @property
    def cells(self) -> tuple[str, ...]:
        """Everything but the section."""
        return tuple(getattr(self, field.name) for field in fields(self))[1:]


HEADER = ("target", "GPU", "measured", "simulated", "error", "worst", "what the model lacks")


def figure(value: float) -> str:
    """Three significant digits, without an exponent.

    >>> figure(0.0309), figure(27.9), figure(1776.4)
    ('0.0309', '27.9', '1776')
    """
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _span(values: Sequence[float], unit: str) -> str:
    low, high = figure(min(values)), figure(max(values))
    return f"{low} {unit}" if low == high else f"{low} to {high} {unit}"


def row(result: Result) -> Row:
    """Return a target's row; measured and simulated figures of several points as their range."""
    target, worst = result.target, result.worst
    at = f" at {worst.point.label}" if len(result.outcomes) > 1 else ""
    return Row(
        result.section,
        target.name,
        target.gpu,
        _span([outcome.point.measured for outcome in result.outcomes], target.unit),
        _span([outcome.simulated for outcome in result.outcomes], target.unit),
        f"{result.error:.1%}",
        f"{worst.error:+.1%}{at}",
        target.why if result.error > LARGE else "",
    )


def summary(results: Sequence[Result]) -> list[tuple[str, Errors]]:
    """Errors of all predictions, of their groups, and of each other section that there is."""
    predictions = [result for result in results if result.section == "predictions"]
    found = [("all predictions", Errors.of(predictions))] if predictions else []
    groups = dict.fromkeys(result.target.group for result in predictions)
    found += [(group, Errors.of(r for r in predictions if r.target.group == group)) for group in groups]
    for section in SECTIONS[1:]:
        members = [result for result in results if result.section == section]
        if members:
            found.append((f"({section})", Errors.of(members)))
    return found


def _summary_cells(results: Sequence[Result]) -> list[tuple[str, ...]]:
    return [
        (name, str(e.count), f"{e.mean:.1%}", f"{e.median:.1%}", f"{e.p90:.1%}", f"{e.worst:.1%}")
        for name, e in summary(results)
    ]


SUMMARY_HEADER = ("group", "targets", "mean", "median", "90th percentile", "worst")


def _held_cells(results: Sequence[Result]) -> list[tuple[str, ...]]:
    return [(h.name, str(h.points), f"{h.bound:.0%}", f"{h.worst:+.1%}") for h in held(results)]


HELD_HEADER = ("points", "number", "asked", "worst")


def _columns(header: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    wide = [max(len(line[k]) for line in (header, *lines)) for k in range(len(header))]
    return ["  ".join(cell.ljust(w) for cell, w in zip(line, wide, strict=True)).rstrip() for line in (header, *lines)]


def as_text(results: Sequence[Result]) -> str:
    """Return the table for a terminal: sections, targets, what large errors come from, and the summary."""
    rows = [row(result) for result in results]
    said = []
    for section in SECTIONS:
        members = [r for r in rows if r.section == section]
        if members:
            said += [f"{section}:", *_columns(HEADER[:-1], [r.cells[:-1] for r in members]), ""]
    lacking = [f"{r.target}: {r.why}" for r in rows if r.why]
    if lacking:
        said += [f"what the model lacks where the error is above {LARGE:.0%}:", *lacking, ""]
    points = _held_cells(results)
    if points:
        said += [*_columns(HELD_HEADER, points), ""]
    return "\n".join([*said, *_columns(SUMMARY_HEADER, _summary_cells(results))])


def as_records(results: Sequence[Result]) -> list[dict[str, Any]]:
    """All points with their errors, for JSON."""
    return [
        {
            "target": result.target.name,
            "group": result.target.group,
            "section": result.section,
            "gpu": result.target.gpu,
            "unit": result.target.unit,
            "source": result.target.source,
            "error": result.error,
            "bias": result.bias,
            "seconds": round(result.seconds, 3),
            "why": result.target.why,
            "parameters_from_it": sorted(_parameters(result)),
            "points": [
                {**outcome.point.inputs, "measured": outcome.point.measured, "simulated": outcome.simulated}
                for outcome in result.outcomes
            ],
        }
        for result in results
    ]


def _parameters(result: Result) -> Sequence[str]:
    from gpusim_des.gpu import load_gpu  # noqa: PLC0415 - only what is written as JSON asks for it

    return tuple(result.target.inputs_of(load_gpu(result.target.gpu)))


def from_records(records: Sequence[dict[str, Any]]) -> tuple[Result, ...]:
    """Read the results of an earlier validation, as `as_records` wrote them; what is said of a target is today's.

    Raises
    ------
    SimError
        If a target or a point of it does not exist any more.
    """
    return tuple(_result(record) for record in records)


def _result(record: dict[str, Any]) -> Result:
    target = load_target(record["target"])
    known = {json.dumps(dict(point.inputs), sort_keys=True): point for point in target.points}
    outcomes = []
    for entry in record["points"]:
        inputs = {name: value for name, value in entry.items() if name not in ("measured", "simulated")}
        point = known.get(json.dumps(inputs, sort_keys=True))
        if point is None or point.measured != entry["measured"]:
            raise SimError(f"target {target.name!r} has no point {inputs} of {entry['measured']}: validate it anew")
        outcomes.append(Outcome(point, entry["simulated"]))
    return Result(target, tuple(outcomes), record["seconds"])


# Markdown -----------------------------------------------------------------------------------------------------------


def _markdown(header: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    rule = "|" + "|".join(["---"] * len(header)) + "|"
    return [f"| {' | '.join(header)} |", rule, *(f"| {' | '.join(line)} |" for line in lines)]


def as_markdown(
    rows: Sequence[Row], summaries: Sequence[Sequence[str]], points: Sequence[Sequence[str]], made: str
) -> str:
    """Return the block of a README, markers included; `made` says by what and when.

    Examples
    --------
    >>> r = Row("predictions", "demo", "tiny", "1 s", "2 s", "100.0%", "+100.0%", "everything")
    >>> sums = [("all predictions", "1", "100.0%", "100.0%", "100.0%", "100.0%")]
    >>> print(as_markdown([r], sums, [("counts", "4", "0%", "+0.0%")], "by hand"))
    <!-- validation: begin -->
    by hand
    <BLANKLINE>
    | group | targets | mean | median | 90th percentile | worst |
    |---|---|---|---|---|---|
    | all predictions | 1 | 100.0% | 100.0% | 100.0% | 100.0% |
    <BLANKLINE>
    | points | number | asked | worst |
    |---|---|---|---|
    | counts | 4 | 0% | +0.0% |
    <BLANKLINE>
    **predictions**
    <BLANKLINE>
    | target | GPU | measured | simulated | error | worst | what the model lacks |
    |---|---|---|---|---|---|---|
    | demo | tiny | 1 s | 2 s | 100.0% | +100.0% | everything |
    <!-- validation: end -->
    """
    said = [BEGIN, made, "", *_markdown(SUMMARY_HEADER, summaries), "", *_markdown(HELD_HEADER, points)]
    for section in SECTIONS:
        members = [r.cells for r in rows if r.section == section]
        if members:
            said += ["", f"**{section}**", "", *_markdown(HEADER, members)]
    return "\n".join([*said, END])


def block(results: Sequence[Result], made: str) -> str:
    """Return the block of a README for these results."""
    return as_markdown([row(result) for result in results], _summary_cells(results), _held_cells(results), made)


def read_block(text: str) -> tuple[list[Row], list[tuple[str, ...]], list[tuple[str, ...]], str]:
    """Read a README's block back: rows, summary, points that are held, and by what and when it was made.

    Raises
    ------
    ValueError
        If there is no block.
    """
    if BEGIN not in text or END not in text:
        raise ValueError(f"no validation table: the lines {BEGIN!r} and {END!r} enclose one")
    lines = text.partition(BEGIN)[2].partition(END)[0].strip().splitlines()
    rows: list[Row] = []
    summaries: list[tuple[str, ...]] = []
    points: list[tuple[str, ...]] = []
    section = ""
    for line in lines[1:]:
        cells = tuple(cell.strip() for cell in line.strip("|").split("|"))
        if line.startswith("**"):
            section = line.strip("*")
        elif not line.startswith("|") or line.startswith("|---") or cells in (HEADER, SUMMARY_HEADER, HELD_HEADER):
            continue
        elif section:
            rows.append(Row(section, *cells))
        elif len(cells) == len(HELD_HEADER):
            points.append(cells)
        else:
            summaries.append(cells)
    return rows, summaries, points, lines[0] if lines else ""


def put_block(text: str, new: str) -> str:
    """Replace the block in a README's text.

    Raises
    ------
    ValueError
        If there is none to replace.
    """
    read_block(text)
    before, after = text.partition(BEGIN)[0], text.partition(END)[2]
    return before + new + after

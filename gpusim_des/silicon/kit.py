"""Reads what the measuring kit in ``experiments/hardware`` found out about a GPU."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from statistics import median
from typing import Any

from gpusim_des.errors import ReadError

SCHEMA = "gpusim-des-measured/1"

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Measured:
    """The records of one report, by their names in the kit's README."""

    name: str
    records: Mapping[str, Sequence[Row]]

    def rows(self, record: str, **where: object) -> list[Row]:
        """Rows of a record in which the columns of `where` have these values; none where it was not measured."""
        found = self.records.get(record, ())
        return [row for row in found if all(row.get(column) == value for column, value in where.items())]

    def value(self, record: str, column: str, **where: object) -> float | None:
        """The median of a column over those rows, ``None`` where there is none."""
        values = [float(row[column]) for row in self.rows(record, **where) if row.get(column) is not None]
        return median(values) if values else None

    def best(self, record: str, column: str, **where: object) -> float | None:
        """The largest value of a column in those rows, ``None`` where there is none."""
        values = [float(row[column]) for row in self.rows(record, **where) if row.get(column) is not None]
        return max(values, default=None)


def read_kit(path: str | PathLike[str]) -> Measured:
    """Read ``measured-micro.json``.

    Raises
    ------
    ReadError
        For a file of another kind or another version of the kit, or one of a dry run, whose times mean nothing.
    """
    try:
        report = json.loads(Path(path).read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ReadError(f"{path}: not JSON ({error}); give the measured-micro.json of the kit") from None
    schema = report.get("schema") if isinstance(report, dict) else None
    if schema != SCHEMA or report.get("program") != "micro":
        raise ReadError(
            f"{path}: schema {schema!r}; give the measured-micro.json of the kit, whose schema is {SCHEMA!r}"
        )
    if report.get("dry_run"):
        raise ReadError(f"{path}: of a dry run, whose times mean nothing; run the kit on a GPU without DRY_RUN")
    records: dict[str, Sequence[Row]] = {}
    for record in report.get("records", ()):
        if record.get("rows") and not record.get("error"):
            records[record["id"]] = record["rows"]
    if "device_properties" not in records:
        raise ReadError(f"{path}: no record device_properties: the kit was stopped before it said which GPU this is")
    return Measured(Path(path).name, records)

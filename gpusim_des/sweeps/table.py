"""The table that a sweep makes: a row for each configuration, in the order of the axes."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

from gpusim_des.device import assumed_at_launch
from gpusim_des.errors import KernelError
from gpusim_des.results import Row, even
from gpusim_des.whole_file import whole_file


@dataclass(frozen=True)
class SweepTable:
    """Rows of a sweep: what was varied, what came out, and ``error`` where something went wrong.

    Attributes
    ----------
    rows
        Dictionaries with the same keys, for pandas or polars.
    computed
        Configurations that were measured now; the others were equal to them, or lay finished in the folder.

    Examples
    --------
    >>> rows = {"block": 32, "seconds": 2e-6, "error": ""}, {"block": 64, "seconds": None, "error": "no"}
    >>> table = SweepTable(rows, computed=2)
    >>> len(table), [row["block"] for row in table.failed], table.best("seconds")["block"]
    (2, [64], 32)
    """

    rows: tuple[Row, ...]
    computed: int

    @property
    def failed(self) -> list[Row]:
        """Rows of configurations that could not be measured; ``error`` says why."""
        return [row for row in self.rows if row["error"]]

    @property
    def wrong(self) -> list[Row]:
        """Rows in which the kernel is wrong: an ``error`` of its own (out of bounds), or ``mistakes`` (a race).

        >>> rows = {"n": 1, "error": "BoundsError: …"}, {"n": 2, "error": "LaunchError: …"}, {"n": 3, "error": ""}
        >>> [row["n"] for row in SweepTable(rows, computed=3).wrong]
        [1]
        """
        return [row for row in self.rows if row["error"].partition(":")[0] in KERNEL_ERRORS or row.get("mistakes")]

    def best(self, figure: str = "seconds") -> Row:
        """Row with the least value of a figure.

        Raises
        ------
        ValueError
            If no row has it.
        """
        having = [row for row in self.rows if isinstance(row.get(figure), int | float)]
        if not having:
            raise ValueError(f"no row has a number for {figure!r}: columns are {', '.join(self.rows[0])}")
        return min(having, key=lambda row: float(row[figure]))

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def to_rows(self) -> list[Row]:
        """Rows as a list, for ``pandas.DataFrame(table.to_rows())``."""
        return list(self.rows)

    def to_csv(self, path: str | PathLike[str] | None = None) -> str:
        """The table as CSV with a head line; with a path it is also written there, whole or not at all."""
        text = io.StringIO()
        writer = csv.DictWriter(text, list(self.rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        return _written(text.getvalue(), path)

    def to_json(self, path: str | PathLike[str] | None = None) -> str:
        """The table as a JSON list of objects; with a path it is also written there, whole or not at all."""
        return _written("".join(self.json_parts()), path)

    def json_parts(self) -> Iterator[str]:
        """The same text in parts, of which a large table has many; none needs the others' memory.

        >>> print(*SweepTable(({"n": 1, "error": ""},), computed=1).json_parts(), sep="", end="")
        [
         {
          "n": 1,
          "error": ""
         }
        ]
        """
        # As `indent=1` writes it, which json does in Python: of ten thousand rows that takes a second.
        yield "["
        for number, row in enumerate(self.rows):
            yield f"{',' * (number > 0)}\n {{\n  {_encodable(_AS_JSON(row)[1:-1])}\n }}"
        yield "\n]\n"

    def __str__(self) -> str:
        return summary(self.rows)


_AS_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",\n  ", ": ")).encode


def _family(kind: type) -> set[str]:
    return {kind.__name__}.union(*map(_family, kind.__subclasses__()))


KERNEL_ERRORS = _family(KernelError)
"""Names with which errors of a kernel begin."""

SHOWN = ("seconds", "achieved_occupancy", "main_stall")
"""Figures of the printed table, beside what was varied."""

COMPLAINTS = ("error", "mistakes")
"""Columns of the printed table where a row has any."""


def summary(rows: tuple[Row, ...], figure: str = "") -> str:
    """Readable table: what varies, time, occupancy, main stall, another figure if one is named, and errors.

    >>> rows = tuple({"n": n, "error": "", "seconds": 2e-6, "waves": n / 4} for n in (1, 2))
    >>> print(summary(rows, "waves"))
    n  seconds  achieved_occupancy  main_stall  waves
    1  2e-06    -                   -           0.25
    2  2e-06    -                   -           0.5
    """
    more = [name for name in COMPLAINTS if any(row.get(name) for row in rows)]
    shown = list(dict.fromkeys([*varying(rows), *SHOWN, *([figure] if figure else []), *more]))
    cells = [[_cell(name, row.get(name)) for name in shown] for row in rows]
    widths = [max(len(name), *(len(line[k]) for line in cells)) for k, name in enumerate(shown)]
    lines = [shown, *cells]
    return "\n".join("  ".join(f"{c:<{w}}" for c, w in zip(line, widths, strict=True)).rstrip() for line in lines)


def varying(rows: Sequence[Row]) -> list[str]:
    """Columns of what was varied.

    >>> varying([{"gpu": "tiny", "n": 1, "error": ""}, {"gpu": "tiny", "n": 2, "error": "no"}])
    ['n']
    """
    columns = list(rows[0])
    return [name for name in columns[: columns.index("error")] if len({str(row[name]) for row in rows}) > 1]


def complaints(rows: Sequence[Row], names: Sequence[str]) -> list[str]:
    """What is wrong, once for all rows of which the same is to be said; `names` are columns that tell rows apart.

    >>> rows = [{"n": n, "error": "BoundsError: index 9", "mistakes": None} for n in (1, 2, 3)]
    >>> complaints(rows, ["n"])
    ['n = 1 and 2 more rows: BoundsError: index 9']
    """
    said: dict[str, list[Row]] = {}
    for row in rows:
        said.setdefault(row["error"] or row["mistakes"], []).append(row)
    lines = []
    for text, alike in said.items():
        first = ", ".join(f"{name} = {alike[0][name]}" for name in names) or "the only row"
        more = f" and {len(alike) - 1} more row{'s' if len(alike) > 2 else ''}" if len(alike) > 1 else ""
        lines.append(f"{first}{more}: {text}")
    return lines


def _cell(name: str, value: Any) -> str:
    if value is None or value == "":
        return "-"
    if name in COMPLAINTS:
        return str(value).partition("\n")[0][:70]
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def table_of(columns: list[dict[str, Any]], records: list[dict[str, Any]], computed: int) -> SweepTable:
    """Join what was varied with what came out, and with what was assumed where it was not said."""
    rows: list[Row] = []
    for column, record in zip(columns, records, strict=True):
        error, result = record.get("error", ""), record.get("result")
        assumed = {"assumptions": "; ".join(assumed_at_launch(column["registers"]))} if result else {}
        rows.append({**column, "error": error, **(result or {}), **assumed})
    return SweepTable(tuple(even(rows)), computed)


def _encodable(text: str) -> str:
    """The text of an exception may hold half a character, which no file takes; JSON writes it the same way."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _written(text: str, path: str | PathLike[str] | None) -> str:
    text = _encodable(text)
    if path is not None:
        with whole_file(path) as draft:
            draft.write_text(text, encoding="utf-8", newline="")
    return text

"""The timeline's bars as compact JSON for the page: columns of small integers, texts once."""

from __future__ import annotations

import json
from collections.abc import Hashable, Sequence
from math import gcd
from typing import Any

from gpusim_des.page_text import isolated
from gpusim_des.report.rows import Row, Span


class _Table:
    """Values by the order in which they first occurred."""

    def __init__(self) -> None:
        self._places: dict[Hashable, int] = {}

    def place(self, value: Hashable) -> int:
        return self._places.setdefault(value, len(self._places))

    def values(self) -> list[Any]:
        return list(self._places)


def encoded(rows: Sequence[tuple[Row, Sequence[Span]]], *, end_fs: int, period_fs: int) -> str:
    """Return the rows as JSON that may stand inside of a ``script`` element.

    Each row has ``unit`` (femtoseconds) and columns: ``gap`` (from the end of the bar before) and ``len`` in units,
    ``style``, ``name``, ``owner`` and ``detail``, places in ``styles`` and ``texts``.

    Examples
    --------
    >>> from gpusim_des.views.palette import Style
    >>> row = Row("Host", "host thread", "host", 1, 4, 10, lambda: iter(()))
    >>> text = encoded([(row, [Span(4, 10, Style("#000000"), "</script>")])], end_fs=10, period_fs=2)
    >>> "<" in text, json.loads(text)["texts"], json.loads(text)["rows"][0]["gap"]
    (False, ['</script>', ''], [2])
    """
    texts, styles = _Table(), _Table()
    found = []
    for row, spans in rows:
        starts, ends = [s.start for s in spans], [s.end for s in spans]
        unit = gcd(*starts, *ends) or 1
        befores = [0, *ends[:-1]]
        found.append(
            {
                "group": isolated(row.group),
                "name": isolated(row.name),
                "level": row.level,
                "unit": unit,
                "gap": [(start - before) // unit for start, before in zip(starts, befores, strict=True)],
                "len": [(end - start) // unit for start, end in zip(starts, ends, strict=True)],
                "style": [styles.place(s.style) for s in spans],
                "name_of": [texts.place(s.name) for s in spans],
                "owner": [texts.place(s.owner) for s in spans],
                "detail": [texts.place(s.detail) for s in spans],
            }
        )
    said = [isolated(text) for text in texts.values()]
    page = {"end": end_fs, "period": period_fs, "texts": said, "styles": styles.values(), "rows": found}
    text = json.dumps(page, separators=(",", ":"), allow_nan=False)  # ASCII: no name can break the page's encoding
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")

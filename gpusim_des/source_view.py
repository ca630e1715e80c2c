"""The source view: a kernel's text with, beside each line, what its warps did there and what they waited for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from gpusim_des.functional.counters import Counters
from gpusim_des.functional.line_counts import LineCounts
from gpusim_des.functional.source_text import SourceSpan, Texts, texts_of
from gpusim_des.line_site import LineSite
from gpusim_des.page_text import page_text
from gpusim_des.source_html import html_lines, html_page
from gpusim_des.timeline import WarpState

Row = dict[str, Any]

Stalls = Mapping[LineSite, Mapping[str, int]]
"""File and line → Nsight's suffix of a state → warp-cycles."""

NO_LINE = "(no line: exits, and what stands in no source)"


@dataclass(frozen=True)
class SourceView:
    """A kernel's source with counters beside each line; printing it shows it, and notebooks draw it.

    Examples
    --------
    >>> import numpy as np
    >>> import gpusim_des as gs
    >>> @gs.block_kernel
    ... def double(blk, a):
    ...     i = blk.bx * blk.bdx + blk.tx
    ...     blk.store(a, i, 2 * blk.load(a, i))
    >>> dev = gs.Device("tiny")
    >>> print(dev.launch(double, 4, 64, dev.to_device(np.zeros(256, np.float32))).source())
    double: 56 warp instructions
     line  instr  lanes  requests  sect/req  wavefr  diverg
        1                                                    @gs.block_kernel
        2                                                    def double(blk, a):
        3      8     32                                          i = blk.bx * blk.bdx + blk.tx
        4     40     32        16         4      16              blk.store(a, i, 2 * blk.load(a, i))
               8     32                                      (no line: exits, and what stands in no source)
    """

    title: str
    _rows: tuple[Row, ...] = field(repr=False)

    def rows(self) -> list[Row]:
        """Return a dictionary for each line, in the order of the source; a copy.

        ``file, line, text``; ``instructions, active_lanes, lanes`` (mean, 0…32), ``branches, divergent_branches,
        barriers``; ``global_requests, shared_requests, sectors, sectors_per_request`` (of global memory, ``None``
        without requests), ``wavefronts, shared_wavefronts``; and, of a simulation, ``stalls``: the state's name →
        warp-cycles, and ``cycles``, their sum. Line 0 holds what belongs to no line.
        """
        return [{**row, **({"stalls": dict(row["stalls"])} if "stalls" in row else {})} for row in self._rows]

    @classmethod
    def of(
        cls,
        name: str,
        span: SourceSpan | None,
        counters: Counters,
        stalls: Stalls | None = None,
        texts: Texts | None = None,
    ) -> SourceView:
        """Put a launch's counters, and the stalls of a simulation, beside the text of its kernel.

        `texts` are those of a result that was saved; without them the lines are read where they stand.
        """
        places = counted_sites(counters)
        if texts is None:
            texts = texts_of([] if span is None else [span], {*places, *(stalls or {})})
        if span is not None:
            own = texts.get(span.filename, {})
            places |= {LineSite(span.filename, line) for line in own if span.first <= line <= span.last}
        found = sorted(places, key=lambda site: (not site.line, span is None or site.filename != span.filename, site))
        rows = [_row(site, counters, texts) for site in found]
        if stalls is not None:
            rows = _with_stalls(rows, stalls, texts)
        return cls(_title(name, counters, rows), tuple(rows))

    def to_html(self) -> str:
        """Return a page of its own: one table, no scripts, nothing loaded from elsewhere; all text is escaped."""
        return html_page(self.title, self.html_table())

    def html_table(self, bar: Callable[[Row], str] | None = None) -> str:
        """Return the table alone, to stand on another page; `bar` returns the HTML of a cell before the text."""
        heat = "cycles" if self._rows and "cycles" in self._rows[0] else "instructions"
        columns = self._columns(each_state=True)
        texts = [[column(row) for _, column in columns] for row in self._rows]
        weights = [row[heat] for row in self._rows]
        heads = [head for head, _ in columns]
        bars = [bar(row) for row in self._rows] if bar else []
        return html_lines(heads, texts, [row["text"] for row in self._rows], weights, bars)

    def _repr_html_(self) -> str:
        return f"<p>{page_text(self.title)}</p>{self.html_table()}"

    def _place(self, row: Row) -> str:
        """Number of a line; with its file where that is not the kernel's."""
        if not row["line"]:
            return ""
        first = self._rows[0]["file"]
        return f"{row['line']}" if row["file"] in ("", first) else f"{Path(row['file']).name}:{row['line']}"

    def _columns(self, *, each_state: bool = False) -> list[tuple[str, Callable[[Row], str]]]:
        """Names of the columns and what they show; stalls in one column, or in one for each state that occurs."""
        timed = bool(self._rows) and "cycles" in self._rows[0]
        total = sum(row["cycles"] for row in self._rows) if timed else 0
        columns: list[tuple[str, Callable[[Row], str]]] = [
            ("line", self._place),
            ("instr", lambda row: _count(row["instructions"])),
            ("lanes", lambda row: f"{row['lanes']:.3g}" if row["instructions"] else ""),
            ("requests", lambda row: _count(row["global_requests"] + row["shared_requests"])),
            ("sect/req", lambda row: "" if row["sectors_per_request"] is None else f"{row['sectors_per_request']:.3g}"),
            ("wavefr", lambda row: _count(row["wavefronts"])),
            ("diverg", lambda row: _count(row["divergent_branches"])),
        ]
        if timed:
            columns += [
                ("cycles", lambda row: _count(row["cycles"])),
                ("share", lambda row: f"{100 * row['cycles'] / total:.1f} %" if row["cycles"] else ""),
            ]
        if timed and each_state:
            occurring = [s.suffix for s in WarpState if any(row["stalls"].get(s.suffix) for row in self._rows)]
            columns += [(state, partial(_cycles_in, state)) for state in occurring]
        elif timed:
            columns.append((REASONS, lambda row: _reasons(row["stalls"])))
        return columns

    def __str__(self) -> str:
        columns = self._columns()
        table = [[head for head, _ in columns], *([column(row) for _, column in columns] for row in self._rows)]
        widths = [max(map(len, cells)) for cells in zip(*table, strict=True)]
        lines = []
        for cells, text in zip(table, ["", *(row["text"] for row in self._rows)], strict=True):
            aligned = [
                cell.ljust(width) if head == REASONS else cell.rjust(width)
                for cell, width, (head, _) in zip(cells, widths, columns, strict=True)
            ]
            lines.append((" " + "  ".join(aligned) + "  " + text).rstrip())
        return "\n".join([self.title, *lines])


def counted_sites(counters: Counters) -> set[LineSite]:
    """Lines of which counters tell anything."""
    return set(counters.lines) | {LineSite(site.filename, site.line) for site in counters.accesses}


def _row(site: LineSite, counters: Counters, texts: Texts) -> Row:
    counts = counters.lines.get(site, LineCounts())
    accesses = [(s, c) for s, c in counters.accesses.items() if (s.filename, s.line) == site]
    requests = {memory: sum(c.requests for s, c in accesses if s.memory == memory) for memory in ("global", "shared")}
    sectors = sum(c.sectors for _, c in accesses)
    return {
        "file": site.filename,
        "line": site.line,
        "text": texts.get(site.filename, {}).get(site.line, "") if site.line else NO_LINE,
        "instructions": counts.instructions,
        "active_lanes": counts.active_lanes,
        "lanes": counts.lanes_per_instruction,
        "branches": counts.branches,
        "divergent_branches": counts.divergent_branches,
        "barriers": counts.barriers,
        "global_requests": requests["global"],
        "shared_requests": requests["shared"],
        "sectors": sectors,
        "sectors_per_request": sectors / requests["global"] if requests["global"] else None,
        "wavefronts": sum(c.wavefronts for _, c in accesses),
        "shared_wavefronts": sum(c.wavefronts for s, c in accesses if s.memory == "shared"),
    }


def _with_stalls(rows: list[Row], stalls: Stalls, texts: Texts) -> list[Row]:
    """Add stalls by line, and the lines of which nothing but them is known."""
    missing = dict(stalls)
    for row in rows:
        found = missing.pop(LineSite(row["file"], row["line"]), {})
        row["stalls"] = {state: cycles for state, cycles in found.items() if cycles}
        row["cycles"] = sum(row["stalls"].values())
    for site, states in sorted(missing.items()):
        rows.append({**_row(site, Counters(), texts), "stalls": dict(states), "cycles": sum(states.values())})
    return rows


def _title(name: str, counters: Counters, rows: list[Row]) -> str:
    estimated = " (estimated from a sample)" if hasattr(counters, "executed") else ""
    title = f"{name}: {counters.warp_instructions:,} warp instructions{estimated}"
    if rows and "cycles" in rows[0]:
        title += f", {sum(row['cycles'] for row in rows):,} warp-cycles"
    return title


def _count(number: int) -> str:
    return f"{number:,}" if number else ""


REASONS = "cycles by reason"
"""Head of the column that a text has in place of one for each state."""

MOST_REASONS = 2
"""States that a line of text names; the others are summed."""


def _reasons(stalls: Mapping[str, int]) -> str:
    """Name the states in which warps spent most cycles, and how many; all cycles of the line are told."""
    worst = sorted(stalls, key=lambda state: -stalls[state])
    named = worst if len(worst) == MOST_REASONS + 1 else worst[:MOST_REASONS]
    rest = [stalls[state] for state in worst[len(named) :]]
    texts = [f"{state} {stalls[state]:,}" for state in named]
    return ", ".join([*texts, *([f"{len(rest)} others {sum(rest):,}"] if rest else [])])


def _cycles_in(state: str, row: Row) -> str:
    return _count(row["stalls"].get(state, 0))

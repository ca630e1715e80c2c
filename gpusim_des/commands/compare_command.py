"""``gpusim-des compare A.json B.json``: differences of two results in time, stalls and counters."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from math import isfinite
from typing import Any

from gpusim_des.commands.output import printable
from gpusim_des.errors import UsageError

Row = dict[str, Any]

LEAD = (
    "grid",
    "block",
    "blocks",
    "warps_per_block",
    "seconds",
    "cycles",
    "achieved_occupancy",
    "theoretical_occupancy",
    "waves",
    "dram_bytes_per_second",
    "l1_hit_rate",
    "l2_hit_rate",
    "issue_slot_utilization",
    "dram_utilization",
)
"""Figures that come first; everything else that differs follows by size of the difference."""


LONGEST_NAME = 100
"""Letters of a name that a heading shows."""


def add_compare(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "compare",
        help="what differs between two saved results",
        description="Compare results that `run --save` or sim.save() wrote: time, occupancy, stalls, counters, kernel "
        "by kernel in the order of the launches.",
    )
    parser.add_argument("first", metavar="A.json")
    parser.add_argument("second", metavar="B.json")
    parser.add_argument("--all", action="store_true", help="show figures that are equal as well")
    parser.add_argument("--json", action="store_true", help="print the differences as JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command; errors are told by `gpusim_des.cli.main`."""
    first, second = _rows(options.first), _rows(options.second)
    tables = [(names(a, b), differences(a, b)) for a, b in zip(first, second, strict=False)]
    files = [options.first, options.second]
    if options.json:
        plain = [{"kernel": kernel, "figures": figures} for kernel, figures in tables]
        answer = {"files": files, "tables": plain, "kernels": [len(first), len(second)]}
        print(json.dumps(answer, indent=1, allow_nan=False))
        return 0
    print(printable("A is {}, B is {}\n".format(*files)))
    for kernel, figures in tables:
        print(printable(text(kernel, figures, everything=options.all)) + "\n")
    if len(first) != len(second):
        longer = options.first if len(first) > len(second) else options.second
        print(f"{longer} has {abs(len(first) - len(second))} more kernels, which are not compared")
    if not tables:
        print("no kernel to compare")
    return 0


def _rows(path: str) -> list[Row]:
    from gpusim_des.simulation import load_result  # noqa: PLC0415 - `gpusim-des --help` need not load NumPy

    try:
        return load_result(path).to_rows()
    except FileNotFoundError:
        raise UsageError(
            f"there is no result {path}: write one with gpusim-des run … --save {path}, or with sim.save"
        ) from None


def names(a: Row, b: Row) -> str:
    """Heading: which kernel on which GPU, both where they differ.

    >>> names({"name": "add", "gpu": "tiny"}, {"name": "add2", "gpu": "tiny"})
    'add | add2 on tiny'
    """
    kernel, gpu = (_cut(a[k]) if a[k] == b[k] else f"{_cut(a[k])} | {_cut(b[k])}" for k in ("name", "gpu"))
    return f"{kernel} on {gpu}"


def _cut(name: object) -> str:
    text = str(name)
    return text if len(text) <= LONGEST_NAME else f"{text[:LONGEST_NAME]}…"


def differences(a: Row, b: Row) -> list[Row]:
    """Rows of two kernels, figure by figure: first, second and the relative difference, where there is one.

    >>> differences({"cycles": 100, "main_stall": "wait"}, {"cycles": 150, "main_stall": "barrier"})
    [{'figure': 'cycles', 'first': 100, 'second': 150, 'difference': 0.5}, \
{'figure': 'main_stall', 'first': 'wait', 'second': 'barrier', 'difference': None}]
    """
    from gpusim_des.results import even  # noqa: PLC0415 - as above

    a, b = even([a, b])
    rows = []
    for figure in dict.fromkeys((*(f for f in LEAD if f in a), *a)):
        first, second = a[figure], b[figure]
        if figure in ("name", "gpu", "start_fs", "end_fs"):
            continue
        numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in (first, second))
        difference = (second - first) / first if numbers and first else 0.0 if numbers and not second else None
        if difference is not None and not isfinite(difference):  # of numbers near the end of what floats can hold
            difference = None
        rows.append({"figure": figure, "first": first, "second": second, "difference": difference})
    return rows


def text(kernel: str, rows: Sequence[Row], *, everything: bool = False) -> str:
    """Table of differences; the lead first, then what differs, the largest difference first."""
    lead = [row for row in rows if row["figure"] in LEAD]
    rest = [row for row in rows if row["figure"] not in LEAD and (everything or row["first"] != row["second"])]
    if not everything:
        rest.sort(key=lambda row: -(abs(row["difference"]) if row["difference"] is not None else float("inf")))
    cells = [(row["figure"], _shown(row["first"]), _shown(row["second"]), _change(row)) for row in [*lead, *rest]]
    widths = [max(len(line[k]) for line in [("figure", "A", "B", "difference"), *cells]) for k in range(4)]
    lines = [kernel, f"{'figure':<{widths[0]}}  {'A':>{widths[1]}}  {'B':>{widths[2]}}  {'difference':>{widths[3]}}"]
    lines += [
        f"{f:<{widths[0]}}  {a:>{widths[1]}}  {b:>{widths[2]}}  {d:>{widths[3]}}".rstrip() for f, a, b, d in cells
    ]
    equal = len(rows) - len(lead) - len(rest)
    return "\n".join([*lines, *([f"{equal} more figures are equal (--all shows them)"] if equal else [])])


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) >= 1e-3 or not value else f"{value:.4e}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)[:24]


def _change(row: Row) -> str:
    if row["first"] == row["second"]:
        return "="
    return f"{row['difference']:+.1%}" if row["difference"] is not None else "differs"

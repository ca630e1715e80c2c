"""Results as rows: lists of dictionaries with the same keys in the same order, as pandas and polars take them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Literal, get_args

from gpusim_des.functional.counters import Counters
from gpusim_des.timeline import KernelTiming, Timeline

RowKind = Literal["kernels", "operations", "blocks", "host"]

Row = dict[str, Any]
"""A row: texts, numbers, truths, and None where something was not modelled."""

COUNTED = ("instructions", "pipe_utilization", "wavefronts_per_instruction")
"""Fields of a kernel with an entry for each class of instructions."""

DERIVED = (
    "seconds",
    "relative_error",
    "dram_bytes_per_second",
    "l1_hit_rate",
    "l2_hit_rate",
    "waves",
    "issue_slot_utilization",
    "eligible_warps_per_scheduler",
    "main_stall",
)
"""Properties of a kernel that go into its row."""


def rows_of(timeline: Timeline, kind: RowKind, counters: Sequence[Counters] = ()) -> list[Row]:
    """Rows of a timeline: of its kernels with their counters, of its operations, its blocks, or the host's calls.

    Raises
    ------
    ValueError
        For another kind.
    """
    if kind not in get_args(RowKind):
        raise ValueError(f"to_rows({kind!r}): possible are {', '.join(map(repr, get_args(RowKind)))}")
    if kind == "kernels":
        known = counters if len(counters) == len(timeline.kernels) else [None] * len(timeline.kernels)
        rows = [kernel_row(k, c) for k, c in zip(timeline.kernels, known, strict=True)]
        for row in rows:
            row["gpu"] = timeline.gpu_name
        for row, k in zip(rows, timeline.kernels, strict=True):
            row |= {"grid": _size(k.grid), "block": _size(k.block)}
        return even(rows)
    return [{f.name: getattr(record, f.name) for f in fields(record)} for record in getattr(timeline, kind)]


def _size(size: tuple[int, int, int] | None) -> int | str | None:
    """Write a size as it is typed: a number, or sizes in x, y and z without ones at their end."""
    if size is None:
        return None
    x, y, z = size
    return f"{x},{y},{z}" if z > 1 else f"{x},{y}" if y > 1 else x


def kernel_row(k: KernelTiming, counters: Counters | None = None) -> Row:
    """One row with the figures of a kernel: plain fields, ``stall_…``, and by class ``instructions_fp32``, ….

    What its launch counted comes as ``counted_…``.
    """
    row: Row = {"name": k.name}
    row.update({name: getattr(k, name) for name in DERIVED})
    for f in fields(k):
        value = getattr(k, f.name)
        if f.name == "stalls":
            row.update({f"stall_{state}": cycles for state, cycles in value.items()})
        elif f.name in COUNTED:
            row.update({f"{f.name}_{name}": number for name, number in value.items()})
        elif value is None or isinstance(value, str | int | float):
            row[f.name] = value
    row["assumptions"] = "; ".join(k.assumptions)
    if counters is not None:
        row.update({f"counted_{name}": value for name, value in counter_row(counters).items()})
    return row


def counter_row(counters: Counters) -> Row:
    """Every counter that is one number, and the instruction mix by class.

    Examples
    --------
    >>> from collections import Counter
    >>> row = counter_row(Counters(blocks=2, instruction_mix=Counter(fp32=3)))
    >>> row["blocks"], row["instruction_mix_fp32"]
    (2, 3)
    """
    row: Row = {f.name: value for f in fields(Counters) if isinstance(value := getattr(counters, f.name), int)}
    row.update({f"instruction_mix_{name}": number for name, number in sorted(counters.instruction_mix.items())})
    return row


def even(rows: Sequence[Row]) -> list[Row]:
    """Give all rows the same keys in one order: None where a row has none, 0 for a class without instructions.

    Examples
    --------
    >>> even([{"a": 1}, {"b": 2, "instructions_int": 3}])
    [{'a': 1, 'b': None, 'instructions_int': 0}, {'a': None, 'b': 2, 'instructions_int': 3}]
    """
    order = [*rows[0]] if rows else []
    if all([*row] == order for row in rows):
        return list(rows)
    keys: dict[str, None] = {}
    for row in rows:
        if row.keys() != keys.keys():
            keys.update(dict.fromkeys(row))
    counts = tuple(f"{name}_" for name in (*COUNTED, "counted_instruction_mix", "instruction_mix"))
    blank = {key: 0 if key.startswith(counts) else None for key in keys}
    return [{**blank, **row} for row in rows]

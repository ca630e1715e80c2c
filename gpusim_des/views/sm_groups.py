"""When the SMs were at work on which kernel, group by group, for the streams' picture."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gpusim_des.timeline import Operation, Timeline

MOST_GROUPS = 4
"""Rows for SMs at most; a chip with more has groups of neighbours, equally many in each but the last."""


def sm_groups(record: Timeline, kernels: Iterable[Operation]) -> list[tuple[str, list[Operation]]]:
    """Name of each group of SMs, with the kernels that had blocks there, from the first dispatch to the last end.

    Where the timeline holds no blocks (``detail="kernel"``), all SMs are one group and kernels have their own times.
    """
    shown = list(kernels)
    if not record.blocks or record.sms == 1:
        return [("SMs", shown)]
    operations = {operation.kernel: operation for operation in shown}
    size = -(-record.sms // MOST_GROUPS)
    groups: list[dict[int, tuple[int, int]]] = [{} for _ in range(-(-record.sms // size))]
    for block in record.blocks:
        spans = groups[block.sm // size]
        start, end = spans.get(block.kernel, (block.start_fs, block.end_fs))
        spans[block.kernel] = (min(start, block.start_fs), max(end, block.end_fs))
    return [
        (
            _name(number * size, min((number + 1) * size, record.sms) - 1),
            [
                replace(operations[kernel], start_fs=start, end_fs=end)
                for kernel, (start, end) in sorted(spans.items())
                if kernel in operations
            ],
        )
        for number, spans in enumerate(groups)
    ]


def _name(first: int, last: int) -> str:
    return f"SM {first}" if first == last else f"SMs {first}–{last}"

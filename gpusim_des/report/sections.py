"""Sections of the report as HTML: what each kernel took, waited for and counted, line by line.

All names are escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from gpusim_des.page_text import page_text
from gpusim_des.report.stall_bars import legend, stack
from gpusim_des.source_view import SourceView
from gpusim_des.timeline import KernelTiming
from gpusim_des.units import duration

MOST_LISTED = 200
"""Kernels in the table, and lines of a text."""


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], kinds: Sequence[str]) -> str:
    """Return a table of texts; `kinds` are the CSS classes of the columns, empty for none.

    >>> '<tr><td class="number">&lt;1&gt;</td></tr>' in table(["a"], [["<1>"]], ["number"])
    True
    """
    marks = [f' class="{kind}"' if kind else "" for kind in kinds]
    head = "".join(f"<th{mark}>{page_text(text)}</th>" for text, mark in zip(heads, marks, strict=True))
    body = (
        "<tr>" + "".join(f"<td{mark}>{page_text(text)}</td>" for text, mark in zip(row, marks, strict=True)) + "</tr>"
        for row in rows
    )
    return f'<div class="scroll"><table><tr>{head}</tr>{"".join(body)}</table></div>'


def kernel_table(kernels: Sequence[KernelTiming]) -> str:
    """Return what each kernel took and how it used the GPU."""
    occupancy = ("achieved occupancy", "theoretical", "limiter")
    use = ("issue slots used", "DRAM throughput", "L2 hits", "main stall")
    heads = ("kernel", "start", "duration", "cycles", "blocks", *occupancy, *use)
    kinds = ("name", *["number"] * 6, "", *["number"] * 3, "")
    rows = [
        (
            k.name,
            duration(k.start_s),
            duration(k.seconds),
            f"{k.cycles:,}",
            f"{k.blocks:,}",
            f"{k.achieved_occupancy:.1%}",
            f"{k.theoretical_occupancy:.1%}",
            k.occupancy_limiter,
            f"{k.issue_slot_utilization:.1%}",
            f"{k.dram_bytes_per_second / 1e9:,.4g} GB/s",
            "–" if k.l2_hit_rate is None else f"{k.l2_hit_rate:.1%}",
            k.main_stall,
        )
        for k in kernels[:MOST_LISTED]
    ]
    return table(heads, rows, kinds) + _left_out(len(kernels), "kernels")


def _left_out(count: int, what: str) -> str:
    if count <= MOST_LISTED:
        return ""
    return f'<p class="soft">The first {MOST_LISTED} of {count:,} {what}; sim.kernels holds all.</p>'


def stall_section(kernels: Sequence[KernelTiming]) -> str:
    """Return a bar for each kernel: how its resident warp-cycles divide into issuing and the reasons for waiting."""
    bars = [
        f"<div>{page_text(k.name)}</div>{stack(k.stalls, max(1, k.resident_warp_cycles))}"
        for k in kernels[:MOST_LISTED]
    ]
    return f'<div class="bars">{"".join(bars)}</div>{legend(k.stalls for k in kernels)}'


def source_section(kernel: KernelTiming, view: SourceView) -> str:
    """Return the source with counters beside each line, among them a bar of what warps did there."""
    most = max((row.get("cycles", 0) for row in view.rows()), default=0) or 1

    def bar(row: dict[str, Any]) -> str:
        return stack(row.get("stalls", {}), most, small=True)

    title = f"<p>{page_text(view.title)}</p>"
    return f'{title}<div class="scroll">{view.html_table(bar)}</div>{legend([kernel.stalls])}'


def metric_section(kernel: KernelTiming) -> str:
    """Return the kernel's figures under Nsight Compute's names, with what each means."""
    rows = [(name, str(metric), metric.meaning) for name, metric in kernel.metrics().items()]
    return table(("metric", "value", "what it is"), rows, ("code", "number", ""))


def text_list(lines: Sequence[str]) -> str:
    """Return lines as a list.

    >>> text_list(["a < b"])
    '<ul><li>a &lt; b</li></ul>'
    """
    items = "".join(f"<li>{page_text(line)}</li>" for line in lines[:MOST_LISTED])
    return f"<ul>{items}</ul>" + _left_out(len(lines), "lines")

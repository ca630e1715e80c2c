"""The report: one HTML file that tells what a run did, opens without a network and holds its own scripts."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from os import PathLike
from typing import TYPE_CHECKING

from gpusim_des.advice.advice import plural
from gpusim_des.page_text import isolated, page_text
from gpusim_des.report.colors import color_legend
from gpusim_des.report.encode import encoded
from gpusim_des.report.rows import rows
from gpusim_des.report.sections import kernel_table, metric_section, source_section, stall_section, text_list
from gpusim_des.report.thin import MOST_ROWS, MOST_SPANS, thinned
from gpusim_des.timeline import FS_PER_S, KernelTiming, Timeline
from gpusim_des.units import duration
from gpusim_des.whole_file import whole_file

if TYPE_CHECKING:
    from gpusim_des.simulation import Simulation

MOST_DETAILED = 20
"""Kernels whose source and metrics are on the page."""

MOST_BYTES = 4_000_000
"""Bytes of the timeline's bars; the rest of a page takes some hundred thousand."""

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
"""The page asks for nothing from anywhere, and the browser sees to it."""

_TOOLS = """<div id="tools"><button id="in">zoom in</button><button id="out">zoom out</button>
<button id="fit">all</button><button id="open">open all rows</button><button id="close">close all rows</button>
<span id="shown"></span><span class="soft">Ctrl + wheel zooms, drag moves, a double click zooms to a bar,
a click on a group opens or closes it; keys w s a d, 0</span></div>"""

_TIMELINE = """<div id="timeline"><canvas tabindex="0" role="img" aria-label="Timeline of the run"></canvas>
<div></div></div>
<div id="tip" role="tooltip"></div>"""


def save_html(
    sim: Simulation, path: str | PathLike[str], *, most_spans: int = MOST_SPANS, most_rows: int = MOST_ROWS
) -> None:
    """Write `report_page` to `path`; the file appears whole or not at all. Parameters and errors are the same.

    Raises
    ------
    FileNotFoundError
        If the folder does not exist.
    """
    page = report_page(sim, most_spans=most_spans, most_rows=most_rows)
    with whole_file(path) as draft:
        # Half a surrogate pair, which a name from elsewhere may hold, is the one thing that UTF-8 cannot write.
        draft.write_bytes(page.encode("utf-8", "replace"))


def report_page(sim: Simulation, *, most_spans: int = MOST_SPANS, most_rows: int = MOST_ROWS) -> str:
    """Return a run's report as one HTML page.

    Parameters
    ----------
    sim
        What ``simulate()`` returned. Block slots need ``detail="sm"``, warps ``detail="warp"``.
    most_spans, most_rows
        Most bars and rows of the timeline. A run with more has its neighbours drawn as one, and the page says so.

    Raises
    ------
    ValueError
        If `most_rows` is not positive, or there are fewer than two bars for each row.
    """
    if most_rows < 1 or most_spans < 2 * most_rows:
        raise ValueError(
            f"most_spans = {most_spans}, most_rows = {most_rows}: pass at least one row and two bars for each"
        )
    record = sim.timeline
    legend, spans, notices = _timeline(record, most_spans, most_rows)
    drawn = f"{_TOOLS}{legend}{_TIMELINE}" if spans else "<p>Nothing ran.</p>"
    if not record.complete:
        notices.insert(0, "The simulation was stopped: this is what had happened until then.")
    title = f"{_names(sim.kernels)} on {record.gpu_name}"
    parts = [
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{escape(isolated(title))}</title>',
        '<meta name="viewport" content="width=device-width">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        f"<style>{_text('report.css')}</style></head><body>",
        f"<h1>{page_text(title)}</h1><p>{_summary(sim)}</p>",
        *(f'<p class="notice">{page_text(notice)}</p>' for notice in notices),
    ]
    sections = [("Timeline", drawn), *_about_kernels(sim)]
    for heading, body in sections:
        parts.append(f"<section><h2>{heading}</h2>{body}</section>")
    if spans:
        parts.append(f'<script type="application/json" id="spans">{spans}</script>')
        parts.append(f"<script>{_text('timeline.js')}</script>")
    return "\n".join([*parts, "</body></html>"])


def _timeline(record: Timeline, most_spans: int, most_rows: int) -> tuple[str, str, list[str]]:
    """Legend, bars as JSON (empty if there are none), and notices; names that differ in every bar leave less room."""
    all_rows = rows(record)
    while True:
        shown, notices = thinned(all_rows, most_spans, most_rows)
        text = encoded(shown, end_fs=record.end_fs, period_fs=record.sm_period_fs)
        if len(text) <= MOST_BYTES or most_spans < 4 * most_rows:
            return color_legend(shown), text if shown else "", notices
        most_spans //= 2


def _about_kernels(sim: Simulation) -> list[tuple[str, str]]:
    found = [("What limits it", text_list(sim.explain().split("\n")))]
    advice = [f"{a.kernel}: {a}" if a.kernel else str(a) for a in sim.advice()]
    if advice:
        found.append(("Advice, worst first", text_list(advice)))
    if not sim.kernels:
        return found
    found.append(("Where the warps’ time went", stall_section(sim.kernels)))
    found.append(("Kernels", kernel_table(sim.kernels)))
    detailed = _longest(sim.kernels)
    note = ""
    if len(detailed) < len(sim.kernels):
        note = '<p class="soft">Of launches of one kernel the longest is shown'
        note += f", and of the kernels the {MOST_DETAILED} longest.</p>" if len(detailed) == MOST_DETAILED else ".</p>"
    for heading, section in (("Source", _source), ("Metrics", _metrics)):
        texts = []
        for place, number in enumerate(detailed):
            k = sim.kernels[number]
            head = f"{page_text(k.name)}, {duration(k.seconds)}"
            opened = " open" if not place else ""
            texts.append(f"<details{opened}><summary>{head}</summary>{section(sim, number)}</details>")
        found.append((heading, note + "".join(texts)))
    return found


def _source(sim: Simulation, kernel: int) -> str:
    return source_section(sim.kernels[kernel], sim.source(kernel))


def _metrics(sim: Simulation, kernel: int) -> str:
    return metric_section(sim.kernels[kernel])


def _longest(kernels: tuple[KernelTiming, ...]) -> list[int]:
    """Numbers of the longest launch of each kernel, longest first."""
    best: dict[str, int] = {}
    for number, k in enumerate(kernels):
        if k.name not in best or k.seconds > kernels[best[k.name]].seconds:
            best[k.name] = number
    return sorted(best.values(), key=lambda number: (-kernels[number].seconds, number))[:MOST_DETAILED]


def _names(kernels: tuple[KernelTiming, ...]) -> str:
    names = list(dict.fromkeys(k.name for k in kernels))
    if not names:
        return "A run without kernels"
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _summary(sim: Simulation) -> str:
    record = sim.timeline
    said = [
        f"{duration(sim.seconds)} in all",
        plural(len(sim.kernels), "kernel"),
        "1 copy" if len(sim.copies) == 1 else f"{len(sim.copies):,} copies",
        f"{plural(record.sms, 'SM')} at {FS_PER_S / record.sm_period_fs / 1e9:.4g} GHz",
        f"engine {sim.engine}",
    ]
    return page_text(" · ".join(said))


def _text(name: str) -> str:
    return files("gpusim_des.report").joinpath(name).read_text(encoding="utf-8")

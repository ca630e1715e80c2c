"""Stacked bars of warp states: where the time of source lines went, and what differs between two runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gpusim_des.line_site import LineSite
from gpusim_des.timeline import HasTimeline, KernelTiming, Timeline, WarpState
from gpusim_des.units import duration, size
from gpusim_des.views import figure, palette

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_LINES = 14
"""Source lines in a figure; the others are added up in one bar."""

LONGEST_TEXT = 60
"""Characters of a source line that are shown."""


def line_stalls(
    sim: HasTimeline | Timeline, *, ax: Axes | None = None, kernel: int | str | None = None, most: int = MOST_LINES
) -> Axes:
    """Draw for each source line of a kernel what its warps did there and what they waited for, in warp-cycles.

    A warp's cycles belong to the line of the instruction that it issues next. Lines stand in the order of the source;
    those that took least are added up in the last bar. The text stands beside the number if `sim` is a simulation.

    Parameters
    ----------
    sim
        What ``simulate()`` returned, or its timeline; any ``detail`` will do.
    ax
        Axes to draw on. Without it a new figure is made, unknown to pyplot; save it with ``ax.figure.savefig(…)``.
    kernel
        Number or name of the kernel; the first launch of a name. Without it the one that took longest.
    most
        Most lines to show.

    Raises
    ------
    ValueError
        If no kernel ran, or no such kernel, or `most` is not positive.
    """
    if most < 1:
        raise ValueError(f"most = {most}: must be at least 1; leave it out for {MOST_LINES}")
    record = figure.timeline_of(sim)
    shown = figure.kernels_shown(record, kernel)
    number = shown[0] if kernel is not None else max(shown, key=lambda k: record.kernels[k].seconds)
    timing = record.kernels[number]
    totals = {site: sum(states.values()) for site, states in timing.line_stalls.items() if any(states.values())}
    kept = sorted(sorted(totals, key=lambda site: -totals[site])[:most], key=lambda site: (not site.line, site))
    rest = [site for site in totals if site not in kept]
    bars: list[Mapping[str, int]] = [timing.line_stalls[site] for site in kept]
    labels = _labels(kept, _texts(sim, number))
    if rest:
        bars.append(_added([timing.line_stalls[site] for site in rest]))
        labels.append(f"{len(rest)} other line{'s' * (len(rest) > 1)}")
    ax = _draw(ax, bars, labels, {})
    for text in ax.get_yticklabels():
        text.set_fontfamily("monospace")
        text.set_fontsize("small")
    ax.set_title(f"Where the time of each line went: {figure.where(record, [number])}")
    return ax


def compare_runs(
    before: HasTimeline | Timeline,
    after: HasTimeline | Timeline,
    *,
    ax: Axes | None = None,
    kernel: int | str | None = None,
    labels: tuple[str, str] = ("A", "B"),
) -> Axes:
    """Draw two runs below each other: their kernel times on one scale, divided by state, with counters.

    A bar is as long as the run's kernels took; each state has the share that it has of the warp-cycles. The legend says
    how much longer or shorter each part became: together that is the difference of the times.

    Parameters
    ----------
    before, after
        What ``simulate()`` returned, or timelines.
    ax
        Axes to draw on. Without it a new figure is made, unknown to pyplot; save it with ``ax.figure.savefig(…)``.
    kernel
        Number or name of the only kernel to compare, in both runs. All kernels without it.
    labels
        Names of the runs.

    Raises
    ------
    ValueError
        If a run has no kernel, or no such kernel.
    """
    runs = [figure.timeline_of(before), figure.timeline_of(after)]
    chosen = [[run.kernels[k] for k in figure.kernels_shown(run, kernel)] for run in runs]
    seconds = [sum(k.seconds for k in kernels) for kernels in chosen]
    bars = [
        _microseconds(_added([k.stalls for k in kernels]), time) for kernels, time in zip(chosen, seconds, strict=True)
    ]
    names = [
        f"{figure.plain(label)}\n{_counters(kernels, time)}"
        for label, kernels, time in zip(labels, chosen, seconds, strict=True)
    ]
    changes = {
        state.suffix: _change(bars[0].get(state.suffix, 0.0), bars[1].get(state.suffix, 0.0)) for state in WarpState
    }
    ax = _draw(ax, bars, names, changes)
    ax.set_xlabel("kernel time (µs), divided as the warp-cycles are")
    ax.xaxis.set_major_formatter("{x:,.4g}")
    of = f" of {figure.plain(kernel)}" if isinstance(kernel, str) else ""
    ratio = f"{seconds[1] / seconds[0]:.3g} times" if seconds[0] else "not comparable to"
    ax.set_title(f"{figure.plain(labels[1])} takes {ratio} the kernel time{of} of {figure.plain(labels[0])}")
    return ax


def _labels(sites: Sequence[LineSite], texts: Mapping[LineSite, str]) -> list[str]:
    """Text and number of every line; with its file where there are several."""
    several = len({site.filename for site in sites if site.line}) > 1

    def label(site: LineSite) -> str:
        place = f"{figure.plain(Path(site.filename).name)}:{site.line}" if several else f"{site.line}"
        return f"{texts.get(site, '')}  {place}".strip() if site.line else "no line"

    return [label(site) for site in sites]


def _texts(sim: object, number: int) -> dict[LineSite, str]:
    """Texts of a kernel's lines, where `sim` knows its source."""
    source = getattr(sim, "source", None)
    if source is None:
        return {}
    rows = [row for row in source(number).rows() if row["line"]]
    indent = min((len(r["text"]) - len(r["text"].lstrip()) for r in rows if r["text"].strip()), default=0)
    return {LineSite(row["file"], row["line"]): _short(row["text"][indent:].rstrip()) for row in rows}


def _short(text: str) -> str:
    cut = text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…"
    return cut.replace("$", r"\$")


def _added(parts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    whole: Counter[str] = Counter()
    for part in parts:
        whole.update(part)
    return dict(whole)


def _microseconds(stalls: Mapping[str, int], seconds: float) -> dict[str, float]:
    """Parts of a time, in proportion to warp-cycles."""
    whole = sum(stalls.values())
    return {state: 1e6 * seconds * cycles / whole for state, cycles in stalls.items() if cycles}


def _change(before: float, after: float) -> str:
    return f"{after - before:+,.3g} µs" if after != before else "same"


def _counters(kernels: Sequence[KernelTiming], seconds: float) -> str:
    instructions = sum(k.warp_instructions for k in kernels)
    resident = sum(k.resident_warp_cycles for k in kernels)
    active = sum(k.achieved_occupancy * k.sm_active_cycles for k in kernels)
    cycles = sum(k.sm_active_cycles for k in kernels)
    return "\n".join(
        [
            f"{duration(seconds)}, {instructions:,} instructions",
            f"{resident / instructions if instructions else 0:.3g} warp-cycles each",
            f"{size(sum(k.dram_bytes for k in kernels))} of DRAM",
            f"occupancy {active / cycles if cycles else 0:.0%}",
        ]
    )


def _draw(
    ax: Axes | None, bars: Sequence[Mapping[str, float]], labels: Sequence[str], notes: Mapping[str, str]
) -> Axes:
    """Draw stacks, of warp-cycles if nobody says else, with a legend; `notes` are added to the states' names."""
    states = [s for s in WarpState if any(bar.get(s.suffix, 0) for bar in bars)]
    room = 0.95 if notes else 0.36
    ax = figure.new_axes(ax, 11.0, figure.height(len(bars), row=room, entries=len(states) + 1))
    left = [0.0] * len(bars)
    for state in states:
        style = palette.STATE_STYLES[state]
        widths = [float(bar.get(state.suffix, 0)) for bar in bars]
        ax.barh(
            range(len(bars)),
            widths,
            left=left,
            height=0.66,
            color=style.color,
            hatch=style.hatch,
            edgecolor=palette.HATCH_COLOR if style.hatch else style.color,
            linewidth=0.0,
            label=f"{state.suffix}  {notes[state.suffix]}" if notes else state.suffix,
        )
        left = [a + b for a, b in zip(left, widths, strict=True)]
    ax.set_yticks(range(len(bars)), labels)
    ax.set_ylim(len(bars) - 0.5, -0.5)
    ax.set_xlim(0.0, max(left) or 1.0)
    ax.set_xlabel("resident warp-cycles")
    ax.xaxis.set_major_formatter("{x:,.0f}")
    figure.open_frame(ax)
    figure.outside_legend(ax, list(ax.containers), title="state of the warp")  # type: ignore[arg-type]
    return ax

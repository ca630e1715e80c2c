"""All that can be seen of a run, in one folder: figures, the page, the trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpusim_des.analytic import roofs
from gpusim_des.report.page import save_html
from gpusim_des.views import (
    active_warps,
    bandwidth,
    issue_utilization,
    kernel_roofline,
    line_stalls,
    roofline_points,
    save,
    save_chrome_trace,
    stalls,
    stream_timeline,
    timeline,
    warp_timeline,
)
from gpusim_des.views.quantities import bandwidths

if TYPE_CHECKING:
    from gpusim_des.simulation import Simulation

MOST_WARPS = 32
"""Warps in the figure of the first SM."""


def save_report(sim: Simulation, folder: str | PathLike[str]) -> list[Path]:
    """Write every figure that the run has data for, its page and its trace; return the files.

    Raises
    ------
    NotADirectoryError
        If `folder` is the name of a file, or lies in one.
    PermissionError
        If it cannot be created, or not be written to.
    """
    target = Path(folder)
    try:
        target.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise NotADirectoryError(
            f"cannot write a report to {target}: it is a file, or lies in one; name another folder"
        ) from None
    written = []
    for name, draw in _figures(sim):
        save(draw(), target / f"{name}.png")
        written.append(target / f"{name}.png")
    save_html(sim, target / "report.html")
    save_chrome_trace(sim, target / "trace.json.gz")
    return [*written, target / "report.html", target / "trace.json.gz"]


def _figures(sim: Simulation) -> Iterator[tuple[str, Callable[[], Any]]]:
    """File name and drawing function of each figure that this run has data for."""
    record = sim.timeline
    if record.operations:
        yield "streams", partial(stream_timeline, sim)
    if bandwidths(record):
        yield "bandwidth", partial(bandwidth, sim)
    if not record.kernels:
        return
    yield "stalls", partial(stalls, sim)
    if any(kernel.line_stalls for kernel in record.kernels):
        yield "line_stalls", partial(line_stalls, sim)
    gpu = next((launch.gpu for launch in sim.launches if launch.gpu is not None), None)
    if gpu is not None and roofline_points(record, roofs(gpu)):
        yield "roofline", partial(kernel_roofline, sim, gpu)
    if record.blocks:
        yield "blocks", partial(timeline, sim)
    if record.blocks or record.warps:
        yield "active_warps", partial(active_warps, sim)
    if record.warps:
        yield "issue_utilization", partial(issue_utilization, sim)
        first = min(warp.sm for warp in record.warps)
        shown = sum(warp.sm == first for warp in record.warps)
        yield "warps", partial(warp_timeline, sim, warps=min(MOST_WARPS, shown))

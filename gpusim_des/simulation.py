"""The result of a simulation, as a user holds it."""

from __future__ import annotations

from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, get_args

from gpusim_des.advice import Advice, program_advice
from gpusim_des.errors import ReadError
from gpusim_des.functional.counters import Counters
from gpusim_des.functional.source_text import SourceSpan, texts_of
from gpusim_des.launched import Launch
from gpusim_des.notebook import facts_table, paragraphs, rows_table
from gpusim_des.results import (
    FORMAT,
    LARGEST_FILE,
    VERSION,
    LaunchNotes,
    Row,
    RowKind,
    check_document,
    check_timeline,
    counters_from_plain,
    counters_to_plain,
    from_plain,
    load_document,
    notes_from_plain,
    notes_to_plain,
    rows_of,
    save_document,
    to_plain,
)
from gpusim_des.source_view import SourceView, counted_sites
from gpusim_des.timeline import FS_PER_S, KernelTiming, Operation, Overlap, Timeline, WaitStep, overlap, why
from gpusim_des.timing.choice import Played
from gpusim_des.units import duration, size

MOST_SHOWN = 20
"""Kernels, and sentences about them, that a notebook shows."""


@dataclass(frozen=True)
class Simulation:
    """What a device was asked to do, in simulated time.

    Attributes
    ----------
    timeline
        Who did what when (contract 2); views read it.
    engine
        The engine that ran: ``"simpy"`` or ``"compiled"``.
    launches
        The launches of its kernels, by their numbers; empty where traces were played without a device, and in a loaded
        result.
    counters
        What these launches counted; in a loaded result as well.
    notes
        What a loaded result knows of its launches beside that: the source of the kernels, and the advice.
    """

    timeline: Timeline
    engine: str
    launches: tuple[Launch, ...] = field(default=(), compare=False, repr=False)
    counters: tuple[Counters, ...] = field(default=(), compare=False, repr=False)
    notes: LaunchNotes | None = field(default=None, compare=False, repr=False)

    @property
    def seconds(self) -> float:
        """End of the last kernel, copy or call of the host, in seconds from the first call."""
        return self.timeline.end_fs / FS_PER_S

    @property
    def kernels(self) -> tuple[KernelTiming, ...]:
        """One record per kernel, in the order of the launches."""
        return self.timeline.kernels

    @property
    def copies(self) -> tuple[Operation, ...]:
        """Copies between host and device and within the device, in the order of the calls."""
        return self.timeline.copies

    def explain(self) -> str:
        """Say for every kernel what limits it, whether its main stall is hidden, and what to try next.

        Kernels of which the same is to be said share a line.
        """
        said: dict[tuple[str, str], int] = {}
        for k in self.kernels:
            what = k.name, k.explain()
            said[what] = said.get(what, 0) + 1
        if not said:
            return "No kernel ran; what copies and the host did, overlap() and views.stream_timeline tell."
        return "\n".join(f"{n} × {name}: {text}" if n > 1 else f"{name}: {text}" for (name, text), n in said.items())

    def overlap(self) -> Overlap:
        """Tell how much of the copies and kernels ran at once, what that gained, and what prevented more."""
        return overlap(self.timeline)

    def why(self, warp: int, cycle: int, *, block: int = 0, kernel: int = 0) -> list[WaitStep]:
        """Follow the wait of a warp in a cycle backwards to its causes; needs ``detail="warp"``.

        See `gpusim_des.timeline.why`, which also says what is raised.
        """
        return why(self.timeline, warp, cycle, block=block, kernel=kernel)

    def advice(self) -> list[Advice]:
        """Find what costs the program time, worst first; shares are of the whole program.

        Beside what `Launch.advice` finds in each kernel, weighted with the kernel's time, it finds what only times
        tell: occupancy that registers or shared memory keep low where latency is not hidden, programs bound by
        launches, copies of pageable memory that were meant to be asynchronous, overlap that could not happen and why,
        and a host that goes on working without waiting for the device. Printed, each is one line. A loaded result has
        the advice that it was saved with.
        """
        if self.notes is not None:
            return list(self.notes.advice)
        return program_advice(self.timeline, [None if launch.gpu is None else launch.facts for launch in self.launches])

    def source(self, kernel: int = 0) -> SourceView:
        """Return a kernel's source with, beside each line, what its warps did there and what they waited for.

        A warp's cycles belong to the line of the instruction that it issues next; after the last one, to that one's.
        All states together add up to the kernel's ``resident_warp_cycles``, those of one state to its ``stalls``.

        Parameters
        ----------
        kernel
            Position among `kernels`.

        Raises
        ------
        IndexError
            If there is no such kernel.
        """
        if not -len(self.kernels) <= kernel < len(self.kernels):
            raise IndexError(f"kernel = {kernel}: this simulation has {len(self.kernels)} kernels, counted from 0")
        timing = self.kernels[kernel]
        if timing.number >= len(self.counters):
            return SourceView.of(timing.name, None, Counters(), timing.line_stalls)
        texts = None if self.notes is None else self.notes.texts
        counters = self.counters[timing.number]
        return SourceView.of(timing.name, self._spans()[timing.number], counters, timing.line_stalls, texts)

    def _spans(self) -> tuple[SourceSpan | None, ...]:
        """Where the kernel of each launch that counted stands."""
        if self.notes is not None:
            return self.notes.spans
        unknown = [None] * (len(self.counters) - len(self.launches))
        return (*(launch.span for launch in self.launches), *unknown)

    def _repr_html_(self) -> str:
        """Notebooks show what ran and what limits it."""
        record = self.timeline
        facts = [
            ("time", duration(self.seconds)),
            ("kernels", f"{len(self.kernels):,}"),
            ("copies", f"{len(self.copies):,}, {size(sum(c.nbytes for c in self.copies))}"),
            ("engine", self.engine),
        ]
        heads = ("kernel", "start", "duration", "cycles", "achieved occupancy", "main stall")
        rows = [
            (
                k.name,
                duration(k.start_s),
                duration(k.seconds),
                f"{k.cycles:,}",
                f"{k.achieved_occupancy:.1%}",
                k.main_stall,
            )
            for k in self.kernels[:MOST_SHOWN]
        ]
        notes = self.explain().split("\n")[:MOST_SHOWN]
        if len(self.kernels) > MOST_SHOWN:
            notes.insert(0, f"The first {MOST_SHOWN} of {len(self.kernels):,} kernels are shown.")
        if not record.complete:
            notes.insert(0, "The simulation was stopped: this is what had happened until then.")
        table = rows_table(heads, rows) if rows else ""
        return facts_table(f"Simulation on {record.gpu_name}", facts) + table + paragraphs(notes)

    def save_trace(self, path: str | PathLike[str], *, max_events: int = 1_000_000) -> None:
        """Write a trace: a Chrome trace, which opens in Perfetto, speedscope and chrome://tracing.

        Names that end in ``.pftrace`` or ``.perfetto-trace`` get Perfetto's own format, in which rows keep their order;
        a name ending in ``.gz`` is compressed. The file appears whole or not at all.

        Parameters
        ----------
        path
            Name of the file.
        max_events
            Most slices and values of counters in it. If there are more, rows are left out for the whole run, the
            finest first: warps of some SMs, then all warps, then blocks. The trace says which.

        Raises
        ------
        ValueError
            If `max_events` is not positive.
        FileNotFoundError
            If the folder does not exist.
        """
        from gpusim_des.views import save_trace  # noqa: PLC0415 - views load only when something is drawn

        save_trace(self, path, max_events=max_events)

    def save_html(self, path: str | PathLike[str]) -> None:
        """Write a report as one HTML file, which opens in any browser without a network.

        It holds the timeline from the host's calls down to warps (blocks need ``detail="sm"``, warps
        ``detail="warp"``), what warps waited for, the source with counters beside each line, Nsight Compute's metrics
        with their meaning, `explain` and `advice`. It stays below 5 MB: where a run has too many bars, neighbours are
        drawn as one and the page says so. The file appears whole or not at all.

        Raises
        ------
        FileNotFoundError
            If the folder does not exist.
        """
        from gpusim_des.report import save_html  # noqa: PLC0415 - pages load only when one is written

        save_html(self, path)

    def report(self, folder: str | PathLike[str]) -> list[Path]:
        """Write all that can be seen of the run into a folder, which is created: figures, page and trace.

        The figures are those that the run has data for: ``streams.png``, ``bandwidth.png``, ``stalls.png``,
        ``line_stalls.png``, ``roofline.png``; with ``detail="sm"`` ``blocks.png`` and ``active_warps.png``; with
        ``detail="warp"`` ``issue_utilization.png`` and ``warps.png``. Beside them stand ``report.html`` and
        ``trace.json.gz``.

        Returns
        -------
        list of Path
            The files, in the order of writing. Each appears whole or not at all.

        Raises
        ------
        NotADirectoryError
            If `folder` is the name of a file, or lies in one.
        PermissionError
            If it cannot be created, or not be written to.
        """
        from gpusim_des.report import save_report  # noqa: PLC0415 - views load only when something is drawn

        return save_report(self, folder)

    # Results as data ------------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data that JSON can hold; `from_dict` makes a simulation of it again.

        Raises
        ------
        ReadError
            For numbers that JSON does not have; no simulation has any.
        """
        return {"format": FORMAT, "version": VERSION, **self._content()}

    def _content(self) -> dict[str, Any]:
        return {
            "engine": self.engine,
            "timeline": to_plain(self.timeline, Timeline),
            "counters": [counters_to_plain(c) for c in self.counters],
            "launches": notes_to_plain(self._notes()),
        }

    def _notes(self) -> LaunchNotes:
        if self.notes is not None:
            return self.notes
        spans = self._spans()
        sites = set().union(*map(counted_sites, self.counters), *(kernel.line_stalls for kernel in self.kernels))
        return LaunchNotes(spans, texts_of([span for span in spans if span], sites), tuple(self.advice()))

    @staticmethod
    def from_dict(data: dict[str, Any], name: str = "result") -> Simulation:
        """Make a simulation of what `to_dict` returned; `name` stands in messages.

        Raises
        ------
        ReadError
            If the data are of another kind, of a newer version, or contradict themselves.
        """
        return _of_content(check_document(data, name), name)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the result as JSON, compressed if the name ends in ``.gz``; `load_result` reads it.

        All methods, views and pages say of the loaded result what they say of this one; the lines of the kernels and
        the advice are in the file. It appears whole or not at all.

        Raises
        ------
        FileNotFoundError
            If the folder does not exist.
        """
        save_document(self._content(), path)

    def to_rows(self, kind: RowKind = "kernels") -> list[Row]:
        """Return rows for pandas or polars: dictionaries that all have the same keys.

        ``"kernels"`` (figures, stalls as ``stall_…`` in warp-cycles, counters as ``counted_…``), ``"operations"``
        (kernels and copies in their streams), ``"blocks"`` (with ``detail="sm"``) or ``"host"`` (calls). Units stand in
        the names: ``_fs`` is femtoseconds.

        Raises
        ------
        ValueError
            For another kind.
        """
        return rows_of(self.timeline, kind, self.counters)


def load_result(path: str | PathLike[str], *, max_bytes: int = LARGEST_FILE) -> Simulation:
    """Read a result that `Simulation.save` wrote.

    Parameters
    ----------
    path
        The file, compressed or not.
    max_bytes
        Most bytes of JSON to read; a small compressed file can hold a very large one.

    Raises
    ------
    ReadError
        If the file is no result, was cut off, is of a newer version, too large, or contradicts itself.
    FileNotFoundError
        If there is no such file.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import gpusim_des as gs
    >>> @gs.block_kernel
    ... def halve(blk, a):
    ...     blk.store(a, blk.tx, blk.load(a, blk.tx) * np.float32(0.5))
    >>> dev = gs.Device("tiny")
    >>> launch = dev.launch(halve, 1, 32, dev.to_device(np.ones(32, np.float32)))
    >>> sim = dev.simulate()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sim.save(f"{folder}/run.json.gz")
    ...     gs.load_result(f"{folder}/run.json.gz") == sim
    True
    """
    return _of_content(load_document(path, max_bytes=max_bytes), str(path))


ENTRIES = ("engine", "timeline", "counters", "launches")
"""What a result file holds beside its format and version."""


def _of_content(content: dict[str, Any], name: str) -> Simulation:
    for key in content:
        if key not in ENTRIES:
            raise ReadError(
                f"{name}: unknown entry {ascii(key)[:40]}: a newer gpusim_des wrote it, or it was edited by "
                "hand; install the newer one"
            )
    for key in ENTRIES:
        if key not in content:
            raise ReadError(f"{name}: no entry {key!r}: it was cut or edited; save the result again")
    if content["engine"] not in get_args(Played):
        raise ReadError(f"{name}: engine = {ascii(content['engine'])[:40]}: must be 'simpy' or 'compiled'")
    timeline: Timeline = from_plain(content["timeline"], Timeline, f"{name}: timeline")
    check_timeline(timeline, f"{name}: timeline")
    counters = content["counters"]
    if not isinstance(counters, list):
        raise ReadError(f"{name}: counters = {ascii(counters)[:40]}: must be a list with an entry for each launch")
    read = tuple(counters_from_plain(c, f"{name}: counters[{n}]") for n, c in enumerate(counters))
    notes = notes_from_plain(content["launches"], len(read), f"{name}: launches")
    return Simulation(timeline, content["engine"], counters=read, notes=notes)

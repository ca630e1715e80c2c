"""A finished launch, as a user holds it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gpusim_des.advice import Advice, KernelFacts, launch_advice
from gpusim_des.errors import BarrierWarning, IndexOverflowWarning, RaceWarning, UnwrittenReadWarning
from gpusim_des.functional.barriers import LeftBeforeBarrier
from gpusim_des.functional.block_kernel import KernelFunction
from gpusim_des.functional.counters import Counters
from gpusim_des.functional.overflow import IndexOverflow
from gpusim_des.functional.races import Race
from gpusim_des.functional.source_text import SourceSpan, span_of
from gpusim_des.functional.unwritten import UnwrittenRead
from gpusim_des.gpu import GPU
from gpusim_des.grid import LaunchConfig
from gpusim_des.notebook import facts_table
from gpusim_des.results import counters_to_plain
from gpusim_des.source_view import SourceView
from gpusim_des.trace import KernelTrace, Sample
from gpusim_des.units import size

Mistake = Race | LeftBeforeBarrier | IndexOverflow | UnwrittenRead

_KINDS: dict[type[Mistake], tuple[str, type[Warning]]] = {
    Race: ("races", RaceWarning),
    LeftBeforeBarrier: ("left_before_barriers", BarrierWarning),
    IndexOverflow: ("index_overflows", IndexOverflowWarning),
    UnwrittenRead: ("unwritten_reads", UnwrittenReadWarning),
}
"""Where a launch keeps reports, and how it warns of them."""


@dataclass(frozen=True)
class Launch:
    """One finished launch: its results are in device memory, its time is found by `Device.simulate`."""

    name: str
    config: LaunchConfig
    counters: Counters
    trace: KernelTrace
    vectorized: bool = True
    """Many threads ran at once; false for a thread kernel that had to run thread by thread."""
    captured: bool = False
    """The launch went into a graph and has not run: counters and trace are empty. `Graph.launch` returns full ones."""
    incomplete: tuple[str, ...] = ()
    """Arrays that are poison where a sample left out what the kernel would have written."""
    unsampled: str = ""
    """Why all blocks were executed, although a sample was asked for."""
    races: tuple[Race, ...] = ()
    """Races between threads that were found, the worst first; `Device.launch` says where it looks for them."""
    unwritten_reads: tuple[UnwrittenRead, ...] = ()
    """Places in the kernel that read elements which nobody had written."""

    left_before_barriers: tuple[LeftBeforeBarrier, ...] = ()
    """Barriers that threads reach although others of their block have left the kernel."""

    index_overflows: tuple[IndexOverflow, ...] = ()
    """Accesses with an index that was computed in 32 bits and did not fit."""

    unreported: dict[str, int] = field(default_factory=dict)
    """How often ``races``, ``unwritten_reads`` and so on happened at places of which no report was kept, where there
    were any: 100 reports of each are, the worst. Races of equal values are not in it."""

    @property
    def mistakes(self) -> tuple[Mistake, ...]:
        """Everything in the kernel that a GPU would not tell and may compute wrongly, the worst first.

        Races in which all write the same value come last, in `races` only: they are against the rules, and harmless.
        """
        return (
            *(race for race in self.races if not race.equal_values),
            *self.left_before_barriers,
            *self.index_overflows,
            *self.unwritten_reads,
        )

    @property
    def warnings(self) -> tuple[tuple[str, type[Warning]], ...]:
        """What the launch warns of: the worst mistake of each kind, how many more there are, and how often."""
        kinds: dict[tuple[str, type[Warning]], list[Mistake]] = {}
        for mistake in self.mistakes:
            kinds.setdefault(_KINDS[type(mistake)], []).append(mistake)
        return tuple(
            (
                f"kernel {self.name!r}: {found[0]}"
                + (f"\nand {len(found) - 1} more in launch.mistakes" * (len(found) > 1))
                + self._without_report(name),
                kind,
            )
            for (name, kind), found in kinds.items()
        )

    def _without_report(self, kind: str) -> str:
        count = self.unreported.get(kind, 0)
        return f"\nand {count:,} more {kind.replace('_', ' ')} at places that are too many to report" if count else ""

    def __str__(self) -> str:
        """Say first what is wrong, the worst of it in the first line; of a kernel that is right, what makes it slow."""
        head = f"kernel {self.name!r}, grid {self.config.grid}, block {self.config.block}"
        unreported = (self._without_report(kind).strip() for kind in self.unreported)
        mistakes = [*map(str, self.mistakes), *unreported]
        parts = [*(mistakes or self._slow()), head, self.notice]
        return "\n".join(part for part in [*parts, self.counters.summary()] if part)

    def _slow(self) -> list[str]:
        found = [] if self.gpu is None else self.advice()
        more = f"and {len(found) - 1} more in launch.advice()"
        return [*map(str, found[:1]), *([more] if len(found) > 1 else [])]

    gpu: GPU | None = field(default=None, repr=False)
    """The GPU that it was launched on."""
    kernel: KernelFunction | None = field(default=None, repr=False)
    """The kernel."""
    array_types: frozenset[str] = field(default=frozenset(), repr=False)
    """Element types of the device arrays among its arguments."""

    def advice(self) -> list[Advice]:
        """Find what costs this launch time, worst first: counters alone tell; `Simulation.advice` knows times as well.

        Each `Advice` has the check's name, the source line and its text, the figure and the ideal, one remedy, and an
        estimated share of the time; printed it is one line.

        Examples
        --------
        >>> import numpy as np
        >>> import gpusim_des as gs
        >>> @gs.block_kernel
        ... def copy_column(blk, a, b):
        ...     i = blk.bx * blk.bdx + blk.tx
        ...     blk.store(b, i, blk.load(a, 1024 * (i % 1024)))
        >>> dev = gs.Device("tiny")
        >>> a, b = dev.to_device(np.zeros(1 << 20, np.float32)), dev.malloc(2048, np.float32)
        >>> first = dev.launch(copy_column, 8, 256, a, b).advice()[0]
        >>> first.check, first.figure, first.ideal
        ('uncoalesced', 32.0, 4.0)
        >>> print(first.finding)
        Load of a at line 4: 32 sectors per request (ideal 4); neighbouring lanes are 4,096 bytes apart
        """
        return launch_advice(self.facts)

    @property
    def facts(self) -> KernelFacts:
        """What advice is made from; raises `ValueError` for a launch that was made without a GPU."""
        if self.gpu is None:
            raise ValueError(f"launch of {self.name!r} without a GPU: advice needs one; launch it with Device.launch")
        return KernelFacts(
            self.name,
            self.config,
            self.counters,
            self.gpu,
            self.trace.registers,
            self.trace.shared_bytes,
            self.array_types,
            "" if self.kernel is None else self.kernel.function.__code__.co_filename,
        )

    def source(self) -> SourceView:
        """Return the kernel's source with what its warps did beside each line: print it, or take ``rows()``.

        Sums over the lines equal the launch's counters; of a sampled launch both are estimates, rounded by themselves.
        """
        return SourceView.of(self.name, self.span, self.counters)

    @property
    def span(self) -> SourceSpan | None:
        """Where the kernel stands; ``None`` for a launch that was made without one."""
        return None if self.kernel is None else span_of(self.kernel.function)

    def _repr_html_(self) -> str:
        """Notebooks show what was launched and what it counted."""
        c = self.counters
        facts = [
            ("grid × block", f"{self.config.grid} × {self.config.block}"),
            ("blocks", f"{self.config.blocks:,} of {self.config.warps_per_block:,} warps"),
            ("registers per thread", f"{self.trace.registers}"),
            ("shared memory per block", size(self.trace.shared_bytes)),
            ("warp instructions", f"{c.warp_instructions:,}"),
        ]
        if c.warp_instructions:
            facts.append(("active lanes, mean", f"{c.active_lanes / c.warp_instructions:.3g} of 32"))
        if c.global_load_requests:
            facts.append(("sectors per load request", f"{c.load_sectors_per_request:.3g}"))
        if c.global_store_requests:
            facts.append(("sectors per store request", f"{c.store_sectors_per_request:.3g}"))
        if c.shared_requests:
            facts.append(("wavefronts per shared request", f"{c.bank_conflict_factor:.3g}"))
        if c.branches:
            facts.append(("divergent branches", f"{c.divergent_branches:,} of {c.branches:,}"))
        title = f"{self.name}, launched" if self.gpu is None else f"{self.name}, launched on {self.gpu.title}"
        captured = "It went into a graph and has not run." if self.captured else ""
        return facts_table(title, facts, [note for note in (captured, self.notice) if note])

    def to_dict(self) -> dict[str, Any]:
        """Return the launch, what it counted and its mistakes as plain data that JSON can hold.

        Times are `Simulation.to_dict`'s. ``mistakes`` are those of `mistakes`, a dictionary for each.
        """
        return {
            "name": self.name,
            "grid": list(self.config.grid),
            "block": list(self.config.block),
            "registers": self.trace.registers,
            "shared_bytes": self.trace.shared_bytes,
            "vectorized": self.vectorized,
            "notice": self.notice,
            "counters": counters_to_plain(self.counters),
            "mistakes": [mistake.to_dict() for mistake in self.mistakes],
            "unreported": self.unreported,
        }

    @property
    def sample(self) -> Sample | None:
        """Which blocks were executed; ``None``: all of them."""
        return self.trace.sample

    @property
    def notice(self) -> str:
        """Say what is not exact about this launch; empty if all of it is, and no sample was asked for."""
        if self.unsampled:
            return f"all {self.config.blocks:,} blocks were executed: {self.unsampled}"
        if self.sample is None:
            return ""
        arrays = ", ".join(map(repr, self.incomplete))
        poison = f"; {arrays} {'are' if len(self.incomplete) > 1 else 'is'} poison where they were left out"
        return (
            f"{self.sample.executed:,} of {self.config.blocks:,} blocks were executed, the counters are estimates"
            f"{poison if arrays else ''}"
        )

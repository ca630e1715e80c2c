"""A finished launch, as a user holds it."""

from __future__ import annotations

from dataclasses import dataclass

from gpusim_des.errors import BarrierWarning, IndexOverflowWarning, RaceWarning, UnwrittenReadWarning
from gpusim_des.functional.barriers import LeftBeforeBarrier
from gpusim_des.functional.counters import Counters
from gpusim_des.functional.overflow import IndexOverflow
from gpusim_des.functional.races import Race
from gpusim_des.functional.unwritten import UnwrittenRead
from gpusim_des.grid import LaunchConfig
from gpusim_des.trace import KernelTrace, Sample

Mistake = Race | LeftBeforeBarrier | IndexOverflow | UnwrittenRead

_WARNINGS: dict[type[Mistake], type[Warning]] = {
    Race: RaceWarning,
    LeftBeforeBarrier: BarrierWarning,
    IndexOverflow: IndexOverflowWarning,
    UnwrittenRead: UnwrittenReadWarning,
}


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
        """What the launch warns of: the worst mistake of each kind, and how many more there are."""
        kinds: dict[type[Warning], list[Mistake]] = {}
        for mistake in self.mistakes:
            kinds.setdefault(_WARNINGS[type(mistake)], []).append(mistake)
        return tuple(
            (
                f"kernel {self.name!r}: {found[0]}"
                + (f"\nand {len(found) - 1} more in launch.mistakes" * (len(found) > 1)),
                kind,
            )
            for kind, found in kinds.items()
        )

    def __str__(self) -> str:
        head = f"kernel {self.name!r}, grid {self.config.grid}, block {self.config.block}"
        parts = [head, self.notice, *map(str, self.mistakes), self.counters.summary()]
        return "\n".join(part for part in parts if part)

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

"""The result of a simulation, as a user holds it."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike

from gpusim_des.timeline import FS_PER_S, KernelTiming, Timeline


@dataclass(frozen=True)
class Simulation:
    """What a device was asked to do, in simulated time.

    Attributes
    ----------
    timeline
        Who did what when (contract 2); views read it.
    engine
        The engine that ran: ``"simpy"``.
    """

    timeline: Timeline
    engine: str

    @property
    def seconds(self) -> float:
        """End of the last kernel, in seconds from the start of the first.

        Kernels follow each other without a gap: launch cost and copies are not simulated yet.
        """
        return self.timeline.end_fs / FS_PER_S

    @property
    def kernels(self) -> tuple[KernelTiming, ...]:
        """One record per kernel, in the order of the launches."""
        return self.timeline.kernels

    def save_trace(self, path: str | PathLike[str]) -> None:
        """Write a Chrome trace: opens in Perfetto and chrome://tracing; a name ending in .gz is compressed."""
        from gpusim_des.views import save_chrome_trace  # noqa: PLC0415 - views load only when something is drawn

        save_chrome_trace(self, path)

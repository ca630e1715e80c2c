"""The result of a simulation, as a user holds it."""

from __future__ import annotations

from dataclasses import dataclass, field
from os import PathLike

from gpusim_des.advice import Advice, program_advice
from gpusim_des.functional.counters import Counters
from gpusim_des.launched import Launch
from gpusim_des.source_view import SourceView
from gpusim_des.timeline import FS_PER_S, KernelTiming, Operation, Overlap, Timeline, WaitStep, overlap, why


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
        The launches of its kernels, by their numbers; empty where traces were played without a device.
    """

    timeline: Timeline
    engine: str
    launches: tuple[Launch, ...] = field(default=(), compare=False, repr=False)

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
        and a host that goes on working without waiting for the device. Printed, each is one line.
        """
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
        if timing.number >= len(self.launches):
            return SourceView.of(timing.name, None, Counters(), timing.line_stalls)
        launch = self.launches[timing.number]
        function = None if launch.kernel is None else launch.kernel.function
        return SourceView.of(timing.name, function, launch.counters, timing.line_stalls)

    def save_trace(self, path: str | PathLike[str]) -> None:
        """Write a Chrome trace: opens in Perfetto and chrome://tracing; a name ending in .gz is compressed."""
        from gpusim_des.views import save_chrome_trace  # noqa: PLC0415 - views load only when something is drawn

        save_chrome_trace(self, path)

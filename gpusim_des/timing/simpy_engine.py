"""Rule E1: the readable engine. It wires the components together and lets SimPy run them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NoReturn, TypeVar

from simpy import Event
from simpy.core import EmptySchedule

from gpusim_des.errors import CycleLimitError, DeadlockError, SimulationInterrupted
from gpusim_des.gpu import GPU
from gpusim_des.timeline import BlockSpan, Timeline, WarpHistory
from gpusim_des.timing.block_scheduler import BlockScheduler
from gpusim_des.timing.device_operations import DeviceOperations
from gpusim_des.timing.dma import DmaPort, MemoryTraffic, SlicePort
from gpusim_des.timing.host_thread import HostThread
from gpusim_des.timing.interrupt import interrupts_go_to
from gpusim_des.timing.kernel_run import KernelRun
from gpusim_des.timing.l1 import l1_lines
from gpusim_des.timing.memory_path import MemoryPath
from gpusim_des.timing.order import END_OF_TIME, LAST, Environment, Kind, Occurrence, end_of_time, order
from gpusim_des.timing.playable import refuse_unplayable
from gpusim_des.timing.probe import Detail, Probe
from gpusim_des.timing.resident_block import ResidentBlock
from gpusim_des.timing.sampled_run import SampledRun
from gpusim_des.timing.sm import StreamingMultiprocessor
from gpusim_des.timing.use import Use
from gpusim_des.timing.warp import Warp
from gpusim_des.trace import HostProgram, HostStream, KernelTrace, LaunchKernel, OpClass

Numbered = TypeVar("Numbered", BlockSpan, WarpHistory)

Progress = Callable[[str, int, int], None]
"""Hears the kernel's name, the blocks retired and the blocks in all."""


class SimpyEngine:
    """A GPU made of SimPy processes: SMs, their schedulers, HBM channels and the block scheduler."""

    def __init__(
        self,
        gpu: GPU,
        detail: Detail = "sm",
        progress: Progress | None = None,
        *,
        caches: bool = False,
        watch: Collection[int] | None = None,
        history: bool = False,
    ) -> None:
        self.env = Environment()
        self.gpu = gpu
        self.probe = Probe(detail, watch)
        self.memory = MemoryPath(self.env, gpu, caches=caches, history=history)
        self.block_scheduler = BlockScheduler(self.env, gpu, self._checkpoint)
        self.runs: list[KernelRun] = []
        """Kernels that have started, in the order of their starts."""
        self._stop = ""
        """Why the simulation is to end early, if it is."""
        self._progress = progress
        self._build(history=history)

    def _build(self, *, history: bool) -> None:
        """Make the SMs."""
        self.block_scheduler.sms = [
            StreamingMultiprocessor(
                self.env, self.gpu, number, self.memory, self.probe, self._block_retired, history=history
            )
            for number in range(self.gpu.sms)
        ]

    def run(
        self, traces: Sequence[KernelTrace], streams: Sequence[Hashable] | None = None, max_cycles: int | None = None
    ) -> Timeline:
        """Play kernels, those of one stream one after another, those of different streams at once (G2).

        The host and its way to the device take no time; see `play`, which also says what is raised.
        """
        asked = [0] * len(traces) if streams is None else streams
        number = {stream: n for n, stream in enumerate(dict.fromkeys(asked))}
        program = HostProgram(
            [LaunchKernel(number[stream], trace=trace) for stream, trace in zip(asked, traces, strict=True)],
            [HostStream(n, f"stream {stream}") for stream, n in number.items()],
            per_thread_default=True,
        )
        return self.play(program, max_cycles, ideal=True)

    def play(self, program: HostProgram, max_cycles: int | None = None, *, ideal: bool = False) -> Timeline:
        """Play a host program.

        Parameters
        ----------
        program
            What the host asked for.
        max_cycles
            SM clock cycles after which to give up.
        ideal
            Calls of the host and their way to the device take no time.

        Raises
        ------
        TraceError, LaunchError
            Before anything is played, for what `refuse_unplayable` finds.
        DeadlockError
            If blocks are left and nothing can happen any more.
        CycleLimitError, SimulationInterrupted
            After `max_cycles`, and when the user interrupts; with the timeline so far.
        """
        refuse_unplayable(self.gpu, program)
        self.stream_names = {stream.number: stream.name for stream in program.streams}
        priorities = {stream.number: stream.priority for stream in program.streams}
        traffic = MemoryTraffic(self.env, self.gpu, self._dma_port())
        self.device = DeviceOperations(self.env, self.gpu, traffic, self._start_kernel, priorities, ideal=ideal)
        self.host = HostThread(self.env, self.gpu, program, self.device, ideal=ideal)
        host = self.env.process(self.host.run())
        if max_cycles is not None:
            Occurrence(self.env, max_cycles * self.gpu.sm_period_fs, order(Kind.ISSUE) - 1, [self._reach_limit])
        with interrupts_go_to(lambda: self._request_stop("interrupt")):
            self._run_until(host)
        if self.env.now >= END_OF_TIME:
            raise end_of_time()
        if self._stop == "deadlock":
            self._report_deadlock()
        if self._stop:
            self._end_early(self._stop, max_cycles)
        return self._timeline()

    def _run_until(self, end: Event) -> None:
        """Run until everything is done, or until someone asks to stop, which takes effect between two events."""
        step = self.env.step
        try:
            while end.callbacks is not None and not self._stop:
                step()
        except EmptySchedule:
            self._report_deadlock()

    def _request_stop(self, reason: str) -> None:
        self._stop = self._stop or reason

    def _reach_limit(self, _: Any) -> None:
        """Stop before anything issues in this cycle, but let kernels end that have nothing left to do."""
        if any(run.blocks_retired < run.trace.config.blocks or run.writes_under_way for run in self.runs):
            # Nothing but the limit was left to happen: more cycles would not help.
            self._request_stop("limit" if self._more_to_come() else "deadlock")
        else:
            Occurrence(self.env, self.env.now, LAST, [lambda _: self._request_stop("limit")])

    def _more_to_come(self) -> bool:
        """Tell whether anything is going to happen."""
        return self.env.peek() != float("inf")

    def _end_early(self, reason: str, max_cycles: int | None) -> NoReturn:
        """Record what is under way up to now, and raise (F1)."""
        cycle = self.env.now // self.gpu.sm_period_fs
        self._cut(cycle)
        for run in self.runs:
            if not run.done.processed:
                run.end_fs = max(run.end_fs, self.env.now)
                run.use_after = self._use()
        partial = self._timeline()
        progress = ", ".join(
            f"{run.trace.name} {run.blocks_retired:,} of {run.trace.config.blocks:,} blocks"
            for run in self.runs
            if not run.over.triggered
        )
        progress = progress or ("all kernels so far had ended" if self.runs else "no kernel started")
        if reason == "limit":
            raise CycleLimitError(
                f"the simulation reached max_cycles = {max_cycles:,} before its end "
                f"({progress}); allow more cycles or simulate less; the exception's partial "
                "holds what was simulated",
                partial,
            )
        raise SimulationInterrupted(
            f"simulation interrupted at {cycle:,} cycles ({progress}); "
            "the exception's partial holds what was simulated",
            partial,
        )

    def _cut(self, cycle: int) -> None:
        """Record what the SMs have under way up to a cycle."""
        for sm in self.block_scheduler.sms:
            sm.cut(cycle)

    def _timeline(self) -> Timeline:
        under_way = [work for work in self.device.under_way if work.kind != "mark"]
        operations = [*self.device.operations, *map(self.device.record, under_way)]
        self.probe.warps.sort(key=lambda w: (w.kernel, w.block, w.warp))
        return Timeline(
            self.gpu.title,
            self.gpu.sms,
            self.gpu.sm_period_fs,
            tuple(run.timing() for run in sorted(self.runs, key=lambda run: run.number)),
            tuple(self._as_launched(self.probe.blocks)),
            tuple(self._as_launched(self.probe.warps)),
            complete=not self._stop,
            operations=tuple(sorted(operations, key=lambda operation: operation.number)),
            host=self.host.record(),
            event_times=dict(self.host.event_times),
            stream_names=dict(self.stream_names),
        )

    def _as_launched(self, records: Iterable[Numbered]) -> Iterator[Numbered]:
        """Give blocks of sampled kernels the numbers that they have in the grid."""
        sampled = {run.number: run for run in self.runs if isinstance(run, SampledRun)}
        for record in records:
            run = sampled.get(record.kernel)
            yield record if run is None else replace(record, block=run.number_of(record.block))

    def _start_kernel(self, command: LaunchKernel, number: int, priority: int) -> KernelRun:
        trace, caches = command.trace, self.memory.caches
        run: KernelRun
        if trace.sample is None:
            run = KernelRun(self.env, self.gpu, trace, number, caches=caches)
        else:
            run = SampledRun(self.env, self.gpu, trace, trace.sample, number, caches=caches)
            self.probe.keep(number, run.spans)
        self.runs.append(run)
        run.use_before = self._use()
        run.begun.callbacks.append(lambda _: self._begin_kernel(run))
        run.done.callbacks.append(lambda _: self._end_kernel(run))
        self._place_blocks(run, priority)
        return run

    def _checkpoint(self, run: KernelRun) -> None:
        """Let a sampled kernel note what it has counted so far."""
        run.checkpoint(self._use())

    def _begin_kernel(self, run: KernelRun) -> None:
        """Before anything of the kernel issues, empty the L1 caches beside the carve-out needed now (M2, M11)."""
        run.use_before = self._use()
        running = [run for run in self.runs if run.begun.triggered and not run.done.triggered]
        shared = max(run.occupancy.blocks_per_sm * run.demand.shared_bytes for run in running)
        self._empty_l1(l1_lines(self.gpu, shared))

    def _end_kernel(self, run: KernelRun) -> None:
        run.use_after = self._use()
        run.played_out()

    def _use(self) -> Use:
        """How busy the memory system has been until now."""
        return self.memory.use(self.env.now)

    def _dma_port(self) -> DmaPort:
        """Where copies enter the memory system."""
        return SlicePort(self.memory)

    def _place_blocks(self, run: KernelRun, priority: int) -> None:
        """Let the block scheduler begin with a kernel's blocks (G1, G2)."""
        self.block_scheduler.start(run, priority)

    def _empty_l1(self, lines: int) -> None:
        """Begin with empty L1 caches of that many lines."""
        for sm in self.block_scheduler.sms:
            sm.memory_unit.l1.resize(lines)

    def _block_retired(self, run: KernelRun) -> None:
        self.block_scheduler.block_retired()
        if self._progress is not None:
            self._progress(run.trace.name, run.blocks_retired, run.trace.config.blocks)

    def _resident(self) -> Iterator[tuple[ResidentBlock, int]]:
        """Blocks that are resident, each with the number of its SM."""
        return ((block, sm.number) for sm in self.block_scheduler.sms for block in sm.blocks)

    def _report_deadlock(self) -> NoReturn:
        if self.env.now >= END_OF_TIME:
            raise end_of_time()
        run = next((run for run in self.runs if not run.done.triggered), None)
        if run is None:
            waiting = ", ".join(f"{work.name} in stream {work.stream}" for work in self.device.under_way[:8])
            raise DeadlockError(
                f"the host program is stuck at {self.env.now:,} fs; still waiting: {waiting or 'the host'}"
            )
        left = run.trace.config.blocks - run.blocks_retired
        stuck = [_who_waits(block, sm) for block, sm in self._resident()]
        raise DeadlockError(
            f"kernel {run.trace.name!r} is stuck at {self.env.now // self.gpu.sm_period_fs:,} cycles with "
            f"{left:,} block{'s' * (left != 1)} left; " + "; ".join(stuck[:8])
        )


def _who_waits(block: ResidentBlock, sm: int) -> str:
    """Say which warps of a stuck block wait for what, and in which source line."""
    groups: dict[str, list[Warp]] = {}
    for warp in block.warps:
        if warp.waits_at_barrier:
            groups.setdefault(f"at a barrier{_line(warp, warp.next - 1)}", []).append(warp)
        elif not warp.finished and warp.program.ops[warp.next] is OpClass.BULK_WAIT and warp.blocked:
            phase = warp.program.operands[warp.next]
            what = f"waiting for a bulk copy (phase {phase % 65536} of barrier {phase // 65536})"
            groups.setdefault(f"{what}{_line(warp, warp.next)}", []).append(warp)
        elif not warp.left:
            groups.setdefault("waiting for memory", []).append(warp)
    waits = ", ".join(f"warps {_numbers(warps)} {what}" for what, warps in groups.items())
    return f"block {block.run.trace.index_of(block.block)} on SM {sm}: {waits or 'no warp waits'}"


def _line(warp: Warp, index: int) -> str:
    site = warp.program.sites[index]
    return f" in {site}" if site.line else ""


def _numbers(warps: Iterable[Warp]) -> str:
    return ", ".join(str(w.number) for w in warps)

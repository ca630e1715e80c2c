"""Rules H1 to H3: how kernels, copies and memsets run once their turn has come."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from simpy import Event

from gpusim_des.errors import LaunchError
from gpusim_des.gpu import GPU
from gpusim_des.timeline import Operation
from gpusim_des.timing.copy_engine import CopyEngines, Engine
from gpusim_des.timing.dma import MemoryTraffic
from gpusim_des.timing.kernel_run import KernelRun
from gpusim_des.timing.kernel_signals import KernelSignals
from gpusim_des.timing.order import Environment
from gpusim_des.timing.sampled_run import SampledRun
from gpusim_des.timing.work import Work
from gpusim_des.trace import CopyMemory, LaunchKernel, SetMemory

StartKernel = Callable[[LaunchKernel, int, int], KernelRun]
"""Starts a kernel, given its number and the priority of its stream."""


def _is_sampled(work: Work) -> bool:
    return isinstance(work.command, LaunchKernel) and work.command.trace.sample is not None


class DeviceOperations:
    """Runs every operation as a process that waits for what it depends on, the way to the device, and an engine."""

    def __init__(
        self,
        env: Environment,
        gpu: GPU,
        traffic: MemoryTraffic,
        start_kernel: StartKernel,
        priorities: dict[int, int],
        *,
        ideal: bool,
    ) -> None:
        self.operations: list[Operation] = []
        self._kernels: list[Work] = []
        """Kernels that have their turn, in that order."""
        self._sampled: list[SampledRun] = []
        self.under_way: list[Work] = []
        self.engines = CopyEngines(env, gpu)
        self.signals = KernelSignals(late=gpu.late_kernel_signals == "yes")
        self._env = env
        self._gpu = gpu
        self._traffic = traffic
        self._start_kernel = start_kernel
        self._priorities = priorities
        self._slots = Engine(env, "compute", gpu.max_concurrent_kernels)
        self._latency_fs = 0 if ideal else gpu.launch_latency_fs
        self._gap_fs = 0 if ideal else gpu.kernel_gap_fs
        self._graph_gap_fs = 0 if ideal else gpu.graph_gap_fs

    def start(self, work: Work) -> None:
        """Let an operation go its way."""
        self.signals.issued(work)
        self.under_way.append(work)
        self._env.process(self._run(work))

    def _run(self, work: Work) -> Generator[Event, Any, None]:
        env = self._env
        for dependency in work.dependencies:
            if not dependency.event.processed:
                before = env.now
                yield dependency.event
                if env.now > before:
                    work.waited(dependency.reason, dependency.name, before)
        waited = env.now > work.issued_fs
        arrival_fs = work.issued_fs + self._latency_fs
        gap_fs = self._graph_gap_fs if work.wait_reason == "graph order" else self._gap_fs
        ready_fs = env.now + (gap_fs if work.kind == "kernel" and waited else 0)
        if work.kind != "mark" and max(arrival_fs, ready_fs) > env.now:
            if arrival_fs > ready_fs:
                work.waited("launch latency", "", env.now)
            yield env.timeout(max(arrival_fs, ready_fs) - env.now)
        if work.kind == "kernel":
            yield from self._run_kernel(work)
        elif work.kind in ("h2d", "d2h"):
            yield from self._run_copy(work)
        elif work.kind in ("d2d", "memset"):
            yield from self._run_in_memory(work)
        else:
            work.start_fs = env.now
            work.started.succeed()
        self._end(work)

    def _begin(self, work: Work) -> None:
        work.start_fs = self._env.now
        work.started.succeed()

    def _enter(self, work: Work, engine: Engine, reason: str) -> Generator[Event, Any, None]:
        """Wait for a place on an engine, and begin."""
        ready = self._env.now
        yield engine.request(work, self._priorities.get(work.stream, 0))
        if self._env.now > ready and engine.last is not None:
            work.waited(reason, engine.last.name, ready)
        self._begin(work)

    def _run_kernel(self, work: Work) -> Generator[Event, Any, None]:
        assert isinstance(work.command, LaunchKernel)
        yield from self._enter(work, self._slots, "kernel slot")
        self._refuse_beside_sample(work, sampled=work.command.trace.sample is not None)
        ready, holders = self._env.now, [other.name for other in self._kernels]
        self._kernels.append(work)
        run = self._start_kernel(work.command, work.kernel, self._priorities.get(work.stream, 0))
        if isinstance(run, SampledRun):
            self._sampled.append(run)
            run.beside_copies = any(self._moves(other, "h2d", "d2h") for other in self.under_way)
        yield run.begun
        if holders and self._env.now > ready + self._gpu.dispatch_interval_fs:
            work.waited("SMs", holders[0], ready)
        work.start_fs = self._env.now
        yield run.over
        if isinstance(run, SampledRun):
            self._sampled.remove(run)
        self._kernels.remove(work)
        self._slots.release(work)

    @staticmethod
    def _moves(work: Work, *kinds: str) -> bool:
        """Tell whether an operation is one of these kinds and has begun, but not ended."""
        return work.kind in kinds and work.start_fs >= 0 and work.end_fs < 0

    def _refuse_beside_sample(self, work: Work, *, sampled: bool = False) -> None:
        """Refuse what would run beside a kernel of which only a sample is played: its time would mean nothing (S2)."""
        if sampled:
            moving = [other for other in self.under_way if other is not work and self._moves(other, "d2d", "memset")]
            beside = [*self._kernels, *moving]
        else:
            beside = [kernel for kernel in self._kernels if _is_sampled(kernel)]
        if beside:
            one, other = (work, beside[0]) if sampled else (beside[0], work)
            raise LaunchError(
                f"kernel {one.name!r} of stream {one.stream} is sampled, and {other.name!r} of stream {other.stream} "
                "would run at the same time: the time of a sample says nothing about kernels, memsets and copies "
                "within the device beside it; put them in one stream, let an event order them, or launch without "
                "sample="
            )

    def _run_copy(self, work: Work) -> Generator[Event, Any, None]:
        command = work.command
        assert isinstance(command, CopyMemory)
        engine = self.engines.of(work.kind)
        yield from self._enter(work, engine, "copy engine")
        for run in self._sampled:
            run.beside_copies = True
        took = self.engines.transfer_fs(work.kind, work.nbytes, pinned=command.pinned)
        moving = took - self._gpu.copy_latency_fs
        self._env.process(
            self._traffic.stream(
                command.address, work.nbytes, moving, self._gpu.copy_latency_fs, work.traffic, writes=work.kind == "h2d"
            )
        )
        yield self._env.timeout(took)
        engine.release(work)

    def _run_in_memory(self, work: Work) -> Generator[Event, Any, None]:
        command = work.command
        assert isinstance(command, CopyMemory | SetMemory)
        self._refuse_beside_sample(work)
        self._begin(work)
        yield from self._traffic.fill(command.address, work.nbytes, work.traffic, reads=work.kind == "d2d")

    def _end(self, work: Work) -> None:
        work.end_fs = self._env.now
        self.under_way.remove(work)
        work.ended.succeed()
        if work.kind == "kernel":
            self.signals.ended(work)
        else:
            work.done.succeed()
        if work.kind != "mark":
            self.operations.append(self.record(work))

    def record(self, work: Work) -> Operation:
        """Contract 2's record of an operation, cut at the present moment if it is not over."""
        now = self._env.now
        return Operation(
            number=work.number,
            kind=work.kind,
            name=work.name,
            stream=work.stream,
            issued_fs=work.issued_fs,
            start_fs=work.start_fs if work.start_fs >= 0 else now,
            end_fs=work.end_fs if work.end_fs >= 0 else now,
            nbytes=work.nbytes,
            engine=work.engine,
            wait_reason=work.wait_reason,
            waited_for=work.waited_for,
            pageable=work.pageable,
            blocking=isinstance(work.command, CopyMemory) and work.command.blocking,
            kernel=work.kernel,
            dram_bytes=(work.traffic.read_granules + work.traffic.write_granules) * self._gpu.dram_granule_bytes,
            line=work.command.line,
            last_wait_fs=work.last_wait_fs,
        )

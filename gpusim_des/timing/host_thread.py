"""Rule H1: the host thread issues its calls one after another, and waits where a call blocks it."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import replace
from typing import Any

from simpy import Event

from gpusim_des.gpu import GPU
from gpusim_des.timeline import HostSpan
from gpusim_des.timing.device_operations import DeviceOperations
from gpusim_des.timing.order import Environment
from gpusim_des.timing.streams import Streams
from gpusim_des.timing.work import Dependency, Work
from gpusim_des.trace import (
    Command,
    CopyMemory,
    HostProgram,
    HostWork,
    LaunchGraph,
    LaunchKernel,
    RecordEvent,
    SetMemory,
    Synchronize,
    WaitEvent,
)


class HostThread:
    """Plays a host program: `run` is its process. With ``ideal`` all calls and latencies take no time."""

    def __init__(
        self, env: Environment, gpu: GPU, program: HostProgram, device: DeviceOperations, *, ideal: bool = False
    ) -> None:
        self._spans: list[HostSpan] = []
        self._under_way: HostSpan | None = None
        self.event_times: dict[int, int] = {}
        """Femtoseconds at which each record of an event happened."""
        self._env = env
        self._program = program
        self._device = device
        self._streams = Streams(program, gpu.hardware_queues)
        self._launch_fs = 0 if ideal else gpu.launch_call_fs
        self._call_fs = 0 if ideal else gpu.copy_call_fs
        self._synchronize_fs = 0 if ideal else gpu.synchronize_latency_fs
        self._number = 0
        self._kernels = 0
        self._graph_ends: dict[int, Work] = {}
        """Marks behind the last launch of each graph."""

    def run(self) -> Generator[Event, Any, None]:
        """Process of the host: every call in its order; ends when the host has ended and all streams are empty."""
        for command in self._program.commands:
            yield from self._call(command)
        for work in self._streams.tails():
            if not work.done.processed:
                yield work.done

    def record(self) -> tuple[HostSpan, ...]:
        """Contract 2's records; a call that is under way is cut at the present moment (F1)."""
        under_way = [replace(self._under_way, end_fs=self._env.now)] if self._under_way is not None else []
        return (*self._spans, *under_way)

    def _call(self, command: Command) -> Generator[Event, Any, None]:
        if isinstance(command, HostWork):
            yield from self._spend(command.name, command.femtoseconds, command)
        elif isinstance(command, LaunchKernel):
            yield from self._spend(f"launch {command.trace.name}", self._launch_fs, command)
            self._issue(command)
        elif isinstance(command, CopyMemory):
            yield from self._copy(command)
        elif isinstance(command, SetMemory):
            yield from self._spend(f"memset {command.name}".rstrip(), self._call_fs, command)
            self._issue(command)
        elif isinstance(command, RecordEvent):
            yield from self._spend("record event", self._call_fs, command)
            mark = self._mark("record", command.stream, command)
            self._streams.record(command.event, mark)
            self._env.process(self._note_event(command.event, mark))
        elif isinstance(command, WaitEvent):
            yield from self._spend("wait event", self._call_fs, command)
            self._streams.wait(command.stream, command.event)
        elif isinstance(command, Synchronize):
            yield from self._wait(command.name or f"synchronize {command.what}", self._target(command), command)
        elif isinstance(command, LaunchGraph):
            yield from self._spend(f"launch {command.name}", self._launch_fs, command)
            self._issue_graph(command)

    def _copy(self, command: CopyMemory) -> Generator[Event, Any, None]:
        name = f"memcpy {command.direction} {command.name}".rstrip()
        yield from self._spend(name, self._call_fs, command)
        work = self._issue(command)
        pageable = command.direction != "d2d" and not command.pinned
        if command.blocking or pageable:
            yield from self._wait(name, [work], command)

    def _target(self, command: Synchronize) -> list[Work]:
        if command.what == "device":
            return self._streams.tails()
        if command.what == "stream":
            return self._streams.tail(command.stream)
        return [self._streams.recorded(command.event)]

    # Time of the host -----------------------------------------------------------------------------------------------

    def _spend(self, name: str, femtoseconds: int, command: Command) -> Generator[Event, Any, None]:
        self._begin(name, command)
        if femtoseconds:
            yield self._env.timeout(femtoseconds)
        self._end()

    def _wait(self, name: str, works: Iterable[Work], command: Command) -> Generator[Event, Any, None]:
        self._begin(name, command, waits=True)
        for work in works:
            if not work.done.processed:
                yield work.done
        if self._synchronize_fs:
            yield self._env.timeout(self._synchronize_fs)
        self._end()

    def _begin(self, name: str, command: Command, *, waits: bool = False) -> None:
        self._under_way = HostSpan(name, self._env.now, self._env.now, waits, command.line)

    def _end(self) -> None:
        assert self._under_way is not None
        self._spans.append(replace(self._under_way, end_fs=self._env.now))
        self._under_way = None

    def _note_event(self, event: int, mark: Work) -> Generator[Event, Any, None]:
        if not mark.done.processed:
            yield mark.done
        self.event_times[event] = mark.end_fs

    # Operations -----------------------------------------------------------------------------------------------------

    def _work(self, command: Command, stream: int) -> Work:
        kind, name = "mark", ""
        if isinstance(command, LaunchKernel):
            kind, name = "kernel", command.trace.name
        elif isinstance(command, CopyMemory):
            kind, name = command.direction, f"{command.direction} {command.name}".rstrip()
        elif isinstance(command, SetMemory):
            kind, name = "memset", f"memset {command.name}".rstrip()
        work = Work(self._env, self._number, kind, name, stream, command)
        self._number += 1
        if kind == "kernel":
            work.kernel = self._kernels
            self._kernels += 1
        if isinstance(command, CopyMemory | SetMemory):
            work.nbytes = command.nbytes
        if kind in ("h2d", "d2h") and isinstance(command, CopyMemory):
            work.engine = self._device.engines.of(kind).name
            work.pageable = not command.pinned
        elif kind != "mark":
            work.engine = "compute" if kind == "kernel" else "HBM"
        return work

    def _issue(self, command: Command) -> Work:
        work = self._work(command, command.stream)
        self._streams.enter(work)
        self._streams.queue(work)
        self._device.start(work)
        return work

    def _mark(self, name: str, stream: int, command: Command) -> Work:
        """Put a mark into a stream: over as soon as everything before it is; named after what it comes behind."""
        before = self._streams.tail(stream)
        name = before[0].name if before else name
        mark = Work(self._env, self._number, "mark", name, stream, command)
        self._number += 1
        self._streams.enter(mark)
        if isinstance(command, LaunchGraph) and command.graph in self._graph_ends:
            mark.dependencies.append(Dependency(self._graph_ends[command.graph].done, "graph order", command.name))
        self._device.start(mark)
        return mark

    def _issue_graph(self, command: LaunchGraph) -> None:
        """Put a graph into a stream: a mark before its first nodes, its nodes, a mark after its last ones."""
        begin = self._mark("graph begins", command.stream, command)
        nodes: list[Work] = []
        for node in command.nodes:
            work = self._work(node.command, command.stream)
            before = [nodes[number] for number in node.after] or [begin]
            for other in before:
                kernels = other.kind == work.kind == "kernel"
                event = other.ended if kernels else other.done
                work.dependencies.append(Dependency(event, "graph order" if node.after else "stream order", other.name))
            self._device.start(work)
            nodes.append(work)
        mark = Work(self._env, self._number, "mark", "graph ends", command.stream, command)
        self._number += 1
        self._streams.enter(mark)
        mark.dependencies += [Dependency(work.done, "graph order", work.name) for work in nodes]
        if command.graph >= 0:
            self._graph_ends[command.graph] = mark
        self._device.start(mark)

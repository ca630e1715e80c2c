"""Random host programs: copies, kernels, graphs, events and waits in up to four streams.

`cases` are schedules in microseconds, `any_host_programs` have kernels that use memory while copies run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from hypothesis import strategies as st

from gpusim_des.gpu import GPU
from gpusim_des.timeline import Timeline
from gpusim_des.timing.probe import Detail
from gpusim_des.timing.simpy_engine import SimpyEngine
from gpusim_des.trace import (
    Command,
    HostProgram,
    HostStream,
    HostWork,
    LaunchGraph,
    LaunchKernel,
    RecordEvent,
    SetMemory,
)
from tests.random_programs import Dice, Kernel, MakeEngine, code, machine, outcome, several_kernels, shown
from tests.timed_programs import (
    GPU_US,
    US,
    copy,
    graph,
    kernel,
    memset,
    record,
    synchronize,
    wait,
)


class Case(NamedTuple):
    """A GPU and a host program."""

    gpu: GPU
    program: HostProgram

    def play(self, **options: Any) -> Timeline:
        return SimpyEngine(self.gpu, "kernel").play(self.program, **options)


@st.composite
def commands_for_the_device(draw: st.DrawFn, stream: int, *, asynchronous: bool = False) -> Any:
    """A kernel, a copy or a memset; in graphs nothing blocks."""
    kind = draw(st.sampled_from(["kernel", "h2d", "d2h", "d2d", "memset"]))
    if kind == "kernel":
        return kernel(draw(st.integers(1, 6)), stream, blocks=draw(st.integers(1, 3)))
    nbytes = draw(st.sampled_from([128, 1024, 5_000, 20_000]))
    if kind == "memset":
        return memset(nbytes, stream)
    blocking, pinned = (False, True) if asynchronous else (draw(st.booleans()), draw(st.booleans()))
    return copy(kind, nbytes / 1000, stream, blocking=blocking, pinned=pinned)  # type: ignore[arg-type]


@st.composite
def graphs(draw: st.DrawFn, stream: int) -> LaunchGraph:
    nodes: list[Any] = []
    for number in range(draw(st.integers(0, 4))):
        after = draw(st.sets(st.integers(0, number - 1), max_size=2)) if number else set()
        nodes.append((draw(commands_for_the_device(stream, asynchronous=True)), tuple(sorted(after))))
    return graph(*nodes, stream=stream)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Calls in up to four streams; events are waited for after their record."""
    streams = [HostStream(0, "default")]
    streams += [
        HostStream(number, f"s{number}", draw(st.integers(-1, 0)), draw(st.booleans()))
        for number in range(1, draw(st.integers(1, 4)))
    ]
    commands: list[Command] = []
    events = 0
    for _ in range(draw(st.integers(0, 12))):
        stream = draw(st.integers(0, len(streams) - 1))
        kind = draw(st.sampled_from([*["device"] * 6, "graph", "record", "record", "wait", "wait", "sync", "work"]))
        if kind == "device":
            commands.append(draw(commands_for_the_device(stream)))
        elif kind == "graph":
            commands.append(draw(graphs(stream)))
        elif kind == "record":
            commands.append(record(events, stream))
            events += 1
        elif kind == "work":
            commands.append(HostWork(femtoseconds=draw(st.integers(0, 9)) * US))
        elif kind == "sync":
            what = draw(st.sampled_from(["stream", "device", "event"] if events else ["stream", "device"]))
            event = draw(st.integers(0, events - 1)) if what == "event" else -1
            commands.append(synchronize(what, stream, event))  # type: ignore[arg-type]
        elif events:
            commands.append(wait(draw(st.integers(0, events - 1)), stream))
    gpu = GPU_US.replace(
        copy_engines=draw(st.sampled_from([1, 2])),
        hardware_queues=draw(st.sampled_from([1, 2, 32])),
        max_concurrent_kernels=draw(st.sampled_from([1, 2, 4])),
        late_kernel_signals=draw(st.sampled_from(["no", "no", "yes"])),
    )
    return Case(gpu, HostProgram(commands, streams, per_thread_default=draw(st.booleans())))


# Kernels among copies, in nanoseconds ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Launch(Command):
    """A launch of a kernel of the case, by its number."""

    kernel: int = 0


@dataclass(frozen=True)
class Graph(Command):
    """A launch of a graph: its nodes, each with the numbers of those that it waits for."""

    nodes: tuple[tuple[Command, tuple[int, ...]], ...] = ()
    number: int = -1


class HostPrograms(NamedTuple):
    """A GPU, kernels, and the calls of a host in some streams."""

    gpu: GPU
    caches: bool
    kernels: list[Kernel]
    calls: list[Command]
    streams: list[HostStream]
    per_thread_default: bool = False
    max_cycles: int | None = None

    def play(self, engine: MakeEngine, detail: Detail = "sm") -> Timeline | str:
        """Play everything on an engine."""
        player = engine(self.gpu, detail, caches=self.caches)
        return outcome(lambda: player.play(self.program(), self.max_cycles))

    def program(self) -> HostProgram:
        """The commands, with a trace for every kernel."""
        traces = [kernel.trace() for kernel in self.kernels]

        def command(call: Command) -> Command:
            if isinstance(call, Launch):
                return LaunchKernel(call.stream, trace=traces[call.kernel])
            if isinstance(call, Graph):
                nodes: list[Any] = [(command(node), after) for node, after in call.nodes]
                return graph(*nodes, stream=call.stream, number=call.number)
            return call

        return HostProgram([command(call) for call in self.calls], self.streams, self.per_thread_default)

    def __str__(self) -> str:
        """Code that makes the case again."""
        lines = [shown(self.gpu), f"caches={self.caches}", "kernels=[", *(f"    {k}," for k in self.kernels), "]"]
        lines += ["calls=[", *(f"    {call}," for call in self.calls), "]", f"streams={self.streams}"]
        lines += [f"per_thread_default={self.per_thread_default}", f"max_cycles={self.max_cycles}"]
        return code("HostPrograms", lines)


TIMES = ("launch_call", "copy_call", "launch_latency", "kernel_gap", "graph_gap", "synchronize_latency", "copy_latency")
RATES = ("h2d_pinned", "d2h_pinned", "h2d_pageable", "d2h_pageable")


def quick_host(dice: Dice) -> GPU:
    """Make a random GPU behind a host that needs nanoseconds, so that copies and kernels meet."""
    changes: dict[str, Any] = {name: f"{dice.randint(0, 40)} ns" for name in TIMES}
    changes |= {rate: dice.one(["1 GB/s", "16 GB/s", "60 GB/s"]) for rate in RATES}
    duplex = dice.one(["full", "full", "full", "full", "half"])
    return machine(dice).replace(**changes, copy_engines=dice.one([1, 2, 2, 2, 2]), link_duplex=duplex)


KINDS = ("kernel", "kernel", "kernel", "h2d", "h2d", "d2h", "d2d", "memset")


def operation(dice: Dice, stream: int, kernels: int, kind: str = "", *, asynchronous: bool = False) -> Command:
    """Make a kernel, a copy of lines that kernels use, or a memset; in graphs nothing blocks."""
    kind = kind or dice.one(KINDS)
    if kind == "kernel":
        return Launch(stream, kernel=dice.randrange(kernels))
    nbytes, address = dice.one([128, 1024, 40_000]), 128 * dice.randint(0, 12)
    if kind == "memset":
        return SetMemory(stream, nbytes=nbytes, address=address)
    pinned, blocking = (True, False) if asynchronous else (dice.once_in(2), dice.once_in(2))
    return copy(kind, nbytes / 1000, stream, address=address, pinned=pinned, blocking=blocking)  # type: ignore[arg-type]


def calls(  # noqa: C901, PLR0911 - one line for each kind
    dice: Dice, streams: int, kernels: int, recorded: int
) -> list[Command]:
    """Make a call of a host, or a few that have to do with each other; `recorded` events are known."""
    one = dice.randrange(streams)
    other = (one + dice.one([0, 1, 1, 2])) % streams
    kinds = [*["operation"] * 6, *["order"] * 4, *["event", "copies"] * 3, "all", *["all", "graph", "upload"] * 2]
    kinds += ["work", "stream", "device"]
    kind = dice.one([*kinds, *["wait", "wait for event"] * (recorded > 0)])
    if kind == "operation":
        return [operation(dice, one, kernels)]
    if kind == "order":
        what = dice.one(["kernel", "kernel", "h2d", ""])
        return [operation(dice, stream, kernels, what, asynchronous=True) for stream in (one, one, other)]
    if kind == "all":
        return [Launch(n % streams, kernel=n) for n in range(kernels)]
    if kind == "event":
        first, behind = (operation(dice, stream, kernels, asynchronous=True) for stream in (one, other))
        return [first, record(recorded, one), wait(recorded, other), behind]
    if kind == "upload":
        data = copy("h2d", dice.one([1.024, 2.048]), one, address=128 * dice.randint(0, 4), blocking=dice.once_in(3))
        return [data, operation(dice, one, kernels, "kernel")]
    if kind == "copies":
        sizes, blocking = [dice.one([1.024, 40, 40]) for _ in range(2)], dice.once_in(2)
        return [copy("h2d", sizes[0], one), copy("d2h", sizes[1], other, blocking=blocking)]
    if kind == "graph":
        nodes: list[tuple[Command, tuple[int, ...]]] = []
        for number in range(dice.randint(1, 3)):
            after = tuple(dice.some(range(number), 2))
            nodes.append((operation(dice, one, kernels, asynchronous=True), after))
        return [Graph(one, nodes=tuple(nodes), number=dice.randint(-1, 1))]
    if kind == "work":
        return [HostWork(femtoseconds=dice.randint(0, 50) * 10**6)]
    if kind == "wait":
        return [wait(dice.randrange(recorded), one)]
    if kind == "wait for event":
        return [synchronize("event", one, dice.randrange(recorded))]
    return [synchronize("stream" if kind == "stream" else "device", one)]


def any_host_programs(dice: Dice) -> HostPrograms:
    """Make kernels in up to four streams among copies and graphs; all is over in microseconds."""
    streams = [HostStream(0, "default")]
    streams += [
        HostStream(number, f"s{number}", dice.one([0, -1, -2]), dice.once_in(2))
        for number in range(1, dice.one([1, 3, 3, 4]))
    ]
    gpu = quick_host(dice)
    kernels = several_kernels(dice, gpu)
    asked: list[Command] = []
    for _ in range(dice.randint(2, 9)):
        recorded = sum(isinstance(call, RecordEvent) for call in asked)
        asked += calls(dice, len(streams), len(kernels), recorded)
    limit = dice.randint(1, 600) if dice.once_in(6) else None
    caches = not dice.once_in(3)
    return HostPrograms(gpu, caches, kernels, asked, streams, dice.once_in(2), limit)

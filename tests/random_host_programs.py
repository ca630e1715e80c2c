"""Random host programs on the tiny GPU: copies, kernels, graphs, events and waits in up to four streams."""

from __future__ import annotations

from typing import Any, NamedTuple

from hypothesis import strategies as st

from gpusim_des.gpu import GPU
from gpusim_des.timeline import Timeline
from gpusim_des.timing.simpy_engine import SimpyEngine
from gpusim_des.trace import (
    Command,
    HostProgram,
    HostStream,
    HostWork,
    LaunchGraph,
)
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

"""Host programs for the timing model: short words for the calls, and the schedule that comes out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from gpusim_des.gpu import GPU
from gpusim_des.timeline import Operation, Timeline
from gpusim_des.timing.simpy_engine import SimpyEngine
from gpusim_des.trace import (
    Command,
    CopyMemory,
    GraphNode,
    HostProgram,
    HostStream,
    LaunchGraph,
    LaunchKernel,
    RecordEvent,
    SetMemory,
    Synchronize,
    WaitEvent,
)
from tests.programs import TINY, chain, trace

US = 10**9
"""Femtoseconds of a microsecond."""

GPU_US = TINY.replace(fp32_latency_cycles=1000)
"""The tiny GPU with an addition that takes a microsecond, so that kernels are as long as copies.

A call takes the host 1 us, and what it asks for 2 us to the device; a kernel that waited for something starts 0.5 us
later; a copy takes 10 us, and 1 us for each KB of pinned, 2 us of pageable memory; a host that waited goes on after 1.
"""


def kernel(us: int, stream: int = 0, name: str = "k", *, blocks: int = 1, **launch: Any) -> LaunchKernel:
    """A kernel of one warp per block that takes a microsecond for each of its dependent additions."""
    recorded = trace(*[[chain(us)]] * blocks, **launch)
    recorded.name = name
    return LaunchKernel(stream, trace=recorded)


def copy(
    direction: Literal["h2d", "d2h", "d2d"], kb: float, stream: int = 0, name: str = "", **options: Any
) -> CopyMemory:
    """A copy of pinned memory that returns at once, if nothing else is said; a KB is 1000 bytes."""
    options = {"pinned": True, "blocking": False, **options}
    return CopyMemory(stream, direction=direction, nbytes=round(1000 * kb), name=name, **options)


def memset(nbytes: int, stream: int = 0) -> SetMemory:
    return SetMemory(stream, nbytes=nbytes)


def record(event: int, stream: int = 0) -> RecordEvent:
    return RecordEvent(stream, event=event)


def wait(event: int, stream: int = 0) -> WaitEvent:
    return WaitEvent(stream, event=event)


def synchronize(what: Literal["stream", "event", "device"] = "device", stream: int = 0, event: int = -1) -> Synchronize:
    return Synchronize(stream, what=what, event=event)


def graph(
    *nodes: tuple[LaunchKernel | CopyMemory | SetMemory, tuple[int, ...]], stream: int = 0, number: int = -1
) -> LaunchGraph:
    """A graph of commands, each with the numbers of the nodes that it waits for."""
    return LaunchGraph(stream, nodes=tuple(GraphNode(command, after) for command, after in nodes), graph=number)


def streams(count: int, **others: HostStream) -> list[HostStream]:
    """The default stream and `count` blocking ones; ``s2=...`` puts another in the place of number 2."""
    return [others.get(f"s{number}", HostStream(number, f"s{number}")) for number in range(count + 1)]


def play(
    *commands: Command,
    gpu: GPU = GPU_US,
    among: Sequence[HostStream] | None = None,
    per_thread: bool = False,
    caches: bool = False,
    **options: Any,
) -> Timeline:
    """Play the calls in four blocking streams beside the default stream, if nothing else is said."""
    program = HostProgram(list(commands), list(among or streams(4)), per_thread_default=per_thread)
    return SimpyEngine(gpu, "kernel", caches=caches).play(program, **options)


def times(timeline: Timeline) -> list[tuple[float, float]]:
    """Start and end of every operation in microseconds, in the order of issue."""
    return [(operation.start_fs / US, operation.end_fs / US) for operation in timeline.operations]


def waits(timeline: Timeline) -> list[tuple[str, str]]:
    """What every operation waited for last, and the operation that ended it."""
    return [(operation.wait_reason, operation.waited_for) for operation in timeline.operations]


def host(timeline: Timeline) -> list[tuple[str, float, float]]:
    """Every call of the host with its start and end in microseconds; those in which it waited are in brackets."""
    return [
        (f"({span.name})" if span.waits else span.name, span.start_fs / US, span.end_fs / US) for span in timeline.host
    ]


def named(timeline: Timeline, name: str) -> Operation:
    """The one operation of this name."""
    (found,) = (operation for operation in timeline.operations if operation.name == name)
    return found

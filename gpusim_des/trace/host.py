"""What a host program asked of a device, call by call, in the order in which it called (H1).

The device writes these commands while it computes results at once; the timing model plays them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from gpusim_des.trace.kernel import KernelTrace

CopyDirection = Literal["h2d", "d2h", "d2d"]

DEFAULT_STREAM = 0
"""Number of the default stream."""


@dataclass(frozen=True)
class HostStream:
    """A stream of the program."""

    number: int
    name: str
    priority: int = 0
    """Lower numbers come first, as in CUDA."""
    blocking: bool = True
    """Waits for the legacy default stream, and makes it wait (false: ``cudaStreamNonBlocking``)."""


@dataclass(frozen=True)
class Command:
    """One call; ``stream`` is the stream's number, ``line`` the source line of the call, 0 if unknown."""

    stream: int = DEFAULT_STREAM
    line: int = field(default=0, kw_only=True)


@dataclass(frozen=True)
class LaunchKernel(Command):
    """A kernel launch; returns to the host at once."""

    trace: KernelTrace = field(kw_only=True)


@dataclass(frozen=True)
class CopyMemory(Command):
    """A copy. ``blocking`` calls return when it is done (H2); copies of pageable memory block in any case."""

    direction: CopyDirection = field(kw_only=True)
    nbytes: int = field(kw_only=True)
    name: str = field(default="", kw_only=True)
    """The device array, for rows and reports."""
    pinned: bool = field(default=False, kw_only=True)
    """The host side is page-locked; without meaning for ``d2d``."""
    blocking: bool = field(default=True, kw_only=True)
    address: int = field(default=0, kw_only=True)
    """Device address: where the bytes land in the L2 and in HBM (M11)."""


@dataclass(frozen=True)
class SetMemory(Command):
    """A memset on the device; returns to the host at once."""

    nbytes: int = field(kw_only=True)
    name: str = field(default="", kw_only=True)
    address: int = field(default=0, kw_only=True)


@dataclass(frozen=True)
class RecordEvent(Command):
    """The event happens when everything in the stream so far is done."""

    event: int = field(kw_only=True)


@dataclass(frozen=True)
class WaitEvent(Command):
    """Nothing issued to the stream from now on starts before the event's last record so far has happened."""

    event: int = field(kw_only=True)


@dataclass(frozen=True)
class Synchronize(Command):
    """The host waits: for a stream, for an event's last record so far, or for everything."""

    what: Literal["stream", "event", "device"] = field(kw_only=True)
    event: int = field(default=-1, kw_only=True)
    name: str = field(default="", kw_only=True)
    """The call, where it is another one that waits: ``free a``."""


@dataclass(frozen=True)
class HostWork(Command):
    """The host computes for a while."""

    femtoseconds: int = field(kw_only=True)
    name: str = field(default="host work", kw_only=True)


@dataclass(frozen=True)
class GraphNode:
    """A kernel, copy or memset of a graph, and the numbers of the earlier nodes that it waits for."""

    command: LaunchKernel | CopyMemory | SetMemory
    after: tuple[int, ...] = ()


@dataclass(frozen=True)
class LaunchGraph(Command):
    """A launch of a whole graph: its nodes start when the stream comes to it, each after those it waits for."""

    nodes: tuple[GraphNode, ...] = field(kw_only=True)
    name: str = field(default="graph", kw_only=True)
    graph: int = field(default=-1, kw_only=True)
    """Number of the graph: its launches follow each other, in whatever streams; -1 for one that is launched once."""


@dataclass
class HostProgram:
    """Everything that a host program asked for, in order, and its streams.

    Examples
    --------
    >>> program = HostProgram()
    >>> program.commands.append(CopyMemory(direction="h2d", nbytes=1024))
    >>> program.streams[DEFAULT_STREAM].name
    'default'
    """

    commands: list[Command] = field(default_factory=list)
    streams: list[HostStream] = field(default_factory=lambda: [HostStream(DEFAULT_STREAM, "default")])
    per_thread_default: bool = False
    """The default stream is one like the others; otherwise it is the legacy one, which waits for all blocking streams
    and makes them wait."""

    def operations(self) -> Iterator[Command]:
        """Commands in the order of the calls, with the nodes of graphs in the places of their launches."""
        for command in self.commands:
            if isinstance(command, LaunchGraph):
                yield from (node.command for node in command.nodes)
            else:
                yield command

    def traces(self) -> Iterator[KernelTrace]:
        """Traces of all kernels, those of graphs too, in the order of their launches."""
        return (command.trace for command in self.operations() if isinstance(command, LaunchKernel))

"""The host side of one device: writes down what a host program asks for, in which order it happens, what is wrong."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

from gpusim_des.capture import Capture
from gpusim_des.device_work import Done, Work
from gpusim_des.errors import (
    HostBufferChangedWarning,
    KernelError,
    PageableCopyWarning,
    SampledResultWarning,
    StreamError,
    StreamRaceWarning,
)
from gpusim_des.functional.allocator import DeviceMemory
from gpusim_des.functional.happens_before import Clock, HappensBefore, Moment
from gpusim_des.functional.memory import DeviceArray
from gpusim_des.functional.pinned import WatchedSources
from gpusim_des.functional.source import Site, caller
from gpusim_des.functional.stream_races import StreamRaces
from gpusim_des.functional.transfers import CopyReport
from gpusim_des.graph import Graph
from gpusim_des.launched import Launch
from gpusim_des.streams import Event, Stream
from gpusim_des.trace import DEFAULT_STREAM, GraphNode, HostProgram, HostStream, LaunchGraph, Synchronize

WAITS = "it makes the host wait, and nothing of a capture runs"


class HostSide:
    """What a device knows of its host program; streams, events and graphs come to it.

    Operations run as soon as they are asked for. That is one of the orders that a GPU could choose, because a stream
    can only wait for what was asked for earlier.

    Attributes
    ----------
    program
        The commands so far, for the timing model.
    launches
        Kernels that have run, those of graphs too.
    capture
        The capture in progress.
    event_times_fs
        When records of events happened in the last simulation, by their numbers.
    warnings
        What was warned of so far.
    """

    def __init__(self, memory: DeviceMemory, *, per_thread: bool) -> None:
        self.program = HostProgram(per_thread_default=per_thread)
        self.launches: list[Launch] = []
        self.order = HappensBefore(None if per_thread else DEFAULT_STREAM)
        self.order.add_stream(DEFAULT_STREAM)
        self.races = StreamRaces()
        self.capture: Capture | None = None
        self.event_times_fs: dict[int, int] = {}
        self.copy_report = CopyReport()
        self.warnings: list[str] = []
        self.default_stream = Stream(self, self.program.streams[DEFAULT_STREAM])
        self._memory = memory
        self._sources = WatchedSources()
        self._untold: list[tuple[str, type[Warning], Site]] = []
        self._pageable_lines: set[tuple[str, int]] = set()
        self._events = self._records = self._graphs = 0
        self._launched_graphs: dict[int, tuple[int, Graph]] = {}
        """Number of every graph that was launched, by identity, and the graph itself: no other gets its identity."""

    # Making ---------------------------------------------------------------------------------------------------------

    def new_stream(self, priority: int, name: str | None, *, blocking: bool) -> Stream:
        """Make a stream."""
        number = len(self.program.streams)
        taken = {stream.name for stream in self.program.streams}
        wanted = name or f"stream {number}"
        own = wanted if wanted not in taken else f"{wanted} (stream {number})"  # messages tell streams by their names
        about = HostStream(number, own, priority, blocking)
        self.program.streams.append(about)
        self.order.add_stream(number, blocking=blocking)
        return Stream(self, about)

    def new_event(self, name: str | None) -> Event:
        """Make an event."""
        self._events += 1
        return Event(self, name or f"event {self._events}")

    def new_capture(self, origin: Stream, name: str | None) -> Capture:
        """Make a capture, which has not begun yet."""
        self._graphs += 1
        return Capture(self, origin, name or f"graph {self._graphs}")

    def next_record(self) -> int:
        """Return a number that no record of an event has."""
        self._records += 1
        return self._records - 1

    # Doing ----------------------------------------------------------------------------------------------------------

    def issue(self, stream: Stream, work: Work) -> Done | None:
        """Run an operation now and write it down; ``None`` if it goes into the graph that is being captured."""
        if self.capture is not None and self.capture.takes(stream):
            self.capture.add(stream, work)
            return None
        self.refuse_legacy_in_capture(stream, work.name)
        done = self._run(work, stream)
        moment, before = self.order.operation(stream.number)
        self.program.commands.append(done.command)
        self._note(work, stream, done, moment, before)
        if work.pageable and not work.blocking:
            self._warn_pageable(work)
        if work.host_waits:
            self._learn(self.order.done(stream.number))
        self.tell()
        return done

    def launch_graph(self, graph: Graph, stream: Stream | None) -> list[Launch]:
        """Run the nodes of a graph now and write the graph down; returns the launches of its kernels."""
        self.only("graph.launch")
        where = self.stream_of(stream)
        graph.check(self)
        if self.capture is not None and self.capture.takes(where):
            raise StreamError(
                f"graph {graph.name!r} is launched into stream {where.name!r}, which is being captured: a graph inside "
                "of a graph is not simulated; launch it after the capture"
            )
        self.refuse_legacy_in_capture(where, f"graph {graph.name!r}")
        placed = self.order.graph(where.number, [(node.captured_from, node.after) for node in graph.nodes])
        nodes: list[GraphNode] = []
        launches: list[Launch] = []
        for node, (moment, before) in zip(graph.nodes, placed, strict=True):
            done = self._run(node.work, where)
            nodes.append(GraphNode(done.command, node.after))
            launches += [done.launch] if done.launch is not None else []
            self._note(node.work, where, done, moment, before)
        number = self._launched_graphs.setdefault(id(graph), (len(self._launched_graphs), graph))[0]
        self.program.commands.append(
            LaunchGraph(where.number, nodes=tuple(nodes), name=graph.name, graph=number, line=caller().line)
        )
        self.tell()
        return launches

    def wait(self, command: Synchronize, clock: Clock) -> None:
        """Let the host wait for everything that is over in `clock`."""
        self.program.commands.append(command)
        self._learn(clock)
        self.tell()

    def wait_for_all(self, line: int, call: str = "") -> None:
        """Let the host wait for everything, because of a `call` that is not a synchronization by name."""
        self.order.learn_all()
        self.races.forget_accesses()
        self.wait(Synchronize(what="device", name=call, line=line), self.order.host)

    def free(self, array: DeviceArray, line: int) -> None:
        """Write down that an array is freed: the host waits for everything first, if there is anything."""
        if self.order.pending():
            self.wait_for_all(line, f"free {array.name}")
        self.races.forget(array)

    def forget(self) -> None:
        """Begin a new program, before which everything so far is over; streams and events stay."""
        self.refuse_in_capture("dev.forget_launches", "the capture belongs to the program so far")
        self.program = HostProgram(
            streams=list(self.program.streams), per_thread_default=self.program.per_thread_default
        )
        self.launches = []  # a new list: whoever holds the old one keeps it
        self.order.learn_all()
        self.races = StreamRaces()
        self._learn(self.order.host)
        self.tell()

    def begin_capture(self, capture: Capture) -> None:
        """Begin a capture, unless one is in progress."""
        self.check_stream(capture.origin)
        if self.capture is not None:
            raise StreamError(
                f"capture of stream {capture.origin.name!r} inside of the capture of graph "
                f"{self.capture.graph.name!r}: captures do not nest; end the first one before"
            )
        if capture.graph.ended:
            raise StreamError(
                f"the capture of graph {capture.graph.name!r} is over: begin another, dev.capture(stream)"
            )
        if self._is_legacy(capture.origin):
            raise StreamError(
                "capture of the legacy default stream: it waits for all other streams, which a graph cannot; capture a "
                "stream of dev.stream(), or make the device with default_stream='per-thread'"
            )
        self.capture = capture

    def _run(self, work: Work, stream: Stream) -> Done:
        if work.pinned_target is not None:
            self._changed(self._sources.overwritten(work.pinned_target))
        done = work.run(stream.number)
        for note in done.notes:
            self.warn(note, SampledResultWarning, work.site)
        stream.last = work.name, work.site
        if done.launch is not None:
            self.launches.append(done.launch)
            for message, kind in done.launch.warnings:
                self.warn(message, kind, work.site)
        if done.copied is not None:
            self.copy_report = self.copy_report.plus(*done.copied)
        return done

    def _note(self, work: Work, stream: Stream, done: Done, moment: Moment, before: Clock) -> None:
        if work.pinned_source is not None:
            self._sources.watch(work.pinned_source, work.name, work.site, moment)
        for race in self.races.add(work.name, stream.name, work.site, done.uses, moment, before, self.order.host):
            self.warn(str(race), StreamRaceWarning, work.site)

    def _learn(self, clock: Clock) -> None:
        self.order.learn(clock)
        self._changed(self._sources.check(self.order.host))

    # Refusing -------------------------------------------------------------------------------------------------------

    def only(self, call: str) -> None:
        """Refuse a call of the host side inside of a kernel."""
        if self._memory.running is not None:
            raise KernelError(
                f"kernel {self._memory.running!r} calls {call} in {caller()}: that is for the host; call it before or "
                "after the launch, and pass the arrays as arguments"
            )

    def stream_of(self, stream: Stream | None) -> Stream:
        """Return the stream that a call goes to: the default stream for ``None``."""
        if stream is None:
            return self.default_stream
        self.check_stream(stream)
        return stream

    def check_stream(self, stream: Stream) -> None:
        """Refuse what is no stream that this device can use."""
        if not isinstance(stream, Stream):
            raise StreamError(
                f"stream = {stream!r}, of type {type(stream).__name__}: give a stream of dev.stream(), or leave it out "
                "for the default stream where the call allows that; nbytes= and kind= come by name"
            )
        if stream._host is not self:
            raise StreamError(
                f"stream {stream.name!r} belongs to another device: make one with dev.stream() of this one"
            )
        if stream.destroyed:
            raise StreamError(f"stream {stream.name!r} was destroyed: make a new one with dev.stream()")

    def check_event(self, event: Event) -> None:
        """Refuse what is no event of this device."""
        if not isinstance(event, Event):
            raise StreamError(f"event = {event!r} is a {type(event).__name__}: give an event of dev.event()")
        if event.host is not self:
            raise StreamError(
                f"event {event.name!r} belongs to another device: devices do not wait for each other here; let the "
                "host wait in between, event.synchronize()"
            )

    def refuse_in_capture(self, call: str, why: str = WAITS) -> None:
        """Refuse a call that is illegal during a capture."""
        if self.capture is not None:
            raise StreamError(
                f"{call} during the capture of graph {self.capture.graph.name!r}: {why}; call it before or after the "
                "capture"
            )

    def refuse_legacy_in_capture(self, stream: Stream, what: str) -> None:
        """Refuse an operation in the legacy default stream during a capture."""
        if self.capture is not None and self._is_legacy(stream):
            raise StreamError(
                f"{what} goes to the legacy default stream during the capture of graph {self.capture.graph.name!r}: "
                "that stream waits for all others, which a graph cannot; name a captured stream in the call, for "
                f"example {self.capture.origin.name!r}"
            )

    def _is_legacy(self, stream: Stream) -> bool:
        return stream is self.default_stream and not self.program.per_thread_default

    # Warning --------------------------------------------------------------------------------------------------------

    def warn(self, message: str, kind: type[Warning], site: Site) -> None:
        """Keep a warning until the call is written down; then `tell`."""
        self.warnings.append(message)
        self._untold.append((message, kind, site))

    def tell(self) -> None:
        """Issue the warnings that were kept."""
        untold, self._untold = self._untold, []
        for message, kind, site in untold:
            warnings.warn_explicit(message, kind, site.filename or "<unknown>", site.line)

    def check_sources(self) -> None:
        """Warn of pinned sources that have changed since their copies were asked for."""
        self._changed(self._sources.changed())
        self.tell()

    def _changed(self, messages: Iterable[str]) -> None:
        for message in messages:
            self.warn(message, HostBufferChangedWarning, caller())

    def _warn_pageable(self, work: Work) -> None:
        place = work.site.filename, work.site.line
        if place not in self._pageable_lines:
            self._pageable_lines.add(place)
            self.warn(
                f"{work.name}: this copy is not asynchronous: the host array is pageable; allocate it with "
                "dev.pinned(shape, dtype)",
                PageableCopyWarning,
                work.site,
            )

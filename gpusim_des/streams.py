"""Streams and events, as a user holds them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpusim_des.errors import PendingWorkWarning, StreamError
from gpusim_des.functional.happens_before import Clock
from gpusim_des.functional.source import UNKNOWN, Site, caller
from gpusim_des.timeline import FS_PER_S
from gpusim_des.trace import HostProgram, HostStream, RecordEvent, Synchronize, WaitEvent

if TYPE_CHECKING:
    from gpusim_des.capture import Capture
    from gpusim_des.host_side import HostSide


class Stream:
    """A queue of operations that run one after the other; `Device.stream` makes it.

    Attributes
    ----------
    number, name
        As in the host program and the timeline.
    priority
        Lower numbers come first.
    blocking
        Whether it waits for the legacy default stream, and makes it wait.
    destroyed
        Whether it was given back.

    Examples
    --------
    >>> import numpy as np
    >>> import gpusim_des as gs
    >>> dev = gs.Device("tiny")
    >>> copies, kernels, copied = dev.stream(name="copies"), dev.stream(name="kernels"), dev.event()
    >>> host, a = dev.pinned(64, np.float32), dev.malloc(64, np.float32)
    >>> dev.memcpy_async(a, host, copies)
    >>> copied.record(copies)
    >>> kernels.wait_event(copied)
    >>> kernels.synchronize()
    >>> [type(command).__name__ for command in dev.program.commands]
    ['CopyMemory', 'RecordEvent', 'WaitEvent', 'Synchronize']
    """

    def __init__(self, host: HostSide, about: HostStream) -> None:
        self.number = about.number
        self.name = about.name
        self.priority = about.priority
        self.blocking = about.blocking
        self.destroyed = False
        self.last: tuple[str, Site] = "", UNKNOWN
        """Name and place of the last operation, for messages."""
        self._host = host

    def __repr__(self) -> str:
        state = ", destroyed" if self.destroyed else ""
        return f"<Stream {self.name!r} number={self.number} priority={self.priority}{state}>"

    def synchronize(self) -> None:
        """Let the host wait until everything in the stream so far is done."""
        host = self._host
        host.only("stream.synchronize")
        host.check_stream(self)
        host.refuse_in_capture("stream.synchronize")
        command = Synchronize(self.number, what="stream", line=caller().line)
        host.wait(command, host.order.done(self.number))

    def record(self, event: Event) -> None:
        """Record an event: it happens when everything in the stream so far is done."""
        self._host.check_event(event)
        event.record(self)

    def wait_event(self, event: Event) -> None:
        """Let everything that is issued to the stream from now on wait for the last record of an event so far.

        Raises
        ------
        StreamError
            For an event that nobody has recorded; CUDA would not wait at all.
        """
        host = self._host
        host.only("stream.wait_event")
        host.check_stream(self)
        host.check_event(event)
        mark = event.mark(f"stream {self.name!r} waits for")
        capture = host.capture
        if isinstance(mark, CapturedMark):
            if mark.capture is not capture:
                raise mark.stale(event)
            host.refuse_legacy_in_capture(self, f"stream.wait_event of event {event.name!r}")
            capture.join(self, mark.nodes)
            return
        if capture is not None and capture.takes(self):
            raise StreamError(
                f"stream {self.name!r} is captured into graph {capture.graph.name!r} and waits for event "
                f"{event.name!r}, which was recorded outside of the capture: a graph knows only its own operations; "
                "let the stream wait before the capture begins"
            )
        host.refuse_legacy_in_capture(self, f"stream.wait_event of event {event.name!r}")
        if mark.program is not host.program:
            return  # it happened before the program began
        host.order.wait(self.number, mark.clock)
        host.program.commands.append(WaitEvent(self.number, event=mark.number, line=caller().line))

    def destroy(self) -> None:
        """Give the stream back; warns if the host has never waited for work in it, which CUDA lets finish."""
        host = self._host
        host.only("stream.destroy")
        host.check_stream(self)
        if self is host.default_stream:
            raise StreamError("the default stream cannot be destroyed: destroy streams that dev.stream() made")
        if host.capture is not None and host.capture.takes(self):
            raise StreamError(
                f"stream {self.name!r} is captured into graph {host.capture.graph.name!r}: destroy it after the capture"
            )
        self.destroyed = True
        if host.order.pending(self.number):
            name, site = self.last
            host.warn(
                f"stream {self.name!r} is destroyed with work that the host has not waited for, last {name} ({site}): "
                "it will finish, but only dev.synchronize() can wait for it now; call stream.synchronize() first",
                PendingWorkWarning,
                caller(),
            )
            host.tell()


@dataclass(frozen=True, eq=False)
class Mark:
    """One record of an event."""

    number: int
    clock: Clock
    program: HostProgram


@dataclass(frozen=True, eq=False)
class CapturedMark:
    """A record of an event during a capture: it orders nodes of the graph."""

    capture: Capture
    nodes: tuple[int, ...]

    def stale(self, event: Event) -> StreamError:
        """Error of a use outside of the capture."""
        return StreamError(
            f"event {event.name!r} was last recorded in the capture of graph {self.capture.graph.name!r}: such a "
            "record orders the graph and never happens; record it again outside of the capture"
        )


class Event:
    """A point in a stream that other streams and the host can wait for; `Device.event` makes it.

    An event can be recorded again: whoever waits, waits for the last record at the time of the call.

    Attributes
    ----------
    name
        For messages.
    """

    def __init__(self, host: HostSide, name: str) -> None:
        self.name = name
        self._host = host
        self._mark: Mark | CapturedMark | None = None

    def __repr__(self) -> str:
        return f"<Event {self.name!r}{', never recorded' if self._mark is None else ''}>"

    @property
    def host(self) -> HostSide:
        """Host side of the device that it belongs to."""
        return self._host

    @property
    def number(self) -> int | None:
        """Number of the last record, as in the host program; ``None`` before, and after a record in a capture."""
        return self._mark.number if isinstance(self._mark, Mark) else None

    def record(self, stream: Stream | None = None) -> None:
        """Let the event happen when everything in the stream so far is done; the default stream if none is given."""
        host = self._host
        host.only("event.record")
        where = host.stream_of(stream)
        if host.capture is not None and host.capture.takes(where):
            self._mark = CapturedMark(host.capture, host.capture.record(where))
            return
        host.refuse_legacy_in_capture(where, f"event.record of event {self.name!r}")
        self._mark = Mark(host.next_record(), host.order.record(where.number), host.program)
        host.program.commands.append(RecordEvent(where.number, event=self._mark.number, line=caller().line))

    def synchronize(self) -> None:
        """Let the host wait until the last record has happened.

        Raises
        ------
        StreamError
            For an event that nobody has recorded; CUDA would not wait at all.
        """
        host = self._host
        host.only("event.synchronize")
        host.refuse_in_capture("event.synchronize")
        mark = self.mark("the host waits for")
        if isinstance(mark, CapturedMark):
            raise mark.stale(self)
        if mark.program is host.program:
            host.wait(Synchronize(what="event", event=mark.number, line=caller().line), mark.clock)

    def elapsed(self, later: Event) -> float:
        """Seconds from this event to another one, in the last simulation; each counts from its last record.

        Raises
        ------
        StreamError
            If one of the two was never recorded, or not simulated since.
        """
        self._host.check_event(later)
        start, end = self._simulated_fs(), later._simulated_fs()
        return (end - start) / FS_PER_S

    @property
    def has_time(self) -> bool:
        """Whether its last record was simulated, so that `elapsed` can tell its time."""
        return isinstance(self._mark, Mark) and self._mark.number in self._host.event_times_fs

    def mark(self, who: str) -> Mark | CapturedMark:
        """Last record; `who` wants it, for the message if there is none."""
        if self._mark is None:
            raise StreamError(
                f"{who} event {self.name!r}, which nobody has recorded: record it first, event.record(stream)"
            )
        return self._mark

    def _simulated_fs(self) -> int:
        mark = self.mark("elapsed asks for the time of")
        if isinstance(mark, CapturedMark):
            raise mark.stale(self)
        if mark.number not in self._host.event_times_fs:
            raise StreamError(
                f"event {self.name!r} has no time yet: nothing was simulated since it was recorded; call "
                "dev.simulate() first"
            )
        return self._host.event_times_fs[mark.number]

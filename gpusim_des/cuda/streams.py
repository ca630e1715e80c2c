"""Streams and events under the names of ``numba.cuda``; the time between two events is simulated."""

from __future__ import annotations

from typing import Any

from gpusim_des import streams
from gpusim_des.cuda.current import device
from gpusim_des.errors import StreamError


class Stream:
    """A queue of operations that run one after the other; `stream` makes it.

    Attributes
    ----------
    inner
        The `gpusim_des.Stream` behind it.
    """

    def __init__(self, inner: streams.Stream) -> None:
        self.inner = inner

    def __repr__(self) -> str:
        return repr(self.inner)

    def synchronize(self) -> None:
        """Let the host wait until everything in the stream so far is done."""
        self.inner.synchronize()

    def auto_synchronize(self) -> AutoSynchronize:
        """Wait for the stream at the end of a ``with`` block."""
        return AutoSynchronize(self)


class AutoSynchronize:
    """A ``with`` block at whose end the host waits for a stream."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def __enter__(self) -> Stream:
        return self._stream

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._stream.synchronize()


def stream() -> Stream:
    """Make a stream."""
    return Stream(device().stream())


def default_stream() -> Stream:
    """Return the stream of calls that name none."""
    return Stream(device().default_stream)


def synchronize() -> None:
    """Let the host wait for everything that the device was asked for."""
    device().synchronize()


def inner_of(given: Any) -> streams.Stream | None:
    """Stream of the device behind what a user gives; 0 and ``None`` are the default stream.

    Raises
    ------
    StreamError
        For what is no stream.
    """
    if given is None or (isinstance(given, int) and given == 0):
        return None
    if isinstance(given, Stream):
        return given.inner
    if isinstance(given, streams.Stream):
        return given
    raise StreamError(f"stream = {given!r}: give one that cuda.stream() made, or 0 for the default stream")


class Event:
    """A point in a stream; `event` makes it."""

    def __init__(self, inner: streams.Event) -> None:
        self.inner = inner

    def __repr__(self) -> str:
        return repr(self.inner)

    def record(self, stream: Any = 0) -> None:
        """Let the event happen when everything in the stream so far is done."""
        self.inner.record(inner_of(stream))

    def wait(self, stream: Any = 0) -> None:
        """Let what is issued to the stream from now on wait for the event."""
        (inner_of(stream) or device().default_stream).wait_event(self.inner)

    def synchronize(self) -> None:
        """Let the host wait for the event."""
        self.inner.synchronize()

    def query(self) -> bool:
        """Tell that the work before the event is done: results are computed at once."""
        self.inner.mark("query asks for")
        return True

    def elapsed_time(self, evtend: Event) -> float:
        """Milliseconds from this event to another one, in simulated time; simulates what was asked for if need be.

        Raises
        ------
        StreamError
            If one of the two was never recorded.
        """
        if not isinstance(evtend, Event):
            raise StreamError(f"elapsed_time to {evtend!r}: give an event that cuda.event() made")
        return event_elapsed_time(self, evtend)


def event(timing: bool = True) -> Event:  # noqa: ARG001 - every event has a time
    """Make an event; nobody has recorded it yet."""
    return Event(device().event())


def event_elapsed_time(evtstart: Event, evtend: Event) -> float:
    """Milliseconds between two events, as `Event.elapsed_time`.

    Examples
    --------
    >>> import numpy as np
    >>> from gpusim_des import cuda
    >>> _ = cuda.select("tiny")
    >>> start, end = cuda.event(), cuda.event()
    >>> start.record()
    >>> _ = cuda.to_device(np.zeros(1 << 20, np.uint8))
    >>> end.record()
    >>> 0.01 < cuda.event_elapsed_time(start, end) < 10
    True
    """
    for one in (evtstart, evtend):
        one.inner.mark("elapsed_time asks for the time of")
    if not (evtstart.inner.has_time and evtend.inner.has_time):
        device().simulate(detail="kernel")
    return evtstart.inner.elapsed(evtend.inner) * 1e3

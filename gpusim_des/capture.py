"""The capture of streams into a graph: operations are written down with what they wait for, and do not run."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from gpusim_des.device_work import Work
from gpusim_des.errors import StreamError
from gpusim_des.graph import Graph, Node

if TYPE_CHECKING:
    from gpusim_des.host_side import HostSide
    from gpusim_des.streams import Stream


class Capture:
    """A capture that begins in one stream and reaches others through events; a context manager.

    Attributes
    ----------
    graph
        What is captured.
    origin
        The stream in which it begins and ends.
    """

    def __init__(self, host: HostSide, origin: Stream, name: str) -> None:
        self.graph = Graph(host, name)
        self.origin = origin
        self._host = host
        self._streams = {origin.number: origin}
        self._last: dict[int, tuple[int, ...]] = {origin.number: ()}
        """Nodes that the next one in a stream waits for."""

    def __enter__(self) -> Graph:
        self._host.begin_capture(self)
        return self.graph

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._host.capture = None
        self.graph.end(complete=False)
        if error is None:
            self._check_joined()
            self.graph.end(complete=True)

    def takes(self, stream: Stream) -> bool:
        """Tell whether a stream takes part."""
        return stream.number in self._last

    def add(self, stream: Stream, work: Work) -> None:
        """Write down an operation in a stream that takes part."""
        if work.pageable:
            raise StreamError(
                f"{work.name} in the capture of graph {self.graph.name!r}: its host array is pageable, and such a copy "
                "makes the host wait; allocate it with dev.pinned(shape, dtype)"
            )
        self.graph.nodes.append(Node(work, stream.number, self._last[stream.number]))
        self._last[stream.number] = (len(self.graph.nodes) - 1,)

    def record(self, stream: Stream) -> tuple[int, ...]:
        """Nodes that whoever waits for an event recorded now in this stream waits for."""
        return self._last[stream.number]

    def join(self, stream: Stream, nodes: tuple[int, ...]) -> None:
        """Let a stream wait for nodes; it takes part from now on."""
        self._streams.setdefault(stream.number, stream)
        self._last[stream.number] = tuple(sorted({*self._last.get(stream.number, ()), *nodes}))

    def _check_joined(self) -> None:
        """Refuse a graph whose end in the origin does not wait for all of it, as CUDA does."""
        reached = set(self._last[self.origin.number])
        for number in range(len(self.graph.nodes) - 1, -1, -1):
            if number in reached:
                reached.update(self.graph.nodes[number].after)
        for number, nodes in self._last.items():
            for node in set(nodes) - reached:
                stream, work = self._streams[number].name, self.graph.nodes[node].work
                raise StreamError(
                    f"capture of graph {self.graph.name!r}: stream {stream!r} joined it, but at its end stream "
                    f"{self.origin.name!r} does not wait for {work.name} ({work.site}) in {stream!r}; record an event "
                    f"after it, and let {self.origin.name!r} wait, stream.wait_event(event), before the capture ends"
                )

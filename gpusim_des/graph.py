"""Graphs: kernels, copies and memsets with what each waits for, launched as a whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from gpusim_des.device_work import Work
from gpusim_des.errors import DeviceMemoryError, StreamError
from gpusim_des.launched import Launch

if TYPE_CHECKING:
    from gpusim_des.host_side import HostSide
    from gpusim_des.streams import Stream


@dataclass(frozen=True, eq=False)
class Node:
    """An operation of a graph."""

    work: Work
    captured_from: int
    """Number of the stream that it was issued to during the capture."""
    after: tuple[int, ...]
    """Numbers of the earlier nodes that it waits for."""

    @property
    def name(self) -> str:
        """``kernel 'scale'``, ``copy h2d 'a'``, ``memset 'a'``."""
        return self.work.name


class Graph:
    """What a capture recorded; `Device.capture` makes it.

    Arguments and arrays are those of the capture. What arrays hold is read at each launch.

    Attributes
    ----------
    name
        For messages and the timeline.
    nodes
        Operations in the order in which they were captured.

    Examples
    --------
    >>> import numpy as np
    >>> import gpusim_des as gs
    >>> dev = gs.Device("tiny")
    >>> stream, host = dev.stream(), dev.pinned(4, np.int32)
    >>> a = dev.malloc(4, np.int32, "a")
    >>> with dev.capture(stream) as graph:
    ...     dev.memset_async(a, 0, stream)
    ...     dev.memcpy_async(host, a, stream)
    >>> [(node.name, node.after) for node in graph.nodes]
    [("memset 'a'", ()), ("copy d2h 'a'", (0,))]
    >>> host[:] = 7
    >>> graph.launch(stream)
    []
    >>> stream.synchronize()
    >>> host.tolist()
    [0, 0, 0, 0]
    """

    def __init__(self, host: HostSide, name: str) -> None:
        self.name = name
        self.nodes: list[Node] = []
        self._state: Literal["open", "complete", "abandoned"] = "open"
        self._host = host

    def __repr__(self) -> str:
        return f"<Graph {self.name!r}, {len(self.nodes)} node{'s' if len(self.nodes) != 1 else ''}, {self._state}>"

    def launch(self, stream: Stream | None = None) -> list[Launch]:
        """Run all nodes, in an order that their dependencies allow; returns the launches of its kernels.

        Raises
        ------
        StreamError
            If the capture is not over or failed, or for a stream that was destroyed or is another device's.
        DeviceMemoryError
            If an array of the graph was freed.
        """
        return self._host.launch_graph(self, stream)

    @property
    def ended(self) -> bool:
        """Whether its capture is over."""
        return self._state != "open"

    def end(self, *, complete: bool) -> None:
        """Close the graph, for the capture."""
        self._state = "complete" if complete else "abandoned"

    def check(self, host: HostSide) -> None:
        """Refuse what cannot be launched on the device with this host side."""
        if self._host is not host:
            raise StreamError(f"graph {self.name!r} belongs to another device: capture it on the one that runs it")
        if self._state == "open":
            raise StreamError(
                f"graph {self.name!r} is still being captured: launch it after the block `with dev.capture(stream)`"
            )
        if self._state == "abandoned":
            raise StreamError(
                f"the capture of graph {self.name!r} failed: there is nothing to launch, capture it again"
            )
        for node in self.nodes:
            for array in node.work.arrays:
                if array.freed:
                    raise DeviceMemoryError(
                        f"{node.name} of graph {self.name!r} uses array {array.name!r}, which was freed: keep the "
                        "arrays of a graph as long as it is launched, or capture it again"
                    )

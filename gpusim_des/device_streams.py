"""Streams, events, asynchronous copies and graphs: CUDA's calls of the host side."""

from __future__ import annotations

import math
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import DTypeLike, NDArray

from gpusim_des.capture import Capture
from gpusim_des.device_memory import MemoryFace
from gpusim_des.device_work import copy_work, memset_work
from gpusim_des.errors import StreamError
from gpusim_des.functional import pinned
from gpusim_des.functional.allocator import Shape
from gpusim_des.functional.memory import DeviceArray
from gpusim_des.functional.source import caller
from gpusim_des.functional.stream_races import StreamRace
from gpusim_des.functional.transfers import CopyKind
from gpusim_des.graph import Graph
from gpusim_des.launched import Mistake
from gpusim_des.streams import Event, Stream
from gpusim_des.timeline import FS_PER_S
from gpusim_des.trace import HostProgram, HostWork


class StreamFace(MemoryFace):
    """The calls of a `Device` that put work into streams and wait for it.

    Results are computed at once, in the order of the calls; the program that is written down on the way says what a
    GPU would wait for.
    """

    # Streams and events ---------------------------------------------------------------------------------------------

    @property
    def program(self) -> HostProgram:
        """What the device was asked for so far, call by call; `Device.forget_launches` begins a new one."""
        return self._host.program

    @property
    def default_stream(self) -> Stream:
        """The stream of calls that name none."""
        return self._host.default_stream

    def stream(self, priority: int = 0, name: str | None = None, blocking: bool = True) -> Stream:
        """Make a stream.

        Parameters
        ----------
        priority
            Lower numbers come first.
        name
            For messages and the timeline; ``stream 1``, ``stream 2``, … where not given.
        blocking
            Whether it waits for the legacy default stream, and makes it wait (false: ``cudaStreamNonBlocking``).
        """
        self._host_only("stream")
        if name is not None and not isinstance(name, str):
            raise StreamError(f"stream name = {name!r}: give a text, or leave it out")
        if not isinstance(blocking, bool):
            raise StreamError(f"stream blocking = {blocking!r}: give True or False")
        if isinstance(priority, bool) or not isinstance(priority, int | np.integer):
            raise StreamError(f"priority = {priority!r}: a whole number, lower ones come first; 0 is the usual one")
        return self._host.new_stream(int(priority), name, blocking=bool(blocking))

    def event(self, name: str | None = None) -> Event:
        """Make an event; nobody has recorded it yet."""
        self._host_only("event")
        return self._host.new_event(name)

    def synchronize(self) -> None:
        """Let the host wait for everything that the device was asked for."""
        self._host_only("synchronize")
        self._host.refuse_in_capture("dev.synchronize")
        self._host.wait_for_all(caller().line)

    def host_work(self, seconds: float, name: str = "host work") -> None:
        """Let the host compute for a while; the device goes on meanwhile.

        Examples
        --------
        >>> import gpusim_des as gs
        >>> dev = gs.Device("tiny")
        >>> dev.host_work(2e-6, "prepare")
        >>> dev.program.commands[0].femtoseconds
        2000000000
        """
        self._host_only("host_work")
        if isinstance(seconds, bool) or not isinstance(seconds, int | float | np.integer | np.floating):
            raise StreamError(f"host_work seconds = {seconds!r} is a {type(seconds).__name__}: give a number")
        if not math.isfinite(seconds) or seconds < 0:
            raise StreamError(f"host_work seconds = {seconds!r}: must be finite and at least 0")
        if not isinstance(name, str):
            raise StreamError(f"host_work name = {name!r}: give a text")
        femtoseconds = round(float(seconds) * FS_PER_S)
        self.program.commands.append(HostWork(femtoseconds=femtoseconds, name=name, line=caller().line))

    # Asynchronous copies --------------------------------------------------------------------------------------------

    def memcpy_async(
        self,
        dst: DeviceArray | NDArray[Any],
        src: DeviceArray | NDArray[Any],
        stream: Stream | None = None,
        nbytes: SupportsIndex | None = None,
        kind: CopyKind | None = None,
    ) -> None:
        """Copy as `memcpy` does, in a stream, without waiting; the host array must be pinned for that.

        A copy of pageable memory is staged, and the host waits for it: `PageableCopyWarning` says so once per line.
        A pinned source must not change before the copy is known to be done (`HostBufferChangedWarning`).
        """
        self._host_only("memcpy_async")
        where = self._host.stream_of(stream)
        work = copy_work(self._memory, dst, src, nbytes, kind, site=caller(), blocking=False)
        self._host.issue(where, work)

    def memset_async(
        self,
        array: DeviceArray,
        value: SupportsIndex,
        stream: Stream | None = None,
        nbytes: SupportsIndex | None = None,
    ) -> None:
        """Set bytes as `memset` does, in a stream."""
        self._host_only("memset_async")
        where = self._host.stream_of(stream)
        self._check(array)
        self._host.issue(where, memset_work(self._memory, array, value, nbytes, site=caller()))

    def pinned(self, shape: Shape, dtype: DTypeLike = np.float32) -> NDArray[Any]:
        """Make a host array of zeros in page-locked memory, which the device copies by itself.

        Examples
        --------
        >>> import gpusim_des as gs
        >>> dev = gs.Device("tiny")
        >>> host = dev.pinned((4, 1024))
        >>> dev.is_pinned(host[2]), dev.is_pinned(np.zeros(1024, np.float32))
        (True, False)
        """
        self._host_only("pinned")
        return pinned.allocate(shape, dtype)

    @staticmethod
    def is_pinned(array: NDArray[Any]) -> bool:
        """Tell whether a host array lies in memory that `pinned` made; views of such arrays do."""
        return isinstance(array, np.ndarray) and pinned.is_pinned(array)

    # Graphs ---------------------------------------------------------------------------------------------------------

    def capture(self, stream: Stream, name: str | None = None) -> Capture:
        """Record what is issued to a stream into a graph, instead of running it, in a ``with`` block.

        Streams that wait for an event of the capture take part from then on; at the end of the block the first stream
        must wait for all of them. Kernels, asynchronous copies of pinned memory and memsets can be captured; what
        makes the host wait, or goes to the legacy default stream, is refused meanwhile.

        Examples
        --------
        >>> import gpusim_des as gs
        >>> dev = gs.Device("tiny")
        >>> first, second, fork, join = dev.stream(), dev.stream(), dev.event(), dev.event()
        >>> a, b = dev.malloc(4), dev.malloc(4)
        >>> with dev.capture(first) as graph:
        ...     fork.record(first)
        ...     second.wait_event(fork)
        ...     dev.memset_async(a, 0, first)
        ...     dev.memset_async(b, 0, second)
        ...     join.record(second)
        ...     first.wait_event(join)
        ...     dev.memcpy_async(a, b, first)
        >>> [node.after for node in graph.nodes]
        [(), (), (0, 1)]
        >>> graph.launch(first)
        []
        >>> dev.to_host(a).tolist()
        [0.0, 0.0, 0.0, 0.0]
        """
        self._host_only("capture")
        self._host.check_stream(stream)
        return self._host.new_capture(stream, name)

    def instantiate(self, graph: Graph) -> Graph:
        """Check that a graph can be launched and return it: here nothing is left to prepare."""
        self._host_only("instantiate")
        if not isinstance(graph, Graph):
            raise StreamError(
                f"instantiate of a {type(graph).__name__}: give the graph of a capture, dev.capture(stream)"
            )
        graph.check(self._host)
        return graph

    # Reports --------------------------------------------------------------------------------------------------------

    def stream_races(self) -> list[StreamRace]:
        """Pairs of operations on one array, at least one writing, that nothing puts in order.

        Each pair of calls is reported once, with its `count` of pairs that met, and warned of (`StreamRaceWarning`)
        when it is found; the first 100 are kept. What kernels read and wrote is taken from their run, as one span per
        array: kernels that work on alternating elements of one array are reported, those that work on neighbouring
        parts are not.

        Examples
        --------
        >>> import warnings
        >>> import gpusim_des as gs
        >>> dev = gs.Device("tiny")
        >>> a = dev.malloc(64, np.float32, "a")
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     for name in ("left", "right"):
        ...         dev.memset_async(a, 0, dev.stream(name=name))
        >>> [(race.array, race.element, race.first.stream, race.second.stream) for race in dev.stream_races()]
        [('a', (0,), 'left', 'right')]
        """
        return list(self._host.races.found)

    @property
    def unreported_stream_races(self) -> int:
        """How often operations raced of which no report was kept, because there were too many."""
        return self._host.races.found.left_out.total()

    def mistakes(self) -> tuple[Mistake | StreamRace, ...]:
        """Everything that was found wrong so far: in the kernels, in the order of the launches, then between streams.

        Examples
        --------
        >>> import warnings
        >>> import gpusim_des as gs
        >>> @gs.block_kernel
        ... def double(blk, a):
        ...     blk.store(a, blk.tid, 2 * blk.load(a, blk.tid))
        >>> dev = gs.Device("tiny")
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     launch = dev.launch(double, 1, 32, dev.malloc(32, name="a"))
        >>> [str(mistake).splitlines()[0][:51] for mistake in dev.mistakes()]
        ['read of global array a[0], which nobody has written']
        """
        launched = (mistake for launch in self._host.launches for mistake in launch.mistakes)
        return (*launched, *self._host.races.found)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the host side warned of so far: pageable copies, races, changed buffers, streams with work."""
        return tuple(self._host.warnings)

    @property
    def _event_times_fs(self) -> dict[int, int]:
        """When each record of an event happened in the last simulation, by its number in the program."""
        return self._host.event_times_fs

    @_event_times_fs.setter
    def _event_times_fs(self, times: dict[int, int]) -> None:
        self._host.event_times_fs = times

"""What prevented operations from running at once, or the device from having work: each with its cost and a remedy."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from gpusim_des.timeline.busy import busy_fs, serial_fs
from gpusim_des.timeline.operations import FS_PER_S, Operation
from gpusim_des.timeline.timeline import Timeline
from gpusim_des.units import duration

NOT_ASYNCHRONOUS = "this copy is not asynchronous: the host array is pageable"

NONE_ASYNCHRONOUS = "these copies are not asynchronous: the host arrays are pageable"

REASONS = {
    "copy engine": (
        "{engine}, busy with the other direction",
        "issue copies of both directions in the order in which they can run: this GPU has one engine for both",
    ),
    "hardware queue": (
        "a turn in the hardware queue that streams share",
        "issue the operations of different streams in turns, or use fewer streams",
    ),
    "default stream": (
        "the default stream, which waits for the others and makes them wait",
        "use streams of dev.stream() only, or default_stream='per-thread'",
    ),
    "kernel slot": ("the end of another kernel: no more run at once", "launch fewer and larger kernels"),
    "SMs": ("room on the SMs", "launch fewer blocks that stride over the data, so that there is room for both"),
    "event": ("an event", ""),
}
"""Reasons to wait that keep operations of different streams apart, and remedies; an event is waited for on purpose.

The order within a stream or a graph is what the program asked for, and latencies do not depend on what else runs.
"""


@dataclass(frozen=True)
class Obstacle:
    """Something that kept operations apart, or the device idle."""

    check: str
    """Its kind in a word, for example ``pageable_copies``."""
    seconds: float
    """What it cost."""
    finding: str
    remedy: str = ""
    """Empty for what the program asks for on purpose."""
    line: int = 0
    """Source line of the call that it cost most; 0 if there is no such call."""
    says_remedy: bool = False
    """The remedy is a part of the note."""

    @property
    def note(self) -> str:
        """Both in one sentence."""
        return f"{self.finding}: {self.remedy}" if self.says_remedy else self.finding


def obstacles(timeline: Timeline) -> list[Obstacle]:
    """Find what prevented overlap in a timeline, worst first.

    Examples
    --------
    >>> copy = Operation(0, "h2d", "h2d a", 1, 0, 0, 3 * 10**9, pageable=True)
    >>> kernel = Operation(1, "kernel", "k", 2, 0, 3 * 10**9, 5 * 10**9)
    >>> found = obstacles(Timeline("tiny", 2, 500_000, operations=(copy, kernel)))
    >>> [(obstacle.check, obstacle.seconds) for obstacle in found]
    [('pageable_copies', 3e-06)]
    """
    found = [*_waits(timeline), *_launch_bound(timeline)]
    if len({o.kind for o in timeline.operations}) > 1:  # otherwise nothing could have overlapped
        found += [*_blocking(timeline.operations), *_one_stream(timeline), *_host_waits(timeline)]
        found += _late_signals(timeline)
    return sorted(found, key=lambda obstacle: -obstacle.seconds)


def _launch_bound(timeline: Timeline) -> Iterator[Obstacle]:
    """Find programs in which the device mostly waits for the host's calls and for kernels to start."""
    idle = timeline.end_fs - busy_fs(timeline.operations)
    kernels = [o for o in timeline.operations if o.kind == "kernel"]
    if len(kernels) > 1 and 2 * idle > timeline.end_fs:
        mean = sum(o.seconds for o in kernels) / len(kernels)
        sentence = (
            f"launch-bound: nothing ran on the device for {duration(idle / FS_PER_S)}, {len(kernels)} kernels of "
            f"{duration(mean)} each are too short for the calls and gaps between them"
        )
        remedy = "merge kernels, or use a graph"
        yield Obstacle("launch_bound", idle / FS_PER_S, sentence, remedy, kernels[0].line, says_remedy=True)


def _blocking(operations: Sequence[Operation]) -> Iterator[Obstacle]:
    pageable = [o for o in operations if o.pageable and not o.blocking]
    if pageable:
        cost = sum(o.seconds for o in pageable)
        what = NOT_ASYNCHRONOUS if len(pageable) == 1 else NONE_ASYNCHRONOUS
        sentence = f"{_names(pageable)}: {what}, which blocked the host for {duration(cost)}"
        remedy = "copy from and to dev.pinned(shape, dtype)"
        yield Obstacle("pageable_copies", cost, sentence, remedy, _longest(pageable).line)
    blocking = [o for o in operations if o.blocking]
    if blocking:
        cost = sum(o.seconds for o in blocking)
        sentence = f"{_names(blocking)}: the host waited {duration(cost)} for the end of the copy, as asked"
        remedy = "memcpy_async with pinned memory goes on at once"
        yield Obstacle("blocking_copies", cost, sentence, remedy, _longest(blocking).line, says_remedy=True)


def _longest(operations: Sequence[Operation]) -> Operation:
    return max(operations, key=lambda o: o.end_fs - o.start_fs)


def _one_stream(timeline: Timeline) -> Iterator[Obstacle]:
    operations = timeline.operations
    streams = {o.stream for o in operations}
    serial = serial_fs(operations)
    if len(streams) == 1 and serial == busy_fs(operations):  # the nodes of a graph may overlap in one stream
        longest = max(busy_fs(o for o in operations if o.kind == kind) for kind in {o.kind for o in operations})
        sentence = (
            f"all {len(operations)} operations are in {_stream(timeline, *streams)}, which runs them one after another"
        )
        yield Obstacle("one_stream", (serial - longest) / FS_PER_S, sentence, "use several streams", says_remedy=True)


def _host_waits(timeline: Timeline) -> Iterator[Obstacle]:
    last = max(o.issued_fs for o in timeline.operations)
    waits = [h for h in timeline.host if h.waits and h.name.startswith("synchronize") and h.end_fs <= last]
    cost = sum(h.end_fs - h.start_fs for h in waits) / FS_PER_S
    if cost:
        calls = ", ".join(_counted(h.name for h in waits))
        sentence = f"the host waited {duration(cost)} ({calls}) before it issued more work"
        line = max(waits, key=lambda h: h.end_fs - h.start_fs).line
        yield Obstacle("early_wait", cost, sentence, "issue all work first, or let a stream wait for an event", line)


def _late_signals(timeline: Timeline) -> Iterator[Obstacle]:
    """Find copies that started long after the kernel before them in their stream: the device had not told its end."""
    kernels: dict[int, Operation] = {}
    late: list[tuple[Operation, Operation]] = []
    for o in timeline.operations:  # in the order of issue
        if o.kind == "kernel":
            kernels[o.stream] = o
        elif o.wait_reason == "stream order" and o.stream in kernels:
            kernel = kernels[o.stream]
            if o.waited_for == kernel.name and max(o.issued_fs, kernel.end_fs) < o.start_fs:
                late.append((o, kernel))
    if late:
        costs = [o.start_fs - max(o.issued_fs, kernel.end_fs) for o, kernel in late]
        cost = sum(costs) / FS_PER_S
        o, kernel = late[costs.index(max(costs))]
        what = f"{o.name} in {_stream(timeline, o.stream)} waited {duration(max(costs) / FS_PER_S)} after the end of "
        more = f" ({len(late)} such waits, {duration(cost)} in all)" if len(late) > 1 else ""
        why = "this chip signals the ends of kernels issued one after another together"
        sentence = f"{what}kernel {kernel.name}{more}; {why}"
        yield Obstacle("late_signal", cost, sentence, "issue each copy behind its kernel", o.line, says_remedy=True)


def _waits(timeline: Timeline) -> list[Obstacle]:
    kinds = {o.name: o.kind for o in timeline.operations}
    groups: dict[tuple[str, str, str], list[Operation]] = defaultdict(list)
    for o in timeline.operations:
        # A copy behind copies of its own direction waits because the link is busy, not because overlap failed.
        if o.last_wait_s and (o.wait_reason != "copy engine" or kinds.get(o.waited_for) != o.kind):
            what, remedy = REASONS.get(o.wait_reason, ("", ""))
            groups[o.wait_reason, what.format(engine=o.engine), remedy].append(o)
    return [_wait(timeline, *key, group) for key, group in groups.items() if key[1]]


def _wait(timeline: Timeline, reason: str, what: str, remedy: str, group: Sequence[Operation]) -> Obstacle:
    worst = max(group, key=lambda o: o.last_wait_s)
    who = f"{'kernel ' * (worst.kind == 'kernel')}{worst.name} in {_stream(timeline, worst.stream)}"
    behind = f" ({worst.waited_for})" * bool(worst.waited_for)
    cost = sum(o.last_wait_s for o in group)
    if len(group) == 1:
        sentence = f"{who} waited {duration(cost)} for {what}{behind}"
    else:
        longest = f"{who}: {duration(worst.last_wait_s)}{behind}"
        sentence = f"{len(group)} operations waited {duration(cost)} in all for {what}, longest {longest}"
    return Obstacle(f"no_overlap_{reason.replace(' ', '_').lower()}", cost, sentence, remedy, worst.line)


def _stream(timeline: Timeline, number: int) -> str:
    name = timeline.stream_name(number)
    if name == "default stream":
        return f"the {name}"
    return name if name == f"stream {number}" else f"stream {name!r}"


def _names(operations: Sequence[Operation]) -> str:
    counted = _counted(o.name for o in operations)
    return ", ".join(counted[:3]) + (f" and {len(counted) - 3} more" if len(counted) > 3 else "")


def _counted(names: Iterable[str]) -> list[str]:
    return [f"{number} × {name}" if number > 1 else name for name, number in Counter(names).items()]

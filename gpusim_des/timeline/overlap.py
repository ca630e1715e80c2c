"""How much of a program ran at once, what that gained, and what prevented more."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from gpusim_des.timeline.operations import FS_PER_S, Operation
from gpusim_des.timeline.timeline import Timeline
from gpusim_des.units import duration

NOT_ASYNCHRONOUS = "this copy is not asynchronous: the host array is pageable"

NONE_ASYNCHRONOUS = "these copies are not asynchronous: the host arrays are pageable"

REASONS = {
    "copy engine": "{engine}, busy with the other direction",
    "hardware queue": "a turn in the hardware queue that streams share",
    "default stream": "the default stream, which waits for the others and makes them wait",
    "kernel slot": "the end of another kernel: no more run at once",
    "SMs": "room on the SMs",
    "event": "an event",
}
"""Reasons to wait that keep operations of different streams apart. The order within a stream or a graph is what the
program asked for, and latencies do not depend on what else runs."""


@dataclass(frozen=True)
class Overlap:
    """What ran at once, from the first call of the host to the end of everything; times in seconds.

    Busy times are those in which at least one operation of the kind ran. `copy_and_compute_s` and `both_copies_s`
    include `all_three_s`.
    """

    total_s: float
    serial_s: float
    """Durations of all operations, one after the other."""
    ideal_s: float
    """Busy time of the busiest unit: a copy engine, the SMs, HBM. No order of issue can be faster."""
    h2d_s: float
    d2h_s: float
    kernels_s: float
    both_copies_s: float
    copy_and_compute_s: float
    all_three_s: float
    in_memory_s: float = 0.0
    """Copies within the device and memsets."""
    idle_s: float = 0.0
    """Nothing ran on the device."""
    notes: tuple[str, ...] = ()
    """What prevented overlap, worst first."""

    @property
    def speedup(self) -> float:
        """Serial sum over the total; below 1 where calls and latencies cost more than overlap gained."""
        return self.serial_s / self.total_s if self.total_s else 1.0

    @property
    def best_speedup(self) -> float:
        """Serial sum over the ideal."""
        return self.serial_s / self.ideal_s if self.ideal_s else 1.0

    def __str__(self) -> str:
        def row(name: str, seconds: float, remark: str = "") -> str:
            share = f"{seconds / self.total_s:5.0%}" if self.total_s else ""
            return f"{name:<20} {duration(seconds):>9} {share:>6}  {remark}".rstrip()

        gain = f"speed-up {self.speedup:.2f}" if self.speedup >= 1 else "no speed-up: calls and latencies cost more"
        rows = [
            row("total", self.total_s),
            row("one after the other", self.serial_s, gain),
            row("ideal overlap", self.ideal_s, f"speed-up {self.best_speedup:.2f}"),
            row("copies to device", self.h2d_s),
            row("copies to host", self.d2h_s),
            row("kernels", self.kernels_s),
            *([row("within the device", self.in_memory_s)] if self.in_memory_s else []),
            row("both directions", self.both_copies_s),
            row("copy and kernel", self.copy_and_compute_s),
            row("all three", self.all_three_s),
            row("nothing", self.idle_s),
        ]
        return "\n".join([*rows, *(f"- {note}" for note in self.notes)])


def overlap(timeline: Timeline) -> Overlap:
    """Tell how much of a timeline's copies and kernels ran at once, and what prevented more.

    Examples
    --------
    Two copies of 3 µs, one to the device and one to the host, of which the second begins 1 µs after the first:

    >>> copies = [("h2d", 0, 3), ("d2h", 1, 4)]
    >>> timeline = Timeline("tiny", 2, 500_000, operations=tuple(
    ...     Operation(n, kind, kind + " a", n, 0, start * 10**9, end * 10**9, engine=f"copy engine {n}")
    ...     for n, (kind, start, end) in enumerate(copies)))
    >>> print(overlap(timeline))
    total                     4 µs   100%
    one after the other       6 µs   150%  speed-up 1.50
    ideal overlap             3 µs    75%  speed-up 2.00
    copies to device          3 µs    75%
    copies to host            3 µs    75%
    kernels                   0 µs     0%
    both directions           2 µs    50%
    copy and kernel           0 µs     0%
    all three                 0 µs     0%
    nothing                   0 µs     0%
    """
    operations = timeline.operations
    times = _times(operations)
    units: dict[str, list[Operation]] = defaultdict(list)
    for operation in operations:
        # One engine for both directions is one unit; without an engine the kind says what it occupies.
        units[operation.engine or operation.kind].append(operation)

    def seconds(*wanted: set[str]) -> float:
        """Time in which all kinds of one of the sets ran."""
        return sum(fs for kinds, fs in times.items() if any(kinds >= kind for kind in wanted)) / FS_PER_S

    return Overlap(
        total_s=timeline.end_fs / FS_PER_S,
        serial_s=_serial_fs(operations) / FS_PER_S,
        ideal_s=max((_busy_fs(unit) for unit in units.values()), default=0) / FS_PER_S,
        h2d_s=seconds({"h2d"}),
        d2h_s=seconds({"d2h"}),
        kernels_s=seconds({"kernel"}),
        both_copies_s=seconds({"h2d", "d2h"}),
        copy_and_compute_s=seconds({"h2d", "kernel"}, {"d2h", "kernel"}, {"d2d", "kernel"}),
        all_three_s=seconds({"h2d", "d2h", "kernel"}),
        in_memory_s=seconds({"d2d"}, {"memset"}),
        idle_s=(timeline.end_fs - sum(times.values())) / FS_PER_S,
        notes=_notes(timeline),
    )


def _times(operations: Iterable[Operation]) -> dict[frozenset[str], int]:
    """Femtoseconds for every set of kinds that ran at once."""
    changes: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for operation in operations:
        changes[operation.start_fs][operation.kind] += 1
        changes[operation.end_fs][operation.kind] -= 1
    running: dict[str, int] = defaultdict(int)
    times: dict[frozenset[str], int] = defaultdict(int)
    for start, end in pairwise(sorted(changes)):
        for kind, change in changes[start].items():
            running[kind] += change
        kinds = frozenset(kind for kind, number in running.items() if number)
        if kinds:
            times[kinds] += end - start
    return times


def _busy_fs(operations: Iterable[Operation]) -> int:
    return sum(_times(operations).values())


def _serial_fs(operations: Iterable[Operation]) -> int:
    return sum(o.end_fs - o.start_fs for o in operations)


# What prevented overlap ---------------------------------------------------------------------------------------------

_Note = tuple[float, str]
"""Seconds that it cost, and the sentence."""


def _notes(timeline: Timeline) -> tuple[str, ...]:
    notes = [*_waits(timeline), *_launch_bound(timeline)]
    if len({o.kind for o in timeline.operations}) > 1:  # otherwise nothing could have overlapped
        notes += [*_blocking(timeline.operations), *_one_stream(timeline), *_host_waits(timeline)]
        notes += _late_signals(timeline)
    return tuple(sentence for _, sentence in sorted(notes, key=lambda note: -note[0]))


def _launch_bound(timeline: Timeline) -> Iterator[_Note]:
    """Find programs in which the device mostly waits for the host's calls and for kernels to start."""
    idle = timeline.end_fs - _busy_fs(timeline.operations)
    kernels = [o for o in timeline.operations if o.kind == "kernel"]
    if len(kernels) > 1 and 2 * idle > timeline.end_fs:
        mean = sum(o.seconds for o in kernels) / len(kernels)
        sentence = (
            f"launch-bound: nothing ran on the device for {duration(idle / FS_PER_S)}, {len(kernels)} kernels of "
        )
        advice = (
            f"{duration(mean)} each are too short for the calls and gaps between them: merge kernels, or use a graph"
        )
        yield idle / FS_PER_S, sentence + advice


def _blocking(operations: Sequence[Operation]) -> Iterator[_Note]:
    pageable = [o for o in operations if o.pageable and not o.blocking]
    if pageable:
        cost = sum(o.seconds for o in pageable)
        what = NOT_ASYNCHRONOUS if len(pageable) == 1 else NONE_ASYNCHRONOUS
        yield cost, f"{_names(pageable)}: {what}, which blocked the host for {duration(cost)}"
    blocking = [o for o in operations if o.blocking]
    if blocking:
        cost = sum(o.seconds for o in blocking)
        sentence = f"{_names(blocking)}: the host waited {duration(cost)} for the end of the copy, as asked"
        yield cost, f"{sentence}: memcpy_async with pinned memory goes on at once"


def _one_stream(timeline: Timeline) -> Iterator[_Note]:
    operations = timeline.operations
    streams = {o.stream for o in operations}
    serial = _serial_fs(operations)
    if len(streams) == 1 and serial == _busy_fs(operations):  # the nodes of a graph may overlap in one stream
        longest = max(_busy_fs(o for o in operations if o.kind == kind) for kind in {o.kind for o in operations})
        sentence = (
            f"all {len(operations)} operations are in {_stream(timeline, *streams)}, which runs them one after another"
        )
        yield (serial - longest) / FS_PER_S, f"{sentence}: use several streams"


def _host_waits(timeline: Timeline) -> Iterator[_Note]:
    last = max(o.issued_fs for o in timeline.operations)
    waits = [h for h in timeline.host if h.waits and h.name.startswith("synchronize") and h.end_fs <= last]
    cost = sum(h.end_fs - h.start_fs for h in waits) / FS_PER_S
    if cost:
        calls = ", ".join(_counted(h.name for h in waits))
        yield cost, f"the host waited {duration(cost)} ({calls}) before it issued more work"


def _late_signals(timeline: Timeline) -> Iterator[_Note]:
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
        why = (
            "this chip signals the ends of kernels issued one after another together: issue each copy behind its kernel"
        )
        yield cost, f"{what}kernel {kernel.name}{more}; {why}"


def _waits(timeline: Timeline) -> list[_Note]:
    kinds = {o.name: o.kind for o in timeline.operations}
    groups: dict[str, list[Operation]] = defaultdict(list)
    for o in timeline.operations:
        # A copy behind copies of its own direction waits because the link is busy, not because overlap failed.
        if o.last_wait_s and (o.wait_reason != "copy engine" or kinds.get(o.waited_for) != o.kind):
            groups[REASONS.get(o.wait_reason, "").format(engine=o.engine)].append(o)
    groups.pop("", None)
    return [_wait(timeline, what, group) for what, group in groups.items()]


def _wait(timeline: Timeline, what: str, group: Sequence[Operation]) -> _Note:
    worst = max(group, key=lambda o: o.last_wait_s)
    who = f"{'kernel ' * (worst.kind == 'kernel')}{worst.name} in {_stream(timeline, worst.stream)}"
    behind = f" ({worst.waited_for})" * bool(worst.waited_for)
    cost = sum(o.last_wait_s for o in group)
    if len(group) == 1:
        return cost, f"{who} waited {duration(cost)} for {what}{behind}"
    longest = f"{who}: {duration(worst.last_wait_s)}{behind}"
    return cost, f"{len(group)} operations waited {duration(cost)} in all for {what}, longest {longest}"


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

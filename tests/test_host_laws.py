"""Laws of random host programs, what copies leave in the L2, and programs that are stopped (H1 to H3, M11, F1)."""

from __future__ import annotations

import os
import signal
from collections import defaultdict
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given

from gpusim_des.errors import CycleLimitError, SimulationInterrupted
from gpusim_des.timeline import Operation, Timeline
from gpusim_des.timing.simpy_engine import SimpyEngine
from gpusim_des.trace import (
    Command,
    CopyMemory,
    HostProgram,
    HostStream,
    LaunchGraph,
    LaunchKernel,
    RecordEvent,
    SetMemory,
    Synchronize,
    WaitEvent,
)
from tests.programs import load, trace
from tests.random_host_programs import Case, cases
from tests.timed_programs import (
    GPU_US,
    US,
    copy,
    host,
    kernel,
    memset,
    play,
    synchronize,
    times,
)

# What CUDA promises, written down a second time ----------------------------------------------------------------------


class Promises:
    """Which operations must be over before which, by sets: what a stream's next operation has to wait for.

    The engine follows the ends of streams; here every operation carries everything before it.
    """

    def __init__(self, program: HostProgram) -> None:
        self.before: list[frozenset[int]] = []
        """For every operation, in the order of issue, those that must be over."""
        self.waited: list[frozenset[int]] = []
        """For every call in which the host waits, the operations for which it does."""
        self.events: dict[int, frozenset[int]] = {}
        self._in: dict[int, frozenset[int]] = defaultdict(frozenset)
        self._program = program
        self._blocking = {stream.number for stream in program.streams if stream.blocking and stream.number}
        for command in program.commands:
            self._play(command)

    def _must(self, stream: int) -> frozenset[int]:
        """Everything that must be over before what comes into a stream now."""
        must = self._in[stream]
        if not self._program.per_thread_default:
            if stream == 0:
                must = must.union(*(self._in[other] for other in self._blocking))
            elif stream in self._blocking:
                must |= self._in[0]
        return must

    def _operation(self, must: frozenset[int]) -> frozenset[int]:
        self.before.append(must)
        return must | {len(self.before) - 1}

    def _play(self, command: Command) -> None:
        stream = command.stream
        if isinstance(command, WaitEvent):
            self._in[stream] |= self.events[command.event]
        elif isinstance(command, RecordEvent):
            self.events[command.event] = self._in[stream] = self._must(stream)
        elif isinstance(command, Synchronize):
            everything = frozenset(range(len(self.before)))
            targets = {"device": everything, "stream": self._in[stream], "event": self.events.get(command.event)}
            self.waited.append(targets[command.what] or frozenset())
        elif isinstance(command, LaunchGraph):
            begin = done = self._must(stream)
            nodes: list[frozenset[int]] = []
            for node in command.nodes:
                nodes.append(self._operation(begin.union(*(nodes[number] for number in node.after))))
                done |= nodes[-1]
            self._in[stream] = done
        elif isinstance(command, LaunchKernel | CopyMemory | SetMemory):
            self._in[stream] = self._operation(self._must(stream))
            if isinstance(command, CopyMemory):
                pageable = command.direction != "d2d" and not command.pinned
                if command.blocking or pageable:
                    self.waited.append(frozenset([len(self.before) - 1]))


def at_once(operations: list[Operation]) -> int:
    """Most operations under way at one time; one that starts when another ends is not beside it."""
    edges = sorted([(o.start_fs, 1) for o in operations] + [(o.end_fs, -1) for o in operations])
    most = now = 0
    for _, step in edges:
        now += step
        most = max(most, now)
    return most


def chain_fs(timeline: Timeline, promises: Promises) -> int:
    """Longest chain of operations that follow each other."""
    longest: list[int] = []
    for operation, before in zip(timeline.operations, promises.before, strict=True):
        longest.append(max((longest[other] for other in before), default=0) + operation.end_fs - operation.start_fs)
    return max(longest, default=0)


# Laws ---------------------------------------------------------------------------------------------------------------


@given(cases())
def test_every_dependency_holds(case: Case) -> None:
    """H1: an operation starts when all before it are over, and not before its call and the way to the device."""
    timeline, promises = case.play(), Promises(case.program)
    operations = timeline.operations
    for operation, before in zip(operations, promises.before, strict=True):
        assert operation.start_fs >= operation.issued_fs + case.gpu.launch_latency_fs
        for other in before:
            assert operation.start_fs >= operations[other].end_fs
    for event, before in promises.events.items():
        assert timeline.event_times[event] >= max((operations[other].end_fs for other in before), default=0)


@given(cases())
def test_engines_serve_no_more_than_they_can(case: Case) -> None:
    """H1, H2: copy engines one at a time, kernels up to the limit."""
    by_engine: dict[str, list[Operation]] = defaultdict(list)
    for operation in case.play().operations:
        by_engine[operation.engine].append(operation)
    for engine, operations in by_engine.items():
        limits = {"compute": case.gpu.max_concurrent_kernels, "HBM": len(operations)}
        assert at_once(operations) <= limits.get(engine, 1)
    assert len([engine for engine in by_engine if engine.startswith("copy engine")]) <= case.gpu.copy_engines


@given(cases())
def test_queues_keep_the_order_of_issue(case: Case) -> None:
    """H1: operations for one engine whose streams share a hardware queue; nodes of graphs have none."""
    if any(isinstance(command, LaunchGraph) for command in case.program.commands):
        return
    queues: dict[tuple[int, str], list[int]] = defaultdict(list)
    for operation in case.play().operations:
        queues[operation.stream % case.gpu.hardware_queues, operation.engine].append(operation.start_fs)
    for starts in queues.values():
        assert starts == sorted(starts)


@given(cases())
def test_the_host_waits_for_what_it_asked_for(case: Case) -> None:
    """H1, H2: a call that waits ends a latency after the last end, or after its own begin if nothing is left."""
    timeline, promises = case.play(), Promises(case.program)
    waiting = [span for span in timeline.host if span.waits]
    for span, targets in zip(waiting, promises.waited, strict=True):
        ends = [timeline.operations[target].end_fs for target in targets]
        if case.gpu.late_kernel_signals == "yes":
            assert span.end_fs >= max([span.start_fs, *ends]) + case.gpu.synchronize_latency_fs
        else:
            assert span.end_fs == max([span.start_fs, *ends]) + case.gpu.synchronize_latency_fs


@given(cases())
def test_the_hosts_calls_follow_each_other(case: Case) -> None:
    """H1: without gaps; what a call issues is issued when it ends."""
    timeline = case.play()
    assert [span.start_fs for span in timeline.host] == [0, *(span.end_fs for span in timeline.host)][:-1]
    ends = {span.end_fs for span in timeline.host}
    assert all(operation.issued_fs in ends for operation in timeline.operations)
    issued = [operation.issued_fs for operation in timeline.operations]
    assert issued == sorted(issued)


@given(cases())
def test_same_program_same_timeline(case: Case) -> None:
    assert case.play() == case.play()


@given(cases())
def test_somebody_is_always_at_work(case: Case) -> None:
    """The whole takes at least its longest chain and at most everything one after the other, latencies included."""
    timeline, gpu = case.play(), case.gpu
    durations = [operation.end_fs - operation.start_fs for operation in timeline.operations]
    calls = sum(span.end_fs - span.start_fs for span in timeline.host if not span.waits)
    latencies = sum(span.waits for span in timeline.host) * gpu.synchronize_latency_fs
    gaps = max(gpu.kernel_gap_fs, gpu.graph_gap_fs) + gpu.dispatch_interval_fs
    latencies += len(durations) * (gpu.launch_latency_fs + gaps)
    assert chain_fs(timeline, Promises(case.program)) <= timeline.end_fs <= sum(durations) + calls + latencies


@given(cases())
def test_operations_say_what_they_waited_for(case: Case) -> None:
    """H1: whoever is named was over, or under way, when the wait ended."""
    timeline = case.play()
    for operation in timeline.operations:
        assert operation.wait_reason != "none"  # there is always the way to the device
        named = [other for other in timeline.operations if other.name == operation.waited_for]
        if operation.wait_reason in ("copy engine", "kernel slot"):
            assert any(other.end_fs == operation.start_fs for other in named)
        elif operation.wait_reason == "launch latency":
            dispatch = case.gpu.dispatch_interval_fs * (operation.kind == "kernel")  # another kernel's block at once
            assert 0 <= operation.start_fs - operation.issued_fs - case.gpu.launch_latency_fs <= dispatch
        elif named:
            assert any(other.start_fs <= operation.start_fs for other in named)


@given(cases())
def test_costs_never_make_a_program_faster(case: Case) -> None:
    """H1: without the costs of host and device no operation starts later, unless it had to wait for an engine.

    Where several want one engine, another order of arrival can make the whole slower: Graham's anomaly, not a mistake.
    """
    ideal, real = case.play(ideal=True), case.play()
    contended = {"copy engine", "kernel slot", "SMs", "hardware queue"}
    if any(operation.wait_reason in contended for timeline in (ideal, real) for operation in timeline.operations):
        return
    assert ideal.end_fs <= real.end_fs
    for fast, slow in zip(ideal.operations, real.operations, strict=True):
        assert fast.start_fs <= slow.start_fs


# The L2 -------------------------------------------------------------------------------------------------------------

L2_BYTES = GPU_US.l2_bytes
SECTORS_OF_A_LINE = 4


def reader(address: int) -> LaunchKernel:
    """A warp that reads a line."""
    first = address // 32
    return LaunchKernel(trace=trace([[load(range(first, first + SECTORS_OF_A_LINE))]]))


@pytest.mark.parametrize(
    ("nbytes", "offset", "hits"),
    [
        (4096, 0, 4),
        (4096, 4096 - 128, 4),
        (4096, 4096, 0),  # behind the range
        (L2_BYTES, 0, 4),
        (4 * L2_BYTES, 0, 0),
        (4 * L2_BYTES, 3 * L2_BYTES - 128, 0),  # the last line that had to go
        (4 * L2_BYTES, 3 * L2_BYTES, 4),  # the first that is there
        (4 * L2_BYTES, 4 * L2_BYTES - 128, 4),
    ],
)
@pytest.mark.parametrize("direction", ["h2d", "d2h"])
def test_copies_leave_their_last_bytes_in_the_l2(direction: Any, nbytes: int, offset: int, hits: int) -> None:
    """M11: as many as it holds, whether they were written or read."""
    address = 1 << 20
    program = copy(direction, nbytes / 1000, address=address), reader(address + offset)
    (timing,) = play(*program, caches=True).kernels
    assert (timing.l2_sectors, timing.l2_hit_sectors) == (SECTORS_OF_A_LINE, hits)
    (timing,) = play(*program, caches=False).kernels  # without caches nothing is found (M9)
    assert timing.l2_hit_sectors is None
    assert timing.dram_read_bytes == 128


def test_memsets_and_copies_within_the_device_leave_nothing_in_the_l2() -> None:
    for program in (memset(4096), copy("d2d", 4.096)):
        (timing,) = play(program, reader(0), caches=True).kernels
        assert timing.l2_hit_sectors == 0


# Programs that are stopped ------------------------------------------------------------------------------------------

LONG = (
    copy("h2d", 5, 1, "a"),  # from 3 to 18
    copy("h2d", 5, 2, "b"),  # from 18 to 33
    kernel(40, 3, "k"),  # from 5 to 45
    copy("d2h", 5, 3, "c"),  # behind it
    synchronize(),
)


def partial(caught: pytest.ExceptionInfo[CycleLimitError] | pytest.ExceptionInfo[SimulationInterrupted]) -> Timeline:
    """The timeline that came with the exception."""
    found = caught.value.partial
    assert isinstance(found, Timeline)
    return found


def stopped_at_20_us(timeline: Timeline) -> None:
    """F1: what is over counts in full, what is under way is cut, what has not started has no length."""
    assert not timeline.complete
    assert times(timeline) == [(3, 18), (18, 20), (5, 20), (20, 20)]
    assert host(timeline)[-1] == ("(synchronize device)", 4, 20)
    assert timeline.end_fs == 20 * US
    assert [operation.name for operation in timeline.operations] == ["h2d a", "h2d b", "k", "d2h c"]


def test_a_program_is_stopped_after_max_cycles() -> None:
    """F1: 20,000 cycles of a nanosecond."""
    with pytest.raises(CycleLimitError, match=r"max_cycles = 20,000 .*k 0 of 1 blocks") as caught:
        play(*LONG, max_cycles=20_000)
    stopped_at_20_us(partial(caught))


def test_a_program_is_interrupted() -> None:
    """F1: Ctrl-C, 20 us into the program and between two copies."""
    engine = SimpyEngine(GPU_US, "kernel")
    engine.env.timeout(20 * US).callbacks.append(lambda _: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(SimulationInterrupted, match=r"interrupted at 20,000 cycles \(k 0 of 1 blocks\)") as caught:
        engine.play(HostProgram(list(LONG), [HostStream(number, str(number)) for number in range(4)]))
    stopped_at_20_us(partial(caught))


def test_a_program_is_stopped_before_any_kernel() -> None:
    with pytest.raises(CycleLimitError, match=r"max_cycles = 500 .*no kernel started") as caught:
        play(*LONG, max_cycles=500)
    assert host(partial(caught)) == [("memcpy h2d a", 0, 0.5)]
    assert partial(caught).operations == ()


def test_calls_of_a_stopped_host_follow_each_other() -> None:
    for cycles in range(250, 5000, 500):
        with pytest.raises(CycleLimitError) as caught:
            play(*LONG, max_cycles=cycles)
        spans = partial(caught).host
        assert all(before.end_fs == after.start_fs for before, after in pairwise(spans))
        assert spans[-1].end_fs == cycles * GPU_US.sm_period_fs

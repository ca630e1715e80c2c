"""Races between streams: found where nothing puts two operations in order, and only there."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpusim_des as gs
from tests.host_programs import add, count_up, fill_part, increment


@pytest.fixture
def dev() -> gs.Device:
    return gs.Device("tiny")


class Streams:
    def __init__(self, dev: gs.Device) -> None:
        self.one, self.two, self.free = dev.stream(name="one"), dev.stream(name="two"), dev.stream(0, "free", False)
        self.event = dev.event()
        self.a, self.b, self.c = (dev.malloc(64, name=name) for name in "abc")
        self.host = dev.pinned(64)


def found(dev: gs.Device) -> list[str]:
    return [
        f"{race.array}: {race.first.name} {race.first.does} in {race.first.stream}, "
        f"{race.second.name} {race.second.does} in {race.second.stream}"
        for race in dev.stream_races()
    ]


def test_the_report(dev: gs.Device) -> None:
    s = Streams(dev)
    dev.memcpy_async(s.a, s.host, s.one)
    message = (
        r"race on array 'a', \[0\] to \[63\]: copy h2d 'a' in stream 'one' \(line (\d+) of test_stream_races.py\) "
        r"writes it, kernel 'increment' in stream 'two' \(line (\d+) of test_stream_races.py\) reads and writes it, "
        r"and neither waits for the other; record an event in stream 'one' after the first, event.record\(stream\), "
        r"and let stream 'two' wait for it before the second, stream.wait_event\(event\); or let the host wait in "
        r"between, stream.synchronize\(\)\n  line \1: dev.memcpy_async\(s.a, s.host, s.one\)\n"
        r"  line \2: dev.launch\(increment,"
    )
    with pytest.warns(gs.StreamRaceWarning, match=message) as told:
        dev.launch(increment, 1, 64, s.a, stream=s.two)
    assert {w.filename for w in told} == {__file__}
    assert found(dev) == ["a: copy h2d 'a' writes in one, kernel 'increment' reads and writes in two"]
    (race,) = dev.stream_races()
    assert isinstance(race, gs.StreamRace)
    assert race.second.line == race.first.line + 10 == told[0].lineno
    assert race.remedy in str(race) == dev.warnings[0]
    assert dev.to_host(s.a).tolist() == [1] * 64  # computed in the order of the calls


ORDERS: dict[str, tuple[Any, Any]] = {
    "nothing": (lambda d, s: None, True),
    "event": (lambda d, s: (s.event.record(s.one), s.two.wait_event(s.event)), False),
    "event through another stream": (
        lambda d, s: (
            s.event.record(s.one),
            s.free.wait_event(s.event),
            s.event.record(s.free),
            s.two.wait_event(s.event),
        ),
        False,
    ),
    "event of the wrong stream": (lambda d, s: (s.event.record(s.free), s.two.wait_event(s.event)), True),
    "wait without use": (lambda d, s: (s.event.record(s.one), s.free.wait_event(s.event)), True),
    "event recorded again": (
        lambda d, s: (s.event.record(s.one), s.event.record(s.free), s.two.wait_event(s.event)),
        True,
    ),
    "host waits for the stream": (lambda d, s: s.one.synchronize(), False),
    "host waits for the other stream": (lambda d, s: s.two.synchronize(), True),
    "host waits for the event": (lambda d, s: (s.event.record(s.one), s.event.synchronize()), False),
    "host waits for the device": (lambda d, s: d.synchronize(), False),
    "legacy default stream": (lambda d, s: d.memset(s.b, 0), False),
    "blocking copy": (lambda d, s: d.to_host(s.b), False),
    "free": (lambda d, s: d.free(s.c), False),
    "new program": (lambda d, s: d.forget_launches(), False),
}


@pytest.mark.parametrize("order", ORDERS)
def test_orders(dev: gs.Device, order: str) -> None:
    between, race = ORDERS[order]
    s = Streams(dev)
    dev.memset_async(s.a, 0, s.one)
    between(dev, s)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dev.memset_async(s.a, 1, s.two)
    assert found(dev) == (["a: memset 'a' writes in one, memset 'a' writes in two"] if race else [])


def test_the_legacy_default_stream_knows_blocking_streams_only(dev: gs.Device) -> None:
    s = Streams(dev)
    dev.memset_async(s.a, 0, s.free)
    with pytest.warns(gs.StreamRaceWarning, match="in stream 'free' .* copy d2h 'a' in stream 'default'"):
        dev.to_host(s.a)
    dev.synchronize()
    dev.memset_async(s.b, 1, s.one)
    dev.memset(s.b, 0)
    with pytest.warns(gs.StreamRaceWarning, match="memset 'b' in stream 'default' .* memset 'b' in stream 'free'"):
        dev.memset_async(s.b, 1, s.free)


def test_the_default_stream_per_thread_is_one_like_the_others() -> None:
    dev = gs.Device("tiny", default_stream="per-thread")
    s = Streams(dev)
    dev.memset_async(s.a, 0, s.one)
    with pytest.warns(gs.StreamRaceWarning, match="in stream 'one' .* copy d2h 'a' in stream 'default'"):
        dev.to_host(s.a)
    dev.memset(s.b, 0)
    with pytest.warns(gs.StreamRaceWarning, match="in stream 'default' .* memset 'b' in stream 'two'"):
        dev.memset_async(s.b, 0, s.two)


def test_what_does_not_clash(dev: gs.Device) -> None:
    s = Streams(dev)
    dev.memset(s.a, 0)
    dev.launch(add, 1, 64, s.a, s.a, s.b, stream=s.one)  # two readers
    dev.memcpy_async(s.host, s.a, s.two)
    counter = dev.to_device(np.zeros(1, np.int32))
    dev.launch(count_up, 1, 32, counter, stream=s.one)  # atomics of two kernels
    dev.launch(count_up, 1, 32, counter, stream=s.two)
    parts = dev.malloc(100, np.int32)
    for k, stream in enumerate((s.one, s.two, s.free)):  # neighbouring parts, in the same sectors
        dev.launch(fill_part, 1, 64, parts, 33 * k, 33 * k + 33, stream=stream)
    dev.synchronize()
    assert dev.to_host(counter).tolist() == [64]
    assert dev.to_host(parts)[:99].tolist() == list(range(99))
    assert dev.stream_races() == []


def test_parts_that_overlap(dev: gs.Device) -> None:
    s = Streams(dev)
    parts = dev.malloc(100, np.int32, "parts")
    dev.launch(fill_part, 1, 64, parts, 0, 50, stream=s.one)
    with pytest.warns(gs.StreamRaceWarning, match=r"race on array 'parts', \[49\]: kernel"):
        dev.launch(fill_part, 1, 64, parts, 49, 99, stream=s.two)
    (race,) = dev.stream_races()
    assert (race.element, race.last_element, race.count) == ((49,), (49,), 1)


def test_operations_are_counted_not_their_accesses(dev: gs.Device) -> None:
    """Both kernels read and write rows 1 and 2, and a copy of rows 2 and 3 meets each of them."""
    s, m = Streams(dev), dev.to_device(np.zeros((4, 16), np.float32), "m")
    rows = m.part(16, 32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dev.launch(increment, 1, 32, rows, stream=s.one)
        dev.launch(increment, 1, 32, rows, stream=s.two)
    (race,) = dev.stream_races()
    assert (race.element, race.last_element, race.count) == ((1, 0), (2, 15), 1)


def test_reports_have_a_limit(dev: gs.Device) -> None:
    """Each of 102 arrays is written by two calls of its own."""
    s = Streams(dev)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for k in range(102):
            array = dev.malloc(4, name=f"x{k}")
            for stream in (s.one, s.two):
                dev.memset_async(array, 0, stream)
    assert [race.array for race in dev.stream_races()] == [f"x{k}" for k in range(100)]
    assert len(told) == 100
    assert dev.unreported_stream_races == 2


def test_atomics_clash_with_reads_and_writes(dev: gs.Device) -> None:
    s, counter = Streams(dev), dev.malloc(1, np.int32, "n")
    dev.memset_async(counter, 0, s.one)
    with pytest.warns(gs.StreamRaceWarning, match="memset 'n' .* writes it, kernel 'count_up' .* updates it"):
        dev.launch(count_up, 1, 32, counter, stream=s.two)


@pytest.mark.parametrize("vectorize", [None, False])
def test_arrays_that_a_kernel_takes_twice_or_from_outside(dev: gs.Device, vectorize: bool | None) -> None:
    s = Streams(dev)
    dev.memset(s.a, 0)
    hidden = s.b

    @gs.kernel
    def twice(t: Any, x: Any, y: Any) -> None:
        x[t.threadIdx.x] = y[t.threadIdx.x]
        hidden[t.threadIdx.x] = 1.0

    dev.launch(twice, 1, 64, s.a, s.a, stream=s.one, vectorize=vectorize)
    with pytest.warns(gs.StreamRaceWarning, match="kernel 'twice' .* writes it, copy d2d 'b' to 'c'"):
        dev.memcpy_async(s.c, s.b, s.two)
    with pytest.warns(gs.StreamRaceWarning, match="kernel 'twice' .* reads and writes it, memset 'a'"):
        dev.memset_async(s.a, 0, s.two)


def test_repeated_calls_are_reported_once(dev: gs.Device) -> None:
    s = Streams(dev)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(10):
            dev.memset_async(s.a, 0, s.one)
            dev.memset_async(s.a, 0, s.two)
    assert len(dev.stream_races()) == len(told) == 2
    there, back = dev.stream_races()
    assert (there.count, back.count) == (10, 9)  # and the second call with the first one of the next round
    assert "and neither waits for the other (10 times); record" in str(there)


def test_an_array_at_the_place_of_a_freed_one_is_another(dev: gs.Device) -> None:
    s = Streams(dev)
    old = dev.malloc(64, name="old")
    dev.memset_async(old, 0, s.one)
    dev.free(old)
    new = dev.malloc(64)
    assert new.address == old.address
    dev.memset_async(new, 0, s.two)
    assert dev.stream_races() == []


def test_reports_belong_to_the_program(dev: gs.Device) -> None:
    s = Streams(dev)
    dev.memset_async(s.a, 0, s.one)
    with pytest.warns(gs.StreamRaceWarning):
        dev.memset_async(s.a, 0, s.two)
    dev.forget_launches()
    assert dev.stream_races() == []
    assert len(dev.warnings) == 1


# Graphs ---------------------------------------------------------------------------------------------------------------


def branches(dev: gs.Device, s: Streams, shared: bool) -> gs.Graph:
    fork, join = dev.event(), dev.event()
    with dev.capture(s.one, "g") as graph:
        dev.memset_async(s.c, 0, s.one)
        fork.record(s.one)
        s.two.wait_event(fork)
        dev.launch(add, 1, 64, s.c, s.c, s.a, stream=s.one)
        dev.launch(add, 1, 64, s.c, s.c, s.a if shared else s.b, stream=s.two)
        join.record(s.two)
        s.one.wait_event(join)
        dev.launch(increment, 1, 64, s.a, stream=s.one)
    return graph


def test_branches_of_a_graph(dev: gs.Device) -> None:
    s = Streams(dev)
    graph = branches(dev, s, shared=False)
    for _ in range(3):
        graph.launch(s.free)
    assert dev.stream_races() == []
    with pytest.warns(gs.StreamRaceWarning, match="kernel 'add' in stream 'free' .* let one branch of the graph wait"):
        branches(dev, s, shared=True).launch(s.free)


def test_a_graph_and_streams(dev: gs.Device) -> None:
    s = Streams(dev)
    graph = branches(dev, s, shared=False)
    dev.memset_async(s.a, 0, s.one)
    graph.launch(s.one)
    dev.memset_async(s.b, 0, s.one)  # comes after all branches
    assert dev.stream_races() == []
    with pytest.warns(gs.StreamRaceWarning, match="in stream 'one' .* in stream 'free'"):
        graph.launch(s.free)


# Random programs ------------------------------------------------------------------------------------------------------


class Reference:
    """The same program as a graph: every command knows all commands before it, as a set."""

    def __init__(self, legacy: bool) -> None:
        self.legacy = legacy
        self.before: list[set[int]] = []
        self.streams: dict[int, list[int]] = {}
        self.host: set[int] = set()

    def command(self, stream: int, *waits: int) -> int:
        """Streams are 0 (default), 1, 2 (blocking) and 3 (not blocking)."""
        earlier = [*self.streams.get(stream, [])[-1:], *waits]
        if self.legacy and stream == 0:
            earlier += [number for s in (1, 2) for number in self.streams.get(s, [])]
        elif self.legacy and stream in {1, 2}:
            earlier += self.streams.get(0, [])
        known = set(self.host).union(earlier, *(self.before[number] for number in earlier))
        self.before.append(known)
        number = len(self.before) - 1
        self.streams.setdefault(stream, []).append(number)
        return number

    def wait_for(self, numbers: list[int]) -> None:
        self.host.update(numbers, *(self.before[number] for number in numbers))


STEPS = st.one_of(
    st.tuples(st.just("write"), st.integers(0, 3), st.integers(0, 1)),
    st.tuples(st.just("read"), st.integers(0, 3), st.integers(0, 1)),
    st.tuples(st.just("record"), st.integers(0, 3), st.integers(0, 1)),
    st.tuples(st.just("wait"), st.integers(0, 3), st.integers(0, 1)),
    st.tuples(st.just("host stream"), st.integers(0, 3), st.just(0)),
    st.tuples(st.just("host event"), st.just(0), st.integers(0, 1)),
    st.tuples(st.just("to_host"), st.just(0), st.integers(0, 1)),
)


@given(st.lists(STEPS, max_size=25), st.booleans())
def test_races_of_random_programs(steps: list[tuple[str, int, int]], legacy: bool) -> None:
    """An array is reported if and only if two of its accesses are unordered in the reference."""
    dev = gs.Device("tiny", default_stream="legacy" if legacy else "per-thread")
    streams = [dev.default_stream, dev.stream(), dev.stream(), dev.stream(blocking=False)]
    arrays, scratch, events = [dev.malloc(4), dev.malloc(4)], dev.pinned(4), [dev.event(), dev.event()]
    reference, recorded = Reference(legacy), [-1, -1]
    accesses: list[list[tuple[int, bool]]] = [[], []]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for what, s, k in steps:
            if what == "write":
                dev.memset_async(arrays[k], 0, streams[s])
                accesses[k].append((reference.command(s), True))
            elif what == "read":
                dev.memcpy_async(scratch, arrays[k], streams[s])
                accesses[k].append((reference.command(s), False))
            elif what == "record":
                events[k].record(streams[s])
                recorded[k] = reference.command(s)
            elif what == "to_host":
                dev.to_host(arrays[k])
                accesses[k].append((reference.command(0), False))
                reference.wait_for(reference.streams[0][-1:])
            elif what == "host stream":
                streams[s].synchronize()
                reference.wait_for(reference.streams.get(s, [])[-1:])
            elif recorded[k] >= 0 and what == "wait":
                streams[s].wait_event(events[k])
                reference.command(s, recorded[k])
            elif recorded[k] >= 0:
                events[k].synchronize()
                reference.wait_for([recorded[k]])
    expected = {
        arrays[k].name
        for k in (0, 1)
        for first, writes in accesses[k]
        for second, also in accesses[k]
        if first < second and (writes or also) and first not in reference.before[second]
    }
    assert {race.array for race in dev.stream_races()} == expected


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=2, max_size=20), st.data())
def test_ordered_programs_and_a_missing_event(steps: list[tuple[int, bool]], data: st.DataObject) -> None:
    """Each operation waits for the one before it; where one does not, and the stream changes, that is found."""
    changes = [k for k in range(1, len(steps)) if steps[k][0] != steps[k - 1][0]]
    missing = data.draw(st.sampled_from([0, *changes]))
    dev = gs.Device("tiny", default_stream="per-thread")
    streams = [dev.default_stream, *(dev.stream() for _ in range(4))]
    a, host = dev.malloc(64), dev.pinned(64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        events = [dev.event() for _ in steps]
        for k, (s, copies) in enumerate(steps):
            if k and k != missing:
                streams[s].wait_event(events[k - 1])
            if copies:
                dev.memcpy_async(a, host, streams[s])
            else:
                dev.launch(increment, 1, 64, a, stream=streams[s])
            events[k].record(streams[s])
    assert bool(dev.stream_races()) == bool(missing)

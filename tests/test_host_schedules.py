"""Schedules of host programs on the tiny GPU, computed by hand (H1, H2, H3, G2).

Calls take 1 us, the way to the device 2 us: what the n-th call asks for may start at n + 2. See `tests.timed_programs`.
"""

from __future__ import annotations

import pytest

from gpusim_des.errors import TraceError
from gpusim_des.trace import HostStream, HostWork
from tests.timed_programs import (
    GPU_US,
    US,
    copy,
    host,
    kernel,
    memset,
    named,
    play,
    record,
    streams,
    synchronize,
    times,
    wait,
    waits,
)

ONE_ENGINE = GPU_US.replace(copy_engines=1)
ONE_QUEUE = GPU_US.replace(hardware_queues=1)
LATE = GPU_US.replace(late_kernel_signals="yes")


# Copy engines -------------------------------------------------------------------------------------------------------

BREADTH_FIRST = (
    copy("h2d", 5, 1, "a"),
    copy("h2d", 5, 2, "b"),
    kernel(4, 1, "ka"),
    kernel(4, 2, "kb"),
    copy("d2h", 5, 1, "a"),
    copy("d2h", 5, 2, "b"),
    synchronize(),
)


def test_two_streams_and_one_engine() -> None:
    """H1, H2: a copy of 5 KB takes 10 + 5 = 15 us, and there is one at a time."""
    timeline = play(*BREADTH_FIRST, gpu=ONE_ENGINE)
    assert times(timeline) == [
        (3, 18),  # call 1
        (18, 33),  # ready at 4, the engine is free at 18
        (18.5, 22.5),  # 0.5 behind its copy
        (33.5, 37.5),
        (33, 48),  # ready at 22.5, but the engine has b until 33
        (48, 63),
    ]
    assert waits(timeline) == [
        ("launch latency", ""),
        ("copy engine", "h2d a"),
        ("stream order", "h2d a"),
        ("stream order", "h2d b"),
        ("copy engine", "h2d b"),
        ("copy engine", "d2h a"),
    ]
    assert {operation.engine for operation in timeline.copies} == {"copy engine 0"}
    assert host(timeline)[-1] == ("(synchronize device)", 6, 64)  # 1 us after the last end


def test_two_streams_and_an_engine_for_each_direction() -> None:
    """H2: the copies back begin behind their kernels."""
    timeline = play(*BREADTH_FIRST)
    assert times(timeline) == [(3, 18), (18, 33), (18.5, 22.5), (33.5, 37.5), (22.5, 37.5), (37.5, 52.5)]
    assert waits(timeline)[4:] == [("stream order", "ka"), ("stream order", "kb")]
    assert [operation.engine[-1] for operation in timeline.copies] == ["0", "0", "1", "1"]


def test_a_link_that_is_half_duplex_has_one_engine() -> None:
    assert times(play(*BREADTH_FIRST, gpu=GPU_US.replace(link_duplex="half"))) == times(
        play(*BREADTH_FIRST, gpu=ONE_ENGINE)
    )


def test_depth_first_on_one_engine_with_one_queue() -> None:
    """H1: with one hardware queue b's copy stands behind a's copy back; with more it takes the engine meanwhile."""
    depth_first = (
        copy("h2d", 5, 1, "a"),
        kernel(4, 1, "ka"),
        copy("d2h", 5, 1, "a"),
        copy("h2d", 5, 2, "b"),
        kernel(4, 2, "kb"),
    )
    timeline = play(*depth_first, gpu=ONE_ENGINE.replace(hardware_queues=1))
    # a's copy back starts behind ka, at 22.5; b's is second in the queue and gets the engine at 37.5.
    assert times(timeline) == [(3, 18), (18.5, 22.5), (22.5, 37.5), (37.5, 52.5), (53, 57)]
    assert waits(timeline)[3] == ("copy engine", "d2h a")
    timeline = play(*depth_first, gpu=ONE_ENGINE)
    assert times(timeline) == [(3, 18), (18.5, 22.5), (33, 48), (18, 33), (33.5, 37.5)]
    assert waits(timeline)[2] == ("copy engine", "h2d b")


def test_copies_of_the_higher_priority_go_first() -> None:
    """H1: of b and c, both ready while a is on the engine, c goes first: lower numbers are higher priorities."""
    program = copy("h2d", 5, 1, "a"), copy("h2d", 5, 2, "b"), copy("h2d", 5, 3, "c")
    assert times(play(*program)) == [(3, 18), (18, 33), (33, 48)]
    timeline = play(*program, among=streams(3, s3=HostStream(3, "s3", priority=-1)))
    assert times(timeline) == [(3, 18), (33, 48), (18, 33)]
    assert waits(timeline)[1:] == [("copy engine", "h2d c"), ("copy engine", "h2d a")]


def test_copies_that_are_ready_at_once_go_in_the_order_of_issue() -> None:
    """H1: both wait for the same event, at 13; s1 is issued behind s2."""
    timeline = play(
        *(kernel(10, 3, "k"), record(0, 3), wait(0, 2), wait(0, 1)),
        *(copy("h2d", 5, 2, "second stream"), copy("h2d", 5, 1, "first stream")),
    )
    assert times(timeline) == [(3, 13), (13, 28), (28, 43)]
    assert waits(timeline)[1:] == [("event", "k"), ("copy engine", "h2d second stream")]


def test_pageable_copies_block_the_host() -> None:
    """H2: 10 us + 5 KB at 2 us; asynchronous or not, the launch behind it is called at 24."""
    for blocking in (False, True):
        timeline = play(copy("h2d", 5, 1, "a", pinned=False, blocking=blocking), kernel(4, 2))
        assert times(timeline) == [(3, 23), (27, 31)]
        assert host(timeline) == [("memcpy h2d a", 0, 1), ("(memcpy h2d a)", 1, 24), ("launch k", 24, 25)]
        assert [operation.pageable for operation in timeline.operations] == [True, False]


def test_pinned_copies_block_the_host_when_asked() -> None:
    timeline = play(copy("d2h", 5, 1, blocking=True), kernel(4, 2))
    assert host(timeline) == [("memcpy d2h", 0, 1), ("(memcpy d2h)", 1, 19), ("launch k", 19, 20)]
    timeline = play(copy("d2h", 5, 1), kernel(4, 2))
    assert host(timeline) == [("memcpy d2h", 0, 1), ("launch k", 1, 2)]
    assert times(timeline) == [(3, 18), (4, 8)]


# Memory of the device -----------------------------------------------------------------------------------------------


def test_memsets_and_copies_within_the_device() -> None:
    """H3: 64 KiB at 64 B/ns are 1.024 us, a copy reads and writes; both end a DRAM latency of 0.2 us later."""
    timeline = play(memset(65_536, 1), copy("d2d", 65.536, 1))
    assert times(timeline) == [(3, 4.224), (4.224, 6.472)]  # without a gap: only kernels have one
    assert waits(timeline) == [("launch latency", ""), ("stream order", "memset")]
    assert [operation.dram_bytes for operation in timeline.operations] == [65_536, 2 * 65_536]  # read and written
    assert {operation.engine for operation in timeline.operations} == {"HBM"}


def test_memsets_at_once_share_the_bandwidth() -> None:
    """H3: two of 64 KiB that start at 2.5 and 3 move 128 KiB in 2.048 us."""
    gpu = GPU_US.replace(copy_call_fs=US // 2)
    timeline = play(memset(65_536, 1), memset(65_536, 2), gpu=gpu)
    assert [start for start, _ in times(timeline)] == [2.5, 3]
    assert times(timeline)[1][1] == pytest.approx(2.5 + 2.048 + 0.2, abs=0.01)


# Streams and events -------------------------------------------------------------------------------------------------


def test_a_chain_of_events() -> None:
    """H1: ka → kb → a copy, each in its own stream."""
    timeline = play(
        kernel(10, 1, "ka"),
        record(0, 1),
        wait(0, 2),
        kernel(3, 2, "kb"),  # call 4, ready at 6
        record(1, 2),
        wait(1, 3),
        copy("d2h", 2, 3),  # call 7
        synchronize("event", event=1),
    )
    assert times(timeline) == [(3, 13), (13.5, 16.5), (16.5, 28.5)]
    assert waits(timeline) == [("launch latency", ""), ("event", "ka"), ("event", "kb")]
    assert timeline.event_times == {0: 13 * US, 1: 16.5 * US}
    assert host(timeline)[-1] == ("(synchronize event)", 7, 17.5)  # it does not wait for the copy


def test_the_dependency_that_ends_last_is_named() -> None:
    """H1: kb waits for ka by an event until 13, for its own stream until 20; then it is the other way round."""
    for first, second, named_last in ((10, 16, ("stream order", "own")), (16, 10, ("event", "ka"))):
        timeline = play(
            *(kernel(first, 1, "ka"), kernel(second, 2, "own"), record(0, 1), wait(0, 2), kernel(3, 2, "kb")),
        )
        end = max(3 + first, 4 + second)
        assert times(timeline)[2] == (end + 0.5, end + 3.5)
        assert waits(timeline)[2] == named_last


def test_launch_latency_counts_when_it_ends_last() -> None:
    """H1: kb is at the device at 4, when ka is over; the gap that follows belongs to the wait for ka."""
    timeline = play(kernel(1, 1, "ka"), kernel(1, 1, "kb"))
    assert times(timeline) == [(3, 4), (4.5, 5.5)]
    assert waits(timeline)[1] == ("stream order", "ka")
    slow = GPU_US.replace(launch_call_fs=3 * US)  # kb is called until 6 and at the device at 8; ka is over at 7
    timeline = play(kernel(2, 1, "ka"), kernel(1, 1, "kb"), gpu=slow)
    assert times(timeline) == [(5, 7), (8, 9)]
    assert waits(timeline)[1] == ("launch latency", "")


def test_an_event_of_an_idle_stream_happens_at_once() -> None:
    timeline = play(HostWork(femtoseconds=5 * US, name="think"), record(0, 1), synchronize("event", event=0))
    assert timeline.event_times == {0: 6 * US}
    assert host(timeline) == [("think", 0, 5), ("record event", 5, 6), ("(synchronize event)", 6, 7)]


def test_an_event_counts_up_to_its_record() -> None:
    """H1: what comes into the stream behind the record does not count."""
    timeline = play(kernel(4, 1, "ka"), record(0, 1), kernel(20, 1, "kb"), wait(0, 2), copy("h2d", 1, 2))
    assert times(timeline) == [(3, 7), (7.5, 27.5), (7, 18)]
    assert waits(timeline)[2] == ("event", "ka")


def test_a_stream_that_waits_for_an_event_is_not_empty() -> None:
    """H1: a synchronization of the stream waits for the event, too, and so does the default stream."""
    waiting = kernel(9, 1, "ka"), record(0, 1), wait(0, 2)
    timeline = play(*waiting, synchronize("stream", 2))
    assert host(timeline)[-1] == ("(synchronize stream)", 3, 13)
    free = streams(2, s1=HostStream(1, "free", blocking=False))
    timeline = play(*waiting, kernel(1, 0, "default"), among=free)
    assert times(timeline)[1] == (12.5, 13.5)
    assert waits(timeline)[1] == ("default stream", "ka")


def test_nobody_recorded_the_event() -> None:
    with pytest.raises(TraceError, match=r"a stream waits for event record 3, which nothing recorded before"):
        play(wait(3, 1))
    with pytest.raises(TraceError, match=r"the host waits for event record 3, which nothing recorded before"):
        play(synchronize("event", event=3))


FOUR = kernel(5, 1, "a"), kernel(5, 2, "b"), kernel(3, 0, "default"), kernel(2, 1, "c")


def test_the_legacy_default_stream_is_a_barrier() -> None:
    """H1: it waits for a (until 8) and b (until 9), and c waits for it."""
    timeline = play(*FOUR, synchronize("stream", 2))
    assert times(timeline) == [(3, 8), (4, 9), (9.5, 12.5), (13, 15)]
    assert waits(timeline)[2:] == [("default stream", "b"), ("default stream", "default")]
    assert host(timeline)[-1] == ("(synchronize stream)", 4, 10)  # b alone


def test_a_default_stream_per_thread_is_like_the_others() -> None:
    timeline = play(*FOUR, per_thread=True)
    assert times(timeline) == [(3, 8), (4, 9), (5, 8), (8.5, 10.5)]
    assert waits(timeline)[2:] == [("launch latency", ""), ("stream order", "a")]


def test_streams_that_do_not_block_ignore_the_default_stream() -> None:
    """H1: it does not wait for b, and b's stream not for it."""
    free = streams(2, s2=HostStream(2, "free", blocking=False))
    timeline = play(*FOUR[:3], kernel(2, 2, "c"), among=free)
    assert times(timeline) == [(3, 8), (4, 9), (8.5, 11.5), (9.5, 11.5)]
    assert waits(timeline)[2:] == [("default stream", "a"), ("stream order", "b")]


def test_an_event_of_the_default_stream_waits_for_the_others() -> None:
    timeline = play(kernel(5, 1), record(0), synchronize("event", event=0))
    assert timeline.event_times == {0: 8 * US}
    timeline = play(kernel(5, 1), record(0), synchronize("event", event=0), per_thread=True)
    assert timeline.event_times == {0: 2 * US}


# Hardware queues and signals ----------------------------------------------------------------------------------------


def test_a_kernel_behind_another_stream_in_its_hardware_queue() -> None:
    """H1: c would be ready at 5, but b, which waits for a until 13.5, is before it in the one queue."""
    program = kernel(10, 1, "a"), kernel(4, 1, "b"), kernel(1, 2, "c")
    timeline = play(*program, gpu=ONE_QUEUE)
    assert times(timeline) == [(3, 13), (13.5, 17.5), (14, 15)]
    assert waits(timeline)[2] == ("hardware queue", "b")
    assert times(play(*program))[2] == (5, 6)


def test_queues_are_shared_modulo_their_number() -> None:
    """H1: of two queues, streams 1 and 3 share one."""
    gpu = GPU_US.replace(hardware_queues=2)
    timeline = play(kernel(10, 1, "a"), kernel(4, 1, "b"), kernel(1, 2, "c"), kernel(1, 3, "d"), gpu=gpu)
    assert times(timeline)[2:] == [(5, 6), (14, 15)]
    assert waits(timeline)[3] == ("hardware queue", "b")


def test_copies_are_in_the_queue_of_their_engine() -> None:
    """H1: the kernel of stream 1 waits, the copy of stream 2 behind it does not."""
    timeline = play(kernel(10, 1, "a"), kernel(4, 1, "b"), copy("h2d", 1, 2), gpu=ONE_QUEUE)
    assert times(timeline)[2] == (5, 16)


def test_late_signals_come_with_the_last_of_the_kernels() -> None:
    """H1: a is over at 8, b at 13; nothing was issued between them, so a's copy back starts at 13."""
    program = kernel(5, 1, "a"), kernel(9, 2, "b"), copy("d2h", 1, 1), synchronize("stream", 1)
    timeline = play(*program, gpu=LATE)
    assert times(timeline) == [(3, 8), (4, 13), (13, 24)]
    assert waits(timeline)[2] == ("stream order", "a")
    assert times(play(*program))[2] == (8, 19)


def test_something_between_two_kernels_parts_their_signals() -> None:
    for between in (record(0, 1), copy("h2d", 1, 3)):
        timeline = play(kernel(5, 1, "a"), between, kernel(9, 2, "b"), copy("d2h", 1, 1), gpu=LATE)
        assert times(timeline)[-1] == (8, 19)


def test_kernels_need_no_signal() -> None:
    """H1: c starts behind a although a's signal waits for b; so does a kernel of the default stream, behind both."""
    timeline = play(kernel(5, 1, "a"), kernel(9, 2, "b"), kernel(1, 1, "c"), gpu=LATE)
    assert times(timeline) == [(3, 8), (4, 13), (8.5, 9.5)]
    timeline = play(kernel(5, 1, "a"), kernel(9, 2, "b"), kernel(1, 0, "default"), synchronize(), gpu=LATE)
    assert times(timeline) == [(3, 8), (4, 13), (13.5, 14.5)]


# Kernels at once ----------------------------------------------------------------------------------------------------


def test_kernels_at_once_up_to_the_limit() -> None:
    """H1: of two places the first is free at 9, behind b, the next at 13."""
    gpu = GPU_US.replace(max_concurrent_kernels=2)
    program = kernel(10, 1, "a"), kernel(5, 2, "b"), kernel(6, 3, "c"), kernel(1, 4, "d")
    timeline = play(*program, gpu=gpu)
    assert times(timeline) == [(3, 13), (4, 9), (9, 15), (13, 14)]
    assert waits(timeline)[2:] == [("kernel slot", "b"), ("kernel slot", "a")]
    assert times(play(*program)) == [(3, 13), (4, 9), (5, 11), (6, 7)]
    first = streams(4, s4=HostStream(4, "s4", priority=-1))
    timeline = play(*program, gpu=gpu, among=first)
    assert times(timeline)[2:] == [(10, 16), (9, 10)]
    assert waits(timeline)[2:] == [("kernel slot", "d"), ("kernel slot", "b")]


@pytest.mark.parametrize(
    ("priority", "low", "high"),
    [
        (0, 18.001, 20.001),  # three rounds of low from 3 on; high when no block of low is left, at 18 and 18.001
        (-1, 20.001, 10.001),  # high takes the SMs at 8 and 8.001, and low's second and third round follow
    ],
)
def test_blocks_of_the_higher_priority_go_first(priority: int, low: float, high: float) -> None:
    """G2, H1: six blocks of 5 us, then two of 2 us; each of two SMs holds one, and placements are 1 ns apart."""
    whole = {"shared_bytes": GPU_US.shared_bytes_per_sm}
    timeline = play(
        kernel(5, 1, "low", blocks=6, **whole),
        kernel(2, 2, "high", blocks=2, **whole),
        among=streams(2, s2=HostStream(2, "s2", priority=priority)),
    )
    low_kernel, high_kernel = timeline.operations
    assert (low_kernel.start_fs // US, high_kernel.start_fs // US) == (3, 18 if priority == 0 else 8)
    assert (high_kernel.wait_reason, high_kernel.waited_for) == ("SMs", "low")
    assert (named(timeline, "low").end_fs / US, named(timeline, "high").end_fs / US) == (low, high)


# The host -----------------------------------------------------------------------------------------------------------


def test_every_call_of_the_host() -> None:
    timeline = play(
        copy("h2d", 1, 1, "x"),
        HostWork(femtoseconds=3 * US, name="prepare"),
        memset(65_536, 1),
        record(0, 1),
        wait(0, 2),
        kernel(2, 2, "k"),
        synchronize("stream", 2),
        synchronize(),
    )
    assert times(timeline) == [(3, 14), (14, 15.224), (15.724, 17.724)]
    assert host(timeline) == [
        ("memcpy h2d x", 0, 1),
        ("prepare", 1, 4),
        ("memset", 4, 5),
        ("record event", 5, 6),
        ("wait event", 6, 7),
        ("launch k", 7, 8),
        ("(synchronize stream)", 8, 18.724),
        ("(synchronize device)", 18.724, 19.724),  # nothing is left: its own microsecond
    ]


def test_without_costs_only_the_device_takes_time() -> None:
    """Two copies of 10 + 5 us behind each other; the kernels follow without gap or latency, the host takes none."""
    timeline = play(*BREADTH_FIRST, ideal=True)
    assert times(timeline) == [(0, 15), (15, 30), (15, 19), (30, 34), (19, 34), (34, 49)]
    assert host(timeline)[-1] == ("(synchronize device)", 0, 49)


def test_lines_of_the_program_are_kept() -> None:
    first = copy("h2d", 1, 1, blocking=True, line=7)
    timeline = play(first, HostWork(line=8, femtoseconds=US))
    assert [operation.line for operation in timeline.operations] == [7]
    assert [span.line for span in timeline.host] == [7, 7, 8]

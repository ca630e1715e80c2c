"""Schedules of graphs on the tiny GPU, computed by hand (H1); see `tests.timed_programs`."""

from __future__ import annotations

import pytest

from tests.timed_programs import (
    GPU_US,
    US,
    copy,
    graph,
    host,
    kernel,
    play,
    record,
    streams,
    synchronize,
    times,
    wait,
    waits,
)


def test_a_diamond() -> None:
    """H1: one call for all; the two sides run at once, their blocks placed a nanosecond apart."""
    timeline = play(
        graph(
            (copy("h2d", 1, name="in"), ()),
            (kernel(3, name="left"), (0,)),
            (kernel(6, name="right"), (0,)),
            (copy("d2h", 1, name="out"), (1, 2)),
            stream=1,
        ),
        synchronize(),
    )
    assert times(timeline) == [(3, 14), (14.5, 17.5), (14.501, 20.501), (20.501, 31.501)]
    assert waits(timeline) == [
        ("launch latency", ""),
        ("graph order", "h2d in"),
        ("graph order", "h2d in"),
        ("graph order", "right"),
    ]
    assert host(timeline) == [("launch graph", 0, 1), ("(synchronize device)", 1, 32.501)]
    assert {operation.stream for operation in timeline.operations} == {1}


def test_a_graph_has_its_place_in_its_stream() -> None:
    """H1: its nodes start behind a; what comes behind it waits for all of them."""
    timeline = play(
        kernel(4, 1, "a"), graph((kernel(2, name="b"), ()), (kernel(5, name="c"), (0,)), stream=1), kernel(1, 1, "d")
    )
    assert times(timeline) == [(3, 7), (7.5, 9.5), (10, 15), (15.5, 16.5)]
    assert [reason for reason, _ in waits(timeline)] == [
        "launch latency",
        "stream order",
        "graph order",
        "stream order",
    ]


@pytest.mark.parametrize(("numbers", "second"), [((7, 7), (7.5, 11.5)), ((7, 8), (4, 8))])
def test_launches_of_one_graph_follow_each_other(numbers: tuple[int, int], second: tuple[float, float]) -> None:
    """H1: in two streams the second waits for the end of the first, and a gap; another graph does not wait."""
    timeline = play(
        *(graph((kernel(4, name="k"), ()), stream=n + 1, number=number) for n, number in enumerate(numbers)),
        among=streams(2),
    )
    assert times(timeline) == [(3, 7), second]


def test_nodes_of_a_graph_follow_each_other_sooner() -> None:
    """H1: `graph_gap` between nodes, `kernel_gap` before the first and behind the last."""
    gpu = GPU_US.replace(graph_gap_fs=US // 4)
    nodes = [(kernel(2), ()), (kernel(2), (0,)), (kernel(2), (1,))]
    timeline = play(kernel(4, 1), graph(*nodes, stream=1), kernel(1, 1), gpu=gpu)
    assert times(timeline) == [(3, 7), (7.5, 9.5), (9.75, 11.75), (12, 14), (14.5, 15.5)]


def test_a_graph_waits_for_events_and_the_default_stream() -> None:
    timeline = play(kernel(9, 2, "k"), record(0, 2), wait(0, 1), graph((copy("h2d", 1), ()), stream=1))
    assert times(timeline) == [(3, 12), (12, 23)]
    timeline = play(kernel(9, 0, "k"), graph((copy("h2d", 1), ()), stream=1), kernel(1, 0))
    assert times(timeline) == [(3, 12), (12, 23), (23.5, 24.5)]


def test_an_empty_graph_takes_its_call() -> None:
    timeline = play(kernel(4, 1), graph(stream=1), synchronize("stream", 1))
    assert host(timeline) == [("launch k", 0, 1), ("launch graph", 1, 2), ("(synchronize stream)", 2, 8)]

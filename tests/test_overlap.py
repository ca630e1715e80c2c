"""What ran at once, by hand; what prevented more, in sentences."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpusim_des.gpu import load_gpu
from gpusim_des.simulation import Simulation
from gpusim_des.timeline import HostSpan, Operation, Timeline, overlap
from gpusim_des.timing.simpy_engine import SimpyEngine
from gpusim_des.trace import CopyMemory, HostProgram, HostStream, LaunchKernel
from tests.programs import chain, trace

FS_PER_US = 10**9


def operation(kind: str, start: int, end: int, stream: int = 0, name: str = "", **more: Any) -> Operation:
    """An operation from `start` to `end` microseconds, issued at 0."""
    engines = {"h2d": "copy engine 0", "d2h": "copy engine 1", "kernel": "compute"}
    plain = Operation(0, kind, name or f"{kind} a", stream, 0, start * FS_PER_US, end * FS_PER_US)
    return replace(plain, **{"engine": engines.get(kind, "HBM"), **more})


def timeline(*operations: Operation, host: tuple[HostSpan, ...] = ()) -> Timeline:
    numbered = tuple(replace(o, number=n) for n, o in enumerate(operations))
    return Timeline("tiny", 2, 500_000, operations=numbered, host=host)


def waited(reason: str, since: int, whom: str = "") -> dict[str, Any]:
    return {"wait_reason": reason, "last_wait_fs": since * FS_PER_US, "waited_for": whom}


def test_times_at_once_are_exact() -> None:
    """h2d 0-4 and 6-8, d2h 3-7, kernels 2-6 and 5-9: all three at 3-4 and 6-7."""
    found = overlap(
        timeline(
            operation("h2d", 0, 4, 1),
            operation("kernel", 2, 6, 2),
            operation("d2h", 3, 7, 3),
            operation("kernel", 5, 9, 4),
            operation("h2d", 6, 8, 1),
        )
    )
    assert (found.h2d_s, found.d2h_s, found.kernels_s) == (6e-6, 4e-6, 7e-6)  # kernels: a union
    assert (found.both_copies_s, found.all_three_s) == (2e-6, 2e-6)
    assert found.copy_and_compute_s == 6e-6  # 2 to 8
    assert (found.total_s, found.serial_s, found.ideal_s) == (9e-6, 18e-6, 7e-6)
    assert (found.speedup, found.best_speedup) == (2.0, 18 / 7)
    assert found.notes == ()


def test_one_engine_for_both_directions_limits_the_ideal() -> None:
    copies = operation("h2d", 0, 3, 1), operation("d2h", 3, 7, 2, engine="copy engine 0")
    assert overlap(timeline(*copies)).ideal_s == 7e-6
    assert overlap(timeline(copies[0], replace(copies[1], engine="copy engine 1"))).ideal_s == 4e-6


def test_work_of_the_host_counts_to_the_total_and_memsets_to_the_sum() -> None:
    found = overlap(timeline(operation("memset", 1, 3), host=(HostSpan("host work", 0, 10 * FS_PER_US),)))
    assert (found.total_s, found.serial_s, found.ideal_s, found.speedup) == (10e-6, 2e-6, 2e-6, 2e-6 / 10e-6)


def test_nothing_is_no_error() -> None:
    found = overlap(timeline())
    assert (found.total_s, found.speedup, found.best_speedup, found.notes) == (0.0, 1.0, 1.0, ())
    assert str(found).startswith("total                     0 µs\n")


def test_copies_of_pageable_memory_are_named() -> None:
    one = timeline(operation("h2d", 0, 3, 1, pageable=True), operation("kernel", 3, 4, 2))
    sentence = "h2d a: this copy is not asynchronous: the host array is pageable, which blocked the host for 3 µs"
    assert overlap(one).notes == (sentence,)
    assert str(overlap(one)).endswith(f"\n- {sentence}")
    more = timeline(
        operation("h2d", 0, 3, 1, pageable=True),
        operation("h2d", 3, 6, 2, pageable=True),
        operation("d2h", 6, 7, 2, "d2h c", pageable=True),
    )
    assert overlap(more).notes == (
        (
            "2 × h2d a, d2h c: these copies are not asynchronous: the host arrays are pageable, which blocked the host "
            "for 7 µs"
        ),
    )


def test_one_stream_and_blocking_calls_are_named() -> None:
    simple = timeline(
        operation("h2d", 0, 5, blocking=True, pageable=True),
        operation("kernel", 5, 7),
        operation("d2h", 7, 9, blocking=True),
    )
    assert overlap(simple).notes == (
        (
            "h2d a, d2h a: the host waited 7 µs for the end of the copy, as asked: memcpy_async with pinned memory "
            "goes on at once"
        ),
        "all 3 operations are in the default stream, which runs them one after another: use several streams",
    )
    graph = timeline(operation("h2d", 0, 5), operation("kernel", 3, 7))  # two nodes at once
    assert overlap(graph).notes == ()
    assert overlap(timeline(operation("kernel", 0, 5), operation("kernel", 5, 9))).notes == ()


def test_waits_are_grouped_by_reason_worst_first() -> None:
    found = overlap(
        timeline(
            operation("h2d", 0, 20, 1, "h2d b"),
            operation("d2h", 20, 22, 2, "d2h c", engine="copy engine 0", **waited("copy engine", 8, "h2d b")),
            operation("d2h", 22, 24, 3, "d2h c", engine="copy engine 0", **waited("copy engine", 19, "h2d b")),
            operation("kernel", 30, 31, 3, "k", **waited("hardware queue", 10, "j")),
            operation("kernel", 30, 31, 0, "k", **waited("default stream", 29, "d2h c")),
        )
    )
    assert found.notes == (
        "kernel k in stream 3 waited 20 µs for a turn in the hardware queue that streams share (j)",
        (
            "2 operations waited 15 µs in all for copy engine 0, busy with the other direction, longest d2h c in "
            "stream 2: 12 µs (h2d b)"
        ),
        (
            "kernel k in the default stream waited 1 µs for the default stream, which waits for the others and makes "
            "them wait (d2h c)"
        ),
    )


def test_waits_that_the_program_or_the_link_demands_are_no_obstacles() -> None:
    found = overlap(
        timeline(
            operation("h2d", 0, 20, 1),
            operation("h2d", 20, 40, 2, "h2d b", **waited("copy engine", 0, "h2d a")),
            operation("kernel", 40, 41, 2, **waited("stream order", 0, "h2d b")),
            operation("kernel", 41, 42, 3, **waited("launch latency", 40)),
            operation("kernel", 42, 43, 3, **waited("graph order", 40)),
        )
    )
    assert found.notes == ()


def test_a_host_that_synchronizes_too_early_is_named() -> None:
    host = (
        HostSpan("synchronize stream", 0, 4 * FS_PER_US, waits=True),
        HostSpan("synchronize stream", 10 * FS_PER_US, 12 * FS_PER_US, waits=True),
        HostSpan("synchronize device", 20 * FS_PER_US, 90 * FS_PER_US, waits=True),
    )
    late = operation("kernel", 20, 21, 2, issued_fs=15 * FS_PER_US)
    assert overlap(timeline(operation("h2d", 0, 20, 1), late, host=host)).notes == (
        "the host waited 6 µs (2 × synchronize stream) before it issued more work",
    )


@pytest.mark.parametrize(("engines", "both"), [(1, 0.0), (2, 1e-3)])
def test_of_a_simulation(engines: int, both: float) -> None:
    """1 MB each way on ``tiny``: 1 ms and 10 µs on the engine, the second issued 1 µs behind the first."""
    program = HostProgram(
        [
            CopyMemory(1, direction="h2d", nbytes=10**6, name="a", pinned=True, blocking=False),
            CopyMemory(2, direction="d2h", nbytes=10**6, name="b", pinned=True, blocking=False),
        ],
        [HostStream(1, "one"), HostStream(2, "two")],
    )
    played = SimpyEngine(load_gpu("tiny").replace(copy_engines=engines)).play(program)
    found = Simulation(played, "simpy").overlap()
    assert (found.serial_s, found.both_copies_s) == (2.02e-3, both and both + 9e-6)
    if engines == 1:
        assert found.notes == (
            "d2h b in stream 'two' waited 1.01 ms for copy engine 0, busy with the other direction (h2d a)",
        )
        assert played.operations[1].last_wait_s == pytest.approx(1.009e-3)
    else:
        assert found.notes == ()


def test_a_chip_that_signals_late_is_named() -> None:
    """Breadth-first on the C2050: the first copy out waits until the last kernel is over."""
    late = timeline(
        operation("kernel", 0, 10, 1, "k"),
        operation("kernel", 5, 25, 2, "k"),
        operation("d2h", 25, 30, 1, "d2h c", **waited("stream order", 0, "k")),
        operation("d2h", 30, 35, 2, "d2h c", **waited("copy engine", 25, "d2h c")),
    )
    why = "this chip signals the ends of kernels issued one after another together: issue each copy behind its kernel"
    assert overlap(late).notes == (f"d2h c in stream 1 waited 15 µs after the end of kernel k; {why}",)
    twice = replace(late.operations[3], **waited("stream order", 0, "k"))
    assert overlap(replace(late, operations=(*late.operations[:3], twice))).notes == (
        f"d2h c in stream 1 waited 15 µs after the end of kernel k (2 such waits, 20 µs in all); {why}",
    )
    pinned: dict[str, Any] = {"pinned": True, "blocking": False}
    streams = (1, 2)
    program = HostProgram(
        [
            *(LaunchKernel(s, trace=trace(*[[chain(5000)]] * 14)) for s in streams),
            *(CopyMemory(s, direction="d2h", nbytes=1000, name="c", **pinned) for s in streams),
        ],
        [HostStream(s, f"stream {s}") for s in streams],
    )
    (sentence,) = overlap(SimpyEngine(load_gpu("c2050")).play(program)).notes
    assert sentence.startswith("d2h c in stream 1 waited ")
    assert sentence.endswith(why)
    assert overlap(SimpyEngine(load_gpu("k20c")).play(program)).notes == ()


def test_an_operation_waits_for_the_one_that_had_the_engine_before() -> None:
    program = HostProgram(
        [CopyMemory(n, direction="h2d", nbytes=10**6, name=n * "a", pinned=True, blocking=False) for n in (1, 2, 3)],
        [HostStream(n, str(n)) for n in (1, 2, 3)],
    )
    played = SimpyEngine(load_gpu("tiny")).play(program)
    assert [o.waited_for for o in played.operations] == ["", "h2d a", "h2d aa"]
    assert played.operations[2].last_wait_s == pytest.approx(2 * 1.01e-3 - 2e-6)


def test_a_program_of_many_short_kernels_is_launch_bound() -> None:
    """Three kernels of 1 µs in 12 µs: nothing ran for 9 µs, and no speed-up below 1 is printed."""
    found = overlap(timeline(*(operation("kernel", 4 * n + 3, 4 * n + 4, name="k") for n in range(3))))
    assert found.idle_s == pytest.approx(9e-6)
    assert "launch-bound: nothing ran on the device for 9 µs, 3 kernels of 1 µs each are too short" in found.notes[0]
    assert "no speed-up: calls and latencies cost more" in str(found)


def test_copies_within_the_device_count() -> None:
    """A d2d copy of 4 µs beside a kernel of 3 µs, then a memset of 1 µs."""
    found = overlap(timeline(operation("d2d", 0, 4), operation("kernel", 1, 4, 1), operation("memset", 4, 5)))
    assert found.in_memory_s == pytest.approx(5e-6)
    assert found.copy_and_compute_s == pytest.approx(3e-6)
    assert "within the device" in str(found)


def test_kernels_that_do_not_fit_together_gain_nothing() -> None:
    """G2: a kernel's time begins with its first block, so that two that fill the GPU follow each other."""
    full = trace(*[[chain(100)]] * 2, shared_bytes=16 * 1024)
    commands = [LaunchKernel(stream, trace=full) for stream in (1, 2)]
    program = HostProgram([*commands], [HostStream(number, f"stream {number}") for number in range(3)])
    played = SimpyEngine(load_gpu("tiny").replace(dispatch_interval_fs=1), "kernel").play(program, ideal=True)
    first, second = played.operations
    assert (first.end_fs, second.start_fs) == (401_000_000, 400_000_000)  # its second block is placed a cycle later
    assert (second.wait_reason, second.waited_for) == ("SMs", "k")
    found = overlap(played)
    assert found.speedup == pytest.approx(1, rel=2e-3)
    assert "kernel k in stream 2 waited 400 ns for room on the SMs (k)" in found.notes

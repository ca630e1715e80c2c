"""Advice on whole programs, from their simulated time: each check with a program that it finds and a near miss."""

from __future__ import annotations

import warnings
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import gpusim_des as gs
from gpusim_des.timing.simulate import simulate
from tests import advised_kernels as k
from tests.programs import TINY, chain, trace

N = 1 << 16


def device(**changes: Any) -> gs.Device:
    return gs.Device(gs.load_gpu("h100-sxm").slice(sms=4).replace(**changes))


def arrays(dev: gs.Device, names: str) -> list[Any]:
    return [dev.malloc(N, np.float32, name) for name in names]


def checks(sim: gs.Simulation) -> list[str]:
    return [advice.check for advice in sim.advice()]


def scale(dev: gs.Device, a: Any, out: Any, blocks: int = 8, **options: Any) -> None:
    dev.launch(k.scaled, blocks, 256, a, out, 2.0, **options)


def test_many_short_kernels() -> None:
    dev = device()
    a, out = arrays(dev, "ab")
    for _ in range(20):
        scale(dev, a, out)
    found = dev.simulate().advice()[0]
    assert found.check == "launch_bound"
    assert found.finding.startswith("Launch-bound: nothing ran on the device for")
    assert found.remedy == "merge kernels, or use a graph"
    assert found.share > 0.5
    dev.forget_launches()
    dev.launch(k.counted_loop, 64, 256, a, out, 4000)
    scale(dev, a, out)
    assert "launch_bound" not in checks(dev.simulate())


def test_one_kernel_of_a_microsecond() -> None:
    """The seventh of ten mistakes: what is measured is the call."""

    def run(loops: int) -> gs.Simulation:
        dev = device()
        dev.launch(k.counted_loop, 8, 256, *arrays(dev, "ab"), loops)
        return dev.simulate()

    sim = run(1)
    found = sim.advice()[0]
    assert found.check == "short_kernel"
    assert found.finding.startswith("Kernel counted_loop runs for ")
    assert (found.figure, found.ideal) == (sim.kernels[0].seconds, sim.seconds)
    assert found.share == pytest.approx(1 - sim.kernels[0].seconds / sim.seconds)
    assert found.share > 0.5
    assert "short_kernel" not in checks(run(4000))


def chunks(dev: gs.Device, host: Any, streams: list[gs.Stream]) -> gs.Simulation:
    """Copy two chunks, each with a kernel behind it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gs.PageableCopyWarning)
        for number in range(2):
            stream = streams[number % len(streams)]
            a, out = arrays(dev, "ab")
            dev.memcpy_async(a, host, stream)
            dev.launch(k.counted_loop, 16, 256, a, out, 2000, stream=stream)
    dev.synchronize()
    return dev.simulate(engine="compiled")


def test_asynchronous_copies_of_pageable_memory() -> None:
    """Half a megabyte on a link that takes 55 GB/s from pinned memory: what staging adds can be computed."""
    dev = device()
    sim = chunks(dev, np.zeros(N, np.float32), [dev.stream(), dev.stream()])
    found = next(advice for advice in sim.advice() if advice.check == "pageable_copies")
    assert "these copies are not asynchronous: the host arrays are pageable" in found.finding
    assert found.remedy == "copy from and to dev.pinned(shape, dtype)"
    staging = 2 * 4 * N * (1 / dev.gpu.h2d_pageable_bytes_per_s - 1 / dev.gpu.h2d_pinned_bytes_per_s)
    possible = sim.seconds - sim.overlap().ideal_s
    assert found.share == pytest.approx(min(found.figure, possible + staging) / sim.seconds)
    dev = device()
    sim = chunks(dev, dev.pinned(N, np.float32), [dev.stream(), dev.stream()])
    assert "pageable_copies" not in checks(sim)


def test_one_stream_for_everything() -> None:
    dev = device()
    sim = chunks(dev, dev.pinned(N, np.float32), [dev.stream()])
    found = next(advice for advice in sim.advice() if advice.check == "one_stream")
    assert found.finding.startswith("All 4 operations are in stream 1, which runs them one after another")
    dev = device()
    sim = chunks(dev, dev.pinned(N, np.float32), [dev.stream(), dev.stream()])
    assert "one_stream" not in checks(sim)


def test_the_default_stream_between_others() -> None:
    def run(default_stream: Any) -> list[str]:
        dev = gs.Device(gs.load_gpu("h100-sxm").slice(sms=4), default_stream=default_stream)
        a, b, c = arrays(dev, "abc")
        host = dev.pinned(N, np.float32)
        dev.launch(k.counted_loop, 4, 256, a, b, 500, stream=dev.stream())
        dev.memcpy_async(c, host)
        dev.synchronize()
        return checks(dev.simulate())

    assert "no_overlap_default_stream" in run("legacy")
    assert "no_overlap_default_stream" not in run("per-thread")


@pytest.mark.parametrize("engines", [1, 2])
def test_one_copy_engine_for_both_directions(engines: int) -> None:
    dev = device(copy_engines=engines)
    a, b = arrays(dev, "ab")
    one, other = dev.pinned(N, np.float32), dev.pinned(N, np.float32)
    dev.memcpy_async(a, one, dev.stream())
    dev.memcpy_async(other, b, dev.stream())
    dev.synchronize()
    found = [advice for advice in dev.simulate().advice() if advice.check == "no_overlap_copy_engine"]
    assert len(found) == (engines == 1)
    assert all("busy with the other direction" in advice.finding for advice in found)


def test_a_host_that_waits_too_early() -> None:
    def run(*, early: bool) -> list[str]:
        dev = device()
        a, b, c = arrays(dev, "abc")
        host = dev.pinned(N, np.float32)
        stream = dev.stream()
        dev.launch(k.counted_loop, 4, 256, a, b, 500, stream=stream)
        if early:
            stream.synchronize()
        dev.memcpy_async(c, host, dev.stream())
        dev.synchronize()
        return checks(dev.simulate())

    assert "early_wait" in run(early=True)
    assert "early_wait" not in run(early=False)


def test_copies_so_small_that_latency_rules() -> None:
    """Ten copies of 4 KB take 0.07 µs each for their bytes, and the latency; one takes it once."""

    def run(count: int, n: int) -> gs.Simulation:
        dev = device()
        a, out = arrays(dev, "ab")
        for _ in range(count):
            dev.memcpy_async(a.part(0, n), dev.pinned(n, np.float32), None)
        scale(dev, a, out)
        dev.synchronize()
        return dev.simulate()

    many = run(10, 1000)
    found = next(advice for advice in many.advice() if advice.check == "small_copies")
    assert (found.figure, found.ideal) == (10, 1)
    latency = device().gpu.copy_latency_fs / 1e15
    assert found.share == pytest.approx(9 * latency / many.seconds)
    assert found.finding.startswith("10 copies h2d of 4,000 bytes, mean: 10 µs of each is latency")
    assert "small_copies" not in checks(run(1, 10_000))
    whole = 1 << 16
    assert 4 * whole / device().gpu.h2d_pinned_bytes_per_s < latency  # so these are small, too
    assert "small_copies" not in checks(run(2, whole))


def test_a_clock_that_is_read_too_early() -> None:
    """The seventh of ten mistakes."""

    def run(*, wait: bool) -> list[gs.Advice]:
        dev = device()
        a, out = arrays(dev, "ab")
        dev.launch(k.counted_loop, 16, 256, a, out, 4000)
        if wait:
            dev.synchronize()
        dev.host_work(1e-6, "read the clock")
        return dev.simulate().advice()

    first = run(wait=False)[0]
    assert first.check == "unsynchronized"
    assert first.share == pytest.approx(1 - first.figure / first.ideal)
    assert first.share > 0.5
    assert first.finding.startswith("The host ends after ")
    assert "and kernel counted_loop " in first.finding
    assert first.figure < first.ideal  # seconds until the host's end and until the device's
    assert "unsynchronized" not in [advice.check for advice in run(wait=True)]


def test_registers_that_keep_warps_away_where_latency_is_not_hidden() -> None:
    def run(registers: int, kernel: Any = k.counted_loop) -> list[gs.Advice]:
        dev = device()
        a, out = arrays(dev, "ab")
        arguments = (a, out, 4) if kernel is k.counted_loop else (a, out)
        dev.launch(kernel, 64, 256, *arguments, registers=registers)
        return dev.simulate().advice()

    found = next(advice for advice in run(200) if advice.check == "low_occupancy")
    assert (found.figure, found.ideal) == (0.125, 0.25)  # one block of 8 warps in 64 slots; two
    assert "limiter: registers" in found.finding
    assert "long_scoreboard" in found.finding
    assert found.remedy == "use at most 128 registers per thread"
    assert "low_occupancy" not in [advice.check for advice in run(32)]


def test_block_slots_cost_nothing_where_the_memory_is_busy() -> None:
    """32 warps of 64 saturate the DRAM of a GPU that has little of it."""

    def run(bandwidth: str) -> list[str]:
        dev = device(dram_bandwidth=bandwidth, dram_channels=1)
        n = 4 * 32 * 32 * 8
        a, b, c = (dev.malloc(n, np.float32, name) for name in "abc")
        dev.launch(k.vector_add, n // 32, 32, a, b, c, n)
        assert "tiny_blocks" in [advice.check for advice in dev.launches[0].advice()]
        return checks(dev.simulate())

    assert "tiny_blocks" in run("100 GB/s")
    assert "tiny_blocks" not in run("2 GB/s")


def test_kernels_weigh_as_much_as_their_time() -> None:
    dev = device()
    a, out = arrays(dev, "ab")
    for _ in range(3):
        dev.launch(k.by_column, (8, 8), (32, 8), a, out, 256)
    dev.launch(k.counted_loop, 8, 256, a, out, 500)
    sim = dev.simulate(engine="compiled")
    alone = dev.launches[0].advice()[0]
    (found,) = (advice for advice in sim.advice() if advice.kernel == "by_column")
    parts = [kernel.seconds / sim.seconds for kernel in sim.kernels[:3]]
    assert found.share == pytest.approx(alone.share * sum(parts))
    assert (found.check, found.line, found.finding) == (alone.check, alone.line, alone.finding)
    assert len(sim.advice()) > 1
    assert all(one.share >= other.share for one, other in pairwise(sim.advice()))
    assert sim.advice() == dev.simulate(engine="simpy").advice()


def test_programs_of_which_nothing_is_known_but_their_time() -> None:
    timeline = simulate(TINY, [trace([chain(4)])])
    assert gs.Simulation(timeline, "simpy").advice() == []
    assert gs.Simulation(gs.Timeline("tiny", 2, 500_000), "simpy").advice() == []


def test_arrays_of_one_line_stay_apart() -> None:
    """Lanes 16 and 32 bytes apart: 16 and 32 sectors, each array with its own sentence and share."""
    dev = device()
    n = 1 << 14
    a, b, out = (dev.malloc(8 * n, np.float32, name) for name in ("a", "b", "out"))
    alone = dev.launch(k.two_strides, n // 256, 256, a, b, out).advice()
    assert [(advice.array, advice.figure) for advice in alone] == [("b", 32), ("a", 16)]
    sim = dev.simulate()
    found = [advice for advice in sim.advice() if advice.check == "uncoalesced"]
    assert [advice.finding for advice in found] == [advice.finding for advice in alone]
    part = sim.kernels[0].seconds / sim.seconds
    assert [advice.share for advice in found] == pytest.approx([part * advice.share for advice in alone])
    assert {advice.filename for advice in found} == {k.__file__}

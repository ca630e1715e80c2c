"""Advice on overlap that did not happen: each check with a program that it finds, and a near miss."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpusim_des as gs
from tests import advised_kernels as k

N = 1 << 16


def device(gpu: str = "h100-sxm", sms: int = 4, **changes: Any) -> gs.Device:
    return gs.Device(gs.load_gpu(gpu).slice(sms=sms).replace(**changes))


def looping(dev: gs.Device, stream: gs.Stream, blocks: int = 2, loops: int = 1000) -> None:
    a, out = (dev.malloc(N, np.float32, name) for name in ("a", "out"))
    dev.launch(k.counted_loop, blocks, 256, a, out, loops, stream=stream)


def copy_in(dev: gs.Device, stream: gs.Stream, n: int = N) -> None:
    dev.memcpy_async(dev.malloc(n, np.float32, "in"), dev.pinned(n, np.float32), stream)


def copy_out(dev: gs.Device, stream: gs.Stream) -> None:
    dev.memcpy_async(dev.pinned(N, np.float32), dev.malloc(N, np.float32, "out"), stream)


def one_queue(*, near_miss: bool) -> gs.Device:
    """A kernel of stream 2 stands behind the second one of stream 1, which waits for the first; copies come last."""
    dev = device(hardware_queues=8 if near_miss else 1)
    one, two = dev.stream(), dev.stream()
    for stream in (one, one, two):
        looping(dev, stream)
    copy_out(dev, one)
    copy_out(dev, two)
    return dev


def one_kernel_at_a_time(*, near_miss: bool) -> gs.Device:
    """Kernels of two blocks each, beside copies; the second needs a place that the first has."""
    dev = device(max_concurrent_kernels=8 if near_miss else 1)
    for stream in (dev.stream(), dev.stream()):
        looping(dev, stream)
        copy_out(dev, stream)
    return dev


def full_sms(*, near_miss: bool) -> gs.Device:
    """A kernel of more blocks than fit, and one behind it in another stream."""
    dev = device()
    for blocks in (2 if near_miss else 64, 2):
        stream = dev.stream()
        looping(dev, stream, blocks)
        copy_out(dev, stream)
    return dev


def late_signal(*, near_miss: bool) -> gs.Device:
    """Kernels first, copies then: the C2050 tells that kernels are over when the last one is."""
    dev = device("k20c" if near_miss else "c2050", 2)
    streams = [dev.stream(), dev.stream()]
    for stream in streams:
        looping(dev, stream, 14)
    for stream in streams:
        copy_out(dev, stream)
    return dev


def blocking(*, near_miss: bool) -> gs.Device:
    """A copy that the host waits for, before it launches a kernel that does not need it."""
    dev = device()
    if near_miss:
        copy_in(dev, dev.stream())
    else:
        dev.memcpy(dev.malloc(N, np.float32, "in"), dev.pinned(N, np.float32))
    looping(dev, dev.stream())
    return dev


PROGRAMS: dict[str, tuple[Callable[..., gs.Device], str, str]] = {
    "no_overlap_hardware_queue": (
        one_queue,
        r"Kernel counted_loop in stream 2 waited .* for a turn in the hardware queue that streams share \(.*\)",
        "issue the operations of different streams in turns, or use fewer streams",
    ),
    "no_overlap_kernel_slot": (
        one_kernel_at_a_time,
        r"Kernel counted_loop in stream 2 waited .* for the end of another kernel: no more run at once \(.*\)",
        "launch fewer and larger kernels",
    ),
    "no_overlap_sms": (
        full_sms,
        r"Kernel counted_loop in stream 2 waited .* for room on the SMs \(counted_loop\)",
        "launch fewer blocks that stride over the data, so that there is room for both",
    ),
    "late_signal": (
        late_signal,
        r"d2h out in stream 1 waited .* after the end of kernel counted_loop; this chip signals the ends of kernels .*",
        "issue each copy behind its kernel",
    ),
    "blocking_copies": (
        blocking,
        r"h2d in: the host waited .* for the end of the copy, as asked",
        "memcpy_async with pinned memory goes on at once",
    ),
}


@pytest.mark.parametrize("check", PROGRAMS)
def test_what_kept_operations_apart(check: str) -> None:
    program, finding, remedy = PROGRAMS[check]
    sim, near = (_played(program(near_miss=near_miss)) for near_miss in (False, True))
    (found,) = (advice for advice in sim.advice() if advice.check == check)
    assert re.fullmatch(finding, found.finding), found.finding
    assert found.remedy == remedy
    assert found.share == pytest.approx(min(found.figure, sim.seconds - sim.overlap().ideal_s) / sim.seconds)
    assert found.share > 0.05
    assert check not in [advice.check for advice in near.advice()]


def _played(dev: gs.Device) -> gs.Simulation:
    dev.synchronize()
    return dev.simulate(engine="compiled")

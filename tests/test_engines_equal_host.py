"""Host programs in both engines: copies under way beside kernels, and what they leave in the L2 (E2, H1 to H3, M11)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gpusim_des as gs
from gpusim_des.gpu import GPU, load_gpu
from gpusim_des.timeline import Timeline
from gpusim_des.timing.compiled_engine import CompiledEngine
from gpusim_des.timing.simpy_engine import SimpyEngine
from gpusim_des.trace import Command, CopyMemory, HostProgram, HostStream, HostWork, LaunchKernel, SetMemory
from tests.equality import any_programs
from tests.programs import load, store, trace
from tests.random_host_programs import Case as HostCase
from tests.random_host_programs import cases as host_cases
from tests.timed_programs import copy, graph, record, synchronize, wait


@gs.block_kernel
def double(blk: gs.Block, array: gs.DeviceArray) -> None:
    i = blk.bx * blk.bdx + blk.tx
    blk.store(array, i, blk.load(array, i) * np.float32(2))


UNHURRIED = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)


class Case(NamedTuple):
    """A GPU and a host program."""

    gpu: GPU
    caches: bool
    program: HostProgram

    def play(self, engine: type[SimpyEngine]) -> Timeline:
        return engine(self.gpu, "sm", caches=self.caches).play(self.program)


@st.composite
def busy_cases(draw: st.DrawFn) -> Case:
    """Random kernels of up to three streams among copies of the lines that they use; all is over in nanoseconds."""
    random = draw(any_programs())
    ns = [f"{draw(st.integers(0, 40))} ns" for _ in range(7)]
    names = ["launch_call", "copy_call", "launch_latency", "kernel_gap", "graph_gap", "synchronize_latency"]
    names.append("copy_latency")
    rates = ("h2d_pinned", "d2h_pinned", "h2d_pageable", "d2h_pageable")
    changes: dict[str, Any] = dict(zip(names, ns, strict=True))
    changes |= {rate: draw(st.sampled_from(["1 GB/s", "16 GB/s", "60 GB/s"])) for rate in rates}
    gpu = random.gpu.replace(
        **changes,
        copy_engines=draw(st.sampled_from([1, 2])),
        max_concurrent_kernels=draw(st.sampled_from([1, 2, 4])),
        hardware_queues=draw(st.sampled_from([1, 32])),
        late_kernel_signals=draw(st.sampled_from(["no", "yes"])),
    )
    commands: list[Command] = []
    kernels = [
        LaunchKernel(stream, trace=trace(*blocks, registers=random.registers))
        for blocks, stream in zip(random.kernels, random.streams, strict=True)
    ]
    for kernel in [*kernels, None]:
        for _ in range(draw(st.integers(0, 3))):
            stream, address = draw(st.integers(0, 2)), 128 * draw(st.integers(0, 12))
            nbytes = draw(st.sampled_from([128, 1024, 40_000]))
            kind = draw(st.sampled_from(["h2d", "h2d", "d2h", "d2d", "memset", "event", "work", "synchronize"]))
            if kind == "memset":
                commands.append(SetMemory(stream, address=address, nbytes=nbytes))
            elif kind == "event":
                commands += [record(len(commands), stream), wait(len(commands), draw(st.integers(0, 2)))]
            elif kind == "work":
                commands.append(HostWork(femtoseconds=draw(st.integers(0, 50)) * 10**6))
            elif kind == "synchronize":
                commands.append(synchronize())
            else:
                options = {"pinned": draw(st.booleans()), "blocking": draw(st.booleans())}
                commands.append(copy(kind, nbytes / 1000, stream, address=address, **options))  # type: ignore[arg-type]
        if kernel:
            commands.append(graph((kernel, ()), stream=kernel.stream) if draw(st.booleans()) else kernel)
    program = HostProgram(commands, [HostStream(n, f"s{n}") for n in range(3)], per_thread_default=draw(st.booleans()))
    return Case(gpu, random.caches, program)


@settings(max_examples=100, deadline=None, suppress_health_check=UNHURRIED)
@given(case=busy_cases())
def test_engines_are_equal_on_random_host_programs(case: Case) -> None:
    assert case.play(SimpyEngine) == case.play(CompiledEngine)


@settings(max_examples=50, deadline=None, suppress_health_check=UNHURRIED)
@given(case=host_cases())
def test_engines_are_equal_on_schedules(case: HostCase) -> None:
    """Nothing of memory, but streams, events, graphs and priorities."""
    assert case.play() == CompiledEngine(case.gpu, "kernel").play(case.program)


def test_a_kernel_among_copies_on_a_real_gpu() -> None:
    """Copies that fill the L2 and drive dirty lines out, while a kernel runs in another stream."""
    gpu = load_gpu("t4").slice(sms=4)
    blocks = [[[load(range(4 * n, 4 * n + 4)), store(range(4 * n + 9000, 4 * n + 9004), 0)]] * 4 for n in range(200)]
    kernel = trace(*blocks)
    program = HostProgram(
        [
            CopyMemory(0, direction="h2d", nbytes=1 << 17, pinned=True, blocking=True),
            LaunchKernel(1, trace=kernel),
            CopyMemory(2, direction="h2d", address=1 << 20, nbytes=8 << 20, pinned=True),
            SetMemory(3, address=1 << 22, nbytes=1 << 20),
            LaunchKernel(1, trace=kernel),
            CopyMemory(1, direction="d2h", nbytes=1 << 20),
            CopyMemory(2, direction="d2d", nbytes=1 << 20),
        ],
        [HostStream(n, f"s{n}") for n in range(4)],
    )
    one, other = (engine(gpu, "sm", caches=True).play(program) for engine in (SimpyEngine, CompiledEngine))
    assert one == other
    assert one.kernels[0].l2_hit_sectors  # what the first copy left
    assert sum(operation.dram_bytes for operation in one.copies)


def test_the_result_says_which_engine_ran() -> None:
    """The same kernel as a user launches it, between copies."""
    dev = gs.Device("tiny")
    array = dev.to_device(np.arange(256, dtype=np.float32))
    dev.launch(double, 2, 128, array)
    dev.to_host(array)
    one, other = dev.simulate(engine="simpy"), dev.simulate(engine="compiled")
    assert (one.engine, other.engine) == ("simpy", "compiled")
    assert one.timeline == other.timeline

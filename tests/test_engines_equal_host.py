"""Host programs in both engines: copies under way beside kernels, and what they leave in the L2 (E2, H1 to H3, M11)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import gpusim_des as gs
from gpusim_des.gpu import load_gpu
from gpusim_des.timing.compiled_engine import CompiledEngine
from gpusim_des.timing.probe import Detail
from gpusim_des.timing.simpy_engine import SimpyEngine
from gpusim_des.trace import CopyMemory, HostProgram, HostStream, LaunchKernel, SetMemory
from tests.equality import cases, differences, report
from tests.programs import load, store, trace
from tests.random_host_programs import Case
from tests.random_host_programs import cases as schedules


@gs.block_kernel
def double(blk: gs.Block, array: gs.DeviceArray) -> None:
    i = blk.bx * blk.bdx + blk.tx
    blk.store(array, i, blk.load(array, i) * np.float32(2))


@settings(max_examples=50, deadline=None, phases=[Phase.generate])
@given(begin=st.integers(0, 1 << 32), detail=st.sampled_from(["kernel", "sm", "sm", "warp"]))
def test_engines_are_equal_on_random_host_programs(begin: int, detail: Detail) -> None:
    """Kernels of up to four streams among copies of the lines that they use."""
    (case,) = cases(begin, 1, "hosts")
    assert not differences(case, detail), report(case, detail)


@pytest.mark.slow
@settings(max_examples=150, deadline=None, phases=[Phase.generate])
@given(begin=st.integers(0, 1 << 32), detail=st.sampled_from(["kernel", "sm", "sm", "warp"]))
def test_engines_are_equal_on_more_random_host_programs(begin: int, detail: Detail) -> None:
    (case,) = cases(begin, 1, "hosts")
    assert not differences(case, detail), report(case, detail)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(case=schedules())
def test_engines_are_equal_on_schedules(case: Case) -> None:
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

"""The compiled engine comes to the same timeline as the readable one, to the last integer (E2)."""

import signal

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from gpusim_des.errors import DeadlockError, SimulationInterrupted, TraceError
from gpusim_des.gpu import load_gpu
from gpusim_des.timeline import Timeline
from gpusim_des.timing.compiled_engine import CompiledEngine
from gpusim_des.timing.offered_load import WINDOW_BITS
from gpusim_des.timing.simpy_engine import SimpyEngine
from gpusim_des.timing.simulate import simulate
from gpusim_des.trace import KernelTrace
from tests.equality import cases, differences, report
from tests.programs import BARRIER, TINY, atomic, bulk_copy, bulk_wait, chain, fp32, load, store, trace

# What fails is made smaller by `report`, not by Hypothesis, which has only a seed.
SEEDS = settings(max_examples=60, deadline=None, phases=[Phase.generate])


@SEEDS
@given(begin=st.integers(0, 1 << 32))
def test_engines_are_equal(begin: int) -> None:
    (case,) = cases(begin, 1, "kernels")
    assert not differences(case), report(case)


@pytest.mark.slow
@settings(SEEDS, max_examples=300)
@given(begin=st.integers(0, 1 << 32))
def test_engines_are_equal_on_more_programs(begin: int) -> None:
    (case,) = cases(begin, 1, "kernels")
    assert not differences(case), report(case)


@settings(SEEDS, max_examples=40)
@given(begin=st.integers(0, 1 << 32))
def test_histories_of_warps_are_equal(begin: int) -> None:
    """Every state, every instruction, and what ended every wait."""
    (case,) = cases(begin, 1, "kernels")
    assert not differences(case, "warp"), report(case, "warp")


def streaming(blocks: int, warps: int = 8) -> KernelTrace:
    """Two loads, a sum and a store, each warp beside the one before."""
    program = []
    for block in range(blocks):
        rows = [4 * (block * warps + w) for w in range(warps)]
        program.append(
            [
                [
                    load(range(r, r + 4)),
                    load(range(r + 9000, r + 9004)),
                    fp32(0, 1),
                    store(range(r + 20000, r + 20004), 2),
                ]
                for r in rows
            ]
        )
    return trace(*program)


@pytest.mark.parametrize("name", ["v100-sxm2", "h100-sxm", "t4"])
@pytest.mark.parametrize("caches", [True, False])
def test_engines_are_equal_on_real_gpus(name: str, caches: bool) -> None:
    """Many blocks at once, several batches of them, and kernels one after another that leave the L2 warm."""
    gpu = load_gpu(name).slice(sms=4)
    kernels = [streaming(120), trace(*[[chain(20)] * 4] * 90), streaming(40)]
    engines = (SimpyEngine, CompiledEngine)
    one, other = (engine(gpu, caches=caches).run(kernels, [0, 1, 0]) for engine in engines)
    assert one == other
    assert len(one.blocks) == 250


def test_engines_are_equal_over_many_windows_of_load() -> None:
    """M6: reads and writes, a pause of more than a window, and reads and writes again, through an L2 of a few lines."""
    gpu = load_gpu("a100-sxm-80gb").slice(sms=1).replace(l2_size="16 KiB")
    kernels = [streaming(400, 4), trace([chain(2600)]), streaming(200, 4)]
    one, other = (engine(gpu).run(kernels, [0, 0, 0]) for engine in (SimpyEngine, CompiledEngine))
    assert one == other
    first, pause, _ = (kernel.end_fs - kernel.start_fs for kernel in one.kernels)
    assert first > 3 << WINDOW_BITS
    assert pause > 1 << WINDOW_BITS


def test_the_longest_batches_fit_64_bits() -> None:
    """M6: at full load a read waits for two batches, here of a second each."""
    gpu = TINY.replace(dram_bandwidth="64 MB/s", dram_latency=1 << 20, l2_size="1 KiB")
    gpu = gpu.replace(dram_read_batch="16 MB", dram_write_batch="16 MB")
    assert gpu.dram_batch_fs("read") == gpu.dram_batch_fs("write") == 10**15
    program = [part for line in range(0, 80, 4) for part in (store([line]), load([line + 400]))]
    one, other = (engine(gpu, caches=True).run([trace([program])], [0]) for engine in (SimpyEngine, CompiledEngine))
    assert one == other
    assert 10**15 < one.kernels[0].end_fs < 3 * 10**15


def test_a_program_that_waits_for_stores_and_atomics_is_equal() -> None:
    """M7, M8: full store buffers stop the load/store unit, and one address is fought for."""
    gpu = TINY.replace(store_buffer="128 B", load_store_queue_depth=2)
    fight = [store(range(8)), atomic([3], passes=[32]), load(range(4)), atomic([3, 9], 2), fp32(3)]
    kernel = trace(*[[fight, fight[:3], fight]] * 9)
    for caches in ("on", "off"):
        one = simulate(gpu, [kernel] * 2, engine="simpy", caches=caches, streams=[0, 1])
        assert one == simulate(gpu, [kernel] * 2, engine="compiled", caches=caches, streams=[0, 1])


def test_deadlocks_are_told_in_the_same_words() -> None:
    """A copy behind the wait for it never starts, and the barrier never fills."""
    kernel = trace([[BARRIER, fp32()], [bulk_wait(1), bulk_copy(range(4), phase=1)], []], [[fp32()], [], []])
    told = []
    for engine in (SimpyEngine, CompiledEngine):
        with pytest.raises(DeadlockError) as caught:
            engine(TINY).run([kernel])
        told.append(str(caught.value))
    assert told[0] == told[1]


def test_progress_is_told_block_by_block() -> None:
    heard: list[tuple[str, int, int]] = []
    simulate(TINY, [streaming(5)], engine="compiled", progress=lambda *what: heard.append(what))
    assert heard == [("k", n, 5) for n in range(1, 6)]


def test_histories_of_servers_are_refused() -> None:
    with pytest.raises(TraceError, match="keeps no history of its servers; use engine='simpy'"):
        CompiledEngine(TINY, history=True)


def test_kernels_that_end_at_one_instant_make_way_in_the_order_of_issue() -> None:
    """H1: both ends are known before one of those that wait is chosen."""
    kernels = [trace([chain(length)]) for length in (9, 9, 5, 7, 3)]
    gpu = TINY.replace(max_concurrent_kernels=2)
    for streams in ([0, 1, 2, 0, 1], [0, 1, 1, 0, 2]):
        one, other = (engine(gpu).run(kernels, streams) for engine in (SimpyEngine, CompiledEngine))
        assert one == other


def test_an_interrupt_leaves_what_was_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpusim_des.timing.compiled_engine.EVENTS_AT_ONCE", 40)

    def once(_: str, retired: int, __: int) -> None:
        if retired == 3:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(SimulationInterrupted, match="simulation interrupted at") as caught:
        simulate(TINY, [streaming(60)], engine="compiled", progress=once)
    partial = caught.value.partial
    assert isinstance(partial, Timeline)
    assert not partial.complete
    (kernel,) = partial.kernels
    assert 0 < kernel.warp_instructions < 60 * 8 * 4
    assert sum(kernel.stalls.values()) == kernel.resident_warp_cycles

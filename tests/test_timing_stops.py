"""Simulations that end early (F1), by `max_cycles` or Ctrl-C, and simulations of which only a part is watched."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from itertools import count, pairwise
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusim_des.errors import CycleLimitError, DeadlockError, SimulationInterrupted
from gpusim_des.gpu import GPU, load_gpu
from gpusim_des.timeline import StateSpan, Timeline, WarpHistory
from gpusim_des.timing.interrupt import interrupts_go_to
from gpusim_des.timing.simpy_engine import SimpyEngine
from gpusim_des.timing.simulate import simulate
from gpusim_des.timing.sm import StreamingMultiprocessor
from gpusim_des.trace import KernelTrace, OpClass
from tests.programs import (
    BARRIER,
    BRANCH,
    EVERYTHING,
    FENCE,
    TINY,
    Case,
    Part,
    bulk_copy,
    bulk_wait,
    cases,
    chain,
    fp32,
    load,
    op,
    pictures,
    store,
    trace,
    warp,
)

NS = 10**6
"""Femtoseconds in a nanosecond, a cycle of `tiny`."""


def stopped(max_cycles: int, *blocks: list[list[Part]]) -> Timeline:
    """What remains of a kernel that is given up after some cycles, with caches on."""
    with pytest.raises(CycleLimitError) as caught:
        simulate(TINY, [trace(*blocks)], detail="warp", max_cycles=max_cycles)
    return cast("Timeline", caught.value.partial)


def check_consistent(timeline: Timeline) -> None:
    """I7 for the only kernel: states tile each residency and add up; nothing lasts longer than the kernel."""
    kernel = timeline.kernels[0]
    sums: Counter[str] = Counter()
    for history in timeline.warps:
        edges = [(span.start_cycle, span.end_cycle) for span in history.states]
        assert all(start < end for start, end in edges)
        assert all(left[1] == right[0] for left, right in pairwise(edges))
        if edges:
            assert (history.start_cycle, history.end_cycle) == (edges[0][0], edges[-1][1])
        for span in history.states:
            sums[span.state.suffix] += span.end_cycle - span.start_cycle
        assert all(event.cycle < event.complete_cycle for event in history.issues)
    assert sum(kernel.stalls.values()) == kernel.resident_warp_cycles
    assert {state: cycles for state, cycles in kernel.stalls.items() if cycles} == dict(sums)
    assert kernel.stalls["selected"] == kernel.warp_instructions
    active = {(w.sm, cycle) for w in timeline.warps for cycle in range(w.start_cycle, w.end_cycle)}
    assert kernel.sm_active_cycles == len(active)
    assert all(b.start_fs <= b.end_fs <= kernel.end_fs for b in timeline.blocks)
    shares = (kernel.dram_utilization, kernel.busiest_channel, kernel.busiest_atomic_unit, kernel.l2_utilization or 0)
    assert all(0 <= share <= 1 for share in shares)


def before(history: WarpHistory, cycle: int) -> list[StateSpan]:
    """States of a warp before a cycle."""
    spans = (StateSpan(s.state, s.start_cycle, min(s.end_cycle, cycle)) for s in history.states)
    return [span for span in spans if span.start_cycle < cycle]


# Giving up after some cycles ----------------------------------------------------------------------------------------


def test_a_kernel_that_is_done_in_time_is_not_given_up() -> None:
    """Eight cycles are enough for eight cycles, and one less is not."""
    kernel = trace([chain(2)])
    assert simulate(TINY, [kernel], max_cycles=8).kernels[0].cycles == 8
    with pytest.raises(CycleLimitError):
        simulate(TINY, [kernel], max_cycles=7)


def test_the_message_says_how_far_it_came() -> None:
    """What was asked for, how far every kernel came, and what to do."""
    with pytest.raises(CycleLimitError) as caught:
        simulate(TINY.replace(max_blocks_per_sm=1), [trace(*[[chain(500)]] * 4)], max_cycles=2500)
    assert str(caught.value) == (
        "the simulation reached max_cycles = 2,500 before its end (k 2 of 4 blocks); allow more cycles or simulate "
        "less; the exception's partial holds what was simulated"
    )


def test_what_is_under_way_is_cut() -> None:
    """The load, the barrier and the chain last beyond cycle 30, the block beyond 30 ns."""
    timeline = stopped(30, [[load([0]), fp32(0)], [fp32(), BARRIER], chain(50)])
    assert pictures(timeline) == ["S" + "L" * 29, "SS" + "B" * 28, "nSww" + "wSww" * 6 + "wS"]
    assert [(b.start_fs, b.end_fs) for b in timeline.blocks] == [(0, 30 * NS)]
    assert (timeline.kernels[0].end_fs, timeline.kernels[0].cycles) == (30 * NS, 30)
    assert not timeline.complete
    assert not timeline.kernels[0].complete
    check_consistent(timeline)


def test_states_keep_their_order_up_to_the_cut() -> None:
    """I7: until 11 the branch is the reason, and the load from then on; a fence comes before what follows it."""
    timeline = stopped(50, [[load([0]), BRANCH, fp32(0)], [store([8]), FENCE, fp32()]])
    assert pictures(timeline) == ["SS" + "r" * 9 + "L" * 39, "SS" + "F" * 48]


def test_a_bulk_wait_is_cut_behind_the_start_of_its_block() -> None:
    """G3: the first five cycles belong to the start."""
    kernel = trace([[bulk_copy([0])], [bulk_wait(), fp32()]])
    with pytest.raises(CycleLimitError) as caught:
        simulate(TINY.replace(block_start=5), [kernel], detail="warp", max_cycles=20)
    timeline = cast("Timeline", caught.value.partial)
    assert pictures(timeline) == ["-----S" + "D" * 14, "-----" + "L" * 15]
    check_consistent(timeline)


def test_a_warp_whose_end_is_known_is_recorded_to_its_end() -> None:
    """The last result is complete at 20, and the slot would be free then; the cut at 5 does not forget that."""
    timeline = stopped(5, [[op(OpClass.SFU)], [load([0])]])
    assert pictures(timeline) == ["S" + "w" * 19, "S" + "D" * 4]
    assert timeline.kernels[0].end_fs == timeline.blocks[0].end_fs == 20 * NS
    check_consistent(timeline)


def test_a_channel_is_not_busy_before_its_time() -> None:
    """M10: at 60 the request is known to be at its channel from 99.75 on, which is no use of it yet."""
    assert stopped(60, [[load([0])]]).kernels[0].dram_utilization == 0
    # Half of the two cycles on one of four channels.
    assert stopped(101, [[load([0])]]).kernels[0].dram_utilization == pytest.approx(1.25 / 404)


def test_kernels_before_the_limit_are_whole() -> None:
    """The first kernel ended at 8; the second is cut at 12, and the third never started."""
    kernels = [trace([chain(2)]), trace([chain(2)]), trace([chain(2)])]
    with pytest.raises(CycleLimitError, match=r"\(k 0 of 1 blocks\)") as caught:
        simulate(TINY, kernels, detail="warp", max_cycles=12)
    timeline = cast("Timeline", caught.value.partial)
    assert [(k.start_fs // NS, k.end_fs // NS, k.complete) for k in timeline.kernels] == [(0, 8, True), (8, 12, False)]
    assert pictures(timeline) == ["SwwwSwww", " " * 8 + "Swww"]


def test_a_limit_between_two_kernels() -> None:
    """The first kernel ended at 8, so there is nothing to cut; the second could issue at 8 at the earliest."""
    with pytest.raises(CycleLimitError) as caught:
        simulate(TINY, [trace([chain(2)]), trace([chain(2)])], detail="warp", max_cycles=8)
    timeline = cast("Timeline", caught.value.partial)
    assert timeline.kernels[0].complete
    assert not timeline.complete


@settings(max_examples=100, deadline=None)
@given(case=cases(EVERYTHING, caches=True), max_cycles=st.integers(1, 150))
def test_the_partial_timeline_is_the_beginning_of_the_whole(case: Case, max_cycles: int) -> None:
    """Every state before the limit is what it is without one."""
    whole = simulate(case.gpu, [case.trace()], detail="warp")
    try:
        simulate(case.gpu, [case.trace()], detail="warp", max_cycles=max_cycles)
    except CycleLimitError as error:
        partial = cast("Timeline", error.partial)
    else:
        assert whole.kernels[0].cycles <= max_cycles
        return
    assert whole.kernels[0].cycles > max_cycles
    check_consistent(partial)
    cut = {(w.block, w.warp): w for w in partial.warps}
    for history in whole.warps:
        expected = before(history, max_cycles)
        if expected:
            found = cut[history.block, history.warp]
            assert before(found, max_cycles) == expected
            assert found.end_cycle in (history.end_cycle, max_cycles)
            cycles = [(e.index, e.cycle) for e in history.issues if e.cycle < max_cycles]
            assert [(e.index, e.cycle) for e in found.issues] == cycles


@pytest.mark.parametrize("max_cycles", [0, -5])
def test_a_limit_is_at_least_one(max_cycles: int) -> None:
    with pytest.raises(ValueError, match=f"max_cycles = {max_cycles}: must be a whole number of SM cycles, at least 1"):
        simulate(TINY, [trace([chain(1)])], max_cycles=max_cycles)


# Ctrl-C -------------------------------------------------------------------------------------------------------------


def long_kernel() -> KernelTrace:
    """A kernel that takes minutes to simulate: thousands of blocks that share one warp's program."""
    program = warp(*[load([4 * n]) for n in range(64)], *chain(400))
    return KernelTrace.of_blocks("forever", [[program] * 4] * 5000)


def test_an_interrupt_leaves_what_was_simulated() -> None:
    """The exception is a `KeyboardInterrupt` with a consistent timeline; afterwards Ctrl-C works as before."""
    usual = signal.getsignal(signal.SIGINT)
    sent: list[int] = []

    def press() -> None:
        sent.append(signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    def progress(_name: str, retired: int, _blocks: int) -> None:
        if retired == 20:  # some blocks are through; the signal comes while others are in the middle
            threading.Timer(0.05, press).start()

    with pytest.raises(SimulationInterrupted, match=r"interrupted at [\d,]+ cycles \(forever \d+ of 5,000 b") as caught:
        simulate(TINY, [long_kernel()], detail="warp", progress=progress, engine="simpy")
    assert sent
    assert isinstance(caught.value, KeyboardInterrupt)
    timeline = cast("Timeline", caught.value.partial)
    assert not timeline.complete
    assert timeline.kernels[0].blocks == 5000
    assert 20 <= len(timeline.blocks) < 5000
    check_consistent(timeline)
    assert signal.getsignal(signal.SIGINT) is usual


def interrupt_behind(gpu: GPU, trace: KernelTrace, events: int) -> Timeline:
    """Timeline of a simulation that is interrupted behind a number of events, if it has as many."""
    engine = SimpyEngine(gpu, "warp", caches=True)
    step = engine.env.step
    left = [events]

    def counted_step() -> None:
        step()
        left[0] -= 1
        if not left[0]:
            signal.raise_signal(signal.SIGINT)

    engine.env.step = counted_step  # type: ignore[method-assign]
    try:
        return engine.run([trace])
    except SimulationInterrupted as interrupt:
        return cast("Timeline", interrupt.partial)


@settings(max_examples=60, deadline=None)
@given(case=cases(EVERYTHING, caches=True), events=st.integers(1, 400))
def test_an_interrupt_may_come_between_any_two_events(case: Case, events: int) -> None:
    """Whatever has happened of the present instant, states tile and add up."""
    timeline = interrupt_behind(case.gpu, case.trace(), events)
    if timeline.kernels and not timeline.complete:  # before the first event no kernel has started
        check_consistent(timeline)


def test_interrupts_behind_every_event_of_a_kernel() -> None:
    """Among them those between a kernel's end and what hears of it."""
    partial = []
    for events in count(1):
        timeline = interrupt_behind(TINY, trace([[fp32()]]), events)
        if timeline.complete:
            break
        partial.append(timeline)
    assert len(partial) > 10
    for timeline in partial:
        if timeline.kernels:
            check_consistent(timeline)


def test_a_second_interrupt_raises_as_usual() -> None:
    """Who presses Ctrl-C twice does not want to wait for the next event."""
    heard: list[str] = []
    usual = signal.getsignal(signal.SIGINT)

    def press_twice() -> None:
        with interrupts_go_to(lambda: heard.append("stop")):
            signal.raise_signal(signal.SIGINT)
            assert heard == ["stop"]
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        press_twice()
    assert heard == ["stop"]
    assert signal.getsignal(signal.SIGINT) is usual


def test_somebody_elses_handler_stays() -> None:
    """Where a program handles interrupts itself, the simulation leaves them alone, and in other threads as well."""
    heard: list[str] = []
    usual = signal.signal(signal.SIGINT, lambda *_: heard.append("theirs"))
    try:
        with interrupts_go_to(lambda: heard.append("ours")):
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, usual)
    assert heard == ["theirs"]
    thread = threading.Thread(target=lambda: heard.append(str(simulate(TINY, [trace([chain(1)])]).kernels[0].cycles)))
    thread.start()
    thread.join()
    assert heard == ["theirs", "4"]


# Watching a part ----------------------------------------------------------------------------------------------------


def test_only_the_chosen_sms_are_watched() -> None:
    """`watch` chooses whose warps are recorded; blocks and totals are those of all SMs."""
    kernel = trace(*[[[load([0]), fp32(0)]]] * 4)
    everything = simulate(TINY, [kernel], detail="warp")
    watched = simulate(TINY, [kernel], detail="warp", watch=[1])
    assert {w.sm for w in watched.warps} == {1}
    assert watched.warps == tuple(w for w in everything.warps if w.sm == 1)
    assert (watched.blocks, watched.kernels) == (everything.blocks, everything.kernels)
    assert simulate(TINY, [kernel], detail="warp", watch=[]).warps == ()


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"watch": [2], "detail": "warp"}, r"watch = \[2\]: tiny .* has the SMs 0 to 1"),
        ({"watch": ["a"], "detail": "warp"}, r"watch = \['a'\]: tiny .* has the SMs 0 to 1"),
        ({"watch": 0, "detail": "warp"}, "watch = 0: give the numbers of the SMs to record, for example"),
        ({"watch": [1]}, r"watch = \[1\] with detail = 'sm': warps are recorded with detail=\"warp\" only"),
        ({"max_cycles": 1.5}, "max_cycles = 1.5: must be a whole number of SM cycles"),
    ],
)
def test_what_cannot_be_asked_for(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        simulate(TINY, [trace([chain(1)])], **asked)


def test_a_deadlock_is_one_whatever_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """I6: more cycles would not help a kernel in which nothing can happen any more."""
    monkeypatch.setattr(StreamingMultiprocessor, "_release_if_full", lambda *_: None)
    with pytest.raises(DeadlockError, match=r"block \(0, 0, 0\) on SM 0: warps 0, 1 at a barrier"):
        simulate(TINY, [trace([[BARRIER, fp32()], [BARRIER, fp32()]])], max_cycles=1000)


def test_figures_of_a_stopped_kernel_stay_within_their_time() -> None:
    """F1: units have accepted more than they had time for; shares of time and DRAM bytes count what fits."""
    kernel = trace([[load(range(32 * k, 32 * k + 32)) for k in range(8)]] * 4)
    with pytest.raises(CycleLimitError) as caught:
        simulate(TINY, [kernel], max_cycles=60, caches="off")
    partial = caught.value.partial
    assert isinstance(partial, Timeline)
    (stopped,) = partial.kernels
    assert not stopped.complete
    assert stopped.dram_bytes_per_second <= TINY.dram_bandwidth_bytes_per_s
    assert 0 <= stopped.dram_utilization <= 1
    assert 0 <= stopped.load_store_utilization <= 1


def test_watching_counts_as_well_when_the_simulation_is_cut() -> None:
    """The warps of an SM that nobody watches are cut without a record, and counted."""
    with pytest.raises(CycleLimitError) as caught:
        simulate(TINY, [trace(*[[[load([0])]]] * 2)], detail="warp", watch=[0], max_cycles=10)
    timeline = cast("Timeline", caught.value.partial)
    assert [w.sm for w in timeline.warps] == [0]
    assert timeline.kernels[0].resident_warp_cycles == 10 + 9


@pytest.mark.parametrize("watch", [[2], [-1], [0, 132]])
def test_an_sm_that_does_not_exist_cannot_be_watched(watch: list[int]) -> None:
    with pytest.raises(ValueError, match=r"watch = .*has the SMs 0 to 1"):
        simulate(TINY, [trace([chain(1)])], detail="warp", watch=watch)


def test_watching_one_sm_of_a_large_gpu() -> None:
    """Of 132 blocks on 132 SMs, one is recorded."""
    gpu = load_gpu("h100-sxm")
    timeline = simulate(gpu, [trace(*[[chain(2)]] * 132)], detail="warp", watch=[100])
    assert [(w.block, w.sm) for w in timeline.warps] == [(100, 100)]

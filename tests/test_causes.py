"""What ended every wait: causes recorded in the timeline, and chains of them followed backwards."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from gpusim_des.timeline import Cause, StateSpan, Timeline, WarpState, why
from gpusim_des.timing.simulate import simulate
from gpusim_des.trace import Instruction, KernelTrace, OpClass, WarpTrace
from tests.programs import BARRIER, BRANCH, TINY, Case, cases, fp32, load, op, run, sfu, store, trace

ONE_SCHEDULER = TINY.replace(sub_partitions=1)


def causes(timeline: Timeline, warp: int = 0) -> list[tuple[str, Cause | None]]:
    """State and cause of every wait of a warp."""
    states = timeline.warps[warp].states
    return [(span.state.suffix, span.cause) for span in states if span.state is not WarpState.SELECTED]


def test_operands_that_were_late() -> None:
    program = [load([0]), op(OpClass.SHARED_LOAD, 0), fp32(1), fp32(2)]
    assert causes(run(TINY, [program])) == [
        ("long_scoreboard", Cause("global_load", 0, 0)),
        ("short_scoreboard", Cause("shared_load", 0, 1)),
        ("wait", Cause("fp32", 0, 2)),
        ("wait", Cause("fp32", 0, 3)),
    ]


def test_branches_and_the_start_of_a_block() -> None:
    assert causes(run(TINY.replace(block_start=5), [[BRANCH, fp32()]])) == [
        ("no_instruction", Cause("block_start")),
        ("branch_resolving", Cause("branch", 0, 0)),
        ("wait", Cause("fp32", 0, 1)),
    ]


def test_a_barrier_names_the_warp_that_came_last() -> None:
    timeline = run(TINY, [[BARRIER, fp32()], [sfu(), op(OpClass.BARRIER, 0), fp32()]])
    assert causes(timeline)[0] == ("barrier", Cause("barrier", 1, 1))


def test_a_barrier_names_the_warp_whose_exit_opened_it() -> None:
    timeline = run(TINY, [[BARRIER, fp32()], [sfu(), op(OpClass.EXIT, 0)]])
    assert causes(timeline)[0] == ("barrier", Cause("exit", 1, 1))


def test_units_and_schedulers_that_were_busy() -> None:
    """Two warps, one scheduler: the second is not chosen in cycle 0 and finds the fp64 pipe occupied in cycle 1."""
    timeline = run(ONE_SCHEDULER, [[op(OpClass.FP64), fp32()], [op(OpClass.FP64)]])
    assert causes(timeline, 1) == [
        ("not_selected", Cause("scheduler")),
        ("math_pipe_throttle", Cause("fp64")),
        ("wait", Cause("fp64", 1, 0)),
    ]


def test_the_end_of_a_warp() -> None:
    assert causes(run(TINY, [[load([0])]])) == [("drain", Cause("global_load", 0, 0))]


def test_a_fence_names_what_it_waited_for() -> None:
    fence = op(OpClass.FENCE)
    assert causes(run(TINY, [[store([0]), fence]])) == [("membar", Cause("acknowledgement"))]
    assert causes(run(TINY, [[load([0]), fence]])) == [("membar", Cause("global_load", 0, 0))]


def test_a_bulk_copy_that_another_warp_started() -> None:
    copy = WarpTrace.of([Instruction(OpClass.BULK_COPY, operand=7)], [range(32)])
    wait = WarpTrace.of([Instruction(OpClass.BULK_WAIT, operand=7)])
    timeline = simulate(TINY, [KernelTrace.of_blocks("k", [[copy, wait]])], detail="warp")
    assert causes(timeline, 1) == [("long_scoreboard", Cause("bulk_copy", 0, 0))]


@settings(max_examples=60, deadline=None)
@given(case=cases())
def test_every_wait_has_a_cause_that_came_before_its_end(case: Case) -> None:
    """Whatever ended a wait was issued in the same block, and its result is complete when the wait ends."""
    timeline = simulate(case.gpu, [case.trace()], detail="warp")
    warps = {(h.block, h.warp): h for h in timeline.warps}
    for history in timeline.warps:
        for span in history.states:
            if span.state is WarpState.SELECTED:
                assert span.cause is None
                continue
            assert span.cause is not None
            if span.cause.instruction is None:
                continue
            assert span.cause.warp is not None
            event = warps[history.block, span.cause.warp].issues[span.cause.instruction]
            assert span.cause.what in {event.op, "exit"}
            assert event.cycle < span.end_cycle


def test_a_chain_leads_from_a_barrier_to_the_load_behind_it() -> None:
    slow = [load([0]), fp32(0), op(OpClass.BARRIER, 1)]
    timeline = run(TINY, [slow, [BARRIER, op(OpClass.INT)]])
    chain = why(timeline, warp=1, cycle=100)
    assert [(step.warp, step.span.state.suffix) for step in chain] == [
        (1, "barrier"),
        (0, "wait"),
        (0, "long_scoreboard"),
    ]
    assert str(chain[-1]).endswith("ended by global load (instruction 0 of warp 0)")
    assert len(why(timeline, warp=1, cycle=100, steps=2)) == 2


def test_lines_of_the_source_are_named() -> None:
    body = [Instruction(OpClass.SFU, line=12), Instruction(OpClass.FP32, (0,), line=13)]
    timeline = simulate(TINY, [KernelTrace.of_blocks("k", [[WarpTrace.of(body)]])], detail="warp")
    assert "(instruction 0 of warp 0, line 12)" in str(why(timeline, warp=0, cycle=5)[0])


def test_a_wait_that_never_ended() -> None:
    span = StateSpan(WarpState.BARRIER, 3, 10)
    cut = run(TINY, [[load([0])]])
    assert why(cut, warp=0, cycle=7)[0].span.cause == Cause("global_load", 0, 0)
    step = why(cut, warp=0, cycle=7)[0]._replace(span=span)
    assert str(step) == "warp 0: barrier from cycle 3 to 10 (7), ended by the end of the simulation"


def test_what_was_not_recorded_cannot_be_asked_for() -> None:
    timeline = run(TINY, [[fp32()]])
    unwatched = simulate(TINY, [trace([[fp32()]])], detail="warp", watch=[1])
    with pytest.raises(ValueError, match="warp 0 of block 0 of kernel 0 was not recorded: simulate with detail='warp'"):
        why(unwatched, warp=0, cycle=0)
    for place, message in (
        ({"warp": 3}, "warp 3 is not there: kernel k has warps 0 to 0"),
        ({"warp": 0, "block": 7}, "block 7 is not there: kernel k has blocks 0 to 0"),
        ({"warp": 0, "kernel": 2}, "kernel 2 is not there: the simulation has kernels 0 to 0"),
    ):
        with pytest.raises(ValueError, match=message):
            why(timeline, cycle=0, **place)
    with pytest.raises(
        ValueError, match="cycle 9 is outside the residency of warp 0: it is resident from cycle 0 to 3"
    ):
        why(timeline, warp=0, cycle=9)

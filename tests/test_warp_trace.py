"""Warps in traces, which are made in columns, against a walk from state to state; and which arrows are kept."""

from __future__ import annotations

import gzip
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusim_des.timeline import Cause, IssueEvent, StateSpan, Timeline, WarpHistory, WarpState
from gpusim_des.timing.simpy_engine import SimpyEngine
from gpusim_des.views import chrome_trace, save_trace, warp_trace
from gpusim_des.views.warp_trace import Longest
from tests.random_host_programs import any_host_programs
from tests.random_programs import Dice

pytest_plugins = ["tests.timelines"]

WITH_ARROWS = ("barrier", "membar", "drain", "long_scoreboard", "short_scoreboard")


def nanosecond(timeline: Timeline, cycle: int) -> int:
    return cycle * timeline.sm_period_fs // 10**6


class Shown(NamedTuple):
    """A slice of a warp, as the timeline tells it."""

    row: str
    state: str
    start_ns: int
    end_ns: int
    cycle: int
    cycles: int
    sub_partition: int
    issued: tuple[str, ...]


class Led(NamedTuple):
    """An arrow, as the timeline tells it."""

    state: str
    source: str
    leaves_ns: int
    target: str
    arrives_ns: int


def row(timeline: Timeline, w: WarpHistory) -> str:
    return f"SM {w.sm}: {timeline.kernels[w.kernel].name} ({w.kernel}) block {w.block} warp {w.warp}"


def walk(timeline: Timeline) -> tuple[list[Shown], list[Led]]:
    """Slices and arrows, state by state."""
    shown, led = [], []
    named = {(w.kernel, w.block, w.warp): w for w in timeline.warps}
    for w in timeline.warps:
        told = 0
        for span in w.states:
            issued = [i.op for i in w.issues[told:] if i.cycle < span.end_cycle]
            told += len(issued)
            start, end = nanosecond(timeline, span.start_cycle), nanosecond(timeline, span.end_cycle)
            cycles = span.end_cycle - span.start_cycle
            if start < end:
                about = (span.start_cycle, cycles, w.sub_partition, tuple(issued))
                shown.append(Shown(row(timeline, w), span.state.suffix, start, end, *about))
            if span.cause is None or span.cause.warp is None or span.state.suffix not in WITH_ARROWS:
                continue
            source = named.get((w.kernel, w.block, span.cause.warp))
            cycle = [i.cycle for i in source.issues if i.index == span.cause.instruction] if source else []
            ends = min(span.end_cycle, w.end_cycle - 1)
            if source and cycle and cycle[0] <= ends:
                leaves, arrives = nanosecond(timeline, cycle[0]), nanosecond(timeline, ends)
                led.append(Led(span.state.suffix, row(timeline, source), leaves, row(timeline, w), arrives))
    return shown, led


def read(trace: dict[str, Any]) -> tuple[list[Shown], list[Led]]:
    """Slices and arrows of warps in a Chrome trace."""
    events = trace["traceEvents"]
    processes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}

    def where(e: dict[str, Any]) -> str:
        return f"{processes[e['pid']]}: {threads[e['pid'], e['tid']]}"

    shown = []
    for e in events:
        if e.get("cat") == "warp":
            start, args = round(e["ts"] * 1000), e["args"]
            about = (args["cycle"], args["cycles"], args["sub-partition"], tuple(args.get("issued", ())))
            shown.append(Shown(where(e), e["name"], start, start + round(e["dur"] * 1000), *about))
    ends: dict[int, list[dict[str, Any]]] = {}
    for e in events:
        if e["ph"] in "sf":
            ends.setdefault(e["id"], []).append(e)
    led = [
        Led(s["name"], where(s), round(s["ts"] * 1000), where(f), round(f["ts"] * 1000))
        for s, f in ends.values()
        if s["cat"] == "warp wait"
    ]
    return shown, led


@pytest.mark.parametrize("begin", range(0, 60, 20))
def test_columns_hold_what_a_walk_from_state_to_state_finds(begin: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warp_trace, "AT_ONCE", 50)  # several tables in each run
    arrows = 0
    for seed in range(begin, begin + 20):
        run = any_host_programs(Dice(seed)).play(SimpyEngine, "warp")
        if isinstance(run, str):  # a deadlock
            continue
        (shown, led), (slices, flows) = walk(run), read(chrome_trace(run))
        assert Counter(slices) == Counter(shown), seed
        assert Counter(flows) == Counter(led), seed
        arrows += len(led)
    assert arrows > 100


def test_instructions_belong_to_the_state_in_which_they_were_issued(three_waves: Timeline) -> None:
    """Also several in one state, before the first one and after the last one."""
    states = ((WarpState.WAIT, 10, 20), (WarpState.SELECTED, 20, 22), (WarpState.WAIT, 22, 30))
    cycles = (8, 12, 20, 21, 30)
    warp = replace(
        three_waves.warps[0],
        states=tuple(StateSpan(*state) for state in states),
        issues=tuple(IssueEvent(cycle, n, f"op{n}", cycle + 4, 0) for n, cycle in enumerate(cycles)),
    )
    shown, _ = read(chrome_trace(replace(three_waves, warps=(warp,))))
    assert [s.issued for s in shown] == [("op0", "op1"), ("op2", "op3"), ()]


# Which arrows -------------------------------------------------------------------------------------------------------


@given(lengths=st.lists(st.integers(0, 6)), most=st.integers(1, 12))
def test_the_longest_waits_are_taken_and_of_equal_ones_the_first(lengths: list[int], most: int) -> None:
    longest = Longest(lengths, most)
    taken = [n for n, length in enumerate(lengths) if longest.takes(length)]
    ordered = sorted(range(len(lengths)), key=lambda n: (-lengths[n], n))
    assert taken == sorted(ordered[:most])
    assert longest.total == len(lengths)


# Time ---------------------------------------------------------------------------------------------------------------


def million(record: Timeline) -> Timeline:
    """A thousand warps with a thousand states each, one in five of them a wait for a load."""
    states = []
    for n in range(1000):
        cause = Cause("global_load", 0, n - 1) if n % 5 == 1 else None
        states.append(StateSpan(WarpState.LONG_SCOREBOARD if cause else WarpState(n % 13), 3 * n, 3 * n + 3, cause))
    issues = tuple(IssueEvent(3 * n, n, "global_load", 3 * n + 9, 1) for n in range(0, 1000, 5))
    warps = tuple(WarpHistory(0, n, 0, n % 100, n % 4, 0, 3000, tuple(states), issues) for n in range(1000))
    kernel = replace(record.kernels[0], start_fs=0, end_fs=3000 * record.sm_period_fs)
    return replace(record, sms=100, kernels=(kernel,), blocks=(), warps=warps)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["trace.json.gz", "trace.pftrace"])
def test_a_million_events_take_seconds(three_waves: Timeline, tmp_path: Path, name: str) -> None:
    run = million(three_waves)
    began = time.process_time()
    save_trace(run, tmp_path / name, max_events=1_100_000)
    assert time.process_time() - began < 20  # of one core; about seven
    if name.endswith(".json.gz"):
        text = gzip.decompress((tmp_path / name).read_bytes())
        assert (text.count(b'"ph":"X"'), text.count(b'"ph":"s"'), text.count(b"trace cut")) == (1_000_001, 200_000, 0)

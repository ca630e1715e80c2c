"""What is left out of traces with too many events: the finest rows first, each for the whole run, and said."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusim_des import views
from gpusim_des.simulation import Simulation
from gpusim_des.timeline import BlockSpan, HostSpan, Operation, Timeline
from gpusim_des.timing.simpy_engine import SimpyEngine
from gpusim_des.views import chrome_trace
from gpusim_des.views.run_trace import MOST_EVENTS
from gpusim_des.views.trace_room import fitting
from tests.random_host_programs import any_host_programs
from tests.random_programs import Dice
from tests.test_chrome_trace import KERNEL, Event, timelines

pytest_plugins = ["tests.timelines"]

PERIOD_FS = 500_000


def rows(trace: dict[str, Any]) -> dict[str, int]:
    """Slices and values of counters by name of their row, those of SMs with the SM."""
    events = trace["traceEvents"]
    processes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    found: dict[str, int] = defaultdict(int)
    for e in events:
        if e["ph"] == "X":
            process = processes[e["pid"]]
            found[(process + " " if process.startswith("SM") else "") + threads[e["pid"], e["tid"]]] += 1
        if e["ph"] == "C":
            found[e["name"]] += 1
    assert {name for (pid, _), name in threads.items() if not processes[pid].startswith("SM")} <= found.keys()
    return dict(found)


def total(trace: dict[str, Any]) -> int:
    return sum(rows(trace).values())


def notice(trace: dict[str, Any]) -> str:
    """What was left out; it is also a mark at the start of the first call, copy or kernel."""
    said: str = trace["otherData"].get("notice", "")
    marks = [(e["name"], e["ts"]) for e in trace["traceEvents"] if e["ph"] == "i"]
    if said:
        first = min(e["ts"] for e in trace["traceEvents"] if e["ph"] == "X" and e["cat"] not in ("block", "warp"))
        assert marks == [(said, first)]
        return said.removeprefix("trace cut to ").removesuffix(". Raise max_events to see more.")
    assert marks == []
    return ""


def test_finer_rows_go_first_each_for_the_whole_run(three_waves: Timeline) -> None:
    """A kernel, 30 values of counters; on each SM three blocks, each with warps of three and of four slices."""
    assert total(chrome_trace(three_waves)) == 1 + 30 + 2 * 3 + 2 * 3 * (3 + 4) == 79

    def said(most: int) -> str:
        trace = chrome_trace(three_waves, max_events=most)
        assert total(trace) <= most
        return notice(trace)

    assert said(79) == ""
    assert said(78) == said(58) == "58 of 79 events, left out: warps of SM 1"
    # Not even the warps of one SM have room, and it has one slot: of each of its blocks warp 0 is shown.
    first = "all warps but those of warp 0 in block slot 0 of SM 0"
    assert said(57) == said(46) == f"46 of 79 events, left out: {first}"
    assert said(45) == said(37) == "37 of 79 events, left out: all warps"
    assert said(36) == said(34) == "34 of 79 events, left out: blocks of SM 1; all warps"
    assert said(31) == "31 of 79 events, left out: all blocks; all warps"
    left = "counters eligible warps per SM, issue slots used %; "
    assert said(10) == f"10 of 79 events, left out: {left}blocks of SM 1; all warps"
    counters = "counters resident blocks: add, DRAM GB/s, resident warps per SM, eligible warps per SM and 1 more; "
    assert said(1) == f"1 of 79 events, left out: {counters}all blocks; all warps"
    with pytest.raises(ValueError, match="max_events = 0: must be at least 1"):
        chrome_trace(three_waves, max_events=0)


@pytest.mark.parametrize("save", [Simulation.save_trace, views.save_trace])
def test_the_limit_is_a_million_everywhere_and_can_be_moved(three_waves: Timeline, tmp_path: Path, save: Any) -> None:
    assert signature(save).parameters["max_events"].default == MOST_EVENTS == 1_000_000
    for name in ("cut.json", "cut.pftrace"):
        save(Simulation(three_waves, "simpy"), tmp_path / name, max_events=10)
        assert b"10 of 79 events" in (tmp_path / name).read_bytes()


def test_what_is_shown_lasts_as_long_as_the_run(three_waves: Timeline) -> None:
    kept, whole = (rows(chrome_trace(three_waves, max_events=most)) for most in (58, 79))
    assert kept == {name: count for name, count in whole.items() if not name.startswith("SM 1 add")}
    of_warp_0 = [name for name in rows(chrome_trace(three_waves, max_events=46)) if "(0)" in name]
    assert of_warp_0 == [f"SM 0 add (0) block {n} warp 0" for n in (0, 2, 4)]  # from cycle 10 to 100


def test_slots_of_the_first_sm_where_all_of_them_have_no_room(three_waves: Timeline) -> None:
    """The six blocks beside each other on one SM."""
    blocks = tuple(replace(b, sm=0, slot=b.block) for b in three_waves.blocks)
    run = replace(three_waves, blocks=blocks, warps=tuple(replace(w, sm=0) for w in three_waves.warps))
    trace = chrome_trace(run, max_events=total(chrome_trace(run)) - 1)
    of_slots = sorted(name for name in rows(trace) if "(0)" in name)
    assert of_slots == [f"SM 0 add (0) block {n} warp {w}" for n in range(5) for w in (0, 1)]
    assert notice(trace).endswith("left out: all warps but those of block slot 0 to 4 of SM 0")


def test_of_calls_copies_and_kernels_the_longest_stay_with_the_arrows_between_them() -> None:
    us = 10**9
    operations = tuple(
        Operation(n, "h2d", f"h2d a{n}", n, 0, start * us, end * us, 8, "copy engine 0", reason, whom)
        for n, (start, end, reason, whom) in enumerate(
            [(0, 5, "none", ""), (1, 2, "none", ""), (5, 14, "event", "h2d a0"), (2, 9, "copy engine", "h2d a1")]
        )
    )
    run = Timeline("tiny", 2, PERIOD_FS, operations=operations, host=(HostSpan("launch", 0, us),))
    trace = chrome_trace(run, max_events=5)
    slices = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    # Nine slices: a call, and each copy in its stream and on its engine, the engine's in the order of time.
    assert [(e["cat"], e["name"]) for e in slices] == [
        *(("operation", f"h2d a{n}") for n in (0, 2, 3)),
        *(("copy", f"h2d a{n}") for n in (2, 3)),
    ]
    assert notice(trace).startswith("5 of 15 events, left out: all but the 5 longest of 9 calls, copies and kernels; ")
    arrows = [
        [e["id"] for e in chrome_trace(run, max_events=most)["traceEvents"] if e["ph"] == "s"] for most in (4, 5, 100)
    ]
    assert arrows == [[], [2], [2, 3]]


def kept_of(everything: dict[str, Any], cut: dict[str, Any]) -> tuple[list[Event], list[Event]]:
    """Slices and values of a whole trace that a cut one has, and those that it has not."""
    there = [e for e in cut["traceEvents"] if e["ph"] in "XC"]
    kept = [e for e in everything["traceEvents"] if e["ph"] in "XC" and e in there]
    assert kept == there
    return kept, [e for e in everything["traceEvents"] if e["ph"] in "XC" and e not in there]


@given(timeline=timelines(), max_events=st.integers(1, 60))
def test_rows_are_whole_or_not_there(timeline: Timeline, max_events: int) -> None:
    whole, cut = chrome_trace(timeline), chrome_trace(timeline, max_events=max_events)
    kept, lost = kept_of(whole, cut)
    assert len(kept) <= max_events
    assert notice(cut).partition(",")[0] == (f"{len(kept)} of {len(kept) + len(lost)} events" if lost else "")
    if len(timeline.kernels) <= max_events:
        assert sum(e.get("cat") == "kernel" for e in kept) == len(timeline.kernels)
        shown, all_rows = rows(cut), rows(whole)
        assert shown.items() <= all_rows.items()


@pytest.mark.parametrize("seed", range(12))
def test_arrows_of_cut_traces_lead_between_slices_that_are_there(seed: int) -> None:
    run = any_host_programs(Dice(seed)).play(SimpyEngine, "warp")
    if isinstance(run, str):  # a deadlock
        return
    whole = chrome_trace(run)
    for share in (0.9, 0.6, 0.3, 0.02):
        trace = chrome_trace(run, max_events=max(1, int(share * total(whole))))
        spans: dict[tuple[int, int], list[tuple[float, float]]] = defaultdict(list)
        for e in trace["traceEvents"]:
            if e["ph"] == "X":
                spans[e["pid"], e["tid"]].append((e["ts"], e["ts"] + e["dur"]))
        for e in trace["traceEvents"]:
            if e["ph"] in "sf":
                assert any(start <= e["ts"] <= end + 1e-3 for start, end in spans[e["pid"], e["tid"]])


places = st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 2))


@given(counts=st.dictionaries(places, st.integers(1, 9), min_size=1), room=st.integers(0, 60))
def test_as_many_whole_places_as_fit(counts: Mapping[tuple[int, ...], int], room: int) -> None:
    kept = fitting(counts, room)
    if not kept:
        assert room < counts[min(counts)]
        return
    depth = len(kept[0])
    sums = {p[:depth]: sum(n for q, n in counts.items() if q[:depth] == p[:depth]) for p in counts}
    assert kept == sorted(sums)[: len(kept)]
    assert sum(sums[p] for p in kept) <= room
    following = sorted(sums)[len(kept) : len(kept) + 1]
    assert not following or sum(sums[p] for p in [*kept, *following]) > room
    # Coarser places do not fit.
    first = min(counts)
    assert all(sum(n for q, n in counts.items() if q[:d] == first[:d]) > room for d in range(1, depth))


def test_many_kernels_stay_where_blocks_do_not() -> None:
    kernels = tuple(replace(KERNEL, start_fs=n * 10**9, end_fs=n * 10**9 + 10**8) for n in range(50))
    blocks = tuple(BlockSpan(n, 0, 0, 0, n * 10**9, n * 10**9 + 10) for n in range(50))
    trace = chrome_trace(Timeline("tiny", 2, PERIOD_FS, kernels, blocks), max_events=60)
    starts = np.array([e["ts"] for e in trace["traceEvents"] if e["ph"] == "X"])
    assert np.array_equal(starts, np.arange(50.0))

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusim_des.gpu import load_gpu
from gpusim_des.timeline import BlockSpan, KernelTiming, Timeline
from gpusim_des.timing.simulate import simulate
from gpusim_des.trace import Instruction, KernelTrace, OpClass, WarpTrace
from gpusim_des.views import chrome_trace, run_trace, save_chrome_trace

pytest_plugins = ["tests.timelines"]

Event = dict[str, Any]


def load(path: Path) -> dict[str, Any]:
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return json.loads(text, parse_float=nanoseconds)  # type: ignore[no-any-return]


def exact(trace: dict[str, Any]) -> list[Event]:
    """Events as a reader with unlimited precision sees them, in whole nanoseconds."""
    return json.loads(json.dumps(trace), parse_float=nanoseconds)["traceEvents"]  # type: ignore[no-any-return]


def nanoseconds(microseconds: str) -> Decimal:
    """Durations are a few units in the last place short, so that viewers see no overlaps."""
    return round(Decimal(microseconds), 3).normalize()


def slices(events: list[Event], category: str) -> list[Event]:
    return [e for e in events if e["ph"] == "X" and e["cat"] == category]


def names(events: list[Event], what: str) -> dict[tuple[int, int], str]:
    return {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == what}


def assert_no_overlap(events: list[Event]) -> None:
    tracks: dict[tuple[int, int], list[tuple[Decimal, Decimal]]] = defaultdict(list)
    for e in events:
        if e["ph"] == "X":
            tracks[e["pid"], e["tid"]].append((Decimal(e["ts"]), Decimal(e["ts"]) + Decimal(e["dur"])))
    for track, spans in tracks.items():
        spans.sort()
        for (_, end), (start, _) in pairwise(spans):
            assert end <= start, track


def test_each_sm_is_a_process_and_each_slot_a_thread(three_waves: Timeline) -> None:
    events = exact(chrome_trace(three_waves))
    assert names(events, "process_name") == {(1, 0): "SM 0", (2, 0): "SM 1", (3, 0): "GPU tiny"}
    assert names(events, "thread_name")[1, 1] == "block slot 0"
    assert names(events, "thread_name")[3, 1] == "kernels"
    order = {e["pid"]: e["args"]["sort_index"] for e in events if e["name"] == "process_sort_index"}
    assert order == {3: 0, 1: 1, 2: 2}
    (block,) = [e for e in slices(events, "block") if e["name"] == "add block 2"]
    assert block == {
        "name": "add block 2",
        "cat": "block",
        "ph": "X",
        "ts": Decimal("0.02"),
        "dur": Decimal("0.015"),
        "pid": 1,
        "tid": 1,
        "args": {"kernel": 0, "block": 2, "cycles": 30},
    }


def test_kernels_carry_the_names_that_profiler_tools_read(three_waves: Timeline) -> None:
    (kernel,) = slices(exact(chrome_trace(three_waves)), "kernel")
    assert (kernel["name"], kernel["ts"], kernel["dur"]) == ("add", Decimal("0.005"), Decimal("0.045"))
    args = kernel["args"]
    assert (args["blocks per SM"], args["warps per SM"]) == (3, 6)  # six blocks of two warps on two SMs
    assert args["est. achieved occupancy %"] == Decimal("13.889")
    assert (args["cycles"], args["main stall"]) == (90, "long_scoreboard")


def test_concurrent_kernels_get_tracks_of_their_own(two_kernels: Timeline) -> None:
    events = exact(chrome_trace(two_kernels))
    assert [(e["name"], e["tid"]) for e in slices(events, "kernel")] == [("add", 1), ("_scale", 2)]
    assert_no_overlap(events)


def test_counters_follow_the_resident_blocks(two_kernels: Timeline) -> None:
    events = exact(chrome_trace(two_kernels))
    counted = [(e["ts"] * 2000, e["args"]["blocks"]) for e in events if e["name"] == "resident blocks: add"]
    assert counted == [(0, 2), (32, 1), (60, 0)]  # in cycles; nothing changes at 30
    other = [e["args"]["blocks"] for e in events if e["name"] == "resident blocks: _scale"]
    assert other == [1, 2, 1, 0]


def counter(timeline: Timeline, name: str) -> list[tuple[float, float]]:
    """Moments, in cycles of 0.5 ns, of which whole nanoseconds are told, and values."""
    counted = [e for e in exact(chrome_trace(timeline)) if e["name"] == name]
    assert {e["ph"] for e in counted} <= {"C"}
    return [(float(e["ts"] * 2000), float(*e["args"].values())) for e in counted]


def test_bandwidth_is_a_counter_of_mean_rates_of_what_runs_at_once(two_kernels: Timeline) -> None:
    # 4096 bytes in 30 ns and in 25 ns; both run from cycle 40 to 60.
    assert counter(two_kernels, "DRAM GB/s") == [(0, 136.533), (40, 300.373), (60, 163.84), (90, 0)]


def test_warps_and_issue_slots_are_counters_where_warps_were_recorded(three_waves: Timeline) -> None:
    kernels = (replace(three_waves.kernels[0], sub_partitions=2),)
    run = replace(three_waves, kernels=kernels)
    assert counter(run, "resident warps per SM") == [(10, 2), (100, 0)]
    # In each of three blocks one warp issues 4 cycles after the start, the other one 5, and both 6 before the end.
    eligible = [(s + at, n) for s in (10, 40, 70) for at, n in ((4, 1), (6, 0), (24, 2), (24, 0))]
    assert counter(run, "eligible warps per SM") == eligible
    assert counter(run, "issue slots used %") == [(moment, 50 * n) for moment, n in eligible]
    assert counter(replace(run, warps=()), "issue slots used %") == []


def test_warp_states_are_slices_of_a_thread_for_each_warp(three_waves: Timeline) -> None:
    events = exact(chrome_trace(replace(three_waves, sm_period_fs=10**6)))
    threads = {key: name for key, name in names(events, "thread_name").items() if key[1] >= 1001}
    assert len(threads) == 12
    assert threads[1, 1001] == "add (0) block 0 warp 0"
    first = [e for e in slices(events, "warp") if (e["pid"], e["tid"]) == (1, 1001)]
    assert [e["name"] for e in first] == ["no_instruction", "selected", "long_scoreboard", "selected", "drain"]
    assert first[1]["args"] == {"cycle": 14, "cycles": 1, "sub-partition": 0, "issued": ["global_load"]}
    assert sum(e["dur"] for e in first) == Decimal("0.03")
    assert_no_overlap(events)


def test_states_within_one_nanosecond_are_left_out_with_a_notice(three_waves: Timeline) -> None:
    trace = chrome_trace(three_waves)
    # With cycles of 0.5 ns: in each of three blocks on two SMs both additions are issued in an even cycle, and of the
    # loads that of warp 0; that of warp 1 is issued in an odd one, which begins and ends in different nanoseconds.
    assert trace["otherData"]["brief"] == "18 states of warps that begin and end within one nanosecond are left out"
    widths = [round(e["dur"], 3) for e in slices(trace["traceEvents"], "warp")]
    assert min(widths) == 0.001
    assert len(widths) == 12 * 5 - 18


def test_arrows_lead_from_what_ended_a_wait_of_a_warp_to_its_end() -> None:
    body = [Instruction(OpClass.GLOBAL_LOAD), Instruction(OpClass.FP32, (0,)), Instruction(OpClass.BARRIER, (1,))]
    slow, fast = WarpTrace.of(body, [[0]]), WarpTrace.of([Instruction(OpClass.BARRIER), Instruction(OpClass.INT)])
    run = simulate(load_gpu("tiny"), [KernelTrace.of_blocks("k", [[slow, fast]])], detail="warp")
    events = exact(chrome_trace(run))
    arrows = {ph: [e for e in events if e["ph"] == ph and e["cat"] == "warp wait"] for ph in "sf"}
    cycles = [
        (s["name"], s["tid"] - 1001, s["ts"] * 1000, f["tid"] - 1001, f["ts"] * 1000)
        for s, f in zip(arrows["s"], arrows["f"], strict=True)
    ]
    # The load is issued in cycle 0 and there in cycle 200; the addition takes 4 cycles. Then warp 0 issues its barrier,
    # which 10 cycles later opens for both. Warp 0 ends then: its arrow ends in the last cycle that it has.
    assert cycles == [
        ("long_scoreboard", 0, 0, 0, 200),
        ("barrier", 0, 204, 0, 213),
        ("barrier", 0, 204, 1, 214),
    ]
    assert [s["id"] for s in arrows["s"]] == [f["id"] for f in arrows["f"]]
    assert all(f["bp"] == "e" for f in arrows["f"])
    for end in [*arrows["s"], *arrows["f"]]:
        inside = [e for e in slices(events, "warp") if e["ts"] <= end["ts"] < e["ts"] + e["dur"]]
        assert end["tid"] in {e["tid"] for e in inside}


def test_too_many_arrows_are_cut_and_the_trace_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    body = [Instruction(OpClass.GLOBAL_LOAD), Instruction(OpClass.FP32, (0,)), Instruction(OpClass.GLOBAL_LOAD, (1,))]
    body += [Instruction(OpClass.FP32, (2,))]
    run = simulate(load_gpu("tiny"), [KernelTrace.of_blocks("k", [[WarpTrace.of(body, [[0], [64]])]])], detail="warp")
    whole = chrome_trace(run)
    assert "arrows" not in whole["otherData"]
    monkeypatch.setattr(run_trace, "MOST_ARROWS", 1)
    cut = chrome_trace(run)
    said = "arrows for the 1 longest of 2 waits of warps; record fewer SMs with watch= to see all"
    assert cut["otherData"]["arrows"] == said
    assert cut["traceEvents"][-1]["name"] == said
    ends = [[e["ts"] for e in trace["traceEvents"] if e.get("cat") == "warp wait"] for trace in (whole, cut)]
    # Loads take 200 cycles of a nanosecond. The second one waits for the addition, which takes 4; the port is free.
    assert ends == [[0, 0.2, 0.204, 0.404], [0, 0.2]]


def test_a_run_without_detail_shows_its_kernels(no_detail: Timeline) -> None:
    events = exact(chrome_trace(no_detail))
    assert [e["name"] for e in events if e["ph"] != "M"] == ["add", "DRAM GB/s", "DRAM GB/s"]
    assert chrome_trace(Timeline("tiny", 2, 500_000))["traceEvents"][0]["args"] == {"name": "GPU tiny"}


MOMENTS = st.integers(0, 8 * 10**15)


@given(edges=st.lists(MOMENTS, min_size=3, max_size=3).map(sorted))
def test_slices_last_whole_nanoseconds_and_touch(edges: list[int]) -> None:
    """As doubles and as the nanoseconds that Perfetto rounds them to, neighbours do not overlap."""
    first, second, third = edges
    timeline = Timeline("tiny", 1, 1, (), ())
    spans = (BlockSpan(0, 0, 0, 0, first, second), BlockSpan(0, 1, 0, 0, second, third))
    timeline = replace(timeline, kernels=(KERNEL,), blocks=spans)
    one, other = slices(chrome_trace(timeline)["traceEvents"], "block")
    assert one["ts"] + one["dur"] <= other["ts"]
    for event, start, end in ((one, first, second), (other, second, third)):
        assert Decimal(str(event["ts"])) == Decimal(start // 10**6) / 1000
        assert round(event["dur"] * 1000) == end // 10**6 - start // 10**6


KERNEL = KernelTiming(
    name="k",
    start_fs=0,
    end_fs=1,
    cycles=1,
    blocks=1,
    warps_per_block=1,
    blocks_per_sm=1,
    sms=1,
    warp_instructions=0,
    resident_warp_cycles=0,
    sm_active_cycles=0,
    stalls={},
    achieved_occupancy=0.0,
    theoretical_occupancy=1.0,
    occupancy_limiter="warps",
    dram_bytes=0,
    dram_read_bytes=0,
    dram_write_bytes=0,
)


@st.composite
def timelines(draw: st.DrawFn) -> Timeline:
    """Blocks of any start and length in the lowest free slot of their SM, and kernels that overlap at will."""
    blocks: list[BlockSpan] = []
    free: dict[int, list[int]] = {0: [], 1: []}
    starts = sorted(draw(st.lists(st.integers(0, 10**12), max_size=20)))
    for number, start in enumerate(starts):
        sm, end = draw(st.integers(0, 1)), start + draw(st.integers(0, 10**12))
        slot = next((s for s, busy in enumerate(free[sm]) if busy <= start), len(free[sm]))
        free[sm][slot : slot + 1] = [end]
        blocks.append(BlockSpan(number % 2, number, sm, slot, start, end))
    spans = draw(st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)), min_size=2, max_size=6))
    kernels = tuple(replace(KERNEL, start_fs=a, end_fs=a + length) for a, length in spans)
    return Timeline("tiny", 2, 1_000, kernels, tuple(blocks))


@given(timeline=timelines())
def test_tracks_never_overlap_and_are_in_the_order_of_time(timeline: Timeline) -> None:
    events = exact(chrome_trace(timeline))
    assert_no_overlap(events)
    starts: dict[tuple[int, int | str], list[Decimal]] = defaultdict(list)
    for e in events:
        if e["ph"] in "XC":
            starts[e["pid"], e["tid"] if e["ph"] == "X" else e["name"]].append(e["ts"])
    assert all(found == sorted(found) for found in starts.values())


@pytest.mark.parametrize("name", ["run.json", "run.json.gz"])
def test_saved_traces_read_back_the_same_and_leave_nothing_else(
    three_waves: Timeline, tmp_path: Path, name: str
) -> None:
    path = tmp_path / name
    save_chrome_trace(three_waves, path)
    first = path.read_bytes()
    save_chrome_trace(three_waves, str(path))
    assert path.read_bytes() == first
    assert load(path)["traceEvents"] == exact(chrome_trace(three_waves))
    assert load(path)["otherData"] == chrome_trace(three_waves)["otherData"]
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_a_missing_folder_is_named(three_waves: Timeline, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"cannot write run\.json: there is no folder .*nowhere; create it"):
        save_chrome_trace(three_waves, tmp_path / "nowhere" / "run.json")


def test_a_failed_write_keeps_the_old_file(three_waves: Timeline, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text("old")
    broken = replace(three_waves, kernels=(replace(three_waves.kernels[0], achieved_occupancy=float("nan")),))
    with pytest.raises(ValueError, match="Out of range float values"):
        save_chrome_trace(broken, path)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["run.json"]

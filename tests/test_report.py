"""Reports: the bars that a page shows, how many bars become few, and pages that hold all of a run and nothing else."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpusim_des as gs
from gpusim_des.report.page import MOST_BYTES, report_page
from gpusim_des.report.rows import Row, Span, rows
from gpusim_des.report.stall_bars import fill
from gpusim_des.report.thin import merged, thinned
from gpusim_des.simulation import Simulation
from gpusim_des.timeline import HostSpan, Operation, StateSpan, Timeline, WarpHistory, WarpState
from gpusim_des.views.palette import HOST_STYLES, OPERATION_STYLES, STATE_STYLES, Style, kernel_color

pytest_plugins = ["tests.timelines"]

PERIOD_FS = 500_000
HOSTILE = "</script><script>alert(1)</script>'\"&\u2028é"


def bars_of(page: str) -> dict[str, Any]:
    """The timeline's data, as the page's script reads it."""
    found = re.search(r'<script type="application/json" id="spans">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data


def spans_in(data: dict[str, Any], name: str) -> list[tuple[int, int, str, str]]:
    """Start, end, name and owner of the bars of the rows of a name, decoded by the rule that `encoded` states."""
    found = []
    for row in data["rows"]:
        if row["name"] != name:
            continue
        moment = 0
        for gap, length, label, owner in zip(row["gap"], row["len"], row["name_of"], row["owner"], strict=True):
            start = moment + gap
            moment = start + length
            found.append((start * row["unit"], moment * row["unit"], data["texts"][label], data["texts"][owner]))
    return found


class Reader(HTMLParser):
    """Texts of a page outside of scripts and styles, the elements in it, and what it would load."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text = ""
        self.tags: list[str] = []
        self.loads: list[str] = []
        self._open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._open.append(tag)
        self.loads += [f"{tag} {name}" for name, _ in attrs if name in ("src", "href", "srcset", "data")]

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if not {"script", "style"} & set(self._open):
            self.text += data


@gs.kernel
def halve(t: Any, a: Any, n: Any) -> None:
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    if i < n:
        a[i] = a[i] / 2


def small_run(detail: Literal["kernel", "sm", "warp"] = "warp") -> Simulation:
    dev = gs.Device("tiny")
    a = dev.to_device(np.ones(256, np.float32))
    dev.launch(halve, 4, 64, a, 256)
    dev.to_host(a)
    return dev.simulate(detail=detail)


# Rows ---------------------------------------------------------------------------------------------------------------


def test_rows_run_from_the_host_to_the_warps(three_waves: Timeline) -> None:
    record = replace(
        three_waves,
        host=(HostSpan("launch add", 0, 4 * PERIOD_FS), HostSpan("synchronize", 4 * PERIOD_FS, 100 * PERIOD_FS, True)),
        operations=(Operation(0, "h2d", "h2d a", 1, 0, 0, 8 * PERIOD_FS, 4096, "copy engine 0"),),
    )
    assert [(row.group, row.name, row.level, row.count) for row in rows(record)] == [
        ("Host", "host thread", "host", 2),
        ("Streams", "stream 1", "host", 1),
        ("Copy engines", "copy engine 0", "host", 1),
        ("Kernels", "kernels", "gpu", 1),
        ("SM 0", "block slot 0", "block", 3),
        ("SM 0", "warp row 0", "warp", 15),
        ("SM 0", "warp row 1", "warp", 15),
        ("SM 1", "block slot 0", "block", 3),
        ("SM 1", "warp row 0", "warp", 15),
        ("SM 1", "warp row 1", "warp", 15),
    ]


def test_blocks_of_one_slot_change_their_shade(three_waves: Timeline) -> None:
    (slot, *_) = (row for row in rows(three_waves) if row.level == "block")
    at, dark, light = PERIOD_FS, Style(kernel_color(0)), Style(kernel_color(0, 1))
    assert list(slot.spans()) == [
        Span(10 * at, 40 * at, dark, "add", "block 0"),
        Span(40 * at, 70 * at, light, "add", "block 2"),
        Span(70 * at, 100 * at, dark, "add", "block 4"),
    ]


def test_warps_show_states_and_what_they_issued(three_waves: Timeline) -> None:
    (first, *_) = (row for row in rows(three_waves) if row.level == "warp")
    of_block_0 = [s for s in first.spans() if s.end <= 40 * PERIOD_FS]
    assert [(s.start // PERIOD_FS, s.end // PERIOD_FS, s.name, s.detail) for s in of_block_0] == [
        (10, 14, "no_instruction", ""),
        (14, 15, "selected", "global_load"),
        (15, 34, "long_scoreboard", ""),
        (34, 35, "selected", "fp32"),
        (35, 40, "drain", ""),
    ]
    assert {s.owner for s in of_block_0} == {"add, block 0, warp 0"}
    assert of_block_0[2].style == STATE_STYLES[WarpState.LONG_SCOREBOARD]


def test_operations_tell_rate_and_wait() -> None:
    copy = Operation(
        3, "h2d", "h2d b", 2, 0, 2_000_000_000, 3_000_000_000, 4096, "copy engine 0", "stream order", "h2d a"
    )
    (stream, _) = rows(Timeline("tiny", 2, PERIOD_FS, operations=(copy,)))
    (bar,) = stream.spans()
    assert bar.owner == "stream 2, operation 3"
    assert bar.detail == "4 KiB, 4.1 GB/s; pinned host memory; waited 2 µs: stream order (h2d a)"


# Fewer bars ---------------------------------------------------------------------------------------------------------


@st.composite
def _row(draw: st.DrawFn) -> Row:
    steps = st.tuples(st.integers(0, 5), st.sampled_from([0, 1, 1, 2, 3, 50]), st.sampled_from("abc"))
    spans, moment = [], 0
    for gap, length, name in draw(st.lists(steps, min_size=1, max_size=60)):
        spans.append(Span(moment + gap, moment + gap + length, Style("#" + name * 6), name))
        moment += gap + length
    return Row("g", "r", "warp", len(spans), spans[0].start, spans[-1].end, lambda: iter(spans))


@given(row=_row(), most=st.integers(2, 40))
def test_merged_bars_are_few_in_order_and_cover_all(row: Row, most: int) -> None:
    before, after = list(row.spans()), list(merged(row, most))
    assert len(after) <= most
    assert all(a.end <= b.start for a, b in pairwise(after))
    assert (after[0].start, after[-1].end) == (row.start, row.end)
    assert all(any(m.start <= s.start and s.end <= m.end for m in after) for s in before)
    for bar in after:
        inside = [s for s in before if bar.start <= s.start and s.end <= bar.end]
        times = {name: sum(s.end - s.start for s in inside if s.name == name) for name in "abc"}
        assert times[bar.name] == max(times.values())


@given(st.lists(_row(), min_size=1, max_size=6), st.integers(0, 200))
def test_rows_keep_all_bars_if_they_fit(found: list[Row], extra: int) -> None:
    most = 2 * len(found) + extra
    shown, notices = thinned(found, most, 10)
    kept = [spans for _, spans in shown]
    assert sum(map(len, kept)) <= most
    total = sum(row.count for row in found)
    assert bool(notices) == (total > sum(map(len, kept)))
    if total <= most:
        assert kept == [list(row.spans()) for row in found]


def test_warps_go_before_the_outline_of_other_sms(three_waves: Timeline) -> None:
    shown, notices = thinned(rows(three_waves), 100, 4)
    assert [(row.group, row.name) for row, _ in shown] == [
        ("Kernels", "kernels"),
        ("SM 0", "block slot 0"),
        ("SM 0", "warp row 0"),
        ("SM 1", "block slot 0"),
    ]
    (said,) = notices
    assert said.startswith("3 of 7 rows are left out, the first is warp row 1 of SM 0.")


def _warps(record: Timeline, count: int, states: int) -> Simulation:
    """Warps in one state of three cycles after the other."""
    spans = tuple(StateSpan(WarpState(n % 12), 3 * n, 3 * n + 3) for n in range(states))
    warps = tuple(WarpHistory(0, n, 0, n % 132, 0, 0, 3 * states, spans, ()) for n in range(count))
    return Simulation(replace(record, sms=132, blocks=(), warps=warps), "simpy")


def test_a_million_bars_are_drawn_as_fewer_with_a_notice(three_waves: Timeline, tmp_path: Path) -> None:
    _warps(three_waves, 1000, 1000).save_html(tmp_path / "run.html")
    page = (tmp_path / "run.html").read_text(encoding="utf-8")
    assert len(page) < 5_000_000
    assert "1,000,001 bars are too many for a page" in page
    assert 40_000 < sum(len(row["len"]) for row in bars_of(page)["rows"]) <= 100_000


@pytest.mark.slow
def test_ten_million_bars_are_drawn_as_fewer(three_waves: Timeline) -> None:
    page = report_page(_warps(three_waves, 1000, 10_000))
    assert len(page) < 5_000_000
    assert "10,000,001 bars are too many for a page" in page


def test_names_that_all_differ_leave_room_for_fewer_bars() -> None:
    copies = tuple(
        Operation(n, "h2d", f"h2d {n:0150}", 1, n, 1000 * n, 1000 * n + 500, 8, "copy engine 0") for n in range(40_000)
    )
    page = report_page(Simulation(Timeline("tiny", 2, PERIOD_FS, operations=copies), "simpy"))
    assert 1_000_000 < len(page) < MOST_BYTES + 500_000
    assert "80,000 bars are too many" in page


# Pages --------------------------------------------------------------------------------------------------------------


def test_a_page_holds_the_run_and_loads_nothing() -> None:
    sim = small_run()
    page = report_page(sim)
    reader = Reader(page)
    assert reader.loads == []
    assert "default-src 'none'" in page
    for text in [*sim.explain().splitlines(), *(str(a) for a in sim.advice())]:
        assert text in reader.text
    for name, metric in sim.kernels[0].metrics().items():
        assert f"{name}{metric}{metric.meaning}" in reader.text
    assert [row["text"] for row in sim.source().rows() if row["text"] not in reader.text] == []
    assert f"long_scoreboard: {sim.kernels[0].stalls['long_scoreboard']:,} warp-cycles" in page


def test_bars_are_exact() -> None:
    sim = small_run()
    data = bars_of(report_page(sim))
    assert data["end"] == sim.timeline.end_fs
    assert [s[:3] for s in spans_in(data, "kernels")] == [(k.start_fs, k.end_fs, k.name) for k in sim.kernels]
    blocks = [(b.start_fs, b.end_fs, "halve", f"block {b.block}") for b in sim.timeline.blocks]
    slots = {row["name"] for row in data["rows"] if row["level"] == "block"}
    assert sorted(s for name in slots for s in spans_in(data, name)) == sorted(blocks)
    shown = sum(len(row["len"]) for row in data["rows"] if row["level"] == "warp")
    assert shown == sum(len(w.states) for w in sim.timeline.warps)


def test_the_legend_of_the_timeline_tells_the_colours_that_are_in_it(three_waves: Timeline) -> None:
    def legend(record: Timeline) -> list[tuple[str, str, str]]:
        page = report_page(Simulation(record, "simpy"))
        found = re.search(r'<div class="legend" id="colors">(.*?)</div>', page)
        if found is None:
            return []
        assert page.index('id="tools"') < found.start() < page.index("<canvas")
        return re.findall(r'<b>(.*?)</b>|<i style="(.*?)"></i>(.*?)</span>', found[1])

    states = (WarpState.SELECTED, WarpState.DRAIN, WarpState.LONG_SCOREBOARD, WarpState.NO_INSTRUCTION)
    warps = [("warps", "", ""), *(("", fill(STATE_STYLES[state]), state.suffix) for state in states)]
    assert legend(three_waves) == warps
    copies = (
        Operation(0, "h2d", "h2d a", 1, 0, 0, 8 * PERIOD_FS, 4096, "copy engine 0"),
        Operation(1, "memset", "memset a", 1, 0, 8 * PERIOD_FS, 9 * PERIOD_FS, 4096, "HBM"),
    )
    calls = (HostSpan("launch add", 0, 4 * PERIOD_FS), HostSpan("synchronize", 4 * PERIOD_FS, 9 * PERIOD_FS, True))
    host = [("host", "", ""), ("", "background:#4d4d4d", "call or work"), ("", fill(HOST_STYLES["waits"]), "blocked")]
    streams = [
        ("streams, copy engines", "", ""),
        ("", "background:#0072b2", "copy to device"),
        ("", fill(OPERATION_STYLES["memset"]), "memset"),
    ]
    assert legend(replace(three_waves, host=calls, operations=copies)) == host + streams + warps
    assert legend(replace(three_waves, warps=(), host=calls[:1])) == host[:2]
    assert legend(replace(three_waves, warps=())) == []  # kernels and blocks have colours of their own


@pytest.mark.parametrize("detail", ["kernel", "sm"])
def test_less_detail_has_fewer_rows(detail: Literal["kernel", "sm"]) -> None:
    levels = {row["level"] for row in bars_of(report_page(small_run(detail)))["rows"]}
    assert levels == {"host", "gpu"} | ({"block"} if detail == "sm" else set())


def test_a_run_without_kernels_has_a_page() -> None:
    dev = gs.Device("tiny")
    dev.to_device(np.ones(4, np.float32))
    page = report_page(dev.simulate())
    assert "A run without kernels on" in page
    assert "0 kernels · 1 copy · 2 SMs at 1 GHz" in page
    assert len(spans_in(bars_of(page), "copy engine 0")) == 1
    empty = report_page(Simulation(Timeline("tiny", 2, PERIOD_FS), "simpy"))
    assert "Nothing ran." in empty
    assert "<canvas" not in empty


def test_names_cannot_break_the_page(three_waves: Timeline, tmp_path: Path) -> None:
    record = replace(
        three_waves,
        gpu_name=HOSTILE,
        kernels=(replace(three_waves.kernels[0], name=HOSTILE),),
        host=(HostSpan(HOSTILE + "\ud800", 0, 5),),
    )
    sim = Simulation(record, "simpy")
    sim.save_html(tmp_path / "run.html")
    page = (tmp_path / "run.html").read_text(encoding="utf-8")
    harmless = replace(three_waves, host=(HostSpan("launch", 0, 5),))
    reader, normal = Reader(page), Reader(report_page(Simulation(harmless, "simpy")))
    assert reader.tags == normal.tags
    assert f"{HOSTILE} on {HOSTILE}" in reader.text
    assert spans_in(bars_of(page), "host thread") == [(0, 5, HOSTILE + "\ud800", "")]


def test_a_loaded_result_has_the_page_of_the_run(tmp_path: Path) -> None:
    sim = small_run()
    sim.save(tmp_path / "run.json.gz")
    page = report_page(gs.load_result(tmp_path / "run.json.gz"))
    assert page == report_page(sim)
    assert "a[i] = a[i] / 2" in page


def test_a_stopped_simulation_says_so(three_waves: Timeline) -> None:
    page = report_page(Simulation(replace(three_waves, complete=False), "simpy"))
    assert "The simulation was stopped" in page


def test_of_many_launches_the_longest_is_shown(three_waves: Timeline) -> None:
    (first,) = three_waves.kernels
    ends = [first.end_fs + 7 * PERIOD_FS * (n == 3) for n in range(300)]
    kernels = tuple(replace(first, end_fs=end, number=n) for n, end in enumerate(ends))
    page = report_page(Simulation(replace(three_waves, kernels=kernels), "simpy"))
    assert "Of launches of one kernel the longest is shown." in page
    assert "The first 200 of 300 kernels" in page
    assert page.count("<summary>") == 2
    assert page.count("<summary>add, 48.5 ns</summary>") == 2


def test_the_file_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sim = small_run("kernel")
    with pytest.raises(FileNotFoundError, match=r"cannot write run\.html: there is no folder .*nowhere; create it"):
        sim.save_html(tmp_path / "nowhere" / "run.html")
    (tmp_path / "run.html").write_text("old")

    def full(self: Path, data: bytes) -> int:
        with self.open("wb") as file:
            file.write(data[:10])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space left"):
        sim.save_html(tmp_path / "run.html")
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("run.html", "old")]


def test_limits_that_leave_no_bars_are_refused() -> None:
    with pytest.raises(ValueError, match="most_spans = 3, most_rows = 2: pass at least one row and two bars for each"):
        report_page(small_run("kernel"), most_spans=3, most_rows=2)

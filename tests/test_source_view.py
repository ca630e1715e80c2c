"""The source view: sums equal the launch's counters, text and HTML show what the rows hold."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

import gpusim_des as gs
from gpusim_des.functional.source_text import SourceText, Statement, span_of
from gpusim_des.source_view import NO_LINE
from tests import advised_kernels as k
from tests.advised_helper import cube
from tests.advised_kernels import number_of

N = 1 << 12


@gs.kernel
def cubes(t: Any, a: Any, out: Any) -> None:
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    out[i] = cube(a[i]) if a[i] < 2 else 0.0


def launches() -> list[gs.Launch]:
    dev = gs.Device("h100-sxm")
    a, b, out = (dev.to_device(np.zeros(N, np.float32), name) for name in ("a", "b", "out"))
    keys, bins = (dev.to_device(np.arange(n, dtype=np.int32) % 256, name) for n, name in ((N, "keys"), (256, "bins")))
    return [
        dev.launch(k.vector_add, 17, 250, a, b, out, N),
        dev.launch(k.by_column, (2, 8), (32, 8), a, out, 64),
        dev.launch(k.through_tile, (2, 2), (32, 8), a, out, 64, 32),
        dev.launch(k.odd_and_even, 4, 96, out),
        dev.launch(k.shared_histogram, 16, 256, keys, bins),
        dev.launch(k.counted_loop, 4, 64, a, out, 9),
        dev.launch(k.counted_loop, 2, 64, a, out, 9, vectorize=False),
        dev.launch(k.vector_add, 17, 250, a, b, out, N, count="lines"),
        dev.launch(k.vector_add, 17, 250, a, b, out, N, count="declared"),
        dev.launch(cubes, 16, 256, a, out),
    ]


@pytest.mark.parametrize("launch", launches(), ids=lambda launch: launch.name)
def test_lines_add_up_to_the_counters(launch: gs.Launch) -> None:
    rows, c = launch.source().rows(), launch.counters
    sums = {key: sum(row[key] for row in rows) for key in rows[0] if isinstance(rows[0][key], int)}
    assert sums["instructions"] == c.warp_instructions
    assert sums["active_lanes"] == c.active_lanes
    assert (sums["branches"], sums["divergent_branches"]) == (c.branches, c.divergent_branches)
    assert sums["barriers"] == c.barriers
    assert sums["global_requests"] == c.global_load_requests + c.global_store_requests + c.global_atomic_requests
    assert sums["sectors"] == c.global_load_sectors + c.global_store_sectors + c.global_atomic_sectors
    assert (sums["shared_requests"], sums["shared_wavefronts"]) == (c.shared_requests, c.shared_wavefronts)
    assert sums["wavefronts"] == sum(counts.wavefronts for counts in c.accesses.values())


def test_a_column_line_by_line() -> None:
    """16 blocks of 8 warps, 32 sectors for each load and 4 for each store."""
    view = launches()[1].source()
    line = number_of(k.by_column, "out[y * n + x]")
    row = next(row for row in view.rows() if row["line"] == line)
    assert (row["global_requests"], row["sectors"], row["sectors_per_request"]) == (256, 128 * 36, 18)
    assert (row["lanes"], row["divergent_branches"], row["shared_requests"]) == (32, 0, 0)
    assert row["text"] == "    out[y * n + x] = a[x * n + y]"
    shown = next(text for text in str(view).splitlines() if "a[x * n + y]" in text)
    assert shown.split()[:5] == [str(line), f"{row['instructions']:,}", "32", "256", "18"]


def test_all_lines_of_the_kernel_are_there_and_helpers_behind_them() -> None:
    view = launches()[-1].source()
    rows = view.rows()
    code = cubes.function.__code__
    assert [row["line"] for row in rows[:4]] == list(range(code.co_firstlineno, code.co_firstlineno + 4))
    helper = rows[4]
    assert (helper["text"], helper["file"]) == ("    return x * x * x", cube.__code__.co_filename)
    assert helper["instructions"] == 2 * 128  # in every warp, two multiplications
    assert (rows[5]["line"], rows[5]["text"], len(rows)) == (0, NO_LINE, 6)
    assert rows[5]["instructions"] == 128  # exits


class Cells(HTMLParser):
    """Text of the cells of a table, and what the page loads."""

    def __init__(self) -> None:
        super().__init__()
        self.cells: list[str] = []
        self.loads: list[str] = []
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside = tag == "td"
        if self._inside:
            self.cells.append("")
        self.loads += [f"{tag} {name}" for name, _ in attrs if name in ("src", "href")] + ["script"] * (tag == "script")

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.cells[-1] += data

    def handle_endtag(self, tag: str) -> None:
        self._inside = self._inside and tag != "td"


def test_the_page_holds_the_same_text_escaped() -> None:
    view = launches()[-1].source()
    page = view.to_html()
    assert "a[i] < 2" not in page
    assert "a[i] &lt; 2" in page
    reader = Cells()
    reader.feed(page)
    width = len(reader.cells) // len(view.rows())
    assert reader.cells[1::width] == [row["text"] for row in view.rows()]
    assert [cell for cell in reader.cells[2::width] if cell] == [
        f"{row['instructions']:,}" for row in view.rows() if row["instructions"]
    ]
    assert reader.loads == []


def test_a_notebook_gets_the_table_without_a_page() -> None:
    view = launches()[-1].source()
    shown = view._repr_html_()
    assert view.html_table() in shown
    assert view.html_table() in view.to_html()
    assert "<body" not in shown
    assert "background: #" not in shown  # a notebook may be light or dark


def test_rows_are_copies() -> None:
    view = launches()[0].source()
    view.rows()[0]["instructions"] = -1
    assert view.rows()[0]["instructions"] == 0


def test_a_sampled_launch_says_that_it_is_estimated() -> None:
    dev = gs.Device(gs.load_gpu("h100-sxm").slice(sms=1))
    n = 256 * 8 * 40
    a, b, c = (dev.to_device(np.zeros(n, np.float32), name) for name in "abc")
    launch = dev.launch(k.vector_add, n // 256, 256, a, b, c, n, sample=6)
    assert launch.sample is not None
    assert "(estimated from a sample)" in str(launch.source()).splitlines()[0]
    rows, whole = launch.source().rows(), launch.counters.warp_instructions
    assert sum(row["instructions"] for row in rows) == pytest.approx(whole, rel=1e-3)


def test_statements_and_what_they_span() -> None:
    text = SourceText(
        "k.py",
        [
            "def f(t, n):",
            "    i = 0",
            "    while i < n and (",
            "        n > 2):",
            "        if i % 2:",
            "            g(i)",
            "        i += 1",
            "    for k in range(3):",
            "        i += 1",
        ],
    )
    assert text.statements == (
        Statement("while", 3, 4, 7, (7,)),
        Statement("if", 5, 5, 6),
        Statement("for", 8, 8, 9),
    )
    assert [s.first for s in text.guarded_by(6)] == [5, 3]
    assert (text.line(6), text.line(0), text.line(99)) == ("g(i)", "", "")
    assert SourceText("cell", ["%timeit f()"]).statements == ()  # not Python


def test_where_a_function_begins_and_ends() -> None:
    filename, first, last = span_of(k.two_ifs.function)
    assert filename.endswith("advised_kernels.py")
    assert (first, last) == (number_of(k.two_ifs, "@gs.kernel"), number_of(k.two_ifs, "out[i] = v"))
    typed: dict[str, Any] = {}
    exec(compile("def f():\n    x = 1\n    return x", "<typed>", "exec"), typed)
    assert span_of(typed["f"]) == ("<typed>", 1, 3)

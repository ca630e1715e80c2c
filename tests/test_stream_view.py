"""The picture of streams and engines: what stands where, and what is written on it."""

from __future__ import annotations

import itertools
import time
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
from matplotlib.colors import to_hex, to_rgb

from gpusim_des import views
from gpusim_des.timeline import BlockSpan, HostSpan, Operation, Timeline
from gpusim_des.views.palette import HOST_STYLES, OPERATION_STYLES
from gpusim_des.views.sm_groups import sm_groups
from gpusim_des.views.streams import WAITING
from tests.test_views import VISION, Run, bars, draw, lab, legend, legend_title, texts

US = 10**9
H2D, KERNEL, D2H = (OPERATION_STYLES[kind].color for kind in ("h2d", "kernel", "d2h"))


def operation(number: int, kind: str, stream: int, issued: int, start: int, end: int, **more: Any) -> Operation:
    engine = {"h2d": "copy engine 0", "d2h": "copy engine 1", "kernel": "compute"}.get(kind, "HBM")
    name = {"kernel": "scale"}.get(kind, f"{kind} a")
    plain = Operation(number, kind, name, stream, issued * US, start * US, end * US, engine=engine)
    return replace(plain, **more)


@pytest.fixture
def pipeline() -> Timeline:
    """Two streams; the second one's copy waits for the engine."""
    engine: dict[str, Any] = {"wait_reason": "copy engine", "waited_for": "h2d a"}
    return Timeline(
        "tiny",
        2,
        500_000,
        operations=(
            operation(0, "h2d", 1, 2, 2, 102, nbytes=2**20),
            operation(1, "kernel", 1, 3, 102, 202),
            operation(2, "d2h", 1, 4, 202, 302, nbytes=2**20),
            operation(3, "h2d", 2, 5, 102, 202, nbytes=2**20, pageable=True, **engine),
            operation(4, "kernel", 2, 6, 202, 302),
        ),
        host=(
            HostSpan("memcpy h2d a", 0, 6 * US),
            HostSpan("synchronize device", 6 * US, 302 * US, waits=True),
        ),
    )


def test_rows_are_the_host_the_streams_and_the_engines(pipeline: Timeline) -> None:
    ax = views.stream_timeline(Run(pipeline))
    names = ["host thread", "stream 1", "stream 2", "copy engine 0\nto device", "copy engine 1\nto host", "SMs"]
    assert [t.get_text() for t in ax.get_yticklabels()] == names
    middles = list(ax.get_yticks())
    assert middles == sorted(middles)
    low, high = ax.get_ylim()
    assert high == 0
    assert low > middles[-1]
    assert ax.get_title() == "Streams: 5 operations in 302 µs on tiny"
    assert ax.get_xlim() == (0, 302)
    draw(ax)


def test_each_operation_stands_in_its_stream_and_on_its_engine(pipeline: Timeline) -> None:
    ax = views.stream_timeline(pipeline)
    middles = dict(zip([t.get_text() for t in ax.get_yticklabels()], ax.get_yticks(), strict=True))

    def rows(color: str) -> list[tuple[float, float, float]]:
        return sorted((left, right, round((top + bottom) / 2, 6)) for left, right, top, bottom in bars(ax)[color])

    def expected(*boxes: tuple[float, float, str]) -> list[tuple[float, float, float]]:
        return sorted((left, right, round(middles[row], 6)) for left, right, row in boxes)

    assert rows(KERNEL) == expected(
        (102, 202, "stream 1"), (202, 302, "stream 2"), (102, 202, "SMs"), (202, 302, "SMs")
    )
    assert rows(D2H) == expected((202, 302, "stream 1"), (202, 302, "copy engine 1\nto host"))
    assert rows(HOST_STYLES["calls"].color) == expected((0, 6, "host thread"))
    assert rows(WAITING.color) == expected((5, 102, "stream 2"))  # others were next only when they could start


def test_labels_say_what_it_is_and_why_it_waited(pipeline: Timeline) -> None:
    ax = views.stream_timeline(pipeline)
    written = texts(ax)
    assert written.count("h2d a\n1 MiB, 100 µs") == 2
    assert "scale\n100 µs" in written
    assert "waits for copy engine 0 (h2d a)" in written
    assert "blocked: synchronize device\n296 µs" in written
    assert written.count("stream 2") == 2  # on copy engine 0 and on the SMs
    assert legend(ax) == [
        *("copy to device", "kernel", "copy to host", "pageable copy"),
        *("issued, has to wait", "host: call or work", "host: blocked"),
    ]
    hatches = [c.get_hatch() for c in ax.collections if c.get_hatch()]
    assert sorted(hatches) == sorted(["///", HOST_STYLES["waits"].hatch])


@pytest.mark.parametrize(
    ("reason", "other", "stream", "text"),
    [
        ("stream order", "h2d a", 1, "waits for h2d a"),
        ("graph order", "", 1, "waits"),
        ("event", "scale", 1, "waits for event (scale)"),
        ("launch latency", "", 1, "launch latency"),
        ("default stream", "", 1, "waits for default stream"),
        ("default stream", "", 0, "waits for other streams"),
    ],
)
def test_every_wait_has_its_words(reason: str, other: str, stream: int, text: str) -> None:
    late = operation(0, "kernel", stream, 0, 500, 510, wait_reason=reason, waited_for=other)
    assert texts(views.stream_timeline(Timeline("tiny", 2, 500_000, operations=(late,))))[0] == text


def test_a_late_signal_is_told_from_a_running_kernel() -> None:
    copy = operation(0, "d2h", 1, 0, 500, 510, wait_reason="stream order", waited_for="scale")
    written = texts(views.stream_timeline(Timeline("tiny", 2, 500_000, operations=(copy,))))
    assert written[0] == "waits for the signal of scale"


def test_what_runs_at_once_on_one_row_is_stacked() -> None:
    kernels = tuple(operation(n, "kernel", n + 1, 0, 10 * n, 10 * n + 25) for n in range(4))
    ax = views.stream_timeline(Timeline("tiny", 2, 500_000, operations=kernels), unit="cycles")
    boxes = sorted(bars(ax)[KERNEL], key=lambda b: (b[2], b[0]))[4:]  # below the four streams
    for (_, right, top, bottom), (left, _, next_top, next_bottom) in itertools.pairwise(boxes):
        assert next_top >= bottom - 1e-9 or (left >= right and (top, bottom) == (next_top, next_bottom))
    assert len({top for _, _, top, _ in boxes}) == 3
    assert ax.get_xlim() == (0, 110_000)  # 55 µs at 2 GHz
    draw(ax)


def test_thousands_of_operations_are_fast_and_become_shares() -> None:
    kinds = ["h2d", "kernel", "d2h", "memset"]
    many = tuple(operation(n, kinds[n % 4], n % 2, n, n, n + 1) for n in range(8000))
    began = time.perf_counter()
    ax = views.stream_timeline(Timeline("tiny", 2, 500_000, operations=many))
    draw(ax)
    assert time.perf_counter() - began < 6  # about half a second; a loaded machine may be slow
    assert texts(ax) == []
    assert legend_title(ax).startswith("dense rows")
    blue = [c for c in ax.collections if to_hex(cast("Any", c.get_facecolor())[0]) == H2D]
    boxes = [path.get_extents() for c in blue for path in c.get_paths()]
    assert [round(b.y1 - b.y0, 3) for b in boxes] == [0.2, 0.2]  # of 0.8: a quarter of its stream's and engine's time


def test_many_streams_keep_their_names_apart() -> None:
    many = tuple(operation(n, "h2d", n + 1, 0, n, n + 1) for n in range(200))
    ax = views.stream_timeline(Timeline("tiny", 2, 500_000, operations=many))
    assert 20 <= len(ax.get_yticks()) <= 60
    assert ax.get_yticklabels()[-1].get_text() == "copy engine 0"
    draw(ax)


def test_a_timeline_without_operations_is_refused() -> None:
    with pytest.raises(ValueError, match="the timeline holds no operations: launch or copy something"):
        views.stream_timeline(Timeline("tiny", 2, 500_000))
    with pytest.raises(ValueError, match="unit = 'ms'"):
        views.stream_timeline(Timeline("tiny", 2, 500_000), unit="ms")  # type: ignore[arg-type]


@pytest.mark.parametrize("vision", VISION)
def test_kinds_can_be_told_apart_by_colour_or_hatch(vision: str) -> None:
    seen = {}
    for kind, style in OPERATION_STYLES.items():
        srgb = np.array(to_rgb(style.color))
        seen[kind] = lab(VISION[vision] @ np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4))
    for a, b in itertools.combinations(OPERATION_STYLES, 2):
        distance = float(np.linalg.norm(seen[a] - seen[b]))
        assert distance >= 15 or OPERATION_STYLES[a].hatch != OPERATION_STYLES[b].hatch, (a, b, distance)


def test_sms_are_shown_in_up_to_four_groups() -> None:
    """Kernel 0 has one block on SM 0; kernel 1 has blocks on SMs 0 and 5 of six: groups of two."""
    kernels = [Operation(n, "kernel", f"k{n}", n + 1, 0, 10 * n, 100 + n, engine="compute", kernel=n) for n in range(2)]
    blocks = (
        BlockSpan(0, 0, 0, 0, 3, 50),
        BlockSpan(1, 0, 0, 1, 20, 40),
        BlockSpan(1, 1, 5, 0, 30, 60),
        BlockSpan(1, 2, 5, 0, 60, 90),
    )
    record = Timeline("six", 6, 1000, (), blocks, (), operations=tuple(kernels))
    groups = [
        (name, [(o.name, o.start_fs, o.end_fs) for o in operations]) for name, operations in sm_groups(record, kernels)
    ]
    assert groups == [
        ("SMs 0–1", [("k0", 3, 50), ("k1", 20, 40)]),
        ("SMs 2–3", []),
        ("SMs 4–5", [("k1", 30, 90)]),
    ]
    names = [label.get_text() for label in views.stream_timeline(record).get_yticklabels()]
    assert names[-3:] == [name for name, _ in groups]
    assert [name for name, _ in sm_groups(replace(record, sms=2, blocks=blocks[:1]), kernels)] == ["SM 0", "SM 1"]
    assert [name for name, _ in sm_groups(replace(record, blocks=()), kernels)] == ["SMs"]

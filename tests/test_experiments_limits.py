"""Experiments about parallelism, occupancy, waves, queues and roofs: exact counts by hand, and the phenomena."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gpusim_des as gs
from gpusim_des.experiment import load
from gpusim_des.textbook.ilp_vs_tlp import LENGTH, slope
from tests.explained import check_bounds

pytestmark = pytest.mark.filterwarnings("error::gpusim_des.RaceWarning", "error::gpusim_des.UnwrittenReadWarning")


def rows(table: gs.Comparison, section: int) -> dict[str, gs.ComparisonRow]:
    """Rows of a section of a comparison, by label."""
    return {row.label: row for row in table.sections[section].rows}


def test_ilp_vs_tlp_by_hand(tmp_path: Path) -> None:
    """``tiny``: two schedulers, an instruction a cycle each, a result after four cycles."""
    points, table = load("ilp_vs_tlp").main("tiny", tmp_path, quick=True)

    by_hand = {(1, 1): 0.5, (1, 2): 1, (1, 4): 2, (1, 8): 2, (2, 1): 1, (2, 2): 2, (2, 4): 2, (2, 8): 2}
    by_hand |= {(4, warps): 2 for warps in (1, 2, 4, 8)}
    assert {(p.ilp, p.warps): p.simulated for p in points} == by_hand
    law, better, step = table.sections
    (in_step,) = step.rows
    # Eight warps take turns of 8 cycles: multiply-adds, addition, comparison; the branch takes 10, all else is hidden.
    assert (in_step.formula, in_step.verdict) == (2 * 8 * 4 / (4 * 8 + 8 + 8 + 10), "pass")
    assert {row.label: row.simulated for row in law.rows[12:] if "ILP" in row.label and "loop" not in row.label} == {
        "3 warps, ILP 4": 1.5,  # three warps' work while one scheduler works for two
        "10 warps, ILP 1, greedy": 1.25,  # four of five warps at the peak, then the fifth at a quarter of it
    }
    assert law.verdict == "explained"
    assert max(abs(row.difference) for row in better.rows if "loop" not in row.label) < 0.004
    assert rows(table, 1)["16 warps, ILP 4, loop"].formula == pytest.approx(2 * 4 / 7)  # add, comparison, branch
    assert [p.name for p in tmp_path.iterdir()] == ["ilp_vs_tlp.png"]


def test_ilp_vs_tlp_loop_of_unknown_length() -> None:
    """What a round of four multiply-adds issues."""
    found = slope(gs.load_gpu("tiny").slice(sms=1), load("ilp_vs_tlp").loop, 4, 2)
    rounds = 2 * LENGTH // 4  # of two warps
    assert found.instructions == {"fp32": 4 * rounds, "int": 2 * rounds, "branch": rounds}


def test_occupancy_sweep_by_hand(tmp_path: Path) -> None:
    """``tiny``: 16 warp slots, 16,384 registers and 16 KiB on an SM; 64 KiB to read at 64 bytes a nanosecond."""
    runs, table = load("occupancy_sweep").main("tiny", tmp_path, quick=True)

    fits, _, _, time = table.sections
    assert {row.label: row.simulated for row in fits.rows} == {
        "1 load, 64 threads": 8,  # two warps each
        "1 load, 64 threads, 5 KiB": 3,
        "1 load, 256 threads": 2,
        "16 loads, 64 threads": 2,  # 88 registers: 2,816 a warp, two warps in each sub-partition's 8,192
    }
    assert fits.verdict == "pass"
    assert time.passed
    assert {round(r.limits_us["DRAM"], 3) for r in runs} == {1.024 + 0.2}  # and the latency of the first load
    small = runs[0]
    assert small.limits_us["block scheduler"] == pytest.approx(
        0.255 + small.lone_us
    )  # 256 blocks, one every nanosecond
    assert small.limits_us["latency"] == pytest.approx(16 * small.lone_us)
    fastest = min(runs, key=lambda r: float(r.us))
    assert fastest.shape.label == "16 loads, 64 threads"  # at a quarter of the warps that a load per thread has
    assert fastest.us < 0.5 * small.us


def test_the_highest_occupancy_is_not_the_fastest() -> None:
    """On an H100, 64 threads with a load each: the block scheduler cannot fill the SMs."""
    runs, table = load("occupancy_sweep").main(quick=True)

    by_label = {r.shape.label: r for r in runs}
    small, few = by_label["1 load, 64 threads"], by_label["16 loads, 256 threads"]
    assert (small.kernel.theoretical_occupancy, few.kernel.theoretical_occupancy) == (1.0, 0.25)
    assert small.kernel.achieved_occupancy < 0.2 < few.kernel.achieved_occupancy
    assert small.us > 6 * few.us
    assert (small.limiter, few.limiter) == ("block scheduler", "DRAM")
    assert small.us == pytest.approx(max(small.limits_us.values()), rel=0.001)
    assert table.passed


def test_little_law(tmp_path: Path) -> None:
    points, table = load("little_law").main("tiny", tmp_path, quick=True)

    assert [(p.warps, p.lists, p.flights) for p in points] == [(4, 1, 8), (12, 1, 24), (16, 1, 32), (16, 4, 128)]
    plain, queued, measured, closed, wait = table.sections
    assert [row.verdict for row in plain.rows] == ["pass", "pass", "pass", "explained"]  # the knee is at 104 loads
    assert plain.rows[0].formula == pytest.approx(
        8 * 128 / 208
    )  # GB/s: 200 cycles, 4 × 2 to serve the line less 2, port
    assert plain.rows[-1].formula == pytest.approx(64)
    assert queued.verdict == measured.verdict == closed.verdict == "pass"
    assert abs(measured.worst_difference) < 0.01
    assert [row.verdict for row in wait.rows] == ["pass", "pass", "pass", "explained"]
    assert {p.name for p in tmp_path.iterdir()} == {"little_law.png", "little_law_wait.png"}


def test_tile_quantization(tmp_path: Path) -> None:
    """``tiny``: tiles of 16 × 32, one on each of two SMs at a time."""
    points, table = load("tile_quantization").main("tiny", tmp_path, quick=True)

    counted = {p.n: (p.quantization.tiles, p.quantization.waves.count) for p in points}
    assert counted == {32: (2, 1), 33: (6, 3), 64: (8, 4), 65: (15, 8), 96: (18, 9)}
    one = [p for p in points if p.blocks_per_sm == 1][:5]
    assert one[1].us > 2.8 * one[0].us  # one row and column more
    assert one[3].us > 1.9 * one[2].us
    plain, full, among, calm = table.sections  # a block of 512 threads fills an SM, two do not fit
    assert (plain.verdict, full.verdict, among.verdict) == ("explained", "pass", "pass")
    assert abs(calm.worst_difference) < 0.002  # edges, waves and all, from the times of lone tiles
    assert {p.name for p in tmp_path.iterdir()} == {"tile_quantization.png", "tile_quantization_utilisation.png"}


@pytest.mark.slow
def test_two_tiles_on_an_sm() -> None:
    """They take longer than a lone one, and less than two after the other."""
    points, table = load("tile_quantization").main("h100-sxm", quick=True)

    alone, shared = points[2], points[-2]  # 8 tiles on four SMs
    assert [(p.n, p.blocks_per_sm, p.quantization.tiles) for p in (alone, shared)] == [(64, 1, 8), (64, 2, 8)]
    assert 1.1 * alone.us / 2 < shared.us < 0.8 * alone.us
    assert [section.verdict for section in table.sections] == [
        *("explained", "pass", "pass", "pass", "explained", "explained")
    ]


@pytest.mark.slow
def test_roofline(tmp_path: Path) -> None:
    runs, table = load("roofline").main("h100-sxm", tmp_path, quick=True)

    intensity, roof, parts, alone = table.sections
    assert len(runs) == 10
    assert intensity.verdict == "pass"  # ten fractions by hand, and counted
    assert {row.label: row.formula for row in intensity.rows}["vector add"] == 2 / 12
    assert all(row.difference <= 0 for row in roof.rows)  # nothing breaks through the roof
    assert roof.verdict == parts.verdict == "explained"
    assert alone.verdict == "pass"  # where nothing else limits, the busiest part is all
    limiter = {r.case.name: r.parts.limiter for r in runs}
    assert limiter["vector add"] == limiter["polynomial, degree 32"] == "DRAM"
    assert limiter["polynomial, degree 256"] == "issue slots"
    assert limiter["polynomial, degree 128, fp64"] == "fp64 pipe"
    assert [p.name for p in tmp_path.iterdir()] == ["roofline.png"]


def test_what_keeps_the_long_polynomial_from_its_roof() -> None:
    """Not the start and end of blocks: the greedy scheduler, and the latency that it leaves unhidden."""
    module = load("roofline")
    chip = gs.load_gpu("h100-sxm").slice(sms=2)
    (case,) = (c for c in module.cases(module.N, 32) if c.name == "polynomial, degree 256")

    def missing(gpu: gs.GPU) -> float:
        run = module.measure(gpu, case, case)
        return float(1 - run.parts.seconds / run.kernel.seconds)

    as_is = missing(chip)
    assert as_is > 0.15
    assert missing(chip.replace(block_start_cycles=0, block_end_cycles=0)) > 0.9 * as_is
    assert missing(chip.replace(scheduler_policy="lrr")) < 0.4 * as_is


def test_roofline_view() -> None:
    """``tiny``: 64 GB/s, 256 GFLOP/s in fp32, the ridge at 4."""
    chart = gs.analytic.roofs("tiny")
    point = gs.views.RooflinePoint("half of the roof", 2.0, 64e9)

    ax = gs.views.roofline(chart, [point])

    dram, fp32, gap, mark, _ = (np.array([line.get_xdata(), line.get_ydata()]).T.tolist() for line in ax.lines)
    assert (dram[-1], fp32[0]) == ([4.0, 256.0], [4.0, 256.0])
    assert gap == [[2.0, 64.0], [2.0, 128.0]]  # from the kernel to its roof
    assert mark == [[2.0, 64.0]]
    legend = ax.get_legend()
    assert legend is not None
    assert [t.get_text() for t in legend.get_texts()] == [
        *("DRAM: 64 GB/s", "fp32: 256 GFLOP/s", "1  half of the roof"),
    ]
    with pytest.raises(ValueError, match="nothing to draw: pass at least one kernel"):
        gs.views.roofline(chart, [])
    with pytest.raises(ValueError, match="half of the roof uses the pipe 'fp32', whose roof is not drawn"):
        gs.views.roofline(chart, [point], compute=("fp64",))
    with pytest.raises(ValueError, match="idle: per_second = 0 on a logarithmic axis"):
        gs.views.roofline(chart, [gs.views.RooflinePoint("idle", 1.0, 0)])


def test_scaling_needs_two_sms() -> None:
    with pytest.raises(ValueError, match=r"^tiny.* has 1 SM: scaling needs at least 2, take another GPU$"):
        load("scaling").main(gs.load_gpu("tiny").slice(sms=1))


@pytest.mark.slow
def test_scaling(tmp_path: Path) -> None:
    points, table = load("scaling").main("h100-sxm", tmp_path, quick=True)

    by_law = {
        name: {p.sms: p for p in points if p.law == name} for name in ("Amdahl", "uneven", "Gustafson", "reading")
    }
    assert list(by_law["uneven"]) == [6, 12]
    # 16 blocks take three waves on 6 SMs, and two on 12 as on 8: that is as fast as on numbers that divide them.
    assert by_law["uneven"][12].simulated < by_law["Amdahl"][16].simulated
    assert by_law["Gustafson"][16].simulated > 1.8 * by_law["Amdahl"][16].simulated
    serial = {law: [gs.analytic.karp_flatt(p.simulated, n) for n, p in by_law[law].items() if n > 1] for law in by_law}
    assert serial["Amdahl"][1] == pytest.approx(serial["Amdahl"][0], rel=0.02)  # serial work: the same for all
    assert serial["reading"][1] != pytest.approx(serial["reading"][0], rel=0.1)  # contention
    verdicts = {section.rows[0].name: section.verdict for section in table.sections}
    assert verdicts["Amdahl's law"] == verdicts["Gustafson's law"] == verdicts["the same with whole waves"] == "pass"
    assert verdicts["Amdahl's law, reading memory"] == "explained"
    assert table.passed
    assert [p.name for p in tmp_path.iterdir()] == ["scaling.png"]


@pytest.mark.parametrize(
    "name",
    [
        *("ilp_vs_tlp", "latency_hiding", "little_law", "occupancy_sweep", "scaling"),
        pytest.param("tiled_matmul", marks=pytest.mark.slow),
    ],
)
def test_quick_on_tiny(name: str, tmp_path: Path) -> None:
    _, table = load(name).main("tiny", tmp_path, quick=True)
    assert table.passed
    check_bounds(table)
    assert all(row.tolerance <= 0.02 for row in table.rows)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ilp_vs_tlp"])
def test_quick_on_the_default_gpu(name: str, tmp_path: Path) -> None:
    _, table = load(name).main(out=tmp_path, quick=True)
    assert table.passed

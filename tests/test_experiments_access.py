"""Experiments on memory accesses, branches and atomics: counts by hand, relations of times, quick runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpusim_des as gs
from gpusim_des.experiment import load
from gpusim_des.textbook import histogram
from gpusim_des.textbook.reduction import VARIANTS, run, tree
from tests.explained import check_bounds

pytestmark = pytest.mark.filterwarnings("error::gpusim_des.RaceWarning", "error::gpusim_des.UnwrittenReadWarning")

both = pytest.mark.parametrize("gpu", ["tiny", pytest.param(None, marks=pytest.mark.slow)])
default = pytest.mark.parametrize("gpu", [pytest.param(None, marks=pytest.mark.slow)])
"""Those that take long on any GPU."""
"""On the smallest GPU, and on the default one of each experiment."""


def check_quick(name: str, gpu: str | None, out: Path) -> gs.Comparison:
    """Run an experiment as ``--quick`` does; every difference is within its tolerance or explained."""
    main: Any = load(name).main
    _, table = main(**({} if gpu is None else {"gpu": gpu}), out=out, quick=True)
    assert isinstance(table, gs.Comparison)
    assert table.passed, str(table)
    assert {p.suffix for p in out.iterdir()} == {".png"}
    check_bounds(table)
    assert all(row.tolerance <= 0.02 for row in table.rows)
    return table


def test_sectors_of_strides_and_offsets() -> None:
    """A warp that loads floats from address 4 · offset on, neighbours 4 · stride bytes apart."""
    touched = gs.analytic.strided_sectors

    assert [touched(s) for s in (1, 2, 3, 4, 7, 8, 9, 32)] == [4, 8, 12, 16, 28, 32, 32, 32]
    assert [touched(1, first=o) for o in (0, 1, 7, 8, 9, 16)] == [4, 5, 5, 4, 5, 4]
    assert [touched(s, sector_bytes=64) for s in (1, 2, 8, 16, 32)] == [2, 4, 16, 32, 32]  # where DRAM moves 64 bytes
    assert [touched(1, size) for size in (1, 4, 8, 16)] == [1, 4, 8, 16]  # float4: four passes of four


@both
def test_coalescing(gpu: str | None, tmp_path: Path) -> None:
    table = check_quick("coalescing", gpu, tmp_path)

    sectors, time, distinct = table.sections
    assert [row.simulated for row in sectors.rows] == [4, 8, 32, 5, 5, 4, 4, 16, 16, 16]
    us = {row.label: row.simulated for row in time.rows}
    assert us["stride 1"] < 0.6 * us["stride 2"] < 0.2 * us["stride 8"]
    assert us["stride 2, with caches"] > 0.99 * us["stride 2"]  # what a stride moves, nobody asks for later
    assert us["offset 1, with caches"] < 1.02 * us["stride 1"] < 0.85 * us["offset 1"]
    assert us["AoS, all fields, with caches"] < 1.03 * us["SoA, all fields"] < 0.3 * us["AoS, all fields"]
    assert us["AoS as float4"] == pytest.approx(us["AoS, field x"], rel=0.01)  # the same sectors, four times the data
    assert (sectors.verdict, time.verdict, distinct.verdict) == ("pass", "explained", "pass")
    assert {row.label for row in time.rows if row.verdict == "explained"} == {
        *("offset 1, with caches", "AoS, all fields, with caches"),
    }


@both
def test_bank_conflicts(gpu: str | None, tmp_path: Path) -> None:
    table = check_quick("bank_conflicts", gpu, tmp_path)

    passes, cycles, chain = table.sections
    counted = [int(row.simulated) for row in passes.rows]  # of strides 0, 1, 2, 4, 8, 16, 32 and 33
    assert counted[:8] == [1, 1, 2, 4, 8, 16, 32, 1]
    assert counted[8:16] == [2, 2, 4, 8, 16, 32, 32, 2]  # 8 bytes: two halves of a warp
    assert counted[16:] == [4, 4, 8, 16, 32, 32, 32, 4]
    assert {row.label.split(", ")[1] for row in passes.rows if row.verdict == "explained"} == {"stride 0"}
    assert {row.label for row in cycles.rows if row.verdict == "explained"} == {row.label for row in chain.rows}
    latency = gs.load_gpu(gpu or "h100-sxm").shared_latency_cycles
    assert [row.simulated for row in chain.rows] == pytest.approx([latency + p for p in (0, 1, 31, 0)], rel=1e-6)


@both
def test_divergence(gpu: str | None, tmp_path: Path) -> None:
    table = check_quick("divergence", gpu, tmp_path)

    instructions, threads, time, chain = table.sections
    warps = gs.load_gpu(gpu or "h100-sxm").max_threads_per_block // 32
    counted = {row.label: row.simulated for row in instructions.rows}
    assert [counted[f"thread number mod {k}"] for k in (1, 4, 16)] == [warps * k * 64 for k in (1, 4, 16)]
    assert counted["warp number mod 4"] == warps * 64  # all lanes of a warp go one way
    assert counted["loop, 6 rounds each"] == counted["loop, one lane 6, others 1"] == warps * 6 * (128 + 3)
    assert counted["loop, the same, sorted"] < 0.7 * counted["loop, random, 1 to 6"]
    assert [row.simulated for row in threads.rows][:5] == pytest.approx([32, 8, 2, 32, 8], rel=1e-12)
    cycles = {row.label: row.simulated for row in time.rows}
    assert cycles["thread number mod 16"] > 15.9 * cycles["thread number mod 1"]
    assert cycles["warp number mod 4"] == pytest.approx(cycles["thread number mod 1"])
    assert [row.label for row in time.rows if row.verdict == "explained"] == [row.label for row in chain.rows]
    assert chain.rows[0].simulated == pytest.approx(4 * 64 * 4)  # four ways, four cycles an instruction


@default
def test_transpose(gpu: str | None, tmp_path: Path) -> None:
    table = check_quick("transpose", gpu, tmp_path)

    loads, stores, passes, time, alone = table.sections
    assert [row.simulated for row in loads.rows] == [4, 4, 32, 4, 4]
    assert [row.simulated for row in stores.rows] == [4, 32, 4, 4, 4]
    assert [row.simulated for row in passes.rows] == [32, 1]
    assert abs(alone.worst_difference) < 0.002  # where nothing else limits, the busiest part is all
    us = {row.label: row.simulated for row in time.rows}
    assert us["copy"] < 0.7 * us["tile of 32 columns"]  # conflicts cost more than DRAM
    assert us["tile of 33 columns"] < 1.2 * us["copy"]  # padding removes them
    assert us["naive, reads rows"] > 3 * us["copy"]
    assert us["naive, writes rows"] > 3 * us["copy"]
    assert us["naive, writes rows, with caches"] < 0.4 * us["naive, writes rows"]
    # The L2 collects sectors that are written by columns, and takes long for each part.
    assert us["naive, reads rows, with caches"] < 0.9 * us["naive, reads rows"]
    if gpu is None:  # enough is under way: DRAM is as busy as the formula has it
        verdicts = {row.label: row.verdict for row in time.rows}
        assert {label for label, verdict in verdicts.items() if verdict == "pass"} == {
            *("copy", "naive, reads rows", "naive, writes rows", "tile of 33 columns"),
        }


def test_what_holds_up_a_transpose_that_writes_columns() -> None:
    """The explanations, tried: with room for all stores, and with rows that come at once, the formula holds."""
    experiment = load("transpose")
    tiny = experiment.ideal(gs.load_gpu("tiny"))

    def ratio(chip: gs.GPU, name: str) -> float:
        point = experiment.measure(chip, name, 192, "off")
        return float(point.kernel.seconds / point.formula_s)

    assert ratio(tiny, "naive, reads rows") > 1.7
    assert ratio(tiny.replace(store_buffer="64 KiB"), "naive, reads rows") < 1.06
    near = tiny.replace(l1_latency=15, l2_latency=20, l2_far_latency=25, dram_latency=30, dram_bandwidth="1 TB/s")
    near = near.replace(store_buffer="64 KiB", load_store_queue_depth=64, barrier_latency=1)
    assert ratio(near, "tile of 32 columns") < 1.03
    assert ratio(tiny, "tile of 32 columns") > 1.1


@default
def test_histogram(gpu: str | None, tmp_path: Path) -> None:
    table = check_quick("histogram", gpu, tmp_path)

    counts, hot, parts, alone = table.sections
    n = 1 << 16
    assert [row.simulated for row in counts.rows if "one bin" in row.label] == [n, n]  # all lanes of a warp meet
    assert counts.verdict == "pass"
    assert abs(alone.worst_difference) < 0.01  # where nothing else limits, the busiest part is all
    chip = gs.load_gpu(gpu or "h100-sxm")
    us = {row.label: row.simulated for row in parts.rows}
    least = n * chip.atomic_interval_cycles * chip.sm_period_fs / 1e9
    assert least < us["global, one bin"] < 1.04 * least + 0.1
    assert us["global, one bin"] > 3 * us["global, 16 bins"] > 3 * us["global, 256 bins"]
    assert us["shared, one bin"] < 0.4 * us["global, one bin"]  # each SM serialises its own values
    global_rows = {row.label: row.difference for row in parts.rows if "global" in row.label}
    assert max(map(abs, global_rows.values())) < 0.01  # in global memory the L2 is all there is, and the way there
    verdicts = {row.label: row.verdict for row in hot.rows}
    assert verdicts == {"global, one bin": "pass", "shared, one bin": "explained"}


def test_passes_of_atomics() -> None:
    """Eight lanes in each of four bins; bins 0 and 32 share a bank, bins 0 to 7 a sector of the L2."""
    passes = histogram.passes

    def of(bins: Any, *, shared: bool = False) -> tuple[int, list[int], list[int]]:
        total, operations, sectors = passes(np.asarray(bins, np.int32), shared=shared)
        return total, operations.tolist(), sectors.tolist()

    assert of(np.repeat(np.arange(4), 8)) == (8, [8, 0, 0, 0], [1, 0, 0, 0])
    assert of(np.repeat([0, 8, 16, 24], 8)) == (8, [32, 0, 0, 0], [4, 0, 0, 0])  # a sector for each bin
    assert of(32 * (np.arange(32) % 8), shared=True)[0] == 8  # eight words of one bank
    assert of(32 * (np.arange(32) % 8)) == (4, [8] * 4, [2] * 4)  # bins 0 and 32 in the first 256 bytes, and so on
    assert of(np.arange(64), shared=True)[0] == 2  # two warps without any conflict
    assert of(np.arange(256)) == (8, [8] * 4, [8] * 4)


@pytest.mark.parametrize(("name", "per_thread"), [(name, many or 16) for name, (_, many) in VARIANTS.items()])
def test_kernels_of_the_reduction(name: str, per_thread: int) -> None:
    """Sums are checked by `run`; barriers and passes of a block follow from its tree."""
    launch, _ = run(gs.load_gpu("tiny").slice(sms=1), name, 8192)

    blocks = launch.config.blocks
    assert blocks * 256 * per_thread == 8192
    assert (launch.counters.barriers / blocks, launch.counters.shared_wavefronts / blocks) == tree(int(name[0]))


@default
def test_reduction(gpu: str | None, tmp_path: Path) -> None:
    table = check_quick("reduction", gpu, tmp_path)

    barriers, passes, time, alone = table.sections
    assert [row.simulated for row in barriers.rows] == [9, 9, 9, 9, 3, 3, 3]
    assert [row.simulated for row in passes.rows] == [150, 150, 45, 45, 45, 45, 45]
    us = [row.simulated for row in time.rows]
    assert us == sorted(us, reverse=True)  # each one is faster than the one before
    assert us[0] > 6 * us[6]
    assert alone.verdict == "pass"  # where nothing else limits, the busiest part is all
    assert [row.verdict for row in time.rows][:3] == ["explained"] * 3
    if gpu is None:
        assert time.rows[6].verdict == "pass"  # the last one is limited by DRAM alone
    else:
        assert 0 < time.rows[6].difference < 0.15  # half as many warps: while they add, too few load

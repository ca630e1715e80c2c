"""Formulas against the reference tables, and where a reference value is wrong for real hardware.

Differences, each in its test below:

- A grid of 0 blocks, and an SM that holds 0, are 0 waves there. No GPU launches either: refused.
- 0 warps hide 0 of the latency there. A kernel has warps: refused.
- The largest tile for 233,472 bytes, which an SM of an H100 has, but no block gets: `largest_square_tile` is arithmetic
  and equal, `largest_tile` of an H100 takes the block's 232,448.
- The efficiency of tiles is of two dimensions there; here the inner one counts, too, and is one tile in the comparison.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gpusim_des import analytic
from gpusim_des.gpu import GPU, load_gpu
from gpusim_des.grid import cdiv

GOLDEN = json.loads((Path(__file__).parent / "data" / "golden_formulas.json").read_text())

MODELS = {"H100": "h100-sxm", "A100-like": "a100-sxm-80gb", "T4-like": "t4"}


def rows(*keys: str) -> list[dict[str, Any]]:
    table = GOLDEN
    for key in keys:
        table = table[key]
    return [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]


@cache
def model(name: str) -> GPU:
    """A GPU with the reference's few numbers."""
    numbers = GOLDEN["gpus"][name]
    gpu = load_gpu(MODELS[name])
    assert (gpu.sms, gpu.sub_partitions) == (numbers["n_sm"], numbers["schedulers_per_sm"])
    return gpu.replace(
        sm_clock=f"{numbers['clock_hz'] / 1e6:.0f} MHz",
        dram_bandwidth=f"{numbers['mem_bw'] / 1e9:.0f} GB/s",
        dram_efficiency_read=1,
        dram_efficiency_write=1,
        dram_efficiency_mixed=1,
    )


def test_waves() -> None:
    checked = 0
    for row in rows("waves"):
        sms = GOLDEN["gpus"][row["gpu"]]["n_sm"]
        if row["n_blocks"] and row["blocks_per_sm"]:
            found = analytic.waves(row["n_blocks"], row["blocks_per_sm"], sms)
            assert found.count == row["waves"]
            assert found.tail_utilisation == pytest.approx(row["last_wave_utilisation"], rel=1e-15)
            assert found.utilisation == pytest.approx(row["overall_utilisation"], rel=1e-15)
            checked += 1
        else:
            assert (row["waves"], row["overall_utilisation"]) == (0, 0)
            with pytest.raises(ValueError, match=r"= 0: must be a whole number, at least 1"):
                analytic.waves(row["n_blocks"], row["blocks_per_sm"], sms)
    assert checked == 40


def test_latency_hiding() -> None:
    checked = 0
    for row in rows("latency_hiding"):
        gpu, numbers = model(row["gpu"]), GOLDEN["gpus"][row["gpu"]]
        latency_s = numbers["mem_latency_s"]
        assert analytic.bytes_needed(gpu, latency_s) == pytest.approx(row["needed_bytes"], rel=1e-15)
        warps, nbytes = row["active_warps"], row["bytes_per_warp_request"] * row["requests_in_flight_per_warp"]
        assert warps * nbytes == row["in_flight_bytes"]
        if warps == 0:
            with pytest.raises(ValueError, match=r"warps_per_sm = 0: must be a positive"):
                analytic.littles_law_bandwidth(gpu, warps, nbytes, latency_s)
            continue
        share = analytic.littles_law_bandwidth(gpu, warps, nbytes, latency_s) / numbers["mem_bw"]
        assert share == pytest.approx(row["fraction"], rel=1e-15)
        checked += 1
    assert checked == 48


def test_amdahl_and_gustafson() -> None:
    table = rows("amdahl_gustafson")
    assert len(table) == 42
    fractions, numbers = [row["serial_fraction"] for row in table], [row["n"] for row in table]
    assert analytic.amdahl(fractions, numbers) == pytest.approx([row["amdahl"] for row in table], rel=1e-15)
    assert analytic.gustafson(fractions, numbers) == pytest.approx([row["gustafson"] for row in table], rel=1e-15)


@pytest.mark.parametrize("table", ["estimate_time", "block_time"])
def test_estimated_time(table: str) -> None:
    for row in rows(table):
        name = row.get("gpu", "H100")
        found = analytic.estimate_seconds(
            model(name),
            sectors=row["gld_sectors"] + row["gst_sectors"],
            warp_instructions=row["warp_instr"],
            replays=row["smem_wavefronts"] - row["smem_instr"],
            launch_s=GOLDEN["gpus"][name]["launch_overhead_s"],
        )
        expected = row["t_mem"], row["t_issue"], row["t"]
        assert (found.memory_s, found.issue_s, found.seconds) == pytest.approx(expected, rel=1e-14), row
        assert found.bound == row["bound"]


def test_dividing_and_rounding_up() -> None:
    assert [cdiv(row["a"], row["b"]) for row in rows("ceil_div")] == [row["result"] for row in rows("ceil_div")]
    with pytest.raises(ValueError, match="the divisor must be positive"):
        cdiv(1, 0)


def test_loads_of_tiles() -> None:
    for row in rows("tiling", "loads"):
        n, tile = row["n"], row["T"]
        assert analytic.matmul_loads(n) == row["naive_loads"]
        assert analytic.matmul_loads(n, tile) == row["tiled_loads"]
        assert analytic.matmul_intensity(1) == row["naive_flop_per_byte_f4"]
        assert analytic.matmul_intensity(tile) == row["tiled_flop_per_byte_f4"]
        assert analytic.matmul_intensity(tile) == 2 * n**3 / (4 * analytic.matmul_loads(n, tile))
    naive = rows("tiling", "naive_loads")
    assert analytic.matmul_loads([row["n"] for row in naive]).tolist() == [row["loads"] for row in naive]


def test_efficiency_of_tiles() -> None:
    for row in rows("tiling", "tile_efficiency"):  # of two dimensions: the third is one tile
        n, tile = row["n"], row["T"]
        assert analytic.tile_efficiency(n, n, tile, tile) == pytest.approx(row["efficiency"], rel=1e-15)
        tiles = analytic.matmul_quantization(n, n, tile_m=tile, tile_n=tile, sms=132)
        assert tiles.tile_utilisation == pytest.approx(row["efficiency"], rel=1e-15)


def test_largest_tiles() -> None:
    for row in rows("tiling", "max_square_tile"):
        assert analytic.largest_square_tile(row["smem_bytes"], row["bytes_per_element"]) == row["T"]
    h100 = GOLDEN["gpus"]["H100"]
    assert analytic.largest_tile("h100-sxm", 1) == 340  # of what a block may have, and not of what an SM has, 341
    assert (h100["smem_per_sm"], h100["max_smem_per_block"]) == (233_472, 232_448)

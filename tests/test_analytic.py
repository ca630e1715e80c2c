from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusim_des import analytic, gpu
from gpusim_des.errors import LaunchError, ModelError


def test_occupancy_takes_a_name_and_a_model() -> None:
    h100 = gpu.load_gpu("h100-sxm")
    by_name = analytic.occupancy("h100-sxm", threads=256, registers=40, shared_bytes=0)
    assert by_name == analytic.occupancy(h100, 256, 40) == gpu.occupancy(h100, 256, 40)
    assert by_name.blocks_per_sm == 6
    assert by_name.limits == {"warps": 8, "registers": 6, "shared_mem": 228, "blocks": 32}


def test_occupancy_assumes_32_registers() -> None:
    assert analytic.occupancy("tiny", 64).allocated_registers_per_block == 64 * 32


def test_occupancy_refuses() -> None:
    with pytest.raises(LaunchError, match="threads = 513 per block"):
        analytic.occupancy("tiny", 513)
    with pytest.raises(ModelError, match="did you mean 'tiny'"):
        analytic.occupancy("tini", 32)


def test_littles_law_below_and_at_saturation() -> None:
    # 2 SMs × 2 warps × 128 B / 200 ns = 2.56 GB/s; the DRAM of tiny gives 64 GB/s.
    assert analytic.littles_law_bandwidth("tiny", 2, 128, 200e-9) == 2.56e9
    assert analytic.littles_law_bandwidth("tiny", 49, 128, 200e-9) < 64e9
    assert analytic.littles_law_bandwidth("tiny", 50, 128, 200e-9) == 64e9
    assert analytic.littles_law_bandwidth("tiny", 500, 128, 200e-9) == 64e9
    assert analytic.warps_needed("tiny", 128, 200e-9) == 50


def test_littles_law_saturates_at_the_measured_share_of_the_peak() -> None:
    assert analytic.littles_law_bandwidth("h100-sxm", 64, 4096, 1e-6, "mixed") == 2900e9
    assert analytic.littles_law_bandwidth("h100-sxm", 64, 4096, 1e-6) == 3180e9


def test_little_law_on_an_h100_pcie() -> None:
    # Two blocks of one warp per SM with 8-byte loads: 114 × 2 × 256 B = 58,368 B in flight. Measured 96 GB/s at a
    # block life of 608 ns (RRZE-HPC/gpu-benches gpu-stream).
    assert analytic.littles_law_bandwidth("h100-pcie", 2, 256, 608e-9) == pytest.approx(96e9, rel=1e-3)


@given(st.sampled_from(gpu.list_gpus()), st.integers(1, 4096), st.integers(100, 2000))
def test_warps_needed_is_the_least_that_saturates(name: str, nbytes: int, nanoseconds: int) -> None:
    model = gpu.load_gpu(name)
    latency_s = nanoseconds / 10**9
    peak = float(model.dram_bandwidth_bytes_per_s * model.efficiency("read"))
    needed = analytic.warps_needed(model, nbytes, latency_s)
    assert analytic.littles_law_bandwidth(model, needed, nbytes, latency_s) == peak
    if needed > 1:
        assert analytic.littles_law_bandwidth(model, needed - 1, nbytes, latency_s) < peak


@pytest.mark.parametrize("wrong", [0.0, -1.0, float("nan"), float("inf")])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_littles_law_refuses_what_is_not_positive(place: int, wrong: float) -> None:
    name = ("warps_per_sm", "bytes_per_warp", "latency_s")[place]
    numbers = [1.0, 128.0, 1e-6]
    numbers[place] = wrong
    warps, nbytes, latency_s = numbers
    with pytest.raises(ValueError, match=rf"{name} = {wrong}: must be a positive, finite number"):
        analytic.littles_law_bandwidth("tiny", warps, nbytes, latency_s)
    if place > 0:
        with pytest.raises(ValueError, match=rf"{name} = {wrong}: must be a positive, finite number"):
            analytic.warps_needed("tiny", nbytes, latency_s)


def test_littles_law_refuses_unknown_traffic() -> None:
    with pytest.raises(ValueError, match=r"there is no traffic 'reads': did you mean 'read'\?"):
        analytic.littles_law_bandwidth("tiny", 1, 128, 1e-6, "reads")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("grid", "count", "full", "tail", "utilisation"),
    [
        # grid: blocks, blocks per SM, SMs
        ((108, 1, 108), 1, 1, 0, 1.0),
        ((109, 1, 108), 2, 1, 1, 109 / 216),
        ((117, 1, 108), 2, 1, 9, 117 / 216),
        ((1, 8, 2), 1, 0, 1, 1 / 16),
        ((32, 8, 2), 2, 2, 0, 1.0),
    ],
)
def test_waves(grid: tuple[int, int, int], count: int, full: int, tail: int, utilisation: float) -> None:
    waves = analytic.waves(*grid)
    assert (waves.count, waves.full, waves.tail_blocks) == (count, full, tail)
    assert waves.utilisation == pytest.approx(utilisation)
    assert waves.tail_utilisation == (tail / (grid[1] * grid[2]) if tail else 1.0)


@given(st.integers(1, 10**9), st.integers(1, 32), st.integers(1, 148))
def test_waves_hold_every_block_once(blocks: int, blocks_per_sm: int, sms: int) -> None:
    waves = analytic.waves(blocks, blocks_per_sm, sms)
    assert waves.full * waves.blocks_per_wave + waves.tail_blocks == blocks
    assert (waves.count - 1) * waves.blocks_per_wave < blocks <= waves.count * waves.blocks_per_wave
    assert waves.exact == pytest.approx(blocks / waves.blocks_per_wave)


@pytest.mark.parametrize("argument", ["blocks", "blocks_per_sm", "sms"])
@pytest.mark.parametrize("wrong", [0, -1, 1.5])
def test_waves_refuse_what_is_not_a_count(argument: str, wrong: int) -> None:
    arguments = {"blocks": 1, "blocks_per_sm": 1, "sms": 1, argument: wrong}
    with pytest.raises(ValueError, match=rf"{argument} = {wrong}: must be a whole number, at least 1"):
        analytic.waves(**arguments)


def test_tiles_divide_the_loads() -> None:
    assert [analytic.matmul_loads(64, tile) for tile in (1, 8, 16, 64)] == [524288, 65536, 32768, 8192]
    with pytest.raises(ValueError, match=r"tile = 12 does not divide n = 64: pad the matrices"):
        analytic.matmul_loads(64, 12)
    for n, tile in ((0, 1), (8, 0), (8, -8), (True, 1)):
        with pytest.raises(ValueError, match=r"(n|tile) = \S+: must be a whole number, at least 1"):
            analytic.matmul_loads(n, tile)


def test_roofline_by_hand() -> None:
    """``tiny``: 2 SMs of 2 schedulers at 1 GHz, where an fp64 instruction takes 2 cycles; L2 256 GB/s, DRAM 64."""
    mix = {"fp32": 400, "fp64": 200, "global_load": 1000}
    limits = analytic.roofline("tiny", instructions=mix, load_store_cycles=1500, l2_bytes=12800, dram_bytes=64000)
    nanoseconds = {part: round(seconds * 1e9, 6) for part, seconds in limits.ceilings.items()}
    assert nanoseconds == {
        "issue slots": 400,
        "fp32 pipe": 100,
        "fp64 pipe": 100,
        "load/store units": 750,
        "L2": 50,
        "DRAM": 1000,
    }
    assert (limits.limiter, limits.seconds) == ("DRAM", 1e-6)


def test_roofline_knows_what_a_chip_sustains() -> None:
    h200, h100 = (analytic.roofline(name, instructions={"fp32": 10**6}).ceilings for name in ("h200-sxm", "h100-sxm"))
    share = gpu.load_gpu("h200-sxm").pipe("fp32").sustained
    assert share < 1
    assert h200["issue slots"] == h100["issue slots"]
    assert h100["fp32 pipe"] / h200["fp32 pipe"] == pytest.approx(float(share), rel=0.01)
    read, mixed = (
        analytic.roofline("h100-sxm", instructions={}, dram_bytes=2900, kind=kind) for kind in ("read", "mixed")
    )
    assert mixed.seconds == pytest.approx(1e-9)
    assert read.seconds == pytest.approx(2900 / 3180e9)


def test_roofline_without_work_and_with_impossible_work() -> None:
    nothing = analytic.roofline("tiny", instructions={})
    assert (nothing.ceilings, nothing.seconds, nothing.limiter) == ({}, 0.0, "none")
    with pytest.raises(ValueError, match=r"fp32 = -1: must be a finite number, at least 0"):
        analytic.roofline("tiny", instructions={"fp32": -1})
    with pytest.raises(ValueError, match=r"l2_bytes = inf: must be a finite number"):
        analytic.roofline("tiny", instructions={}, l2_bytes=float("inf"))
    with pytest.raises(ModelError, match="there is no traffic 'copy'"):
        analytic.roofline("tiny", instructions={}, kind="copy")  # type: ignore[arg-type]

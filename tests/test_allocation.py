"""Allocation rules against results of NVIDIA's cuda_occupancy.h (CUDA 13.5), and what follows from them."""

from __future__ import annotations

import csv
import dataclasses
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusim_des.errors import LaunchError, ModelError
from gpusim_des.gpu import GPU, SMLimits, capabilities, load_gpu, occupancy, sm_limits
from gpusim_des.gpu.allocation import fit

CAPABILITIES = ("3.5", "6.0", "6.1", "7.0", "7.5", "8.0", "8.6", "8.9", "9.0", "10.0", "12.0")
MODELS = {
    "7.0": "v100-sxm2",
    "7.5": "t4",
    "8.0": "a100-sxm-80gb",
    "8.6": "rtx-3090",
    "8.9": "rtx-4090",
    "9.0": "h100-sxm",
    "10.0": "b200",
}
RESOURCES = {"warps": "lim_warps", "registers": "lim_regs", "shared_mem": "lim_smem", "blocks": "lim_blocks"}
BITS = {"warps": 1, "registers": 2, "shared_mem": 4, "blocks": 8, "barriers": 16}


def vectors() -> list[dict[str, str]]:
    with (Path(__file__).parent / "data" / "occupancy_vectors.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_vectors_cover_every_compute_capability_and_limiter() -> None:
    rows = vectors()
    assert len(rows) == 1010
    assert {row["cc"] for row in rows} == set(CAPABILITIES)
    assert {row["status"] for row in rows} == {"0"}
    assert {row["carveout_pct"] for row in rows} == {"-1", "0", "25", "50", "100"}
    assert min(Counter(row["cc"] for row in rows).values()) >= 40
    for name, bit in BITS.items():
        # Barriers never stop a block alone: with one each there are as many as block slots, or more.
        assert any(int(row["limiting_bits"]) == bit + (name == "barriers") * BITS["blocks"] for row in rows)


def shape_of(row: dict[str, str]) -> tuple[int, int, int, int | None]:
    carveout = int(row["carveout_pct"])
    return int(row["threads"]), int(row["regs"]), int(row["dyn_smem"]), None if carveout == -1 else carveout


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_equals_nvidias_calculator_in_every_column(capability: str) -> None:
    limits = sm_limits(capability)
    for row in vectors():
        if row["cc"] != capability:
            continue
        result = fit(limits, *shape_of(row))
        got = {
            "blocks_per_sm": result.blocks_per_sm,
            "active_warps": result.active_warps,
            **{
                column: -1 if result.limits[name] is None else result.limits[name] for name, column in RESOURCES.items()
            },
            "alloc_regs_per_block": result.allocated_registers_per_block,
            "alloc_smem_per_block": result.allocated_shared_bytes_per_block,
            "limiting_bits": sum(BITS[name] for name in result.limiters),
        }
        assert got == {column: int(row[column]) for column in got}, row


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_refuses_exactly_the_vectors_above_the_opt_in_limit(capability: str) -> None:
    limits = sm_limits(capability)
    for row in vectors():
        if row["cc"] != capability:
            continue
        shape = shape_of(row)
        if shape[2] > limits.shared_bytes_per_block_optin:
            assert row["blocks_per_sm"] == "0"
            with pytest.raises(LaunchError, match="shared_mem"):
                occupancy(limits, *shape)
        else:
            assert occupancy(limits, *shape).blocks_per_sm == int(row["blocks_per_sm"])


@pytest.mark.parametrize("capability", MODELS)
def test_a_model_has_the_limits_of_its_compute_capability(capability: str) -> None:
    model, table = load_gpu(MODELS[capability]), sm_limits(capability)
    names = [f.name for f in dataclasses.fields(SMLimits) if f.name not in ("name", "source_notes")]
    assert [getattr(model, name) for name in names] == [getattr(table, name) for name in names]


@pytest.mark.parametrize("capability", capabilities())
def test_tables_hold_whole_and_possible_limits_with_sources(capability: str) -> None:
    limits = sm_limits(capability)
    assert limits.max_threads_per_sm == 32 * limits.max_warps_per_sm
    assert limits.registers_per_sm % limits.sub_partitions == 0
    assert limits.registers_per_block <= limits.registers_per_sm
    assert limits.shared_carveouts_bytes[-1] == limits.shared_bytes_per_sm
    assert limits.shared_bytes_per_block <= limits.shared_bytes_per_block_optin
    assert limits.shared_bytes_per_block_optin + limits.shared_bytes_reserved_per_block <= limits.shared_bytes_per_sm
    fields = {f.name for f in dataclasses.fields(SMLimits)} - {
        "name",
        "source_notes",
        "compute_capability",
        "barriers_per_sm",
    }
    assert all(limits.sources[name] for name in fields)


def test_capabilities_by_their_names() -> None:
    assert sm_limits("sm_86") == sm_limits("8.6") == sm_limits("compute_86")
    assert sm_limits("sm_90a") == sm_limits("9.0")
    assert sm_limits("sm_120f") == sm_limits("12.0")
    assert isinstance(sm_limits("tiny"), GPU)
    for wrong in ("9.9", "sm_95", "1.3"):
        with pytest.raises(ModelError, match=r"no table for compute capability .*; known: 3.5, .*, 12.1"):
            sm_limits(wrong)


def test_c02_half_of_the_registers_for_a_block() -> None:
    """128 threads with 85 registers: NVIDIA's spreadsheet says 5 blocks on 5.0, 4 on 5.2 (xmartlabs pull request 1)."""
    assert [occupancy(sm_limits(c), 128, 85).blocks_per_sm for c in ("5.0", "5.2", "8.0", "9.0")] == [5, 4, 5, 5]
    assert occupancy(sm_limits("5.0"), 128, 85).occupancy == 0.3125
    assert occupancy(sm_limits("5.2"), 128, 85).occupancy == 0.25
    half = dataclasses.replace(sm_limits("5.0"), registers_per_block=32768)
    assert occupancy(half, 128, 85).blocks_per_sm == 4


def test_what_is_allocated_per_warp_and_sub_partition() -> None:
    result = occupancy(sm_limits("9.0"), 256, 65)
    # 65 × 32 = 2080, stored as 2304; 16,384 / 2304 = 7 warps in each of four files.
    assert (result.allocated_registers_per_warp, result.warps_per_sub_partition) == (2304, 7)
    assert result.limits["registers"] == 28 // 8
    assert result.limiters == ("registers",)
    assert occupancy(sm_limits("9.0"), 256, 0).warps_per_sub_partition is None


@pytest.mark.parametrize(
    ("percent", "shared", "kib", "blocks"),
    [
        (None, 8192, 228, 25),  # blocks take 9 KiB, the reserve included
        (100, 8192, 228, 25),
        (50, 8192, 132, 14),  # 114 KiB rounded up
        (25, 8192, 64, 7),  # 57 KiB rounded up
        (0, 8192, 16, 1),  # grows until one block fits
        (0, 0, 8, 8),  # the reserve alone
        (0, 227 * 1024, 228, 1),
    ],
)
def test_carveouts(h100: GPU, percent: int | None, shared: int, kib: int, blocks: int) -> None:
    result = occupancy(h100, 32, 0, shared, percent)
    assert (result.carveout_bytes, result.limits["shared_mem"]) == (kib * 1024, blocks)


def test_barriers_limit_blocks_since_hopper() -> None:
    """64 barriers on 9.0, 24 on 12.0 (cuda_occupancy.h): each of 32 and 24 blocks can use two, or one."""
    blocks = {
        c: [occupancy(sm_limits(c), 32, 0, 0, None, n).blocks_per_sm for n in (0, 1, 2, 4, 16)]
        for c in ("8.6", "9.0", "12.0")
    }
    assert blocks == {"8.6": [16] * 5, "9.0": [32, 32, 32, 16, 4], "12.0": [24, 24, 12, 6, 1]}
    assert occupancy(sm_limits("12.0"), 32, 0).limiter == "blocks+barriers"
    assert occupancy(sm_limits("9.0"), 32, 0, 0, None, 4).limiter == "barriers"
    assert "barriers" not in occupancy(sm_limits("9.0"), 32, 0).limits
    with pytest.raises(LaunchError, match=r"barriers = 17 per block: must lie between 0 and 16"):
        occupancy(sm_limits("9.0"), 32, 0, 0, None, 17)


def test_a_block_on_6_0_must_fit_on_6_1() -> None:
    """5 warps of 8192 registers are 8 in the check of four sub-partitions, 6 in that of two (cuda_occupancy.h)."""
    assert occupancy(sm_limits("6.0"), 32 * 5, 255).blocks_per_sm == 1
    assert occupancy(sm_limits("6.0"), 32 * 8, 255).blocks_per_sm == 1
    # 28 warps of 2304 registers: 14 in each half on 6.0; 29 are 32 in the check, 73,728 registers.
    assert occupancy(sm_limits("6.0"), 32 * 28, 72).blocks_per_sm == 1
    assert (
        occupancy(sm_limits("6.0"), 32 * 25, 80).blocks_per_sm
        == occupancy(sm_limits("6.1"), 32 * 25, 80).blocks_per_sm
        == 0
    )
    assert occupancy(sm_limits("6.0"), 32, 80).limits["registers"] == 24


@pytest.mark.parametrize("wrong", [-1, 101, 50.0, "half"])
def test_carveouts_are_percentages(h100: GPU, wrong: int) -> None:
    with pytest.raises(LaunchError, match=rf"carveout = '?{wrong}'?: must be a"):
        occupancy(h100, 32, 0, 0, wrong)


@pytest.fixture(scope="module")
def h100() -> GPU:
    return load_gpu("h100-sxm")


@pytest.mark.parametrize(
    ("shape", "blocks", "limiter"),
    [
        ((256, 162, 0), 1, "registers"),  # 162 are stored as 168: 43,008 per block
        ((128, 85, 0), 5, "registers"),
        ((32, 8, 12 * 1024), 17, "shared_mem"),  # not 19: one KiB is reserved
        ((128, 30, 0), 16, "warps+registers"),
        ((32, 29, 0), 32, "blocks"),
        ((256, 34, 0), 6, "registers"),  # not 7: 34 are stored as 40
        ((256, 64, 0), 4, "registers"),
        ((256, 65, 0), 3, "registers"),  # 72 registers: 7 warps per sub-partition
        ((1024, 64, 0), 1, "registers"),
        ((1024, 65, 0), 0, "registers"),  # legal in form, fits nowhere
        ((256, 32, 115712), 2, "shared_mem"),
        ((256, 32, 115713), 1, "shared_mem"),  # one byte more
        ((256, 32, 232448), 1, "shared_mem"),
    ],
)
def test_textbook_and_forum_cases(h100: GPU, shape: tuple[int, int, int], blocks: int, limiter: str) -> None:
    result = occupancy(h100, *shape)
    assert (result.blocks_per_sm, result.limiter) == (blocks, limiter)
    assert result.occupancy == blocks * -(-shape[0] // 32) / 64


def test_registers_of_162_are_allocated_as_168(h100: GPU) -> None:
    assert occupancy(h100, 256, 162).allocated_registers_per_block == 43_008


def test_a_smaller_register_limit_per_block_counts(h100: GPU) -> None:
    assert occupancy(h100.replace(registers_per_block=32768), 512, 64).blocks_per_sm == 2
    assert occupancy(h100.replace(registers_per_block=32767), 512, 64).blocks_per_sm == 0


def test_the_register_limit_per_block_counts_warps_rounded_up(h100: GPU) -> None:
    # 5 warps of 1024 registers are counted as 8 in this rule.
    assert occupancy(h100.replace(registers_per_block=8191), 160, 32).limits["registers"] == 0
    assert occupancy(h100.replace(registers_per_block=8192), 160, 32).limits["registers"] == 12


def test_nothing_fits_beyond_the_opt_in_limit(h100: GPU) -> None:
    gpu = h100.replace(shared_per_block_optin="100 KiB")
    assert fit(gpu, 32, 0, 100 * 1024).limits["shared_mem"] == 2
    assert fit(gpu, 32, 0, 100 * 1024 + 1).limits["shared_mem"] == 0


def test_fewer_threads_than_warp_slots_count(h100: GPU) -> None:
    assert occupancy(h100.replace(max_threads_per_sm=1024), 256, 0).blocks_per_sm == 4


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((0, 32, 0), r"threads = 0 per block: must lie between 1 and 1024 on h100-sxm.*limiter: threads"),
        ((1025, 32, 0), r"threads = 1025"),
        ((-32, 32, 0), r"threads = -32"),
        ((32, -1, 0), r"registers = -1 per thread: must lie between 0 and 255"),
        ((32, 256, 0), r"registers = 256 per thread.*limiter: registers"),
        ((32, 32, -1), r"shared_mem = -1 per block"),
        ((32, 32, 232449), r"shared_mem = 232449 per block: must lie between 0 and 227 KiB.*limiter: shared_mem"),
        ((32.0, 32, 0), r"threads = 32.0: must be a whole number, not a float"),
    ],
)
def test_refuses_impossible_launches(h100: GPU, shape: tuple[int, int, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        occupancy(h100, *shape)


def test_takes_numpy_integers(h100: GPU) -> None:
    assert occupancy(h100, np.int64(256)) == occupancy(h100, 256)  # type: ignore[arg-type]


shapes = st.tuples(st.integers(1, 1024), st.integers(0, 255), st.integers(0, 65536))


@given(shapes, st.sampled_from(capabilities()), st.none() | st.integers(0, 100))
def test_what_is_allocated_fits_the_sm(shape: tuple[int, int, int], name: str, carveout: int | None) -> None:
    gpu = sm_limits(name)
    shape = (*shape[:2], min(shape[2], gpu.shared_bytes_per_block_optin))
    result = occupancy(gpu, *shape, carveout)
    assert 0 <= result.blocks_per_sm <= gpu.max_blocks_per_sm
    assert result.active_warps <= gpu.max_warps_per_sm
    assert 0 <= result.occupancy <= 1
    assert result.blocks_per_sm * result.allocated_registers_per_block <= gpu.registers_per_sm
    assert result.blocks_per_sm * result.allocated_shared_bytes_per_block <= result.carveout_bytes
    assert all(result.limits[name] == result.blocks_per_sm for name in result.limiter.split("+"))


@given(shapes, st.integers(0, 2))
def test_asking_for_more_never_admits_more_blocks(shape: tuple[int, int, int], which: int) -> None:
    gpu = load_gpu("a100-sxm-80gb")
    limits = (gpu.max_threads_per_block, gpu.max_registers_per_thread, gpu.shared_bytes_per_block_optin)
    more = tuple(min(value + (i == which), limits[i]) for i, value in enumerate(shape))
    assert occupancy(gpu, *more).blocks_per_sm <= occupancy(gpu, *shape).blocks_per_sm

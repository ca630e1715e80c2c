"""Allocation rules against results of NVIDIA's cuda_occupancy.h (CUDA 13.5), and what follows from them."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusim_des.errors import LaunchError
from gpusim_des.gpu import GPU, load_gpu, occupancy
from gpusim_des.gpu.allocation import fit

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
BITS = {"warps": 1, "registers": 2, "shared_mem": 4, "blocks": 8}


def vectors() -> list[dict[str, str]]:
    with (Path(__file__).parent / "data" / "occupancy_vectors.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_vectors_cover_every_compute_capability_and_limiter() -> None:
    rows = vectors()
    assert {row["cc"] for row in rows} == set(MODELS)
    assert min(Counter(row["cc"] for row in rows).values()) >= 40
    for bit in BITS.values():
        assert any(int(row["limiting_bits"]) == bit for row in rows)


@pytest.mark.parametrize("capability", MODELS)
def test_equals_nvidias_calculator_in_every_column(capability: str) -> None:
    gpu = load_gpu(MODELS[capability])
    for row in vectors():
        if row["cc"] != capability:
            continue
        result = fit(gpu, int(row["threads"]), int(row["regs"]), int(row["dyn_smem"]))
        got = {
            "blocks_per_sm": result.blocks_per_sm,
            "active_warps": result.active_warps,
            **{RESOURCES[name]: -1 if limit is None else limit for name, limit in result.limits.items()},
            "alloc_regs_per_block": result.allocated_registers_per_block,
            "alloc_smem_per_block": result.allocated_shared_bytes_per_block,
            "limiting_bits": sum(BITS[name] for name in result.limiter.split("+")),
        }
        assert got == {column: int(row[column]) for column in got}, row


@pytest.mark.parametrize("capability", MODELS)
def test_refuses_exactly_the_vectors_above_the_opt_in_limit(capability: str) -> None:
    gpu = load_gpu(MODELS[capability])
    for row in vectors():
        if row["cc"] != capability:
            continue
        shape = int(row["threads"]), int(row["regs"]), int(row["dyn_smem"])
        if shape[2] > gpu.shared_bytes_per_block_optin:
            assert row["blocks_per_sm"] == "0"
            with pytest.raises(LaunchError, match="shared_mem"):
                occupancy(gpu, *shape)
        else:
            assert occupancy(gpu, *shape).blocks_per_sm == int(row["blocks_per_sm"])


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


@given(shapes, st.sampled_from(sorted(MODELS.values())))
def test_what_is_allocated_fits_the_sm(shape: tuple[int, int, int], name: str) -> None:
    gpu = load_gpu(name)
    result = occupancy(gpu, *shape)
    assert 0 <= result.blocks_per_sm <= gpu.max_blocks_per_sm
    assert result.active_warps <= gpu.max_warps_per_sm
    assert 0 <= result.occupancy <= 1
    assert result.blocks_per_sm * result.allocated_registers_per_block <= gpu.registers_per_sm
    assert result.blocks_per_sm * result.allocated_shared_bytes_per_block <= gpu.shared_bytes_per_sm
    assert all(result.limits[name] == result.blocks_per_sm for name in result.limiter.split("+"))


@given(shapes, st.integers(0, 2))
def test_asking_for_more_never_admits_more_blocks(shape: tuple[int, int, int], which: int) -> None:
    gpu = load_gpu("a100-sxm-80gb")
    limits = (gpu.max_threads_per_block, gpu.max_registers_per_thread, gpu.shared_bytes_per_block_optin)
    more = tuple(min(value + (i == which), limits[i]) for i, value in enumerate(shape))
    assert occupancy(gpu, *more).blocks_per_sm <= occupancy(gpu, *shape).blocks_per_sm

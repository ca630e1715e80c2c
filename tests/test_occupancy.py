"""Occupancy as users ask for it: the golden table, textbook cases, what would help, what-if curves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusim_des import analytic
from gpusim_des.errors import LaunchError
from gpusim_des.gpu import capabilities, fit, sm_limits

GOLDEN_GPUS = {"H100": "9.0", "A100-like": "8.0", "T4-like": "7.5"}

# Where the golden table differs from hardware: it joins what is left over in the four register files of an SM, but a
# warp's registers lie in one of them. (threads, registers, shared memory): blocks in the table, blocks here.
POOLED = {
    (1, 96, 0): (21, 20),
    (32, 96, 0): (21, 20),
    (33, 33, 0): (25, 24),
    (33, 40, 0): (25, 24),
    (64, 33, 0): (25, 24),
    (64, 40, 0): (25, 24),
    (96, 33, 0): (17, 16),
    (96, 40, 0): (17, 16),
    (96, 96, 0): (7, 6),
    (224, 48, 30000): (6, 5),
}
LIMITS = {"lim_warps": "warps", "lim_blocks": "blocks", "lim_registers": "registers", "lim_shared_mem": "shared_mem"}


def golden() -> list[dict[str, Any]]:
    table = json.loads((Path(__file__).parent / "data" / "golden_occupancy.json").read_text())
    return [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]


def test_the_golden_table() -> None:
    rows, pooled, refused = golden(), 0, 0
    for row in rows:
        shape = row["threads_per_block"], row["regs_per_thread"], row["smem_per_block"]
        gpu = GOLDEN_GPUS[row["gpu"]]
        if row["limiter"] == "cannot_launch":
            refused += 1
            with pytest.raises(LaunchError, match=r"must lie between \d+ and .*\(limiter: "):
                analytic.occupancy(gpu, *shape)
            continue
        result = analytic.occupancy(gpu, *shape)
        assert row["limiter"] in result.limiters
        if row["gpu"] == "H100" and shape in POOLED:
            pooled += 1
            assert (row["blocks_per_sm"], result.blocks_per_sm) == POOLED[shape]
            assert result.limiter == "registers"
            continue
        assert result.blocks_per_sm == row["blocks_per_sm"], row
        assert result.active_warps == row["active_warps"]
        assert result.occupancy == row["occupancy"]
        for column, name in LIMITS.items():
            # The table caps a limit that does not apply at the block slots; its registers are pooled here, too.
            limit = result.limits[name]
            if name != "registers" and limit is not None and row[column] < row["lim_blocks"]:
                assert limit == row[column], row
    assert (len(rows), pooled, refused) == (237, 10, 7)


@pytest.mark.parametrize(
    ("gpu", "shape", "percent", "blocks", "limiter"),
    [
        ("9.0", (256, 162, 0), 12.5, 1, "registers"),  # C01
        ("8.0", (128, 30, 0), 100, 16, "warps+registers"),  # C04 a
        ("8.0", (32, 29, 0), 50, 32, "blocks"),  # C04 b
        ("8.0", (256, 34, 0), 75, 6, "registers"),  # C04 c: not 87.5 %, for 34 are stored as 40
        ("9.0", (32, 8, 12 * 1024), 100 * 17 / 64, 17, "shared_mem"),  # C05: not 19
    ],
)
def test_textbook_cases(gpu: str, shape: tuple[int, int, int], percent: float, blocks: int, limiter: str) -> None:
    result = analytic.occupancy(gpu, *shape)
    assert (100 * result.occupancy, result.blocks_per_sm, result.limiter) == (percent, blocks, limiter)


def test_c01_what_is_stored() -> None:
    assert analytic.occupancy("9.0", 256, 162).allocated_registers_per_block == 43_008
    # The compiler's 10 registers are the profiler's 16.
    assert analytic.occupancy("9.0", 32, 10).allocated_registers_per_warp == 16 * 32


def test_a_capability_and_a_model_of_it_agree() -> None:
    assert analytic.occupancy("sm_90", 256, 40, 5000, 50) == analytic.occupancy("h100-sxm", 256, 40, 5000, 50)


# What would help -----------------------------------------------------------------------------------------------------


def test_next_better_says_what_to_change() -> None:
    def better(*shape: int) -> list[str]:
        return [str(c) for c in analytic.next_better("h100-sxm", *shape)]

    assert better(256, 32) == []
    assert better(256, 33)[0] == "at most 32 registers per thread"  # 6 blocks of 40, then 8: none holds 7
    assert better(1024, 65)[0] == "at most 64 registers per thread"
    # 57 KiB and the reserve: four blocks take 58 × 4 = 232 > 228 KiB, so three fit; 228 / 4 - 1 = 56 KiB.
    assert better(256, 32, 57 * 1024)[0] == "at most 57,344 B of shared memory per block"
    both = better(256, 65, 75 * 1024)  # three blocks by each
    assert both[0] == "at most 64 registers per thread and at most 57,344 B of shared memory per block"
    # 32 threads: block slots are the limiter, only larger blocks help.
    assert better(32, 32) == ["64 threads per block"]


shapes = st.tuples(st.integers(1, 1024), st.integers(1, 255), st.integers(0, 49152))
rules = st.sampled_from(capabilities())


@given(rules, shapes, st.none() | st.integers(0, 100))
def test_what_helps_is_better_and_the_least_change(
    capability: str, shape: tuple[int, int, int], carveout: int | None
) -> None:
    limits = sm_limits(capability)
    now = analytic.occupancy(limits, *shape, carveout)
    for change in analytic.next_better(limits, *shape, carveout):
        then = (change.threads, change.registers, change.shared_bytes)
        assert analytic.occupancy(limits, *then, carveout) == change.occupancy
        assert change.occupancy.occupancy > now.occupancy
        differing = [i for i in range(3) if then[i] != shape[i]]
        assert differing == [["threads", "registers", "shared_mem"].index(name) for name in change.what.split("+")]
        if change.what == "registers":  # one register more is not better
            assert fit(limits, shape[0], change.registers + 1, shape[2], carveout).blocks_per_sm == now.blocks_per_sm
        if change.what == "shared_mem":
            more = fit(limits, shape[0], shape[1], change.shared_bytes + 1, carveout)
            assert more.blocks_per_sm == now.blocks_per_sm


@given(rules, shapes)
def test_nothing_helps_only_where_nothing_does(capability: str, shape: tuple[int, int, int]) -> None:
    """An independent search over all registers and block sizes."""
    limits = sm_limits(capability)
    now = analytic.occupancy(limits, *shape)
    changes = analytic.next_better(limits, *shape)
    fewer = any(fit(limits, shape[0], r, shape[2]).blocks_per_sm > now.blocks_per_sm for r in range(1, shape[1]))
    assert fewer == any(c.what == "registers" for c in changes)
    sizes = [t for t in range(32, 1025, 32) if fit(limits, t, *shape[1:]).active_warps > now.active_warps]
    assert {c.threads for c in changes if c.what == "threads"} <= set(sizes)
    assert any(c.what == "threads" for c in changes) == bool(sizes)


# Curves --------------------------------------------------------------------------------------------------------------


def test_arrays_are_broadcast() -> None:
    arrays = analytic.occupancy_arrays("h100-sxm", np.array([64, 128, 256])[:, None], [32, 64], 1000)
    assert arrays.occupancy.shape == (3, 2)
    for index in np.ndindex(3, 2):
        one = analytic.occupancy("h100-sxm", int(arrays.threads[index]), int(arrays.registers[index]), 1000)
        for name in ("blocks_per_sm", "active_warps", "occupancy", "limiter"):
            assert getattr(arrays, name)[index] == getattr(one, name)


@given(rules, st.sampled_from(["block", "registers", "shared"]), shapes)
def test_curves_hold_what_was_asked_about(capability: str, axis: Any, shape: tuple[int, int, int]) -> None:
    curve = analytic.what_if(capability, axis, *shape)
    at = list(curve.values).index(curve.chosen)
    now = analytic.occupancy(capability, *shape)
    assert (curve.blocks_per_sm[at], curve.limiter[at]) == (now.blocks_per_sm, now.limiter)
    assert (np.diff(curve.values) > 0).all()
    if axis != "block":
        assert (np.diff(curve.blocks_per_sm) <= 0).all()
    steps = curve.steps()
    assert [index for a, b, _ in steps for index in range(a, b + 1)] == list(range(len(curve.values)))
    assert all(set(curve.blocks_per_sm[a : b + 1]) == {blocks} for a, b, blocks in steps)


def test_what_cannot_be_asked() -> None:
    with pytest.raises(LaunchError, match=r"axis = 'threads': must be one of block, registers, shared"):
        analytic.what_if("9.0", "threads")  # type: ignore[arg-type]
    with pytest.raises(LaunchError, match=r"threads = 0 per block: must lie between 1 and 1024"):
        analytic.what_if("9.0", "registers", 0)
    with pytest.raises(LaunchError, match=r"registers = \[1.5\]: must be whole numbers"):
        analytic.occupancy_arrays("9.0", 32, [1.5])
    with pytest.raises(LaunchError, match=r"threads = -32 per block"):
        analytic.next_better("9.0", -32)

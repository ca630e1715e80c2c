"""Errors are what they are called, and reproductions measure what they say."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpusim_des as gs
from gpusim_des.errors import LaunchError
from gpusim_des.gpu import load_gpu, occupancy, shared_for_blocks
from gpusim_des.silicon import Errors, Outcome, Point, Result, Target, list_targets, load_target, run, validate
from gpusim_des.silicon.chases import cycles_per_hop, ring_of
from gpusim_des.silicon.matmuls import LADDER
from gpusim_des.silicon.reductions import REDUCTIONS, block_sums
from gpusim_des.silicon.reproductions import REPRODUCTIONS
from gpusim_des.silicon.steady import streaming_part
from gpusim_des.silicon.transposes import VARIANTS
from gpusim_des.silicon.validation import LARGE

CHASE = load_target("pchase_v100")


def result(errors: list[float], kind: str = "time", **changes: object) -> Result:
    """A result whose points are all measured as 100."""
    target = dataclasses.replace(CHASE, kind=kind, **changes)  # type: ignore[arg-type]
    outcomes = tuple(Outcome(Point({"n": n}, 100.0, False), 100 * (1 + e)) for n, e in enumerate(errors))
    return Result(target, outcomes, 1.0)


# Errors -------------------------------------------------------------------------------------------------------------


def test_error_of_a_target_is_the_mean_of_its_points() -> None:
    found = result([0.1, -0.2, 0.0, -0.5])
    assert found.error == pytest.approx(0.2)
    assert found.bias == pytest.approx(-0.15)
    assert found.worst.point.inputs == {"n": 3}


def test_of_an_order_the_first_point_is_the_scale() -> None:
    assert result([0.0, 0.1, -0.3], kind="order").error == pytest.approx(0.2)
    assert result([0.0, 0.1, -0.3]).error == pytest.approx(0.4 / 3)


def test_errors_of_several_targets() -> None:
    """0, 10, 20, 30, 140 %: mean 40, median 20, 90th percentile 30 + 0.6 × 110 = 96."""
    found = Errors.of([result([e]) for e in (0.2, 0.0, 0.3, -0.1, 1.4)])
    assert found.count == 5
    assert found.worst == pytest.approx(1.4)
    assert (found.mean, found.median, found.p90) == pytest.approx((0.4, 0.2, 0.96))


def test_errors_of_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="errors of no targets: pass at least one"):
        Errors.of([])


@given(st.lists(st.floats(-0.99, 10), min_size=1, max_size=30))
def test_errors_keep_their_order(errors: list[float]) -> None:
    found = Errors.of([result([e]) for e in errors])
    assert 0 <= found.median <= found.p90 * (1 + 1e-12) <= found.worst * (1 + 1e-12)
    assert found.mean <= found.worst * (1 + 1e-12)


def test_sections() -> None:
    assert result([0.0]).section == "calibration"  # CHASE gave the V100 its latencies
    assert result([0.0], cited=()).section == "predictions"
    assert result([0.0], cited=(), rule="M1: a rule").section == "calibration"
    assert result([0.0], kind="count").section == "counts"
    assert result([0.0, 0.0], kind="order").section == "order and ratio"


# Reproductions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", [t for t in list_targets() if t.kind == "count"], ids=lambda t: t.name)
def test_counts_are_exact(target: Target) -> None:
    assert [(o.point.label, o.simulated) for o in run(target).outcomes] == [
        (p.label, p.measured) for p in target.points
    ]


@pytest.mark.parametrize(("lines", "latency"), [(1, 30), (100, 30), (250, 30), (700, 100)])
def test_a_chase_on_the_tiny_gpu_costs_its_latencies(lines: int, latency: int) -> None:
    """The model's L1 holds 32 KiB, 256 lines, and its L2 256 KiB; one SM of it has half of that, 1024 lines."""
    gpu = load_gpu("tiny")
    assert {30: gpu.l1_latency_cycles, 100: gpu.l2_latency_cycles}[latency] == latency
    assert cycles_per_hop(gpu, {"kib": lines / 8}) == latency


@given(st.integers(1, 500))
def test_a_ring_visits_every_line_once(lines: int) -> None:
    words, order = ring_of(lines)
    at, seen = int(order[0]), set()
    for _ in range(lines):
        seen.add(at)
        at = int(words[at])
    assert at == order[0]
    assert seen == set(range(0, 32 * lines, 32))


def test_a_lone_warp_issues_its_chain_at_the_latency() -> None:
    """48 additions of 4 cycles each; the loop's own three instructions hide beside them, but for the branch."""
    cycles = REPRODUCTIONS["cycles_per_instruction"](load_gpu("tiny"), {"op": "fp32", "warps": 1, "ilp": 1})
    assert 4 <= cycles <= 4 + 30 / 48


@pytest.mark.parametrize("blocks", [1, 2, 4])
@pytest.mark.parametrize("name", ["v100-pcie", "a100-sxm-80gb", "h100-pcie"])
def test_shared_memory_holds_blocks_to_a_number(name: str, blocks: int) -> None:
    gpu = load_gpu(name)
    assert occupancy(gpu, 128, 32, shared_for_blocks(gpu, 128, blocks)).blocks_per_sm == blocks


def test_a_number_that_shared_memory_cannot_bring_about_is_refused() -> None:
    refused = (
        r"let 2 blocks of 1024 threads on an SM of h100-pcie, not 4: ask for at most 2 \(limiter: warps\+registers"
    )
    with pytest.raises(LaunchError, match=refused):
        shared_for_blocks(load_gpu("h100-pcie"), 1024, 4)


def test_a_streaming_part_keeps_its_bandwidth() -> None:
    gpu = load_gpu("a100-sxm-80gb")
    small = streaming_part(gpu, 3)
    assert small.l2_bytes == 3 * 16 * 1024
    assert small.dram_bandwidth_bytes_per_s == pytest.approx(gpu.dram_bandwidth_bytes_per_s * 3 / 108, rel=1e-9)


QUICK_TARGETS = ("shared_latency_2070", "sgemm_sectors", "pcie_v100", "empty_kernels")


def test_a_validation_reports_each_result() -> None:
    seen: list[str] = []
    results = validate(
        [load_target(n) for n in QUICK_TARGETS], quick=True, progress=lambda r: seen.append(r.target.name)
    )
    assert tuple(seen) == QUICK_TARGETS == tuple(r.target.name for r in results)
    assert results[0].error == 0
    assert results[2].error < 0.15


def test_a_quick_validation_leaves_out_what_has_no_quick_points() -> None:
    slow = load_target("transpose_a100")
    assert validate([slow], quick=True) == ()
    with pytest.raises(ValueError, match="target 'transpose_a100' has no quick points: leave out quick"):
        run(slow, quick=True)


@pytest.mark.slow
@pytest.mark.parametrize("target", [t for t in list_targets() if t.quick_points][::5], ids=lambda t: t.name)
def test_large_errors_say_what_the_model_lacks(target: Target) -> None:
    found = run(target, quick=True)
    assert np.isfinite(found.error)
    assert found.error <= LARGE or target.why


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_add_up(name: str) -> None:
    """Each of the seven, on the tiny GPU: every block's sum is that of its part of the array."""
    values = np.random.default_rng(1).integers(-1000, 1000, 4096).astype(np.int32)
    sums = block_sums(load_gpu("tiny"), name, values)
    assert sums.tolist() == values.reshape(len(sums), -1).sum(axis=1).tolist()


@pytest.mark.slow
def test_reductions_are_faster_one_after_the_other() -> None:
    """The published order, and its first half step by step."""
    found = [o.simulated for o in run(load_target("reductions_g80"), quick=True).outcomes]
    assert found == sorted(found, reverse=True)
    assert found[0] > found[1] > found[2]


@pytest.mark.parametrize("name", ["naive", "coalesced", "shared tiles"])
def test_products_are_right(name: str) -> None:
    rng = np.random.default_rng(2)
    a, b = rng.random((32, 64), dtype=np.float32), rng.random((64, 32), dtype=np.float32)
    dev, step = gs.Device("rtx-a6000"), LADDER[name]
    c = dev.to_device(np.zeros((32, 32), np.float32).ravel())
    dev.launch(step.kernel, (1, 1), step.threads, dev.to_device(a.ravel()), dev.to_device(b.ravel()), c, 32, 64)
    assert dev.to_host(c) == pytest.approx((a @ b).ravel(), rel=1e-5)


@pytest.mark.parametrize("name", VARIANTS)
def test_transposes_transpose(name: str) -> None:
    n, variant = 64, VARIANTS[name]
    matrix = np.arange(n * n, dtype=np.float32).reshape(n, n)
    dev = gs.Device("tiny")
    c = dev.malloc(n * n)
    args = dev.to_device(matrix.ravel()), c, n, variant.tile, variant.rows
    dev.launch(variant.kernel, (n // variant.tile,) * 2, (variant.tile, variant.rows), *args)
    expected = matrix if name == "copy" else matrix.T
    assert (dev.to_host(c).reshape(n, n) == expected).all()


@pytest.mark.parametrize("name", VARIANTS)
def test_no_transpose_beats_the_dram(name: str) -> None:
    """Read and written once, at the rate of reads and writes mixed, is the least that it can take."""
    gpu = load_gpu("tiny")
    limit = float(gpu.dram_bandwidth_bytes_per_s * gpu.dram_efficiency_mixed) / 1e9
    rate = REPRODUCTIONS["bandwidth_of_a_transpose"](gpu, {"kernel": name, "n": 512})
    assert 0 < rate < 1.05 * limit

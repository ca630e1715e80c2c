"""The published measurements are complete, and each names its model, its reproduction and what was taken from it."""

from __future__ import annotations

import pytest

from gpusim_des.errors import SimError
from gpusim_des.gpu import load_gpu
from gpusim_des.silicon import Target, choose, list_targets, load_target
from gpusim_des.silicon.reproductions import REPRODUCTIONS

TARGETS = list_targets()

CALIBRATION = {
    # Latency plateaus are what the models' latencies are.
    *("pchase_v100", "pchase_a100_80", "pchase_md_h100", "warps_in_dram_3090", "shared_latency_2070"),
    *("pchase_h100_pcie", "pchase_l40"),
    # Integer instructions of a hop from index to address.
    "pchase_md_v100",
    # Efficiencies of DRAM, and the cost of a block's start and end.
    *("occupancy_curve_a100_80", "occupancy_curve_h100_pcie", "occupancy_curve_v100"),
    *("babelstream_h100_sxm", "babelstream_h200", "strides_t4", "roofline_l40", "roofline_a40"),
    # Bandwidths of the L2, the load/store unit's quarter-cycles, bulk copies.
    *(
        "l1_strides_h200",
        "l2_a100_80",
        "l2_h200",
        "bulk_copies_h800",
        "l1_strides_a40",
        "one_buffer_v100",
        "l2_h100_pcie",
    ),
    # What writes cost in the L2, what reads wait for in DRAM, how wide an L1 is.
    *("transpose_a100", "small_kernels_a100_graph", "offset_copy_v100"),
    *("occupancy_curve_a100_40", "occupancy_curve_l40", "occupancy_curve_a40", "one_buffer_l40", "one_buffer_a40"),
    # Pipes.
    *("dfma_v100", "fp32_rate_titan_v", "fp32_warps_titan_v", "fp32_rate_rtx_2080_ti", "fp32_warps_rtx_2080_ti"),
    # The host.
    *("small_kernels_h200", "small_kernels_h200_graph", "pcie_v100"),
    *("small_kernels_a100", "small_kernels_l40", "small_kernels_l40_graph"),
}
"""Names of all targets from which a model or a rule took something, written down by hand."""


def test_names_are_unique_and_every_entry_says_what_it_is() -> None:
    assert len({target.name for target in TARGETS}) == len(TARGETS) >= 40
    for target in TARGETS:
        for text in (target.name, target.group, target.title, target.source, target.unit):
            assert text.strip() == text != "", target.name
        assert target.kind in ("time", "count", "order"), target.name


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
def test_every_target_can_be_run(target: Target) -> None:
    assert target.reproduction in REPRODUCTIONS
    assert load_gpu(target.gpu).name == target.gpu
    assert target.points
    assert all(point.measured > 0 for point in target.points)
    if target.kind == "order":
        # The first point is what the others are compared with, in a quick run as well.
        assert not target.quick_points or target.points[0].quick
    labels = [point.label for point in target.points]
    assert len(set(labels)) == len(labels)


def test_every_reproduction_is_used() -> None:
    assert {target.reproduction for target in TARGETS} == set(REPRODUCTIONS)


def test_calibration_is_read_from_the_sources_of_the_models() -> None:
    """A parameter that cites a measurement makes it calibration, whether somebody says so or not."""
    assert {target.name for target in TARGETS if target.calibrates and target.kind == "time"} == CALIBRATION


def test_what_a_model_took_from_a_measurement() -> None:
    taken = load_target("occupancy_curve_v100").inputs_of(load_gpu("v100-pcie"))
    efficiencies = {f"dram_efficiency_{kind}" for kind in ("read", "write", "mixed")}
    batches = {"dram_read_batch_bytes", "dram_write_batch_bytes"}
    assert set(taken) == {"block_start_cycles", "block_end_cycles", *batches, *efficiencies}
    assert "RRZE-HPC/gpu-benches gpu-stream" in taken["dram_efficiency_read"]
    assert load_target("roofline_a100_40").inputs_of(load_gpu("a100-sxm-40gb")) == {}


def test_points_carry_the_published_figures() -> None:
    """Spot checks against the sources."""
    chase = load_target("pchase_a100_80")
    assert (chase.points[0].inputs["kib"], chase.points[0].measured) == (4.1, 33.0)
    curve = {point.label: point.measured for point in load_target("occupancy_curve_h100_pcie").points}
    assert curve["kernel read, threads 1024, blocks 2"] == 1942
    assert curve["kernel write, threads 32, blocks 2"] == 228
    ladder = {point.inputs["kernel"]: point.measured for point in load_target("sgemm_a6000").points}
    assert ladder["naive"] == 309.0
    assert ladder["2-D register tiles"] == 15971.7


def test_chooses_by_name_and_model() -> None:
    assert [target.name for target in choose(["pchase_v100"])] == ["pchase_v100"]
    assert {target.gpu for target in choose(gpu="t4")} == {"t4"}
    assert choose() == TARGETS


@pytest.mark.parametrize(
    ("names", "gpu", "message"),
    [
        (["pchase_v10"], None, r"there is no target 'pchase_v10': did you mean 'pchase_v100'"),
        ([], "tinny", r"no target of 'tinny': .*there are some of \['a100-sxm-40gb'"),
        (["pchase_v100"], "t4", r"no target of 't4': .*there are some of \['v100-pcie'\]"),
    ],
)
def test_refuses_what_does_not_exist(names: list[str], gpu: str | None, message: str) -> None:
    with pytest.raises(SimError, match=message):
        choose(names, gpu)

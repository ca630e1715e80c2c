"""Published bandwidth against occupancy: every point above 10 % occupancy is met within 15 %."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from gpusim_des.gpu import GPU, load_gpu
from gpusim_des.silicon.held import occupied_points
from gpusim_des.silicon.streams import bandwidth_of_one_element
from gpusim_des.silicon.target import Point, Target, list_targets, load_target

CURVES = tuple(target for target in list_targets() if target.group == "bandwidth against occupancy")


def check(target: Target, points: Sequence[Point]) -> None:
    gpu = load_gpu(target.gpu)
    found = {point.label: bandwidth_of_one_element(gpu, point.inputs) for point in points}
    assert found == {point.label: pytest.approx(point.measured, rel=0.15) for point in points}


def test_the_curves_are_those_of_seven_gpus() -> None:
    """Six kernels each, at 8 to 31 occupancies above a tenth."""
    assert sorted(target.gpu for target in CURVES) == [
        *("a100-sxm-40gb", "a100-sxm-80gb", "a40", "gh200", "h100-pcie", "l40", "v100-pcie")
    ]
    assert sum(len(occupied_points(target)) for target in CURVES) == 678 + 174


@pytest.mark.parametrize("target", CURVES, ids=lambda t: t.gpu)
def test_some_points_of_each_curve(target: Target) -> None:
    """All kernels, at a fifth, a half and the whole of the occupancy; the slow test has more points."""
    most = load_gpu(target.gpu).max_threads_per_sm
    nearest = {
        min((p.inputs["threads"] * p.inputs["blocks"] for p in target.points), key=lambda n: abs(n - share * most))
        for share in (0.2, 0.5, 1)
    }
    points = [p for p in target.points if p.inputs["threads"] * p.inputs["blocks"] in nearest]
    assert len(points) >= 18
    check(target, points)


@pytest.mark.slow
@pytest.mark.parametrize("target", CURVES, ids=lambda t: t.gpu)
def test_every_fifth_point_of_each_curve(target: Target) -> None:
    """All kernels in turn; `gpusim-des validate` simulates all points, and the README's table has the worst of them."""
    check(target, occupied_points(target)[::5])


# GPUs of whose curves nothing was read --------------------------------------------------------------------------------

DATA = Path(__file__).parent.parent / "data" / "occupancy_curves.json"


def unread(name: str) -> tuple[GPU, tuple[Point, ...]]:
    """Return a GPU and its curve: the GH200's is a target, and the H200 that was measured reads less than the model's.

    It reads 3888 GB/s, where the source of the model has 4480.
    """
    gpu = load_gpu(name)
    if name == "gh200":
        return gpu, load_target("occupancy_curve_gh200").points
    curve = json.loads(DATA.read_text(encoding="utf-8"))[name]
    reads = load_target("l2_h200").points[-1]  # of 5 GB, from the same repository
    assert reads.measured == 3888.2
    assert gpu.dram_efficiency_read * gpu.dram_bandwidth_bytes_per_s == 4480 * 10**9
    points = [
        Point({"kernel": kernel, "threads": threads, "blocks": blocks}, measured, quick=False)
        for threads, blocks, *row in curve["rows"]
        for kernel, measured in zip(curve["columns"][2:], row, strict=True)
    ]
    return gpu.replace(dram_bandwidth=gpu.dram_bandwidth_bytes_per_s * 38882 // 44800), tuple(points)


def errors(gpu: GPU, points: Sequence[Point]) -> dict[str, float]:
    return {p.label: bandwidth_of_one_element(gpu, p.inputs) / p.measured - 1 for p in points}


def mean(found: dict[str, float]) -> float:
    return sum(map(abs, found.values())) / len(found)


@pytest.mark.parametrize("name", ["gh200", pytest.param("h200-sxm", marks=pytest.mark.slow)])
def test_the_rule_carries_over_to_other_gpus(name: str) -> None:
    """M6 was read from V100, A100, H100 PCIe, A40 and L40; without it, points of these are off by up to 44 %."""
    gpu, points = unread(name)
    some = [p for p in points if p.inputs["threads"] in (192, 512, 1024)]
    found = errors(gpu, some)
    assert len(found) == 18
    assert found == {point: pytest.approx(0, abs=0.15) for point in found}
    without = errors(gpu.replace(dram_read_batch="0 B", dram_write_batch="0 B"), some)
    assert mean(found) < 0.5 * mean(without)
    assert max(without.values()) > 0.4


@pytest.mark.slow
def test_all_of_the_curve_of_an_h200() -> None:
    gpu, points = unread("h200-sxm")
    found = errors(gpu, points)
    assert len(found) == 174
    assert found == {point: pytest.approx(0, abs=0.15) for point in found}
    assert mean(found) < 0.07

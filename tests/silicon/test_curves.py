"""Published bandwidth against occupancy: every point above 10 % occupancy is met within 15 %."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gpusim_des.gpu import load_gpu
from gpusim_des.silicon.held import occupied_points
from gpusim_des.silicon.streams import bandwidth_of_one_element
from gpusim_des.silicon.target import Point, Target, list_targets

CURVES = tuple(target for target in list_targets() if target.group == "bandwidth against occupancy")


def check(target: Target, points: Sequence[Point]) -> None:
    gpu = load_gpu(target.gpu)
    found = {point.label: bandwidth_of_one_element(gpu, point.inputs) for point in points}
    assert found == {point.label: pytest.approx(point.measured, rel=0.15) for point in points}


def test_the_curves_are_those_of_six_gpus() -> None:
    """Six kernels each, at 5 to 31 occupancies above a tenth."""
    assert sorted(target.gpu for target in CURVES) == [
        *("a100-sxm-40gb", "a100-sxm-80gb", "a40", "h100-pcie", "l40", "v100-pcie")
    ]
    assert sum(len(occupied_points(target)) for target in CURVES) == 678


@pytest.mark.parametrize("target", CURVES, ids=lambda t: t.gpu)
def test_some_points_of_each_curve(target: Target) -> None:
    """All kernels, at a fifth, a half and the whole of the occupancy; the slow test has all points."""
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
def test_all_points_of_each_curve(target: Target) -> None:
    check(target, occupied_points(target))

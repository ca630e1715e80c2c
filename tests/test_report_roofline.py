"""The roofline of a report: where kernels stand, by the bytes of each memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpusim_des as gs
from gpusim_des.simulation import Simulation
from gpusim_des.views import kernel_roofline

f32 = np.float32


@gs.kernel
def add(t: Any, a: Any, b: Any) -> None:
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    b[i] = a[i] + b[i]


@gs.kernel
def count_up(t: Any, a: Any) -> None:
    i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    a[i] = a[i] + 1


def run(kernel: Any, *types: Any, launches: int = 1, caches: Any = "off") -> Simulation:
    dev = gs.Device("tiny")
    arrays = [dev.to_device(np.ones(256, kind)) for kind in types]
    dev.forget_launches()
    for _ in range(launches):
        dev.launch(kernel, 4, 64, *arrays)
    return dev.simulate(caches=caches)


def places(sim: Simulation) -> list[tuple[float, float]]:
    """Operations per byte and GFLOP/s of all markers with a number."""
    ax = kernel_roofline(sim, "tiny")
    marked = [np.asarray(line.get_xydata()) for line in ax.lines if line.get_markersize() >= 15]
    return [(float(place[0, 0]), float(place[0, 1])) for place in marked]


@pytest.mark.parametrize("launches", [1, 3])
def test_without_caches_every_sector_comes_from_dram(launches: int) -> None:
    sim = run(add, f32, f32, launches=launches)
    # 256 lanes of an addition, which the chart takes for a multiply-add of 2 operations; 3 × 4 bytes each.
    ((intensity, gflops),) = places(sim)
    assert intensity == pytest.approx(2 / 12)
    assert gflops == pytest.approx(launches * 512 / sum(k.seconds for k in sim.kernels) / 1e9)
    assert kernel_roofline(sim, "tiny").get_title() == "Roofline of tiny (two SMs, round numbers)"


def test_with_caches_a_kernel_stands_once_for_each_memory_that_moved_anything() -> None:
    sim = run(add, f32, f32, caches="on")
    (kernel,) = sim.kernels
    assert (kernel.l1_sectors, kernel.l2_sectors, kernel.stored_sectors) == (64, 64, 32)
    found = [(512 / (32 * 96), 512 / (32 * 96)), (512 / kernel.dram_bytes,)]
    assert [x for x, _ in places(sim)] == pytest.approx([x for group in found for x in group])
    assert kernel_roofline(sim, "tiny").get_title().endswith(", by the bytes of DRAM, L2 and L1")
    ax = kernel_roofline(sim, "tiny")
    assert {text.get_text() for text in ax.texts} == {"1"}
    labels = ax.get_legend_handles_labels()[1]
    assert [label for label in labels if label.startswith("by")] == [
        f"by the bytes of {m}" for m in ("DRAM", "L2", "L1")
    ]
    assert len({line.get_marker() for line in ax.lines if line.get_markersize() >= 15}) == 3


def test_kernels_of_tensor_cores_are_left_out() -> None:
    sim = run(add, f32, f32)
    (kernel,) = sim.kernels
    tensor = replace(kernel, name="mma", instructions=kernel.instructions | {"tensor": 1})
    ax = kernel_roofline(replace(sim.timeline, kernels=(kernel, tensor)), "tiny")
    assert [label for label in ax.get_legend_handles_labels()[1] if label[0].isdigit()] == ["1  add"]


def test_whole_numbers_count_where_there_are_no_others() -> None:
    labels = kernel_roofline(run(count_up, np.int32), "tiny").get_legend_handles_labels()[1]
    assert any(label.startswith("int: ") for label in labels)
    assert not any(label.startswith("fp32: ") for label in labels)


def test_a_report_of_no_known_gpu_has_none(tmp_path: Path) -> None:
    sim = Simulation(run(add, f32, f32).timeline, "simpy")
    assert "roofline.png" not in [path.name for path in sim.report(tmp_path)]


def test_a_run_that_computes_nothing_is_refused() -> None:
    dev = gs.Device("tiny")
    dev.to_device(np.ones(4, f32))
    with pytest.raises(ValueError, match="no kernel of this run both computes and moves bytes"):
        kernel_roofline(dev.simulate(), "tiny")


def test_a_report_has_it(tmp_path: Path) -> None:
    assert tmp_path / "roofline.png" in run(add, f32, f32).report(tmp_path)


def test_a_memory_whose_roof_is_not_drawn_is_refused() -> None:
    roofs = gs.analytic.roofs("tiny")
    point = gs.views.RooflinePoint("add", 1.0, 1e9, memory="L2")
    with pytest.raises(ValueError, match="add uses 'L2', whose roof is not drawn: add it to memory"):
        gs.views.roofline(roofs, [point])
    ax = gs.views.roofline(roofs, [point, gs.views.RooflinePoint("add", 2.0, 1e9)], memory=("DRAM", "L2"))
    assert [text.get_text() for text in ax.texts] == ["1", "1"]

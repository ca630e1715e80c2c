"""Bank passes of strided loads against an H200: cycles per warp load when every load hits the L1 cache.

Source: RRZE-HPC, gpu-benches, gpu-strides/h200.txt; lane i reads element i * stride. The L1 data stage has the same 32
banks of 4 bytes as shared memory, so its passes are a floor under the cycles, and are the cycles wherever the tag
stage (sectors in more lines than one) is not slower.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from gpusim_des.functional.coalescing import wavefronts


class Measured(NamedTuple):
    itemsize: int
    data_wavefronts: list[int]
    cycles: list[float]
    """Per warp load, for strides 0 to 15."""


H200 = [
    Measured(
        4,
        [1, 1, 2, 1, 4, 1, 2, 1, 8, 1, 2, 1, 4, 1, 2, 1],
        [1.01, 1.01, 2.01, 1.63, 4.01, 2.00, 2.32, 2.41, 8.00, 3.00, 3.16, 3.41, 4.01, 4.10, 4.25, 4.60],
    ),
    Measured(
        8,
        [2, 2, 4, 2, 8, 2, 4, 2, 16, 2, 4, 2, 8, 2, 4, 2],
        [2.01, 2.01, 4.01, 2.32, 8.00, 3.16, 4.01, 4.32, 16.0, 5.30, 5.50, 6.00, 8.00, 7.00, 7.00, 8.00],
    ),
]


def passes(itemsize: int, stride: int) -> int:
    lanes = np.arange(32, dtype=np.int64)[None, :]
    return int(wavefronts(lanes * itemsize * stride, itemsize, None)[0])


@pytest.mark.parametrize("measured", H200, ids=["float", "double"])
def test_strided_loads_need_the_passes_measured_on_an_h200(measured: Measured) -> None:
    assert [passes(measured.itemsize, stride) for stride in range(16)] == measured.data_wavefronts


@pytest.mark.parametrize("measured", H200, ids=["float", "double"])
def test_no_load_is_faster_on_the_h200_than_its_passes(measured: Measured) -> None:
    found = [passes(measured.itemsize, stride) for stride in range(16)]
    assert all(cycles >= 0.995 * ours for cycles, ours in zip(measured.cycles, found, strict=True))


@pytest.mark.parametrize("measured", H200, ids=["float", "double"])
def test_conflicts_that_outweigh_the_tag_stage_take_their_passes_in_cycles(measured: Measured) -> None:
    heavy = [0, 1, 2, 4, 8, 12]
    found = [passes(measured.itemsize, stride) for stride in heavy]
    assert found == pytest.approx([measured.cycles[stride] for stride in heavy], rel=0.02)

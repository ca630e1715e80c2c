"""What a device refuses at launch and in memory beyond the shapes of a launch, and what it forgets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpusim_des as gs
from gpusim_des.functional import host_memory
from gpusim_des.gpu import misfit
from tests.kernels import assert_usable, scale


@pytest.fixture
def dev() -> gs.Device:
    return gs.Device("h100-sxm")


def test_a_launch_of_which_no_block_fits_is_refused_and_leaves_no_trace(dev: gs.Device) -> None:
    a = dev.to_device(np.ones(32, dtype=np.float32))
    message = (
        r"too many resources requested for launch of 'scale': a block of 1024 threads with 255 registers each takes "
        r"262,144 registers, but there are 65,536 for a block and 65,536 on an SM of h100-sxm; use at most 64 "
        r"registers per thread or at most 256 threads per block \(limiter: registers\)"
    )
    with pytest.raises(gs.LaunchError, match=message):
        dev.launch(scale, 1, 1024, a, 32, registers=255)
    assert dev.launches == []
    assert dev.to_host(a).tolist() == [1.0] * 32
    assert_usable(dev)


def test_the_remedies_of_a_misfit_are_the_largest_that_fit() -> None:
    gpu = gs.load_gpu("h100-sxm")
    assert "at most 64 registers" in misfit(gpu, 1024, 255, 0)
    assert gs.analytic.occupancy(gpu, 1024, 64).blocks_per_sm == 1
    assert gs.analytic.occupancy(gpu, 1024, 65).blocks_per_sm == 0
    assert gs.analytic.occupancy(gpu, 256, 255).blocks_per_sm == 1
    assert gs.analytic.occupancy(gpu, 257, 255).blocks_per_sm == 0


def test_forgotten_launches_are_not_timed_but_memory_stays(dev: gs.Device) -> None:
    a = dev.to_device(np.ones(64, dtype=np.float32))
    held = dev.launches
    dev.launch(scale, 1, 64, a, 64)
    dev.forget_launches()
    with pytest.raises(gs.LaunchError, match="nothing to simulate"):
        dev.simulate()
    dev.launch(scale, 2, 32, a, 64)
    assert [kernel.blocks for kernel in dev.simulate().kernels] == [2]
    assert dev.to_host(a).tolist() == [4.0] * 64
    assert len(held) == 1


def test_a_full_host_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system does not tell how much it has left, NumPy finds out."""
    monkeypatch.setattr(host_memory, "available_bytes", lambda: None)
    dev = gs.Device(gs.load_gpu("tiny").replace(memory_bytes=2**60))
    message = (
        r"host has no memory for an array of shape \(72057594037927936,\) and type float64: simulated device memory "
        r"lives in host memory \(Unable to allocate 512. PiB .*\); free some"
    )
    with pytest.raises(gs.DeviceMemoryError, match=message):
        dev.malloc(2**56, np.float64)
    with pytest.raises(gs.DeviceMemoryError, match=r"shape \(1152921504606846976,\) and type int8: simulated"):
        dev.to_device(np.broadcast_to(np.int8(1), 2**60))
    assert dev.leaks() == []


@pytest.mark.parametrize(("value", "kind"), [([1.0, 2.0], "list"), ((1, 2), "tuple")])
def test_host_lists_are_no_arguments(dev: gs.Device, value: Any, kind: str) -> None:
    message = rf"argument 'data' of kernel 'scale' is a {kind} on the host: copy it first, data = dev.to_device\(data\)"
    with pytest.raises(gs.DeviceMemoryError, match=message):
        dev.launch(scale, 1, 32, value, 32)
    assert dev.launches == []
    assert_usable(dev)

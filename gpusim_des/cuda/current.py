"""The device that ``cuda`` works on: there is one at a time, an H100 where nobody has chosen another."""

from __future__ import annotations

from os import PathLike
from typing import NamedTuple

from gpusim_des.device import Device
from gpusim_des.errors import LaunchError
from gpusim_des.gpu import GPU
from gpusim_des.grid import WARP_SIZE

DEFAULT_GPU = "h100-sxm"


class _Current:
    """Holds the device in use."""

    device: Device | None = None


def device() -> Device:
    """Return the `Device` in use: its launches, its memory, its simulated time.

    Examples
    --------
    >>> from gpusim_des import cuda
    >>> cuda.select("tiny")
    <gpusim_des.device.Device ...>
    >>> @cuda.jit
    ... def double(a):
    ...     i = cuda.grid(1)
    ...     if i < a.size:
    ...         a[i] *= 2
    >>> import numpy as np
    >>> x = np.arange(100, dtype=np.float32)
    >>> double[2, 64](x)
    >>> x[-1], cuda.device().launches[-1].counters.global_load_sectors, cuda.device().simulate().kernels[0].name
    (np.float32(198.0), 13, 'double')
    """
    if _Current.device is None:
        _Current.device = Device(DEFAULT_GPU)
    return _Current.device


def select(gpu: str | PathLike[str] | GPU | Device = DEFAULT_GPU) -> Device:
    """Use another device from now on: a `Device`, or a new one with this GPU; arrays of the old one stay there.

    Raises
    ------
    ModelError
        For a GPU that there is not.
    """
    _Current.device = gpu if isinstance(gpu, Device) else Device(gpu)
    return _Current.device


def select_device(device_id: int = 0) -> DeviceInfo:
    """Return what `get_current_device` does: there is one device, number 0.

    Raises
    ------
    LaunchError
        For another number; `select` takes the name of a GPU.
    """
    if device_id != 0:
        raise LaunchError(
            f"select_device({device_id!r}): there is device 0 only; cuda.select('a100-sxm-80gb') changes it"
        )
    return get_current_device()


class DeviceInfo(NamedTuple):
    """What programs ask of a GPU, under the names of the CUDA driver."""

    name: str
    compute_capability: tuple[int, int]
    MULTIPROCESSOR_COUNT: int
    WARP_SIZE: int
    MAX_THREADS_PER_BLOCK: int
    MAX_SHARED_MEMORY_PER_BLOCK: int
    id: int = 0


def get_current_device() -> DeviceInfo:
    """Return what is known of the GPU in use.

    Examples
    --------
    >>> from gpusim_des import cuda
    >>> _ = cuda.select("a100-sxm-80gb")
    >>> cuda.get_current_device().MULTIPROCESSOR_COUNT, cuda.get_current_device().compute_capability
    (108, (8, 0))
    """
    gpu = device().gpu
    major, _, minor = gpu.compute_capability.partition(".")
    known = major.isdigit() and minor.isdigit()  # not in the model for tests
    return DeviceInfo(
        gpu.name,
        (int(major), int(minor)) if known else (0, 0),
        gpu.sms,
        WARP_SIZE,
        gpu.max_threads_per_block,
        gpu.shared_bytes_per_block,
    )


def is_available() -> bool:
    """Tell that there is a GPU: there always is."""
    return True

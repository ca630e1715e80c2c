"""One-liners: a kernel on plain NumPy arrays, without a device in the user's hands."""

from __future__ import annotations

from itertools import combinations
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpusim_des.device import Device
from gpusim_des.errors import DeviceMemoryError, LaunchError
from gpusim_des.functional.block_kernel import KernelFunction
from gpusim_des.functional.memory import DeviceArray
from gpusim_des.gpu import GPU
from gpusim_des.grid import DimLike
from gpusim_des.launched import Launch

HostArray = NDArray[Any]


def launch(
    kernel: KernelFunction,
    grid: DimLike,
    block: DimLike,
    *args: Any,
    gpu: str | PathLike[str] | GPU = "h100-sxm",
    **options: Any,
) -> Launch:
    """Run a kernel on NumPy arrays: they are copied to a new device, and back where the kernel changed them.

    An array that is given twice is one array on the device too. To find the time of a launch, or to keep arrays on
    the device from one launch to the next, use a `Device`.

    Parameters
    ----------
    kernel, grid, block
        As for `Device.launch`.
    args
        The kernel's arguments: NumPy arrays, strided ones too, and numbers, which an array without dimensions is.
    gpu
        The model to run on: a name, the path of a TOML file, or a `GPU`.
    options
        As for `Device.launch`: ``registers``, ``dynamic_shared``, ``count``, …

    Raises
    ------
    DeviceMemoryError
        If the kernel wrote to an array that is read-only, or two arguments are different views of the same memory.
    LaunchError
        For a ``sample``: the arrays would come back with poison in them.
    SimError
        As `Device.launch`; the arrays are unchanged then.

    Examples
    --------
    >>> import gpusim_des as gs
    >>> @gs.kernel
    ... def double(t, a, n):
    ...     i = t.blockIdx.x * t.blockDim.x + t.threadIdx.x
    ...     if i < n:
    ...         a[i] = 2 * a[i]
    >>> x = np.arange(100, dtype=np.float32)
    >>> gs.launch(double, gs.cdiv(100, 64), 64, x, 100).counters.global_load_sectors, x[-2:].tolist()
    (13, [196.0, 198.0])
    """
    if options.get("sample") is not None:
        raise LaunchError(
            f"sample = {options['sample']!r}: gs.launch copies results back, and a sample leaves poison in them; use "
            "dev = gs.Device(gpu) and dev.launch(..., sample=...), or leave it out"
        )
    dev = Device(gpu)
    names = kernel.parameters if isinstance(kernel, KernelFunction) else ()
    hosts: dict[int, tuple[str, HostArray]] = {}
    for number, value in enumerate(args):
        if isinstance(value, np.ndarray) and value.ndim:
            hosts.setdefault(id(value), (names[number] if number < len(names) else f"#{number + 1}", value))
    refuse_views_of_one_array(list(hosts.values()))
    copies = {key: dev.to_device(host, name) for key, (name, host) in hosts.items()}
    arguments = [copies.get(id(value), value[()] if isinstance(value, np.ndarray) else value) for value in args]
    done = dev.launch(kernel, grid, block, *arguments, **options)
    written = [(name, host, copies[key]) for key, (name, host) in hosts.items() if not _same(host, copies[key])]
    for name, host, _ in written:
        if not host.flags.writeable:
            raise DeviceMemoryError(
                f"the kernel wrote to argument {name!r}, which is a read-only array: its results cannot be copied "
                f"back; pass a copy, {name}.copy()"
            )
    for _, host, array in written:
        host[...] = array.flat.reshape(host.shape)
    return done


def _same(host: HostArray, array: DeviceArray) -> bool:
    """Tell whether every byte is still what was copied in; a NaN equals itself here."""
    before = np.ascontiguousarray(host).reshape(-1).view(np.uint8)
    return np.array_equal(before, array.flat.view(np.uint8))


def refuse_views_of_one_array(hosts: list[tuple[str, HostArray]]) -> None:
    """Refuse arguments, each a name and an array, that are different views of the same memory."""
    for (first, a), (second, b) in combinations(hosts, 2):
        if np.shares_memory(a, b):
            raise DeviceMemoryError(
                f"arguments {first!r} and {second!r} are views of the same memory: on the device they would be two "
                "arrays; pass a copy of one of them, or the whole array once"
            )

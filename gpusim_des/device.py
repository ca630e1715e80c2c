"""The device: memory, launches that compute right results, and the simulation of everything it was asked to do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from gpusim_des.errors import DeviceMemoryError, LaunchError
from gpusim_des.functional.block_kernel import BlockKernel
from gpusim_des.functional.counters import Counters
from gpusim_des.functional.executor import execute
from gpusim_des.functional.machine import Counting
from gpusim_des.functional.memory import DeviceArray, DeviceMemory
from gpusim_des.gpu import GPU, load_gpu, misfit, occupancy
from gpusim_des.grid import DimLike, LaunchConfig
from gpusim_des.simulation import Simulation
from gpusim_des.timing.probe import Detail
from gpusim_des.timing.simpy_engine import Progress
from gpusim_des.timing.simulate import Caches, Engine, simulate
from gpusim_des.trace import KernelTrace

ASSUMED_REGISTERS = 32
"""Registers per thread where a launch does not say (W5)."""


@dataclass(frozen=True)
class Launch:
    """One finished launch: its results are in device memory, its time is found by `Device.simulate`."""

    name: str
    config: LaunchConfig
    counters: Counters
    trace: KernelTrace


class Device:
    """A GPU to run kernels on.

    Parameters
    ----------
    gpu
        Name of a model (``"h100-sxm"``), path of a TOML file, or a `GPU`.

    Examples
    --------
    >>> import gpusim_des as gs
    >>> @gs.block_kernel
    ... def double(blk, a, n):
    ...     i = blk.bx * blk.bdx + blk.tx
    ...     m = i < n
    ...     blk.store(a, i, 2 * blk.load(a, i, mask=m), mask=m)
    >>> dev = gs.Device("tiny")
    >>> a = dev.to_device(np.arange(100, dtype=np.float32))
    >>> launch = dev.launch(double, gs.cdiv(100, 64), 64, a, 100)
    >>> dev.to_host(a)[-2:].tolist(), launch.counters.global_load_sectors
    ([196.0, 198.0], 13)
    >>> dev.simulate().kernels[0].name
    'double'
    """

    def __init__(self, gpu: str | PathLike[str] | GPU) -> None:
        self.gpu = load_gpu(gpu)
        self.launches: list[Launch] = []
        self._memory = DeviceMemory(self.gpu.memory_bytes)
        self._running: str | None = None

    # Memory ---------------------------------------------------------------------------------------------------------

    def malloc(
        self, shape: int | tuple[int, ...], dtype: DTypeLike = np.float32, name: str | None = None
    ) -> DeviceArray:
        """Reserve an array in device memory; raises `DeviceMemoryError` for a bad shape or when memory is full.

        Simulated device memory lives in the memory of the host, so it is full as well when the host's is.
        """
        try:
            return self._memory.allocate(shape, dtype, name)
        except MemoryError as error:
            raise DeviceMemoryError(
                f"the host has no memory for an array of shape {shape!r} and type {np.dtype(dtype)}: simulated device "
                f"memory lives in host memory ({error or 'MemoryError'}); free some with dev.free(array), "
                "or simulate a smaller problem"
            ) from None

    def free(self, array: DeviceArray) -> None:
        """Give an array's memory back; raises `DeviceMemoryError` if it was freed before or is another device's."""
        self._check_type(array)
        self._memory.free(array)

    def to_device(self, data: ArrayLike, name: str | None = None) -> DeviceArray:
        """Copy a host array to a new device array of the same shape and type."""
        host = np.asarray(data)
        if host.size == 0:
            raise DeviceMemoryError(f"array of shape {host.shape}: there is nothing to copy")
        array = self.malloc(host.shape or (1,), host.dtype, name)
        array.flat[:] = host.reshape(-1)
        return array

    def to_host(self, array: DeviceArray) -> NDArray[Any]:
        """Copy a device array back; returns a new host array of the same shape and type."""
        self._check(array)
        return array.flat.reshape(array.shape).copy()

    @property
    def used_bytes(self) -> int:
        """Device memory in use."""
        return self._memory.used_bytes

    @property
    def peak_bytes(self) -> int:
        """Largest use of device memory so far."""
        return self._memory.peak_bytes

    @staticmethod
    def _check_type(array: object) -> None:
        if not isinstance(array, DeviceArray):
            raise DeviceMemoryError(
                f"{type(array).__name__} is no device array: make one with dev.to_device(data) or dev.malloc(shape)"
            )

    def _check(self, array: DeviceArray) -> None:
        self._check_type(array)
        array.flat  # noqa: B018 - refuses an array that was freed
        if not self._memory.owns(array):
            raise DeviceMemoryError(f"array {array.name!r} belongs to another device: use it there")

    # Launch ---------------------------------------------------------------------------------------------------------

    def launch(
        self,
        kernel: BlockKernel,
        grid: DimLike,
        block: DimLike,
        *args: Any,
        registers: int | None = None,
        dynamic_shared: int = 0,
        count: Counting = "auto",
        progress: Callable[[int, int], None] | None = None,
    ) -> Launch:
        """Run a kernel now: results in device memory, counters and trace in the `Launch` that comes back.

        Parameters
        ----------
        kernel
            A function marked with `block_kernel`.
        grid, block
            Blocks in the grid and threads in a block: a number or a tuple (x, y, z).
        args
            The kernel's arguments: device arrays of this device, and numbers.
        registers
            Registers per thread; 32 where not given, which the report calls an assumption.
        dynamic_shared
            Dynamic shared memory per block in bytes; it limits how many blocks fit on an SM.
        count
            ``"auto"`` counts every operator by the instruction table, ``"declared"`` only loads, stores, barriers,
            branches, shuffles and `compute`.
        progress
            Called with the blocks done and the blocks in all.

        Raises
        ------
        LaunchError
            For a launch that the GPU would refuse, also because not one of its blocks fits on an SM.
        KernelError
            For a wrong kernel; `BoundsError`, `MaskError` and `DeadlockError` are its kinds.
        DeviceMemoryError
            For an array that was freed or lives on another device, or a host array, list or tuple among the arguments.
        """
        if not isinstance(kernel, BlockKernel):
            raise TypeError(f"{kernel!r} is no kernel: mark the function with @gs.block_kernel")
        if count not in get_args(Counting):
            raise ValueError(f"count = {count!r}: possible are {', '.join(map(repr, get_args(Counting)))}")
        config = LaunchConfig.of(grid, block, self.gpu.max_threads_per_block)
        if not isinstance(dynamic_shared, int | np.integer) or dynamic_shared < 0:
            raise LaunchError(f"dynamic_shared = {dynamic_shared!r}: a whole number of bytes, at least 0")
        used = ASSUMED_REGISTERS if registers is None else registers
        if not isinstance(used, int | np.integer) or used < 1:
            raise LaunchError(f"registers = {used!r}: a whole number of registers per thread, at least 1")
        shape = config.threads_per_block, int(used), int(dynamic_shared)
        if occupancy(self.gpu, *shape).blocks_per_sm == 0:  # and refuses what is beyond a limit of its own
            raise LaunchError(f"too many resources requested for launch of {kernel.name!r}: {misfit(self.gpu, *shape)}")
        arguments = kernel.bind(args)
        for name, value in arguments.items():
            self._check_argument(kernel, name, value)
        self._refuse_launch_from_kernel(kernel)
        assumed = () if registers is not None else (f"{ASSUMED_REGISTERS} registers per thread (not given at launch)",)
        self._running = kernel.name
        try:
            counters, trace = execute(
                kernel,
                config,
                arguments,
                counting=count,
                registers=int(used),
                shared_limit_bytes=self.gpu.shared_bytes_per_block_optin,
                dynamic_shared_bytes=int(dynamic_shared),
                assumptions=assumed,
                progress=progress,
            )
        finally:
            self._running = None
        done = Launch(kernel.name, config, counters, trace)
        self.launches.append(done)
        return done

    def _refuse_launch_from_kernel(self, kernel: BlockKernel) -> None:
        if self._running is not None:
            raise LaunchError(
                f"kernel {self._running!r} launches {kernel.name!r}: a kernel cannot launch another one here; "
                "launch both from the host, one after the other"
            )

    def _check_argument(self, kernel: BlockKernel, name: str, value: object) -> None:
        if isinstance(value, DeviceArray):
            self._check(value)
        elif isinstance(value, np.ndarray) and value.ndim:
            raise DeviceMemoryError(
                f"argument {name!r} of kernel {kernel.name!r} is a host array: "
                f"copy it first, {name} = dev.to_device({name})"
            )
        elif isinstance(value, list | tuple):
            raise DeviceMemoryError(
                f"argument {name!r} of kernel {kernel.name!r} is a {type(value).__name__} on the host: copy it "
                f"first, {name} = dev.to_device({name}), or pass its numbers one by one"
            )

    def forget_launches(self) -> None:
        """Leave the launches so far out of later simulations; device memory and its contents stay.

        Use it after kernels that only prepare data, or between two measurements on one device.
        """
        self.launches = []  # a new list: whoever holds the old one keeps it

    # Time -----------------------------------------------------------------------------------------------------------

    def simulate(
        self,
        *,
        engine: Engine = "auto",
        caches: Caches = "off",
        detail: Detail = "sm",
        progress: Progress | None = None,
    ) -> Simulation:
        """Find the time of everything launched so far, one kernel after another.

        "So far" begins anew with `forget_launches`.

        ``detail`` is ``"kernel"`` (totals), ``"sm"`` (spans of blocks as well) or ``"warp"`` (states and instructions
        of every warp as well). ``caches="off"`` sends every sector to HBM; the cache hierarchy is not modelled yet.

        Raises
        ------
        LaunchError
            If nothing was launched, or the shared memory that a kernel allocated itself leaves no block room on an SM.
        DeadlockError
            If warps wait for each other forever.
        """
        if not self.launches:
            raise LaunchError("nothing to simulate: launch a kernel first, dev.launch(kernel, grid, block, ...)")
        traces = [launch.trace for launch in self.launches]
        timeline = simulate(self.gpu, traces, engine=engine, caches=caches, detail=detail, progress=progress)
        return Simulation(timeline, "simpy")

"""One configuration: a kernel with a GPU, a grid, a block, resources, arguments and a policy; how it is measured."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gpusim_des.device import Device
from gpusim_des.errors import (
    BarrierWarning,
    IndexOverflowWarning,
    KernelError,
    LaunchError,
    ModelError,
    RaceWarning,
    SimError,
    UnwrittenReadWarning,
    UsageError,
)
from gpusim_des.functional.block_kernel import KernelFunction
from gpusim_des.functional.sampling import SampleSize
from gpusim_des.functional.watch import RaceCheck
from gpusim_des.gpu import GPU
from gpusim_des.gpu.schema import suggest
from gpusim_des.grid import MAX_BLOCK, MAX_GRID, Dim3, DimLike, dim3
from gpusim_des.launched import Launch
from gpusim_des.simulation import Simulation
from gpusim_des.sweeps.argument import ArraySpec, make_arguments, plain_numbers
from gpusim_des.sweeps.expression import evaluate
from gpusim_des.timing.choice import Engine
from gpusim_des.timing.probe import Detail
from gpusim_des.timing.simulate import Caches

MISTAKES = (RaceWarning, BarrierWarning, IndexOverflowWarning, UnwrittenReadWarning)
"""Warnings of what a launch lists as its mistakes."""

Size = str | DimLike
"""A grid or block: numbers, or an expression such as ``cdiv(n, block)``."""


@dataclass(frozen=True)
class Configuration:
    """What one run needs to know beside the kernel; `args` in the order of the kernel's parameters."""

    gpu: GPU
    grid: Size
    block: Size
    args: Mapping[str, Any] = field(default_factory=dict)
    sms: int | None = None
    """SMs of a slice of the GPU; ``None``: all."""
    policy: str | None = None
    """Order in which warp schedulers choose; ``None``: as the GPU model has it."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Parameters of the GPU that are changed, as for `GPU.replace`, before it is sliced."""
    registers: int | None = None
    shared: int = 0
    """Dynamic shared memory per block, bytes."""
    caches: Caches = "on"
    engine: Engine = "auto"
    sample: SampleSize | None = None
    races: RaceCheck = "shared"
    """Where to look for races between threads."""


def chip_of(c: Configuration) -> GPU:
    """Return the GPU of a configuration, changed and sliced.

    Raises
    ------
    ModelError
        For values that it cannot have.

    Examples
    --------
    >>> from gpusim_des.gpu import load_gpu
    >>> chip = chip_of(Configuration(load_gpu("tiny"), 1, 32, sms=1, policy="lrr", parameters={"fp32_lanes": 8}))
    >>> chip.sms, chip.scheduler_policy, chip.pipe("fp32").lanes
    (1, 'lrr', 8)
    """
    changes = {**c.parameters, **({} if c.policy is None else {"scheduler_policy": c.policy})}
    gpu = c.gpu.replace(**changes) if changes else c.gpu
    if c.sms is None:
        return gpu
    if not 1 <= c.sms <= gpu.sms:
        raise ModelError(f"sms = {c.sms}: {gpu.title} has {gpu.sms}; must lie between 1 and {gpu.sms}")
    return gpu.slice(sms=c.sms)


class Measured(NamedTuple):
    """A launch and its time."""

    launch: Launch
    simulation: Simulation


class Shape(NamedTuple):
    """Sizes of a configuration, computed."""

    grid: Dim3
    block: Dim3


def shape_of(kernel: KernelFunction, c: Configuration) -> Shape:
    """Compute the sizes.

    A grid may use the arguments, ``block`` (threads of a block), ``block_x``, ``block_y`` and ``block_z``; a block the
    arguments.

    Raises
    ------
    UsageError
        For arguments that the kernel does not have, or lacks, and sizes that cannot be computed.
    LaunchError
        For a grid or block outside the limits.
    """
    check_arguments(kernel, c.args)
    sizes = plain_numbers(c.args)
    block = dim3(_size(c.block, sizes, "block"), "block", MAX_BLOCK)
    sizes |= {"block_x": block.x, "block_y": block.y, "block_z": block.z, "block": block.size}
    return Shape(dim3(_size(c.grid, sizes, "grid"), "grid", MAX_GRID), block)


def check_arguments(kernel: KernelFunction, args: Mapping[str, Any]) -> None:
    """Refuse names that are no arguments of the kernel, and arguments that are missing; raises `UsageError`."""
    unknown = next((name for name in args if name not in kernel.parameters), None)
    if unknown is not None:
        raise UsageError(f"kernel {kernel.name!r} has no argument {unknown!r}: {suggest(unknown, kernel.parameters)}")
    missing = [name for name in required(kernel) if name not in args]
    if missing:
        raise UsageError(
            f"kernel {kernel.name!r} takes ({', '.join(kernel.parameters)}), and {', '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} missing: give for example {missing[0]}=f32[1024]:random or "
            f"{missing[0]}=1024"
        )


def _size(size: Size, names: Mapping[str, object], what: str) -> DimLike:
    return evaluate(size, names, what) if isinstance(size, str) else size


def measure(
    kernel: KernelFunction,
    c: Configuration,
    *,
    detail: Detail = "kernel",
    copies: bool = False,
    executing: Callable[[int, int], None] | None = None,
    simulating: Callable[[str, int, int], None] | None = None,
) -> Measured:
    """Run and time a configuration on a device of its own; caches are cold.

    The launch lists the kernel's mistakes, such as races; nothing warns of them.

    Parameters
    ----------
    kernel, c
        What to run.
    detail
        As for `Device.simulate`.
    copies
        Time the copies of the arrays to the device as well; otherwise the kernel alone.
    executing, simulating
        Called with blocks done and blocks in all, the latter with the kernel's name before them.

    Raises
    ------
    SimError
        As `Device.launch` and `Device.simulate`; a `KernelError` for an exception of the kernel's own code as well.
    """
    shape = shape_of(kernel, c)
    if c.shared < 0:
        raise LaunchError(f"shared = {c.shared}: bytes of dynamic shared memory, at least 0")
    dev = Device(chip_of(c))
    placed = {name: _place(dev, name, value) for name, value in make_arguments(c.args).items()}
    if not copies:
        dev.forget_launches()
    # The kernel takes its arguments by position; a parameter with a default may be left out at the end only.
    values = kernel_arguments(kernel, placed)
    try:
        with warnings.catch_warnings():
            for kind in MISTAKES:
                warnings.simplefilter("ignore", kind)
            launch = dev.launch(
                kernel,
                shape.grid,
                shape.block,
                *values,
                registers=c.registers,
                dynamic_shared=c.shared,
                sample=c.sample,
                races=c.races,
                progress=executing,
            )
    except (SimError, OSError, MemoryError):
        raise
    except (Exception, SystemExit) as error:  # sys.exit() in a kernel ends the kernel, not the sweep
        mine = kernel.function.__code__.co_filename
        line = next((f.lineno for f in traceback.extract_tb(error.__traceback__)[::-1] if f.filename == mine), None)
        if line is None:  # not the kernel's
            raise
        where = f"{kernel.name} in {Path(mine).name}, line {line}"
        raise KernelError(f"{where}: {type(error).__name__}: {error}") from error
    return Measured(launch, dev.simulate(engine=c.engine, caches=c.caches, detail=detail, progress=simulating))


def _place(dev: Device, name: str, value: Any) -> Any:
    if isinstance(value, ArraySpec):
        return dev.malloc(tuple(map(int, value.shape.split(","))), value.dtype, name)
    return dev.to_device(value, name) if isinstance(value, np.ndarray) and value.ndim else value


def required(kernel: KernelFunction) -> list[str]:
    """Names of the arguments that have no default."""
    defaults = len(kernel.function.__defaults__ or ())
    return list(kernel.parameters[: len(kernel.parameters) - defaults])


def kernel_arguments(kernel: KernelFunction, values: Mapping[str, Any]) -> list[Any]:
    """Values in the order of the parameters, defaults filled in where later ones are given."""
    defaults = kernel.function.__defaults__ or ()
    filled = dict(zip(kernel.parameters[len(kernel.parameters) - len(defaults) :], defaults, strict=True))
    return [values[name] if name in values else filled[name] for name in kernel.parameters]

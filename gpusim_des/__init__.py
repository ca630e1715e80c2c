"""A GPU performance simulator that needs no GPU.

Write a kernel, launch it on a `Device`, and see why it is fast or slow: ``dev.launch`` computes right results and
counts what a GPU would do, ``dev.simulate`` plays that on a discrete-event model of the chip.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gpusim_des.version import VERSION

if TYPE_CHECKING:
    from gpusim_des import analytic, cuda, experiment, views
    from gpusim_des.advice import Advice
    from gpusim_des.comparison import Comparison, ComparisonRow, compare
    from gpusim_des.device import Device
    from gpusim_des.errors import (
        BarrierWarning,
        BoundsError,
        CycleLimitError,
        DeadlockError,
        DeviceMemoryError,
        HostBufferChangedWarning,
        IndexOverflowWarning,
        KernelError,
        LaunchError,
        MaskError,
        ModelError,
        PageableCopyWarning,
        PendingWorkWarning,
        RaceWarning,
        ReadError,
        SampledResultWarning,
        SimError,
        SimulationInterrupted,
        StreamError,
        StreamRaceWarning,
        SweepError,
        SweepWarning,
        TraceError,
        UnwrittenReadWarning,
        UsageError,
    )
    from gpusim_des.functional.barriers import LeftBeforeBarrier
    from gpusim_des.functional.block_kernel import Block, BlockKernel, block_kernel
    from gpusim_des.functional.counters import Counters
    from gpusim_des.functional.estimated_counters import EstimatedCounters
    from gpusim_des.functional.fragments import Fragment
    from gpusim_des.functional.memory import DeviceArray
    from gpusim_des.functional.overflow import IndexOverflow
    from gpusim_des.functional.races import Race, RacingAccess
    from gpusim_des.functional.stream_races import StreamRace
    from gpusim_des.functional.thread_kernel import InterpretedWarning, ThreadKernel, kernel
    from gpusim_des.functional.transfers import CopyReport
    from gpusim_des.functional.type_names import (
        boolean,
        complex64,
        complex128,
        float32,
        float64,
        int8,
        int16,
        int32,
        int64,
        intp,
        uint8,
        uint16,
        uint32,
        uint64,
        uintp,
        void,
    )
    from gpusim_des.functional.unwritten import UnwrittenRead
    from gpusim_des.gpu import GPU, list_gpus, load_gpu
    from gpusim_des.graph import Graph
    from gpusim_des.grid import Dim3, cdiv
    from gpusim_des.launch_on_arrays import launch
    from gpusim_des.launched import Launch
    from gpusim_des.simulation import Simulation, load_result
    from gpusim_des.streams import Event, Stream
    from gpusim_des.sweeps.sweep import sweep
    from gpusim_des.sweeps.table import SweepTable
    from gpusim_des.timeline import KernelTiming, SampledTime, Timeline, WarpState

__version__ = VERSION

_HOMES = {
    "functional.barriers": ("LeftBeforeBarrier",),
    "functional.overflow": ("IndexOverflow",),
    "functional.races": ("Race", "RacingAccess"),
    "functional.unwritten": ("UnwrittenRead",),
    "advice": ("Advice",),
    "comparison": (
        "Comparison",
        "ComparisonRow",
        "compare",
    ),
    "device": ("Device",),
    "errors": (
        "BarrierWarning",
        "BoundsError",
        "CycleLimitError",
        "DeadlockError",
        "DeviceMemoryError",
        "HostBufferChangedWarning",
        "IndexOverflowWarning",
        "KernelError",
        "LaunchError",
        "MaskError",
        "ModelError",
        "PageableCopyWarning",
        "PendingWorkWarning",
        "RaceWarning",
        "ReadError",
        "SampledResultWarning",
        "SimError",
        "SimulationInterrupted",
        "StreamError",
        "StreamRaceWarning",
        "SweepError",
        "SweepWarning",
        "TraceError",
        "UnwrittenReadWarning",
        "UsageError",
    ),
    "functional.block_kernel": (
        "Block",
        "BlockKernel",
        "block_kernel",
    ),
    "functional.counters": ("Counters",),
    "functional.estimated_counters": ("EstimatedCounters",),
    "functional.fragments": ("Fragment",),
    "functional.memory": ("DeviceArray",),
    "functional.stream_races": ("StreamRace",),
    "functional.thread_kernel": (
        "InterpretedWarning",
        "ThreadKernel",
        "kernel",
    ),
    "functional.transfers": ("CopyReport",),
    "functional.type_names": (
        "boolean",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "intp",
        "uintp",
        "float32",
        "float64",
        "complex64",
        "complex128",
        "void",
    ),
    "gpu": (
        "GPU",
        "list_gpus",
        "load_gpu",
    ),
    "graph": ("Graph",),
    "grid": (
        "Dim3",
        "cdiv",
    ),
    "launch_on_arrays": ("launch",),
    "launched": ("Launch",),
    "simulation": (
        "Simulation",
        "load_result",
    ),
    "sweeps.sweep": ("sweep",),
    "sweeps.table": ("SweepTable",),
    "streams": (
        "Event",
        "Stream",
    ),
    "timeline": (
        "KernelTiming",
        "SampledTime",
        "Timeline",
        "WarpState",
    ),
}
"""Module → the public names that it makes."""

_MODULES = ("analytic", "cuda", "experiment", "views")
"""Modules that are public names themselves."""

__all__ = [
    "GPU",
    "Advice",
    "BarrierWarning",
    "Block",
    "BlockKernel",
    "BoundsError",
    "Comparison",
    "ComparisonRow",
    "CopyReport",
    "Counters",
    "CycleLimitError",
    "DeadlockError",
    "Device",
    "DeviceArray",
    "DeviceMemoryError",
    "Dim3",
    "EstimatedCounters",
    "Event",
    "Fragment",
    "Graph",
    "HostBufferChangedWarning",
    "IndexOverflow",
    "IndexOverflowWarning",
    "InterpretedWarning",
    "KernelError",
    "KernelTiming",
    "Launch",
    "LaunchError",
    "LeftBeforeBarrier",
    "MaskError",
    "ModelError",
    "PageableCopyWarning",
    "PendingWorkWarning",
    "Race",
    "RaceWarning",
    "RacingAccess",
    "ReadError",
    "SampledResultWarning",
    "SampledTime",
    "SimError",
    "Simulation",
    "SimulationInterrupted",
    "Stream",
    "StreamError",
    "StreamRace",
    "StreamRaceWarning",
    "SweepError",
    "SweepTable",
    "SweepWarning",
    "ThreadKernel",
    "Timeline",
    "TraceError",
    "UnwrittenRead",
    "UnwrittenReadWarning",
    "UsageError",
    "WarpState",
    "analytic",
    "block_kernel",
    "boolean",
    "cdiv",
    "compare",
    "complex64",
    "complex128",
    "cuda",
    "experiment",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "intp",
    "kernel",
    "launch",
    "list_gpus",
    "load_gpu",
    "load_result",
    "sweep",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "uintp",
    "views",
    "void",
]

_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Load what a public name stands for at its first use: ``gpusim-des --help`` need not wait for NumPy."""
    if name in _MODULES:
        return import_module(f"gpusim_des.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'gpusim_des' has no attribute {name!r}")
    value = getattr(import_module(f"gpusim_des.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

"""A GPU performance simulator that needs no GPU.

Write a kernel, launch it on a `Device`, and see why it is fast or slow: ``dev.launch`` computes right results and
counts what a GPU would do, ``dev.simulate`` plays that on a discrete-event model of the chip.
"""

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
    SampledResultWarning,
    SimError,
    SimulationInterrupted,
    StreamError,
    StreamRaceWarning,
    TraceError,
    UnwrittenReadWarning,
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
from gpusim_des.functional.unwritten import UnwrittenRead
from gpusim_des.gpu import GPU, list_gpus, load_gpu
from gpusim_des.graph import Graph
from gpusim_des.grid import Dim3, cdiv
from gpusim_des.launch import launch
from gpusim_des.launched import Launch
from gpusim_des.simulation import Simulation
from gpusim_des.streams import Event, Stream
from gpusim_des.timeline import KernelTiming, SampledTime, Timeline, WarpState

__version__ = "0.1.0"

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
    "SampledResultWarning",
    "SampledTime",
    "SimError",
    "Simulation",
    "SimulationInterrupted",
    "Stream",
    "StreamError",
    "StreamRace",
    "StreamRaceWarning",
    "ThreadKernel",
    "Timeline",
    "TraceError",
    "UnwrittenRead",
    "UnwrittenReadWarning",
    "WarpState",
    "analytic",
    "block_kernel",
    "cdiv",
    "compare",
    "cuda",
    "experiment",
    "kernel",
    "launch",
    "list_gpus",
    "load_gpu",
    "views",
]

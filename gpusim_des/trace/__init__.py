"""Contract 1, the trace: what every warp did, in program order, with dependencies and sector addresses (W1-W5).

The functional executor writes a `KernelTrace`, the timing model plays it. Warps that did the same share one
`Stream`; warps whose memory accesses have the same shape share one `Footprint` and differ only in their base sectors
(W3). Chunks of blocks live in memory up to a limit and in a temporary file beyond it (W4).
"""

from gpusim_des.trace.check import Amounts
from gpusim_des.trace.check_host import check_host
from gpusim_des.trace.host import (
    DEFAULT_STREAM,
    Command,
    CopyDirection,
    CopyMemory,
    GraphNode,
    HostProgram,
    HostStream,
    HostWork,
    LaunchGraph,
    LaunchKernel,
    RecordEvent,
    SetMemory,
    Synchronize,
    WaitEvent,
)
from gpusim_des.trace.kernel import KernelTrace, TraceChunk
from gpusim_des.trace.mma import MMA_TYPES, Mma
from gpusim_des.trace.operation import GLOBAL_OPS, LINE_BYTES, MEMORY_OPS, SECTOR_BYTES, SHARED_OPS, OpClass
from gpusim_des.trace.played import PlayedTrace
from gpusim_des.trace.sample import Gap, Run, Sample
from gpusim_des.trace.warp import Footprint, Instruction, Stream, WarpTrace
from gpusim_des.trace.work import MEASURES, active_lanes, instruction_counts, moved_sectors, work

__all__ = [
    "DEFAULT_STREAM",
    "GLOBAL_OPS",
    "LINE_BYTES",
    "MEASURES",
    "MEMORY_OPS",
    "MMA_TYPES",
    "SECTOR_BYTES",
    "SHARED_OPS",
    "Amounts",
    "Command",
    "CopyDirection",
    "CopyMemory",
    "Footprint",
    "Gap",
    "GraphNode",
    "HostProgram",
    "HostStream",
    "HostWork",
    "Instruction",
    "KernelTrace",
    "LaunchGraph",
    "LaunchKernel",
    "Mma",
    "OpClass",
    "PlayedTrace",
    "RecordEvent",
    "Run",
    "Sample",
    "SetMemory",
    "Stream",
    "Synchronize",
    "TraceChunk",
    "WaitEvent",
    "WarpTrace",
    "active_lanes",
    "check_host",
    "instruction_counts",
    "moved_sectors",
    "work",
]

"""A finished launch, as a user holds it."""

from __future__ import annotations

from dataclasses import dataclass

from gpusim_des.functional.counters import Counters
from gpusim_des.grid import LaunchConfig
from gpusim_des.trace import KernelTrace


@dataclass(frozen=True)
class Launch:
    """One finished launch: its results are in device memory, its time is found by `Device.simulate`."""

    name: str
    config: LaunchConfig
    counters: Counters
    trace: KernelTrace
    vectorized: bool = True
    """Many threads ran at once; false for a thread kernel that had to run thread by thread."""
    captured: bool = False
    """The launch went into a graph and has not run: counters and trace are empty. `Graph.launch` returns full ones."""

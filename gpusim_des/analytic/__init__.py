"""Formulas that predict performance on paper; experiments compare them with the simulation."""

from gpusim_des.analytic.latency import littles_law_bandwidth, warps_needed
from gpusim_des.analytic.occupancy import occupancy
from gpusim_des.analytic.overlap import Issue, blocking_seconds, launch_interval_seconds, pipeline_seconds
from gpusim_des.analytic.waves import Waves, waves

__all__ = [
    "Issue",
    "Waves",
    "blocking_seconds",
    "launch_interval_seconds",
    "littles_law_bandwidth",
    "occupancy",
    "pipeline_seconds",
    "warps_needed",
    "waves",
]

"""Formulas that predict performance on paper; experiments compare them with the simulation."""

from gpusim_des.analytic.latency import littles_law_bandwidth, warps_needed
from gpusim_des.analytic.occupancy import Change, next_better, occupancy
from gpusim_des.analytic.occupancy_curve import OccupancyArrays, OccupancyCurve, occupancy_arrays, what_if
from gpusim_des.analytic.overlap import Issue, blocking_seconds, launch_interval_seconds, pipeline_seconds
from gpusim_des.analytic.waves import Waves, waves

__all__ = [
    "Change",
    "Issue",
    "OccupancyArrays",
    "OccupancyCurve",
    "Waves",
    "blocking_seconds",
    "launch_interval_seconds",
    "littles_law_bandwidth",
    "next_better",
    "occupancy",
    "occupancy_arrays",
    "pipeline_seconds",
    "warps_needed",
    "waves",
    "what_if",
]

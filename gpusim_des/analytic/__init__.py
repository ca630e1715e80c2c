"""Formulas that predict performance on paper; experiments compare them with the simulation."""

from gpusim_des.analytic.latency import littles_law_bandwidth, warps_needed
from gpusim_des.analytic.occupancy import occupancy
from gpusim_des.analytic.overlap import Issue, blocking_seconds, launch_interval_seconds, pipeline_seconds
from gpusim_des.analytic.roofline import Roofline, roofline
from gpusim_des.analytic.tiling import matmul_loads
from gpusim_des.analytic.waves import Waves, waves

__all__ = [
    "Issue",
    "Roofline",
    "Waves",
    "blocking_seconds",
    "launch_interval_seconds",
    "littles_law_bandwidth",
    "matmul_loads",
    "occupancy",
    "pipeline_seconds",
    "roofline",
    "warps_needed",
    "waves",
]

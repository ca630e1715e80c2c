"""Formulas that predict performance on paper; experiments compare them with the simulation."""

from gpusim_des.analytic.latency import littles_law_bandwidth, warps_needed
from gpusim_des.analytic.occupancy import occupancy
from gpusim_des.analytic.waves import Waves, waves

__all__ = ["Waves", "littles_law_bandwidth", "occupancy", "warps_needed", "waves"]

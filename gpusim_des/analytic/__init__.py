"""Formulas that predict performance on paper; experiments compare them with the simulation."""

from gpusim_des.analytic.accesses import strided_passes, strided_sectors
from gpusim_des.analytic.estimate import Estimate, estimate, estimate_seconds
from gpusim_des.analytic.latency import bytes_needed, littles_law, littles_law_bandwidth, warps_needed
from gpusim_des.analytic.occupancy import Change, next_better, occupancy, shared_for_blocks
from gpusim_des.analytic.occupancy_curve import OccupancyArrays, OccupancyCurve, occupancy_arrays, what_if
from gpusim_des.analytic.overlap import Issue, blocking_seconds, launch_interval_seconds, pipeline_seconds
from gpusim_des.analytic.parallelism import arithmetic_interval, arithmetic_throughput, arithmetic_warps_needed
from gpusim_des.analytic.pcie import Link, copy_bandwidth, copy_seconds, half_bandwidth_bytes, link
from gpusim_des.analytic.quantization import Quantization, matmul_quantization, matmul_utilisation
from gpusim_des.analytic.queueing import closed_queue_seconds, md1_queue_length, md1_throughput, md1_wait
from gpusim_des.analytic.roofline import Roofline, roofline
from gpusim_des.analytic.roofs import Roofs, counted_operations, intensity, roofs
from gpusim_des.analytic.scaling import amdahl, fit_serial_fraction, gustafson, karp_flatt
from gpusim_des.analytic.tiling import (
    largest_square_tile,
    largest_tile,
    matmul_intensity,
    matmul_loads,
    tile_efficiency,
)
from gpusim_des.analytic.waves import Waves, list_schedule, wave_count, wave_utilisation, waves

__all__ = [
    "Change",
    "Estimate",
    "Issue",
    "Link",
    "OccupancyArrays",
    "OccupancyCurve",
    "Quantization",
    "Roofline",
    "Roofs",
    "Waves",
    "amdahl",
    "arithmetic_interval",
    "arithmetic_throughput",
    "arithmetic_warps_needed",
    "blocking_seconds",
    "bytes_needed",
    "closed_queue_seconds",
    "copy_bandwidth",
    "copy_seconds",
    "counted_operations",
    "estimate",
    "estimate_seconds",
    "fit_serial_fraction",
    "gustafson",
    "half_bandwidth_bytes",
    "intensity",
    "karp_flatt",
    "largest_square_tile",
    "largest_tile",
    "launch_interval_seconds",
    "link",
    "list_schedule",
    "littles_law",
    "littles_law_bandwidth",
    "matmul_intensity",
    "matmul_loads",
    "matmul_quantization",
    "matmul_utilisation",
    "md1_queue_length",
    "md1_throughput",
    "md1_wait",
    "next_better",
    "occupancy",
    "occupancy_arrays",
    "pipeline_seconds",
    "roofline",
    "roofs",
    "shared_for_blocks",
    "strided_passes",
    "strided_sectors",
    "tile_efficiency",
    "warps_needed",
    "wave_count",
    "wave_utilisation",
    "waves",
    "what_if",
]

"""Figures of simulations, and traces for other viewers.

Every figure function takes its data first, draws on ``ax`` or on a new figure, returns the Axes and never shows or
saves anything: ``views.save(views.timeline(sim), "run.png")`` does. A new figure is unknown to pyplot, so nothing needs
to be closed. For a window pass the Axes of ``plt.subplots(layout="constrained")``, which leaves room for the legend.
Matplotlib is imported at the first figure, not with the package.
"""

from gpusim_des.views.bars import bars
from gpusim_des.views.chrome_trace import chrome_trace, save_chrome_trace
from gpusim_des.views.comparison import Panel, comparison
from gpusim_des.views.curves import Curve, curves
from gpusim_des.views.figure import save
from gpusim_des.views.heat_map import heat_map
from gpusim_des.views.kernel_roofline import kernel_roofline, roofline_points
from gpusim_des.views.latency_curve import LatencyRow, latency_curve
from gpusim_des.views.laws import Law, Simulated, laws
from gpusim_des.views.measured import Measured, measured
from gpusim_des.views.occupancy_curve import occupancy_curve
from gpusim_des.views.over_time import active_warps, bandwidth, issue_utilization
from gpusim_des.views.palette import KERNEL_COLORS, STATE_STYLES, Style, kernel_color
from gpusim_des.views.perfetto_trace import save_perfetto_trace, save_trace
from gpusim_des.views.roofline import RooflinePoint, roofline
from gpusim_des.views.side_by_side import side_by_side
from gpusim_des.views.stalls import stalls
from gpusim_des.views.state_bars import compare_runs, line_stalls
from gpusim_des.views.streams import compare_streams, stream_timeline
from gpusim_des.views.timeline import timeline
from gpusim_des.views.warp_timeline import warp_timeline
from gpusim_des.views.waves_curve import waves_curve

__all__ = [
    "KERNEL_COLORS",
    "STATE_STYLES",
    "Curve",
    "LatencyRow",
    "Law",
    "Measured",
    "Panel",
    "RooflinePoint",
    "Simulated",
    "Style",
    "active_warps",
    "bandwidth",
    "bars",
    "chrome_trace",
    "compare_runs",
    "compare_streams",
    "comparison",
    "curves",
    "heat_map",
    "issue_utilization",
    "kernel_color",
    "kernel_roofline",
    "latency_curve",
    "laws",
    "line_stalls",
    "measured",
    "occupancy_curve",
    "roofline",
    "roofline_points",
    "save",
    "save_chrome_trace",
    "save_perfetto_trace",
    "save_trace",
    "side_by_side",
    "stalls",
    "stream_timeline",
    "timeline",
    "warp_timeline",
    "waves_curve",
]

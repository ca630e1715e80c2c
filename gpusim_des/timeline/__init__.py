"""Contract 2, the timeline: who did what when, and why everybody else waited.

The timing model writes these records through its probe; views, traces and tests read them. Times are integer
femtoseconds (rule T1) or SM clock cycles; the unit stands in every name.
"""

from gpusim_des.timeline.kernel import FS_PER_S, KernelTiming
from gpusim_des.timeline.metrics import Metric, metrics
from gpusim_des.timeline.operations import HostSpan, Operation
from gpusim_des.timeline.overlap import Overlap, overlap
from gpusim_des.timeline.records import BlockSpan, Cause, IssueEvent, StateSpan, WarpHistory
from gpusim_des.timeline.sampled import SampledTime
from gpusim_des.timeline.states import WarpState
from gpusim_des.timeline.timeline import HasTimeline, Timeline
from gpusim_des.timeline.why import WaitStep, why

__all__ = [
    "FS_PER_S",
    "BlockSpan",
    "Cause",
    "HasTimeline",
    "HostSpan",
    "IssueEvent",
    "KernelTiming",
    "Metric",
    "Operation",
    "Overlap",
    "SampledTime",
    "StateSpan",
    "Timeline",
    "WaitStep",
    "WarpHistory",
    "WarpState",
    "metrics",
    "overlap",
    "why",
]

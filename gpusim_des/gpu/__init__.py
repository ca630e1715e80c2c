"""GPU models: the numbers of a chip with their sources, and the rules by which it allocates its SMs."""

from gpusim_des.gpu.allocation import Occupancy, carveout_bytes, fit, misfit, occupancy, shared_for_blocks
from gpusim_des.gpu.change import PARAMETERS
from gpusim_des.gpu.compute_capability import named_capability, sm_limits
from gpusim_des.gpu.load import GPULike, WrittenEntry, capabilities, list_gpus, load_gpu, written_entries
from gpusim_des.gpu.model import GPU
from gpusim_des.gpu.parameters import PIPE_FRACTION, Pipe
from gpusim_des.gpu.schema import SCHEDULER_POLICIES
from gpusim_des.gpu.sm_limits import SMLimits

__all__ = [
    "GPU",
    "PARAMETERS",
    "PIPE_FRACTION",
    "SCHEDULER_POLICIES",
    "GPULike",
    "Occupancy",
    "Pipe",
    "SMLimits",
    "WrittenEntry",
    "capabilities",
    "carveout_bytes",
    "fit",
    "list_gpus",
    "load_gpu",
    "misfit",
    "named_capability",
    "occupancy",
    "shared_for_blocks",
    "sm_limits",
    "written_entries",
]

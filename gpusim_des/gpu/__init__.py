"""GPU models: the numbers of a chip with their sources, and the rules by which it allocates its SMs."""

from gpusim_des.gpu.allocation import Occupancy, misfit, occupancy
from gpusim_des.gpu.load import GPULike, list_gpus, load_gpu
from gpusim_des.gpu.model import GPU
from gpusim_des.gpu.parameters import PIPE_FRACTION, Pipe

__all__ = ["GPU", "PIPE_FRACTION", "GPULike", "Occupancy", "Pipe", "list_gpus", "load_gpu", "misfit", "occupancy"]
